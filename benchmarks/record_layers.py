"""`python3 benchmarks/record_layers.py --nsys NSYS OUT`: recordings with labelled modules, on a machine with a GPU and PyTorch, nothing else.

Of two programs, the emulator and a transformer whose modules are labelled by hooks (docs/layers.md): eager and labelled; graphs whose capture lies in
the recording, labelled; graphs without any label of layers. Then here, for each program: `python -m benchmarks.layers --recorded OUT`.
"""

from __future__ import annotations

import argparse
import importlib
import lzma
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

FIRST, LAST, STEPS = 20, 60, 70
_SERVE = [sys.executable, "-m", "tracediff_emulator", "--steps", str(STEPS)]
_HOOKS = [sys.executable, __file__, "--steps", str(STEPS)]
# name -> command, and whether all of the program is recorded: the capture of graphs comes before the steps
RUNS = {
    "emulator_eager": ([*_SERVE, "--eager", "--label-layers"], False),
    "emulator_creation": ([*_SERVE, "--graph", "--label-layers"], True),
    "emulator_graph": ([*_SERVE, "--graph"], False),
    "emulator_fused": ([*_SERVE, "--graph", "--fuse-gate-up"], False),
    "hooks_eager": ([*_HOOKS, "--program", "eager", "--label"], False),
    "hooks_creation": ([*_HOOKS, "--program", "graph", "--label"], True),
    "hooks_graph": ([*_HOOKS, "--program", "graph"], False),
}


def record(nsys: str, out: Path, name: str, seconds: int) -> None:
    """Record one run, export it and pack it."""
    command, whole = RUNS[name]
    window = [] if whole else ["-c", "cudaProfilerApi", "--capture-range-end=stop"]
    report = out / f"{name}.nsys-rep"
    environment = os.environ | {"TLLM_PROFILE_START_STOP": f"{FIRST}-{LAST}", "PYTHONPATH": str(Path.cwd())}
    subprocess.run(
        [nsys, "profile", "-o", str(report), "-f", "true", "-t", "cuda,nvtx", *window, "--cuda-graph-trace=node", "--sample=none", "--cpuctxsw=none", *command],
        check=True, env=environment, timeout=seconds,
    )  # fmt: skip
    export = out / f"{name}.sqlite"
    subprocess.run(
        [nsys, "export", "--type", "sqlite", "-f", "true", "-o", str(export), str(report)], check=True
    )
    with lzma.open(out / f"{name}.sqlite.xz", "wb", preset=1) as packed:
        packed.write(export.read_bytes())
    export.unlink()
    report.unlink()


def hooks(program: str, steps: int, *, label: bool) -> None:
    """The second program: a transformer of eight layers, a step a forward pass."""
    torch: Any = importlib.import_module("torch")
    torch.set_grad_enabled(False)
    torch.manual_seed(1)
    layer = torch.nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True, norm_first=True, dropout=0.0)
    model = torch.nn.TransformerEncoder(layer, 8, enable_nested_tensor=False).cuda().bfloat16()
    model.eval()
    torch.backends.mha.set_fastpath_enabled(False)  # it runs each layer as one operator, without its modules
    if label:
        label_modules(model, torch.cuda.nvtx)
    source = torch.randn(8, 64, 1024, device="cuda", dtype=torch.bfloat16)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        model(source), model(source)
    torch.cuda.synchronize()
    run: Callable[[], object] = partial(model, source)
    if program == "graph":
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            model(source)
        run = graph.replay
    for step in range(steps):
        if step == FIRST:
            torch.cuda.cudart().cudaProfilerStart()
        with torch.cuda.nvtx.range(f"step {step}"):
            run()
            torch.cuda.synchronize()
        if step == LAST:
            torch.cuda.cudart().cudaProfilerStop()


def label_modules(model: Any, nvtx: Any) -> None:
    """Push the name of each module around its forward. What a hook returns would replace arguments or results."""

    def push(name: str) -> Callable[..., None]:
        def hook(*arguments: object) -> None:
            nvtx.range_push(name)

        return hook

    def pop(*arguments: object) -> None:
        nvtx.range_pop()

    for name, module in model.named_modules():
        if name:
            module.register_forward_pre_hook(push(name))
            module.register_forward_hook(pop)


def main() -> None:
    """Record all runs, or be the second program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--nsys", default="nsys")
    parser.add_argument("--seconds", type=int, default=60, help="of a run, at most")
    parser.add_argument("--program", choices=("eager", "graph"))
    parser.add_argument("--label", action="store_true")
    parser.add_argument("--steps", type=int, default=STEPS)
    options = parser.parse_args()
    if options.program:
        hooks(options.program, options.steps, label=options.label)
        return
    options.out.mkdir(parents=True, exist_ok=True)
    for name in RUNS:
        try:
            record(options.nsys, options.out, name, options.seconds)
        except (subprocess.SubprocessError, OSError) as error:
            print(f"{name}: {error}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()

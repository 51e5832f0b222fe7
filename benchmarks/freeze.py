"""Save what every bundled capture gives, to hold two versions of the code against each other.

`python -m benchmarks.freeze save DIR` writes for every fixture pair, bundle and companion its result JSON, tables, Markdown, post-mortem,
page and terminal text, and for every single capture what `show` says. `python -m benchmarks.freeze diff OLD NEW` names the files that differ.
Only JSON and tables are numbers; the other outputs are words, and listed apart.
"""

from __future__ import annotations

import contextlib
import filecmp
import io
import os
import sys
import tomllib
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parent.parent
FIXTURES = ROOT / "fixtures"
NUMBERS = (".json", ".csv")
ALONE = (
    "ncu/",
    "trtexec/",
    "latencies/",
)  # two such files have reports of their own, without tables and post-mortem
CASES = """
demo-graph_fused        compare demo/graph_a demo/graph_fused
demo-graph_gc           compare demo/graph_a demo/graph_gc
demo-graph_a            compare demo/graph_a demo/graph_a
eager                   compare captures/eager_a1.sqlite.xz captures/eager_a2.sqlite.xz
sleep                   compare demo/graph_a captures/graph_sleep.sqlite.xz
steps                   compare pairs/base_1.sqlite.xz pairs/work95_1.sqlite.xz --steps 25-40
torch-eager_sleep       compare torch/eager_base.json.gz torch/eager_sleep.json.gz
torch-graph_gc          compare torch/graph_base.json.gz torch/graph_gc.json.gz
torch-graph_more        compare torch/graph_base.json.gz torch/graph_more.json.gz
torch-loop              compare torch/loop_a.json.gz torch/loop_b.json.gz
torch-nsys              compare torch/nsys_eager_base.sqlite.xz torch/eager_base.json.gz --force
system-gpu_sleep        compare system/gpu_plain.sqlite.xz system/gpu_sleep.sqlite.xz
system-mem_alloc        compare system/mem.sqlite.xz system/mem_alloc.sqlite.xz
system-metrics_gc       compare system/metrics_plain.sqlite.xz system/metrics_gc.sqlite.xz
system-metrics_slow     compare system/metrics_plain.sqlite.xz system/metrics_slow.sqlite.xz
system-nccl             compare system/nccl_32.sqlite.xz system/nccl_64.sqlite.xz
system-os_sleep         compare system/os_plain.sqlite.xz system/os_sleep.sqlite.xz
system-mpi              compare system/mpi_one.sqlite.xz system/mpi_three.sqlite.xz
ncu-quant               compare ncu/quant_scalar132.csv ncu/quant_vec1056.csv
ncu-gemm                compare ncu/gemm_two.csv ncu/gemm_fused.csv
ncu-spill               compare ncu/spill255.csv ncu/spill32.csv
ncu-trt                 compare ncu/trt_132.csv ncu/trt_1056.csv
ncu-beside              compare demo/graph_a demo/graph_fused --with baseline=ncu/gemm_two.csv --with candidate=ncu/gemm_fused.csv
trtexec                 compare trtexec/fp32 trtexec/fp16
latencies-same          compare latencies/same_1 latencies/same_2
latencies-more_5        compare latencies/same_1 latencies/more_5
latencies-double        compare latencies/same_1 latencies/double
latencies-warm          compare latencies/crowded latencies/warm
kpi                     compare demo/graph_a demo/graph_gc --with baseline=kpi/bench_streaming.json --with candidate=kpi/bench_speculative.json
"""  # name of a case, and the arguments of `tracediff` relative to fixtures/, without outputs


def cases() -> dict[str, list[str]]:
    """Those of `CASES`, every pair, bundle and single capture: name -> arguments."""
    found = {name: words for name, *words in map(str.split, CASES.strip().splitlines())}
    for pair in tomllib.loads((FIXTURES / "pairs" / "pairs.toml").read_text())["pair"]:
        sides = (",".join(pair[side]) for side in ("baseline", "candidate"))
        found[f"pair-{pair['name']}"] = ["compare", *sides]
    for bundle in sorted(path for path in (FIXTURES / "bundles").iterdir() if path.is_dir()):
        found[f"bundle-{bundle.name}"] = ["compare", f"bundles/{bundle.name}"]
    for folder in ("pairs", "captures", "system", "torch"):
        for file in sorted((FIXTURES / folder).glob("*.xz")) + sorted((FIXTURES / folder).glob("*.json.gz")):
            found[f"show-{folder}-{file.name.split('.')[0]}"] = ["show", f"{folder}/{file.name}"]
    for folder in ("graph_a", "graph_fused", "graph_gc"):
        found[f"show-demo-{folder}"] = ["show", f"demo/{folder}"]
    return found


def save_one(name: str, arguments: list[str], folder: str) -> str:
    """One case, all of its outputs, in this process."""
    os.chdir(FIXTURES)
    os.environ.update(
        {"COLUMNS": "150", "NO_COLOR": "1", "SOURCE_DATE_EPOCH": "1700000000", "TRACEDIFF_CACHE": "off"}
    )
    from tracediff.cli.main import main

    out = Path(folder) / name
    out.mkdir(parents=True)
    if name.startswith("pair-"):
        arguments = [arguments[0], *(_repeats(files, out.parent / "repeats") for files in arguments[1:])]
    files = ["--json", f"{out}/result.json", "--md", f"{out}/report.md", "--html", f"{out}/report.html"]
    traces = not arguments[1].startswith(ALONE)
    if traces:
        files += ["--tables", f"{out}/tables"]
    if traces and arguments[0] == "compare":
        files += ["--postmortem", f"{out}/postmortem.md"]
    text = io.StringIO()
    before = sys.argv
    sys.argv = ["tracediff", *arguments, *files]
    code: object = 0
    with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
        try:
            main()
        except SystemExit as end:
            code = end.code
    sys.argv = before
    (out / "terminal.txt").write_text(f"{text.getvalue()}\nexit {code}\n".replace(folder, "OUT"))
    return name


def _repeats(files: str, folder: Path) -> str:
    """A folder of links to fixtures that are repeats of one program."""
    names = files.split(",")
    if len(names) == 1:
        return f"pairs/{names[0]}"
    side = folder / "-".join(name.split(".")[0] for name in names)
    side.mkdir(parents=True, exist_ok=True)
    for name in names:
        with contextlib.suppress(FileExistsError):
            (side / name).symlink_to(FIXTURES / "pairs" / name)
    return str(side)


def differences(old: Path, new: Path) -> tuple[list[str], list[str]]:
    """Files that differ or that one side alone has: numbers, words."""
    names = {
        str(path.relative_to(folder)) for folder in (old, new) for path in folder.rglob("*") if path.is_file()
    }
    differ = sorted(
        name for name in names
        if not name.startswith("repeats/") and not name.endswith((".parquet", ".png"))
        and not ((old / name).exists() and (new / name).exists() and filecmp.cmp(old / name, new / name, shallow=False))
    )  # fmt: skip
    return [name for name in differ if name.endswith(NUMBERS)], [
        name for name in differ if not name.endswith(NUMBERS)
    ]


def main() -> None:
    """Save a folder of outputs, or compare two."""
    if len(sys.argv) >= 3 and sys.argv[1] == "save":
        folder = Path(sys.argv[2]).resolve()
        folder.mkdir(parents=True)
        chosen = {name: case for name, case in cases().items() if len(sys.argv) < 4 or sys.argv[3] in name}
        with ProcessPoolExecutor(2) as pool:
            for one in [pool.submit(save_one, name, case, str(folder)) for name, case in chosen.items()]:
                one.result()
        return
    if len(sys.argv) == 4 and sys.argv[1] == "diff":
        numbers, words = differences(Path(sys.argv[2]), Path(sys.argv[3]))
        print(f"{len(numbers)} files of numbers differ, {len(words)} of words")
        for name in numbers + words:
            print(f"  {name}")
        raise SystemExit(1 if numbers else 0)
    raise SystemExit(__doc__)


if __name__ == "__main__":
    main()

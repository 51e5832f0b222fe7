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


def cases() -> dict[str, list[str]]:
    """Name of a case -> arguments of `tracediff`, relative to fixtures/, without outputs."""
    found: dict[str, list[str]] = {}
    pairs = tomllib.loads((FIXTURES / "pairs" / "pairs.toml").read_text())["pair"]
    for pair in pairs:
        found[f"pair-{pair['name']}"] = [
            "compare",
            *(",".join(pair[side]) for side in ("baseline", "candidate")),
        ]
    for bundle in sorted(path for path in (FIXTURES / "bundles").iterdir() if path.is_dir()):
        found[f"bundle-{bundle.name}"] = ["compare", f"bundles/{bundle.name}"]
    for name in ("graph_fused", "graph_gc", "graph_a"):
        found[f"demo-{name}"] = ["compare", "demo/graph_a", f"demo/{name}"]
    found["eager"] = ["compare", "captures/eager_a1.sqlite.xz", "captures/eager_a2.sqlite.xz"]
    found["sleep"] = ["compare", "demo/graph_a", "captures/graph_sleep.sqlite.xz"]
    found["host-only"] = ["compare", "system/os_plain.sqlite.xz", "system/os_sleep.sqlite.xz"]
    found["steps"] = ["compare", "pairs/base_1.sqlite.xz", "pairs/work95_1.sqlite.xz", "--steps", "25-40"]
    for a, b in (
        ("eager_base", "eager_sleep"),
        ("graph_base", "graph_gc"),
        ("graph_base", "graph_more"),
        ("loop_a", "loop_b"),
    ):
        found[f"torch-{a}-{b}"] = ["compare", f"torch/{a}.json.gz", f"torch/{b}.json.gz"]
    found["torch-nsys"] = [
        "compare",
        "torch/nsys_eager_base.sqlite.xz",
        "torch/eager_base.json.gz",
        "--force",
    ]
    for a, b in (("gpu_plain", "gpu_sleep"), ("mem", "mem_alloc"), ("metrics_plain", "metrics_gc"), ("metrics_plain", "metrics_slow"),
                 ("nccl_32", "nccl_64"), ("os_plain", "os_sleep"), ("mpi_one", "mpi_three")):  # fmt: skip
        found[f"system-{a}-{b}"] = ["compare", f"system/{a}.sqlite.xz", f"system/{b}.sqlite.xz"]
    for a, b in (
        ("quant_scalar132", "quant_vec1056"),
        ("gemm_two", "gemm_fused"),
        ("spill255", "spill32"),
        ("trt_132", "trt_1056"),
    ):
        found[f"ncu-{a}"] = ["compare", f"ncu/{a}.csv", f"ncu/{b}.csv"]
    found["ncu-beside"] = [
        "compare",
        "demo/graph_a",
        "demo/graph_fused",
        "--with",
        "baseline=ncu/gemm_two.csv",
        "--with",
        "candidate=ncu/gemm_fused.csv",
    ]
    found["trtexec"] = ["compare", "trtexec/fp32", "trtexec/fp16"]
    for a, b in (("same_1", "same_2"), ("same_1", "more_5"), ("same_1", "double"), ("crowded", "warm")):
        found[f"latencies-{a}-{b}"] = ["compare", f"latencies/{a}", f"latencies/{b}"]
    found["kpi"] = [
        "compare",
        "demo/graph_a",
        "demo/graph_gc",
        "--with",
        "baseline=kpi/bench_streaming.json",
        "--with",
        "candidate=kpi/bench_speculative.json",
    ]
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

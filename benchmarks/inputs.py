"""Pairs of inputs of any size: real captures repeated in time."""

from __future__ import annotations

import gzip
import lzma
import os
import shutil
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from fixtures.builders.replicate import replicate
from fixtures.builders.replicate_torch import replicate_trace
from tracediff.formats.database import connect, identifier, quoted

ROOT = Path(__file__).parent.parent
_FIXTURES = ROOT / "fixtures"
SHAPES = {
    "graph": ("demo/graph_a/graph_a1.sqlite.xz", "demo/graph_fused/graph_fused_1.sqlite.xz"),
    "eager": ("captures/eager_a1.sqlite.xz", "captures/eager_a2.sqlite.xz"),
    "torch": ("torch/loop_a.json.gz", "torch/loop_b.json.gz"),
}
ABOUT = {
    "graph": "CUDA graphs: few API calls a kernel; one kernel fused on the candidate's side",
    "eager": "2.4 API calls and 6.5 NVTX rows a kernel, most of them of the GIL trace; the same program twice",
    "torch": "traces of torch.profiler (JSON) of a training loop with Python stacks; a sleep on the candidate's side",
}
_SPARE = 4 * 10**9  # bytes of disk left alone


class NoRoomError(Exception):
    """The disk does not hold the inputs; its text says how much they need."""


@dataclass(frozen=True)
class Pair:
    """Baseline and candidate, each in a folder of its own, and a folder for what contenders write."""

    shape: str
    kernels: int
    baseline: Path
    candidate: Path
    scratch: Path

    @property
    def names(self) -> list[str]:
        return [str(self.baseline), str(self.candidate)]

    @property
    def megabytes(self) -> float:
        """Of both files."""
        return (self.baseline.stat().st_size + self.candidate.stat().st_size) / 1e6

    def state(self) -> list[tuple[int, int]]:
        """What shows that a contender wrote to its input."""
        return [(path.stat().st_size, path.stat().st_mtime_ns) for path in (self.baseline, self.candidate)]


def pair(shape: str, kernels: int, data: Path, scratch: Path) -> Pair:
    """The pair of a shape with at least so many kernels a side, from `data` or built there. Raises `NoRoomError`.

    Contenders see links to the files: what they write beside them lands in `scratch`.
    """
    linked = []
    for side, source in zip(("baseline", "candidate"), SHAPES[shape], strict=True):
        built = _build(_FIXTURES / source, kernels, data)
        folder = scratch / side
        folder.mkdir(parents=True)
        linked.append(folder / built.name)
        try:
            os.link(built, linked[-1])
        except OSError:
            linked[-1].symlink_to(built.resolve())
    return Pair(shape, kernels, linked[0], linked[1], scratch)


def as_parquet(inputs: Pair) -> list[str]:
    """The same rows in folders of Parquet files, laid out as nsys writes them: a file a table, 2048 rows a group, nothing packed."""
    folders = []
    for path in (inputs.baseline, inputs.candidate):
        folder = inputs.scratch / "parquet" / f"{path.stem}_pqtdir"
        folders.append(str(folder))
        if folder.exists():
            continue
        folder.mkdir(parents=True)
        with closing(connect()) as db:
            db.execute("SET preserve_insertion_order = true")
            db.execute(f"ATTACH {quoted(str(path))} AS source (TYPE sqlite, READ_ONLY)")
            for (table,) in db.execute(
                "SELECT table_name FROM duckdb_tables() WHERE database_name = 'source'"
            ).fetchall():
                if table != "META_DATA_CAPTURE":
                    out = quoted(str(folder / f"{table}.parquet"))
                    form = "(FORMAT parquet, COMPRESSION uncompressed, ROW_GROUP_SIZE 2048)"
                    db.execute(f"COPY source.{identifier(table)} TO {out} {form}")
    return folders


def _build(packed: Path, kernels: int, data: Path) -> Path:
    stem, kind, packing = packed.name.split(".")
    out = data / f"{stem}_{kernels}.{kind}"
    if out.exists():
        return out
    plain = data / f"{stem}.{kind}"
    raw = lzma.decompress(packed.read_bytes()) if packing == "xz" else gzip.decompress(packed.read_bytes())
    plain.write_bytes(raw)
    part = out.with_name(f"{out.name}.part")
    try:
        _check_room(len(raw) / _kernels(plain) * kernels, data)
        if kind == "sqlite":
            replicate(plain, part, kernels)
        else:
            replicate_trace(plain, part, kernels)
        part.replace(out)
    finally:
        part.unlink(missing_ok=True)
        plain.unlink()
    return out


def _kernels(plain: Path) -> int:
    if plain.suffix == ".json":
        return plain.read_text().count('"cat":"kernel"')
    with closing(sqlite3.connect(plain)) as db:
        return int(db.execute("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchone()[0])


def _check_room(needed: float, data: Path) -> None:
    free = shutil.disk_usage(data).free - _SPARE
    if needed > free:
        raise NoRoomError(
            f"an input takes {needed / 1e9:.1f} GB of disk, {max(free, 0) / 1e9:.1f} GB are free"
        )

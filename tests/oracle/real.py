"""The real captures of this checkout; $TRACEDIFF_CAPTURES names a folder of exports to take instead."""

import lzma
import os
import tempfile
from functools import cache
from pathlib import Path

FIXTURES = Path(__file__).parents[2] / "fixtures"
_UNPACKED = tempfile.TemporaryDirectory(prefix="captures-")


def captures() -> dict[str, Path]:
    """Return the exports by name, packed or not; empty where there are none."""
    folder = os.environ.get("TRACEDIFF_CAPTURES")
    found = [*(Path(folder) if folder else FIXTURES).rglob("*.sqlite*")]
    return {path.name.partition(".sqlite")[0]: path for path in sorted(found)}


@cache
def unpacked(path: Path) -> Path:
    """Return the export itself, unpacked once if need be."""
    if path.suffix != ".xz":
        return path
    target = Path(_UNPACKED.name) / path.stem
    target.write_bytes(lzma.decompress(path.read_bytes()))
    return target

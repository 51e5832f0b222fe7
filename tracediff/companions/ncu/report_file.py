"""Reports of Nsight Compute (.ncu-rep) through NVIDIA's package `ncu-report`.

The package is native code that answers a damaged file with an empty report, or with some of its kernels. So the
container is walked first (docs/ncu.md), the file is read in a process of its own, and the kernels are counted.
Only the metrics of metrics.py leave that process: a report also holds paths, the command line and sources.
"""

from __future__ import annotations

import json
import math
import struct
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO

from tracediff.companions.ncu.metrics import DEVICE, EXPORT, OPCODES, Launch, Profile, factor, launch, wanted
from tracediff.errors import TracediffError

MAGIC: bytes = b"NVR\x00"
_SECONDS = 600
_MAX_HEADER = 1 << 28
# Fields of a block's header.
_RESULTS, _PAYLOAD = 2, 5


def read_report(path: Path) -> Profile:
    """Read a report.

    Raises `TracediffError`: ncu-package-missing, ncu-damaged.
    """
    if find_spec("ncu_report") is None:
        raise TracediffError(
            "ncu-package-missing",
            f"{path.name} is a report, and NVIDIA's package that reads it is not installed",
            fix=f"pip install 'tracediff-gpu[ncu]', or give its CSV: {EXPORT}",
        )
    expected = results(path)
    try:
        # -P: a module of that name in the working folder must not be run.
        done = subprocess.run(
            [sys.executable, "-P", "-m", "tracediff.companions.ncu.report_file", str(path)],
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
        found = json.loads(done.stdout) if done.returncode == 0 else None
    except (subprocess.TimeoutExpired, json.JSONDecodeError, UnicodeDecodeError):
        found = None
    if found is None:
        raise _damaged(path, "NVIDIA's reader ended without an answer")
    if len(found["launches"]) < expected:
        raise _damaged(path, f"{len(found['launches'])} of {expected} results can be read")
    if not all(one["values"] for one in found["launches"]):
        raise _damaged(path, "a result has no metric at all")
    launches = tuple(Launch(**one) for one in found["launches"])
    return Profile(path.name, "report", found["device"], launches)


def _damaged(path: Path, why: str) -> TracediffError:
    return TracediffError(
        "ncu-damaged", f"{path.name} is cut short, damaged or too new: {why}",
        fix="copy it whole, profile again, or export it with the ncu that wrote it: " + EXPORT,
    )  # fmt: skip


def results(path: Path) -> int:
    """Count the results that the blocks of the file announce; raises ncu-damaged where they do not fit the file."""
    size = path.stat().st_size
    with path.open("rb") as file:
        try:
            if file.read(4) != MAGIC:
                raise ValueError("no report")
            file.seek(_uint32(file), 1)
            total = 0
            while file.tell() < size:
                length = _uint32(file)
                if length > _MAX_HEADER:
                    raise ValueError("header of a block")
                header = file.read(length)
                if len(header) < length:
                    raise ValueError("header of a block")
                numbers = dict(_numbers(header))
                total += numbers.get(_RESULTS, 0)
                file.seek(numbers.get(_PAYLOAD, 0), 1)
            if file.tell() != size:
                raise ValueError("its last block is longer than the file")
        except (ValueError, IndexError, struct.error, OSError) as error:
            raise _damaged(path, f"the structure of the file does not hold ({error})") from error
    return total


def _uint32(file: BinaryIO) -> int:
    return int(struct.unpack("<I", file.read(4))[0])


def _numbers(message: bytes) -> Iterator[tuple[int, int]]:
    """Field and value of the integers of a protocol-buffer message; others are passed over."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(message, at)
            yield key >> 3, value
            continue
        if kind == 2:
            length, at = _varint(message, at)
        elif kind in (1, 5):
            length = 8 if kind == 1 else 4
        else:
            raise ValueError("field of a header")
        at += length
        if at > len(message):
            raise ValueError("field of a header")


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("number of a header")


def extract(context: Any) -> dict[str, Any]:
    """The launches of a report that `ncu_report.load_report` opened, as plain data."""
    launches = []
    device = ""
    for part in context:
        for action in part:
            raw = {}
            for name in action.metric_names():
                if wanted(name):
                    value = _value(action.metric_by_name(name))
                    if value is not None:
                        raw[name] = value
            model = action.metric_by_name(DEVICE)
            device = device or (str(model.value() or "") if model is not None else "")
            name = action.name(action.NameBase_DEMANGLED) or action.name()
            made = launch(name, raw, opcodes=_opcodes(action.metric_by_name(OPCODES)))
            launches.append(
                {"name": made.name, "grid": made.grid, "block": made.block, "values": made.values,
                 "stalls": made.stalls, "opcodes": made.opcodes}
            )  # fmt: skip
    return {"device": device, "launches": launches}


def _value(metric: Any) -> float | None:
    value = metric.value()
    scale = factor(metric.unit() or "")
    if isinstance(value, bool) or not isinstance(value, int | float) or scale is None:
        return None
    return float(value) * scale if math.isfinite(value) else None


def _opcodes(metric: Any) -> dict[str, float]:
    if metric is None or not metric.has_correlation_ids():
        return {}
    names = metric.correlation_ids()
    found: dict[str, float] = {}
    for at in range(metric.num_instances()):
        name, value = names.value(at), metric.value(at)
        if isinstance(name, str) and isinstance(value, int | float) and math.isfinite(value):
            found[name] = found.get(name, 0.0) + float(value)
    return found


def _main() -> None:
    import os

    import ncu_report

    # The reader writes its complaints to stdout's descriptor: the answer must be alone there.
    answer = os.dup(1)
    os.dup2(2, 1)
    found = extract(ncu_report.load_report(sys.argv[1]))
    with os.fdopen(answer, "w", encoding="utf-8") as out:
        json.dump(found, out)


if __name__ == "__main__":
    _main()

"""Names as Kineto writes them -> what the tables of nsys say."""

from __future__ import annotations

import re
from pathlib import Path

SUFFIXES = (".pt.trace.json.gz", ".pt.trace.json", ".json.gz", ".json")
PRODUCT = "torch.profiler"

# CUpti_ActivityMemcpyKind and CUpti_ActivityMemoryKind, by the words of 'Memcpy HtoD (Pinned -> Device)'. Of memory
# kinds the canonical tables only ask which is pageable; there nsys numbers it 0.
_COPY = re.compile(r"Memcpy (\w+)(?: \(([^()]*?) -> ([^()]*?)\))?")
_COPY_KINDS = {
    "HtoD": 1, "DtoH": 2, "HtoA": 3, "AtoH": 4, "AtoA": 5, "AtoD": 6, "DtoA": 7, "DtoD": 8, "HtoH": 9, "PtoP": 10,
}  # fmt: skip
_MEMORY_KINDS = {"Pageable": 0, "Pinned": 1, "Device": 2, "Array": 3, "Managed": 4}

# The driver's own kernels for the copies and memsets of a graph: memcpy32_post, memcpy128, memset32.
_DRIVER = re.compile(r"(memcpy|memset)\d+(?:_post)?")

_ADDRESS = re.compile(r"(?: object)? at 0x[0-9a-fA-F]+")
_FRAME = re.compile(r"(/.*|[A-Za-z]:[/\\].*)(\(\d+\): .*)", re.DOTALL)


def is_trace_name(path: Path) -> bool:
    """Whether the name is one that torch.profiler's traces have."""
    return path.name.endswith((".json", ".json.gz"))


def copy_kinds(name: str) -> tuple[int, int | None, int | None]:
    """Kind of a copy, memory kind of its source and of its target; 0 and None where the name does not say."""
    found = _COPY.match(name)
    if not found:
        return 0, None, None
    source, target = (_MEMORY_KINDS.get(word) if word else None for word in found.group(2, 3))
    return _COPY_KINDS.get(found[1], 0), source, target


def driver_copy(name: str) -> str | None:
    """'memcpy' or 'memset' where a kernel of this name is the driver's way to do one; None for every other kernel."""
    found = _DRIVER.fullmatch(name)
    return found[1] if found else None


def short_kernel_name(name: str) -> str:
    """The function of a demangled kernel name, without scope, template and parameters, as nsys shortens it."""
    text = name.replace("(anonymous namespace)", "").replace("<unnamed>", "")
    depth, kept = 0, []
    for index, letter in enumerate(text):
        if letter in "<[{":
            depth += 1
        elif letter in ">]}":
            depth = max(depth - 1, 0)
        elif depth == 0:
            if letter == "(" and index:
                break
            kept.append(letter)
    words = "".join(kept).split()
    return (words[-1].rpartition("::")[2] if words else "") or name


def frame_name(name: str) -> str:
    """A Python frame as a range: no addresses, and of an absolute path the last two parts, for it says who ran it."""
    name = _ADDRESS.sub("", name)
    found = _FRAME.match(name)
    if not found:
        return name
    return "/".join(re.split(r"[/\\]", found[1])[-2:]) + found[2]

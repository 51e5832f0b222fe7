"""How files of latencies are read, as the commands ask for it; without numpy, for every command imports it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

UNITS = ("ns", "us", "ms", "s")


def is_warm_up(value: str) -> bool:
    """Whether a word says how many first iterations of a run are left out: auto, or a number of them."""
    return value == "auto" or (value.isdecimal() and value.isascii() and len(value) < 10)


@dataclass(frozen=True)
class LatencyOptions:
    """How files of latencies are read, and the files of each side: a path a run, or a folder."""

    column: str | None = None
    unit: str | None = None
    warm_up: str = "auto"
    baseline: tuple[Path, ...] = ()
    candidate: tuple[Path, ...] = ()
    prefix: str = ""  # of these options on the command line: latencies- beside traces

    def __post_init__(self) -> None:
        """Raise ValueError for what no command line could give."""
        if self.unit not in (None, *UNITS):
            raise ValueError(f"the unit of latencies is one of {', '.join(UNITS)}, not {self.unit!r}")
        if not is_warm_up(self.warm_up):
            raise ValueError(f"warm-up is auto or a number of iterations such as 0, not {self.warm_up!r}")

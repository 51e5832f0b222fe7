"""tracediff: what changed between two Nsight Systems captures, by how much, why, and can it be believed.

    import tracediff

    comparison = tracediff.compare("before.sqlite", "after.sqlite")
    comparison.verdict, comparison.findings, comparison.kernels
    tracediff.show("after.sqlite", worst=3).chosen
    with tracediff.open("after.sqlite") as capture:
        capture.sql("SELECT phase, avg(period_ns) FROM period GROUP BY phase")

See docs/extend.md#python. Importing the package is cheap: DuckDB, polars and the rest are imported with the first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tracediff.api import Captures, Comparison, Projection, Report, compare, open, show, what_if
    from tracediff.errors import TracediffError

__version__ = "0.1.0"

__all__ = [
    "Captures", "Comparison", "Projection", "Report", "TracediffError", "__version__", "compare", "open", "show", "what_if"
]  # fmt: skip

_HOMES = {
    "Captures": "tracediff.api",
    "Comparison": "tracediff.api",
    "Projection": "tracediff.api",
    "Report": "tracediff.api",
    "TracediffError": "tracediff.errors",
    "compare": "tracediff.api",
    "open": "tracediff.api",
    "show": "tracediff.api",
    "what_if": "tracediff.api",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)

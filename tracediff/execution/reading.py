"""How exports are read: what travels from a request to whatever reads an export."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tracediff.formats.reports import PARQUET_FIRST, Form
from tracediff.formats.selection import ALL, Selection

if TYPE_CHECKING:
    from tracediff.trace.layers import LayerSequence


@dataclass(frozen=True)
class Reading:
    """How exports are read."""

    step_regex: str | None = None
    whole_capture: bool = False
    memory_limit: str | None = None
    threads: int | None = None
    host_only: bool = False  # measure the host, whatever GPU kernels there are
    keep: bool = False  # the events of some steps, to draw
    graph: bool = False  # the graph of events, to replay
    two_profilers: bool = False  # nsys and torch.profiler: only what both can say of ranges
    cached: bool = False  # what was read before is taken from the cache, and what is read now kept there
    only: Selection = ALL  # what of an export is measured; its ranks are those of the export alone
    skip_unreadable: bool = False  # exports that cannot be read are left out, not an error
    scheduler: str | None = None  # of a Dask cluster whose workers read
    export: Form = PARQUET_FIRST  # what reports are exported to
    # steps of the same program, whose layers name those of steps without
    labelled: tuple[LayerSequence, ...] = ()
    collect_layers: bool = False  # keep such steps of what is read

"""Which steps of an export are kept event by event, and in what form: what `reduce_capture` asks while it has the events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

from tracediff.align.places import Places
from tracediff.align.threads import Thread
from tracediff.align.timeline import Timeline
from tracediff.load.capture import Capture
from tracediff.measure.hosts import Hosts
from tracediff.measure.intervals import Ints
from tracediff.measure.kept_steps import KeptStep, choose_steps
from tracediff.measure.step_events import GilRows, keep_steps
from tracediff.measure.sweep import Sweep

Words = tuple[Places, dict[int, Thread], Hosts]


Keep = Callable[[Capture, Timeline, list[Sweep], pl.DataFrame, list[int], Words, GilRows], list[KeptStep]]


@dataclass(frozen=True)
class Keeper:
    """`choose`: the table of periods and how many ops each has -> rows of it; `keep`: those rows -> steps."""

    choose: Callable[[pl.DataFrame, Ints], list[int]]
    keep: Keep


DRAWN = Keeper(choose_steps, keep_steps)  # for the page

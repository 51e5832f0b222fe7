"""Iteration logs: from a log's lines to the figures of a run. One pass, bounded memory."""

from __future__ import annotations

import statistics
from array import array
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import BinaryIO

from tracediff.load.kpi_line import FORMATS, MARKERS, Format, Line
from tracediff.load.kpi_report import Iteration, KpiReport, Metric, put
from tracediff.model import Note

MAX_ITERATIONS = 100_000  # records kept; the figures are of all
MAX_LINE_BYTES = 256 << 10
_MAX_SAMPLE = 1 << 20
_MAX_RANKS = 4096


def read_log(file: BinaryIO, source: str) -> KpiReport | None:
    """Return the figures of a log, None where no line of it is of a known format.

    The first line that can be read decides the format; lines of others are then not looked at.
    """
    formats = FORMATS
    malformed: dict[str, int] = {}
    collector = _Collector()
    for text, whole in _lines(file):
        for form in formats:
            if not form.claims(text):
                continue
            line = form.parse(text) if whole else None
            if line is None:
                malformed[form.kind] = malformed.get(form.kind, 0) + 1
            else:
                formats = (form,)
                collector.add(line)
            break
    if not collector.count:
        return None
    return collector.report(formats[0], source, malformed.get(formats[0].kind, 0))


def _lines(file: BinaryIO) -> Iterator[tuple[str, bool]]:
    """Yield the lines that may be of interest and whether they are whole; longer ones are cut."""
    while raw := file.readline(MAX_LINE_BYTES):
        whole = len(raw) < MAX_LINE_BYTES or raw.endswith(b"\n")
        if any(marker in raw for marker in MARKERS):
            yield raw.decode("utf-8", "replace").strip().removeprefix("\ufeff"), whole
        while not whole and raw and not raw.endswith(b"\n"):
            raw = file.readline(MAX_LINE_BYTES)


class _Sample:
    """Mean of all values and median of every `stride`-th, the stride doubling with the number of values."""

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self._stride = 1
        self._kept = array("d")

    def add(self, value: float | None) -> None:
        if value is None:
            return
        if self.count % self._stride == 0:
            self._kept.append(value)
            if len(self._kept) > _MAX_SAMPLE:
                self._kept = self._kept[::2]
                self._stride *= 2
        self.count += 1
        self.total += value

    def mean(self) -> float | None:
        return self.total / self.count if self.count else None

    def median(self) -> float | None:
        return statistics.median(self._kept) if self._kept else None


@dataclass(frozen=True, slots=True)
class _Seen:
    """What later records of the same rank have to know of one."""

    number: int
    idle: bool
    generation: bool
    index: int | None  # in the list of records, None beyond its end


class _Collector:
    """Takes the records of a log one by one.

    The device time that record N prints was measured in an earlier loop (N - 1, see kpi_line): it is given to
    that record, and left out of the figures where that loop had nothing to run. Where the log does not hold
    that record (cut, or sampled) the time still counts: dropping real work is the worse error.
    """

    def __init__(self) -> None:
        self.count = 0
        self._idle = 0
        self._iterations: list[Iteration] = []
        self._seen: dict[int, deque[_Seen]] = {}
        self._host, self._host_generation = _Sample(), _Sample()
        self._device, self._device_generation = _Sample(), _Sample()
        self._latency, self._forward = _Sample(), _Sample()

    def add(self, line: Line) -> None:
        iteration = line.iteration
        self._place_device_time(line)
        index = len(self._iterations) if self.count < MAX_ITERATIONS else None
        if index is not None:
            self._iterations.append(iteration)
        self.count += 1
        if len(self._seen) < _MAX_RANKS or iteration.rank in self._seen:
            seen = self._seen.setdefault(iteration.rank, deque(maxlen=2))
            seen.append(_Seen(iteration.number, iteration.idle, iteration.generation, index))
        if iteration.idle:
            self._idle += 1
            return
        self._host.add(iteration.host_ms)
        if iteration.generation:
            self._host_generation.add(iteration.host_ms)
        self._latency.add(line.latency_ms)
        self._forward.add(line.forward_ms)

    def _place_device_time(self, line: Line) -> None:
        if line.earlier_device_ms is None:
            return
        number = line.iteration.number - line.device_lag
        seen = self._seen.get(line.iteration.rank, ())
        owner = next((record for record in seen if record.number == number), None)
        if owner is not None and owner.index is not None:
            self._iterations[owner.index] = replace(
                self._iterations[owner.index], device_ms=line.earlier_device_ms
            )
        if owner is None or not owner.idle:
            self._device.add(line.earlier_device_ms)
        if owner is not None and owner.generation:
            self._device_generation.add(line.earlier_device_ms)

    def report(self, form: Format, source: str, malformed: int) -> KpiReport:
        metrics: dict[str, Metric] = {}
        for name, every, generation in (
            ("host_step_time", self._host, self._host_generation),
            ("device_step_time", self._device, self._device_generation),
        ):
            put(metrics, f"{name}_mean_ms", every.mean())
            put(metrics, f"{name}_p50_ms", every.median())
            put(metrics, f"{name}_generation_p50_ms", generation.median())
        put(metrics, "gpu_forward_time_mean_ms", self._forward.mean())
        put(metrics, "iteration_latency_mean_ms", self._latency.mean())
        left_out = self.count - len(self._iterations)
        notes = []
        if malformed:
            notes.append(Note("kpi-malformed-lines", f"{source}: {malformed} iteration lines are broken"))
        if self._idle and metrics:
            notes.append(
                Note(
                    "kpi-idle-iterations",
                    f"{source}: {self._idle} of {self.count} iterations had no request and do not count",
                )
            )
        if left_out:
            notes.append(
                Note(
                    "kpi-iterations-left-out",
                    f"{source}: the first {len(self._iterations)} of {self.count} iterations are kept one by"
                    " one; the figures are of all",
                )
            )
        if not metrics:
            notes.append(
                Note("kpi-no-times", f"{source}: no iteration has both work and a time: batch sizes only")
            )
        return KpiReport(form.kind, source, metrics, self._iterations, left_out, notes)

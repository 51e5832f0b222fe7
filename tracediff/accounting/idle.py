"""Idle time of one export: gaps cut into pieces a block at a time, told apart by numbers and summed; words come last.

What a piece is, a *cell*: cause, the cause had the GIL not been traced, role and place of the launching thread, role and place
of who held the GIL, and whether it lies in a call that copies. An *entry* is a cell without the holder and the copying.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec
import numpy as np
import polars as pl
from msgspec.structs import replace

from tracediff.accounting.intervals import (
    Index,
    Intervals,
    chunks,
    count_by,
    covered,
    grouped,
    picked_at,
    sum_by,
)
from tracediff.accounting.sweep import Gaps
from tracediff.accounting.walk import CODE, Hosts, IdlePieces, Names, attribute
from tracediff.arrays import Floats, Ints
from tracediff.model.causes import IDLE
from tracediff.trace.periods import Timeline, Unit

_BLOCK = 1 << 15  # gaps cut at a time: few enough for their pieces to stay in the processor's cache
_WORST = 20  # single gaps of a device that are kept
_CELL = ("cause", "under", "thread", "place", "holder", "holder_place", "copy")
_ENTRY = ("cause", "under", "thread", "place")

_Key = TypeVar("_Key")
# cause, under, role of the thread, place, role of the holder, its place, copy
_Cell = tuple[int, int, int, int, int, int, int]


def idle_tables(
    timeline: Timeline,
    gaps: list[Gaps],
    periods: pl.DataFrame,
    names: Names,
    hosts: Hosts,
    labels: Ints,
    each: Callable[[list[IdlePieces], Ints], None] | None = None,
) -> tuple[Ints, dict[str, pl.DataFrame]]:
    """Attribute the gaps of the units: ns of each period by IDLE; and cells, idle_ns, gaps, worst and moments of `Reduction`.

    `periods`: the table of periods, still without the categories; `labels`: of each launch.
    `each` is handed the pieces of some gaps and the stratum of each of those gaps.
    """
    cells = _Cells(timeline, names)
    stratum = periods["stratum"].to_numpy()
    phase = periods["phase"].rank("dense").to_numpy()
    units = []
    first_period = 0
    for unit, own in zip(timeline.units, gaps, strict=True):
        sums = _Unit(unit, own, first_period, stratum, phase, cells)
        for low, high in chunks(own.size, _BLOCK):
            parts = attribute(unit, own.take(slice(low, high)), timeline.launches, labels, hosts)
            sums.add(parts, low, high)
            if each is not None:
                each(parts, stratum[first_period + own.period[low:high]])
        units.append(sums.finish())
        first_period += len(unit.step)
    texts = _Texts(timeline, names, cells.known)
    period, cell, ns, count = (
        np.concatenate(column) for column in zip(*(one.by_cell for one in units), strict=True)
    )
    code, position = grouped(period * max(len(texts.cells), 1) + texts.cell_of[cell])
    period, cell = np.divmod(code, max(len(texts.cells), 1))
    ns, count = sum_by(position, len(code), ns), sum_by(position, len(code), count)
    causes = sum_by(period * len(IDLE) + texts.cause_of[cell], len(periods) * len(IDLE), ns)
    worst, moments = (
        table.join(periods.select("period", *columns), on="period", how="left", maintain_order="left").drop("period")
        for table, columns in (
            (pl.concat([one.worst(texts) for one in units]), ("phase", "rank")),
            (pl.concat([one.moments(texts) for one in units]), ("number", "rank", "phase")),
        )
    )  # fmt: skip
    return causes.reshape(-1, len(IDLE)), {
        "cells": pl.DataFrame(texts.cells, schema=dict.fromkeys(_CELL[:-1], pl.String) | {"copy": pl.Boolean}, orient="row"),
        "idle_ns": pl.DataFrame({"period": period.astype(np.int32), "cell": cell.astype(np.int32), "ns": ns, "count": count}),
        "gaps": pl.concat([one.gaps(texts) for one in units]),
        "worst": worst,
        "moments": moments,
    }  # fmt: skip


class _Cells:
    """The cells of an export, numbered as they turn up."""

    def __init__(self, timeline: Timeline, names: Names) -> None:
        self._names = names
        self._copies = [
            name for name, (api, _) in timeline.api_names.items() if re.match(r"cu(da)?Mem(cpy|set)", api)
        ]
        self.known: dict[_Cell, int] = {}
        self._entries: dict[tuple[int, ...], int] = {}
        self._moments: dict[tuple[int, ...], int] = {}
        self.entry_of: list[int] = []  # of each cell
        self.moment_of: list[int] = []  # of each cell: the same for those that differ in `under` alone

    def numbers(self, parts: Sequence[IdlePieces]) -> tuple[Ints, Index]:
        """The distinct cells of some pieces, and of each piece which of them it is."""
        many, names = len(IDLE), self._names
        roles: list[tuple[int, int]] = []  # of thread and holder
        kinds, places, holder_places = [], [], []
        for number, part in enumerate(parts):
            under, holder = part.cause, 0
            holder_place = np.zeros(len(part.gap), np.int64)
            if part.under is not None and part.holder_label is not None:
                under = part.under
                if part.holder >= 0:
                    holder = names.role(part.holder)
                    holder_place = names.places(part.holder, part.holder_label, part.start)
            roles.append((names.role(part.tid), holder))
            copy = part.cause == CODE["launch_api"]
            if copy.any():
                copy &= np.isin(part.api, self._copies)
            kinds.append(((number * many + part.cause.astype(np.int64)) * many + under) * 2 + copy)
            places.append(names.places(part.tid, part.label, part.start))
            holder_places.append(holder_place)
        kind, place, holder_place = (np.concatenate(each) for each in (kinds, places, holder_places))
        found, which = picked_at(kind, place, holder_place)
        rows = zip(*(column[found].tolist() for column in (kind, place, holder_place)), strict=True)
        return np.array([self._number(roles, *row) for row in rows], np.int64), which

    def _number(self, roles: list[tuple[int, int]], kind: int, place: int, holder_place: int) -> int:
        rest, copy = divmod(kind, 2)
        rest, under = divmod(rest, len(IDLE))
        part, cause = divmod(rest, len(IDLE))
        thread, holder = roles[part]
        cell = cause, under, thread, place, holder, holder_place, copy
        if cell not in self.known:
            self.known[cell] = len(self.known)
            self.entry_of.append(self._entries.setdefault(cell[:4], len(self._entries)))
            self.moment_of.append(self._moments.setdefault((cause, *cell[2:]), len(self._moments)))
        return self.known[cell]

    @property
    def entries(self) -> list[tuple[int, ...]]:
        """cause, under, thread, place of each entry."""
        return list(self._entries)


class _Texts:
    """The words of cells and entries, and their order by words."""

    def __init__(self, timeline: Timeline, names: Names, known: dict[_Cell, int]) -> None:
        tables = names.tables()
        self._roles, self._places = tables["role_name"], tables["place_name"]
        spelled = [self._spelled(cell) for cell in known]
        self.cells = sorted(set(spelled))
        place = {cell: number for number, cell in enumerate(self.cells)}
        # of each number of a cell its row in `cells`; cells of the same words are one there
        self.cell_of = np.array([place[cell] for cell in spelled], np.int64)
        self.cause_of = np.array([CODE[cell[0]] for cell in self.cells], np.int64)
        self.known = spelled
        self.ops = timeline.keys["name"].to_list()
        self.apis = {name: api for name, (api, _) in timeline.api_names.items() if name >= 0}

    def _spelled(self, cell: _Cell) -> tuple[str, str, str, str, str, str, bool]:
        cause, under, thread, place, holder, holder_place, copy = cell
        roles, places = self._roles, self._places
        return (
            IDLE[cause], IDLE[under], roles[thread], places[place], roles[holder], places[holder_place], bool(copy),
        )  # fmt: skip

    def entry(self, entry: tuple[int, ...]) -> tuple[str, str, str, str]:
        """The words of _ENTRY."""
        cause, under, thread, place = entry
        return IDLE[cause], IDLE[under], self._roles[thread], self._places[place]


class _Longest(msgspec.Struct, frozen=True):
    """A piece; all: ns of all pieces that it is the longest of."""

    ns: int
    start: int
    cell: int
    api: int
    period: int
    all: int = 0


class _Unit:
    """Sums over the pieces of one unit. `first`: number of its first period; `stratum`, `phase`: of each period of the export."""

    def __init__(self, unit: Unit, gaps: Gaps, first: int, stratum: Ints, phase: Ints, cells: _Cells) -> None:
        self._unit, self._gaps, self._first, self._stratum, self._cells = unit, gaps, first, stratum, cells
        self._phase = phase[first : first + len(unit.step)]
        self._worst_gaps = _longest_gaps(gaps)
        self._is_worst = np.zeros(gaps.size, np.bool_)
        self._is_worst[self._worst_gaps] = True
        self._worst: dict[int, _Longest] = {}  # gap -> its longest piece
        self._moments: dict[tuple[int, int, int], _Longest] = {}  # by moment, CUDA function and phase
        self._sums: list[tuple[Ints, ...]] = [(np.empty(0, np.int64),) * 4]
        # of each block its groups (a column each, see `gaps`), the group of each piece, ns of each piece, crossed and others' ns of each group
        none = np.empty(0, np.int64)
        self._entries = [(np.empty((4, 0), np.int64), none.astype(np.int32), none, none, none)]

    def add(self, parts: list[IdlePieces], low: int, high: int) -> None:
        """Add the pieces of the gaps [low, high); theirs count from `low`."""
        gap, start, end, api = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("gap", "start", "end", "api")
        )
        cells, which = self._cells.numbers(parts)
        ns, many = end - start, len(cells)
        period = self._gaps.period[low:high]
        begin = int(period[0])
        sums = (period[gap] - begin) * np.int64(many) + which
        size = (int(period[-1]) - begin + 1) * many
        count = count_by(sums, size)
        some = np.flatnonzero(count)
        at, cell = np.divmod(some, many)
        self._sums.append(
            (at + (begin + self._first), cells[cell], sum_by(sums, size, ns)[some], count[some])
        )
        theirs = covered(Intervals(start, end), self._gaps.others)
        self._add_entries(gap, np.array(self._cells.entry_of)[cells][which], ns, theirs, low, high)
        _, which_moment = grouped(np.array(self._cells.moment_of)[cells])
        phase = self._phase[period[gap]]
        rows, alike = picked_at(which_moment[which], api + 1, phase)
        every = sum_by(alike, len(rows), ns)
        for row, total in zip(_firsts(alike, len(rows), ns, start).tolist(), every.tolist(), strict=True):
            found = _Longest(int(ns[row]), int(start[row]), int(cells[which[row]]), int(api[row]), int(period[gap[row]]), total)  # fmt: skip
            _keep(self._moments, (self._cells.moment_of[found.cell], found.api, int(phase[row])), found)
        for row in np.flatnonzero(self._is_worst[low:high][gap]).tolist():
            found = _Longest(int(ns[row]), int(start[row]), int(cells[which[row]]), int(api[row]), int(period[gap[row]]))  # fmt: skip
            _keep(self._worst, int(gap[row]) + low, found)

    def _add_entries(self, gap: Index, entry: Ints, ns: Ints, theirs: Ints, low: int, high: int) -> None:
        """The pieces of a gap with one entry count as one. `theirs`: of ns, while other devices worked."""
        shared = np.flatnonzero((count_by(gap, high - low) > 1)[gap])
        if len(shared):
            wide = int(entry.max()) + 1
            code, position = grouped(gap[shared] * np.int64(wide) + entry[shared])
            alone = np.ones(len(gap), np.bool_)
            alone[shared] = False
            ns, theirs = (
                np.concatenate((one[alone], sum_by(position, len(code), one[shared]))) for one in (ns, theirs)
            )
            gap = np.concatenate((gap[alone], code // wide))
            entry = np.concatenate((entry[alone], code % wide))
        own, unit = self._gaps, self._unit
        gap = gap + low
        previous, following = own.previous[gap], own.op[gap]
        columns = (
            self._stratum[self._first + own.period[gap]],
            entry,
            unit.key[previous],
            unit.key[following],
        )
        found, group = picked_at(*columns)
        crossed = np.where(unit.stream[previous] != unit.stream[following], ns, 0)
        self._entries.append(
            (
                np.stack([column[found] for column in columns]).astype(np.int64),
                group.astype(np.int32),
                ns,
                sum_by(group, len(found), crossed),
                sum_by(group, len(found), theirs),
            )
        )

    def finish(self) -> _Unit:
        """Sum up what needs all pieces: afterwards nothing of their size is held."""
        self.by_cell = tuple(np.concatenate(column) for column in zip(*self._sums, strict=True))
        del self._sums
        blocks, groups, lengths, crossed, theirs = zip(*self._entries, strict=True)
        del self._entries
        every = np.concatenate(blocks, axis=1)
        found, which = picked_at(*every)
        self._groups = list(every[:, found])
        edges = np.cumsum([block.shape[1] for block in blocks])[:-1]
        group = np.concatenate(
            [of.astype(np.int32)[one] for of, one in zip(np.split(which, edges), groups, strict=True)]
        )
        ns, size = np.concatenate(lengths), len(found)
        del groups, lengths
        self._count, self._ns = count_by(group, size), sum_by(group, size, ns)
        self._crossed, self._theirs = (sum_by(which, size, np.concatenate(one)) for one in (crossed, theirs))
        self._quantiles = _quantiles(group, ns, self._count)
        own, unit = self._gaps, self._unit
        del self._gaps
        self._worst_gaps = np.array(
            [
                (own.start[at], own.end[at], unit.key[own.previous[at]], unit.key[own.op[at]], at)
                for at in self._worst_gaps.tolist()
            ],
            np.int64,
        ).reshape(-1, 5)
        return self

    def gaps(self, texts: _Texts) -> pl.DataFrame:
        """By stratum, entry and the ops around them, in order of their words."""
        stratum, entry, previous, following = self._groups
        entries = [texts.entry(one) for one in self._cells.entries]
        p50, p99 = self._quantiles
        by_words = (_ranks(entries)[entry], _ranks(texts.ops)[previous], _ranks(texts.ops)[following])
        order = np.lexsort((p99, p50, self._count, self._ns, *reversed(by_words), stratum))
        ops = pl.Series(texts.ops, dtype=pl.String)
        words = {
            name: pl.Series([one[number] for one in entries], dtype=pl.String).gather(entry[order])
            for number, name in enumerate(_ENTRY)
        }
        return pl.DataFrame(
            {
                "stratum": stratum[order], **words, "previous": ops.gather(previous[order]), "next": ops.gather(following[order]),
                "count": self._count[order], "ns": self._ns[order], "crossed_ns": self._crossed[order],
                "elsewhere_ns": self._theirs[order],
                "p50_ns": p50[order], "p99_ns": p99[order],
            }
        )  # fmt: skip

    def worst(self, texts: _Texts) -> pl.DataFrame:
        """The longest gaps, with the cause and place of their longest piece."""
        rows = []
        for start, end, previous, following, gap in self._worst_gaps.tolist():
            longest = self._worst[gap]
            cause, _, thread, place, *_ = texts.known[longest.cell]
            period = longest.period + self._first
            rows.append(
                (start, end - start, cause, thread, place, texts.ops[previous], texts.ops[following], period)
            )
        schema = {
            "start": pl.Int64, "ns": pl.Int64, **dict.fromkeys(("cause", "thread", "place", "previous", "next"), pl.String),
            "period": pl.Int64,
        }  # fmt: skip
        return pl.DataFrame(rows, schema=schema, orient="row")

    def moments(self, texts: _Texts) -> pl.DataFrame:
        """Of each cell in each CUDA function and phase the longest piece, the earliest of several: a place to jump to; and ns of all."""
        rows = []
        for one in sorted(self._moments.values(), key=lambda one: (-one.ns, one.start)):
            cause, _, *words = texts.known[one.cell]
            period = one.period + self._first
            place = one.start, one.start + one.ns
            rows.append((cause, *words, *place, texts.apis.get(one.api, ""), one.all, period))
        schema = {
            **dict.fromkeys(("cause", "thread", "place", "holder", "holder_place"), pl.String), "copy": pl.Boolean,
            "start": pl.Int64, "end": pl.Int64, "api": pl.String, "ns": pl.Int64, "period": pl.Int64,
        }  # fmt: skip
        return pl.DataFrame(rows, schema=schema, orient="row")


def _longest_gaps(gaps: Gaps) -> Ints:
    """The positions of the longest gaps, the longest first, the earliest of several of one length."""
    length = gaps.end - gaps.start
    some = np.arange(gaps.size)
    if gaps.size > _WORST:
        some = np.flatnonzero(length >= np.partition(length, -_WORST)[-_WORST])
    return some[np.lexsort((gaps.start[some], -length[some]))][:_WORST]


def _firsts(group: Index, groups: int, ns: Ints, start: Ints) -> Ints:
    """Of each group the longest piece, the earliest of several: positions."""
    longest = np.zeros(groups, np.int64)
    np.maximum.at(longest, group, ns)
    among = np.flatnonzero(ns == longest[group])
    among = among[np.argsort(-start[among], kind="stable")]
    found = np.empty(groups, np.int64)
    found[group[among]] = among  # the last one written stays
    return found


def _keep(among: dict[_Key, _Longest], key: _Key, found: _Longest) -> None:
    before = among.get(key, found)
    longest = min(before, found, key=lambda one: (-one.ns, one.start))
    among[key] = longest if before is found else replace(longest, all=before.all + found.all)


def _quantiles(group: Index, ns: Ints, count: Ints) -> list[Floats]:
    """p50 and p99 of the values of each group, linear between neighbours."""
    ordered = _by_group(group, ns)
    first, out = np.cumsum(count) - count, []
    for quantile in (0.5, 0.99):
        at = quantile * (count - 1)
        below = np.floor(at)
        low, high = ordered[first + below.astype(np.int64)], ordered[first + np.ceil(at).astype(np.int64)]
        out.append(low + (high - low) * (at - below))
    return out


def _by_group(group: Index, ns: Ints) -> Ints:
    """Values (0 or more) in order of group, then of themselves."""
    width = int(ns.max(initial=0)).bit_length()
    if width + int(group.max(initial=0)).bit_length() > 62:
        return ns[np.lexsort((ns, group))]
    both = group.astype(np.int64) << width
    both |= ns
    both.sort()  # numbers are sorted in a tenth of the time of places
    both &= (1 << width) - 1
    return both


def _ranks(words: Sequence[object]) -> Ints:
    """The place of each in the order of all; equal ones share one."""
    place = {word: number for number, word in enumerate(sorted(set(words)))}  # type: ignore[type-var]
    return np.array([place[word] for word in words], np.int64)

"""What differs between the sides by count: launches, graphs, synchronisations, copies, code, collections, ranges, threads of the host.

Which counts are facts: comparison/held.py.

| number | what it decides | origin |
|-|-|-|
| ALPHA, p < 0.05 | a rate differs, corrected for the functions of all kinds; collections stand alone | no false one in 182 null pairs of 44 programs |
| SURELY, 1 % | memory peaks differ, of runs that lie apart | allocators take blocks of 2 MiB and more |
| APART, 20 % | of the kernels more begin before the op before them ends or end before their launch returns, most of them on a side; or are in CUDA graphs | without programmatic dependent launch 0 to 12 % (cuBLAS uses it), and 34 % of a graph with no stream beside it; with it 61 to 94 %; with CUDA_LAUNCH_BLOCKING all wait, without 0 to 16 %, and 37 % where a graph takes as long to launch as to run; 110 and 225 captures, H100 and H200; graphs launch 3 % more of repeats at most, and 41 % less where only a draft model leaves them |
| NEARLY, 75 % | of the launches of shared kernels are as many in captures that are one step each | 83 and 88 % where something was planted, 70 % between other requests |
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import msgspec
import numpy as np
import polars as pl

from tracediff.accounting.counts import MOST_NAMES
from tracediff.accounting.kernels import CODE_LOADS, GRAPHS_MADE, regular
from tracediff.accounting.reduction import Reduction
from tracediff.arrays import Bools, Floats, Ints
from tracediff.comparison.frame import Frame, PhaseSteps
from tracediff.comparison.held import CERTAIN, HELD, Counted, Held, held, kinds_of, steps_of
from tracediff.execution.sides import Side, parts_of, tagged
from tracediff.kernels.names import category, collective, is_numbered, normalise, short
from tracediff.model import StructureRow
from tracediff.model.causes import SURELY
from tracediff.stats.rules import LEAST, LITTLE, MOSTLY, NEARLY
from tracediff.stats.tests import ALPHA, fisher_exact

_PEAKS_OF = ("device", "managed", "PyTorch allocated")  # the others follow
APART = 0.2
_OF_TIME = ("early", "blocking")
_BESIDE = ("drained", "queued")  # what others are held against
_DIGITS = 2  # of what a round has: captures begin and end within one

# The order in which rows are said: what the others follow from comes first.
_ORDER = (
    "ranks", "gpus", "workload", "graph_kernels", "graph_launches", "early", "blocking", "kernels", "dtype", "algorithm", "ahead", "synchronisations", "code_loads", "collections", "copies", "messages",
    "graph_instantiations", "allocations", "memory", "kernel", "grid", "registers", "ranges", "streams", "calls",
)  # fmt: skip
_BACKENDS = ("attention", "moe")
# what kernels of one kind compute in or send by, and those of one name take
_MADE_OF = ("dtype", "algorithm", "registers")
_SIZED = (
    "copies",
    "messages",
)  # of as many other bytes tell; where there are more or fewer messages, so are kernels
_VARYING = ("kernels", "graph_launches", "synchronisations", "copies", "ranges")  # told where they vary, too
_RATES = ("collections", "code_loads", "graph_instantiations", "graph_launches", "allocations")
_WITH_LOAD = ("synchronisations", "copies", "ranges", "kernel")  # how often may go with the load
_MADE = ("allocations", "calls", "graph_instantiations", "synchronisations")  # what a program calls by itself
_ON_DEVICE = ("graph_kernels", "kernels", "launched", "kernel", "grid", "registers", "copies", "streams")
_LAGS = 100  # steps that one recording may begin before the other
_FEW = 0.05  # of a round, each of which is a part of a step

# CUDA functions by what they do, the first that fits; of class sync or launch by `api_name`.
_FUNCTIONS = (
    ("graph_launches", re.compile(r"GraphLaunch")),
    ("code_loads", re.compile(CODE_LOADS)),
    # a program may update a graph in every step: that is counted, and no first use
    ("graph_instantiations", re.compile(f"{GRAPHS_MADE}|GraphExecUpdate")),
    ("allocations", re.compile(r"Malloc|MemAlloc|HostAlloc|Free|HostRegister|HostUnregister|MemCreate|MemRelease|MemMap|MemUnmap")),
)  # fmt: skip
# what only asks changes nothing: other calls ask on their way, and a poll asks until something else is done; the free memory of
# the device is asked for by nobody but the program, and takes a call of the driver
_ASKS = re.compile(r"^(?!\w+MemGetInfo)(cu|cuda|hip)([A-Z]\w*?)?(Query|Is[A-Z]|Get[A-Z]|Peek)")

_DTYPES = (
    # nvjet tells its inputs first, by letters of its own: q, t and h
    ("fp8", re.compile(r"e4m3|e5m2|fp8|nvjet_(sm\d+_)?q")),
    ("bf16", re.compile(r"bf16|bfloat16|nvjet_(sm\d+_)?t")),
    # cuDNN says wmma_f16 and wgmma_f16 of bfloat16 as well
    (
        "fp16",
        re.compile(r"(?<![a-z])(?<!mma_)f16|(?<!b)float16|fp16|half|hgemm|h16816|h884|nvjet_(sm\d+_)?h"),
    ),
    ("int8", re.compile(r"int8|(?<![a-z0-9])s8|i8816|imma")),
    # s1688 is a product of 32 bits on tensor cores where no half is said; f32f32_tf32 is what xmma has around it
    ("tf32", re.compile(r"(?:f32f32_)?tf32|s1688gemm(?!_b?f16)")),
    ("fp64", re.compile(r"double|dgemm|f64")),
    ("fp32", re.compile(r"float(?!8|16)|sgemm(?!<)|f32|ffma|fp32")),
)


class _Item(NamedTuple):
    """What is counted. thread: '' all of them. shape: grid and block of a kernel, or the data type of a category."""

    kind: str
    name: str = ""
    thread: str = ""
    memory: str = ""
    group: str = ""
    shape: str = ""


def structure(sides: Sequence[Side], frame: Frame, round_of: str = "") -> list[StructureRow]:
    """What differs by count, phase by phase (that with the most steps first), the most telling first.

    A count that varies within a side follows the load: it is in a row where the counts of the sides lie apart all the same. Of captures that are one step each, those of one side must agree,
    and most kernels must be launched as often on both sides, or in each round; of what little may depend on requests or chance there is no
    row. round_of: the kernel, by its normalised name, that each round launches once.
    """
    items, counted = _seen(sides, frame, round_of)
    rows: list[StructureRow] = []
    for phase in sorted(frame.phases, key=lambda one: (-one.share, one.phase)):
        facts = held(frame, phase, counted, len(items))
        if facts is not None and (not frame.once or frame.rounds or _same_work(items, facts)):
            of = _Phase(frame, phase, items, facts, counted)
            once = () if rows else _of_runs(sides, of)
            rows += sorted([*_rows_of(sides, of), *once], key=_rank)
    return rows


def _rank(row: StructureRow) -> tuple[int, bool, bool, float, str, str, str, str, str]:
    """Another attention or MoE kernel is another backend, which says as much as another data type.

    As many kernels of another data type change them all. Copies that the host has a part in come before those within the device.
    """
    change = max(row.baseline, row.candidate) if row.kind in _MADE_OF else abs(row.candidate - row.baseline)
    backend = (
        row.kind == "kernel" and not (row.baseline and row.candidate) and category(row.name) in _BACKENDS
    )
    kind = "dtype" if backend else row.kind
    inside = row.name in ("[memcpy DtoD]", "[memset]")
    return (
        _ORDER.index(kind),
        row.varies,
        inside,
        -change,
        row.range,
        row.name,
        row.thread,
        row.memory,
        row.group,
    )


# What is counted, of both sides.


def _seen(sides: Sequence[Side], frame: Frame, round_of: str) -> tuple[list[_Item], Counted]:
    number: dict[_Item, int] = {}
    known = _comparable(sides)
    captured = {
        kind: all(side.captured(kind) for side in sides[:2]) for kind in ("kernels", "cuda_api", "nvtx")
    }
    kinds = [np.full(len(frame.steps), -1) for _ in range(3)]  # by kernels, by counts, by calls
    schema = {"kind": pl.Int64, "count": pl.Int64, "bytes": pl.Int64, "item": pl.Int64}
    found = [pl.DataFrame(schema=schema)]
    # rounds of each kind: of its device, and of the mean one for what the host calls
    units = np.empty((2, 0))
    for *place, part in parts_of(sides[:2]):
        period = part.periods.select("period")
        step = frame.index.rows(tagged(period, *place))
        rounds = _rounds(part, round_of, frame.units[step[0]])
        for of_steps, (kind, rows, named) in zip(kinds, _counted(part, captured, known), strict=False):
            first = units.shape[1]
            of_steps[step[step >= 0]] = first + kind[period.to_series().to_numpy()[step >= 0]]
            own = rounds[np.unique(kind, return_index=True)[1]]
            units = np.append(units, [own, np.full(len(own), frame.units[step[0]])], axis=1)
            for items in named:
                ids = np.array(
                    [-1 if one is None else number.setdefault(one, len(number)) for one in items], np.int64
                )
                item = pl.Series("item", ids[rows["what"].to_numpy()], pl.Int64)
                found.append(rows.select(pl.col("kind") + first, "count", "bytes", item).filter(item >= 0))
    table = (
        pl.concat(found).group_by("kind", "item").agg(pl.col("count", "bytes").sum())
    )  # several are one item
    if frame.rounds:  # of a whole capture, what a round of it has; streams are as many in any part of it
        shared = pl.col("item").is_in([at for one, at in number.items() if one.kind == "streams"])
        calls = np.array([one.kind in (*_MADE, *_RATES) for one in number], np.int64)
        per = pl.Series(units[calls[table["item"].to_numpy()], table["kind"].to_numpy()])
        of_round = (pl.col("count", "bytes") / per).round(_DIGITS)
        table = table.with_columns(pl.when(shared).then(pl.col("count", "bytes")).otherwise(of_round))
    varying = [at for one, at in number.items() if one.kind in _VARYING and not one.thread]
    return list(number), Counted(kinds, table, varying)


def _rounds(part: Reduction, kernel: str, mean: float) -> Floats:
    """Of each period the rounds of its device: launches of the kernel that each has; where it has none, those of the mean device."""
    found = np.full(int(part.periods["period"].max()) + 1, mean)  # type: ignore[arg-type]
    if not kernel:
        return found
    named = part.keys.filter(kind=0).select("id", "name").iter_rows()
    ids = [key for key, name in named if normalise(name) == kernel]
    own = part.kernels.filter(pl.col("key").is_in(ids)).group_by("period").agg(pl.col("count").sum())
    found[own["period"].to_numpy()] = own["count"].to_numpy()
    return found


class _Comparable(NamedTuple):
    kernels: bool  # single kernels were recorded on both sides, or on neither those of graphs
    calls: bool  # the same recorder saw the calls


def _comparable(sides: Sequence[Side]) -> _Comparable:
    whole = [
        {bool((part.keys["kind"] == 3).any()) or part.coverage["graphs"] != "captured" for part in side.parts}
        for side in sides[:2]
    ]
    by_torch = {one for side in sides[:2] for one in side.by_torch()}
    return _Comparable(whole[0] == whole[1] and len(whole[0]) == 1, len(by_torch) == 1)


# Of a table the kind of each period, rows kind, what -> count, bytes, and some lists of the items that these are of.
_Counts: TypeAlias = tuple[Ints, pl.DataFrame, list[list[_Item | None]]]
_NO_BYTES = pl.lit(0, pl.Int64).alias("bytes")


def _counted(part: Reduction, captured: dict[str, bool], known: _Comparable) -> Iterator[_Counts]:
    """The tables of kernels, of what is counted by itself, and of calls, as far as both sides have them."""
    periods = int(part.periods["period"].max()) + 1  # type: ignore[arg-type]
    whole_kernels = captured["kernels"] and known.kernels
    if whole_kernels:
        yield _kernel_counts(part, periods)
    of_gpu = ("graph_kernels", "early", "queued", "blocking", "ahead", "drained", "streams", "copies")
    held = {
        "collections": True, "ranges": captured["nvtx"] and known.calls, "messages": known.calls,
        **dict.fromkeys(of_gpu, whole_kernels), "launched": whole_kernels and captured["nvtx"],
    }  # fmt: skip
    items = [
        [
            _Item(kind, "" if kind == "collections" else name, thread if threads else "", memory, group)
            if held[kind] and (thread or not threads)
            else None
            for kind, name, thread, memory, group in part.counted.iter_rows()
        ]
        for threads in (False, True)
    ]
    yield *kinds_of(part.counts.select("period", "what", "count", "bytes"), "period", periods), items
    if captured["cuda_api"] and known.calls:
        yield _call_counts(part, periods)


def _kernel_counts(part: Reduction, periods: int) -> _Counts:
    """Kernels in all, and by name, shape, data type and way of a collective."""
    table = part.kernels.filter(pl.col("count") > 0).select(
        "period", pl.col("key").alias("what"), "count", _NO_BYTES
    )
    named = [
        (normalise(name) if is_numbered(name) else name, f"{grid or ''} x {block or ''}")
        if kind == 0
        else None
        for kind, name, grid, block in part.keys.select("kind", "name", "grid", "block").iter_rows()
    ]
    dtypes = [None if one is None else (_kind(one[0]), data_type(one[0])) for one in named]
    sent = [("", "") if one is None else collective(one[0]) for one in named]
    items: list[list[_Item | None]] = [
        [None if one is None else _Item("kernels") for one in named],
        [None if one is None else _Item("kernel", one[0]) for one in named],
        [None if one is None else _Item("grid", one[0], shape=one[1]) for one in named],
        [_Item("dtype", one[0], shape=one[1]) if one and one[1] else None for one in dtypes],
        [_Item("algorithm", name, shape=by) if name else None for name, by in sent],
        [
            # kernels that a compiler numbers are others under one name
            _Item("registers", one[0], shape=f"{count}") if one and count and one[0] == name else None
            for one, (name, count) in zip(
                named, part.keys.select("name", "registers").iter_rows(), strict=True
            )
        ],
    ]
    return *kinds_of(table, "period", periods), items


def _call_counts(part: Reduction, periods: int) -> _Counts:
    """CUDA calls by what they do, of all threads and of each; a call inside a call is that call again, but where code is loaded."""
    words = ["api", "sort", "thread"]
    calls = part.apis.select("period", "api", "thread", "count", "nested", sort="kind")
    kind, calls = kinds_of(calls, "period", periods)
    calls = calls.group_by("kind", *words).agg(pl.col("count", "nested").sum())
    distinct = calls.select(words).unique().sort(words).with_row_index("what").cast({"what": pl.Int64})
    found = [_function(api, sort) for api, sort in distinct.select("api", "sort").iter_rows()]
    loads = pl.col("what").is_in([at for at, of in enumerate(found) if of == "code_loads"])
    own = pl.when(loads).then("count").otherwise(pl.col("count") - pl.col("nested")).alias("count")
    rows = calls.join(distinct, on=words).select("kind", "what", own, _NO_BYTES).filter(pl.col("count") > 0)
    items = [
        [
            _Item(of, "" if of == "graph_launches" else api, thread if threads else "") if of else None
            for of, (api, thread) in zip(found, distinct.select("api", "thread").iter_rows(), strict=True)
        ]
        for threads in (False, True)
    ]
    return kind, rows, items


def _kind(name: str) -> str:
    """The category of a kernel; of one that has none its own short name."""
    of = category(name)
    return short(name) if of == "other" else of


def _function(api: str, kind: str) -> str:
    """The kind of row for a CUDA function, '' none."""
    known = next((name for name, pattern in _FUNCTIONS if pattern.search(api)), "")
    if known or kind == "sync":
        return known or "synchronisations"
    return "" if _ASKS.search(api) else "calls"


# The rows.


_Made: TypeAlias = Callable[..., StructureRow]  # of an item, by its number, a kind and what else is known


class _Phase(msgspec.Struct, frozen=True):
    """A phase, and what its steps hold."""

    frame: Frame
    steps: PhaseSteps
    items: list[_Item]
    held: Held
    counted: Counted

    @property
    def name(self) -> str:
        """What the phase is called."""
        return self.steps.phase

    def where(self, at: int) -> dict[str, object]:
        """The rank that alone has a difference, or of several devices of one rank that which alone has work of another amount."""
        return self.place(self.held.on_units(at), on_device=self.items[at].kind in _ON_DEVICE)

    def place(self, units: Collection[int], *, on_device: bool = True) -> dict[str, object]:
        """The rank of some units, where others have steps too; else their only device."""
        steps = self.frame.steps
        mine = steps.filter(pl.col("counterpart").is_in(units))
        for name, known in (("rank", True), ("device", on_device)):
            if mine[name].n_unique() == 1 < steps[name].n_unique():
                return {name: mine[name][0]} if known else {}
        return {}

    @property
    def certain(self) -> bool:
        """Whether so many steps show a count that it can be no chance."""
        return min(self.held.steps) >= CERTAIN

    def row(self, kind: str, **fields: object) -> StructureRow:
        """A row: of all steps, unless the fields say otherwise."""
        one, other = self.held.steps
        of_all = {"baseline_any": one, "candidate_any": other, "certain": self.certain}
        return StructureRow(
            kind=kind,  # type: ignore[arg-type]
            phase=self.name,
            per=self.frame.unit,
            baseline_steps=one,
            candidate_steps=other,
            workloads=self.held.workloads,
            **(of_all | fields),  # type: ignore[arg-type]
        )


def _rows_of(sides: Sequence[Side], of: _Phase) -> Iterator[StructureRow]:
    frame, items, held = of.frame, of.items, of.held
    place = {item: at for at, item in enumerate(items)}
    threads = _threads(items)
    collected = [any(part.coverage["gc"] == "captured" for part in side.parts) for side in sides[:2]]
    told: set[tuple[str, str]] = set()

    def row(at: int, kind: str, **more: object) -> StructureRow:
        item = items[at]
        told.add((kind, item.name))
        fields: dict[str, object] = {
            "name": item.name, "thread": item.thread or threads.get(item, ""), "memory": item.memory, "group": item.group,
            "baseline": float(held.counts(at)[0]), "candidate": float(held.counts(at)[1]),
            "baseline_any": int(held.any[0, at]), "candidate_any": int(held.any[1, at]),
            "certain": of.certain and (kind != "collections" or all(collected)), **of.where(at),
        }  # fmt: skip
        return of.row(kind, **(fields | more))

    yield from _workload(of)
    if not any(any(side.by_torch()) for side in sides[:2]):  # whose times are rounded
        for kind in _OF_TIME:
            yield from _share(kind, of)
    made_of = list(_made_of(of))
    other_ways = {row.name for row in made_of if row.kind == "algorithm"}  # their kernels came and went
    found = held.differs & _material(frame, items, held) if frame.once else held.differs
    changed = [at for at in np.flatnonzero(found).tolist() if _known(sides, items[at])]
    yield from _differing(of, place, changed, other_ways, row)
    yield from _copies(held, items, [at for at in changed if items[at].kind == "copies"], row)
    rates = list(_rates(of, row))  # how many steps have any says more than the ends of what varies
    if not frame.once:  # grids and bytes are those of the requests that happened to be captured
        for at in np.flatnonzero(held.other_bytes & ~held.differs).tolist():
            item = items[at]
            if item.kind == "messages" and item.thread:
                continue  # that of all threads says it
            same = {"baseline": float(held.before[at]), "candidate": float(held.after[at])}
            yield row(at, item.kind, **same, **_bytes(held, at))
        yield from _grids(items, held, place, row)
        most = of.steps is max(frame.phases, key=lambda one: one.share)
        for at in of.counted.varying:
            if (items[at].kind, items[at].name) in told:
                continue
            if held.apart[at] or _in_order(of, at):
                yield _varying(held, at, items[at].kind, row)
            elif most and items[at].kind != "ranges":
                yield from _now_and_then(of, at, row)
    yield from made_of
    yield from rates
    for at in _of_same_work(of):
        if (items[at].kind, items[at].name) not in told:
            before, after = held.means[:, at].tolist()
            # what one side lacks is in some steps of the other
            rate = not before or not after
            yield row(at, items[at].kind, baseline=before, candidate=after, rate=rate, **_bytes(held, at))


def _differing(
    of: _Phase, place: dict[_Item, int], changed: Sequence[int], other_ways: Collection[str], row: _Made
) -> Iterator[StructureRow]:
    """The items that differ, but for those of which another row says it. `other_ways`: collectives that go another way, by other kernels."""
    items, held = of.items, of.held
    total = place.get(_Item("kernels"))
    whole: set[_Item] = {item for at in changed if not (item := items[at]).thread}
    # ranges about the kernels of old, such as those of a profiler left on, launch none anew
    moved = total is not None and bool(held.constant[total] and not held.differs[total])
    launched = [at for at in changed if items[at].kind == "launched" and not items[at].thread]
    all_in = [at for at in launched if total is not None and _same(held, at, total)]
    for at in changed:
        item = items[at]
        if item.thread and item._replace(thread="") in whole:
            continue  # that of all threads says it
        if item.kind in (*_OF_TIME, *_BESIDE, "grid", *_MADE_OF) or at in all_in:
            continue
        if item.kind == "kernel" and collective(item.name)[0] in other_ways:
            continue
        if item.kind == "ahead" and not _waits_for_all(held, at, place):
            continue
        if item.kind == "graph_kernels":
            yield from _of_graphs(held, at, total, row)
        elif item.kind == "launched":
            if item.name and not item.thread and not moved:
                yield row(at, "kernels", name="", range=item.name)
        elif item.kind == "kernels":
            where = items[all_in[0]].name if all_in else ""
            yield row(at, "kernels", range=where, whole=bool(all_in))
        elif item.kind not in _SIZED:
            yield row(at, item.kind)
    if total is not None and total not in changed:
        yield from _moved(of, total)


def _moved(of: _Phase, total: int) -> Iterator[StructureRow]:
    """Kernels of which some ranks or devices have more and others fewer."""
    units = of.held.on_units(total)
    if len({after > before for before, after in units.values()}) == 2:
        for one, counts in units.items():
            before, after = counts.tolist()
            yield of.row("kernels", baseline=before, candidate=after, **of.place([one]))


def _same_work(items: list[_Item], held: Held) -> bool:
    """Whether most launches are of kernels that both sides launch equally often."""
    shared = np.array([item.kind == "kernel" for item in items], np.bool_) & (held.means > 0).all(axis=0)
    launches = held.means.sum(axis=0)
    return bool(launches[shared & held.constant & ~held.differs].sum() >= NEARLY * launches[shared].sum())


def _material(frame: Frame, items: list[_Item], held: Held) -> Bools:
    """Items of captures that changed by more than where a capture happens to begin; of what happens now and then, several times.

    Of rounds, what most of them have more or less of, or calls that one side alone makes, in more than a few of them; of one thread, which
    may go round more often than another, what one side alone has.

    All kernels together: where some kernel did.
    """
    change = np.abs(held.after - held.before)
    large = change >= LITTLE * np.maximum(held.before, held.after)
    kind = np.array([item.kind for item in items])
    rounds = min(frame.rounds, default=1.0)
    if frame.rounds:
        none, of_all = np.minimum(held.before, held.after) == 0, [not item.thread for item in items]
        alone = np.isin(kind, _MADE) & none
        large &= none | of_all
        large &= (change >= MOSTLY) | (alone & (change >= _FEW) & (change * rounds >= CERTAIN))
    large &= ~np.isin(kind, _RATES) | (change * rounds >= LEAST)
    return np.asarray(
        large | (np.isin(kind, ("kernels", "launched")) & (large & held.differs)[kind == "kernel"].any())
    )


def _copies(held: Held, items: list[_Item], changed: Sequence[int], row: _Made) -> Iterator[StructureRow]:
    """Copies that came or went; one row for those of one memory that came where those of another went.

    What came in nearly all steps, or went from them, may be more or fewer by the step there: a copy of each sequence.
    """
    by_name: dict[str, list[int]] = defaultdict(list)
    for at in changed:
        by_name[items[at].name].append(at)
    always = (held.any >= HELD * np.array(held.steps)[:, None]) & (held.any[::-1] == 0)
    for name, facts in by_name.items():
        every = [
            at
            for at, item in enumerate(items)
            if item.kind == "copies" and item.name == name and not item.thread
        ]
        went, came = (
            [at for at in every if always[side, at] or (at in facts and not value[at])]
            for side, value in enumerate((held.after, held.before))
        )
        paired = went + came if len(went) == len(came) == 1 else []
        if paired:
            one, other = paired
            yield row(
                one, "copies", memory="", candidate=float(held.counts(other)[1]), candidate_any=int(held.any[1, other]),
                baseline_bytes=float(held.bytes[0, one]), candidate_bytes=float(held.bytes[1, other]),
                baseline_values=[items[one].memory], candidate_values=[items[other].memory],
            )  # fmt: skip
        for at in facts:
            if at not in paired:
                yield row(at, "copies", **_bytes(held, at))


def _varying(held: Held, at: int, kind: str, row: _Made) -> StructureRow:
    """What differs from step to step, by means and ends."""
    before, after = held.means[:, at].tolist()
    ends = [[str(round(end)) for end in side] for side in held.spread[:, :, at].tolist()]
    return row(
        at, kind, certain=False, varies=True, baseline=before, candidate=after, baseline_values=ends[0], candidate_values=ends[1]
    )  # fmt: skip


def _bytes(held: Held, at: int) -> dict[str, object]:
    return {"baseline_bytes": float(held.bytes[0, at]), "candidate_bytes": float(held.bytes[1, at])}


def _same(held: Held, one: int, other: int) -> bool:
    """Whether two items have the same counts on both sides."""
    return bool(held.before[one] == held.before[other] and held.after[one] == held.after[other])


def _threads(items: list[_Item]) -> dict[_Item, str]:
    """Of items of all threads the only thread that has some."""
    found: dict[_Item, set[str]] = defaultdict(set)
    for item in items:
        if item.thread:
            found[item._replace(thread="")].add(item.thread)
    return {item: next(iter(roles)) for item, roles in found.items() if len(roles) == 1}


def _known(sides: Sequence[Side], item: _Item) -> bool:
    """Whether every export could have counted it: ranges beyond the most are not kept, and a thread needs a role on both sides."""
    for side in sides[:2]:
        if item.thread and not any(item.thread == one.role for part in side.parts for one in part.threads):
            return False
        for part in side.parts if item.kind in ("launched", "ranges") else ():
            kept = part.counted.filter(kind=item.kind)
            if len(kept) >= MOST_NAMES and not (kept["name"] == item.name).any():
                return False
    return True


def _of_graphs(held: Held, at: int, total: int | None, row: _Made) -> Iterator[StructureRow]:
    """Kernels in graphs, where it is not only that the graphs have fewer or more."""
    if total is None:
        return
    in_graphs, in_all = held.counts(at), held.counts(total, at)
    alone = [whole - part for part, whole in zip(in_graphs, in_all, strict=True)]
    if alone[0] != alone[1] or not all(in_graphs):
        yield row(at, "graph_kernels", baseline_of=float(in_all[0]), candidate_of=float(in_all[1]))


def _workload(of: _Phase) -> Iterator[StructureRow]:
    """Thread blocks of the kernels that both sides launch about as often, where those of most launches have each a tenth more, or each a tenth fewer.

    Those of kernels in blocks of other sizes tell nothing: a thread may do more.
    """
    held, shapes = of.held, defaultdict[str, list[int]](list)
    for at, item in enumerate(of.items):
        if item.kind == "grid" and not item.shape.startswith(" x"):  # of which no grid was recorded
            shapes[item.name].append(at)
    every = np.zeros(2)
    # launches and their blocks, by which side has more blocks in each
    moved, work = (defaultdict[float, Floats](lambda: np.zeros(2)) for _ in range(2))
    for rows in shapes.values():
        launches = held.means[:, rows].sum(axis=1)
        every += launches
        grids, blocks = zip(*(of.items[at].shape.split(" x ") for at in rows), strict=True)
        # with fewer launches, blocks are fewer; a few less may all be of other shapes
        others = held.means[:, rows].min(axis=0).sum() <= MOSTLY * launches.min()
        fewest = NEARLY if others else 1 - LITTLE
        near = launches.min() >= fewest * launches.max()
        if launches.all() and near and len(set(blocks)) == 1:
            made = held.means[:, rows] @ [math.prod(map(float, grid.split(","))) for grid in grids]
            way = _way(made / launches)
            moved[way] += launches
            work[way] += made
    way = _way(sum(work.values(), np.zeros(2)))
    if way and (moved[way] > MOSTLY * every).all():
        before, after = work[way].tolist()
        yield of.row("workload", baseline=before, candidate=after)


def _way(sides: Floats) -> float:
    """1 where the candidate has a tenth more, -1 where it has a tenth less, else 0."""
    change = round(float(np.diff(sides)[0]) / max(sides.max(), 1.0), 9)  # a tenth is one from either side
    return math.copysign(1.0, change) if abs(change) > LITTLE else 0.0


def _waits_for_all(held: Held, ahead: int, place: dict[_Item, int]) -> bool:
    """Whether the side that has less work left after its waits waits for all of it: a host that is slow may find none left, too."""
    drained = place.get(_Item("drained"))
    if drained is None or not held.differs[drained]:
        return False
    more_drained, more_ahead = (float(np.diff(held.counts(one, ahead))[0]) for one in (drained, ahead))
    return more_drained * more_ahead < 0


def _share(kind: str, of: _Phase) -> Iterator[StructureRow]:
    """Kernels that begin or end before something else does: how many do is a matter of time, so means are compared.

    Most of a side must, as with programmatic dependent launch. Where the host is late nothing can begin early: of what could, as many
    more or fewer must.
    """
    held, every = of.held, ("kernels", "queued") if kind == "early" else ("kernels",)
    place = {item.kind: at for at, item in enumerate(of.items) if item.kind in (kind, *every)}
    if len(place) <= len(every) or not all(held.means[:, place[one]].all() for one in every):
        return
    shares = np.array([held.means[:, place[kind]] / held.means[:, place[one]] for one in every])
    changes = np.diff(shares)
    if shares[0].max() >= MOSTLY and (changes.min() >= APART or changes.max() <= -APART):
        (before, after), (before_of, after_of) = held.means[:, [place[kind], place["kernels"]]].T.tolist()
        some, others = held.any[:, place[kind]].tolist()
        counts = {"baseline": before, "candidate": after, "baseline_of": before_of, "candidate_of": after_of}
        yield of.row(kind, **counts, baseline_any=some, candidate_any=others)


def _of_runs(sides: Sequence[Side], of: _Phase) -> Iterator[StructureRow]:
    """Ranks and, of as many, GPUs with work, where all runs of a side have as many; and peaks of memory, of all steps: the most of any run, where the runs of the sides lie apart."""
    ranks = [{run.program_ranks for run in side.runs} for side in sides[:2]]
    gpus = [{run.by_rank(_gpus) for run in side.runs} for side in sides[:2]]
    for kind, many in (("ranks", ranks), ("gpus", gpus)):
        if many[0] != many[1] and max(map(len, many)) == 1:
            one, other = (float(number.pop()) for number in many)
            yield of.row(kind, baseline=one, candidate=other)
            break
    if not all(side.captured("gpu_memory") for side in sides[:2]):
        return
    for kind in _PEAKS_OF:
        before, after = (
            [max((_peak(part, kind) for part in run.parts), default=0) for run in side.runs] for side in sides[:2]
        )  # fmt: skip
        low, high = sorted((before, after), key=max)
        if max(low) < min(high) and max(high) - max(low) >= SURELY * max(high):
            yield of.row("memory", name=kind, baseline=float(max(before)), candidate=float(max(after)))


def _gpus(part: Reduction) -> int:
    return len(part.periods.select("rank", "device").unique())


def _peak(part: Reduction, kind: str) -> int:
    return int(part.memory_peaks.filter(kind=kind)["bytes"].sum())


def _grids(items: list[_Item], held: Held, place: dict[_Item, int], row: _Made) -> Iterator[StructureRow]:
    """Kernels launched as often on both sides, in other grids or blocks."""
    moved: dict[str, list[int]] = defaultdict(list)
    for at in np.flatnonzero(held.differs).tolist():
        if items[at].kind == "grid":
            moved[items[at].name].append(at)
    for name, every in moved.items():
        at = place[_Item("kernel", name)]
        change = held.after[every] - held.before[every]
        if held.constant[at] and not held.differs[at] and (change < 0).any() and (change > 0).any():
            values = [
                [items[one].shape for one, by in zip(every, change, strict=True) if by * sign > 0]
                for sign in (-1, 1)
            ]
            count = max(held.before[every].sum(), held.after[every].sum())
            yield row(
                at, "grid", baseline=float(count), candidate=float(count), baseline_values=sorted(values[0]),
                candidate_values=sorted(values[1]),
            )  # fmt: skip


def _made_of(of: _Phase) -> Iterator[StructureRow]:
    """Kernels of a kind of which one data type or algorithm has fewer, whichever they are, and another one more."""
    less: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    more: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    every: dict[tuple[str, str], list[int]] = defaultdict(list)
    held = of.held
    for at, item in enumerate(of.items):
        every[item.kind, item.name].append(at)
        change = held.after[at] - held.before[at]
        if item.kind in _MADE_OF and held.differs[at]:
            (more if change > 0 else less)[item.kind, item.name][item.shape] = abs(float(change))
    for one in sorted(less.keys() & more.keys()):
        before, after = (max(sorted(by[one]), key=lambda value: by[one][value]) for by in (less, more))
        totals = [float(side[every[one]].sum()) for side in (held.before, held.after)]
        in_all = {"baseline_of": totals[0], "candidate_of": totals[1]} if one[0] == "algorithm" else {}
        yield of.row(
            one[0], name=one[1], baseline=less[one][before], candidate=more[one][after], baseline_values=[before],
            candidate_values=[after], **in_all,
        )  # fmt: skip


def data_type(kernel: str) -> str:
    """The data type that a kernel's name tells first: of its inputs, where it tells several; '' none."""
    # what adds up the parts of a GEMM does so in fp32, whatever that computes in
    name = "" if "splitKreduce" in kernel else kernel.lower()
    name = name.partition("batched<const ")[2] or name  # cuBLAS says first what a small product computes in
    found = [(match.start(), dtype) for dtype, pattern in _DTYPES if (match := pattern.search(name))]
    return min(found, key=lambda one: one[0], default=(0, ""))[1]


def _now_and_then(of: _Phase, at: int, row: _Made) -> Iterator[StructureRow]:
    """What one side has more of in steps at one regular distance, where all others have as many, as where one in twelve decodes an image."""
    both = _beside(of, at, steps_of(of.frame, of.name) | (_of_one_side(of.frame) >= 0), shift=True)
    if not both:
        return
    change = [
        np.where(np.ptp(one, axis=0) > SURELY * one.max(axis=0), np.diff(one, axis=0)[0], 0) for one in both
    ]
    signs = np.sign(np.concatenate(change))
    way = 1 if (signs > 0).sum() >= (signs < 0).sum() else -1
    there = [one * way > 0 for one in change]
    every = regular(np.concatenate([np.diff(np.flatnonzero(one)) for one in there]))
    many, same = int((signs == way).sum()), int((signs == 0).sum())
    # a few odd ones of the other side say nothing
    if every and (signs == -way).sum() < LEAST <= many <= same + len(both):
        odd = np.concatenate([one[:, by] for one, by in zip(both, there, strict=True)], axis=1)
        usual = np.median(np.concatenate([one[0, by == 0] for one, by in zip(both, change, strict=True)]))
        before, after = np.median(odd, axis=1).tolist()
        if of.items[at].kind != "kernels" and not before * after:
            return  # the rates say in how many there is any
        any_of = (abs(odd - usual) > SURELY * usual).sum(axis=1).tolist()
        yield row(
            at, of.items[at].kind, baseline=before, candidate=after, baseline_any=any_of[0], candidate_any=any_of[1], every=every
        )  # fmt: skip


def _in_order(of: _Phase, at: int) -> bool:
    """Whether both sides did the same in the same order, where each number of an item on one side has one of its own on the other, and all have more or all have fewer.

    So they did where numbers that are not the most common one meet theirs again and again.
    """
    if of.held.constant[at] or np.ptp(of.held.means[:, at]) <= SURELY * of.held.means[:, at].max():
        return False
    both = np.concatenate(_beside(of, at, steps_of(of.frame, of.name)) or [np.zeros((2, 1))], axis=1)
    met, times = np.unique(both, axis=1, return_counts=True)
    own = np.ones(len(times), np.bool_)
    for side in met:
        number = np.unique(side, return_inverse=True)[1]
        most = np.zeros(number.max() + 1)
        np.maximum.at(most, number, times)
        own &= times == most[number]
    again = times[own].sum() - times.max() - own.sum() + 1
    way = abs(np.sign(np.diff(both, axis=0)).sum())
    return bool(min(times[own].sum(), way) >= HELD * times.sum() and again >= LEAST)


def _beside(of: _Phase, at: int, mine: Bools, *, shift: bool = False) -> list[Floats]:
    """How many of an item some steps have: (2, steps) of each run and device that both sides have. shift: from where most have as many."""
    steps, found = of.frame.steps, []
    own = steps.select("side", "counterpart", "run", count=pl.Series(of.counted.of(at))).filter(
        pl.Series(mine)
    )
    parts = own.partition_by("side", "counterpart", "run", as_dict=True)
    for (side, *place), part in parts.items():
        if side == 0 and (1, *place) in parts:
            one, other = (each["count"].to_numpy() for each in (part, parts[1, *place]))
            most = min(len(one) // 2, len(other) // 2, _LAGS) if shift else 0
            lags = sorted(range(-most, most + 1), key=abs)
            every = ((one[max(lag, 0) :], other[max(-lag, 0) :]) for lag in lags)
            pairs = (np.stack([before[: len(after)], after[: len(before)]]) for before, after in every)
            found.append(max(pairs, key=lambda both: (both[0] == both[1]).sum()))
    return found


def _of_one_side(frame: Frame) -> Ints:
    """The side of steps in phases that the other side never ran, -1 of all others."""
    alone = (pl.col("side").n_unique().over("phase") == 1) & ~pl.col("start_up")
    return frame.steps.select(pl.when(alone).then("side").otherwise(-1)).to_series().to_numpy()


def _spaced(of: _Phase, item: int, side: int) -> float:
    """How likely it is by chance that the steps with an item lie at one distance, in their phase or else among all steps of a side; 1: they do not."""
    there, own = of.counted.of(item) > 0, (of.frame.steps["side"] == side).to_numpy()
    for mine in (own & steps_of(of.frame, of.name), own):
        some, every = int(there[mine].sum()), int(mine.sum())
        if some >= LEAST and regular(np.diff(np.flatnonzero(there[mine]))):
            # of integers: the ways of thousands of steps are no float
            return every**2 / (2 * (some - 1) * math.comb(every, some))
    return 1.0


def _of_same_work(of: _Phase) -> list[int]:
    """What steps copy and wait for, and their streams, that changed by a tenth, or by half in bytes, most first: where kernels vary from step to step, and both sides launch each as often in all, they did the same work."""
    means, sizes = of.held.means, of.held.bytes
    kernels = means[:, [item.kind == "kernel" for item in of.items]]
    if of.frame.once or (kernels[0] != kernels[1]).any() or (kernels % 1 == 0).all():
        return []
    change, of_bytes = (np.ptp(one, axis=0) / np.maximum(one.max(axis=0), 1e-9) for one in (means, sizes))
    moved = ((change >= LITTLE) | (of_bytes >= MOSTLY)) & ~of.held.differs & ~of.held.other_bytes
    kinds = ("synchronisations", "copies", "streams")
    found = [at for at, item in enumerate(of.items) if moved[at] and item.kind in kinds and not item.thread]
    return sorted(found, key=lambda at: -change[at])


def _rates(of: _Phase, row: _Made) -> Iterator[StructureRow]:
    """What happens now and then: more steps of one side have any, or those of one side alone at a regular distance."""
    items, held = of.items, of.held
    if of.frame.once:
        return
    alone = _of_one_side(of.frame)
    beside = [of.counted.items(alone == side) for side in (0, 1)]

    def missing(at: int) -> bool:
        """Whether the side with fewer has it in no step of a phase of its own either."""
        return at not in beside[int((held.any[:, at] / held.steps).argmin())]

    def chance(at: int) -> float:
        (none, of_none), (some, every) = sorted(zip(held.any[:, at].tolist(), held.steps, strict=True))
        if not none and (p := _spaced(of, at, int(held.any[1, at] > 0))) < 1:
            return p
        return fisher_exact(some, every, none, of_none)

    def of_load(at: int) -> float:
        """The same of what goes with the load: one side alone has it at a regular distance, or all steps of the other have it."""
        shares = held.any[:, at] / held.steps
        side = int(shares.argmin() if shares.max() >= HELD else shares.argmax())
        some, every, other = int(held.any[side, at]), held.steps[side], shares[1 - side]
        rare = LEAST <= some <= MOSTLY * every and (not other or other >= HELD)
        return _spaced(of, at, side) if rare else 1.0

    tested = {
        kind: [
            (of_load(at) if kind in _WITH_LOAD else chance(at), at)
            for at, item in enumerate(items)
            if item.kind == kind and not item.thread and missing(at)
        ]
        for kind in (*_RATES, *_WITH_LOAD)
    }
    functions = sum(len(tests) for kind, tests in tested.items() if kind in _RATES)
    for kind, tests in tested.items():
        if not tests or held.differs[[at for _, at in tests]].any():
            continue
        p, at = min(tests, key=lambda one: (one[0], items[one[1]]))
        if kind != "collections":  # these come as often as objects are made, not by chance
            p = min(p * (len(tests) if kind in _WITH_LOAD else functions), 1.0)
        if p < ALPHA:
            before, after = held.means[:, at].tolist()
            memories = _memories(of, at) if kind == "copies" else {}
            yield row(at, kind, baseline=before, candidate=after, rate=True, p_value=p, **memories)


def _memories(of: _Phase, at: int) -> dict[str, object]:
    """Of copies that came where as many of another memory went, or the other way, both memories."""
    own, change = of.items[at], np.diff(of.held.means, axis=0)[0]
    for other, item in enumerate(of.items):
        alike = item._replace(memory=own.memory) == own and other != at
        if alike and abs(change[other] + change[at]) <= LITTLE * abs(change[at]):
            went, came = (own, item) if change[at] < 0 else (item, own)
            return {"memory": "", "baseline_values": [went.memory], "candidate_values": [came.memory]}
    return {}

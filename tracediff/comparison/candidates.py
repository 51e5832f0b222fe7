"""What changed at one place in one part of one phase: its cause, place, size and evidence, before it is related to others and ranked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec
import numpy as np
import polars as pl
from msgspec.structs import replace

from tracediff.arrays import Floats
from tracediff.comparison.cells import STEP, WHERE, IdleKey, Measured
from tracediff.comparison.evidence import Idle
from tracediff.comparison.kernel_table import OfName
from tracediff.comparison.places import SURE, Judged, Judgement, Place, in_rare_steps, rare_steps
from tracediff.execution.sides import Side, stacked
from tracediff.kernels.matching import Match
from tracediff.kernels.names import category, short
from tracediff.model import (
    AwaitedFact,
    Evidence,
    FindingFacts,
    FindingPart,
    Kernels,
    Moment,
    PhaseDelta,
    Shares,
    Where,
)
from tracediff.model.causes import CAUSES, SURELY
from tracediff.model.common import SIDES
from tracediff.stats.rules import LITTLE, MOSTLY, NEARLY


class RankSize(NamedTuple):
    """A cell on one rank: ns per step of each run, and of each side."""

    baseline_runs: list[float]
    candidate_runs: list[float]
    baseline: float
    candidate: float

    @property
    def delta(self) -> float:
        """Candidate - baseline."""
        return self.candidate - self.baseline


class Candidate(msgspec.Struct, frozen=True, eq=False):
    """A place that changed in a part of a phase, or several that are one cause."""

    cause: str
    where: Where
    judged: Judgement  # of all its places together
    facts: FindingFacts
    idle: tuple[Idle, ...] = ()  # its evidence: idle time,
    ops: frozenset[str] = frozenset()  # and kernels
    moments: list[Moment] = msgspec.field(default_factory=list)
    count: tuple[float, float] | None = None  # events per step of the phase
    parts: tuple[FindingPart, ...] = ()  # they sum to its change; none where it is one place
    elsewhere: tuple[PhaseDelta, ...] = ()
    level: Evidence = "within_noise"
    differs: bool = False  # other numbers of kernels in every step
    of_rank: RankSize | None = None  # where one rank alone changed
    key: Any = None  # candidates of all phases with this key are one cause; None: those at the same place
    alone: tuple[FindingPart, ...] = ()  # its one row, where kernels of several names are in it
    names: frozenset[str] = frozenset()  # of all its kernels, as they are shown
    leading: frozenset[str] = frozenset()  # of those that it is named after
    kinds: frozenset[str] = frozenset()  # the categories of these
    own: tuple[Place, ...] = ()  # its places, where it is several; without those that follow from them
    follow: tuple[Place, ...] = ()  # the places that follow from the others

    @property
    def phase(self) -> str:
        """The phase in which it changed."""
        return self.judged.phase.steps.phase

    @property
    def moved(self) -> bool:
        """Whether its interval leaves out zero."""
        return self.judged.clear

    @property
    def sure(self) -> bool:
        """Whether it is more than noise."""
        return self.level in SURE

    @property
    def interval(self) -> tuple[float, float, float]:
        """Its change and both ends of its interval, ns; of its rank where one rank alone changed."""
        judged = self.judged
        if self.of_rank is None:
            return judged.delta, judged.low, judged.high
        # the other ranks add nothing but their own scatter: the interval grows as the size does
        delta = self.of_rank.delta
        times = abs(delta / judged.delta)
        return (
            delta,
            delta - times * (judged.delta - judged.low),
            delta + times * (judged.high - judged.delta),
        )

    def with_facts(self, **facts: object) -> FindingFacts:
        """Its facts and some more."""
        return replace(self.facts, **facts)

    def as_parts(self, *, follows: bool = False) -> tuple[FindingPart, ...]:
        """Itself as rows of a larger cause."""
        if parts := self.parts or self.alone:
            return tuple(replace(one, follows=one.follows or follows) for one in parts)
        judged = self.judged
        return (
            FindingPart(
                self.cause, self.where, judged.delta, judged.low, judged.high, self.level, follows, match=self.facts.match,
                count_baseline=self.count and self.count[0], count_candidate=self.count and self.count[1],
            ),
        )  # fmt: skip


class Describe:
    """Judgements -> candidates with cause, place and evidence."""

    def __init__(self, measured: Measured) -> None:
        self._m = measured
        sides, layout = measured.sides, measured.layout
        self._moments = stacked(sides, "moments").sort("end", descending=True)
        self._key = dict(zip(layout.idle, layout.idle_keys, strict=True))
        waits = stacked(sides, "gaps").filter(pl.col("cause").is_in(("dependency", "host_sync")))
        share = [pl.col(name).sum() / pl.col("ns").sum() for name in ("crossed_ns", "elsewhere_ns")]
        self._behind = {
            (cause, thread, place): (crossed, elsewhere)
            for cause, thread, place, crossed, elsewhere in waits.group_by("cause", "thread", "place")
            .agg(share)
            .iter_rows()
        }
        self._names = [
            {op.name for row in measured.kernels.rows for op in (row.baseline, row.candidate)[side]}
            for side in (0, 1)
        ]
        phases = stacked(sides, "strata").select("side", "run", "part", "stratum", "phase", "steps")
        self._steps_of = phases.group_by("side", "phase").agg(pl.col("steps").sum())
        peers = stacked(sides, "awaited").filter(pl.col("peer") != "")
        self._awaited = peers.join(phases, on=["side", "run", "part", "stratum"])
        self._holds = stacked(sides, "gil").join(phases, on=["side", "run", "part", "stratum"])
        self._row = {cell: number for number, cell in enumerate(layout.kernels)}
        self._host_only = not all(side.captured("kernels") for side in sides)
        steps = measured.frame.steps
        self._ranks = sorted(steps["rank"].unique()) if steps["counterpart"].n_unique() > 1 else []
        of_phase = measured.frame.steps["phase"].gather(layout.idle_rows["step"])
        idle = layout.idle_rows.with_columns(phase=of_phase)
        self._none = idle.clear()
        self._idle = idle.partition_by("cell", "phase", as_dict=True, maintain_order=True)

    def differs(self, one: Judgement) -> bool:
        """Whether every typical step launches another number of some kernel of the place."""
        if one.place.kind != "kernels" or one.part != "typical":
            return False
        counts = self._m.kernels.differs[one.phase.steps.phase]
        return any(counts[self._row[cell]] for cell in one.place.cells)

    def synchronising(self, judged: Judged) -> dict[tuple[str, str], float]:
        """By phase and range, by how much longer the typical step surely waits in synchronising calls, ns."""
        found = {}
        for one in judged.rows:
            key = self._key.get(one.place.cells[0])
            if key and key.cause == "host_sync" and one.part == "typical" and one.clear:
                found[one.phase.steps.phase, key.where] = one.delta
        return found

    def __call__(self, one: Judgement) -> Candidate:
        """The candidate of one judged place."""
        return self._of_idle(one) if one.place.kind == "idle" else self._of_kernels(one)

    def _of_idle(self, one: Judgement) -> Candidate:
        m, cell = self._m, one.place.cells[0]
        key = self._key[cell]
        phase = one.phase.steps.phase
        mine = self._idle.get((cell, phase), self._none)
        weight = pl.Series(one.phase.steps.mean[mine["step"].to_numpy()])
        events = mine.with_columns(value=pl.col("count") * weight).group_by("side").agg(pl.col("value").sum())
        count = dict(events.iter_rows())
        place = idle_place(key, mine, m.idle.words)
        holder_place = key.where if key.cause == "gil_wait" else ""
        pieces = longest_first(self._moments, key)
        longest = _moments(pieces.filter(phase=phase), m.sides)
        calls = CAUSES[key.cause].calls
        api, others = _call(pieces, m.frame.steps, phase, one.delta) if calls else ("", False)
        crossed, elsewhere = self._behind.get((key.cause, key.thread, key.where), (0.0, 0.0))
        without_gc = [key.cause == "gc" and not side.captured("gc") for side in m.sides]
        facts = FindingFacts(
            host_only=self._host_only,
            copies=key.copy,
            baseline_without_gc=without_gc[0],
            candidate_without_gc=without_gc[1],
            awaited=self._awaited_by(key, one) if key.cause == "host_work" else None,
            without_gil=key.cause == "host_work" and self._without_gil(key.thread, one),
            other_stream=crossed if key.cause == "dependency" else None,
            other_device=elsewhere > MOSTLY,
        )
        if in_rare_steps(one.phase, one.part, one.delta, cell):
            facts = replace(facts, rare=rare_steps(m, one.phase, one.delta, cell)[0])
        candidate = Candidate(
            key.cause,
            Where(
                range=place or None,
                thread=key.thread or None,
                holder_thread=key.holder or None,
                holder_range=holder_place or None,
                api=api or None,
                phase=phase,
                other_calls=others,
            ),
            one,
            facts,
            (Idle(key.cause, key.thread, [key.where], key.holder, key.copy),),
            moments=longest,
            count=(count.get(0, 0.0), count.get(1, 0.0)),
            level=one.level,
        )
        return self._of_one_rank(candidate, mine) if len(self._ranks) > 1 else candidate

    def _awaited_by(self, key: IdleKey, one: Judgement) -> AwaitedFact | None:
        """What of another thread's work changed most during the waits at the place, where most of the change is that."""
        phase = one.phase.steps.phase
        mine = self._awaited.filter(
            pl.col("thread") == key.thread, pl.col("place") == key.where, pl.col("phase") == phase
        )
        steps = self._steps(phase)
        spent: dict[tuple[str, str, bool], list[float]] = {}
        for *peer_at, side, ns in mine.select("peer", "peer_place", "near", "side", "ns").iter_rows():
            spent.setdefault(tuple(peer_at), [0.0, 0.0])[side] += ns / steps[side]
        changes = {peer: after - before for peer, (before, after) in spent.items()}
        peer = max(changes, key=lambda name: changes[name] * one.delta, default=None)
        if peer is None or changes[peer] * one.delta < MOSTLY * one.delta**2:
            return None
        return AwaitedFact(*peer, *spent[peer])

    def _without_gil(self, thread: str, one: Judgement) -> bool:
        """Whether a thread that runs Python held the GIL no longer, or no shorter, for a change that the step followed: it waited then, or ran native code."""
        phase = one.phase.steps.phase
        mine = self._holds.filter(pl.col("thread") == thread, pl.col("phase") == phase)
        sums = dict(mine.group_by("side").agg(pl.col("hold_ns").sum()).iter_rows())
        step = float(one.phase.part(one.part).estimate.delta[STEP])
        # else the time came to light, or went behind the GPU's work
        along = step * one.delta >= NEARLY * one.delta**2 and abs(one.delta) >= LITTLE * one.phase.step_ns
        if not along or not all(sums.get(side) for side in (0, 1)):
            return False
        steps = self._steps(phase)
        return bool(abs(sums[1] / steps[1] - sums[0] / steps[0]) <= LITTLE * abs(one.delta))

    def _steps(self, phase: str) -> dict[int, float]:
        """The steps of a phase, or its rounds, in all runs of each side."""
        if rounds := self._m.frame.rounds:
            first = self._m.frame.runs[0]
            return {0: sum(rounds[:first]), 1: sum(rounds[first : first + self._m.frame.runs[1]])}
        return dict(self._steps_of.filter(pl.col("phase") == phase).select("side", "steps").iter_rows())

    def _of_kernels(self, one: Judgement) -> Candidate:
        kernels, phase = self._m.kernels, one.phase.steps.phase
        rows = [self._row[cell] for cell in one.place.cells]
        part = one.phase.part(one.part)
        sizes = [abs(float(part.estimate.delta[cell])) for cell in one.place.cells]
        order = sorted(range(len(rows)), key=lambda at: -sizes[at])
        described = [self._of_row(rows[at], one, part.estimate, one.place.cells[at]) for at in order]
        structural = [
            number
            for number, item in enumerate(described)
            if item[0] in ("kernel_fused", "kernel_split") and sizes[order[number]] >= MOSTLY * max(sizes)
        ]
        # what the block is about, where something else moved a little more
        first = structural[0] if structural else 0
        cause, where, facts, count, _ = described[first]
        leading = kernels.rows[rows[order[first]]]
        parts = tuple(item[4] for item in described)
        alone, parts = (parts, ()) if len(parts) == 1 else ((), parts)
        replaced = None if structural else replacement(parts)
        if replaced:
            cause, facts, where = "kernel_time", FindingFacts(match="replaced"), Where(kernels=replaced)
        ops = [op for row in rows for op in (*kernels.rows[row].baseline, *kernels.rows[row].candidate)]
        about: Sequence[str] = [short(op.name) for op in (*leading.baseline, *leading.candidate)]
        if replaced:  # what went is what the change is about
            about = replaced.names
        layer = self._m.layers.main(rows) if self._m.layers else None
        where = replace(where, phase=phase, layer=layer)
        candidate = Candidate(
            cause,
            where,
            one,
            facts,
            ops=frozenset(op.name for op in ops),
            count=None if replaced else count,
            parts=parts,
            alone=alone if alone and alone[0].of else (),
            level=one.level,
            differs=self.differs(one),
            names=frozenset(short(op.name) for op in ops),
            leading=frozenset(about),
            kinds=frozenset(category(op.name) for op in (*leading.baseline, *leading.candidate)),
        )
        if len(self._ranks) < 2 or cause == "comm":  # in which the other ranks wait
            return candidate
        mine = kernels.values.filter(pl.col("row").is_in(rows) & (pl.col("step") >= 0))
        return self._of_one_rank(candidate, mine.select("step", "count", ns="share_ns"))

    def _of_row(
        self, row: int, one: Judgement, estimated: Any, cell: int
    ) -> tuple[str, Where, FindingFacts, tuple[float, float], FindingPart]:
        kernels, phase = self._m.kernels, one.phase.steps.phase
        match = kernels.rows[row]
        counts = kernels.launches(phase, typical=one.part == "typical")[row]
        before, after = counts.tolist()
        means = [
            float(kernels.walls[row, side]) / count if (count := float(kernels.counts[row, side])) else 0.0
            for side in (0, 1)
        ]
        # of one op in the very step that the cause is of: the mean over all steps may not have changed
        of_step = np.array([estimated.baseline[cell], estimated.candidate[cell]]) * kernels.walls[row]
        seen = counts * (kernels.walls[row] - kernels.hidden[row])
        each = np.divide(of_step, seen, out=np.array(means), where=(seen > 0) & (one.part != "tail")).tolist()
        hidden = float(kernels.hidden[row, 1] - kernels.hidden[row, 0])
        exact, counted = bool(kernels.exact[phase][row]), abs(after - before) / max(before, after, 1e-9)
        changed = exact or counted > SURELY
        cause = _kernel_cause(match, (before, after), self._per_name(row, (before, after), means), changed)
        where = Where(kernels=kernels_of(match))
        own, exposed = (
            float(values[row, 1] - values[row, 0])
            for values in (kernels.walls, kernels.walls - kernels.hidden)
        )
        behind = kernels.hidden[row] / np.maximum(kernels.walls[row], 1.0)
        facts = FindingFacts(
            memory=self._memory(row, phase) if cause == "memcpy" else [],
            # as many ops; what they took themselves explains less than half of it, or went the other way
            overlap=Shares(*behind.tolist())
            if not exact and counted <= LITTLE and own * np.sign(exposed) < MOSTLY * abs(exposed)
            else None,
            match=self._partly(match) or match.match,
            confidence=match.confidence,
            baseline_mean_ns=each[0],
            candidate_mean_ns=each[1],
            hidden_ns=hidden if cause == "memcpy" and changed and abs(hidden) > 500 else None,
        )
        low, high = float(estimated.low[cell]), float(estimated.high[cell])
        part = FindingPart(
            cause,
            where,
            float(estimated.delta[cell]),
            low,
            high,
            # of several rows together a single one may be noise
            "within_noise" if low <= 0 <= high and one.level != "exact" else one.level,
            match=match.match,
            count_baseline=before,
            count_candidate=after,
            of=self._of_names(row, estimated, cell),
        )
        return cause, where, facts, (before, after), part

    def _per_name(self, row: int, counts: tuple[float, float], means: Sequence[float]) -> list[_Launched]:
        """Of each name of a row its ops per step, and ns of one; of all together where some took the place of others."""
        named = [self._m.kernels.of_names.get((row, side), {}) for side in (0, 1)]
        none = OfName(0.0, 0.0, 0.0)
        both = [[of.get(name, none) for of in named] for name in sorted(named[0].keys() | named[1].keys())]
        less, more = sorted(
            sum(max(sign * (one.ops - other.ops), 0.0) for one, other in both) for sign in (-1, 1)
        )
        if not both or less > LITTLE * more:
            return [(counts, means)]
        return [
            ((one.ops, other.ops), [of.wall_ns / of.ops if of.ops else 0.0 for of in (one, other)])
            for one, other in both
        ]

    def _partly(self, match: Match) -> str:
        """`more` or `fewer` where a kernel that came or went alone is launched on the other side too, in other rows; else empty."""
        for side, one, word in ((0, "added", "more"), (1, "removed", "fewer")):
            names = {op.name for op in (*match.baseline, *match.candidate)}
            if match.match == one and names <= self._names[side]:
                return word
        return ""

    def _memory(self, row: int, phase: str) -> list[str]:
        """The kind of host memory of most bytes on each side, '' where it has none or does not tell, or where the other side has more than little of it."""
        kinds = [self._m.kernels.copied.get((phase, row, side), {}) for side in (0, 1)]
        most = [next(iter(one), "") for one in kinds]
        if most[0] == most[1]:
            return most
        return [
            "" if kind in other and other[kind] >= LITTLE * min(sum(other.values()), own[kind]) else kind
            for kind, own, other in zip(most, kinds, kinds[::-1], strict=True)
        ]

    def _of_names(self, row: int, estimated: Any, cell: int) -> dict[str, float]:
        """What each name of a row gains, as parts of its time on each side; empty where both sides are one name."""
        found: dict[str, float] = {}
        match = self._m.kernels.rows[row]
        for side, (sign, ops, total) in enumerate(
            ((-1, match.baseline, estimated.baseline[cell]), (1, match.candidate, estimated.candidate[cell]))
        ):
            known = self._m.kernels.of_names.get((row, side), {})
            own = {name: one.share_ns for name, one in known.items()} or dict.fromkeys(
                (op.name for op in ops), 1.0
            )
            whole = sum(own.values()) or 1.0
            for name, ns in own.items():
                text = short(name)
                found[text] = found.get(text, 0.0) + sign * float(total) * ns / whole
        return found if len(found) > 1 else {}

    def _of_one_rank(self, candidate: Candidate, mine: pl.DataFrame) -> Candidate:
        """Where one rank alone changed, the finding is that rank's, with that rank's size: the others wait for it."""
        if candidate.level == "within_noise" or candidate.facts.rare or candidate.judged.part == "tail":
            return candidate
        phase, delta = candidate.judged.phase.steps, candidate.judged.delta
        weight = phase.typical if candidate.judged.part == "typical" else phase.mean
        sizes = {rank: self._rank_size(mine, weight, rank) for rank in self._ranks}
        moved = sum(abs(one.delta) for one in sizes.values())
        number, size = max(sizes.items(), key=lambda item: abs(item[1].delta))
        # of a rank without such steps on a side nothing is known
        known = all(one.baseline_runs and one.candidate_runs for one in sizes.values())
        if not known or not moved or abs(size.delta) < NEARLY * moved or size.delta * delta <= 0:
            return candidate
        found = replace(
            candidate,
            where=replace(candidate.where, rank=number),
            of_rank=size,
            facts=candidate.with_facts(delta_all_ranks_ns=delta),
        )
        if candidate.count is None or "count" not in mine.columns:
            return found
        often = self._rank_size(mine.with_columns(ns="count"), weight, number)
        before, after = size.baseline / (often.baseline or 1), size.candidate / (often.candidate or 1)
        return replace(
            found,
            count=(often.baseline, often.candidate),
            facts=found.with_facts(baseline_mean_ns=before, candidate_mean_ns=after),
        )

    def _rank_size(self, mine: pl.DataFrame, weight: Floats, rank: int) -> RankSize:
        frame = self._m.frame
        of_rank = np.where(frame.steps["rank"].to_numpy() == rank, weight, 0.0)
        steps = mine["step"].to_numpy()
        total = np.bincount(frame.run_number, weights=of_rank, minlength=sum(frame.runs))
        spent = np.bincount(
            frame.run_number[steps], weights=of_rank[steps] * mine["ns"].to_numpy(), minlength=sum(frame.runs)
        )
        first = frame.runs[0]
        runs = [
            [float(spent[at] / total[at]) for at in part if total[at]]
            for part in (range(first), range(first, first + frame.runs[1]))
        ]
        return RankSize(runs[0], runs[1], *(float(np.mean(one)) if one else 0.0 for one in runs))


def idle_place(key: IdleKey, mine: pl.DataFrame, words: pl.DataFrame) -> str:
    """Where the thread was: of what strikes anywhere (gc, gil_wait), for most of the cell's change.

    `mine`: side, piece, ns of the cell; `words`: of each piece.
    """
    if key.cause not in ("gc", "gil_wait"):
        return key.where
    signed = pl.when(pl.col("side") == 1).then(pl.col("ns")).otherwise(-pl.col("ns"))
    pieces = mine.group_by("piece", maintain_order=True).agg(signed.sum().alias("ns"))
    table = (
        pieces.with_columns(place=words["place"].gather(pieces["piece"]))
        .group_by("place", maintain_order=True)
        .agg(pl.col("ns").sum().abs())
        .sort("ns", "place", descending=[True, False])
    )
    return str(table["place"][0]) if len(table) else ""


def longest_first(moments: pl.DataFrame, key: IdleKey) -> pl.DataFrame:
    """The moments of one idle cell, the longest first."""
    mine = moments.filter(
        key.where == WHERE, copy=key.copy, cause=key.cause, thread=key.thread, holder=key.holder
    )
    return mine.sort(pl.col("end") - pl.col("start"), "start", descending=[True, False])


def _moments(longest: pl.DataFrame, sides: tuple[Side, Side]) -> list[Moment]:
    """The longest piece on each side, the candidate's first."""
    found = []
    of_side = longest["side"].to_list()
    for side in (1, 0):
        if side in of_side:
            row = longest.row(of_side.index(side), named=True)
            run = sides[side].runs[row["run"]].name
            found.append(Moment(SIDES[side], run, row["start"], row["end"], step=row["number"]))
    return found


def _call(pieces: pl.DataFrame, steps: pl.DataFrame, phase: str, delta: float) -> tuple[str, bool]:
    """The CUDA function whose time per step of the phase changed most in the direction of `delta`, '' where none is known; whether others have some of it."""
    many = steps.select("side", "phase").filter(phase=phase).group_by("side").len(name="steps")
    mine = pieces.filter(pl.col("phase") == phase, pl.col("side") < 2, pl.col("api") != "").join(
        many, on="side"
    )
    sign = pl.when((pl.col("side") == 1) == (delta >= 0)).then(1).otherwise(-1)
    change = mine.group_by("api").agg(change=(sign * pl.col("ns") / pl.col("steps")).sum())
    api = next(iter(change.sort("change", "api", descending=[True, False])["api"]), "")
    spent = mine.group_by("side").agg(
        own=pl.col("ns").filter(pl.col("api") == api).sum(), every=pl.col("ns").sum()
    )
    return api, bool((spent["own"] < (1 - SURELY) * spent["every"]).any())


# Kernel rows.


_Launched: TypeAlias = tuple[tuple[float, float], Sequence[float]]  # ops per step of each side, ns of one


def _kernel_cause(
    match: Match, counts: tuple[float, float], launched: Sequence[_Launched], changed: bool
) -> str:
    """The cause of a row's change. `counts`: ops per step, `launched`: of each of its names, `changed`: the counts differ."""
    names = sorted({op.name for op in (*match.baseline, *match.candidate)})
    kind = category((match.candidate or match.baseline)[0].name)
    if kind == "communication":
        return "comm"
    if kind in ("copy", "memset") and names[0].startswith("["):
        return "memcpy"
    if match.match in ("added", "removed") or (
        match.match in ("fused", "split")
        and min(counts) >= MOSTLY  # of what most steps lack nothing was fused
    ):
        return f"kernel_{match.match}"
    return of_launches(launched) if changed else "kernel_time"


def of_launches(launched: Sequence[_Launched]) -> str:
    """Whether more launches, or fewer, are the cause, or their time: those that both sides have may take another, the others are more or fewer."""
    by_count = sum((ops[1] - ops[0]) * means[ops[1] > ops[0]] for ops, means in launched)
    by_time = sum(min(ops) * (means[1] - means[0]) for ops, means in launched)
    if abs(by_count) < abs(by_time):
        return "kernel_time"
    return "kernel_added" if by_count > 0 else "kernel_removed"


def as_often(one: float, other: float) -> bool:
    """Whether two kernels, each of one side alone, are launched nearly as often."""
    return min(one, other) >= NEARLY * max(one, other) > 0


def replacement(parts: Sequence[FindingPart]) -> Kernels | None:
    """The kernels that went and those that came in their stead, the longest first; None where none did, or in a little of their time, unless as often and of one kind; or where they hold a little of the change.

    What came again under its name, with other arguments or types, replaces nothing. Of rows of two names, those of one kernel: where several
    have each a partner, they take another time.
    """
    times, launches = _exchanged(parts)
    again = times[0].keys() & times[1].keys()
    went, came = ({name: ns for name, ns in side.items() if name not in again} for side in times)
    less, more = sorted((sum(went.values()), sum(came.values())))
    kinds = {category(name) for names in (*went, *came) for name in names}
    alike = len(kinds) == 1 and "other" not in kinds and as_often(*launches)
    change = abs(sum(one.delta_ns for one in parts))
    if not less or (less < LITTLE * more and not alike) or more < LITTLE * change:
        return None
    longest = [sorted(side, key=side.__getitem__, reverse=True) for side in (went, came)]
    return Kernels(*(tuple(name for names in side for name in names) for side in longest))


def _exchanged(parts: Sequence[FindingPart]) -> tuple[list[dict[tuple[str, ...], float]], list[float]]:
    """Of the kernels that went and of those that came: ns by names, and launches of the rows of one name."""
    rows = [(one, one.where, bool(one.count_candidate) - bool(one.count_baseline)) for one in parts]
    gone = {where.called for _, where, came in rows if where.replaced_by or came < 0}
    new = {where.replaced_by or where.called for _, where, came in rows if where.replaced_by or came > 0}
    single = min(len(gone), len(new)) == 1
    times: list[dict[tuple[str, ...], float]] = [defaultdict(float), defaultdict(float)]
    launches = [0.0, 0.0]
    for one, where, came in rows:
        if where.replaced_by and single:
            times[0][where.called] -= sum(gain for gain in one.of.values() if gain < 0)
            times[1][where.replaced_by] += sum(gain for gain in one.of.values() if gain > 0)
        elif came and not where.replaced_by:
            times[came > 0][where.called] += abs(one.delta_ns)
            launches[came > 0] += (one.count_baseline or 0.0) + (one.count_candidate or 0.0)
    return times, launches


def kernels_of(match: Match) -> Kernels:
    """The kernels of a row, those of both sides where they are called otherwise."""
    before, after = (tuple(short(op.name) for op in ops) for ops in match.main)
    if not before or not after or before == after:
        return Kernels(before or after)
    if {op.name for op in match.baseline} == {op.name for op in match.candidate}:
        return Kernels(before[:1])
    return Kernels(before, after)

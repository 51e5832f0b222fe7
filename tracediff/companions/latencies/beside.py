"""Latencies beside a comparison of traces: what profiling cost, whether calls waited for the GPU, whether both say the same."""

from __future__ import annotations

from typing import Literal

from msgspec.structs import replace

from tracediff.companions.bench.compare import profiling_cost
from tracediff.companions.figures import signed, time
from tracediff.companions.latencies.model import Latencies, LatencyTraced
from tracediff.model import Check, Result

CORRESPOND = 2.0  # an iteration and a step this many times apart are not the same thing
SHORT = 0.5  # of the GPU work of a step: a shorter iteration cannot have waited for it
_WORK = ("compute", "comm", "memcpy")


def beside(latencies: Latencies, result: Result) -> Latencies:
    """Return the latencies with what the traces of the same programs say of them."""
    sides = {
        side: replace(getattr(latencies, side), label=getattr(result.inputs, side).label)
        for side in ("baseline", "candidate")
    }
    traced = [_traced(latencies, result, side) for side in ("baseline", "candidate")]
    checks = [
        _synchronised(one, latencies, result) if one.name == "synchronised" else one
        for one in latencies.checks
    ]
    return replace(
        latencies, **sides, traced=traced, checks=checks, note=_together(latencies, result, traced)
    )


def _traced(latencies: Latencies, result: Result, side: Literal["baseline", "candidate"]) -> LatencyTraced:
    step, iteration = getattr(result.step, f"{side}_ns"), getattr(latencies.step, f"{side}_ns")
    runs = [run.mean_ns for run in getattr(latencies, side).runs]
    alone = [part for phase in result.phases if (part := getattr(phase, side)) is not None]
    # Of one workload the runs of the trace are known each; of several only their mean at the baseline's mix.
    profiled = alone[0].run_means_ns if len(alone) == 1 else [step]
    cost = profiling_cost(profiled, runs)
    if cost is None or not 1 / CORRESPOND <= step / iteration <= CORRESPOND:
        return LatencyTraced(side, iteration, step, False)
    low, high = cost.ci_low_ns, cost.ci_high_ns
    return LatencyTraced(side, iteration, step, True, step - iteration, step / iteration - 1, low, high)


def _synchronised(check: Check, latencies: Latencies, result: Result) -> Check:
    """Compare the median iteration with the GPU work of a step: what is shorter did not wait, or is something else."""
    texts, well = [], check.status == "ok"
    for side in ("baseline", "candidate"):
        books = getattr(result.accounting, side)
        work = sum(books.get(name, 0.0) for name in _WORK)
        median = getattr(next(row for row in latencies.rows if row.statistic == "median"), f"{side}_ns")
        if median < SHORT * work:
            well = False
            texts.append(
                f"median {time(median)} is {100 * median / work:.0f} % of the GPU work of a traced step"
                f" ({time(work)}), below {100 * SHORT:.0f} %"
            )
        else:
            texts.append(
                f"{getattr(check, side)}; median {time(median)}, GPU work of a traced step {time(work)}"
            )
    message = f"{check.message}; an iteration below {100 * SHORT:.0f} % of the GPU work of a step did not wait, or is not a step"
    return Check(check.name, "ok" if well else "warn", texts[0], texts[1], message)


def _together(latencies: Latencies, result: Result, traced: list[LatencyTraced]) -> str:
    """Say whether the change of the trace is there without the profiler."""
    apart = [one for one in traced if not one.corresponds]
    none = len(apart) == len(traced)
    said = [
        f"An iteration ({time(one.unprofiled_ns)}) is not a step of the trace ({time(one.traced_ns)}, {one.side}):"
        f" the cost of profiling is not known{'' if none else ' there'}."
        for one in apart[:1]
    ]
    # A side whose change alone put it so far apart must not hide that change: one side that fits is enough.
    return " ".join(said if none else [_changes(latencies, result), *said])


def _changes(latencies: Latencies, result: Result) -> str:
    ours, theirs = latencies.step, result.step
    changes = f"trace {_change(theirs.delta_ns, theirs.baseline_ns)}, without the profiler {_change(ours.delta_ns, ours.baseline_ns)}"
    if latencies.verdict in ("no_change", "inconclusive") or result.verdict in (
        "no_change",
        "inconclusive",
        "not_comparable",
    ):
        return f"Change of the step: {changes}. Verdicts: {result.verdict} and {latencies.verdict}."
    same = (ours.delta_ns > 0) == (theirs.delta_ns > 0)
    if not same:
        return f"Change of the step: {changes}. They contradict one another."
    inside = ours.ci_low_ns <= theirs.delta_ns <= ours.ci_high_ns
    tail = (
        "of the same size within the interval" if inside else "of another size: the profiler takes part in it"
    )
    return f"Change of the step: {changes}. Both have the same sign, {tail}."


def _change(delta_ns: float, base_ns: float) -> str:
    percent = f" ({100 * delta_ns / base_ns:+.1f} %)" if base_ns else ""
    return f"{signed(delta_ns)}{percent}"

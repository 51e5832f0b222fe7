"""What somebody who knows these programs would add to the causes: a sentence for each of `Result.insights`."""

from __future__ import annotations

from collections.abc import Callable

from tracediff.model import Insight, Result
from tracediff.report import units, words
from tracediff.report.causes import CAUSES

TITLE = "Worth knowing"
_OTHER = {"baseline": "candidate", "candidate": "baseline"}


def sentences(result: Result) -> list[str]:
    """One or two sentences for each remark."""
    return [_WORDS[one.kind](result, one) for one in result.insights]


def _switch_interval(result: Result, one: Insight) -> str:
    return (
        f"{_waits(one)}: one or several times 5 ms, CPython's switch interval (sys.getswitchinterval)."
        " The holder runs Python code and lets go of the GIL only when it is asked to."
    )


def _holder_lets_go(result: Result, one: Insight) -> str:
    return (
        f"{_waits(one)}, less than CPython's switch interval (5 ms, sys.getswitchinterval): the holder keeps the GIL for its"
        " whole task, then lets go by itself."
    )


def _waits(one: Insight) -> str:
    return f"{one.count:,} of {one.total:,} waits for the GIL last {_span(one)}"


def _rare_stops(result: Result, one: Insight) -> str:
    steps = f"{one.phase} steps" if one.phase not in ("", "step") else "steps"
    regular = f", every {_ordinal(one.period)} step" if one.period else ""
    there = f"{one.other_count:,}" if one.other_count else "none"
    where = "" if one.side == "candidate" else "On the baseline, "
    return (
        f"{where}{one.count:,} of {one.total:,} {steps} stop for {_span(one)} ({CAUSES[one.cause].name}){regular};"
        f" on the {_OTHER[one.side]} {there} of {one.other_total:,}."
    )


def _few_steps_hide(result: Result, one: Insight) -> str:
    steps = f"{one.phase} steps" if one.phase not in ("", "step") else "steps"
    prose = units.prose([one.mean_ns, one.typical_ns])
    long = units.prose([one.high_ns])
    size = long.size(one.high_ns) if one.count == 1 else _span(one)
    start = ", at start-up" if one.start_up else ""
    return (
        f"The mean of all {steps} changes by {prose.signed(one.mean_ns)}, the typical one by {prose.signed(one.typical_ns)}:"
        f" {one.count:,} of {one.total:,} steps of the {one.side} ({size} long{start})"
        f" {'makes' if one.count == 1 else 'make'} the difference."
    )


def _hidden_host(result: Result, one: Insight) -> str:
    change = one.candidate_exposed_ns - one.baseline_exposed_ns
    prose = units.prose([one.baseline_ns, one.candidate_ns, change])
    most = f", most of it in {one.api}" if one.api else ""
    what = "in launching calls" if one.cause == "launch_api" else "on its own work between CUDA calls"
    moved = "less" if change < 0 else "more"
    why = "the rest runs behind GPU work now" if change < 0 else "the GPU's work no longer hides it"
    if change < 0 and one.candidate_exposed_ns < 0.01 * one.candidate_ns:
        why = "all of it runs behind GPU work now"
    return (
        f"The host {'still ' * (change < 0)}spends {prose.size(one.candidate_ns)} {words.per_step('', unit=words.unit(result))} {what}{most}"
        f" ({prose.size(one.baseline_ns)} before), but the GPU waits {prose.size(change)} {moved} for it: {why}."
    )


def _slower_clock(result: Result, one: Insight) -> str:
    slower = one.low > 0
    low, high = sorted((abs(one.low), abs(one.high)))
    first, last = f"{100 * low:.1f}", f"{100 * high:.1f}"
    span = f"{first} %" if first == last else f"{first} to {last} %"
    return (
        f"All kernels take {span} {'longer' if slower else 'less time'}, {one.count:,} kernels of equal grids alike:"
        f" {'a lower' if slower else 'a higher'} clock or another power limit, not a change of the program."
    )


def _late_rank(result: Result, one: Insight) -> str:
    return (
        f"Rank {one.rank} comes last in {100 * one.share:.0f} % of the steps ({100 * one.other_share:.0f} % on the baseline);"
        f" the others wait for it. The cause is on rank {one.rank}, not in the network."
    )


def _span(one: Insight) -> str:
    """`71.0 to 83.0 ms`, `2.04 ms` where both are written alike."""
    prose = units.prose([one.low_ns, one.high_ns])
    low, high = prose.size(one.low_ns), prose.size(one.high_ns)
    return low if low == high else f"{low.split()[0]} to {high}"


def _ordinal(number: int) -> str:
    """`25th`, `22nd`."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


_WORDS: dict[str, Callable[[Result, Insight], str]] = {
    "switch_interval": _switch_interval,
    "holder_lets_go": _holder_lets_go,
    "rare_stops": _rare_stops,
    "few_steps_hide": _few_steps_hide,
    "hidden_host": _hidden_host,
    "slower_clock": _slower_clock,
    "late_rank": _late_rank,
}

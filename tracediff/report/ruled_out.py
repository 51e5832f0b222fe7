"""What a post-mortem may rule out, and what it may not: a change that was not seen is not a change that is not there."""

from __future__ import annotations

import math

from tracediff.model import Result
from tracediff.report import palette, units, words
from tracediff.report.document import Block, Code, Heading, Number, Paragraph, Span, Table

# A category is ruled out where its whole interval lies within this part of a step; beyond it noise may hide a change.
NEGLIGIBLE = 0.01
_OPTIONAL = {"gc": "gc", "gil_wait": "gil"}  # categories whose kind of trace may be missing


def ruled_out(result: Result) -> list[Block]:
    """Return the section: categories, kernels, the mix of steps, and the circumstances of both captures."""
    blocks: list[Block] = [Heading(2, "What was ruled out, and why")]
    if result.verdict == "not_comparable":
        blocks.append(
            Paragraph(
                [
                    "Nothing: the sides are not comparable, and any difference may be one of what differs below."
                ]
            )
        )
    else:
        within = f"{100 * NEGLIGIBLE:.0f} % of a step"
        blocks += [
            Paragraph(
                [
                    f"Ruled out means: the whole 95 % interval lies within {within}. Where noise could hide more than that, "
                    "nothing is ruled out."
                ]
            ),
            Table(["Possible cause", "Delta", "95 % CI", "", ""], _categories(result)),
        ]
    checks = result.comparability.checks
    same = [check for check in checks if check.status == "ok" and check.baseline == check.candidate]
    other = [check for check in checks if check not in same]
    if same:
        rows: list[list[Span]] = [[check.name, Code(check.baseline), check.message] for check in same]
        blocks += [
            Paragraph(["Circumstances that are the same on both sides:"]),
            Table(["", "Value", ""], rows),
        ]
    if other:
        harmless = {"ok": "no obstacle to comparing", "warn": "not ruled out", "fail": "not comparable"}
        rows = [
            [check.name, Code(check.baseline), Code(check.candidate), harmless[check.status], check.message]
            for check in other
        ]
        blocks += [
            Paragraph(["Circumstances that differ:"]),
            Table(["", "Baseline", "Candidate", "", ""], rows),
        ]
    return blocks


def _categories(result: Result) -> list[list[Span]]:
    books, step = result.accounting, result.step.baseline_ns
    scale = units.scale_for([*books.delta.values(), *books.ci_low.values(), *books.ci_high.values()])
    rows: list[list[Span]] = []
    for key in palette.order(set(books.delta)):
        label = palette.category(key).label
        if key not in books.baseline and key not in books.candidate:
            if key in _OPTIONAL:
                flag = words.category_missing(result, key)
                rows.append(
                    [label, Number(""), Number(""), "not ruled out", f"not captured; {flag} shows it"]
                )
            continue
        if key not in books.delta or books.level.get(key, "within_noise") != "within_noise":
            continue  # it moved: it is among the causes
        delta, low, high = books.delta[key], books.ci_low.get(key), books.ci_high.get(key)
        absent = _absent(result, key)
        judged = _judged(scale, low, high, step, absent, repeated=_repeated(result))
        rows.append([label, Number(scale.delta(delta)), *judged])
    return [*rows, *_kernels(result), _mix(result)]


def _repeated(result: Result) -> bool:
    """Whether both sides have runs enough to know their run-to-run noise: an interval within one run does not."""
    return min(result.step.runs.baseline, result.step.runs.candidate) > 1


def _absent(result: Result, key: str) -> str:
    books = result.accounting
    sides = [
        name
        for name, values in (("baseline", books.baseline), ("candidate", books.candidate))
        if key not in values
    ]
    if sides:
        return f"not captured on the {sides[0]}"
    return (
        "nothing is charged to it on either side"
        if not books.baseline[key] and not books.candidate[key]
        else ""
    )


def _judged(
    scale: units.Scale, low: float | None, high: float | None, step: float, absent: str, *, repeated: bool
) -> list[Span]:
    if absent.startswith("not captured"):
        return [Number(""), "not ruled out", absent]
    if absent:
        return [Number(""), "ruled out", absent]
    if low is None or high is None:
        return [Number(""), "not ruled out", "its noise is not known"]
    interval = Number(f"{scale.signed(low)} to {scale.signed(high)} {scale.unit}")
    if not repeated:
        return [interval, "not ruled out", "one run on a side: run-to-run noise is not known"]
    reach = max(abs(low), abs(high))
    share = _at_most(reach, step)
    if reach <= NEGLIGIBLE * step:
        return [interval, "ruled out", f"at most {share} of a step"]
    return [interval, "not ruled out", f"noise may hide up to {share} of a step"]


def _at_most(part: float, whole: float) -> str:
    """Write a bound as a share, rounded up: a bound that is rounded down is none."""
    if not whole:
        return units.NO_BASE
    return f"{math.ceil(1000 * part / whole - 1e-9) / 10:,.1f} %"


def _kernels(result: Result) -> list[list[Span]]:
    """One row for all kernels that did not move; none where there are none."""
    still = [row for row in result.kernels if row.level == "within_noise"]
    if not still:
        return []
    worst = max(max(abs(row.ci_low_ns), abs(row.ci_high_ns)) for row in still)
    largest = max(still, key=lambda row: (abs(row.delta_ns), row.ci_high_ns))
    scale = units.scale_for([worst, largest.delta_ns])
    small = _repeated(result) and worst <= NEGLIGIBLE * result.step.baseline_ns
    text = f"{len(still)} of {len(result.kernels)} rows within noise, no interval beyond {scale.time(worst)}"
    delta = Number(f"largest {scale.delta(largest.delta_ns)}")
    return [["each of the other kernels", delta, Number(""), "ruled out" if small else "not ruled out", text]]


def _mix(result: Result) -> list[Span]:
    mix = result.mix
    scale = units.scale_for([mix.baseline_raw_ns, mix.batch_mix_ns])
    small = abs(mix.batch_mix_ns) <= NEGLIGIBLE * abs(mix.baseline_raw_ns)
    text = (
        "the sides ran the same mix of steps"
        if small
        else "another mix of steps; kept apart from the step time above"
    )
    return [
        "another batch mix",
        Number(scale.delta(mix.batch_mix_ns)),
        Number(""),
        "ruled out" if small else "not ruled out",
        text,
    ]

"""Findings of tails: the slow steps got slower while the typical step did not."""

from __future__ import annotations

import polars as pl

from tracediff.measure.evidence import NEXT
from tracediff.measure.idle_rows import IdleRows
from tracediff.measure.sides import Side
from tracediff.model import CATEGORIES, Finding, FindingEvidence, Moment, Where

_MIN_STEPS = 20  # steps of a phase on each side below which a p90 is one or two steps
_SLOW = 0.9  # the tail: steps above this quantile of their side
_LABELS = ("baseline", "candidate")
_SQL = """SELECT n.start, n."end", coalesce(n.text, s.value) AS label
FROM NVTX_EVENTS AS n LEFT JOIN StringIds AS s ON s.id = n.textId
WHERE n.start BETWEEN {start} AND {end} AND n."end" IS NOT NULL
ORDER BY n.start;"""


def tail_findings(
    sides: tuple[Side, Side], steps: pl.DataFrame, idle: IdleRows, noise_ns: float, known: set[str]
) -> list[Finding]:
    """One finding for each phase whose p99 moved beyond the noise while its median moved less than a quarter of that.

    `steps`: the compared whole steps with ns and busy categories; `idle`: their idle pieces. The cause is the
    category with the largest change of (mean over the slow steps - mean over all steps); one that the mean
    already shows (`known`) is not said twice. A tail is few steps: with fewer than three runs a side, or runs
    whose p99 overlap, it may be noise and is called so.
    """
    findings = []
    for phase in sorted(steps["phase"].unique()):
        mine = steps.filter(pl.col("phase") == phase)
        parts = [mine.filter(pl.col("side") == side) for side in (0, 1)]
        if min(len(part) for part in parts) < _MIN_STEPS:
            continue
        p50, p99 = ([float(part["ns"].quantile(q, "linear") or 0.0) for part in parts] for q in (0.5, 0.99))
        moved, middle = p99[1] - p99[0], p50[1] - p50[0]
        if abs(moved) <= max(noise_ns, 0.2 * min(p50)) or abs(middle) > 0.25 * abs(moved):
            continue
        excess = [_excess(part, idle) for part in parts]
        change = {name: excess[1].get(name, 0.0) - excess[0].get(name, 0.0) for name in CATEGORIES}
        category = max(change, key=lambda name: change[name] * (1 if moved > 0 else -1))
        cause = {"compute": "kernel_time"}.get(category, category)
        if cause in known:
            continue
        side = 1 if moved > 0 else 0
        slowest = parts[side].sort("ns", "start_ns", descending=[True, False]).row(0, named=True)
        start, end = slowest["start_ns"], slowest["start_ns"] + slowest["ns"]
        place = _place(idle, slowest, category)
        findings.append(
            Finding(
                rank=0,  # given when the findings are put together
                cause=cause,  # type: ignore[arg-type]
                delta_ns=moved,
                ci_low_ns=moved - noise_ns,
                ci_high_ns=moved + noise_ns,
                share=None,
                title=f"only the tail moved: p99 of {phase} steps {p99[0] / 1e3:.1f} -> {p99[1] / 1e3:.1f} us,"
                f" median {p50[0] / 1e3:.1f} -> {p50[1] / 1e3:.1f} us; slow steps are slow by {category}",
                where=Where(phase=phase, range=place or None),
                evidence=FindingEvidence(
                    _SQL.format(start=start, end=end),
                    [
                        Moment(
                            _LABELS[side],  # type: ignore[arg-type]
                            sides[side].runs[slowest["run"]].name,
                            start,
                            end,
                            "slowest step",
                        )
                    ],
                ),
                next=NEXT[cause],
                level="likely" if _apart(parts) else "within_noise",
                baseline_ns=p99[0],
                candidate_ns=p99[1],
                note="The delta is of the 99th percentile, not of the mean.",
            )
        )
    return findings


def _apart(parts: list[pl.DataFrame]) -> bool:
    """Three runs a side or more, and every run's p99 on one side above every one of the other."""
    tails = [
        part.group_by("run").agg(pl.col("ns").quantile(0.99, "linear"))["ns"].to_list() for part in parts
    ]
    if min(len(one) for one in tails) < 3:
        return False
    return bool(max(tails[0]) < min(tails[1]) or max(tails[1]) < min(tails[0]))


def _excess(part: pl.DataFrame, idle: IdleRows) -> dict[str, float]:
    """Category -> mean over the slow steps minus mean over all steps, ns."""
    limit = part["ns"].quantile(_SLOW, "linear")
    tagged = part.with_columns(slow=pl.col("ns") > limit)
    slow = max(int(tagged["slow"].sum()), 1)
    out = {
        name: float((tagged.filter(pl.col("slow"))[name].sum()) / slow - tagged[name].mean())  # type: ignore[operator]
        for name in ("compute", "comm", "memcpy")
    }
    keys = ["side", "run", "part", "period"]
    located = idle.rows.join(tagged.select(*keys, "slow"), on=keys, how="inner")
    sums = (
        idle.spelled(pl.col("cause").is_not_null(), located)
        .group_by("cause")
        .agg(slow_ns=pl.col("ns").filter(pl.col("slow")).sum(), all_ns=pl.col("ns").sum())
    )
    for cause, slow_ns, all_ns in sums.iter_rows():
        out[cause] = slow_ns / slow - all_ns / len(tagged)
    return out


def _place(idle: IdleRows, step: dict[str, int], category: str) -> str:
    rows = idle.rows.filter(
        (pl.col("side") == step["side"]) & (pl.col("run") == step["run"])
        & (pl.col("part") == step["part"]) & (pl.col("period") == step["period"])
    )  # fmt: skip
    pieces = idle.spelled(pl.col("cause") == category, rows)
    mine = pieces.group_by("place").agg(pl.col("ns").sum()).sort("ns", "place", descending=[True, False])
    return str(mine["place"][0]) if len(mine) else ""

"""`python -m benchmarks.what_if`: pairs of recordings in which a change was made, and how near a projection comes to it."""

from __future__ import annotations

import argparse
import math
import re
import statistics
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.inputs import ROOT
from benchmarks.nulls import fill
from tracediff.comparison.classes import with_classes
from tracediff.comparison.what_if import Asked, level, parse_edits, range_half
from tracediff.errors import TracediffError
from tracediff.execution.run import reduce_sides
from tracediff.execution.sides import Reading, Side
from tracediff.formats.inputs import resolve
from tracediff.stats.noise import BETA
from tracediff.whatif.graph import OWN
from tracediff.whatif.replay import Edit, Scale, project

CASES, PAGE = ROOT / "benchmarks/what_if.toml", ROOT / "benchmarks/what_if.md"
BEGIN, END = "<!-- projections: python -m benchmarks.what_if -->", "<!-- /projections -->"
HELD, HELD_BEGIN, HELD_END = "held out: ", "<!-- held out -->", "<!-- /held out -->"
WITHIN = 0.05
_PLACEHOLDER = "=base"
ROOTS = [ROOT / "fixtures"]
_SLOW = re.compile(
    "Synchronize|Alloc|alloc|Free|GraphLaunch|Instantiate|Load|Memcpy|Wait"
)  # calls whose time is not the host's
_HOST = ("launch_api", "host_api", "host_work")


@dataclass(frozen=True)
class Case:
    """A pair of sides, as patterns of files, and the edits that undo what was changed."""

    name: str
    baseline: str
    candidate: str
    edits: list[str]
    phase: str = ""  # '': that with the most steps
    statistic: str = "mean"


@dataclass(frozen=True)
class Row:
    """What came of a case, ns; `noise`: standard error of the difference of the sides, from the scatter of their runs."""

    case: Case
    text: str
    baseline: float
    candidate: float
    projected: float
    removed: float
    noise: float | None
    host: float  # times that quick CUDA calls take longer in the candidate
    equal: float  # the baseline replayed with a host as fast as the candidate's

    @property
    def equal_error(self) -> float:
        """Of the projection, beside the baseline at the candidate's host speed."""
        return (self.projected - self.equal) / self.equal

    @property
    def error(self) -> float:
        """Of the projection, as a part of the step that was really measured."""
        return (self.projected - self.baseline) / self.baseline

    @property
    def covered(self) -> bool:
        """Whether the range holds the step that was really measured, at equal host speed."""
        return abs(self.projected - self.equal) <= range_half(self.candidate, self.projected)


def load(pattern: str) -> Side:
    """The side of all files of a pattern, with the graphs of their events."""
    files = next((found for root in ROOTS if (found := sorted(root.glob(pattern)))), [])
    if not files:
        raise TracediffError("not-a-file", f"no recordings {pattern}", fix="--root FOLDER")
    with tempfile.TemporaryDirectory() as folder:
        for file in files:
            if ".sqlite" in file.name:
                Path(folder, file.name).symlink_to(file.resolve())
        (side,) = reduce_sides([resolve(f"side={folder}")], Reading(graph="all", cached=True))
    (side,) = with_classes([side])
    return side


def step_times(side: Side, edits: Sequence[Edit], case: Case) -> tuple[list[float], float]:
    """The statistic of each run's steps with the edits, and what the edits took away per step, ns."""
    values, removed, steps = [], 0, 0
    for run in side.runs:
        times: list[float] = []
        for part in run.parts:
            found = project(part, edits)
            rows = part.periods[found.row]
            phase = case.phase or rows.filter(~rows["start_up"])["phase"].mode().sort()[0]
            times += found.after[((rows["phase"] == phase) & ~rows["start_up"]).to_numpy()].tolist()
            removed, steps = removed + int(found.removed.sum()), steps + len(found.row)
        values.append(float(getattr(np, case.statistic)(times)))
    return values, removed / steps


def asked(case: Case, baseline: Side, candidate: Side) -> list[Asked]:
    """The edits of a case, with the factors that take the candidate to the baseline's level."""
    given: dict[str, list[str]] = {"--without": [], "--scale": [], "--fuse": []}
    words: Iterator[str] = iter(case.edits)
    for word in words:
        if word not in given:
            continue
        text = next(words)
        name, found, other = text.partition(_PLACEHOLDER)
        if found:
            mine, theirs = (
                parse_edits(scale=[f"{one}=0.5"])[0].edit for one in (name, other.removeprefix(":") or name)
            )
            assert isinstance(mine, Scale) and isinstance(theirs, Scale)
            text = f"{name}={min(level(baseline, theirs, case.phase) / max(level(candidate, mine, case.phase), 1), 100):.3g}"
        given[word].append(text)
    return parse_edits(*given.values(), graph="--graph" in case.edits, ahead="--async" in case.edits)


def measure(case: Case) -> Row:
    """Load both sides of a case and project the candidate."""
    baseline, candidate = load(case.baseline), load(case.candidate)
    edits = asked(case, baseline, candidate)
    sides = [step_times(side, [], case)[0] for side in (baseline, candidate)]
    projected, removed = step_times(candidate, [one.edit for one in edits], case)
    mean = [statistics.fmean(one) for one in (*sides, projected)]
    squares = sum(sum((value - statistics.fmean(one)) ** 2 for value in one) for one in sides)
    free = sum(len(one) - 1 for one in sides)
    noise = math.sqrt(squares / free * sum(1 / len(one) for one in sides)) if free else None
    host = host_speed(baseline, candidate)
    equal = statistics.fmean(step_times(baseline, [Scale(_HOST, host**BETA)], case)[0])
    return Row(case, " ".join(one.option for one in edits), *mean, removed, noise, host, equal)


def host_speed(baseline: Side, candidate: Side) -> float:
    """How much longer quick CUDA calls take on the candidate's host: the mean ratio of medians, over functions that both call."""
    medians = []
    for side in (baseline, candidate):
        lengths: dict[str, list[float]] = {}
        for part in side.parts:
            assert part.events is not None
            own = part.events.kind == OWN
            for number in np.unique(part.events.word[own]).tolist():
                name = part.events.words[number][4]
                if name and not _SLOW.search(name):
                    mine = part.events.lag[own & (part.events.word == number) & (part.events.lag > 0)]
                    lengths.setdefault(name, []).extend(mine.tolist())
        medians.append(
            {name: float(np.log(np.median(values))) for name, values in lengths.items() if len(values) >= 20}
        )
    ratios = [medians[1][name] - medians[0][name] for name in medians[0].keys() & medians[1].keys()]
    return math.exp(statistics.fmean(ratios)) if ratios else 1.0


def table(rows: Sequence[Row]) -> list[str]:
    """The rows as Markdown, and how often the goals were met."""
    lines = [
        "| pair | edit | baseline, us | candidate, us | projected, us | error | in range | by subtraction | noise | host | error at equal host |",
        "|-|-|-:|-:|-:|-:|-|-:|-:|-:|-:|",
    ]
    for row in rows:
        subtracted = (row.candidate - row.removed - row.baseline) / row.baseline
        noise = "?" if row.noise is None else f"{100 * row.noise / row.baseline:.1f} %"
        mark = "**" if abs(row.error) > WITHIN else ""
        lines.append(
            f"| {row.case.name} | `{row.text}` | {row.baseline / 1e3:,.0f} | {row.candidate / 1e3:,.0f} | {row.projected / 1e3:,.0f}"
            f" | {mark}{100 * row.error:+.1f} %{mark} | {'yes' if row.covered else 'no'} | {100 * subtracted:+.1f} % | {noise} | {row.host:.2f} | {100 * row.equal_error:+.1f} % |"
        )
    quiet = [row for row in rows if row.noise is None or row.noise / row.baseline < WITHIN]
    for text, some in (("pairs", rows), ("pairs whose noise is below 5 %", quiet)):
        equal = sum(abs(row.equal_error) <= WITHIN for row in some)
        near = sum(abs(row.error) <= WITHIN for row in some)
        lines += [
            "",
            f"Of {len(some)} {text}, {near} are within 5 % of the step, {equal} at equal host speed; the range holds {sum(row.covered for row in some)}.",
        ]
    return lines


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", type=Path, nargs="?", default=CASES)
    parser.add_argument("--root", type=Path, action="append", default=[], help="a folder with recordings")
    parser.add_argument("--only", default="", help="cases with this in their name")
    parser.add_argument(
        "--out", type=Path, nargs="?", const=PAGE, help="write into this page, benchmarks/what_if.md"
    )
    chosen = parser.parse_args()
    ROOTS.extend(chosen.root)
    rows = []
    for given in tomllib.loads(chosen.cases.read_text(encoding="utf-8"))["case"]:
        case = Case(**given)
        if chosen.only not in case.name:
            continue
        try:
            rows.append(measure(case))
        except TracediffError as error:
            print(f"{case.name}: {error}")
            continue
        print(table(rows[-1:])[2], flush=True)
    held = [row for row in rows if row.case.name.startswith(HELD)]
    for some, begin, end in (
        ([row for row in rows if row not in held], BEGIN, END),
        (held, HELD_BEGIN, HELD_END),
    ):
        lines = table(some)
        print("\n".join(lines))
        if chosen.out:
            fill(chosen.out, begin, end, lines)


if __name__ == "__main__":
    main()

"""`python -m benchmarks.nulls FOLDER...`: what is said of sides between which nothing changed, and of known changes put into them.

Every FOLDER holds runs of one program. Its exports are read once; then the runs are dealt out to two sides in many ways.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.inputs import ROOT
from benchmarks.splits import (
    Numbers,
    Planted,
    Program,
    changes,
    compared,
    main_phase,
    place_of,
    planted,
    program,
    sizes,
    splits,
    statements,
)
from tracediff.execution.sides import Run

PAGE, KEPT = ROOT / "docs/nulls.md", ROOT / "benchmarks/nulls.json"
BEGIN, END = "<!-- nulls: python -m benchmarks.nulls -->", "<!-- /nulls -->"
PARTS = (0.01, 0.02, 0.05, 0.1)  # of the phase's step: changes that are put in
CAN = 3  # runs a side from which anything but a count can be sure
LIKELY = ("likely_regressed", "likely_improved")
Row = dict[str, Any]
Split = tuple[Numbers, Numbers]

_runs: list[Run] = []  # of the program at hand, in a worker


def main() -> None:
    """Measure, print, keep."""
    chosen = _options().parse_args()
    known: dict[str, Row] = json.loads(chosen.kept.read_text()) if chosen.kept.exists() else {}
    for word in chosen.programs:
        one = program(word)
        known[one.name] = _measured(one, chosen)
        lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(row)}" for name, row in known.items())
        chosen.kept.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
    print(*summary(known), "", *tables(known), sep="\n")
    if chosen.out:
        fill(chosen.out, BEGIN, END, summary(known))


def _options() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(prog="python -m benchmarks.nulls", description=__doc__)
    say = options.add_argument
    say(
        "programs",
        nargs="*",
        metavar="FOLDER[=REGEX]",
        help="runs of one program, or 'FILES*'; REGEX: its step labels",
    )
    say(
        "--splits",
        type=int,
        default=40,
        help="at most so many of each size, a seeded sample of more; a quarter with fewer than 3 runs a side",
    )
    say("--power", type=int, default=6, help="splits that changes are put into")
    say("--kept", type=Path, default=KEPT, help="JSON; programs measured before stay in it")
    say("--out", type=Path, nargs="?", const=PAGE, help="write the summary into this page, docs/nulls.md")
    return options


def _measured(one: Program, chosen: argparse.Namespace) -> Row:
    began = time.monotonic()
    many = len(one.runs)
    tasks = [
        split
        for size in sizes(many)
        for split in splits(many, size, chosen.splits if min(size) >= CAN else chosen.splits // 4)
    ]
    os.environ["POLARS_MAX_THREADS"] = "1"  # of the workers
    with ProcessPoolExecutor(2, get_context("spawn"), _keep, (one.runs,)) as workers:
        found = []
        for row in workers.map(null_of, tasks):
            found.append(row)
            for text in row["sure"]:
                print(one.name, row["split"], text, flush=True)
        largest = tasks[: chosen.power]
        of_power = [row for rows in workers.map(power_of, largest) for row in rows]
    return {
        "runs": len(one.runs),
        "seconds": round(time.monotonic() - began),
        "nulls": found,
        "power": of_power,
    }  # fmt: skip


def _keep(runs: list[Run]) -> None:
    _runs[:] = runs


def null_of(split: Split) -> Row:
    """What is said of a split between whose sides nothing changed."""
    result = compared(_runs, split)
    return {
        "split": split,
        "sure": statements(result),
        "likely": statements(result, ("likely",), LIKELY),
        "verdict": result.verdict,
        "counts": [f"{one.phase} {one.kind} {one.name}".rstrip() for one in result.structure],
        "phases": [
            {
                "phase": one.phase,
                "step": round(one.typical.baseline_ns),
                "low": round(one.typical.ci_low_ns),
                "high": round(one.typical.ci_high_ns),
            }
            for one in result.phases
            if one.typical is not None and one.judged
        ],
    }


def power_of(split: Split) -> list[Row]:
    """What is said of a split with known changes in its candidate."""
    phase = main_phase(compared(_runs, split))
    rows: list[Row] = []
    if phase is None:
        return rows
    mine = changes(_runs, phase, PARTS)
    for number, change in enumerate(mine):
        rows.append(_power(split, change, PARTS[number % len(PARTS)]))
    return rows


def _power(split: Split, change: Planted, part: float) -> Row:
    runs = list(_runs)
    for number in split[1]:
        runs[number] = planted(runs[number], change)
    result = compared(runs, split)
    (phase,) = (one for one in result.phases if one.phase == change.phase)
    assert phase.typical is not None
    place = [
        one
        for one in result.findings
        if (one.cause, one.where.phase, one.part) == ("host_work", change.phase, "typical")
        and place_of(one) == change.place
    ]
    first = place[0] if place else None
    return {
        "split": split,
        "part": part,
        "spread": change.spread,
        "place": change.place,
        "ns": change.ns,
        "verdict": phase.verdict,
        "whole": result.verdict,
        "inside": phase.typical.ci_low_ns <= change.ns <= phase.typical.ci_high_ns,
        "level": first.level if first else None,
        "cell_inside": bool(first and first.ci_low_ns <= change.ns <= first.ci_high_ns),
        "first": bool(first and first.rank == 1),
    }


# Tables.


def summary(known: dict[str, Row]) -> list[str]:
    """What the page shows, in Markdown: all programs together, by the number of runs."""
    nulls = [one for row in known.values() for one in row["nulls"]]
    able = [one for one in nulls if min(map(len, one["split"])) >= CAN]
    lines = [
        f"{len(nulls)} splits of {len(known)} programs: {_share(nulls)} have any sure statement. Of the {len(able)} with {CAN} runs per side"
        f" or more, {_share(able)}.",
        "",
        "| runs per side | splits | any sure | likely verdict | likely cause | a count | interval covers | half of it |",
        "|-|-|-|-|-|-|-|-|",
    ]
    by_size: dict[tuple[int, ...], list[Row]] = {}
    for one in nulls:
        by_size.setdefault(tuple(sorted(len(side) for side in one["split"])), []).append(one)
    for size, rows in sorted(by_size.items(), reverse=True):
        first = [one["phases"][0] for one in rows if one["phases"]]
        cells = [" and ".join(map(str, dict.fromkeys(size))), str(len(rows)), *_said(rows), *_covers(first)]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def tables(known: dict[str, Row]) -> list[str]:
    """Every program by itself, in Markdown."""
    lines = [
        "| program | runs | sides | splits | any sure | likely verdict | likely cause | a count | phase | 95 % interval covers | half of it |",
        "|-|-|-|-|-|-|-|-|-|-|-|",
    ]
    for name, row in known.items():
        by_size: dict[str, list[Row]] = {}
        for one in row["nulls"]:
            by_size.setdefault("v".join(str(len(side)) for side in one["split"]), []).append(one)
        for size, rows in by_size.items():
            head = [name, str(row["runs"]), size, str(len(rows)), *_said(rows)]
            for phase in dict.fromkeys(found["phase"] for one in rows for found in one["phases"]):
                mine = [found for one in rows for found in one["phases"] if found["phase"] == phase]
                lines.append(f"| {' | '.join([*head, phase, *_covers(mine)])} |")
                head = [""] * len(head)
    lines += ["", *_false(known), ""]
    lines += [
        "| program | sides | change | of the step | splits | place sure | or likely | its interval holds it | first | phase regressed | or likely | its interval holds it |",
        "|-|-|-|-|-|-|-|-|-|-|-|-|",
    ]
    for name, row in known.items():
        for spread in (False, True):
            for part in PARTS:
                rows = [one for one in row["power"] if (one["spread"], one["part"]) == (spread, part)]
                if rows:
                    lines.append(_power_line(name, rows))
    return lines


def _false(known: dict[str, Row]) -> list[str]:
    """Every sure statement, all false, without its numbers."""
    said = Counter(
        (name, re.sub(r": .*", "", text))
        for name, row in known.items()
        for one in row["nulls"]
        for text in one["sure"]
    )
    head = ["| program | a false statement | splits |", "|-|-|-|"]
    return head + [f"| {name} | {text} | {many} |" for (name, text), many in said.most_common()]


def _power_line(name: str, rows: list[Row]) -> str:
    def many(key: str, *values: object) -> str:
        return str(sum(one[key] in values for one in rows))

    size = "v".join(str(len(side)) for side in rows[0]["split"])
    what = "spread" if rows[0]["spread"] else f"in `{rows[0]['place']}`"
    level, of_phase = ("exact", "confirmed"), "regressed"
    cell = (
        ["", "", "", ""]
        if rows[0]["spread"]
        else [
            many("level", *level),
            many("level", *level, "likely"),
            many("cell_inside", True),
            many("first", True),
        ]
    )
    verdict = [
        many("verdict", of_phase),
        many("verdict", of_phase, f"likely_{of_phase}"),
        many("inside", True),
    ]
    head = [name, size, what, f"{rows[0]['part']:.0%}".replace("%", " %"), str(len(rows))]
    return f"| {' | '.join(head + cell + verdict)} |"


def _share(rows: list[Row]) -> str:
    some = sum(bool(one["sure"]) for one in rows)
    return f"{some} ({some / max(len(rows), 1):.1%})".replace("%", " %")


def _said(rows: list[Row]) -> list[str]:
    """In how many splits anything is sure, the verdict likely, a cause likely, and a count a fact."""
    found = [
        [bool(one["sure"]) for one in rows],
        [one["verdict"] in LIKELY for one in rows],
        [any(text.startswith("likely ") for text in one["likely"]) for one in rows],
        [bool(one["counts"]) for one in rows],
    ]
    return [str(sum(some)) for some in found]


def _covers(phases: list[Row]) -> list[str]:
    """In how many the interval of the typical step holds 0, and the median of half its width in parts of the step."""
    if not phases:
        return ["", ""]
    covered = sum(one["low"] <= 0 <= one["high"] for one in phases)
    half = statistics.median((one["high"] - one["low"]) / 2 / one["step"] for one in phases)
    return [f"{covered} of {len(phases)}", f"{half:.1%}".replace("%", " %")]


def fill(page: Path, begin: str, end: str, lines: list[str]) -> None:
    """Replace a generated section of a page. Raises ValueError where it has none."""
    before, _, rest = page.read_text(encoding="utf-8").partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise ValueError(f"{page.name} has no section between {begin} and {end}")
    page.write_text("\n".join([before + begin, "", *lines, "", end + after]), encoding="utf-8")


if __name__ == "__main__":
    main()

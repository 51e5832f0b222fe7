"""`python -m benchmarks.scoreboard TRUTH.toml`: pairs of recordings with planted causes, and what is said of them.

A planted size is met where the estimate is within 15 % of it, or its interval holds it.
"""

from __future__ import annotations

import argparse
import math
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from benchmarks.inputs import ROOT
from benchmarks.nulls import PAGE, fill
from benchmarks.splits import Program, place_of, program
from tracediff.comparison.compare import compare
from tracediff.execution.sides import Run, Side
from tracediff.model import Finding, Result
from tracediff.report.phrases import with_words

TRUTH = ROOT / "benchmarks/truth.toml"
BEGIN, END = "<!-- scoreboard: python -m benchmarks.scoreboard -->", "<!-- /scoreboard -->"
WITHIN = 0.15
SURE_FROM = 4  # runs a side


class Found(msgspec.Struct, frozen=True):
    """What is said of one planted cause. rank: of its finding, None without one; ns, half: size and half of its interval."""

    cause: str
    place: str
    planted_ns: float | None
    ns: float | None = None
    half: float | None = None
    rank: int | None = None
    level: str = ""
    part: bool = False  # it is a part of the finding, with others

    @property
    def met(self) -> bool:
        """Whether it is found, with the planted size."""
        if self.ns is None or self.half is None:
            return False
        off = abs(self.ns - (self.ns if self.planted_ns is None else self.planted_ns))
        return off <= max(self.half, WITHIN * abs(self.planted_ns or 0))


class Score(msgspec.Struct, frozen=True):
    """What is said of a pair."""

    pair: dict[str, Any]
    verdict: str
    sentence: str
    first: str
    found: list[Found]
    others: list[str]  # sure findings that are not planted
    runs: int  # of the smaller side

    @property
    def right(self) -> bool:
        """Whether the verdict is that of the planted cause: likely with fewer runs than can be sure, and inconclusive where nothing changes."""
        wanted = self.pair["verdict"]
        few = {f"likely_{wanted}"} if self.runs < SURE_FROM else set()
        return self.verdict in {wanted, *few, *(["inconclusive"] if wanted == "no_change" else [])}


def score(pair: dict[str, Any], baseline: Sequence[Run], candidate: Sequence[Run]) -> Score:
    """Compare two sides and look for what was planted."""
    result = with_words(compare(Side("baseline", list(baseline)), Side("candidate", list(candidate))))
    found = [_found(result, pair["phase"], one) for one in pair["planted"]]
    planted = {one.rank for one in found}
    summed = {one["cause"] for one in pair["planted"] if one.get("sum")}
    return Score(
        pair,
        result.verdict,
        result.headline.text if result.headline else "",
        _words(result.findings[0]) if result.findings else "",
        found,
        [_words(one) for one in result.findings if one.level in ("exact", "confirmed") and one.rank not in planted
         and one.cause not in summed],
        min(len(baseline), len(candidate)),
    )  # fmt: skip


def _found(result: Result, phase: str, planted: dict[str, Any]) -> Found:
    empty = Found(planted["cause"], planted["place"], planted.get("ns"))
    if planted.get("sum"):  # it is told apart further than it was planted
        every = [
            one
            for one in result.findings
            if (one.cause, one.where.phase, one.part) == (planted["cause"], phase, "typical")
            and planted["place"] in place_of(one)
        ]
        if every:
            first, half = every[0], math.hypot(*((one.ci_high_ns - one.ci_low_ns) / 2 for one in every))
            ns = sum(one.delta_ns for one in every)
            return replace(empty, ns=ns, half=half, rank=first.rank, level=first.level)
    causes = (planted["cause"], *planted.get("also", ()))
    for one in result.findings:
        if one.where.phase != phase:
            continue
        it = one.cause in causes and planted["place"] in place_of(one)
        # of one that nets several changes the planted one may be a part
        if it and (not one.parts or empty.planted_ns is None or _fits(one, empty.planted_ns)):
            return _as(empty, one, one)
        for part in one.parts:
            names = " ".join(filter(None, (part.where.range, *part.where.called, part.where.holder_range)))
            if part.cause in causes and planted["place"] in names:
                return replace(_as(empty, part, one), part=True)
        if it:
            return _as(empty, one, one)
    return empty


def _fits(one: Any, ns: float) -> bool:
    return bool(abs(one.delta_ns - ns) <= max((one.ci_high_ns - one.ci_low_ns) / 2, WITHIN * abs(ns)))


def _as(empty: Found, size: Any, one: Finding) -> Found:
    half = (size.ci_high_ns - size.ci_low_ns) / 2
    return replace(empty, ns=size.delta_ns, half=half, rank=one.rank, level=size.level)


def _words(one: Finding) -> str:
    half = (one.ci_high_ns - one.ci_low_ns) / 2e3
    return f"{one.level} {one.cause} {one.where.phase or ''} {one.part} `{place_of(one)[:60]}` {one.delta_ns / 1e3:+.1f} ± {half:.1f}"


def scores(truth: Path, root: Path) -> list[Score]:
    """Of every pair whose folders are there. A pair with `paired` is compared twice: its runs had the same requests, and as if not."""
    read: dict[tuple[str, str], Program] = {}

    def runs(folder: str, regex: str) -> list[Run]:
        if (folder, regex) not in read:
            read[folder, regex] = program(f"{root / folder}={regex}")
        return read[folder, regex].runs

    found = []
    for pair in tomllib.loads(truth.read_text(encoding="utf-8"))["pair"]:
        if not all((root / pair[side]).is_dir() for side in ("baseline", "candidate")):
            continue
        sides = [runs(pair[side], pair.get("step_regex", "")) for side in ("baseline", "candidate")]
        found.append(score(pair, *sides))
        if pair.get("paired"):
            numbered = [[replace(run, traffic=number) for number, run in enumerate(side)] for side in sides]
            found.append(score({**pair, "name": f"{pair['name']}, by pairs of runs"}, *numbered))
    return found


def tables(found: Sequence[Score]) -> list[str]:
    """The tables of the page, in Markdown. us per step."""
    every = [one for row in found for one in row.found if one.planted_ns is not None]
    met = sum(one.met for one in every)
    right = sum(row.right for row in found)
    lines = [
        f"{met} of {len(every)} planted sizes are within 15 % or inside the interval; {right} of {len(found)} verdicts are those"
        f" of the planted cause; {sum(len(row.others) for row in found)} sure findings beside the planted ones.",
        "",
        "| pair | verdict | planted | us | said | level | rank | met |",
        "|-|-|-|-|-|-|-|-|",
    ]
    for row in found:
        head = [row.pair["name"], row.verdict]
        for one in row.found:
            planted = "" if one.planted_ns is None else f"{one.planted_ns / 1e3:+.1f}"
            said = (
                "not found"
                if one.ns is None or one.half is None
                else f"{one.ns / 1e3:+.1f} ± {one.half / 1e3:.1f}"
            )
            rank = "" if one.rank is None else f"{one.rank}{', a part' if one.part else ''}"
            what = " ".join(filter(None, (one.cause, f"`{one.place}`" if one.place else "")))
            cells = [what, planted, said, one.level, rank, "yes" if one.met else "no"]
            lines.append(f"| {' | '.join(head + cells)} |")
            head = [""] * len(head)
    lines += ["", "| pair | sure, and not planted |", "|-|-|"]
    lines += [f"| {row.pair['name']} | {one.replace('|', '/')} |" for row in found for one in row.others]
    return lines


def main() -> None:
    """Compare, print, write."""
    options = argparse.ArgumentParser(prog="python -m benchmarks.scoreboard", description=__doc__)
    options.add_argument("truth", type=Path, nargs="?", default=TRUTH)
    options.add_argument(
        "--root", type=Path, help="where the folders of the recordings are; else beside the table"
    )
    options.add_argument(
        "--out", type=Path, nargs="?", const=PAGE, help="write into this page, docs/nulls.md"
    )
    chosen = options.parse_args()
    found = scores(chosen.truth, chosen.root or chosen.truth.parent)
    lines = tables(found)
    print(*lines, "", *(f"{row.pair['name']}: {row.sentence}" for row in found), sep="\n")
    if chosen.out:
        fill(chosen.out, BEGIN, END, lines)


if __name__ == "__main__":
    main()

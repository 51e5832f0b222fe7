"""Ranks in words: which of them stand out, and which one the others wait for."""

from __future__ import annotations

from collections.abc import Sequence

from tracediff.model import RankRow, RankSkew, Result
from tracediff.report import units
from tracediff.report.tables import OUTLIER, rank_order

NAMED = 3


def ordered(rows: Sequence[RankRow]) -> list[RankRow]:
    """Outliers first."""
    return sorted(rows, key=rank_order)


def outliers(result: Result) -> list[str]:
    """A sentence for each of the ranks that changed otherwise than the rest, and one for those that are not named."""
    found = [row for row in ordered(result.ranks) if row.outlier is not None and abs(row.outlier) >= OUTLIER]
    out = [_outlier(row) for row in found[:NAMED]]
    if len(found) > NAMED:
        more = len(found) - NAMED
        out.append(
            f"{more} more {'rank' if more == 1 else 'ranks'} of {len(result.ranks)} changed otherwise than the rest."
        )
    return out


def _outlier(row: RankRow) -> str:
    scale = units.scale_for([row.delta_own_ns or 0.0, row.candidate_own_ns or 0.0])
    text = f"Rank {row.rank} changed otherwise than the rest"
    if row.delta_own_ns is not None:
        text += f": its own time by {scale.signed(row.delta_own_ns)} {scale.unit} per step"
    return text + (f"; {late}." if (late := _late(row)) else ".")


def _late(row: RankRow) -> str:
    if not row.candidate_last or row.candidate_behind_ns is None:
        return ""
    behind = units.scale_for([row.candidate_behind_ns]).time(row.candidate_behind_ns)
    return f"the last one in {units.share(row.candidate_last)} of the candidate's steps, by {behind}"


def skew(one: RankSkew, two: bool = True) -> str:
    """How far the ranks of a side are apart; `two`: there are two sides."""
    late = units.scale_for([one.late_ns]).time(one.late_ns)
    text = f"{f'{one.side}: ' if two else ''}the last of {one.ranks} ranks is {late} after the median one"
    if one.slowest is not None:
        text += f"; rank {one.slowest} most often, in {units.share(one.slowest_share)} of {one.steps:,} steps"
    return text + "."

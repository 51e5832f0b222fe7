"""Ranks: how far they are apart, and who waits for whom."""

from __future__ import annotations

from typing import Literal

import msgspec


class RankRow(msgspec.Struct, frozen=True):
    """One rank (process with a GPU)."""

    rank: int
    device: int
    baseline_ns: float | None
    candidate_ns: float | None
    delta_ns: float | None
    baseline_comm_wait_ns: float | None = None  # NCCL time spent waiting for the last rank to arrive
    candidate_comm_wait_ns: float | None = None
    baseline_comm_transfer_ns: float | None = None
    candidate_comm_transfer_ns: float | None = None
    baseline_caused_wait_ns: float | None = (
        None  # what the other ranks waited, in sum, while this one was the last
    )
    candidate_caused_wait_ns: float | None = None
    baseline_own_ns: float | None = None  # the step less exposed communication: what the rank itself took
    candidate_own_ns: float | None = None
    delta_own_ns: float | None = None
    baseline_last: float | None = (
        None  # share of the steps of all ranks in which its own time was the longest
    )
    candidate_last: float | None = None
    baseline_behind_ns: float | None = None  # in those, by how much it was longer than the median rank's
    candidate_behind_ns: float | None = None
    outlier: float | None = (
        None  # how far delta_own_ns is from the median rank's, in robust standard deviations
    )


class RankSkew(msgspec.Struct, frozen=True):
    """How far the ranks of a side are apart, by their own time of the steps that they share."""

    side: Literal["baseline", "candidate"]
    ranks: int
    steps: int
    late_ns: float  # the last rank after the median one, mean of the steps
    slowest: int | None  # the rank that was last most often; None where all are alike
    slowest_share: float  # in which part of the steps


class KernelRanks(msgspec.Struct, frozen=True):
    """A kernel that takes longer on one rank than on the others; ns a step."""

    side: Literal["baseline", "candidate"]
    names: list[str]
    kind: str  # compute | comm | memcpy
    mean_ns: float  # over all ranks
    most_ns: float
    most_on: int  # the rank
    imbalance: float  # most / mean, 1: alike

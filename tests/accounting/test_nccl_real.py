"""Bytes of NCCL's calls and numbers of ranges that two ranks of PyTorch recorded, against plain loops (fixtures/system/README.md)."""

from __future__ import annotations

import json
import lzma
import sqlite3
from collections import defaultdict
from statistics import fmean

import pytest

from tests.comparing import compare
from tests.tiny import FIXTURES
from tracediff.execution.run import reduce_file
from tracediff.execution.sides import Reading, Run, Side

NAMES = ("nccl_32", "nccl_64")
CREATED, PUSHED = 75, 59
STEPS = 2 * 39  # two ranks; of 40 labels the last has no end


class Recorded:
    """What the ranges of one export say within the steps of their process, read by sqlite3 and json alone."""

    def __init__(self, path) -> None:
        with sqlite3.connect(path) as db:
            db.row_factory = sqlite3.Row
            rows = db.execute(
                "SELECT n.*, coalesce(n.text, s.value) AS label FROM NVTX_EVENTS n LEFT JOIN StringIds s ON s.id = n.textId"
            ).fetchall()
        db.close()
        starts: dict[int, list[int]] = defaultdict(list)
        domains = {}
        for row in rows:
            if "_forward_step" in (row["label"] or ""):
                starts[row["globalTid"] >> 24].append(row["start"])
            if row["eventType"] == CREATED:
                domains[row["globalTid"] >> 24, row["domainId"]] = row["label"]
        self.steps = {pid: (min(times), max(times), len(times)) for pid, times in starts.items()}
        self.calls: dict[str, list[tuple[int, int]]] = defaultdict(list)  # call -> (host ns, bytes)
        self.numbers: dict[str, list[float]] = defaultdict(list)
        self.outside = 0
        for row in rows:
            first, last, _ = self.steps[row["globalTid"] >> 24]
            said = row["int64Value"] if row["int64Value"] is not None else row["doubleValue"]
            if row["eventType"] != PUSHED:
                continue
            if not first <= row["start"] < last:
                self.outside += said is not None
                continue
            if said is not None:
                self.numbers[row["label"]].append(said)
            if domains.get((row["globalTid"] >> 24, row["domainId"])) == "NCCL":
                size = json.loads(row["jsonText"])["Message size [bytes]"]
                self.calls[row["label"]].append((row["end"] - row["start"], size))


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """Of both sides what was recorded, and the comparison."""
    folder = tmp_path_factory.mktemp("nccl")
    recorded, sides = [], []
    for name in NAMES:
        path = folder / f"{name}.sqlite"
        path.write_bytes(lzma.decompress((FIXTURES / f"system/{name}.sqlite.xz").read_bytes()))
        recorded.append(Recorded(path))
        sides.append(Side(name, [Run(name, [reduce_file(path, Reading(threads=1))])]))
    return recorded, compare(*sides)


def test_two_ranks_of_forty_steps(pair):
    recorded, result = pair
    for one in recorded:
        assert [count for _, _, count in one.steps.values()] == [40, 40]
    assert tuple(result.coverage.baseline[kind] for kind in ("nccl", "gil")) == ("captured", "not_captured")


def test_calls_and_bytes_of_a_step_by_operation(pair):
    recorded, result = pair
    found = {row.call: row for row in result.system.comm_calls}
    assert set(found) == {"ncclAllReduce", "ncclAllGather"}
    for call, row in found.items():
        assert (row.library, row.thread) == ("NCCL", "executor")
        for side, one in zip(("baseline", "candidate"), recorded, strict=True):
            wanted = one.calls[call]
            assert getattr(row, f"{side}_count") == pytest.approx(len(wanted) / STEPS)
            assert getattr(row, f"{side}_ns") == pytest.approx(sum(ns for ns, _ in wanted) / STEPS)
            assert getattr(row, f"{side}_bytes") == pytest.approx(sum(size for _, size in wanted) / STEPS)
            assert getattr(row, f"{side}_bytes_per_call") == pytest.approx(fmean(size for _, size in wanted))


def test_bytes_are_those_that_the_program_printed(pair):
    """`--elements` of bfloat16 in two all-reduces a step; of the all-gather what one rank sends, `--elements` bytes."""
    found = {row.call: row for row in pair[1].system.comm_calls}
    reduce, gather = found["ncclAllReduce"], found["ncclAllGather"]
    assert (reduce.baseline_count, reduce.candidate_count) == (2, 2)
    assert (reduce.baseline_bytes_per_call, reduce.candidate_bytes_per_call) == (2_097_152, 4_194_304)
    assert (reduce.baseline_bytes, reduce.candidate_bytes) == (4_194_304, 8_388_608)
    assert (gather.baseline_count, gather.candidate_count) == (1, 1)
    assert (gather.baseline_bytes, gather.candidate_bytes) == (1_048_576, 2_097_152)


def test_larger_messages_differ_by_count(pair):
    found = [
        (one.name, one.baseline, one.baseline_bytes, one.candidate_bytes)
        for one in pair[1].structure
        if one.kind == "messages"
    ]
    assert found == [("ncclAllGather", 1, 1_048_576, 2_097_152), ("ncclAllReduce", 2, 4_194_304, 8_388_608)]


def test_numbers_of_ranges(pair):
    recorded, result = pair
    found = {row.range: row for row in result.system.payloads}
    assert set(found) == {"forward", "exchange", "tokens"}  # `plain` carries none
    for name, row in found.items():
        for side, one in zip(("baseline", "candidate"), recorded, strict=True):
            wanted, shown = one.numbers[name], getattr(row, side)
            assert len(wanted) == STEPS and shown.count_per_step == 1
            assert (shown.min, shown.max) == (min(wanted), max(wanted))
            assert shown.mean == pytest.approx(fmean(wanted))
            assert shown.sum_per_step == pytest.approx(sum(wanted) / STEPS)
    # 39 steps of batch + step % 4: (9 * 6 + 0 + 1 + 2) / 39 above the batch
    assert found["tokens"].baseline.mean == pytest.approx(32 + 57 / 39)
    assert (found["forward"].baseline.mean, found["forward"].candidate.mean) == (32, 64)
    assert (found["exchange"].baseline.mean, found["exchange"].delta_mean) == (2_097_152, 2_097_152)


def test_what_lies_before_the_first_step_and_after_the_last_counts_nowhere(pair):
    """Three numbers in each of six warm-up steps and in the last step, of both ranks."""
    assert [one.outside for one in pair[0]] == [2 * 3 * 7] * 2

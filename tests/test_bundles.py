"""Bundles that `tracediff capture` recorded on a GPU (fixtures/bundles), compared as a user would."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.tiny import FIXTURES
from tracediff.cli.main import cli

FOLDER = FIXTURES / "bundles"


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """Name of a bundle -> its result, by the command line."""
    folder = tmp_path_factory.mktemp("bundles")
    results = {}

    def one(name: str) -> dict:
        if name not in results:
            out = folder / f"{name}.json"
            done = CliRunner().invoke(cli, ["compare", str(FOLDER / name), "--json", str(out), "-q"])
            assert done.exit_code == 0, done.output
            results[name] = json.loads(out.read_text())
        return results[name]

    return one


def planted_us(name: str, kind: str) -> float:
    """Mean over the profiled candidate runs of what the program says that it planted, us a step."""
    values = []
    for path in sorted(FOLDER.glob(f"{name}/runs/*-candidate-*/emulator.json")):
        said = json.loads(path.read_text())
        values += [
            rank["planted"][kind]["us_per_step"]
            for rank in said["ranks"]
            if said["profiled"] and rank["planted"]
        ]
    assert len(values) == 4
    return sum(values) / len(values)


def test_nothing_planted_is_no_change(compared):
    result = compared("aa")
    assert result["verdict"] in ("no_change", "inconclusive")
    assert {one["level"] for one in result["findings"]} <= {"within_noise"}


@pytest.mark.parametrize(
    ("name", "kind", "cause", "where", "within"),
    [
        ("hog300", "gil_hog", "gil_wait", {"holder_thread": "await-response", "holder_range": "serialize_responses"}, 0.10),
        # seven collections in 31 steps by the program, six of them in the 29 whole steps
        ("gc5", "gc", "gc", {"range": "_schedule", "thread": "executor"}, 0.15),
        ("straggler", "straggler", "host_work", {"range": "_schedule", "thread": "executor", "rank": 1}, 0.10),
    ],
)  # fmt: skip
def test_the_first_finding_is_what_was_planted(compared, name, kind, cause, where, within):
    result = compared(name)
    first = result["findings"][0]
    assert result["verdict"] == "regressed"
    assert (first["cause"], first["level"]) == (cause, "confirmed")
    assert {key: first["where"][key] for key in where} == where
    # what is planted in every step, or a mean step's share of what is planted in some
    assert first["part"] in ("typical", "mean")
    assert first["delta_ns"] == pytest.approx(1000 * planted_us(name, kind), rel=within)


def test_the_straggler_is_what_the_others_wait_for(compared):
    rows = {row["rank"]: row for row in compared("straggler")["ranks"]}
    more = rows[0]["candidate_comm_wait_ns"] - rows[0]["baseline_comm_wait_ns"]
    assert 230_000 < more < 350_000  # 300 us late, of which some was slack before; first steps wait longer
    moved = rows[0]["candidate_comm_transfer_ns"] - rows[0]["baseline_comm_transfer_ns"]
    assert abs(moved) < 5_000


def test_a_finding_of_one_rank_is_in_that_ranks_time(compared):
    first = compared("straggler")["findings"][0]
    assert first["candidate_ns"] - first["baseline_ns"] == pytest.approx(first["delta_ns"])
    assert first["ci_low_ns"] < first["delta_ns"] < first["ci_high_ns"]
    runs = first["evidence"]["runs_candidate_ns"]
    assert len(runs) == 4 and sum(runs) / 4 == pytest.approx(first["candidate_ns"])
    assert "Other ranks wait for rank 1" in first["note"]


def test_controls_tell_what_profiling_cost(compared):
    """By the program's own clock a step took 835 us without the profiler and 972 us with it."""
    note = compared("aa")["kpi"]["note"]
    assert "Cost of profiling: baseline host_step_time_generation_p50 0.835 ms without and 0.972 ms" in note


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*/manifest.json")), ids=lambda path: path.parent.name)
def test_manifests_say_nothing_of_the_machine_but_what_it_is(path: Path):
    said = json.loads(path.read_text())
    assert said["host"]["kernel"].count(".") == 1
    assert not [run for run in said["runs"] if run["command"]]
    assert "/" not in json.dumps(said["nsys"])

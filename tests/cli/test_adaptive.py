"""`tracediff capture --until`, with real captures that a stand-in for nsys hands out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.capture.conftest import stand_ins  # noqa: F401
from tests.capture.stand_ins import PAIRS, StandIns, manifest_of
from tracediff.cli.capture import estimate
from tracediff.cli.main import cli
from tracediff.comparison.sequential import Look
from tracediff.errors import TracediffError

SIDES = ["--baseline", "program baseline", "--candidate", "program candidate"]


def capture(*words: object) -> Result:
    done = CliRunner().invoke(
        cli, ["capture", *SIDES, "-o", "bundle", *map(str, words)], catch_exceptions=False
    )
    assert done.exit_code == 0, done.output
    return done


def adaptive() -> dict[str, Any]:
    return manifest_of(Path("bundle"))["adaptive"]


def hand_out(stand_ins: StandIns, side: str, *names: str) -> None:  # noqa: F811
    path = stand_ins.folder / "captures.json"
    captures = json.loads(path.read_text())
    captures[side] = [str(PAIRS / f"{name}.sqlite.xz") for name in names]
    path.write_text(json.dumps(captures))


@pytest.mark.slow
def test_it_ends_when_the_step_has_changed(stand_ins: StandIns) -> None:  # noqa: F811
    """10 % more in every run: clear as soon as there is an interval, after the fourth pair."""
    done = capture("-n", 2, "--until", "step:0.1%", "--max-runs", 9)
    found = adaptive()
    assert [one["pairs"] for one in found["looks"]] == [2, 3, 4]
    assert found["looks"][0]["low_ns"] is None  # two pairs say nothing
    assert found["stopped"] == "changed"
    assert found["looks"][-1]["low_ns"] > 0
    assert len(stand_ins.calls("program")) == 8
    assert [call["args"][0][0] for call in stand_ins.calls("program")] == list("bccbbccb")  # A B B A goes on
    assert "after 4 pairs: step +" in done.stderr
    assert done.stderr.count("going on") == 2
    # the estimate is that of the comparison, whose generation steps alone are enough to be judged, with the host's speed in it
    compared = CliRunner().invoke(cli, ["compare", "bundle", "--json", "out.json", "--quiet"])
    assert compared.exit_code == 0, compared.output
    result = json.loads(Path("out.json").read_text())
    (typical,) = (phase["typical"] for phase in result["phases"] if phase["judged"])
    assert found["looks"][-1]["baseline_ns"] == pytest.approx(typical["baseline_ns"], abs=0.1)
    assert found["looks"][-1]["delta_ns"] == pytest.approx(
        typical["delta_ns"] + typical["host_speed_ns"], abs=0.1
    )
    (note,) = [one["message"] for one in result["warnings"] if one["slug"] == "adaptive-runs"]
    assert "(step:0.1%), 4 of them" in note


@pytest.mark.slow
def test_it_ends_when_the_interval_is_narrow(stand_ins: StandIns) -> None:  # noqa: F811
    hand_out(stand_ins, "candidate", "base_5", "base_6", "base_7", "base_8")
    capture("-n", 4, "--until", "step:20%", "--max-runs", 9)
    found = adaptive()
    assert (found["stopped"], [one["pairs"] for one in found["looks"]]) == ("narrow", [4])
    last = found["looks"][0]
    assert last["low_ns"] < 0 < last["high_ns"]
    assert last["high_ns"] - last["low_ns"] <= 2 * last["wanted_ns"]


@pytest.mark.slow
def test_it_ends_at_the_most_runs_and_goes_on_with_more(stand_ins: StandIns) -> None:  # noqa: F811
    hand_out(stand_ins, "candidate", "base_5", "base_6", "base_7", "base_8")
    first = capture("-n", 2, "--until", "step:0.01%", "--max-runs", 3)
    assert adaptive()["stopped"] == "max_runs"
    assert "--max-runs reached" in first.stderr
    capture("-n", 2, "--until", "step:0.01%", "--max-runs", 4, "--resume")
    assert len(stand_ins.calls("program")) == 8  # nothing is run again
    assert [one["pairs"] for one in adaptive()["looks"]] == [2, 3, 4]


@pytest.mark.slow
def test_controls_are_among_the_runs_and_pairs_have_seeds_of_their_own(stand_ins: StandIns) -> None:  # noqa: F811
    capture("-n", 4, "--controls", 1, "--until", "step:0.1%", "--max-runs", 9, "--same-traffic")
    assert adaptive()["stopped"] == "changed"
    runs = manifest_of(Path("bundle"))["runs"]
    assert [run["kind"] for run in runs].count("control") == 2
    seen = [(run["side"][0], run["traffic"]) for run in runs if run["kind"] != "control"]
    assert seen == [
        (side, {"pair": number, "seed": number})
        for number, sides in enumerate(("bc", "cb", "bc", "cb"), 1)
        for side in sides
    ]


def test_the_plan_says_which_runs_may_not_be_needed(stand_ins: StandIns) -> None:  # noqa: F811
    lines = capture("-n", 1, "--until", "step:2%", "--max-runs", 2, "--plan").stdout.splitlines()
    marked = [line for line in lines if line.startswith("#")]
    assert marked[:2] == ["# 001-baseline-1", "# 002-candidate-1"]
    assert marked[2:] == [
        "# 003-candidate-2 (only while step:2% is not reached)",
        "# 004-baseline-2 (only while step:2% is not reached)",
    ]


@pytest.mark.parametrize(
    "words",
    [
        ["--until", "2%"],
        ["--until", "launches:2%"],
        ["--until", "step:0%"],
        ["--until", "step:2%", "--order", "sequential"],
        ["--until", "step:2%", "-n", "5", "--max-runs", "4"],
    ],
)
def test_what_cannot_be_aimed_at(words: list[str], stand_ins: StandIns) -> None:  # noqa: F811
    with pytest.raises(TracediffError) as refused:
        capture(*words)
    assert refused.value.slug in ("plan-invalid", "measure-by-run")
    assert stand_ins.calls("program") == []


def test_the_line_that_is_shown() -> None:
    """Of a step of 1000 ns."""
    seen = Look(6, 1000.0, 31.0, 8.0, 54.0, 20.0, "changed")
    assert estimate(seen) == (
        "after 6 pairs: step +3.10 %, interval +0.80 to +5.40 %, wanted +-2 %: step changed: enough"
    )
    assert estimate(Look(2, 1000.0, 31.0, float("-inf"), float("inf"), 20.0, None)).endswith(
        "too few pairs for an interval; wanted +-2 %: going on"
    )

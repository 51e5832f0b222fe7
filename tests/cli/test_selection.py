"""--steps, --ranks and --skip-unreadable on the command line: what is left out is said in every output."""

from __future__ import annotations

import json

import pytest

import tracediff
from tests.comparison.test_ranks import ranks
from tests.execution.test_selection import rank_files

OUTPUTS = ("--html", "out.html", "--md", "out.md", "--json", "out.json")


@pytest.mark.parametrize("command", ["compare", "show"])
@pytest.mark.slow
def test_every_output_says_what_is_left_out(command, run, tmp_path):
    sides = [rank_files(tmp_path / name) for name in ("one", "other")][: 2 if command == "compare" else 1]
    (tmp_path / "one" / "run_rank5.sqlite").write_bytes(b"")
    words = (command, *sides, *OUTPUTS, "--steps", "1-4", "--ranks", "3-5", "--skip-unreadable")
    code, terminal, _ = run(*words)
    assert code == 0, terminal  # a rank that is missing on one side is a warning, for it was asked to go on
    written = [terminal, *((tmp_path / f"out.{kind}").read_text() for kind in ("html", "md", "json"))]
    if command == "compare":
        code, _, _ = run("compare", *sides, "--postmortem", "out.pm.md", "--steps", "1-4", "--ranks", "3-5", "--skip-unreadable")  # fmt: skip
        written.append((tmp_path / "out.pm.md").read_text())
    found = json.loads((tmp_path / "out.json").read_text())
    slugs = ("ranks-left-out", "steps-left-out", "exports-left-out")
    messages = [one["message"].split(" (")[0] for one in found["warnings"] if one["slug"] in slugs]
    assert len(messages) >= len(slugs)
    for text in written:  # a comment has the messages without their slugs
        assert all(slug in text for slug in slugs) or all(
            message in text.replace("\\", "") for message in messages
        )
        assert "run\\_rank5" in text or "run_rank5.sqlite" in text
    options = found["inputs"]["options"] if command == "compare" else found["options"]
    assert (options["steps"], options["ranks"]) == ("1-4", "3-5")
    side = found["inputs"]["baseline"] if command == "compare" else found["input"]
    assert next(one["name"] for one in side["left_out"]).endswith("run_rank5.sqlite")
    assert side["runs"][0]["ranks"] == 2 and side["runs"][0]["steps"] == 8


@pytest.mark.slow
def test_a_pair_for_each_side(run, tmp_path):
    one, other = (ranks(1).write(tmp_path / f"{name}.sqlite") for name in ("one", "other"))
    assert run("compare", one, other, "--steps", "0-2/0.0s-1s", "--json", "out.json", "-q")[0] == 0
    found = json.loads((tmp_path / "out.json").read_text())
    assert found["inputs"]["options"]["steps"] == "0-2/-1s"
    code, _, err = run("show", one, "--steps", "0-2/3-5")
    assert code == 2 and "there is one" in err


@pytest.mark.slow
def test_a_timeline_of_a_window_and_a_rank(run, tmp_path):
    one = ranks(2).write(tmp_path / "one.sqlite")
    code, _, err = run("timeline", one, one, "-o", "out.pftrace", "--steps", "1.1ms-5.1ms", "--ranks", "1")
    assert code == 0 and "pairs of steps 1 to 4 of 4" in err  # steps 1 to 4 of 0 to 5
    assert "[steps-left-out]" in err and "[ranks-left-out]" in err


def test_the_python_interface_selects_too(tmp_path):
    one = ranks(2).write(tmp_path / "one.sqlite")
    found = tracediff.compare(one, one, steps="1-3", ranks="1", cache=False)
    assert found.result.inputs.baseline.runs[0].steps == 3
    with pytest.raises(ValueError, match="3-1"):
        tracediff.compare(one, one, steps="3-1")

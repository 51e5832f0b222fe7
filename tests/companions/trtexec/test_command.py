"""Files of trtexec as both sides of `tracediff compare`, and the options of `tracediff compare` for files of trtexec."""

from __future__ import annotations

import json

import pytest

from fixtures.builders import trtexec as made
from tests.cli.checks import expect_error, files

SIDES = made.ROOT / "fp32", made.ROOT / "fp16"


def test_every_output_says_the_same(run, tmp_path):
    code, out, err = run("compare", *SIDES, "--html", "a.html", "--md", "a.md", "--json", "a.json")
    assert code == 0, err
    assert "2 layers became 1, 410 -> 300 us" in out and "wrote a.html (html)" in err
    text = (tmp_path / "a.json").read_text()
    saved = json.loads(text)
    assert saved["kind"] == "trtexec" and saved["trtexec"]["verdict"] == "likely_improved"
    assert str(made.ROOT) not in text and "loadEngine" not in text and "model.onnx" not in text
    code, again, _ = run("report", "a.json", "--html", "b.html", "--md", "b.md")
    assert code == 0 and again == out
    for suffix in ("html", "md"):
        assert (tmp_path / f"a.{suffix}").read_bytes() == (tmp_path / f"b.{suffix}").read_bytes()


def test_the_json_is_what_its_schema_says(run, tmp_path):
    from jsonschema import Draft202012Validator

    run("compare", *SIDES, "--json", "a.json")
    _, out, _ = run("schema")
    validator = Draft202012Validator(json.loads(out))
    saved = json.loads((tmp_path / "a.json").read_text())
    validator.validate(saved)
    del saved["trtexec"]["rows"][0]["match"]
    with pytest.raises(Exception, match="match"):
        validator.validate(saved)


def test_files_with_commas(run):
    words = (f"{side / 'log.txt'},{side / 'profile.json'}" for side in SIDES)
    code, out, err = run("compare", *words, "-q")
    assert (code, out, err) == (0, "", "")


def test_an_output_that_exists_is_kept(run, tmp_path):
    (tmp_path / "a.json").write_text("mine")
    expect_error(run("compare", *SIDES, "--json", "a.json"), "output-exists")
    assert (tmp_path / "a.json").read_text() == "mine"
    assert run("compare", *SIDES, "--json", "a.json", "-f")[0] == 0


def test_bad_files_leave_nothing(run, tmp_path):
    (tmp_path / "bad.json").write_text('[ { "count" : 4 }')
    before = files(tmp_path)
    expect_error(run("compare", SIDES[0], "bad.json", "--html", "a.html"), "trtexec-damaged")
    expect_error(run("compare", SIDES[0], "none", "--html", "a.html"), "trtexec-no-file")
    expect_error(run("compare", SIDES[0], ".", "--html", "a.html"), "trtexec-damaged")
    assert files(tmp_path) == before


def test_a_saved_report_is_no_comparison_of_steps(run):
    run("compare", *SIDES, "--json", "a.json")
    expect_error(run("report", "a.json", "--postmortem", "p.md"), "one-capture", 2)
    expect_error(run("comment", "a.json", "--dry-run"), "not-a-result")


def test_files_of_trtexec_are_no_captures(run, good):
    for side in (SIDES[0], SIDES[0] / "log.txt"):
        err = expect_error(run("compare", good, side), "trtexec-as-side", 2)
        assert "fix: two of them: tracediff compare BASELINE CANDIDATE" in err


def test_in_a_comparison_of_steps(run, good, tmp_path):
    words = ("--with", f"baseline={SIDES[0]}", "--with", f"candidate={SIDES[1]}")
    code, out, err = run(
        "compare", good, good, *words, "--json", "r.json", "--html", "r.html", "--tables", "tables"
    )
    assert code == 0, err
    assert "2 layers became 1, 410 -> 300 us" in out
    result = json.loads((tmp_path / "r.json").read_text())
    assert result["verdict"] == "no_change" and result["trtexec"]["verdict"] == "likely_improved"
    assert 'id="trtexec"' in (tmp_path / "r.html").read_text()
    rows = (tmp_path / "tables" / "trtexec_rows.csv").read_text()
    assert len(rows.splitlines()) == 8 and "fused" in rows
    code, again, _ = run("report", "r.json")
    assert code == 0 and again == out
    plain = run("compare", good, good, "--json", "plain.json")
    assert "trtexec" not in plain[1] and json.loads((tmp_path / "plain.json").read_text())["trtexec"] is None


def test_one_side_only_is_refused_before_the_work(run, good):
    given = ("compare", good, good, "--with", f"baseline={SIDES[0]}")
    expect_error(run(*given), "with-one-side", 2)
    expect_error(run(*given, "--with", "candidate=none"), "not-a-file")


def test_files_of_a_run_may_be_given_one_by_one(run, good, tmp_path):
    words = [f"baseline={SIDES[0] / name}" for name in ("log.txt", "profile.json")] + [
        f"candidate={SIDES[1]}"
    ]
    given = [each for word in words for each in ("--with", word)]
    assert run("compare", good, good, *given, "--json", "r.json", "-q")[0] == 0
    (one,) = json.loads((tmp_path / "r.json").read_text())["trtexec"]["baseline"]["runs"]
    assert one["files"] == ["log", "profile"]


def test_folders_with_commas_and_logs_cut_short(run, tmp_path):
    from tests.tiny import ROOT

    made_by = ROOT / "fixtures/trtexec"
    error = expect_error(
        run("compare", f"{made_by}/fp32,{made_by}/fp16/log.txt", f"{made_by}/fp16"), "trtexec-no-file"
    )
    assert "what is listed with it is none" in error
    (tmp_path / "cut.txt").write_bytes((made_by / "fp16/log.txt").read_bytes()[:900])
    assert "the log is cut short" in expect_error(run("compare", "cut.txt", "cut.txt"), "trtexec-no-summary")
    code, _, err = run("compare", f"main={made_by}/fp32", f"pr={made_by}/fp16", "--json", "a.json")
    # a path behind the label has slashes, the label none
    assert code == 0, err
    assert json.loads((tmp_path / "a.json").read_text())["trtexec"]["baseline"]["label"] == "main"


def test_two_builds_are_compared_by_their_time_and_tactics(run, tmp_path):
    """10.7 -> 21.4 s is twice, which one build a side does not show; one of two layers got another tactic."""
    from tests.tiny import ROOT

    builds = ROOT / "fixtures/trtexec/builds"
    code, _, err = run("compare", builds / "before.txt", builds / "after.txt", "--json", "r.json")
    assert code == 0, err
    found = json.loads((tmp_path / "r.json").read_text())["trtexec"]
    assert found["verdict_reason"].startswith(
        "Time of the whole build 10.7 -> 21.4 s (+100 %), 1 of 2 layers with another tactic, within run-to-run noise"
    )
    changed = [row for row in found["rows"] if row["changes"]]
    assert [row["changes"][0]["what"] for row in changed] == ["tactic"]
    assert "tilesize64x64x64" in changed[0]["changes"][0]["after"]

"""`tracediff capture`, then `tracediff compare BUNDLE`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.capture.conftest import SECRET, stand_ins  # noqa: F401
from tests.capture.stand_ins import StandIns
from tracediff.cli.main import cli
from tracediff.errors import TracediffError

SIDES = ["--baseline", "program baseline", "--candidate", "program candidate"]


def test_plan_prints_and_runs_nothing(stand_ins: StandIns, tmp_path: Path) -> None:  # noqa: F811
    plan = tmp_path / "plan.toml"
    plan.write_text(
        f'preset = "emulator"\nenv = {{ HF_TOKEN = "{SECRET}", CUDA_VISIBLE_DEVICES = "1" }}\n'
        '[baseline]\ncommand = "program baseline"\n[candidate]\ncommand = "program candidate"\n'
    )
    done = CliRunner().invoke(cli, ["capture", str(plan), "--plan", "-n", "2", "-o", "out"])
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert [line[2:] for line in lines[::2]] == [
        "001-baseline-1",
        "002-candidate-1",
        "003-candidate-2",
        "004-baseline-2",
    ]
    assert lines[1].startswith(
        "CUDA_VISIBLE_DEVICES=1 HF_TOKEN=... TLLM_PROFILE_RECORD_GC=1 TLLM_PROFILE_START_STOP=20-50 "
    )
    assert lines[1].endswith(" -e TLLM_PROFILE_RECORD_GC=1 program baseline")
    assert SECRET not in done.output
    assert stand_ins.calls() == []
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_bundle_is_compared_alone_and_gives_the_planted_cause(stand_ins: StandIns, tmp_path: Path) -> None:  # noqa: F811
    done = CliRunner().invoke(cli, ["capture", *SIDES, "-n", "4", "-o", "bundle"])
    assert done.exit_code == 0, done.output
    assert "next: tracediff compare bundle" in done.stderr
    compared = CliRunner().invoke(cli, ["compare", "bundle", "--json", "out.json", "--quiet"])
    assert compared.exit_code == 0, compared.output
    result = json.loads(Path("out.json").read_text())
    assert result["verdict"] in {"regressed", "likely_regressed"}
    first = result["findings"][0]
    assert first["cause"] == "host_work"
    assert "_schedule" in json.dumps(first["where"])
    assert 80_000 <= first["delta_ns"] <= 120_000


def test_only_a_bundle_stands_alone(tmp_path: Path) -> None:
    (tmp_path / "a.sqlite").touch()
    with pytest.raises(TracediffError) as refused:
        CliRunner().invoke(cli, ["compare", str(tmp_path / "a.sqlite")], catch_exceptions=False)
    assert (refused.value.slug, refused.value.exit_code) == ("candidate-missing", 2)


@pytest.mark.parametrize("words", [[], ["--baseline", "x"]])
def test_nothing_to_capture(words: list[str]) -> None:
    with pytest.raises(TracediffError) as refused:
        CliRunner().invoke(cli, ["capture", *words], catch_exceptions=False)
    assert (refused.value.slug, refused.value.exit_code) == ("plan-missing", 2)


def test_without_nsys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NSYS", "/nowhere/nsys")
    with pytest.raises(TracediffError, match="nsys-missing"):
        CliRunner().invoke(cli, ["capture", *SIDES], catch_exceptions=False)

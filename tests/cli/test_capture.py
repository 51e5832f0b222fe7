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


def test_the_cost_of_profiling_is_told(stand_ins: StandIns, tmp_path: Path) -> None:  # noqa: F811
    from tracediff.companions.bench.compare import _cost_note
    from tracediff.formats.bundle import Bundle, BundleRun

    def runs(*times: float) -> tuple[BundleRun, ...]:
        made = []
        for time in times:
            path = tmp_path / f"{time}.json"
            path.write_text(
                json.dumps({"mean_ttft_ms": 9.0, "mean_tpot_ms": time, "mean_itl_ms": time, "completed": 3})
            )
            made.append(BundleRun(path.name, (), (path,)))
        return tuple(made)

    one = {"baseline": runs(11.0, 11.2), "candidate": runs(12.0)}
    bundle = Bundle(one, {"baseline": runs(10.0, 10.2), "candidate": ()})
    assert (
        "baseline itl_mean 10.100 ms without and 11.100 ms with the profiler: +1.000 ms, +9.9%"
        in _cost_note(bundle)
    )


def test_the_emulator_tells_the_cost_of_profiling(tmp_path: Path) -> None:
    from tracediff.companions.bench.compare import _cost_note
    from tracediff.formats.bundle import Bundle, BundleRun

    def runs(profiled: bool, *medians: float) -> tuple[BundleRun, ...]:
        made = []
        for number, median in enumerate(medians):
            folder = tmp_path / f"{profiled}{number}{median}"
            folder.mkdir(exist_ok=True)
            times = {"mean_us": median + 5, "median_us": median, "steps": 28}
            rank = {
                "rank": 0,
                "profiled_step": times if profiled else None,
                "unprofiled_step": {**times, "median_us": 1.0} if profiled else times,
            }
            (folder / "emulator.json").write_text(
                json.dumps({"emulator": "mini_serve", "profiled": profiled, "ranks": [rank]})
            )
            made.append(BundleRun(folder.name, (), (folder / "emulator.json",)))
        return tuple(made)

    sides = {"baseline": runs(True, 990.0, 1010.0), "candidate": runs(True, 1100.0)}
    bundle = Bundle(sides, {"baseline": runs(False, 840.0, 860.0), "candidate": runs(False, 950.0)})
    said = _cost_note(bundle)
    assert "baseline host_step_time_generation_p50 0.850 ms without and 1.000 ms with the profiler" in said
    assert "+0.150 ms, +17.6%" in said  # 150 of 850 us
    assert "candidate host_step_time_generation_p50 0.950 ms without and 1.100 ms with" in said


@pytest.mark.parametrize("words", [[], ["--baseline", "x"]])
def test_nothing_to_capture(words: list[str]) -> None:
    with pytest.raises(TracediffError) as refused:
        CliRunner().invoke(cli, ["capture", *words], catch_exceptions=False)
    assert (refused.value.slug, refused.value.exit_code) == ("plan-missing", 2)


def test_without_nsys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NSYS", "/nowhere/nsys")
    with pytest.raises(TracediffError, match="nsys-missing"):
        CliRunner().invoke(cli, ["capture", *SIDES], catch_exceptions=False)

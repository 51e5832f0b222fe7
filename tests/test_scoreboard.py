"""The scoreboard: real captures with one planted cause each (fixtures/pairs): is the first finding that cause, there, that size?"""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path

import pytest

from tests.comparing import compare
from tracediff.execution.reading import Reading
from tracediff.execution.run import reduce_file
from tracediff.execution.sides import Run, Side

FOLDER = Path(__file__).parent.parent / "fixtures" / "pairs"
PAIRS = tomllib.loads((FOLDER / "pairs.toml").read_text(encoding="utf-8"))["pair"]
CHANGED = {"regressed", "improved", "likely_regressed", "likely_improved"}


@cache
def _reduced(name: str):
    return reduce_file(FOLDER / name, Reading())


@cache
def _result(name: str):
    pair = next(pair for pair in PAIRS if pair["name"] == name)
    sides = [
        Side(side, [Run(file, [_reduced(file)]) for file in pair[side]]) for side in ("baseline", "candidate")
    ]
    return compare(*sides)


def _with(key):
    return [pytest.param(pair, id=pair["name"]) for pair in PAIRS if key in pair]


def test_the_board_is_whole():
    assert len(PAIRS) >= 30
    files = {file for pair in PAIRS for side in ("baseline", "candidate") for file in pair[side]}
    assert all((FOLDER / file).is_file() for file in files)


@pytest.mark.parametrize("pair", [pytest.param(pair, id=pair["name"]) for pair in PAIRS])
def test_it_closes(pair):
    result = _result(pair["name"])
    assert result.accounting.residual_ns == 0
    assert sum(result.accounting.delta.values()) == pytest.approx(result.step.delta_ns, abs=1e-3)
    busy = sum(result.accounting.delta[name] for name in ("compute", "comm", "memcpy"))
    assert sum(row.delta_ns for row in result.kernels) == pytest.approx(busy, abs=1e-3)
    # the program's own clock, unaware of the trace, saw about the same change of a generation step
    if result.comparability.comparable and "program_delta_ns" in pair:
        assert result.step.delta_ns == pytest.approx(
            pair["program_delta_ns"],
            abs=max(15_000, 0.05 * result.step.candidate_ns, 0.2 * abs(result.step.delta_ns)),
        )


@pytest.mark.parametrize("pair", _with("cause"))
def test_the_first_finding_names_the_planted_cause(pair):
    first = _result(pair["name"]).findings[0]
    assert first.cause == pair["cause"], first.title
    assert first.level != "within_noise"


@pytest.mark.parametrize("pair", [param for param in _with("cause") if "place" in param.values[0]])
def test_it_names_the_place(pair):
    first = _result(pair["name"]).findings[0]
    where, place = first.where, pair["place"]
    if place == "none":
        assert where.range is not None and where.range.startswith("outside any range")
    elif pair["cause"] == "gil_wait":
        assert (where.holder_range, where.holder_thread) == (place, pair["thread"])
    elif where.kernel is None:
        assert (where.range, where.thread) == (place, pair["thread"])
    elif pair["cause"] != "memcpy":
        assert place[:20] in where.kernel


@pytest.mark.parametrize("pair", _with("expected_ns"))
def test_the_size_is_right(pair):
    if pair["name"] == "fused":
        pytest.skip("the expected size is that of all kernels of the block, tested in test_fused_block")
    first = _result(pair["name"]).findings[0]
    assert first.delta_ns == pytest.approx(pair["expected_ns"], rel=0.10)


def test_fused_block():
    """The fused GEMM got 21 us faster, the two pointwise kernels behind it slower: together what plain SQL says."""
    pair = next(pair for pair in PAIRS if pair["name"] == "fused")
    result = _result("fused")
    assert result.findings[0].delta_ns < -15_000
    assert result.accounting.delta["compute"] == pytest.approx(pair["expected_ns"], abs=1_000)


@pytest.mark.parametrize("pair", [pytest.param(pair, id=pair["name"]) for pair in PAIRS])
def test_the_verdict(pair):
    verdict, wanted = _result(pair["name"]).verdict, pair["verdict"]
    if wanted == "no_change":
        assert verdict in ("no_change", "inconclusive")
    elif wanted == "not_comparable":
        assert verdict == "not_comparable"
    else:
        # with few runs the total may stay inconclusive; it must never point the other way
        assert verdict in (wanted, f"likely_{wanted}", "inconclusive")
        if verdict == "inconclusive":
            assert (
                "But one thing is " in _result(pair["name"]).verdict_reason
            )  # sure or likely, as its finding is


def test_most_planted_changes_are_called():
    changed = [pair for pair in PAIRS if pair["verdict"] in ("regressed", "improved")]
    called = [pair["name"] for pair in changed if _result(pair["name"]).verdict in CHANGED]
    assert len(called) >= 0.7 * len(changed), called


@pytest.mark.parametrize("name", ["aa_1x1", "aa_2x2", "aa_4x4", "aa_outlier"])
def test_the_same_program_has_no_sure_finding(name):
    assert all(one.level == "within_noise" for one in _result(name).findings)


def test_a_second_cause_is_found_beside_the_first():
    causes = [one.cause for one in _result("gc5fused").findings if one.level != "within_noise"]
    assert causes[0] == "gc" and "kernel_fused" in causes


def test_a_straggler_is_named():
    result = _result("straggler")
    assert result.findings[0].where.rank == 1
    comm = next(one for one in result.findings if one.cause == "comm")
    assert comm.where.rank == 1 and "waiting for rank 1" in comm.title
    waits = {row.rank: row.candidate_comm_wait_ns - row.baseline_comm_wait_ns for row in result.ranks}
    assert waits[0] == pytest.approx(300_000, rel=0.15)


@pytest.mark.parametrize("name", ["other", "hoghid"])
def test_a_thread_off_the_path_is_noted(name):
    assert "off-path-change" in [note.slug for note in _result(name).warnings]

"""`tracediff capture --ncu`, with a stand-in for ncu that prints the pages of fixtures/ncu."""

# ruff: noqa: F811  (a fixture of another folder)

from __future__ import annotations

import pytest

from tests.capture.conftest import stand_ins  # noqa: F401
from tests.capture.stand_ins import StandIns

SIDES = ("--baseline", "program baseline", "--candidate", "program candidate")


def test_one_launch_of_a_kernel_is_profiled_on_both_sides_and_compared(
    stand_ins: StandIns, run, monkeypatch
) -> None:
    monkeypatch.delenv("NCU", raising=False)
    code, _, err = run("capture", "--ncu", "quant.*1x128", *SIDES, "-o", "one")
    assert code == 0 and "next: tracediff compare one/baseline.ncu-rep one/candidate.ncu-rep" in err
    for call, side in zip(stand_ins.calls("ncu"), ("baseline", "candidate"), strict=True):
        told, program = call["args"][: call["args"].index("-o")], call["args"][-2:]
        assert told == [
            "--target-processes", "all", "-k", "regex:quant.*1x128", "-c", "1", "--set", "full", "--clock-control", "none", "-f",
        ]  # fmt: skip
        assert program == ["program", side]
    assert not stand_ins.calls("nsys")
    code, out, _ = run("compare", "one/baseline.ncu-rep", "one/candidate.ncu-rep")
    assert code == 0 and "global loads 16 -> 128 bit per thread" in " ".join(out.split())


@pytest.mark.parametrize(
    ("words", "slug"),
    [
        (("--ncu", "nothing_like_it", *SIDES), "capture-no-kernel"),
        (("--ncu", "quant", "--baseline", "program baseline", "--candidate", "program refused"), "gpu-counters-denied"),
        (("--ncu", "quant", *SIDES, "--launcher", "mpirun 2"), "plan-invalid"),
        (("--ncu", "quant", "--baseline", "no_such_program", "--candidate", "program"), "capture-exit-code"),
    ],
)  # fmt: skip
def test_what_cannot_be_profiled_is_said(words, slug, stand_ins: StandIns, run, monkeypatch) -> None:
    monkeypatch.delenv("NCU", raising=False)
    code, _, err = run("capture", *words, "-o", "one")
    assert code != 0 and f"[{slug}]" in err


def test_without_ncu_and_into_a_full_folder_nothing_runs(
    stand_ins: StandIns, run, monkeypatch, tmp_path
) -> None:
    monkeypatch.setenv("NCU", "/nowhere/ncu")
    code, _, err = run("capture", "--ncu", "quant", *SIDES, "-o", "one")
    assert code != 0 and "[ncu-missing]" in err
    code, out, _ = run("capture", "--ncu", "quant", *SIDES, "-o", "one", "--plan")
    assert code == 0 and out.count("ncu --target-processes all -k regex:quant -c 1") == 2
    monkeypatch.delenv("NCU")
    (tmp_path / "one").mkdir()
    (tmp_path / "one/mine").write_text("")
    code, _, err = run("capture", "--ncu", "quant", *SIDES, "-o", "one")
    assert code != 0 and "[bundle-exists]" in err and not stand_ins.calls("program")

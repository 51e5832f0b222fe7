"""The emulator under torch.profiler: its option, a trace a rank, and ranges that torch records."""

from __future__ import annotations

import sys
import types
from contextlib import contextmanager
from pathlib import Path

import pytest

from tracediff_emulator.options import parse
from tracediff_emulator.ranges import Ranges, TorchProfile, file_of_rank, gc_ranges


@pytest.fixture
def torch(monkeypatch):
    """A torch.profiler that writes down what is done with it."""
    done: list[str] = []

    @contextmanager
    def record_function(name: str):
        done.append(f"+{name}")
        yield
        done.append(f"-{name}")

    class Profile:
        def __init__(self, activities: list[str]) -> None:
            done.append(" ".join(activities))

        def start(self) -> None:
            done.append("start")

        def stop(self) -> None:
            done.append("stop")

        def export_chrome_trace(self, path: str) -> None:
            done.append(f"wrote {path}")

    fake = types.ModuleType("torch.profiler")
    fake.record_function = record_function  # type: ignore[attr-defined]
    fake.profile = Profile  # type: ignore[attr-defined]
    fake.ProfilerActivity = types.SimpleNamespace(CPU="cpu", CUDA="cuda")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch.profiler", fake)
    return done


@pytest.mark.parametrize(
    ("rank", "ranks", "name"), [(0, 1, "t.json.gz"), (0, 2, "t.rank0.json.gz"), (1, 2, "t.rank1.json.gz")]
)
def test_a_trace_a_rank(rank, ranks, name):
    assert file_of_rank("out/t.json.gz", rank, ranks) == Path("out") / name


def test_the_steps_are_recorded_and_written(torch):
    profile = TorchProfile(Path("t.json"), cuda=True)
    profile.start()
    profile.stop()
    TorchProfile(Path("u.json"), cuda=False)
    assert torch == ["cpu cuda", "start", "stop", "wrote t.json", "cpu"]


def test_ranges_are_torchs_own_and_can_be_used_again(torch, monkeypatch):
    monkeypatch.setenv("TLLM_PROFILE_RECORD_GC", "1")
    ranges = Ranges(use_torch=True, kineto=True)
    assert ranges.backend == "kineto"
    for _ in range(2):
        with ranges.range("_schedule"), ranges.once("step 1"):
            pass
    assert torch == ["+_schedule", "+step 1", "-step 1", "-_schedule"] * 2
    torch.clear()
    with gc_ranges(ranges):
        sys.modules["gc"].collect()
    assert torch[:2] == ["+Python GC", "-Python GC"]


@pytest.mark.parametrize(("flags", "window"), [(["--dry-run"], "2-4"), ([], ""), (["--graph"], "7")])
def test_without_torch_or_a_window_there_is_nothing_to_record(flags, window, monkeypatch, capsys):
    monkeypatch.setenv("TLLM_PROFILE_START_STOP", window)
    with pytest.raises(SystemExit):
        parse([*flags, "--torch-profile", "t.json"])
    assert "--torch-profile needs torch" in capsys.readouterr().err


def test_a_window_is_enough(monkeypatch):
    monkeypatch.setenv("TLLM_PROFILE_START_STOP", "2-4")
    assert parse(["--torch-profile", "t.json"]).torch_profile == "t.json"

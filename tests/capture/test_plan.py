"""Plans: what is read, what is refused, and the order of the runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tracediff.capture.plan import Plan, SidePlan, plan_from, read_plan, until_of, windows_of
from tracediff.errors import TracediffError

SIDES = {"baseline": {"command": "a 'b c'"}, "candidate": {"command": ["d", "e f"]}}


def order(**values: object) -> str:
    side = SidePlan(("x",))
    slots = Plan(side, side, **values).schedule()  # type: ignore[arg-type]
    marks = {"warmup": "w", "profiled": "", "control": "c"}
    return " ".join(marks[slot.kind] + "AB"[slot.side == "candidate"] for slot in slots)


def test_abba_is_the_default() -> None:
    assert order(repeats=4) == "A B B A A B B A"


def test_other_orders() -> None:
    assert order(repeats=3, order="sequential") == "A A A B B B"
    assert order(repeats=6, order="random", seed=3) == order(repeats=6, order="random", seed=3)
    assert len({order(repeats=6, order="random", seed=seed) for seed in range(20)}) > 5


def test_random_keeps_pairs_together() -> None:
    words = order(repeats=8, order="random", seed=1).split()
    assert all({words[at], words[at + 1]} == {"A", "B"} for at in range(0, 16, 2))


def test_warmups_come_first_and_controls_are_spread() -> None:
    words = order(repeats=4, warmup=1, controls=2).split()
    assert words[:2] == ["wA", "wB"]
    assert sorted(words[2:]) == sorted(["A", "B"] * 4 + ["cA", "cB"] * 2)
    assert words[-1].startswith("c")
    assert any(word.startswith("c") for word in words[2:7])


def test_with_until_more_pairs_follow_in_the_same_order() -> None:
    assert order(repeats=3, until="step:2%", max_runs=5) == "A B B A A B B A A B"
    words = order(repeats=2, controls=1, until="step:2%", max_runs=4).split()
    assert sorted(words[:6]) == sorted(["A", "B"] * 2 + ["cA", "cB"])
    assert words[6:] == ["A", "B", "B", "A"]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("step:2%", ("step", 0.02, True)), ("step:0.5 %", ("step", 0.005, True)), ("gil@a::b:50us", ("gil@a::b", 50e3, False)),
     ("step:±0.1ms", ("step", 1e5, False))],
)  # fmt: skip
def test_what_until_asks_for(text: str, wanted: tuple[str, float, bool]) -> None:
    assert until_of(text) == (wanted[0], pytest.approx(wanted[1]), wanted[2])


@pytest.mark.parametrize(
    ("takes", "text", "windows"),
    [("A-B", "100-150", [(100, 150)]),
     ("A-B,C-D", "100-150,300-350", [(100, 150), (300, 350)]),
     ("A-B,N", "0,63,127", [(0, 0), (63, 63), (127, 127)]),
     ("A-B,N", "1-4,7-8", [(1, 4), (7, 8)])],
)  # fmt: skip
def test_each_program_is_told_its_windows_in_its_own_form(
    takes: str, text: str, windows: list[tuple[int, int]]
) -> None:
    assert windows_of(text, takes) == windows


def test_names_are_unique_and_sort_in_order() -> None:
    side = SidePlan(("x",))
    names = [slot.name for slot in Plan(side, side, repeats=6, warmup=1, controls=2).schedule()]
    assert names == sorted(set(names))
    assert "003-baseline-1" in names


def test_commands_are_split_like_a_shell_and_sides_share(tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    file = tmp_path / "plan.toml"
    file.write_text(
        'repeats = 3\npreset = "torch"\nenv = { X = 1 }\n'
        "[baseline]\ncommand = \"a 'b c'\"\ncwd = 'repo'\n"
        '[candidate]\ncommand = ["d", "e f"]\nenv = { Y = "2" }\nkpi = "*.json"\n'
    )
    plan = read_plan(file, repeats=None, order="random")
    assert plan.baseline.command == ("a", "b c")
    assert plan.candidate.command == ("d", "e f")
    assert plan.baseline.cwd == (tmp_path / "repo").resolve()
    assert (plan.baseline.env, plan.candidate.env) == ({"X": "1"}, {"X": "1", "Y": "2"})
    assert (plan.repeats, plan.order, plan.candidate.preset, plan.candidate.kpi) == (
        3,
        "random",
        "torch",
        ("*.json",),
    )


@pytest.mark.parametrize(
    ("more", "slug"),
    [
        ({"repeat": 3}, "plan-invalid"),
        ({"repeats": 0}, "plan-invalid"),
        ({"repeats": "5"}, "plan-invalid"),
        ({"repeats": True}, "plan-invalid"),
        ({"order": "baab"}, "plan-invalid"),
        ({"timeout_s": 0}, "plan-invalid"),
        ({"cwd": "nowhere"}, "plan-invalid"),
        ({"env": {"A": ["x"]}}, "plan-invalid"),
        ({"baseline": {"command": "a 'b"}}, "plan-invalid"),
        ({"baseline": {"command": ""}}, "plan-invalid"),
        ({"baseline": {"comand": "a"}}, "plan-invalid"),
        ({"baseline": "a"}, "plan-invalid"),
        ({"client": "load"}, "plan-invalid"),
        ({"preset": "trtllm-serve"}, "plan-invalid"),
        ({"preset": "megatron"}, "plan-preset"),
        ({"preset": "hf", "client": "load"}, "plan-invalid"),
        ({"preset": "vllm", "baseline": {"command": "vllm serve M"}}, "plan-invalid"),
        ({"preset": "hf", "steps": "100-150"}, "plan-steps"),
        ({"steps": "100-150"}, "plan-steps"),
        ({"preset": "emulator", "steps": "100"}, "plan-steps"),
        ({"preset": "emulator", "steps": "150-100"}, "plan-steps"),
        ({"preset": "trtllm-bench-latency", "steps": "0,63"}, "plan-steps"),
        ({"preset": "trtllm-bench-latency", "steps": "100-150,150-200"}, "plan-steps"),
        ({"preset": "vllm", "steps": "100-150,200-250"}, "plan-steps"),
        ({"preset": "gptManagerBenchmark", "steps": "63,0"}, "plan-steps"),
        ({"preset": "gptManagerBenchmark", "steps": "0,,63"}, "plan-steps"),
        ({"launcher": "jsrun -n 2"}, "plan-launcher"),
    ],
)
def test_what_cannot_be_is_refused(more: dict, slug: str, tmp_path: Path) -> None:
    with pytest.raises(TracediffError) as refused:
        plan_from({**SIDES, **more}, tmp_path)
    assert refused.value.slug == slug
    assert refused.value.fix


@pytest.mark.parametrize(
    ("more", "keys"),
    [
        ({"repeat": 3}, "build, command, repeats"),
        ({"baseline": {"command": "a", "repeat": 3}}, "build, command"),
    ],
)
def test_every_key_of_a_plan_is_named(more: dict, keys: str, tmp_path: Path) -> None:
    """What both sides share stands at the top, too."""
    with pytest.raises(TracediffError) as refused:
        plan_from({**SIDES, **more}, tmp_path)
    known = re.findall(r"\w+", refused.value.fix.partition("known are ")[2])
    assert set(keys.split(", ")) <= set(known) and ("repeats" in known) == ("repeats" in keys)


@pytest.mark.parametrize("text", [b"repeats = ", b"\xff\xfe"])
def test_a_file_that_is_no_toml(text: bytes, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_bytes(text)
    for name, slug in (("plan.toml", "plan-unreadable"), ("none.toml", "not-a-file")):
        with pytest.raises(TracediffError, match=slug):
            read_plan(tmp_path / name)

"""Traffic of the emulator: what is drawn, which slots it takes, and that a seed brings it back."""

import json
import re
import statistics
import subprocess
import sys
from contextlib import AbstractContextManager
from typing import Any

import pytest

from tests.capture.test_mini_serve import ROOT
from tracediff_emulator.model import ClockDevice
from tracediff_emulator.options import SEED_VARIABLE, Options, parse
from tracediff_emulator.ranges import Ranges
from tracediff_emulator.serve import Executor
from tracediff_emulator.traffic import Request, Traffic, drawn

LABEL = re.compile(r"step (\d+): (\d+) ctx reqs, (\d+) ctx tokens, (\d+) gen reqs")
STEPS = 2000


def test_arrivals_are_poisson_and_lengths_are_lognormal() -> None:
    requests = drawn(1, 0.5, STEPS, 100_000, 100_000)
    # 1,000 are expected, with a standard deviation of 32.
    assert 870 < len(requests) < 1130
    per_step = [sum(one.step == step for one in requests) for step in range(STEPS)]
    assert statistics.variance(per_step) == pytest.approx(0.5, rel=0.2)
    # A third of the longest prompt, and 24; medians of 1,000 draws with sigma 0.8 are within 3 %, one standard error.
    assert statistics.median(one.prompt_tokens for one in requests) == pytest.approx(33_333, rel=0.12)
    assert statistics.median(one.output_tokens for one in requests) == pytest.approx(24, rel=0.12)
    assert [one.step for one in requests] == sorted(one.step for one in requests)


def test_a_seed_brings_the_same_requests_back_and_no_length_is_over_its_limit() -> None:
    few, more = (drawn(7, 0.4, 500, 192, longest) for longest in (16, 128))
    assert drawn(7, 0.4, 500, 192, 128) == more
    assert drawn(8, 0.4, 500, 192, 128) != more
    # Another limit changes nothing else.
    assert few == [Request(one.step, one.prompt_tokens, min(one.output_tokens, 16)) for one in more]
    assert max(one.prompt_tokens for one in few) == 192


def test_requests_take_free_slots_wait_and_end_at_their_own_length() -> None:
    # Two slots. The third request waits until slot 1 is free: the second one runs in step 0 alone.
    traffic = Traffic([Request(0, 10, 3), Request(0, 20, 1), Request(0, 30, 2), Request(4, 40, 1)], slots=2)
    seen = [(traffic.arrivals(step), traffic.serving) for step in range(6)]
    assert seen == [
        ({0: 10, 1: 20}, {0, 1}),
        ({1: 30}, {0, 1}),
        ({}, {0, 1}),
        ({}, set()),
        ({0: 40}, {0}),
        ({}, set()),
    ]


@pytest.mark.parametrize("flags", ["--traffic-seed 1", "--traffic --traffic-rate 0"])
def test_flags_of_traffic_that_do_not_go_together_are_refused(flags: str) -> None:
    with pytest.raises(SystemExit):
        parse(flags.split())


def test_where_the_seed_comes_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SEED_VARIABLE, "41")
    assert parse(["--traffic"]).traffic_seed == 41
    assert parse(["--traffic", "--traffic-seed", "5"]).traffic_seed == 5
    assert parse([]).traffic_seed is None
    monkeypatch.delenv(SEED_VARIABLE)
    assert parse(["--traffic"]).traffic_seed != parse(["--traffic"]).traffic_seed


def run(*flags: str) -> dict[str, Any]:
    """Run the emulator with traffic on its clock; the report."""
    done = subprocess.run(
        [sys.executable, "-m", "tracediff_emulator", "--dry-run", "--traffic", *flags],
        env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def test_the_loop_serves_traffic_and_a_seed_repeats_it() -> None:
    report = run("--steps", "40", "--dry-gpu-us", "50")
    seed = report["traffic"]["seed"]
    assert report["traffic"]["requests"] == len(drawn(seed, 0.4, 40, 192, 128))
    again = run("--steps", "40", "--dry-gpu-us", "50", "--traffic-seed", str(seed))
    assert again["traffic"] == report["traffic"]
    assert again["ranks"][0]["context_steps_in_window"] == report["ranks"][0]["context_steps_in_window"]


def test_labels_have_the_requests_that_the_step_really_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    requests = [Request(1, 10, 3), Request(1, 20, 1), Request(2, 30, 1), Request(6, 40, 1)]
    monkeypatch.setattr(Options, "requests", lambda _: requests)
    options = parse(["--dry-run", "--steps", "8", "--dry-gpu-us", "1", "--traffic"])
    ranges = Ranges(use_torch=False)
    said: list[str] = []
    once = ranges.once

    def noted(name: str, category: str | None = None) -> AbstractContextManager[Any]:
        said.append(name)
        return once(name, category)

    monkeypatch.setattr(ranges, "once", noted)
    sent: list[tuple[int, list[int]]] = []

    class Responses:
        def put(self, message: tuple[int, list[dict[str, int]]]) -> None:
            sent.append((message[0], [one["slot"] for one in message[1]]))

    Executor(options, 0, ClockDevice(options), ranges, Responses()).run()  # type: ignore[arg-type]
    labels = [tuple(int(part) for part in match.groups()) for text in said if (match := LABEL.search(text))]
    # Steps without a request (0, 4, 5, 7) do not run.
    assert labels == [(1, 2, 30, 0), (2, 1, 30, 1), (3, 0, 0, 1), (6, 1, 40, 0)]
    assert sent == [(1, [0, 1]), (2, [0, 1]), (3, [0]), (6, [0])]


def test_without_the_flag_there_is_no_traffic() -> None:
    assert Options().requests() is None

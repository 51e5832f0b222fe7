"""From points to what is said: order, segments, causes, drift, the check. Histories of sixty commits with a known truth."""

from __future__ import annotations

import subprocess
from pathlib import Path

import msgspec
import numpy as np
import pytest

from benchmarks.history import kept, noise, point
from tracediff.comparison.gates import parse_gate
from tracediff.comparison.measures import parse
from tracediff.history.analysis import Commits, analyse, read_commits
from tracediff.history.points import Point, Program
from tracediff.history.policy import exit_code, judge
from tracediff.report.history import judged

NAMES = [
    "generation", "generation.compute", "generation.host_work", "generation.host_work@_schedule", "generation.host_work@_sample",
    "generation.gil_wait", "context", "context.compute", "kernel:gemm", "kernel:fmha", "launches",
]  # fmt: skip
BASE = np.array([1e6, 6e5, 3e5, 2e5, 1e5, 1e5, 5e6, 4e6, 4e5, 2e5, 300.0])
NO_GIT = Commits(problem="no-repository")


def history(many: int = 60, *, scatter: float = 0.005, seed: int = 1, plant=None, **other) -> list[Point]:
    """Points whose values scatter by half a percent, counts apart; `plant` changes the value (points, names) in place."""
    random = np.random.default_rng(seed)
    spread = np.where(np.array(NAMES) == "launches", 0.0, scatter)
    values = BASE * (1 + spread * np.array([noise("normal", len(NAMES), random) for _ in range(many)]))
    if plant is not None:
        plant(values)
    return [point(at, NAMES, row, BASE, spread * BASE, **other) for at, row in enumerate(values)]


def column(*names: str) -> list[int]:
    return [NAMES.index(name) for name in names]


def at_40(values: np.ndarray) -> None:
    """+2 % from commit 40 on: 20 us of host work in `_schedule`, and three launches."""
    values[40:, column("generation", "generation.host_work", "generation.host_work@_schedule")] += 2e4
    values[40:, column("launches")] += 3


def test_a_step_of_two_percent_with_its_cause_and_range():
    found = analyse(kept(history(plant=at_40)), NO_GIT)
    (segment,) = found.segments
    (one,) = segment.changes
    assert (one.measure, one.good, one.bad) == ("generation", 39, 40)
    assert one.low < 2e4 < one.high
    assert {cause.measure for cause in one.causes} == {
        "generation.host_work", "generation.host_work@_schedule", "launches",
    }  # fmt: skip
    launches = next(cause for cause in one.causes if cause.measure == "launches")
    assert (launches.before, launches.after, launches.unit) == (300.0, 303.0, "count")


@pytest.mark.parametrize(("more", "measures"), [(0.0, ["generation"]), (1e5, ["generation", "step"])])
def test_a_step_that_is_that_of_a_phase_is_told_once(more: float, measures: list[str]):
    """A verdict may rest on a phase: then the step of a point is that of the phase; or on a mean that rare steps make longer."""
    random = np.random.default_rng(1)
    values = BASE * (1 + 0.005 * random.standard_normal((60, len(BASE))))
    at_40(values)
    made = [
        point(at, ["step", *NAMES], np.append(row[0] + more * random.uniform(0.9, 1.1), row), np.append(BASE[0], BASE), 0.005 * np.append(BASE[0], BASE))
        for at, row in enumerate(values)
    ]  # fmt: skip
    (segment,) = analyse(kept(made), NO_GIT).segments
    assert [one.measure for one in segment.changes] == measures


def test_noise_alone_says_nothing():
    for seed in range(5):
        (segment,) = analyse(kept(history(seed=seed)), NO_GIT).segments
        assert (segment.changes, segment.drifts) == ([], [])


def test_a_slow_drift_is_seen_against_the_pinned_baseline_though_no_step_is():
    """0.5 % a week: sixty points six hours apart are fifteen days, 1.05 %; the scatter of a point is 0.2 %."""

    def drift(values: np.ndarray) -> None:
        rise = np.linspace(0, 0.0105e6, 60)[:, None]
        values[:, column("generation", "generation.compute")] += rise

    (segment,) = analyse(kept(history(scatter=0.002, plant=drift)), NO_GIT).segments
    assert segment.changes == []
    (one,) = segment.drifts
    assert (one.measure, one.first, one.last) == ("generation", 0, 59)
    assert one.low < 1.05e4 < one.high
    assert [cause.measure for cause in one.causes] == ["generation.compute"]
    standing = next(one for one in segment.standings if one.measure == "generation")
    assert standing.baseline == pytest.approx(1e6)
    assert standing.low > 0


def test_a_cause_that_changes_while_no_step_does_is_said():
    """Waits for the GIL that hide behind the GPU: 30 us more, and the step is as before."""

    def hidden(values: np.ndarray) -> None:
        values[30:, column("generation.gil_wait")] += 3e4

    (segment,) = analyse(kept(history(plant=hidden)), NO_GIT).segments
    assert [(one.measure, one.bad) for one in segment.changes] == [("generation.gil_wait", 30)]
    assert judge(analyse(kept(history(plant=hidden)), NO_GIT)) == []


def test_a_collection_that_begins_is_a_cause_though_captures_before_show_none():
    """A capture without a collection does not tell whether it records them; 50 us of them begin at point 40."""
    made = []
    for at, one in enumerate(history(plant=lambda values: values.__setitem__((slice(40, None), 0), 1.05e6))):
        own = one.measures
        if at >= 40:
            own = msgspec.structs.replace(
                own, names=[*own.names, "generation.gc"], value=[*own.value, 5e4], error=[*own.error, 100.0],
                baseline=[*own.baseline, 0.0], delta=[*own.delta, 5e4],
            )  # fmt: skip
        made.append(msgspec.structs.replace(one, measures=own))
    (segment,) = analyse(kept(made), NO_GIT).segments
    (change,) = segment.changes
    assert [(one.measure, one.before, one.after) for one in change.causes] == [("generation.gc", 0.0, 5e4)]


def test_another_machine_is_another_segment_and_no_change():
    def faster(values: np.ndarray) -> None:
        values[30:] *= 0.7

    made = history(plant=faster)
    made = [
        msgspec.structs.replace(one, machine={"gpu": "NVIDIA B200", "driver": "580.1"}) if at >= 30 else one
        for at, one in enumerate(made)
    ]
    found = analyse(kept(made), NO_GIT)
    assert [segment.points for segment in found.segments] == [list(range(30, 60)), list(range(30))]
    assert [segment.changes for segment in found.segments] == [[], []]


@pytest.mark.parametrize(
    "other",
    [
        {"program": Program("", "tensorrt-llm", ("context", "generation"))},
        {"program": Program("llama", "tensorrt-llm", ("generation",))},
        {"configuration": {"nsys": "2025.1"}},
    ],
)
def test_points_of_two_kinds_never_share_a_series(other):
    """Two programs whose points come in turn, one twice as slow."""
    made = history(plant=lambda values: values.__setitem__(slice(1, None, 2), 2 * values[1::2]))
    made = [msgspec.structs.replace(one, **other) if at % 2 else one for at, one in enumerate(made)]
    found = analyse(kept(made), NO_GIT)
    assert [segment.points for segment in found.segments] == [list(range(1, 60, 2)), list(range(0, 60, 2))]
    assert all(not segment.changes for segment in found.segments)
    if "program" in other and other["program"].name:
        (alone,) = analyse(kept(made), NO_GIT, program="llama").segments
        assert len(alone.points) == 30


def test_points_of_another_baseline_are_in_no_drift_and_named():
    made = [
        msgspec.structs.replace(one, pinned="v0" if at < 20 else "v1") for at, one in enumerate(history())
    ]
    (segment,) = analyse(kept(made), NO_GIT).segments
    assert segment.pinned == "v1"
    assert segment.left_out == list(range(20))
    standing = segment.standings[0]
    assert standing.baseline is None
    assert {one.basis for one in segment.series} == {"value"}


def test_the_machine_of_the_day_cancels_against_the_pinned_baseline():
    """Both sides of each point carry the day, 2 % up or down; the program takes 1 % more from point 40 on."""
    random = np.random.default_rng(3)
    made = history(scatter=0.001, plant=lambda values: values.__setitem__((slice(40, None), 0), 1.01e6))
    moved = []
    for one, day in zip(made, random.normal(0, 0.02, 60), strict=True):
        measures = one.measures
        base = [value * (1 + day) for value in measures.baseline]
        value = [a + b for a, b in zip(base, measures.delta, strict=True)]
        moved.append(
            msgspec.structs.replace(
                one, measures=msgspec.structs.replace(measures, value=value, baseline=base)
            )
        )
    (pinned,) = analyse(kept(moved), NO_GIT).segments
    (change,) = pinned.changes
    assert (change.measure, change.bad) == ("generation", 40)
    assert change.delta == pytest.approx(1e4, rel=0.1)
    loose = [msgspec.structs.replace(one, pinned="") for one in moved]
    (alone,) = analyse(kept(loose), NO_GIT).segments
    assert alone.changes == []


def test_a_measure_of_a_later_version_is_left_alone():
    made = [
        msgspec.structs.replace(
            one, measures=msgspec.structs.replace(one.measures, names=["tokens_per_joule", *NAMES[1:]])
        )
        for one in history(12)
    ]
    (segment,) = analyse(kept(made), NO_GIT).segments
    assert "tokens_per_joule" not in {one.measure for one in segment.series}
    assert "context" in {one.measure for one in segment.series}


# Order: git


@pytest.fixture
def repository(tmp_path) -> Path:
    """Twenty commits on main, one of them a merge of a side branch of one commit."""
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    for number in range(20):
        if number == 10:
            git(folder, "checkout", "-q", "-b", "side")
            git(folder, "commit", "-q", "--allow-empty", "-m", "side")
            git(folder, "checkout", "-q", "main")
            git(folder, "merge", "-q", "--no-ff", "-m", "merge", "side")
        else:
            git(folder, "commit", "-q", "--allow-empty", "-m", f"{number}")
    return folder


def git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=n", "-c", "user.email=e@example.com", "-c", "commit.gpgsign=false"]
    command = ["git", *who, "-C", str(folder), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def of_commits(commits: list[str], **other) -> list[Point]:
    return [
        msgspec.structs.replace(one, commit=commit, **other)
        for one, commit in zip(history(len(commits)), commits, strict=True)
    ]


def test_git_orders_points_whatever_clocks_say(repository):
    commits = git(repository, "rev-list", "--first-parent", "--reverse", "main").split()
    made = of_commits(commits)
    times = [one.time for one in made]
    made = [msgspec.structs.replace(one, time=time) for one, time in zip(made, reversed(times), strict=True)]
    found = analyse(kept(made), read_commits(repository))
    assert found.order == "git"
    assert [one.commit for one in found.points] == commits
    assert [one.place for one in found.points] == list(range(20))


def test_commits_that_were_not_measured_are_counted(repository):
    """Points of every other commit: one commit lies between any two."""
    commits = git(repository, "rev-list", "--first-parent", "--reverse", "main").split()[::2]

    def slower(values: np.ndarray) -> None:
        values[5:, 0] *= 1.3

    made = [
        msgspec.structs.replace(one, commit=commit)
        for one, commit in zip(history(10, plant=slower), commits, strict=True)
    ]
    (segment,) = analyse(kept(made), read_commits(repository)).segments
    (change,) = [one for one in segment.changes if one.measure == "generation"]
    assert (change.good, change.bad, change.unmeasured) == (4, 5, 1)


def test_a_rewritten_history_is_kept_apart_and_so_is_a_merged_branch(repository):
    commits = git(repository, "rev-list", "--first-parent", "--reverse", "main").split()
    side = git(repository, "rev-parse", "side")
    made = of_commits([*commits, side])
    git(repository, "reset", "-q", "--hard", "main~1")
    git(repository, "commit", "-q", "--allow-empty", "-m", "another end")
    found = analyse(kept(made), read_commits(repository))
    apart = {one.commit: one.apart for one in found.points if one.apart}
    assert apart == {commits[-1]: "unreachable", side: "side_branch"}
    assert sum(len(segment.points) for segment in found.segments) == 19
    assert len(found.points) == 21, "nothing is lost"


def test_a_short_name_is_the_commit_that_begins_so(repository):
    commits = git(repository, "rev-list", "--first-parent", "--reverse", "main").split()
    found = analyse(kept(of_commits([one[:8] for one in commits])), read_commits(repository))
    assert [one.commit for one in found.points] == commits


def test_a_shallow_clone_cannot_order_points_and_says_so(repository, tmp_path):
    git(tmp_path, "clone", "-q", "--depth", "2", f"file://{repository}", "shallow")
    commits = read_commits(tmp_path / "shallow")
    assert (commits.problem, commits.order) == ("shallow", {})
    found = analyse(kept(history(3)), commits)
    assert (found.order, found.why, [one.apart for one in found.points]) == ("time", "shallow", [""] * 3)


def test_without_a_repository_time_orders_points(tmp_path):
    found = analyse(kept(list(reversed(history(5)))), read_commits(tmp_path))
    assert (found.order, found.why) == ("time", "no-repository")
    assert [one.time for one in found.points] == sorted(one.time for one in found.points)


# The check


def outcomes(made: list[Point], *gates: str, recent: int = 10) -> tuple[int, list[tuple[str, str, str]]]:
    parsed = [parse_gate(text) for text in gates]
    found = analyse(kept(made), NO_GIT, asked=[one.measure for one in parsed])
    said = judge(found, parsed, recent)
    assert all(judged(found, one) for one in said)  # each has a sentence
    return exit_code(said), [(one.outcome, one.reason, one.measure) for one in said]


def late(values: np.ndarray) -> None:
    values[55:, column("generation", "generation.compute")] += 5e4


def test_a_recent_change_for_the_worse_fails_and_an_old_one_does_not():
    assert outcomes(history(plant=late)) == (3, [("failed", "change", "generation")])
    assert outcomes(history(plant=late), recent=4) == (0, [])
    assert outcomes(history(plant=at_40)) == (0, [])


def test_a_change_for_the_better_passes():
    assert outcomes(history(plant=lambda values: values.__setitem__((slice(55, None), 0), 9.5e5))) == (0, [])


def test_the_newest_point_alone_cannot_be_told():
    def last(values: np.ndarray) -> None:
        values[59, 0] += 5e4

    assert outcomes(history(seed=2, plant=last)) == (4, [("inconclusive", "stands_out", "generation")])
    found = analyse(kept(history(seed=2, plant=last)), NO_GIT)
    assert " is +50.2 us (+5.0 %) beyond the points before it" in judged(
        found, judge(found)[0]
    )  # 50 us, and its scatter


def on_other(made: list[Point], *at: int) -> list[Point]:
    """The points with some of them measured on another GPU."""
    machine = {"gpu": "NVIDIA B200", "driver": "580.1"}
    return [
        msgspec.structs.replace(one, machine=machine) if number in at else one
        for number, one in enumerate(made)
    ]


def test_one_point_of_another_machine_does_not_clear_what_failed():
    found = analyse(kept(on_other(history(plant=late), 59)), NO_GIT)
    (said,) = judge(found)
    assert (said.outcome, said.reason, said.measure) == ("inconclusive", "new_segment", "generation")
    assert said.before is not None
    assert (said.before.outcome, said.before.reason, said.before.segment) == ("failed", "change", 1)
    words = judged(found, said)
    assert words.startswith("the newest segment is new (gpu NVIDIA B200); the one before it: failed: gen")
    assert words.endswith("(NVIDIA H200, driver 580.1; steps (tensorrt-llm): generation)")


def test_two_odd_points_do_not_clear_it_either():
    """Each on a machine of its own: the first says nothing, and what failed stands before both."""
    made = on_other(history(plant=late), 59)
    made[58] = msgspec.structs.replace(made[58], machine={"gpu": "NVIDIA L4"})
    assert outcomes(made) == (4, [("inconclusive", "new_segment", "generation")])


def test_ten_points_of_another_machine_are_judged_alone():
    """The change at 45 has five points after it on its own machine."""

    def before(values: np.ndarray) -> None:
        values[45:, column("generation", "generation.compute")] += 5e4

    assert outcomes(on_other(history(plant=before), *range(51, 60)))[0] == 4
    assert outcomes(on_other(history(plant=before), *range(50, 60))) == (0, [])


def test_an_odd_point_among_others_or_before_a_good_one_says_nothing():
    assert outcomes(on_other(history(plant=late), 57)) == (3, [("failed", "change", "generation")])
    assert outcomes(on_other(history(), 59)) == (0, [])
    odd = on_other(history(), 57)
    odd[57] = msgspec.structs.replace(odd[57], pinned="")
    assert outcomes(odd, "context:+1%") == (0, [("passed", "passed", "context")])


def test_machines_in_turn_are_both_judged():
    """The even points become slower at 50, five of thirty; the newest point is one of the odd."""

    def even(values: np.ndarray) -> None:
        values[50::2, column("generation", "generation.compute")] += 5e4

    made = on_other(history(plant=even), *range(1, 60, 2))
    code, said = outcomes(made)
    assert (code, said) == (3, [("failed", "change", "generation")])


@pytest.mark.parametrize(
    ("gate", "expected"),
    [
        ("generation:+3%", (0, "passed", "passed")),  # 2 % more since point 40
        ("generation:+1%", (3, "failed", "exceeds")),
        ("generation:+10us", (3, "failed", "exceeds")),
        ("context:+1%", (0, "passed", "passed")),
        ("launches:+2", (3, "failed", "exceeds")),
        # a pattern: the sum of the places that hold it
        ("generation.host_work@sched:+10us", (3, "failed", "exceeds")),
        ("kernel:*m*:+5%", (0, "passed", "passed")),
    ],
)
def test_limits_hold_against_the_pinned_baseline(gate, expected):
    code, [(outcome, reason, _)] = outcomes(history(plant=at_40), gate)
    assert (code, outcome, reason) == expected


def test_a_limit_that_the_level_keeps_and_the_newest_point_does_not_says_so():
    """The last of eight points takes 1.73 ms where 1 ms is the baseline; the level may be at most 1.2 ms."""
    gate = parse_gate("generation:+20%")

    def words(*last: float) -> str:
        values = [1e6] * 7 + list(last)
        made = history(8, plant=lambda planted: planted.__setitem__((slice(None), 0), values))
        found = analyse(kept(made), NO_GIT, asked=[gate.measure])
        (said,) = [one for one in judge(found, [gate]) if one.gate]
        assert said.outcome == "passed"
        return judged(found, said)

    assert words(1.73e6).endswith(
        "limit 200 us. That is the level of 8 points; the newest point alone: +730 us (+73.0 %)"
    )
    assert words(1e6).endswith("limit 200 us")


def test_a_limit_that_noise_decides_is_neither():
    """One percent more in the last point but three, half a percent of scatter: 0.1 % is exceeded by chance or not."""
    made = history(
        4,
        scatter=0.05,
        plant=lambda values: values.__setitem__((slice(None), 0), [1e6, 1.02e6, 0.99e6, 1.01e6]),
    )
    code, [(outcome, reason, _)] = outcomes(made, "generation:+0.1%")
    assert (code, outcome, reason) == (4, "inconclusive", "may_exceed")


def test_a_limit_without_a_pinned_baseline_or_measure_cannot_be_told():
    made = [msgspec.structs.replace(one, pinned="") for one in history()]
    assert outcomes(made, "generation:+1%") == (4, [("inconclusive", "no_pinned", "generation")])
    assert outcomes(history(), "mixed:+1%") == (4, [("inconclusive", "no_measure", "mixed")])
    assert outcomes([]) == (4, [("inconclusive", "no_points", "")])


def test_a_group_of_kernels_is_called_as_reports_call_it():
    """The letters GEMM are in no kernel's name: cuBLAS calls its own nvjet."""
    names = [name.replace("kernel:gemm", "kernel:nvjet_sm90_hsh_128x256_64x4_2x1_v_bz_TNT") for name in NAMES]
    change = msgspec.structs.replace
    made = [change(one, measures=change(one.measures, names=names)) for one in history()]
    found = analyse(kept(made), NO_GIT, asked=[parse("kernel:GEMM")])
    series = {one.measure: one for one in found.segments[0].series}
    values = [point.measures.value[NAMES.index("kernel:gemm")] for point in made]
    assert series["kernel:GEMM"].values == pytest.approx(values, abs=0.1)


def test_a_sum_of_kernels_is_searched_as_one():
    found = analyse(kept(history()), NO_GIT, asked=[parse("kernel:*m*")])
    series = {one.measure: one for one in found.segments[0].series}
    one, other = (
        np.array([point.measures.value[NAMES.index(f"kernel:{name}")] for point in history()])
        for name in ("gemm", "fmha")
    )
    assert series["kernel:*m*"].values == pytest.approx((one + other).tolist(), abs=0.1)

"""What the pictures are drawn from: sums, both sides alike, bounds."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests import comparing
from tests.comparing import compare
from tests.measuring import measured, step
from tests.serving import serving
from tests.swapping import close, plain, swapped
from tests.tiny import reduced
from tracediff.comparison import pictures as step_strip
from tracediff.comparison import pictures as tree_of
from tracediff.comparison.pictures import cause_tree
from tracediff.comparison.places import judge
from tracediff.execution.sides import Run, Side
from tracediff.kernels.matching import Match, OpKey
from tracediff.model import Result
from tracediff.model.observed import NOTHING
from tracediff.model.pictures import CauseNode

COLUMNS = ("baseline_ns", "candidate_ns", "delta_ns")


def path_of(tree: list[CauseNode], number: int) -> str:
    node = tree[number]
    own = node.key or node.range or node.thread or node.candidate_kernel
    return "step" if node.parent < 0 else f"{path_of(tree, node.parent)}/{own}"


def paths(result: Result) -> dict[str, tuple[float, float]]:
    tree = result.cause_tree
    return {
        path_of(tree, at): (round(one.baseline_ns / 1e3, 3), round(one.candidate_ns / 1e3, 3))
        for at, one in enumerate(tree)
    }


@pytest.fixture(scope="module")
def slower(tmp_path_factory) -> Result:
    folder = tmp_path_factory.mktemp("slower")
    return compare(
        *(
            Side(name, [Run("run", [reduced(serving(schedule_us=us), folder)])])
            for name, us in (("baseline", 100), ("candidate", 130))
        )
    )


def test_a_tree_that_can_be_checked_by_hand(slower):
    """`_schedule` takes 30 us more; the step is 5 us in the launching call, 2 us until the first kernel, 3 kernels of 200 us."""
    assert paths(slower) == {
        "step": (707, 737),
        "step/busy": (600, 600),
        "step/busy/compute": (600, 600),
        "step/busy/compute/gemm": (600, 600),
        "step/busy/compute/gemm/gemm_0": (200, 200),
        "step/busy/compute/gemm/gemm_1": (200, 200),
        "step/busy/compute/gemm/gemm_2": (200, 200),
        "step/idle": (107, 137),
        "step/idle/launch_latency": (2, 2),
        "step/idle/launch_latency/[Executor] _forward_step": (2, 2),
        "step/idle/launch_api": (5, 5),
        "step/idle/launch_api/[Executor] _forward_step": (5, 5),
        "step/idle/host_work": (100, 130),
        "step/idle/host_work/_schedule": (100, 130),
    }


def test_the_tree_is_of_the_step_that_the_verdict_is_of(slower):
    """The first finding is what `_schedule` took more, and its place in the tree says so."""
    (typical,) = (one.typical for one in slower.phases if one.typical)
    root = slower.cause_tree[0]
    assert (root.kind, root.key) == ("typical", "generation")
    assert root.baseline_ns == pytest.approx(typical.baseline_ns)
    assert root.candidate_ns == pytest.approx(typical.candidate_ns)
    assert [(one.range, one.finding) for one in slower.cause_tree if one.finding] == [("_schedule", 1)]


def test_the_tree_of_rare_steps_is_of_the_mean_step():
    """One step of 24 stops for 48 ms: 2 ms of the mean step."""
    runs = [[step(cells=[100_000.0, 900_000.0]) for _ in range(24)] for _ in range(4)]
    late = [[*run[:13], step(cells=[48_100_000.0, 900_000.0]), *run[14:]] for run in runs]
    found = measured(runs, late, idle=1, kernels=1)
    trees = [
        cause_tree(found, judge(found), replace(NOTHING, phase="generation", of=of), [])
        for of in ("mean", "typical")
    ]
    assert [(one[0].kind, one[0].delta_ns) for one in trees] == [
        ("step", pytest.approx(2_000_000)), ("typical", pytest.approx(0, abs=1e-3)),
    ]  # fmt: skip
    assert [one.delta_ns for one in trees[0] if one.key == "host_work"] == [pytest.approx(2_000_000)]


def test_a_kernel_of_many_shapes_is_one_part(monkeypatch):
    """Three shapes of 10, 20 and 30 us, each 1 us longer, where two are many."""
    monkeypatch.setattr(tree_of, "PARTS", 2)
    one = [[step(cells=[0.0, 10_000.0, 20_000.0, 30_000.0]) for _ in range(12)]]
    other = [[step(cells=[0.0, 11_000.0, 21_000.0, 31_000.0]) for _ in range(12)]]
    found = measured(one, other, idle=1, kernels=3)
    shapes = [(OpKey("silu", str(grid)),) for grid in range(3)]
    found.kernels.rows[:] = [Match("exact", 1.0, shape, shape) for shape in shapes]
    tree = cause_tree(found, judge(found), replace(NOTHING, phase="generation", of="typical"), [])
    kernels = [node for node in tree if node.kind == "kernel"]
    assert [(one.baseline_kernel, one.rows, one.baseline_grid) for one in kernels] == [("silu", 3, "")]
    assert (kernels[0].baseline_ns, kernels[0].candidate_ns) == pytest.approx((60_000, 63_000))


def check_sums(result: Result) -> None:
    tree = result.cause_tree
    phase = next((one for one in result.phases if one.phase == tree[0].key), None)
    of = result.step if phase is None else phase.mean if tree[0].kind == "step" else phase.typical
    for column in COLUMNS:
        assert getattr(tree[0], column) == pytest.approx(getattr(of, column), abs=1e-3)
        for number, node in enumerate(tree):
            parts = [getattr(one, column) for one in tree if one.parent == number]
            if parts:
                assert sum(parts) == pytest.approx(getattr(node, column), abs=1e-3)
    strip = result.step_strip
    assert strip is not None
    for column in (*strip.baseline, *strip.candidate):
        assert sum(column.parts) == column.ns >= column.median_ns


PAIRS = [(("graph_a1", "graph_a2"), "graph_gc"), ("eager_a1", "graph_a1"), ("tp2_a1", "tp2_a1")]


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_parts_sum_to_the_whole(pair, compared):
    check_sums(compared(*pair))


@pytest.mark.parametrize("pair", PAIRS[:2], ids=str)
def test_with_the_sides_exchanged_the_pictures_are_mirrored(pair, compared):
    one, other = compared(*pair), compared(*pair[::-1])
    mirrored = swapped(plain(other))
    assert close(plain(one)["cause_tree"], mirrored["cause_tree"]) == []
    assert close(plain(one)["step_strip"], mirrored["step_strip"]) == []


def test_a_tree_stays_small_whatever_the_number_of_kernels(tmp_path):
    """60 kernels of a name each: 12 and the rest."""
    one = serving(kernels=60, kernel_us=10)
    side = Side("many", [Run("run", [reduced(one, tmp_path)])])
    tree = compare(side, side).cause_tree
    gemms = next(number for number, node in enumerate(tree) if node.key == "gemm")
    parts = [node for node in tree if node.parent == gemms]
    assert [node.kind for node in parts] == ["kernel"] * 12 + ["rest"]
    assert parts[-1].rows == 48
    assert parts[-1].baseline_ns == pytest.approx(480_000)


def test_steps_share_columns_and_the_longest_stays(tmp_path, monkeypatch):
    monkeypatch.setattr(step_strip, "ROWS", 4)
    monkeypatch.setattr(comparing, "_MADE", {})
    one = reduced(serving(steps=9, jitter_us=5, seed=1), tmp_path)
    side = Side("one", [Run("run", [one])])
    strip = compare(side, side).step_strip
    assert strip is not None and strip.baseline == strip.candidate
    ns = (one.periods["end_ns"] - one.periods["start_ns"]).to_list()
    width = -(-len(ns) // 4)
    assert [one.ns for one in strip.baseline] == [max(ns[at : at + width]) for at in range(0, len(ns), width)]
    assert [one.steps for one in strip.baseline][:-1] == [width] * (len(strip.baseline) - 1)
    assert sum(one.steps for one in strip.baseline) == len(ns)

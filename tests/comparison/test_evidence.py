"""The evidence of a finding: its moments are there, its numbers agree, and names of a trace stay texts in its SQL."""

from __future__ import annotations

import pytest

from fixtures.builders import HOSTILE_NAMES, TraceBuilder
from tests.comparing import compare
from tests.tiny import CAPTURES, label, reduced
from tracediff.comparison.evidence import Idle, idle_of_step, of_both, ops_of_step
from tracediff.execution.sides import Run, Side
from tracediff.formats.inputs import resolve
from tracediff.query.apart import generous
from tracediff.query.tables import Tables, check

PAIRS = [
    ("graph_a1", "graph_gc"),
    ("graph_a1", "graph_sleep"),
    ("graph_a1", "graph_fused_1"),
    ("eager_a1", "graph_a1"),
    ("graph_a1", "eager_a1"),
    ("eager_a1", "tp2_a1"),
]


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_moments_lie_in_the_capture_that_they_name(pair, compared, reduction_of):
    for finding in compared(*pair).findings:
        for moment in finding.evidence.moments:
            name = pair[0] if moment.side == "baseline" else pair[1]
            assert moment.run == name
            assert moment.start_ns < moment.end_ns
            periods = reduction_of(name).periods
            inside = (periods["start_ns"] <= moment.start_ns) & (moment.end_ns <= periods["end_ns"])
            assert inside.any(), finding.title


def test_the_longest_pieces_of_both_sides_are_there_the_candidates_first(compared):
    first = compared("graph_a1", "graph_sleep").findings[0]
    assert [one.side for one in first.evidence.moments] == ["candidate", "baseline"]


def test_the_moment_of_the_collection_is_one(compared):
    """The longest piece of idle time in `gc` lies inside a collection of the capture."""
    first = compared("graph_a1", "graph_gc").findings[0]
    (moment,) = [one for one in first.evidence.moments if one.side == "candidate"]
    question = (
        f"SELECT count(*) AS n FROM gc WHERE start_ns <= {moment.start_ns} AND end_ns >= {moment.end_ns}"
    )
    with Tables([resolve(str(CAPTURES["graph_gc"]))], measured=False) as tables:
        (answer,) = tables.run(question)
    assert answer.frame["n"].item() >= 1


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_numbers_of_a_finding_agree_with_each_other(pair, compared):
    result = compared(*pair)
    assert [one.rank for one in result.findings] == list(range(1, len(result.findings) + 1))
    for one in result.findings:
        # what got slower comes with advice, unless it may be noise; what got faster only where the work may have gone missing
        slower = one.delta_ns > 0 and one.level != "within_noise"
        advised = slower or one.cause in ("kernel_fused", "kernel_removed", "batch_mix")
        others_in_their_stead = one.facts.match in (
            "replaced",
            "mixed",
            "template",
        )  # what selects them, once
        if slower or not others_in_their_stead:
            assert bool(one.next) == (advised and result.verdict != "not_comparable"), one.title
        if one.share is None:
            continue
        (phase,) = [phase for phase in result.phases if phase.phase == one.where.phase]
        changed = getattr(phase, one.part)
        if one.where.rank is None:  # else it is of that rank, and the phase of the mean one
            assert one.delta_ns == pytest.approx(one.candidate_ns - one.baseline_ns, abs=1e-6)  # as measured
            assert one.share == pytest.approx(one.delta_ns / changed.delta_ns)
        assert one.ci_low_ns <= one.delta_ns <= one.ci_high_ns
        runs = one.evidence.runs_baseline_ns + one.evidence.runs_candidate_ns
        assert runs == pytest.approx([one.baseline_ns, one.candidate_ns])  # one run a side


@pytest.mark.parametrize(
    ("base", "other"),
    [
        ("graph_a1", "graph_sleep"),
        pytest.param("eager_a1", "graph_a1", marks=pytest.mark.slow),
        pytest.param("graph_a1", "graph_gc", marks=pytest.mark.slow),
    ],
)
def test_the_question_of_a_cause_is_answered_with_its_size(base, other, compared):
    """Time of the steps that the cause is of; what follows from kernels is no part of the question."""
    asked = [
        (one.delta_ns, one.evidence.query.rstrip(";"))
        for one in compared(base, other).findings
        if one.evidence.query.startswith("FROM aligned_") and one.evidence.query.count(";") == 1
        and one.part in ("typical", "mean") and one.where.rank is None and not one.parts
    ]  # fmt: skip
    assert asked
    with Tables([resolve(str(CAPTURES[name])) for name in (base, other)]) as tables:
        for size, question in asked:
            (answer,) = tables.run(f"SELECT sum(delta_ns) AS ns FROM ({question})")
            assert answer.frame["ns"].item() == pytest.approx(size, abs=1), question


# Names taken from a trace into SQL


@pytest.mark.slow
def test_hostile_names_stay_inside_their_quotes():
    names = [name for name in HOSTILE_NAMES if "\x00" not in name]
    within = generous(None, 1)
    asked = [Idle(cause, name, names, name) for name in names for cause in ("gc", "gil_wait", "host_work")]
    check(of_both(asked, names, names[0]), 2, within)
    of_one = [ops_of_step([(name, name) for name in names], 0, 0)]
    of_one += [one for name in names for asked in [Idle("gil_wait", name, names, name)] for one in (asked.of_steps(), idle_of_step([asked, asked], 0, 0))]  # fmt: skip
    check("\n".join(of_one), 1, within)


def test_the_question_of_a_cause_is_of_all_its_places():
    """Waits for the GPU with the host work that they expose are rows of one view, each asked for once; kernels are of another."""
    wait, work = Idle("host_sync", "executor", ["forward"]), Idle("host_work", "executor", ["forward"])
    idle, kernels = of_both([wait, work, wait], ["gemm"], "generation, typical").splitlines()
    both = [f"cause = '{one}' AND thread = 'executor' AND place IN ('forward')" for one in ("host_sync", "host_work")]  # fmt: skip
    assert idle == f"FROM aligned_idle WHERE steps = 'generation, typical' AND ({' OR '.join(both)});"
    assert kernels == "FROM aligned_kernel WHERE steps = 'generation, typical' AND list_has_any(baseline_names || candidate_names, ['gemm']);"  # fmt: skip


def test_kernels_with_hostile_names_are_compared_and_found_again(tmp_path):
    names = [name for name in HOSTILE_NAMES if "\x00" not in name and len(name) < 200]
    sides = []
    for side, length in (("one", 1_000), ("other", 9_000)):
        trace = TraceBuilder().process(100).thread(100, 1)
        now, corr = 0, 0
        for number in range(5):
            trace.range(1, label(number), now, now + 10)
            for name in names:
                corr += 1
                trace.api(1, "cudaLaunchKernel", now + 10, now + 20, corr=corr)
                trace.kernel(corr, now + 30, now + 30 + length, name=name)
                now += length + 100
        (tmp_path / side).mkdir()
        sides.append(Side(side, [Run(side, [reduced(trace, tmp_path / side)])]))
    result = compare(*sides)
    assert {row.match for row in result.kernels} == {"exact"}
    assert len(result.kernels) == len(names)
    told = [one for one in result.findings if one.where.kernels]
    with Tables([resolve(str(tmp_path / side)) for side in ("one", "other")], events=False) as tables:
        answers = [tables.run(one.evidence.query)[0].frame for one in told]
    assert told and all(len(one) for one in answers)

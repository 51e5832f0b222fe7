"""Measures: how they are spelled, and what they are in results and runs whose times are known."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.builders import TraceBuilder
from tests.comparing import compare
from tests.judging import judge
from tests.serving import US, runs_of
from tests.tiny import FIXTURES, bundled, label, reduced
from tracediff.comparison.compare import Options
from tracediff.comparison.gates import parse_gate
from tracediff.comparison.measures import COUNTS, SUMS, TIMES, Measure, measured, parse
from tracediff.comparison.sequential import run_values
from tracediff.errors import TracediffError
from tracediff.execution.sides import Run, Side
from tracediff.model import Said
from tracediff.model.causes import IDLE

# Words


@pytest.mark.parametrize(
    ("text", "measure"),
    [
        ("step", Measure("step")),
        (" generation ", Measure("step", "generation")),
        ("step-with-prompt", Measure("step", "step-with-prompt")),
        ("gil", Measure("gil_wait")),
        ("generation.host", Measure("host_work", "generation")),
        ("step.gc", Measure("gc", "step")),
        ("launch@cudaGraph*", Measure("launch_api", place="cudaGraph*")),
        ("mixed.idle@a.b::c", Measure("idle", "mixed", place="a.b::c")),
        ("generation.p99", Measure("p99", "generation")),
        ("kernel:a.b@c", Measure("kernel", kernel="a.b@c")),
        ("step-with-topk.kernel~fmha", Measure("kernel", "step-with-topk", "fmha")),
        ("launches", Measure("launches")),
        ("busy", Measure("busy")),
    ],
)
def test_measures_that_are_understood(text, measure):
    assert parse(text) == measure
    assert parse(measure.text) == measure


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "'' is no measure"),
        ("gilwait", "did you mean gil_wait"),
        ("graph", "'graph' is part of several names; did you mean graph_internal or graph_launches?"),
        ("generaton.p99", "'generaton' is no phase; did you mean generation"),
        ("p99", "did you mean generation.p99?"),
        ("compute@x", "did you mean idle@x?"),
        ("step@x", "only idle time has places"),
        ("gil@", "@ is followed by"),
        ("kernel:", "kernel: is followed by"),
    ],
)
def test_measures_that_are_refused(text, said):
    with pytest.raises(TracediffError, match="is no measure") as refused:
        parse(text)
    assert refused.value.slug == "bad-measure" and said in refused.value.message


@given(st.text(max_size=12))
def test_what_is_understood_has_one_spelling(text):
    try:
        found = parse(text)
    except TracediffError as error:
        assert error.slug == "bad-measure"
    else:
        assert parse(found.text) == found


# In results: a step of `_schedule` (100 us), a launching call (5 us), 2 us until the kernels begin, 3 kernels of 200 us


@pytest.fixture(scope="module")
def sides(tmp_path_factory):
    """Four runs each, without jitter: `_schedule` takes 100 us, or 130 us."""
    folder = tmp_path_factory.mktemp("measures")
    return [
        runs_of(folder, name, (us,) * 4, jitter_us=0) for name, us in (("a", 100), ("b", 130), ("same", 100))
    ]


@pytest.fixture(scope="module")
def slower(sides):
    return compare(
        *sides[:2], Options(in_turns=True)
    )  # no call of these traces tells the speed of their hosts


@pytest.mark.parametrize("phase", ["", "generation."])
@pytest.mark.parametrize(
    ("text", "baseline_us", "delta_us"),
    [
        ("host@_schedule", 100, 30),
        ("host@_sch*le", 100, 30),
        ("host@-Sched", 100, 30),  # letters of any case; - is _
        ("host@executor", 100, 30),  # the thread
        ("launch@cudaGraphLaunch", 5, 0),
        ("idle@executor", 107, 30),
        ("idle", 107, 30),
        ("busy", 600, 0),
        ("kernel:gemm_1", 200, 0),
        ("kernel:gemm", 600, 0),
    ],
)
def test_measures_of_a_result(text, phase, baseline_us, delta_us, slower):
    found = measured(parse(phase + text), slower)
    assert not isinstance(found, Said), found
    assert found.baseline == pytest.approx(baseline_us * US)
    assert found.delta == pytest.approx(delta_us * US, abs=1)
    assert found.sure == pytest.approx(delta_us * US, abs=1)


@pytest.mark.parametrize(
    ("gate", "outcome", "said"),
    [
        ("host_work@_schedule:+29us", "failed", "host_work@_schedule +30.0 us (+30.0 %) in the mean of all steps exceeds 29.0 us; counted: '_schedule'"),
        ("host@_schedule:+31us", "passed", "limit 31.0 us"),
        ("generation.host@_schedule:+29%", "failed", "generation.host_work@_schedule"),
        ("gil@_schedule:+1us", "inconclusive", "gil_wait was not measured on both sides. GIL: not captured on either side. Capture with -t python-gil to see it"),
        ("context.idle:+1us", "inconclusive", "no steps of the phase context were compared, only those of generation"),
    ],
)  # fmt: skip
def test_gates_of_places_and_phases(gate, outcome, said, slower):
    judged = judge(parse_gate(gate), slower)
    assert judged.outcome == outcome and said in judged.message


def test_a_result_without_places_has_none_by_that_name(slower):
    """As of a program that never waits: the place is not known, and nothing has to be recorded or compared again."""
    bare = msgspec.structs.replace(slower, places=[], threads=[], ranges=[])
    with pytest.raises(TracediffError) as caught:
        judge(parse_gate("host@_schedule:+1us"), bare)
    assert caught.value.slug == "no-such-place"


def test_a_gate_on_kernels_that_are_gone_counts_what_stands_in_their_place(slower):
    """gemm_1 took 200 us of each step. New kernels between the same two others take 300 us, one elsewhere 50; without a place nothing is known."""
    (old,) = (row for row in slower.kernels if row.baseline.names == ["gemm_1"])
    gone = msgspec.structs.replace(
        old, match="removed", candidate=None, delta_ns=-200.0 * US, block=3, phases=[]
    )

    def added(name: str, us: float, block: int):
        side = msgspec.structs.replace(old.candidate, names=[name], ns_per_step=us * US)
        return msgspec.structs.replace(
            gone, match="added", baseline=None, candidate=side, delta_ns=us * US, block=block
        )

    rows = [gone, added("softmax", 300, 3), added("other", 50, 7)]
    found = measured(parse("kernel:gemm_1"), msgspec.structs.replace(slower, kernels=rows))
    assert (found.baseline, found.delta) == pytest.approx((200 * US, 100 * US))
    alone = [msgspec.structs.replace(gone, block=-1), *rows[1:]]
    judged = judge(parse_gate("kernel:gemm_1:+5%"), msgspec.structs.replace(slower, kernels=alone))
    assert judged.outcome == "inconclusive" and "gemm_1 is gone from the candidate" in judged.message


def test_a_place_has_one_spelling_of_many():
    """Of the range `await_response` the thread is called `await-response`."""
    one, other = parse("gil@await_response"), parse("gil@Await Response")
    assert one == other and hash(one) == hash(other) != hash(parse("gil@await"))
    assert one.text == "gil_wait@await_response"
    assert one.at(["await-response"]) and other.at(["await_response-N"])


def test_a_gate_says_the_first_places_that_it_counted(slower):
    counted = judge(parse_gate("idle@executor:+1s"), slower).message.partition("; counted: ")[2]
    assert counted.startswith("'_schedule', ")
    row = next(row for row in slower.places if not row.phase and row.range == "_schedule")
    rows = [
        msgspec.structs.replace(row, range=name, baseline_ns=ns, candidate_ns=ns)
        for name, ns in (("a", 3.0), ("b", 2.0), ("c", 1.0), ("d", 4.0))
    ]
    four = msgspec.structs.replace(slower, places=rows)
    assert judge(parse_gate("host@executor:+1s"), four).message.endswith(
        "; counted: 'd', 'a', 'b' and 1 more"
    )


def test_a_collection_has_only_its_thread(slower):
    row = next(row for row in slower.places if not row.phase)
    books = slower.accounting
    books = msgspec.structs.replace(books, delta=books.delta | {"gc": 0.0})
    rows = [msgspec.structs.replace(row, cause="gc", range="", calls=[])]
    said = judge(
        parse_gate("gc@_schedule:+50us"), msgspec.structs.replace(slower, places=rows, accounting=books)
    )
    assert said.outcome == "inconclusive"
    assert "gc strikes anywhere and has no place but its thread; its places: 'executor'" in said.message


def test_what_lies_between_two_ranges_is_in_neither():
    assert not parse("host@_schedule").at(["outside any range, between _schedule and b", "executor"])
    assert parse("host@outside*_schedule").at(["outside any range, between _schedule and b"])


def test_a_sum_of_places_has_the_sum_of_their_intervals(slower):
    rows = [row for row in slower.places if not row.phase]
    found = measured(parse("idle@executor"), slower)
    assert found.low == pytest.approx(sum(row.ci_low_ns for row in rows))
    assert found.high == pytest.approx(sum(row.ci_high_ns for row in rows))
    assert len(rows) > 1


EVERY = [
    *TIMES, *COUNTS, *(f"{name}@executor" for name in (*IDLE, "idle")), "kernel:*", "kernel:nvjet", "gil@send",
    *(f"generation.{name}" for name in (*SUMS, *IDLE, "kernel:nvjet", "host@_schedule", "p50", "p99")),
]  # fmt: skip


def recorded(*names: str) -> Side:
    files = [FIXTURES / "pairs" / f"{name}.sqlite.xz" for name in names]
    return Side(names[0], [Run(file.name, [bundled(file)]) for file in files])


@pytest.fixture(scope="module")
def hog():
    """Another thread holds the GIL for 301 us of every step of the candidate, in `serialize_responses`."""
    return recorded("base_1", "base_2"), recorded("hog300_1", "hog300_2")


@pytest.fixture(scope="module")
def hogged(hog):
    return compare(*hog)


def test_a_planted_wait_is_found_at_its_place(hog, hogged):
    for text in ("gil@serialize_responses", "generation.gil@serialize_responses"):
        found = measured(parse(text), hogged)
        assert found.baseline == 0 and found.delta == pytest.approx(300_992, rel=0.05)
        before, after = run_values(parse(text), *hog)
        assert before.tolist() == [0, 0] and after == pytest.approx([300_992] * 2, rel=0.05)
    assert judge(parse_gate("gil@serialize_responses:+250us"), hogged).outcome == "failed"
    assert judge(parse_gate("gil@serialize_responses:+350us"), hogged).outcome == "passed"
    assert judge(parse_gate("host@_schedule:+50us"), hogged).outcome == "passed"


def test_places_sum_to_their_category(hogged):
    for phase in ("", *(one.phase for one in hogged.phases if one.accounting)):
        books = next((one.accounting for one in hogged.phases if one.phase == phase), hogged.accounting)
        for cause in IDLE:
            rows = [row for row in hogged.places if (row.phase, row.cause) == (phase, cause)]
            assert sum(row.baseline_ns for row in rows) == pytest.approx(books.baseline.get(cause, 0), abs=1)
            assert sum(row.candidate_ns for row in rows) == pytest.approx(
                books.candidate.get(cause, 0), abs=1
            )
    assert hogged.places_left_out == 0


def test_exchanging_the_sides_changes_every_sign(hog, hogged):
    back = compare(*hog[::-1])
    numbers = 0
    for text in EVERY:
        one, other = (measured(parse(text), result) for result in (hogged, back))
        if isinstance(one, Said):
            assert isinstance(other, Said), text
            continue
        numbers += 1
        assert one.delta == pytest.approx(-other.delta, abs=1e-3), text
    assert numbers > 30


def test_a_run_against_itself_fails_no_gate(hog):
    result = compare(hog[0], hog[0])
    for text in EVERY:
        found = measured(parse(text), result)
        assert isinstance(found, Said) or found.delta == 0, text
        assert judge(parse_gate(f"{text}:+0%"), result).outcome in ("passed", "inconclusive"), text


# Run by run


def test_the_values_of_each_run(tmp_path, sides):
    """Runs of 100, 110 and 120 us of `_schedule`; the rest of a step is 607 us."""
    grown = runs_of(tmp_path, "g", (100, 110, 120), jitter_us=0)
    for text, values in {
        "host@_schedule": [100, 110, 120],
        "generation.host": [100, 110, 120],
        "idle": [107, 117, 127],
        "step": [707, 717, 727],
        "busy": [600] * 3,
        "kernel:gemm_2": [200] * 3,
        "launch@cudaGraphLaunch": [5] * 3,
        "gc": [0] * 3,
    }.items():
        before, after = run_values(parse(text), sides[0], grown)
        assert after / US == pytest.approx(values), text
        assert before / US == pytest.approx([values[0]] * 4), text


def test_the_runs_have_the_mean_of_the_result(hog, hogged):
    for text in (
        "idle",
        "busy",
        "gil",
        "launch",
        "gil@serialize_responses",
        "host@_schedule",
        "kernel:nvjet",
    ):
        before, _ = run_values(parse(text), *hog)
        found = measured(parse(text), hogged)
        assert before.mean() == pytest.approx(found.baseline), text


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("host@nowhere", "no-such-place"),
        ("mixed.host", "no-such-phase"),
        ("kernel:softmax", "no-such-kernel"),
        ("launches", "measure-by-run"),
        ("generation.p99", "measure-by-run"),
    ],
)
def test_what_has_no_value_of_a_run(text, slug, sides):
    with pytest.raises(TracediffError) as refused:
        run_values(parse(text), *sides[:2])
    assert refused.value.slug == slug


# Kernels of a name that share a row with others


def program(folder, name: str, kernels: list[tuple[str, float]]) -> Side:
    """Three runs of 12 steps: 10 us of host, a launch, then these kernels (name, us) one after the other."""
    runs = []
    for number in range(3):
        trace = TraceBuilder().process(100).device(0).thread(100, 1)
        now = 0
        for step in range(13):
            begin, at = now, now + 17 * US
            trace.api(1, "cudaGraphLaunch", begin + 10 * US, begin + 15 * US, corr=step + 1)
            for node, (kernel, us) in enumerate(kernels):
                trace.kernel(step + 1, at, at + int(us * US), name=kernel, graph_node=100 + node)
                at += int(us * US)
            trace.api(1, "cudaStreamSynchronize", begin + 15 * US, at)
            trace.range(1, label(step, gen=4), begin, at)
            now = at
        place = folder / f"{name}{number}"
        place.mkdir()
        runs.append(Run(place.name, [reduced(trace, place)]))
    return Side(name, runs)


def test_kernels_of_a_fused_row_count_by_name(tmp_path):
    """gemm (200 us) + silu (30 us) became gemm_act (250 us): silu is gone, 30 us of its own, and not 20 us slower."""
    around = [("norm", 50.0)], [("head", 80.0)]
    before = program(tmp_path, "a", [*around[0], ("gemm", 200.0), ("silu", 30.0), *around[1]])
    after = program(tmp_path, "b", [*around[0], ("gemm_act", 250.0), *around[1]])
    result = compare(before, after, Options(kernels=("silu",)))
    (fused,) = (row for row in result.kernels if row.match == "fused")
    assert dict(zip(fused.baseline.names, fused.baseline.ns_of, strict=True)) == {
        "gemm": pytest.approx(200 * US), "silu": pytest.approx(30 * US),
    }  # fmt: skip
    silu = measured(parse("kernel:silu"), result)
    assert (silu.baseline, silu.delta) == pytest.approx((30 * US, -30 * US))
    whole = measured(
        parse("kernel:gemm"), result
    )  # all of the candidate's side bears it: what it replaced counts too
    assert (whole.baseline, whole.delta) == pytest.approx((230 * US, 20 * US))
    assert measured(parse("generation.kernel:silu"), result) == Said("kernel_shares_row", {"kernel": "silu"})
    (cause,) = (one for one in result.findings if one.cause == "kernel_fused")
    (part,) = cause.parts
    assert part.of == {
        "gemm": pytest.approx(-200 * US),
        "silu": pytest.approx(-30 * US),
        "gemm_act": pytest.approx(250 * US),
    }
    (answer,) = result.kernel_answers
    assert answer.text == "silu is gone: 30.0 us per mean step in 1 launch, 30.0 us each."
    assert (answer.baseline_ns, answer.delta_ns) == pytest.approx((30 * US, -30 * US))
    assert answer.partly == answer.rows == [result.kernels.index(fused)]

"""Which places are one cause, and that a cause has the time of all its places."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import polars as pl
import pytest
from msgspec.structs import replace

from tests.measuring import FIRST, measured, step
from tracediff.comparison.candidates import Candidate, _call, replacement
from tracediff.comparison.cells import Measured
from tracediff.comparison.places import judge
from tracediff.comparison.related import (
    _elsewhere,
    launched_otherwise,
    of_one_holder,
    of_one_range,
    of_related_kernels,
    order,
    related,
    synchronising,
    united,
    with_consequences,
    with_counts_of_all,
    with_synchronisation,
)
from tracediff.model import (
    ApiRow,
    CallFact,
    FindingFacts,
    FindingPart,
    Kernels,
    Launch,
    LaunchPhase,
    LaunchSide,
    StructureRow,
    Where,
)

US = 1_000.0
SILU, GEMM, COPY = "silu_kernel<BFloat16>", "nvjet_64x16_TNT", "direct_copy_kernel"


def places(before: list[float], after: list[float]):
    """Judgements of places that take so many us in every step of four runs a side; the first is host work that stays."""
    runs = (
        [[step(cells=[1_000 * US, *(one * US for one in side)]) for _ in range(12)]] * 4
        for side in (before, after)
    )
    return judged(measured(*runs, idle=1 + len(before)), len(before))


def judged(of: Measured, number: int):
    rows = judge(of).rows
    found = {one.place.cells[0] - FIRST: one for one in rows if one.part == "typical"}
    return [found[1 + at] for at in range(number)]


def candidate(judged, cause: str = "host_work", level: str = "confirmed", **more) -> Candidate:
    where = more.pop("where", Where(range="[Executor] _forward_step", thread="executor"))
    facts = more.pop("facts", FindingFacts())
    return Candidate(cause, where, judged, facts, level=level, **more)


def of_generation(*sides: LaunchSide, apis: Sequence[ApiRow] = ()) -> Launch:
    nothing = LaunchSide(*[0.0] * 9)
    phase = LaunchPhase("generation", *sides, list(apis))
    return Launch(baseline=nothing, candidate=nothing, apis=[], by_phase=[phase])


def launch_side(calls: float = 10, syncs: float = 0) -> LaunchSide:
    return LaunchSide(calls, 0.0, 10.0, *[0.0] * 6, syncs_per_step=syncs)


def syncs(before: float, after: float, **calls: tuple[float, float]) -> Launch:
    """So many synchronising calls in a step of each side; `calls`: of each function."""
    counts = [launch_side(syncs=many) for many in (before, after)]
    rows = [
        ApiRow(api=api, kind="sync", baseline_calls=one, candidate_calls=other, baseline_ns=0)
        for api, (one, other) in calls.items()
    ]
    return of_generation(*counts, apis=rows)


def launches(more: float) -> Launch:
    """A step of the candidate calls so many launches more."""
    return of_generation(launch_side(), launch_side(calls=10 + more))


def sizes(one: Candidate) -> dict[str, float]:
    return {part.cause: round(part.delta_ns / US, 3) for part in one.parts}


def test_fewer_synchronisations_hide_what_the_host_does_in_their_place():
    """-50 of waiting, -300 of host work and -80 of launch calls are one cause of -430 us; +20 us of latency is another."""
    wait, work, calls, latency = places([50, 310, 90, 30], [0, 10, 10, 50])
    rows = [
        candidate(wait, "host_sync"),
        candidate(work),
        candidate(calls, "launch_api"),
        candidate(latency, "launch_latency"),
    ]
    first, other = with_synchronisation(rows, syncs(9, 1), [])
    assert first.cause == "host_sync" and first.count == (9, 1) and first.facts.counted_calls
    assert first.judged.delta == pytest.approx(-430 * US)
    assert sizes(first) == {"host_sync": -50, "host_work": -300, "launch_api": -80}
    assert [part.follows for part in first.parts] == [False, True, True]
    assert other.judged.delta == pytest.approx(20 * US)
    # of 9 calls one less: 25 us are what it can hide, so that 300 us and 80 us have another cause
    first, *others = with_synchronisation(rows, syncs(9, 8), [])
    assert first.judged.delta == pytest.approx(-50 * US) and len(others) == 3
    assert with_synchronisation(rows, syncs(9, 9), []) == rows


@pytest.mark.parametrize(
    ("launched", "exposed"), [((100, 200), True), ((100, 800), False), ((800, 100), True)]
)
def test_a_range_that_launches_as_many_times_more_kernels_does_more_on_its_host(
    launched: tuple[float, float], exposed: bool
) -> None:
    """4 -> 18 synchronisations are 4.5 times as many. 8 times as many kernels explain 800 us of host work, twice as many do not."""
    wait, work = places([10, 100], [60, 900])
    rows = [candidate(wait, "host_sync"), candidate(work)]
    row = StructureRow(
        kind="kernels", phase="generation", range="[Executor] _forward_step", baseline=launched[0], candidate=launched[1],
        baseline_steps=12, candidate_steps=12, baseline_any=12, candidate_any=12, certain=True,
    )  # fmt: skip
    first, *others = with_synchronisation(rows, syncs(4, 18), [row])
    assert first.judged.delta == pytest.approx((850 if exposed else 50) * US)
    assert len(others) == (0 if exposed else 1)


def test_synchronisations_are_counted_per_step_where_a_process_has_several_devices() -> None:
    """A process of four devices waits twice a step, then three times: 0.25 of them are of each device, which is no other number."""
    (wait,) = places([50], [90])
    row = replace(rows_of(2, 3)[0], kind="synchronisations", name="cudaEventSynchronize", range="")
    launch = syncs(0.5, 0.75, cudaEventSynchronize=(0.5, 0.75))
    (found,) = with_synchronisation([candidate(wait, "host_sync")], launch, [row])
    assert (found.count, found.facts.counted_calls) == ((2, 3), True)
    assert not with_synchronisation([candidate(wait, "host_sync")], launch, [])[0].facts.counted_calls


@pytest.mark.parametrize(("waits", "said"), [((0, 1), (0, 1)), ((0.01, 1.49), (1, 2))])
def test_waits_of_a_place_are_its_calls_only_where_as_many_came(waits, said) -> None:
    """One call more per step, of one that was elsewhere; 1.48 waits more are not that call."""
    (wait,) = places([50], [90])
    launch = syncs(1, 2, cudaEventSynchronize=(1, 2))
    (found,) = with_synchronisation([candidate(wait, "host_sync", count=waits)], launch, [])
    assert found.count == said


def test_a_synchronisation_exposes_no_more_than_a_step_could_hide():
    """Steps of 1,110 us before: 1,100 us of host work may have been hidden in them, 1,200 are work that is new."""
    for more, alone in ((1_100, 0), (1_200, 1)):
        for sign in (1, -1):
            wait, work = places(*([10, 100], [60, 100 + more])[::sign])
            rows = [candidate(wait, "host_sync"), candidate(work)]
            _, *others = with_synchronisation(rows, syncs(*(1, 3)[::sign]), [])
            assert len(others) == alone


def test_elsewhere_a_cause_is_its_own_places():
    """Kernels of +100 us in rare steps; in the typical one +300 us of host work follow from them as well, which rare steps do not have."""
    kernels, work = places([10, 20], [110, 320])
    lead = candidate(replace(kernels, part="tail"), "kernel_added", "exact")
    whole = united(candidate(kernels, "kernel_added", "exact"), followers=[candidate(work)])
    assert whole.judged.delta == pytest.approx(400 * US)
    found = _elsewhere(lead, whole, [kernels, work])
    assert (found.part, found.delta_ns) == ("typical", pytest.approx(100 * US))


def test_calls_of_a_function_for_those_of_another_are_counted_together():
    """9 cudaStreamSynchronize go and 1 cudaEventSynchronize comes: 9 -> 1; 3 of another function stay as they are."""
    (wait,) = places([110], [10])
    counts = syncs(
        12, 4, cudaStreamSynchronize=(9, 0), cudaEventSynchronize=(0, 1), cudaDeviceSynchronize=(3, 3)
    )
    here = candidate(wait, "host_sync", where=Where(range="forward", api="cudaStreamSynchronize"))
    (one,) = with_synchronisation([here], counts, [])
    assert (one.count, one.where.api) == ((9, 1), None)


def test_calls_are_counted_of_the_function_that_is_named():
    """12 cudaDeviceSynchronize come to one cudaEventSynchronize elsewhere: 0 -> 12 in forward, not 1 -> 13."""
    (wait,) = places([0], [110])
    counts = syncs(1, 13, cudaDeviceSynchronize=(0, 12), cudaEventSynchronize=(1, 1))
    for api in ("cudaDeviceSynchronize", None):
        (one,) = with_synchronisation(
            [candidate(wait, "host_sync", where=Where(range="forward", api=api))], counts, []
        )
        assert (one.count, one.where.api) == ((0, 12), "cudaDeviceSynchronize")
    # 8 more of the function, and 8 more waits here: the one of before is elsewhere
    here = candidate(
        wait, "host_sync", where=Where(range="forward", api="cudaStreamSynchronize"), count=(0, 8)
    )
    (one,) = with_synchronisation([here], syncs(1, 9, cudaStreamSynchronize=(1, 9)), [])
    assert one.count == (0, 8)
    # one wait more than calls on both sides is that for a synchronous copy
    (one,) = with_synchronisation(
        [replace(here, count=(2, 82))], syncs(1, 81, cudaStreamSynchronize=(1, 81)), []
    )
    assert one.count == (1, 81)
    other = candidate(wait, "host_sync", where=Where(range="sample", api="cudaEventSynchronize"))
    assert with_synchronisation([other], counts, []) == [other]


def test_nodes_of_a_graph_save_no_launch():
    """24 nodes fewer in one graph launch leave that one launch: 120 us of launch calls do not follow from them, but from 24 launches fewer."""
    gemm, calls = places([150, 400], [60, 280])
    fewer = kernels(gemm, GEMM, (36, 12), cause="kernel_removed", level="exact")
    assert len(with_consequences([fewer, candidate(calls, "launch_api")], launches(0))) == 2
    (one,) = with_consequences([fewer, candidate(calls, "launch_api")], launches(-24))
    assert one.judged.delta == pytest.approx(-210 * US)


def test_more_collectives_in_a_graph_bring_its_gaps_where_no_other_kernel_does():
    """72 all-reduces more of 540 us, 760 us of gaps and 50 us of launch calls; a copy kernel that came as well has the gaps and the calls."""
    comm, gaps, calls, copy = places([210, 190, 20, 0], [750, 950, 70, 5])
    sent = kernels(comm, "ncclDevKernel_AllReduce", (24, 96), cause="comm", level="exact")
    rows = [sent, candidate(gaps, "graph_internal"), candidate(calls, "launch_api")]
    first, other = with_consequences(rows, launches(72))
    assert sizes(first) == {"comm": 540, "graph_internal": 760} and other is rows[2]
    (moved,) = [
        one
        for one in with_consequences([*rows, kernels(copy, COPY, (0, 72), level="exact")], launches(72))
        if one is not sent
    ]
    assert sizes(moved) == {"kernel_added": 5, "graph_internal": 760, "launch_api": 50}


@pytest.mark.parametrize(("gaps_after", "one_cause"), [(92, True), (60, False)])
def test_a_copy_fills_no_more_of_the_gaps_of_a_graph_than_it_takes(gaps_after, one_cause):
    """A copy more of 10 us stands in gaps that are 8 us shorter; 40 us less are another cause."""
    copied, gaps = places([0, 100], [10, gaps_after])
    rows = [
        kernels(copied, "[memcpy DtoD]", (0, 1), cause="memcpy", level="exact"),
        candidate(gaps, "graph_internal"),
    ]
    assert len(with_consequences(rows, launches(0))) == (1 if one_cause else 2)


def test_waits_for_one_holder_are_one_cause():
    waits = places([0, 0, 0], [250, 18, 40])
    holders = [("await-response", "serialize"), ("await-response", "outside any range"), ("dispatch", "send")]
    rows = [
        candidate(one, "gil_wait", where=Where(thread="executor", holder_thread=thread, holder_range=place))
        for one, (thread, place) in zip(waits, holders, strict=True)
    ]
    first, other = of_one_holder(rows)
    assert first.where.holder_range == "serialize" and first.judged.delta == pytest.approx(268 * US)
    assert other.where.holder_thread == "dispatch"


def kernels(judged, name: str, count: tuple[float, float], *others: str, **more) -> Candidate:
    names = frozenset({name, *others})
    where = Where(kernels=Kernels((name,)))
    return candidate(
        judged,
        more.pop("cause", "kernel_added"),
        where=where,
        count=count,
        names=names,
        leading=frozenset({name}),
        **more,
    )


def test_kernels_named_in_the_same_change_are_one_cause():
    gemm, silu, copy = places([150, 20, 5], [128, 29, 9])
    rows = [
        kernels(gemm, GEMM, (16, 8), SILU, cause="kernel_fused", level="exact"),
        kernels(silu, SILU, (8, 16)),
        kernels(copy, COPY, (1, 2)),
    ]
    first, other = of_related_kernels(rows)
    assert first.cause == "kernel_fused" and first.level == "exact"
    assert first.judged.delta == pytest.approx((-22 + 9) * US)
    assert other.where.called == (COPY,)
    # what may be noise is not taken in
    assert len(of_related_kernels([rows[0], replace(rows[1], level="within_noise")])) == 2


def test_launches_of_a_kernel_in_other_shapes_are_no_more_launches():
    """A batch of 9 is padded to 16 for 12: 4 of 8 launches went to a larger grid, +60 us there and -50 us here, be that sure or not."""
    grew, less, copy = places([10, 90, 5], [70, 40, 9])
    for level in ("likely", "within_noise"):
        rows = [
            kernels(one, GEMM, count, cause=cause, ops=frozenset({GEMM}), level=one_level)
            for one, count, cause, one_level in (
                (grew, (1, 5), "kernel_added", level),
                (less, (7, 3), "kernel_removed", "within_noise"),
            )
        ]
        other = kernels(copy, COPY, (1, 2), ops=frozenset({COPY}), level="within_noise")
        one, left = of_related_kernels([*rows, other])
        assert one.judged.delta == pytest.approx(10 * US) and left.where.called == (COPY,)
        found = with_counts_of_all(one)
        assert (found.cause, found.count, found.facts.match) == ("kernel_time", (8, 8), "name")
        each = found.facts.baseline_mean_ns, found.facts.candidate_mean_ns
        assert each == pytest.approx((100 * US / 8, 110 * US / 8))


@pytest.mark.parametrize(
    ("came", "match"), [("mlp<float>", "name"), ("mlp<double>", "template"), (SILU, "mixed")]
)
def test_as_many_launches_are_of_other_shapes_or_arguments_or_kernels(came: str, match: str):
    went = Where(kernels=Kernels(("mlp",)))
    new = Where(kernels=Kernels(("mlp" if came != SILU else SILU,)))
    (place,) = places([30], [70])
    parts = tuple(
        FindingPart(
            "kernel_time", where, 20.0, 19.0, 21.0, "exact", count_baseline=before, count_candidate=after
        )
        for where, before, after in ((went, 8, 6), (new, 0, 2))
    )
    ops = frozenset({"mlp<float>", came})
    one = candidate(place, "kernel_added", where=went, count=(8, 6), parts=parts, ops=ops)
    assert with_counts_of_all(one).facts.match == match


def test_a_cause_stands_by_what_its_places_come_to():
    """+60 and -50 us are 10 us of the step, and stand after -20 us."""
    one, other, alone = (
        candidate(row, "kernel_time", level="exact") for row in places([100, 100, 100], [160, 50, 80])
    )
    whole = united(one, [other])
    assert whole.judged.delta == pytest.approx(10 * US, rel=0.01)
    assert sorted([whole, alone], key=order) == [alone, whole]


def test_places_that_surely_changed_against_each_other_are_surely_nothing():
    """+60 us at one and -60 us at the other; counts of kernels differ all the same."""
    rows = places([100, 100], [160, 40])
    for level, found in (("likely", "within_noise"), ("exact", "exact")):
        one, other = (candidate(row, "kernel_time", level=level) for row in rows)
        assert united(one, [other]).level == found


@pytest.mark.parametrize(("counts", "causes"), [((8, 8), 1), ((8, 2), 2)])
def test_a_new_kernel_replaces_one_of_its_kind_that_went_and_ran_as_often(
    counts: tuple[int, int], causes: int
):
    """A library without its workspace takes another GEMM: +153 us and -90 us are +63 us."""
    gone, came = places([90, 0], [0, 153])
    kinds = {"kinds": frozenset({"gemm"}), "level": "exact"}
    found = of_related_kernels(
        [
            kernels(gone, GEMM, (counts[0], 0), cause="kernel_removed", **kinds),
            kernels(came, "cutlass_gemm", (0, counts[1]), **kinds),
        ]
    )
    assert len(found) == causes
    if causes == 1:
        assert (found[0].judged.delta, found[0].facts.match) == (pytest.approx(63 * US), "replaced")
        assert (found[0].where.called, found[0].where.replaced_by) == ((GEMM,), ("cutlass_gemm",))


def test_a_fusion_that_is_a_small_part_names_no_change():
    """-22 us of a fusion beside -60 us of a kernel that went."""
    gemm, silu = places([150, 100], [128, 40])
    fused = kernels(gemm, GEMM, (16, 8), SILU, cause="kernel_fused", level="exact")
    gone = kernels(silu, SILU, (8, 0), cause="kernel_removed", level="exact")
    (one,) = of_related_kernels([fused, gone])
    assert (one.cause, one.where.called, one.judged.delta) == (
        "kernel_removed",
        (SILU,),
        pytest.approx(-82 * US),
    )


def test_a_split_of_one_kernel_in_many_is_not_what_made_them_slower():
    """GEMMs of another data type, +700 us: 24 -> 26 launches and 24 -> 23, 48 -> 49 together."""
    some, most = places([200, 400], [500, 800])
    split = kernels(some, GEMM, (24, 26), cause="kernel_split", level="exact")
    slower = kernels(most, GEMM, (24, 23), cause="kernel_time", level="exact")
    (one,) = related([split, slower], launches(0), [], ("generation", "typical"))
    assert (one.cause, one.facts.match, one.where.called) == ("kernel_time", "replaced", (GEMM,))


def test_what_may_be_noise_is_listed_by_its_phase_where_it_is_no_trifle():
    """Of a step of 1.4 ms: 340 us of another phase than that of the verdict go before 6 us of that one, and behind 20 us of it."""
    trifle, less, more = places([60, 10, 60], [66, 30, 400])
    rows = [candidate(one, level="within_noise") for one in (trifle, less, more)]
    phase = replace(more.phase, steps=replace(more.phase.steps, phase="context"))
    rows[2] = replace(rows[2], judged=replace(more, phase=phase))
    (launch,) = launches(0).by_phase
    both = replace(launches(0), by_phase=[launch, replace(launch, phase="context")])
    found = related(rows, both, [], ("generation", "typical"))
    assert [round(one.judged.delta / US) for one in found] == [20, 340, 6]


def test_kernels_that_came_back_with_other_arguments_name_no_change():
    """argmax of bf16 (10 us) stays in a few steps and is one of float in the others (9 us): what is new is mul with 4 us."""
    rows = places([0, 10, 0], [9, 0, 4])
    argmax = "reduce_kernel<ArgMaxOps>"
    counts = [(0, 1), (1, 0.02), (0, 1)]
    causes = ("kernel_added", "kernel_removed", "kernel_added")
    together = [
        kernels(one, name, count, argmax, "mul", cause=cause, level="exact")
        for one, name, count, cause in zip(rows, (argmax, argmax, "mul"), counts, causes, strict=True)
    ]
    (one,) = of_related_kernels(together)
    assert one.judged.delta == pytest.approx(3 * US)
    assert (one.cause, one.where.called, one.count) == ("kernel_added", ("mul",), (0, 1))


def test_more_kernels_bring_their_launch_calls():
    """8 launches more explain 40 us of launch calls in the range that launches, 5 us each; not 40 us elsewhere."""
    more, calls, away = places([10, 60, 60], [30, 100, 100])
    rows = [
        kernels(more, COPY, (8, 16), level="exact"),
        candidate(calls, "launch_api"),
        candidate(away, "host_work", where=Where(range="_schedule", thread="executor")),
    ]
    first, other = with_consequences(rows, launches(8))
    assert first.where.called == (COPY,) and first.judged.delta == pytest.approx(60 * US)
    assert sizes(first) == {"kernel_added": 20, "launch_api": 40}
    assert other.where.range == "_schedule"
    # fewer kernels do not bring more launch calls
    assert len(with_consequences([kernels(more, COPY, (16, 8), level="exact"), rows[1]], launches(8))) == 2


def test_what_comes_with_launches_is_of_all_kernels_that_have_more():
    """8 + 8 + 8 launches more, of 20, 12 and 6 us, and 40 us of launch calls: no kernel has half of them. Of 24 + 8 the first has.

    A kernel with fewer launches is another cause."""
    copy, silu, gemm, calls = places([0, 0, 0, 60], [20, 12, 6, 100])
    fewer, _ = places([30, 60], [10, 100])
    along = candidate(calls, "launch_api")
    three = [
        kernels(one, name, (0, 8), level="exact") for one, name in ((copy, COPY), (silu, SILU), (gemm, GEMM))
    ]
    gone = kernels(fewer, "old_kernel", (12, 8), cause="kernel_removed", level="exact")
    every, other = with_consequences([*three, gone, along], launches(20))
    assert every.judged.delta == pytest.approx(78 * US) and other is gone
    assert with_counts_of_all(every).count == (0, 24)
    most = [kernels(copy, COPY, (0, 24), level="exact"), three[1]]
    first, *others = with_consequences([*most, gone, along], launches(28))
    assert first.judged.delta == pytest.approx(60 * US) and others == [most[1], gone]


def test_a_copy_is_where_its_call_is():
    copy, calls = places([0, 5], [32, 25])
    rows = [
        kernels(copy, "[memcpy HtoD]", (0, 1), cause="memcpy", level="exact"),
        candidate(calls, "launch_api", where=Where(range="_prepare_inputs"), facts=FindingFacts(copies=True)),
    ]
    (one,) = with_consequences(rows, launches(8))
    assert one.where.range == "_prepare_inputs" and one.judged.delta == pytest.approx(52 * US)


def test_a_new_copy_brings_what_a_removed_one_takes_along():
    """A copy of 32 us, its call of 5 us and 4 us of host work before it, which no other kernel of the step changed."""
    for before, after in ((0, 1), (1, 0)):
        sizes_of = (32 * before, 5 * before, 4 * before), (32 * after, 5 * after, 4 * after)
        copy, calls, work = places([5 + ns for ns in sizes_of[0]], [5 + ns for ns in sizes_of[1]])
        here = Where(range="_prepare_inputs", thread="executor")
        rows = [
            kernels(copy, "[memcpy HtoD]", (before, after), cause="memcpy", level="exact"),
            candidate(calls, "launch_api", where=here, facts=FindingFacts(copies=True)),
            candidate(work, "host_work", where=here),
        ]
        (one,) = with_consequences(rows, launches(1))
        assert one.judged.delta == pytest.approx((after - before) * 41 * US)


def test_a_cause_is_not_surer_than_most_of_it():
    """3 us of waits that are sure to be more, and 4 us of host work that runs of one program differ by: +- 16 us."""
    wait, work = places([50, 310], [53, 314])
    rows = [candidate(wait, "host_sync"), candidate(work, level="within_noise")]
    (one,) = with_synchronisation(rows, syncs(8, 10), [])
    assert rows[0].level == "confirmed" and one.level == "within_noise"


def test_kernels_take_in_what_moved_and_nothing_that_may_not_have():
    for calls_after, taken, level in ((330, True, "likely"), (66, True, "exact"), (62, False, "exact")):
        more, calls = places([10, 60], [12, calls_after])
        rows = [
            kernels(more, COPY, (8, 24), level="exact"),
            candidate(calls, "launch_api", level="within_noise"),
        ]
        found = with_consequences(rows, launches(16))
        # the number is certain; of most of the time that it takes it is not, but for less than a hundredth of the step
        assert (len(found) == 1) is taken and found[0].level == level


def part(
    kernel: str,
    delta: float,
    before: float,
    after: float,
    cause: str = "kernel_time",
    *,
    replaced_by: str = "",
) -> FindingPart:
    return FindingPart(
        cause,
        Where(kernels=Kernels((kernel,), (replaced_by,) if replaced_by else ())),
        delta,
        delta,
        delta,
        "exact",
        count_baseline=before,
        count_candidate=after,
    )


def swapped(one: FindingPart) -> FindingPart:
    """The same where the candidate is the baseline."""
    names = [side for side in (one.where.replaced_by, one.where.called) if side]
    return msgspec.structs.replace(
        one, where=Where(kernels=Kernels(*names)), delta_ns=-one.delta_ns, count_baseline=one.count_candidate,
        count_candidate=one.count_baseline, of={name: -ns for name, ns in one.of.items()},
    )  # fmt: skip


def test_what_replaces_kernels_is_replaced_where_the_sides_are_swapped():
    """A row that no typical step launches neither came nor went."""
    row = msgspec.structs.replace(
        part("w8a16", 56.0, 6, 6, replaced_by="dequant"), of={"w8a16": -345.0, "dequant": 401.0}
    )
    other = msgspec.structs.replace(part("a", 10.0, 6, 6, replaced_by="b"), of={"a": -10.0, "b": 20.0})
    flash, copy = part("flash", -45.0, 7, 0), part("copy", 39.0, 0, 15)
    for rows, went, came in (
        ([part("gemm", 307.0, 0, 6), row], ("w8a16",), ("dequant", "gemm")),
        (
            [part("softmax", 11.0, 0, 6), flash, copy, part("copy", 0.0, 0, 0)],
            ("flash",),
            ("copy", "softmax"),
        ),
    ):
        assert replacement(rows) == Kernels(went, came)
        assert replacement([swapped(one) for one in rows]) == Kernels(came, went)
    assert replacement([other, row]) is None and replacement([swapped(other), swapped(row)]) is None


def test_a_row_of_two_names_goes_and_comes():
    """A product that widens its weights came apart: 345 us of it went, 401 us of widening came, and the product with 307 us."""
    row = msgspec.structs.replace(
        part("w8a16", 56.0, 6, 6, replaced_by="dequant"), of={"w8a16": -345.0, "dequant": 401.0}
    )
    assert replacement([part("gemm", 307.0, 0, 6), row]) == Kernels(("w8a16",), ("dequant", "gemm"))
    assert replacement([part("gemm", 307.0, 4, 6), row]) == Kernels(
        ("w8a16",), ("dequant",)
    )  # more launches replace nothing
    back = part("w8a16", -90.0, 6, 0)
    assert replacement([back, row]) == Kernels(("w8a16",), ("dequant",))
    assert replacement([part("w8a16", 90.0, 0, 6), row]) is None  # it came back with other arguments
    other = msgspec.structs.replace(part("a", 10.0, 6, 6, replaced_by="b"), of={"a": -10.0, "b": 20.0})
    assert replacement([other, row]) is None  # each has a partner


def test_kernels_replace_others_where_some_go_and_others_come():
    rows = [
        part("flash", -45.0, 7, 0),
        part("softmax", 11.0, 0, 6),
        part("copy", 39.0, 0, 15),
        part("gemm", 19.0, 15, 22),
    ]
    assert replacement(rows) == Kernels(("flash",), ("copy", "softmax"))
    assert replacement(rows[1:]) is None  # nothing went
    assert replacement([*rows, part("norm", 600.0, 24, 48)]) is None  # 50 of 624 name none of it
    assert replacement([part("flash", -450.0, 7, 0), rows[1]]) is None  # 11 is no replacement of 450
    often = [part("hgemm", -11.0, 75, 0), part("sgemm", 450.0, 0, 100)]
    assert replacement(often) == Kernels(
        ("hgemm",), ("sgemm",)
    )  # nearly as often of one kind is, however slow
    assert replacement([part("hgemm", -11.0, 74, 0), often[1]]) is None
    again = part("softmax", -10.0, 6, 0)  # in other types
    assert replacement([again, rows[1], rows[2]]) is None
    assert replacement([again, *rows]) == Kernels(("flash",), ("copy",))


@pytest.mark.parametrize(
    ("cause", "after", "rows", "said"),
    [
        # 4 + 4 launches of two rows come to 2 + 2
        ("kernel_fused", 60, [("a", -60, 4, 2, "kernel_fused"), ("b", 20, 4, 2, "kernel_fused")], ("kernel_fused", ("ab",), (8, 4))),
        # one launch became 3, but 7 of the 9 that came are others: the step launches more of everything
        ("kernel_split", 150, [("a", 30, 1, 3, "kernel_split"), ("b", 20, 8, 15)], ("kernel_added", ("a",), (9, 18))),
        ("kernel_split", 150, [("a", 20, 1, 3, "kernel_split"), ("b", 30, 8, 15)], ("kernel_added", ("b",), (9, 18))),
        # what takes the time is launched less: what launches more does not name it
        ("kernel_fused", 180, [("a", 70, 4, 2, "kernel_fused"), ("b", 10, 4, 8, "kernel_split")], ("kernel_time", ("a",), (4, 2))),
        # as often as before
        ("kernel_split", 180, [("a", 70, 4, 4), ("b", 5, 4, 8), ("c", 5, 4, 5, "kernel_split")], ("kernel_time", ("a",), (4, 4))),
        # as many launches: nothing is fused, others do the work
        ("kernel_fused", 60, [("a", -60, 2, 0), ("b", 20, 0, 2)], ("kernel_time", ("a", "b"), None)),
        # 2 launches of one kernel come to 5 of another, which takes its place
        ("kernel_fused", 140, [("a", -20, 2, 0), ("b", 60, 0, 5)], ("kernel_time", ("a", "b"), None)),
        ("kernel_fused", 60, [("a", -60, 2, 0), ("b", 20, 0, 5)], ("kernel_time", ("a", "b"), None)),
        # together fewer of what was called more: some came, and more of others went
        ("kernel_added", 60, [("a", 90, 0, 5), ("b", -50, 16, 7)], ("kernel_time", ("ab",), (16, 12))),
        ("kernel_removed", 60, [("a", 90, 0, 5), ("b", -50, 5, 0)], ("kernel_time", ("ab",), (5, 5))),
        # 15 launches for 7 take 17 % longer, each of them less: nothing is slower; nor is anything faster where 3 take 40 % less
        ("kernel_time", 117, [("a", 20, 4, 9), ("b", -3, 3, 6)], ("kernel_added", ("ab",), (7, 15))),
        ("kernel_time", 60, [("a", -30, 4, 1), ("b", -10, 3, 2)], ("kernel_removed", ("ab",), (7, 3))),
        # 8 of 30 for 6 of 16.7: 2 more are 60, the 6 take 80 more; 6 of 6.7 for 8 of 12.5: 2 fewer are 25, the 6 take 35 less
        ("kernel_time", 240, [("a", 130, 4, 5), ("b", 10, 2, 3)], ("kernel_time", ("ab",), (6, 8))),
        # 8 of 22.5 for 6 of 16.7: 2 more are 45, the 6 take 35 more
        ("kernel_time", 180, [("a", 70, 4, 5), ("b", 10, 2, 3)], ("kernel_added", ("ab",), (6, 8))),
        ("kernel_time", 40, [("a", -50, 4, 3), ("b", -10, 4, 3)], ("kernel_time", ("ab",), (8, 6))),
        # of what went, the counts of all
        ("kernel_removed", 60, [("a", -60, 600, 0), ("b", 20, 0, 4)], ("kernel_removed", ("ab",), (600, 4))),
        ("kernel_removed", 60, [("a", -60, 600, 0), ("b", 20, 1, 0)], ("kernel_removed", ("ab",), (601, 0))),
    ],
)  # fmt: skip
def test_kernels_that_changed_together_have_the_counts_of_all(cause, after, rows, said):
    (judged_,) = places([100], [after])
    one = candidate(
        judged_,
        cause,
        where=Where(kernels=Kernels(("ab",))),
        count=(1, 0),
        parts=tuple(part(name, delta * US, *counts) for name, delta, *counts in rows),
    )
    found = with_counts_of_all(one)
    assert (found.cause, found.where.called + found.where.kernels.replaced_by, found.count) == said


def test_nothing_is_of_graphs_where_the_same_kernels_are_in_them(launch):
    (calls,) = places([60], [400])
    rows = [candidate(calls, "launch_api")]
    assert launched_otherwise(rows, launch(0.98, 0.97)) == launched_otherwise(rows, launch(0.98, 0.8)) == rows
    assert launched_otherwise(rows, launch(0.98, 0.7)) != rows
    (one,) = launched_otherwise(rows, launch(0.98, 0.0))
    assert one.facts.graph_coverage.baseline == 0.98 and one.judged.delta == pytest.approx(340 * US)


def test_nothing_is_of_graphs_where_other_kernels_came_beside_them(launch):
    """A graph of 12 kernels holds 39 % of 31 and 8 % of 159. Where 24 of 31 leave it for 20 new ones, they moved."""
    (calls,) = places([60], [400])
    rows = [candidate(calls, "launch_api")]
    assert launched_otherwise(rows, launch(12 / 31, 12 / 159, 31, 159)) == rows
    assert launched_otherwise(rows, launch(12 / 159, 12 / 31, 159, 31)) == rows
    assert launched_otherwise(rows, launch(1.0, 7 / 27, 31, 27)) != rows


@pytest.fixture
def launch():
    from types import SimpleNamespace

    def of(before: float, after: float, kernels: float = 100, later: float = 100):
        return SimpleNamespace(
            baseline=SimpleNamespace(graph_coverage=before, kernels_per_step=kernels),
            candidate=SimpleNamespace(graph_coverage=after, kernels_per_step=later),
        )

    return of


def test_places_that_may_each_be_noise_can_be_more_together():
    """The sum of two places of -50 and -300 us is far beyond what eight equal runs scatter; nothing of -0.5 us is."""
    wait, work = places([50, 310], [0, 10])
    rows = [candidate(wait, "host_sync", "within_noise"), candidate(work, level="within_noise")]
    (one,) = with_synchronisation(rows, syncs(9, 1), [])
    assert one.level == "likely"
    wait, work = places([50, 310], [49.8, 309.7])
    rows = [candidate(wait, "host_sync", "within_noise"), candidate(work, level="within_noise")]
    assert {one.level for one in with_synchronisation(rows, syncs(9, 1), [])} == {"within_noise"}


def test_what_the_host_explains_of_a_cause_is_what_it_explains_of_its_parts():
    """Runs whose host is slower by 1, 2, 3 and 4 %: launch calls take part in it, kernels do not; the parts sum all the same."""

    def side(first: float, kernels: float, calls: float):
        speeds = [first + one for one in (0.01, 0.02, 0.03, 0.04)]
        return [
            [step(cells=[1_000 * US, calls * (1 + one) * US, kernels * US, one]) for _ in range(12)]
            for one in speeds
        ]

    found = measured(side(0.0, 150, 400), side(0.3, 128, 260), idle=2, kernels=1, speed=True)
    calls, gemm = judged(found, 2)
    rows = [kernels(gemm, GEMM, (16, 8), cause="kernel_fused", level="exact"), candidate(calls, "launch_api")]
    (one,) = with_consequences(rows, launches(8))
    assert gemm.host_speed == 0 and calls.host_speed > 10 * US
    assert (
        one.judged.delta
        == pytest.approx(gemm.delta + calls.delta)
        == pytest.approx(sum(part.delta_ns for part in one.parts))
    )
    assert one.judged.host_speed == pytest.approx(calls.host_speed)


def rows_of(
    before: float, after: float, *, range: str = "optimizer", whole: bool = False
) -> list[StructureRow]:
    """Launches of one range that changed."""
    return [
        StructureRow(
            kind="kernels", phase="generation", baseline=before, candidate=after, range=range, whole=whole,
            baseline_steps=48, candidate_steps=48, baseline_any=48, candidate_any=48, workloads=1, per="step", certain=True,
        )
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("counts", "gathered"),
    [
        (rows_of(600, 4), True),
        (rows_of(600, 590), False),  # other ranges launch fewer as well
        (rows_of(600, 4, whole=True), False),  # all kernels are launched there: it says nothing
        (rows_of(600, 4) + rows_of(10, 9, range="loss"), False),
    ],
)
def test_a_fused_library_call_is_one_cause_with_what_the_host_did_in_it(counts, gathered):
    """An optimizer of 600 kernels becomes one of 4: all of them, and the host's work and calls in its range."""
    gone, new, calls, work, other = places([300, 0, 80, 900, 50], [0, 40, 2, 100, 60])
    there = Where(range="optimizer", thread="executor")
    rows = [
        kernels(gone, "multi_tensor_apply", (600, 0), cause="kernel_removed", level="exact", differs=True),
        kernels(new, "fused_adam", (0, 4), cause="kernel_added", level="exact", differs=True),
        candidate(calls, "launch_api", where=there),
        candidate(work, where=there),
        candidate(other, where=Where(range="forward", thread="executor")),
    ]
    found = of_one_range(rows, counts)
    assert (len(found) == 2) is gathered
    if gathered:
        one = found[0]
        assert (one.where.range, one.count) == ("optimizer", (600, 4))
        assert (one.facts.launched.baseline, one.facts.launched.candidate) == (600, 4)
        assert one.judged.delta == pytest.approx((-300 + 40 - 78 - 800) * US) and one.level == "exact"
        assert sizes(one) == {
            "kernel_removed": -300,
            "kernel_added": 40,
            "launch_api": -78,
            "host_work": -800,
        }
        # each kernel has its own launches, the cause those of the range: 600 + 0 -> 0 + 4 here, with others besides
        own = [(part.count_baseline, part.count_candidate) for part in one.parts if not part.follows]
        assert own == [(600, 0), (0, 4)] and with_counts_of_all(one).count == (600, 4)


def test_the_launches_of_one_kernel_of_a_range_are_not_those_of_the_range() -> None:
    """A range launches 9 kernels, then 40: 31 more of one that had one. Its row says 1 -> 32, the cause 9 -> 40."""
    copy, work = places([2, 100], [64, 400])
    row = kernels(copy, "direct_copy", (1, 32), cause="kernel_added", level="exact", differs=True)
    (found,) = of_one_range([row, candidate(work, where=Where(range="pool"))], rows_of(9, 40, range="pool"))
    assert (found.count, with_counts_of_all(found).count) == ((9, 40), (9, 40))
    assert [(part.count_baseline, part.count_candidate) for part in found.parts] == [(1, 32), (None, None)]


def test_synchronisations_that_are_a_cause_are_in_no_other_ones_title() -> None:
    """33 calls of the range wait 180 us: alone they are in the title of its kernels, as a cause of their own they are not."""
    copy, wait = places([2, 20], [64, 200])
    launched = FindingFacts(launched=CallFact("kernels", 9, 40))
    there = candidate(copy, "kernel_added", where=Where(range="pool"), facts=launched)
    counted = candidate(wait, "host_sync", where=Where(range="pool"), facts=FindingFacts(counted_calls=True))
    calls = [replace(rows_of(2, 33)[0], kind="synchronisations", name="cudaStreamSynchronize", range="")]
    waits = {("generation", "pool"): 180 * US}
    (alone,) = synchronising([there], calls, waits)
    assert alone.facts.synchronised == CallFact("cudaStreamSynchronize", 2, 33)
    assert synchronising([there, counted], calls, waits)[0].facts.synchronised is None


@pytest.mark.parametrize(("calls", "gathered"), [(26, False), (1, False), (0, True)])
def test_a_kernel_beside_as_many_waits_is_not_their_cause(calls: int, gathered: bool) -> None:
    """A tensor is printed: one kernel, 26 synchronisations; its largest number is read: one and one. What the host does there follows from these."""
    new, wait, work = places([0, 0, 50], [6, 90, 74])
    there = Where(range="sample", thread="executor")
    rows = [
        kernels(new, "max_nan", (0, 1), cause="kernel_added", level="exact", differs=True),
        candidate(wait, "host_sync", where=there),
        candidate(work, where=there),
    ]
    counts = [
        *rows_of(0, 1, range="sample"),
        replace(rows_of(0, calls)[0], kind="synchronisations", name="cudaStreamSynchronize", range=""),
    ]
    assert (len(of_one_range(rows, counts)) < len(rows)) is gathered


@pytest.mark.parametrize(("host_us", "parts"), [(74, 2), (76, 0)])
def test_a_kernel_explains_no_more_of_its_range_than_a_launch_takes(host_us: int, parts: int) -> None:
    """One kernel more, and 24 us of the host or 26: code that came with it."""
    new, work = places([0, 50], [6, host_us])
    row = kernels(new, "mul", (0, 1), cause="kernel_added", level="exact", differs=True)
    there = candidate(work, where=Where(range="sample", thread="executor"))
    found = of_one_range([row, there], rows_of(7, 8, range="sample"))
    assert (found[0].count, len(found[0].parts)) == ((7, 8), parts)


@pytest.mark.parametrize(("after", "cause"), [(71, "kernel_added"), (29, "kernel_removed")])
def test_launches_that_came_or_went_in_a_range_are_no_slower_kernel(after: int, cause: str) -> None:
    """Of 50 launches 21 more or fewer: what launches them is asked, not why they are slow."""
    (grown,) = places([100], [100 + 4 * (after - 50)])
    row = kernels(grown, "copy", (50, after), cause="kernel_time", level="exact", differs=True)
    (found,) = of_one_range([row], rows_of(50, after, range="generate"))
    assert (found.cause, found.count) == (cause, (50, after))


def test_fewer_kernels_of_a_range_that_take_longer_are_no_kernels_that_went() -> None:
    """A copy of 15 us went; the other kernel takes 359 more."""
    went, longer = places([15, 39], [0, 398])
    rows = [
        kernels(went, COPY, (1, 0), cause="kernel_removed", level="exact", differs=True),
        kernels(longer, "index", (1, 1), cause="kernel_time", level="exact", differs=True),
    ]
    assert of_one_range(rows, rows_of(2, 1, range="reorder")) == rows


def test_kernels_of_a_range_that_replace_others_keep_their_name() -> None:
    """4 launches of attention went and 44 others came: its launches are no more than they were."""
    (grown,) = places([100], [180])
    row = kernels(grown, "flash", (4, 44), cause="kernel_time", level="exact", differs=True)
    row = replace(row, facts=row.with_facts(match="replaced"))
    (found,) = of_one_range([row], rows_of(208, 248, range="generate"))
    assert (found.cause, found.facts.match, found.count) == ("kernel_time", "replaced", (208, 248))


def test_other_functions_at_a_place_are_told() -> None:
    """Graph launches take 100 us before and 150 after, kernel launches 0 and 30: most of the change is the former's, and not all."""
    pieces = pl.DataFrame(
        [(0, "step", "cudaGraphLaunch", 100), (1, "step", "cudaGraphLaunch", 150), (1, "step", "cudaLaunchKernel", 30)],
        schema=["side", "phase", "api", "ns"], orient="row",
    )  # fmt: skip
    steps = pl.DataFrame({"phase": ["step", "step"], "side": [0, 1]})
    assert _call(pieces, steps, "step", 80.0) == ("cudaGraphLaunch", True)
    assert _call(pieces[:2], steps, "step", 50.0) == ("cudaGraphLaunch", False)
    assert _call(pieces[:0], steps, "step", 50.0) == ("", False)

"""The first screen: sentences of facts that are made by hand, written by hand too, and those of real pairs with a planted change."""

from __future__ import annotations

import ast
import re
from functools import cache
from typing import Any

import msgspec
import pytest

from tests.report import sample
from tests.test_scoreboard import result_of
from tests.tiny import ROOT
from tracediff import model as m
from tracediff.companions.model import Result
from tracediff.kernels.names import short
from tracediff.model.common import Insight
from tracediff.model.observed import NOTHING, Observed, ObservedPart, Stops
from tracediff.report import fields, first, grammar, sections, units, words
from tracediff.report.causes import advice, named, spoken, title
from tracediff.report.first import headline, reason
from tracediff.report.markdown import render_markdown
from tracediff.report.phrases import power_note, with_words
from tracediff.request import CompareRequest
from tracediff.session import compare_request

US = 1_000.0
MS = 1_000 * US


def delta(base: float, change: float, half: float, **more: Any) -> m.Delta:
    """Times in us."""
    return m.Delta(
        base * US, (base + change) * US, change * US, (change - half) * US, (change + half) * US, **more
    )


def phase(name: str, typical: m.Delta, verdict: m.Verdict, **more: Any) -> m.Phase:
    fields: dict[str, Any] = {"share": 0.5, "judged": True, "tail": delta(0.0, 0.0, 1.0)} | more
    return m.Phase(name, None, verdict=verdict, typical=typical, **fields)


def finding(cause: str, change: float, phase: str = "generation", **more: Any) -> m.Finding:
    """A confirmed cause, us, +-1 us; `where`, `level`, `share` and the rest as given. What is within noise is +-300 us."""
    where = msgspec.structs.replace(m.Where(**more.pop("where", {})), phase=phase)
    fields: dict[str, Any] = {
        "level": "confirmed",
        "share": None,
        "held": m.Held(5, 5),
        "rank": 1,
        "next": "",
    } | more
    half = 300 if fields["level"] == "within_noise" else 1
    return m.Finding(
        cause=cause, delta_ns=change * US, ci_low_ns=(change - half) * US, ci_high_ns=(change + half) * US, title="",
        where=where, evidence=m.FindingEvidence("", []), baseline_ns=0.0, candidate_ns=change * US, **fields,
    )  # fmt: skip


def seen(
    before: float, after: float, half: float, *parts: m.Finding, of: Any = "typical", **more: Any
) -> Observed:
    """What is observed of generation steps, us; each finding is a part with its size."""
    change = after - before
    fields: dict[str, Any] = {"phase": "generation"} | more
    return Observed(
        of=of, baseline_ns=before * US, candidate_ns=after * US, delta_ns=change * US, ci_low_ns=(change - half) * US,
        ci_high_ns=(change + half) * US, **fields,
        parts=[ObservedPart(one.rank, one.delta_ns, one.delta_ns / (change * US)) for one in parts],
    )  # fmt: skip


def result(verdict: m.Verdict, observed: Observed, *findings: m.Finding, **more: Any) -> Result:
    """Five runs a side of `main` and of `pr`."""
    whole = sample.full()
    step = msgspec.structs.replace(
        whole.step, time_share=more.pop("time_share", m.Shares(1.0, 1.0)), runs=more.pop("runs", m.Pair(5, 5)),
        delta_ns=more.pop("all_steps_ns", 0.0),
    )  # fmt: skip
    inputs = msgspec.structs.replace(
        whole.inputs, candidate=msgspec.structs.replace(whole.inputs.candidate, label="pr")
    )
    fields = {
        "verdict_facts": m.VerdictFacts("phase", "generation"),
        "phases": [GENERATION],
        "structure": [],
    } | more
    return msgspec.structs.replace(
        whole, inputs=inputs, verdict=verdict, observed=observed, findings=list(findings), step=step, **fields
    )


SCHEDULE = {"where": {"range": "_schedule", "thread": "executor"}}
GENERATION = phase("generation", delta(1_000.0, 92.0, 8.0), "regressed")
WORK = finding("host_work", 88.6, share=0.963, next="profile it.", **SCHEDULE)


# What and why


def test_a_phase_that_leaves_the_verdict_open_is_a_doubt_where_the_first_one_is_the_same() -> None:
    """Without its change, which is no finding: of 4,800 us 1,900 more were read as one."""
    same = phase("generation", delta(1_000.0, 2.0, 8.0), "no_change")
    for verdict, said in (("inconclusive", True), ("no_change", False)):
        phases = [same, phase("mixed", delta(4_800.0, 1_900.0, 2_500.0), verdict)]
        one = result("inconclusive", seen(1_000, 1_002, 8), phases=phases)
        assert headline(one).what == (
            "Unclear with pr: generation step 1,000 -> 1,002 us (+2.00 us, +0.2 %, within noise)."
        )
        doubt = "Doubt: these runs cannot tell whether the mixed step changed."
        assert (doubt in first.lines(one)) is said


def test_the_change_and_its_cause_as_measured() -> None:
    """92 of 1,000 us are 9.2 %."""
    one = result("regressed", seen(1_000, 1_092, 8, WORK), WORK)
    found = headline(one)
    assert found.what == "Slower with pr: generation step 1,000 -> 1,092 us (+92.0 us, +9.2 %)."
    assert found.why == "+88.6 us of it: host work in _schedule." and found.counts == ""
    assert found.text == f"{found.what} {found.why}"
    assert (found.cause, found.delta_ns, found.level, found.phase) == (
        "host_work",
        92_000,
        "confirmed",
        "generation",
    )
    assert reason(one) == "A repeat would show +84.0 to +100 us (95 %): 5 + 5 runs."
    told = msgspec.structs.replace(one, headline=found, verdict_reason=reason(one))
    assert first.lines(told) == [found.what, found.why, reason(one), "Next: profile it."]


def test_causes_that_the_same_words_name_are_one() -> None:
    """60 and 25 us of two GEMMs are 85 us of slower GEMMs, in front of what is larger than the second; what is less by 8 us is another part."""
    sizes = [
        ("nvjet_tst_64x8_TNT", 60.0),
        ("silu", 30.0),
        ("nvjet_tst_128x64_NNN", 25.0),
        ("nvjet_tst_8x64_NNT", -8.0),
    ]
    found = [
        finding("kernel_time", size, where={"kernels": m.Kernels((name,))}, rank=at + 1)
        for at, (name, size) in enumerate(sizes)
    ]
    why = headline(result("regressed", seen(1_000, 1_107, 8, *found), *found)).why
    assert (
        why
        == "+85.0 us of it: slower GEMMs; +30.0 us of it: slower silu kernels; but -8.00 us: faster GEMMs."
    )


def test_calls_that_were_lost_are_said_first() -> None:
    """Half of a run may be missing then; captures that are not comparable for it say so already."""
    lost = [m.Note("cuda-calls-lost", "b.sqlite: ...")]
    said = "CUDA calls were lost in recording (cuda-calls-lost): all figures are of what is left."
    assert said in first.lines(result("regressed", seen(1_000, 1_092, 8, WORK), WORK, warnings=lost))
    assert said not in first.lines(result("not_comparable", seen(1_000, 1_092, 8, WORK), WORK, warnings=lost))
    unclear = result("inconclusive", seen(1_000, 1_092, 200, WORK), WORK, warnings=lost)
    assert first.lines(unclear)[-1].startswith("Next: record again: CUDA calls were lost")


@pytest.mark.parametrize(
    ("of", "said"),
    [
        ("typical", "generation step 1,000"), ("mean", "mean generation step 1,000"), ("length", "generation step 1,000"),
        ("gpu", "GPU time per generation step 1,000"),
    ],
)  # fmt: skip
def test_the_change_alone_is_the_title_of_a_document(of: str, said: str) -> None:
    one = result("regressed", seen(1_000, 1_092, 8, of=of))
    assert first.change(one) == f"{said} -> 1,092 us (+92.0 us, +9.2 %)"


def test_the_last_line_is_advice_whatever_the_verdict() -> None:
    one = result("no_change", seen(1_000, 1_004, 8, WORK), WORK)
    assert first.advice(one) == "Next: nothing to do." and headline(one).what.startswith("Same with pr: ")
    less = msgspec.structs.replace(WORK, delta_ns=-88_600.0)
    improved = result("improved", seen(1_092, 1_000, 8, less), WORK)  # it grew in another phase
    assert first.advice(improved) == "Next: take pr as the baseline of the next comparison."
    step = msgspec.structs.replace(improved.step, runs_advised=5)
    likely = msgspec.structs.replace(improved, verdict="likely_improved", step=step)
    assert first.advice(likely) == "Next: take pr as the baseline of the next comparison."
    shorter = phase("generation", delta(1_092.0, -92.0, 8.0), "likely_improved")
    doubted = msgspec.structs.replace(
        likely, warnings=[m.Note("host-speed-unknown", "...")], phases=[shorter]
    )
    assert first.advice(doubted) == "Next: record 5 runs per side in turns (tracediff capture -n 5)."
    wide = msgspec.structs.replace(
        likely, observed=seen(1_092, 1_000, 60, less)
    )  # of 92 us a repeat may show 32
    assert first.advice(wide) == "Next: record 5 runs per side in turns (tracediff capture -n 5)."
    assert first.advice(result("regressed", seen(1_000, 1_092, 8))) == (
        "Next: look at the causes below, the first ones first."
    )


def test_more_runs_are_advised_where_noise_hides_the_answer() -> None:
    """What may be noise has no advice of its own; so many runs that nobody records them are no advice."""
    unsure = finding("host_work", 8.0, level="within_noise", **SCHEDULE)
    for advised, said in (
        (12, "Next: record 12 runs per side in turns (tracediff capture -n 12)."),
        (51, "Next: find out why runs of one side differ so much: 50 runs per side would be too few."),
        (None, "Next: look at the causes below, the first ones first."),
    ):
        one = result("inconclusive", seen(1_000, 1_010, 30, unsure), unsure)
        step = msgspec.structs.replace(one.step, runs_advised=advised)
        assert first.advice(msgspec.structs.replace(one, step=step)) == said


def test_what_is_sure_is_advised_where_the_step_is_not() -> None:
    """Of 10 us 8 may be noise; counted synchronisations, and other work, need no repeat to be looked for."""
    unsure = finding("host_work", 8.0, level="within_noise", **SCHEDULE)
    calls = finding("host_sync", 3.0, rank=2, next="find the call.")
    one = result("inconclusive", seen(1_000, 1_010, 30, unsure, calls), unsure, calls)
    step = msgspec.structs.replace(one.step, runs_advised=5)
    assert first.advice(msgspec.structs.replace(one, step=step)) == "Next: find the call."
    for size, said in (
        (11, "use pinned memory"),
        (9, "record 5 runs per side in turns (tracediff capture -n 5)"),
    ):  # 1 % of the step
        copied = finding("memcpy", size, rank=3, level="exact", next="use pinned memory.")
        one = result("inconclusive", seen(1_000, 1_200, 300, unsure), unsure, copied)
        assert first.advice(msgspec.structs.replace(one, step=step)) == f"Next: {said}."
    other = m.Comparability(True, [m.Check("work", "warn", "generation 40 %", "generation 40 %")])
    one = result("inconclusive", seen(1_000, 1_010, 30, unsure), unsure, comparability=other)
    asked = "Next: check that both sides were given the same work: the same requests, batch size and lengths."
    assert first.advice(msgspec.structs.replace(one, step=step)) == asked


def test_parts_that_went_both_ways_are_said_beside_a_sum_that_hides_them() -> None:
    """-22 and +12 and +9 us are -1: more of it grew than 1 % of the step. Where one is no more than the sum, or may be noise, it stays a sum."""

    def fused(*sizes: float, scatter: float = 1.0) -> m.Finding:
        names = zip(("nvjet_tst_64x8_NNT", "mul", "silu"), sizes, strict=True)
        parts = [
            m.FindingPart(
                "kernel_time", m.Where(kernels=m.Kernels((name,))), size * US, (size - scatter) * US, (size + scatter) * US, "exact"
            )
            for name, size in names
        ]  # fmt: skip
        counts = msgspec.structs.replace(WORK.evidence, count_baseline=16.0, count_candidate=8.0)
        where = {"kernels": m.Kernels(("nvjet_tst_64x8_NNT",) * 2, ("nvjet_tst_128x8_NNT",))}
        one = finding("kernel_fused", sum(sizes), level="exact", where=where, parts=parts, next="check it.")
        return msgspec.structs.replace(one, evidence=counts, candidate_ns=149.0 * US)

    def screen(one: m.Finding, *named_first: m.Finding) -> list[str]:
        found = result(
            "inconclusive", seen(1_000, 1_010, 30, *named_first), one, structure=[counted("kernel", 16, 8, name="nvjet_tst_64x8_NNT")]
        )  # fmt: skip
        step = msgspec.structs.replace(found.step, runs_advised=5)
        return first.lines(with_words(msgspec.structs.replace(found, step=step)))

    hidden, sizes = fused(-22.0, 12.0, 9.0), "GEMM -22.0 us, mul +12.0 us, silu +9.0 us"
    gap = m.FindingPart("graph_internal", m.Where(), -5.0 * US, -6.0 * US, -4.0 * US, "exact", follows=True)
    with_gaps = msgspec.structs.replace(hidden, parts=[*hidden.parts, gap], delta_ns=-6.0 * US)
    assert f"({sizes}, inside graphs -5.0 us)" in " ".join(screen(with_gaps))  # they add up to -6
    said = screen(hidden)
    assert f"By count: fused GEMMs, 16 -> 8 per step ({sizes})." in said
    assert said[-1].startswith("Next: check that the fused kernel")
    assert f"-1.00 us: fused GEMMs, 16 -> 8 per step ({sizes})." in screen(hidden, hidden)
    for plain in (fused(-22.0, 6.0, 3.0), fused(-22.0, 12.0, 9.0, scatter=30.0)):
        said = screen(plain)
        assert not any("mul" in line for line in said)
        assert said[-1].startswith("Next: record 5 runs")


@pytest.mark.parametrize(
    ("verdict", "word"),
    [
        ("regressed", "Slower"), ("likely_regressed", "Likely slower"), ("improved", "Faster"),
        ("likely_improved", "Likely faster"), ("no_change", "Same"), ("inconclusive", "Unclear"),
    ],
)  # fmt: skip
def test_the_direction_is_the_verdicts_word(verdict: m.Verdict, word: str) -> None:
    """-92 of 1,092 us are -8.4 %."""
    assert headline(result(verdict, seen(1_092, 1_000, 8))).what == (
        f"{word} with pr: generation step 1,092 -> 1,000 us (-92.0 us, -8.4 %)."
    )


def test_parts_have_their_own_signs_and_one_unit() -> None:
    more = finding("host_work", 1_500.0, rank=1, **SCHEDULE)
    less = finding("launch_api", -400.0, rank=2, where={"range": "forward"})
    one = result("regressed", seen(20_000, 21_000, 80, more, less), more, less)
    assert headline(one).text == (
        "Slower with pr: generation step 20.0 -> 21.0 ms (+1.00 ms, +5.0 %)."
        " +1.50 ms: host work in _schedule; but -0.400 ms: launch calls in forward."
    )
    # the host spends as long in these calls as before: the GPU has work meanwhile, or no longer has
    for sign, said in ((1, "(behind GPU work now)"), (-1, "(no longer behind GPU work)")):
        more, less = finding("memcpy", sign * 1_500.0), finding("launch_api", sign * -400.0, rank=2)
        hides = Insight(
            "hidden_host", "launch_api", baseline_exposed_ns=(1 + sign) * 200 * US, candidate_exposed_ns=(1 - sign) * 200 * US
        )  # fmt: skip
        one = result(
            "regressed", seen(20_000, 20_000 + sign * 1_000, 80, more, less), more, less, insights=[hides]
        )
        assert headline(one).why.endswith(f"launch calls {said}."), headline(one).why
        alone = result("inconclusive", seen(20_000, 20_000 + sign * 1_000, 80, less), less, insights=[hides])
        assert not headline(alone).why.startswith("But") and said in headline(alone).why


def test_new_synchronisations_are_advised_about_before_a_launch_that_they_expose() -> None:
    """Of graphs that are launched once each there is little to cut; alone, that is said."""
    launch = finding("launch_api", 60.0, where={"range": "forward", "api": "cudaGraphLaunch"}, share=0.65)
    sync = finding(
        "host_sync", 20.0, rank=2, where={"range": "sample", "api": "cudaStreamSynchronize"}, share=0.2,
        facts=m.FindingFacts(counted_calls=True),
    )  # fmt: skip
    both = with_words(result("regressed", seen(1_000, 1_092, 8, launch, sync), launch, sync))
    assert first.advice(both) == (
        "Next: find what calls cudaStreamSynchronize in sample: remove it, or move it off the step's path."
    )
    alone = with_words(result("regressed", seen(1_000, 1_092, 8, launch), launch))
    assert first.advice(alone).startswith("Next: one call launches each graph already: ")


def test_steps_that_are_long_are_not_told_for_those_with_more_synchronisations() -> None:
    """24 of 184 steps have more calls, 9 of them take far longer: the calls are counted, in the title."""
    rare = m.RareFact(0.0, 9.0, 184.0, 184.0, 0.0)
    for counted, said in ((True, ""), (False, "It is long in 0 % -> 4.9 % of the steps;")):
        facts = m.FindingFacts(counted_calls=counted, rare=rare)
        one = finding("host_sync", 60.0, part="mean", facts=facts, where={"api": "cudaStreamSynchronize"})
        told = with_words(result("regressed", seen(1_000, 1_092, 8, one, of="mean"), one))
        note = told.findings[0].note
        assert note.startswith(said) and bool(note) is not counted


def test_a_part_of_one_rank_names_it() -> None:
    late = finding("host_work", 90.0, where={"range": "_schedule", "rank": 1})
    assert headline(result("regressed", seen(1_000, 1_092, 8, late), late)).why == (
        "+90.0 us of it: host work in _schedule on rank 1."
    )


def test_parts_of_one_name_are_told_apart_by_their_threads() -> None:
    own = [
        finding("host_work", change, rank=rank, where={"thread": thread, "range": "outside any range"})
        for rank, change, thread in ((1, 60.0, "executor"), (2, 20.0, "loader"))
    ]
    other = finding("host_work", 12.0, rank=3, **SCHEDULE)
    assert headline(result("regressed", seen(1_000, 1_092, 8, *own, other), *own, other)).why == (
        "+60.0 us of it: host code outside any NVTX range on the executor thread; +20.0 us of it: host code outside any NVTX range on the loader thread;"
        " +12.0 us of it: host work in _schedule."
    )


def test_no_part_is_of_the_change_after_one_that_is_larger() -> None:
    """`+3,900 us: host work; +60.0 us of it` would be of the host work."""
    own = [finding("host_work", 390.0, **SCHEDULE), finding("launch_api", 60.0, rank=2, **SCHEDULE)]
    assert headline(result("regressed", seen(1_000, 1_092, 8, *own), *own)).why == (
        "+390 us: host work in _schedule; +60.0 us: launch calls in _schedule."
    )


def test_what_went_against_a_change_is_told_with_one_but() -> None:
    sizes = (-165.0, 191.0, 115.0)
    own = [
        finding("host_work", us, rank=at, where={"range": f"place_{at}"}) for at, us in enumerate(sizes, 1)
    ]
    assert headline(result("improved", seen(1_000, 934, 8, *own), *own)).why == (
        "-165 us: host work in place_1; but +191 us: host work in place_2; +115 us: host work in place_3."
    )


def test_a_change_without_a_part_is_not_left_without_a_why() -> None:
    assert headline(result("improved", seen(1_000, 908, 8))).why == "No single cause holds a tenth of it."
    assert headline(result("inconclusive", seen(1_000, 908, 200))).why == ""


def test_ten_times_as_long_is_no_percentage() -> None:
    assert "(+11.0 ms, 12x)" in headline(result("regressed", seen(1_000, 12_000, 8))).what


def test_of_steps_without_phases_no_phase_is_said() -> None:
    one = result("regressed", seen(1_000, 1_092, 8, phase="step"))
    assert headline(one).what == "Slower with pr: step 1,000 -> 1,092 us (+92.0 us, +9.2 %)."


# Rare steps


def stops(every: int, count: int, total: int, us: float) -> Stops:
    return Stops("generation", "candidate", count, total, 0, total, every, us * US)


def test_steps_that_stop_at_a_regular_distance_are_a_comb() -> None:
    for every, ordinal in ((5, "5th"), (2, "2nd"), (3, "3rd"), (11, "11th"), (21, "21st"), (112, "112th")):
        observed = seen(978, 1_708, 220, of="mean", stops=stops(every, 24, 112, 3_080.0))
        assert headline(result("regressed", observed)).what == (
            "Slower with pr: mean generation step 978 -> 1,708 us (+730 us, +74.6 %):"
            f" every {ordinal} generation step of the candidate takes 3.08 ms more."
        )


def test_regular_stops_that_no_collection_was_seen_in_are_asked_about_once() -> None:
    """The first sentence and the cause advise the same; of a traced collection, and of a cause that is not the first, it is none."""
    rest = finding("host_work", 20.0, rank=2, where={"range": "forward"})
    observed = seen(978, 1_708, 220, WORK, rest, of="mean", stops=stops(5, 24, 112, 3_080.0))
    one = result(
        "regressed", observed, WORK, rest, coverage=m.Coverage({"gc": "captured"}, {"gc": "not_captured"})
    )
    told = with_words(one)
    asked = "find what runs in every 5th generation step: a garbage collection that was not traced looks like this"
    assert told.findings[0].next == asked and first.advice(told) == f"Next: {asked}."
    assert "every 5th" not in told.findings[1].next
    traced = with_words(msgspec.structs.replace(one, coverage=m.Coverage(*[{"gc": "captured"}] * 2)))
    assert "every 5th" not in traced.findings[0].next
    # a collection holds the GIL: without it the thread waits
    waits = msgspec.structs.replace(WORK, facts=m.FindingFacts(without_gil=True))
    told = with_words(msgspec.structs.replace(one, findings=[waits, rest]))
    assert told.findings[0].next.startswith("find what takes the time in _schedule: a lock")
    # graphs that are made anew in some steps are what stops them
    made = counted("graph_instantiations", 0, 0.2, name="cudaGraphInstantiate")
    told = with_words(msgspec.structs.replace(one, structure=[made]))
    assert told.findings[0].next.startswith("find why CUDA graphs are made anew in these steps")
    # and so are graphs that some steps run without, at whatever distance
    fewer = counted("graph_launches", 1, 0.8, rate=True)
    now_and_then = msgspec.structs.replace(observed, stops=stops(0, 24, 112, 3_080.0))
    told = with_words(msgspec.structs.replace(one, structure=[fewer], observed=now_and_then))
    assert told.findings[0].next.startswith("find why these steps run without their CUDA graph")
    told = with_words(msgspec.structs.replace(one, structure=[], observed=now_and_then))
    assert told.findings[0].next.startswith("find what runs in these steps alone: a garbage collection")
    once = msgspec.structs.replace(observed, stops=stops(0, 1, 112, 3_080.0))
    told = with_words(msgspec.structs.replace(one, structure=[], observed=once))
    assert "collection" not in told.findings[0].next


def test_steps_that_stop_now_and_then_are_counted() -> None:
    observed = seen(1_000, 1_800, 300, of="mean", stops=stops(0, 1, 60, 48_000.0))
    assert headline(result("likely_regressed", observed)).what == (
        "Likely slower with pr: mean generation step 1,000 -> 1,800 us (+800 us, +80.0 %):"
        " the candidate takes 48.0 ms more in 1 of its 60 steps."
    )


def test_a_mean_that_surely_changed_otherwise_is_beside_its_typical_step() -> None:
    """The typical step 998 of 1,000 us, all of them 1,200: +20 %, with an interval of 150 about it, or of 250."""
    for half, said in ((150.0, "; +20.0 % in the mean"), (250.0, "")):
        mean = delta(1_000.0, 200.0, half)
        one = phase("generation", delta(1_000.0, -2.0, 50.0), "inconclusive", mean=mean)
        told = headline(result("inconclusive", seen(1_000, 998, 50), phases=[one], all_steps_ns=0.0)).what
        expected = f"generation step 1,000 -> 998 us (-2.00 us, -0.2 %, within noise{said})"
        assert told == f"Unclear with pr: {expected}."


def test_a_change_that_does_not_stand_for_all_steps_has_theirs_beside_it() -> None:
    """All steps take 129.3 of 1,038.6 us more: 12.4 %."""
    faster = "Likely faster with pr: generation step 1,000 -> 950 us (-50.0 us, -5.0 %"
    seen_ = seen(1_000, 950, 8)
    assert (
        headline(result("likely_improved", seen_, all_steps_ns=129_300.0)).what
        == f"{faster}; all steps together +12.4 %)."
    )
    few = phase("generation", delta(1_000.0, -50.0, 8.0), "improved", time_share=m.Shares(0.07, 0.06))
    assert headline(result("likely_improved", seen_, phases=[few], all_steps_ns=129_300.0)).what == (
        f"{faster}; these steps are 7.0 % of all step time; all steps together +12.4 %)."
    )
    # 200 of 1,000 us and 99 of 1,038.6 are 18.2 and 9.1 % of the means of both sides, 20.0 and 9.5 % of the baselines; and the way back
    more = headline(result("likely_regressed", seen(1_000, 1_200, 8), all_steps_ns=99_000.0)).what
    assert more == "Likely slower with pr: generation step 1,000 -> 1,200 us (+200 us, +20.0 %)."
    less = headline(result("likely_improved", seen(1_200, 1_000, 8), all_steps_ns=-90_400.0)).what
    assert less == "Likely faster with pr: generation step 1,200 -> 1,000 us (-200 us, -16.7 %)."
    slower = headline(result("likely_regressed", seen(1_000, 1_050, 8), all_steps_ns=129_300.0)).what
    assert slower == "Likely slower with pr: generation step 1,000 -> 1,050 us (+50.0 us, +5.0 %)."


@pytest.mark.parametrize(
    ("known", "all_steps", "more"),
    [
        ({"other_steps": (20.0, 80.0)}, "+280 % for 20 -> 80 steps with the same results", ""),
        ({"other_steps": (20.0, 10.0)}, "", "; all steps together -52.5 % for 20 -> 10 steps with the same results"),
        ({"recorded_steps": (20.0, 30.0)}, "+42.5 % for 20 -> 30 steps", ""),
        ({"recorded_steps": (20.0, 10.0)}, "", "; all steps together -52.5 % for 20 -> 10 steps"),
        ({"recorded_steps": (20.0, 21.0)}, "", ""),
        ({}, "", ""),
    ],
)  # fmt: skip
def test_all_steps_together_are_told_where_as_much_work_takes_other_steps(known, all_steps, more) -> None:
    """20 steps of 1,000 us, then 80 of 950 are 20 and 76 ms: they come first, as they went the other way; 10 of them are 9.5 ms; 30 are
    28.5 ms; 21 are 19.95 ms, about what one changed by."""
    facts = m.VerdictFacts("scatter", "generation", **known)
    one = result(
        "inconclusive", seen(1_000, 950, 8), verdict_facts=facts, mix=m.Mix(1_000.0, 950.0, -50.0, 0.0)
    )
    first_of_all = f"all steps together {all_steps}, but " if all_steps else ""
    assert headline(one).what == (
        f"Unclear with pr: {first_of_all}generation step 1,000 -> 950 us (-50.0 us, -5.0 %{more})."
    )
    assert ("check that both sides were given the same work" in first.advice(one)) == bool(all_steps)
    new = headline(msgspec.structs.replace(one, observed=seen(0, 950, 8))).what
    assert "generation step 0 -> 950 us (+950 us" in new and (all_steps or more[2:]) in new


@pytest.mark.parametrize(
    ("verdict", "after", "many", "word"),
    [
        (
            "likely_improved",
            400,
            50.0,
            "Likely shorter steps",
        ),  # 20 steps of 1,000 us, 50 of 400: as long in all
        ("likely_improved", 400, 40.0, "Likely faster"),  # 16 ms for 20
        ("likely_regressed", 1_100, 18.0, "Likely longer steps"),  # 19.8 ms
        ("regressed", 1_500, 15.0, "Slower"),  # 22.5 ms
        ("regressed", 1_450, 15.0, "Longer steps"),  # 21.75 ms, under a tenth more
    ],
)
def test_steps_without_matching_are_longer_or_shorter_where_others_were_recorded_that_took_as_long_in_all(
    verdict, after, many, word
) -> None:
    """Of steps that launch the same work it is the time of a step: the program stopped after a time."""
    unmatched = msgspec.structs.replace(GENERATION, repeated=False)
    other = {"verdict_facts": m.VerdictFacts("phase", "generation", recorded_steps=(20.0, many))}
    mix = m.Mix(1_000.0, float(after), after - 1_000.0, 0.0)
    one = result(verdict, seen(1_000, after, 8), mix=mix, phases=[unmatched], **other)
    assert headline(one).what.startswith(f"{word} with pr: generation step")
    for alike in (
        result(verdict, seen(1_000, after, 8), mix=mix, **more) for more in (other, {"phases": [unmatched]})
    ):
        assert "steps with pr" not in headline(alike).what
    against = msgspec.structs.replace(other["verdict_facts"], recorded_steps=(20.0, 20.0 * 1_150 / after))
    lost = result("inconclusive", seen(1_000, after, 8), mix=mix, verdict_facts=against)
    row = words.verdict(lost, "likely_improved", "generation")  # 23 ms for 20, of steps that launch the same
    assert row.word == "Likely shorter steps"


@pytest.mark.parametrize(
    ("by_launches", "after", "said"),
    [
        (True, 178.0, "all steps together {}, but generation step 1,000 -> 950 us (-50.0 us, -5.0 %)"),
        (False, 178.0, "generation step 1,000 -> 950 us (-50.0 us, -5.0 %; all steps together {})"),
        (False, 111.0, "generation step 1,000 -> 950 us (-50.0 us, -5.0 %)"),  # a tenth of 111 is 11.1
    ],
)
def test_the_mean_as_steps_ran_is_told_where_kinds_of_steps_came(by_launches, after, said) -> None:
    """100 -> 178 us as they ran are 78 % more, though steps at equal work took less; labels tell batches, so that such steps come first."""
    shares = [m.PhaseShare("step-of-752-launches", 0.019, 0.19), m.PhaseShare("step", 0.7, 0.69)]
    mixed = finding("batch_mix", after - 100.0, facts=m.FindingFacts(shares=shares))
    facts = m.VerdictFacts("phase", "generation", by_launches=by_launches)
    mix = m.Mix(100.0, after, after - 100.0, 0.0)
    one = result("inconclusive", seen(1_000, 950, 8), mixed, verdict_facts=facts, mix=mix)
    as_ran = "+78.0 % as they ran (step of 752 launches 1.9 % -> 19 % of steps)"
    assert headline(one).what == f"Unclear with pr: {said.format(as_ran)}."


def test_a_part_that_others_follow_from_is_named_however_small_it_is() -> None:
    """Synchronisations have -52 of -2,284 us, less than what follows in three places; with a fourth, the last of these are two others."""
    sizes = {
        "host_work": -1_526.0,
        "launch_api": -545.0,
        "launch_latency": -113.0,
        "dependency": -48.0,
        "host_sync": -52.0,
    }
    parts = [
        m.FindingPart(cause, m.Where(), us * US, us * US, us * US, "likely", follows=cause != "host_sync")
        for cause, us in sizes.items()
    ]
    one = finding("host_sync", sum(sizes.values()), parts=parts)
    assert words.parts_line(one, units.Scale("us", 1_000, 1)) == (
        "sync calls -52.0 us; as a result: host work -1,526.0 us, launch calls -545.0 us, 2 other kinds -161.0 us"
    )


def test_other_kinds_of_what_follows_stand_with_what_follows() -> None:
    """Of 20 us kernels have 14, in three kinds; calls and host work follow. The two smallest, one of each, are no sum."""
    sizes = [("silu", 9.0), ("mul", 3.0), ("add", 2.0)]
    kernels = [(m.Where(kernels=m.Kernels((name,))), us, "kernel_time") for name, us in sizes]
    rows = [*kernels, (m.Where(), 4.0, "launch_api"), (m.Where(), 2.0, "host_work")]
    parts = [
        m.FindingPart(cause, where, us * US, us * US, us * US, "likely", follows=cause != "kernel_time")
        for where, us, cause in rows
    ]
    one = finding("kernel_time", 20.0, parts=parts)
    assert words.parts_line(one, units.Scale("us", 1_000, 1)) == (
        "silu +9.0 us, mul +3.0 us, add +2.0 us; as a result: launch calls +4.0 us, host work +2.0 us"
    )


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (60.0, "find why these kernels are launched"),
        (40.0, "profile the kernel on both sides in Nsight Compute (tracediff capture --ncu '"),
    ],
)
def test_kernels_in_other_shapes_have_advice_of_their_own(other: float, said: str) -> None:
    """Of 100 us more, so many are of kernels with another grid."""
    parts = [
        m.FindingPart(
            "kernel_time",
            m.Where(kernels=m.Kernels((name,))),
            us * US,
            us * US,
            us * US,
            "exact",
            match=match,
        )
        for name, us, match in (("softmax", other, "name"), ("gemm", 100.0 - other, "exact"))
    ]
    assert advice(finding("kernel_time", 100.0, parts=parts)).startswith(said)
    alone = finding("kernel_time", 100.0, facts=m.FindingFacts(match="name" if other > 50 else "exact"))
    assert advice(alone).startswith(said)


@pytest.mark.parametrize(
    ("cause", "where", "counts", "said"),
    [
        ("memcpy", {"kernels": m.Kernels(("[memcpy HtoD]",))}, (9, 17), "find what launches this copy"),
        ("memcpy", {"kernels": m.Kernels(("[memcpy HtoD]",))}, (9, 18), "join copies"),
        ("memcpy", {"kernels": m.Kernels(("[memset]",))}, (0, 3), "find what sets this memory"),
        ("host_api", {"api": "cudaMallocAsync_v2"}, (1, 3), "find what allocates"),
        ("host_api", {"api": "cudaEventRecord"}, (1, 3), "find the call"),
    ],
)
def test_copies_memsets_and_allocations_have_advice_of_their_own(
    cause: str, where: dict[str, Any], counts: tuple[float, float], said: str
) -> None:
    evidence = m.FindingEvidence("", [], count_baseline=counts[0], count_candidate=counts[1])
    assert advice(msgspec.structs.replace(finding(cause, 100.0, where=where), evidence=evidence)).startswith(
        said
    )


@pytest.mark.parametrize(
    ("norms", "said"), [(2, "find what runs the same layers again"), (0, "add --kernel")]
)
def test_gemms_and_other_kernels_that_are_launched_more_are_a_further_pass(norms: int, said: str) -> None:
    """GEMMs 4 -> 8, attention 8 -> 12, and norms 2 -> 9, or norms that are new: two kinds are no pass over layers."""
    counts = {
        "nvjet_hsh_64x64": (4, 8),
        "flash_fwd_kernel": (8, 12),
        "vectorized_layer_norm_kernel": (norms, 9),
    }
    parts = [
        m.FindingPart(
            "kernel_added", m.Where(kernels=m.Kernels((name,), (name,))), 1.0, 1.0, 1.0, "exact",
            count_baseline=float(before), count_candidate=float(after),
        )
        for name, (before, after) in counts.items()
    ]  # fmt: skip
    assert advice(finding("kernel_added", 100.0, parts=parts)).startswith(said)


def test_the_kind_without_a_name_is_the_most_common_where_a_tenth_or_more_are_others() -> None:
    phases = [phase(name, delta(1_000.0, 92.0, 8.0), "regressed") for name in ("step", "step-with-topk")]
    observed = seen(1_000, 1_092, 8, phase="step")
    one = result("regressed", observed, phases=phases)
    assert headline(one).what == (
        "Slower with pr: step of the most common kind 1,000 -> 1,092 us (+92.0 us, +9.2 %)."
    )
    rows = [row.name for row in fields.phase_lines(one)]
    assert rows[0] == "most common, typical" and "step-with-topk, typical" in rows
    alone = result("regressed", observed, phases=[msgspec.structs.replace(phases[0], share=1.0)])
    most = [
        msgspec.structs.replace(one, share=share) for one, share in zip(phases, (0.95, 0.05), strict=True)
    ]
    for few in (alone, result("regressed", observed, phases=most)):
        assert headline(few).what == "Slower with pr: step 1,000 -> 1,092 us (+92.0 us, +9.2 %)."
    assert fields.phase_lines(alone)[0].name == "typical step"


def test_a_mean_without_stops_has_the_typical_step_beside_it() -> None:
    assert headline(result("regressed", seen(1_100, 1_400, 90, of="mean"))).what == (
        "Slower with pr: mean generation step 1,100 -> 1,400 us (+300 us, +27.3 %): steps that are not typical changed most, the typical one 1,000 -> 1,092 us."
    )


def test_rare_steps_are_counted_where_the_mean_is_named() -> None:
    """`verdict_of` puts the verdict on the row of the mean; 110 of 1,000 us are 11 %."""
    mean = delta(1_020.0, 110.0, 30.0)
    rare = phase("generation", delta(1_000.0, 3.0, 8.0), "regressed", mean=mean, verdict_of="mean")
    one = result("regressed", seen(1_020, 1_130, 30, of="mean"), phases=[rare])
    rows = [[row.cells[at].text for at in (0, 1, 4)] for row in sections.phases_in_text(one).rows]
    assert rows == [["generation, typical", "", "+3.00"], ["generation, mean", "Slower", "+110"]]


# Whole captures, and what is no change of a step


@pytest.mark.parametrize(
    ("of", "said"),
    [
        ("length", "Unclear with pr: the capture lasts 6,877 -> 775 ms (-6,102 ms, -88.7 %)."),
        (
            "gpu",
            "Unclear with pr: GPU time per capture 6,877 -> 775 ms (-6,102 ms, -88.7 %); the capture lasts 1,039 -> 1,168 us.",
        ),
    ],
)
def test_whole_captures(of: str, said: str) -> None:
    observed = seen(6_877_000, 775_000, 90_000, of=of)
    inputs = result("inconclusive", observed).inputs
    runs = [msgspec.structs.replace(run, step_source="whole-capture") for run in inputs.baseline.runs]
    baseline = msgspec.structs.replace(inputs.baseline, runs=runs)
    whole = msgspec.structs.replace(
        result("inconclusive", observed), inputs=msgspec.structs.replace(inputs, baseline=baseline)
    )
    assert headline(whole).what == said


def test_a_lone_step_with_a_label_is_no_capture() -> None:
    """`--steps 30` leaves one step of a capture."""
    lone = headline(result("inconclusive", seen(980, 1_108, 187, of="length"))).what
    assert lone == "Unclear with pr: generation step 980 -> 1,108 us (+128 us, +13.1 %, within noise)."


def test_one_capture_leaves_no_doubt() -> None:
    """Steps of which none repeats another are the same step by step."""
    notes = [m.Note("steps-do-not-repeat", "...")]
    unlike = phase("generation", delta(1_000.0, 0.0, 0.0), "no_change", repeated=False)
    for basis, doubted in (("identical", False), ("phase", True)):
        facts = m.VerdictFacts(basis, "generation")
        one = result("no_change", seen(1_000, 1_000, 0), warnings=notes, phases=[unlike], verdict_facts=facts)
        assert any(line.startswith("Doubt: ") for line in first.lines(one)) is doubted


def test_rounds_of_the_launches_that_both_sides_have() -> None:
    rung = m.Rung("rounds", "steps_missing", 21.0, 20.0, "void gemm_kernel<float>(int)")
    facts = m.VerdictFacts("scatter", "step", rung=rung)
    one = result("inconclusive", seen(1_000, 1_092, 200, of="length"), verdict_facts=facts)
    assert headline(one).what == (
        "Unclear with pr: time from one gemm to the next 1,000 -> 1,092 us (+92.0 us, +9.2 %, within noise)."
    )
    assert words.unit(one) == "round" and first.change(one).startswith("time from one gemm to the next 1,000")


def test_identical_sides() -> None:
    one = result("no_change", seen(1_000, 1_000, 0), verdict_facts=m.VerdictFacts("identical"))
    assert (
        headline(one).text
        == "Same with pr: both sides are one capture, and every measured time is identical."
        and reason(one) == ""
    )


def test_nothing_was_measured() -> None:
    assert headline(result("inconclusive", NOTHING)).text == (
        "Unclear with pr: nothing that both sides have was measured."
    )


def test_sides_that_cannot_be_compared_still_show_both_figures() -> None:
    checks = m.Comparability(False, [m.Check("gpu", "fail", "A100", "H200", "the sides ran on other GPUs")])
    one = result(
        "not_comparable",
        seen(1_000, 1_092, 8, WORK),
        WORK,
        structure=[counted("kernels", 1, 2)],
        verdict_facts=m.VerdictFacts("checks"),
        comparability=checks,
    )
    assert headline(one).what == (
        "Not comparable: the sides ran on other GPUs. Generation step: 1,000 us in main, 1,092 us in pr."
    )
    assert reason(one) == "Baseline: A100; candidate: H200."
    assert headline(one).text == headline(one).what  # parts and counts may be those of the recording


def test_other_batches_are_named_before_causes() -> None:
    facts = m.VerdictFacts("scatter", "generation", load=m.Load(4_096.0, 8_192.0, "generation"))
    one = result("inconclusive", seen(1_000, 1_600, 8, WORK), WORK, verdict_facts=facts)
    assert headline(one).why == (
        "The steps did other work: 4,096 -> 8,192 requests and tokens per generation step;"
        " +88.6 us of it: host work in _schedule."
    )


# By count


def counted(kind: Any, before: float, after: float, **more: Any) -> m.StructureRow:
    fields: dict[str, Any] = {
        "phase": "generation", "certain": True, "baseline_steps": 112, "candidate_steps": 112, "baseline_any": 112,
        "candidate_any": 112,
    } | more  # fmt: skip
    return m.StructureRow(kind=kind, baseline=before, candidate=after, **fields)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (counted("graph_kernels", 0, 136, baseline_of=151, candidate_of=149), "0 of 151 -> 136 of 149 kernels per step in CUDA graphs"),
        (counted("early", 0, 34, baseline_of=36, candidate_of=36), "0 of 36 -> 34 of 36 kernels per step begin before the last one ends (programmatic dependent launch)"),
        (counted("blocking", 0, 36, baseline_of=36, candidate_of=36), "0 -> 100 % of all kernels end before their launch returns (as with CUDA_LAUNCH_BLOCKING=1)"),
        (counted("ahead", 1, 0), "synchronisations after which the GPU has work left 1 -> 0"),
        (counted("kernels", 600, 4, range="optimizer"), "600 -> 4 kernels per step in optimizer"),
        (counted("kernels", 351, 424), "351 -> 424 kernels per step"),
        (counted("synchronisations", 1, 2, name="cudaStreamSynchronize"), "cudaStreamSynchronize 1 -> 2"),
        (counted("code_loads", 1, 0, name="cuLibraryLoadData"), "cuLibraryLoadData 1 -> 0"),
        (counted("kernel", 0, 13, name="transpose"), "transpose is new (13 per step)"),
        (counted("kernel", 13, 0, name="transpose"), "transpose is gone (13 per step)"),
        (counted("ranges", 1, 2, name="await"), "range await entered 1 -> 2 times per step"),
        (counted("collections", 0.04, 0.21, rate=True, baseline_any=4, candidate_any=24), "garbage collections in 3.6 % -> 21 % of steps"),
        (counted("copies", 7, 4, name="[memcpy HtoD]", baseline_values=["pageable"], candidate_values=["pinned"], baseline_bytes=24_655.2, candidate_bytes=69_514_112.0), "24.7 kB -> 69.5 MB per step in 7 -> 4 memcpy HtoD, pageable -> pinned memory"),
        (counted("copies", 1, 1, name="[memcpy HtoD]", baseline_values=["pinned"], candidate_values=["pageable"], baseline_bytes=4e6, candidate_bytes=4e6), "1 memcpy HtoD per step with pinned -> pageable memory"),
        (counted("copies", 3, 3, name="[memcpy HtoD]", memory="pageable", baseline_bytes=4e6, candidate_bytes=8e6), "memcpy HtoD (pageable) 4.0 MB -> 8.0 MB"),
        (counted("messages", 8, 8, name="ncclAllReduce", group="tp", baseline_bytes=2**20, candidate_bytes=2**21), "ncclAllReduce of group tp 1.05 -> 2.10 MB per step in 8 calls"),
        (counted("messages", 1, 1, name="ncclSend", baseline_bytes=8e3, candidate_bytes=4e3), "ncclSend 8.00 -> 4.00 kB per step in 1 call"),
        (counted("dtype", 1, 1, name="gemm", baseline_values=["fp16"], candidate_values=["fp32"]), "gemm kernels fp16 -> fp32"),
        (counted("algorithm", 64, 64, name="all-reduce", baseline_of=64, candidate_of=64, baseline_values=["RING"], candidate_values=["TREE"]), "all-reduce RING -> TREE in 64 of 64 launches per step"),
        (counted("registers", 8, 8, name="mlp", baseline_values=["128"], candidate_values=["255"]), "kernel mlp with 128 -> 255 registers per thread"),
        (counted("copies", 0, 8, name="[memcpy DtoH]", memory="pinned", rate=True, baseline_any=0, candidate_any=14), "memcpy DtoH (pinned) in 0 % -> 12 % of steps"),
        (counted("grid", 113, 113, name="mul_mat_vec", baseline_values=["2048,1,1 x 128,1,1", "5632,1,1 x 128,1,1"], candidate_values=["2048,1,1 x 32,1,1", "5632,1,1 x 32,1,1"]),
         "kernel mul_mat_vec in blocks of 128 -> 32 threads"),
        (counted("grid", 113, 113, name="mul_mat_vec", baseline_values=["2048,1,1 x 128,1,1"], candidate_values=["8192,1,1 x 32,1,1"]), "kernel mul_mat_vec in a grid of 2048 -> 8192 blocks"),
        (counted("grid", 2, 2, name="gather", baseline_values=["48,1,16 x 128,1,1", "6,1,1 x 128,1,1"], candidate_values=["6,1,1 x 128,1,1", "48,4,1 x 128,1,1"]),
         "kernel gather in a grid of 48 x 1 x 16 -> 48 x 4 blocks"),
        (counted("grid", 2, 2, name="gather", baseline_values=["48,1,1 x 128,1,1"], candidate_values=["24,1,1 x 128,1,1", "6,1,1 x 64,1,1"]), "kernel gather in other grids"),
        (counted("grid", 16, 16, name="ncclDevKernel_AllReduce_Sum_bf16_RING_LL", baseline_values=["16,1,1 x 512,1,1"], candidate_values=["4,1,1 x 544,1,1"]),
         "all-reduce with other channels or another protocol of NCCL (grid 16 x 512 -> 4 x 544)"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)  # fmt: skip
def test_one_difference_by_count(row: m.StructureRow, said: str) -> None:
    one = result("regressed", seen(1_000, 1_092, 8), structure=[row])
    assert headline(one).counts == f"By count: {said}."


def test_where_its_own_steps_do_not_differ_by_count_other_steps_are_told() -> None:
    """Mixed steps take 10 % of the steps and half of the time, decode steps less; what is not certain of them is no fact."""
    phases = [
        msgspec.structs.replace(
            phase(name, delta(0.0, 0.0, 0.0), "no_change", share=share),
            baseline=m.PhaseSide(60, size * US, size * US, size * US, size * US, []),
        )
        for name, size, share in (
            ("decode", 100.0, 0.3),
            ("generation", 1_000.0, 0.6),
            ("mixed", 9_000.0, 0.1),
        )
    ]
    rows = [
        counted("kernels", 20, 30, phase="decode"),
        counted("synchronisations", 1, 2, phase="mixed", name="cudaStreamSynchronize"),
        counted("copies", 1, 2, phase="mixed", name="[memcpy HtoD]", certain=False),
    ]
    other = result("inconclusive", seen(1_000, 1_092, 200), structure=rows, phases=phases)
    assert headline(other).counts == "By count, of a mixed step: cudaStreamSynchronize 1 -> 2."
    own = result(
        "inconclusive", seen(1_000, 1_092, 200), structure=[*rows, counted("kernels", 5, 6)], phases=phases
    )
    assert headline(own).counts == "By count: 5 -> 6 kernels per step."


def test_steps_that_may_hold_other_work_are_longer_and_not_slower() -> None:
    """Half as many blocks again in 9 % more time; what the kernels come with is not told beside it, and no kernel is to blame."""
    rows = [counted("workload", 1_200, 1_800), counted("grid", 8, 8, name="mlp", baseline_values=["8,1,1 x 64,1,1"], candidate_values=["12,1,1 x 64,1,1"])]  # fmt: skip
    slower = finding("kernel_time", 80.0, next="profile the kernel.")
    work = m.Comparability(True, [m.Check("work", "warn", "generation 1,200", "generation 1,800")])
    one = result("regressed", seen(1_000, 1_092, 8, slower), slower, structure=rows, comparability=work)
    said = headline(one)
    assert said.what == "Longer steps with pr: generation step 1,000 -> 1,092 us (+92.0 us, +9.2 %)."
    assert not said.counts
    *_, doubt, asked = first.lines(one)
    assert (
        doubt
        == "Doubt: 1,200 -> 1,800 CUDA blocks per step in kernels of both sides: a step may hold other work."
    )
    assert (
        asked
        == "Next: check that both sides were given the same work: the same requests, batch size and lengths."
    )
    rows = [msgspec.structs.replace(row, phase="mixed") for row in rows]
    elsewhere = msgspec.structs.replace(one, structure=rows)
    assert headline(elsewhere).what.startswith("Slower with pr")
    # a doubt is said once
    assert [len(words.problems(report)) for report in (one, elsewhere)] == [0, 1]


def test_a_kernel_in_another_grid_takes_other_registers() -> None:
    shapes = {"baseline_values": ["8,1,1 x 128,1,1"], "candidate_values": ["16,1,1 x 64,1,1"]}
    rows = [counted("grid", 8, 8, name="mlp", **shapes), counted("registers", 8, 8, name="mlp", baseline_values=["128"], candidate_values=["72"])]  # fmt: skip
    one = result("regressed", seen(1_000, 1_092, 8), structure=rows)
    assert headline(one).counts == "By count: kernel mlp in a grid of 8 -> 16 blocks."


def test_instances_of_a_template_that_came_and_went_alike_are_neither_new_nor_gone() -> None:
    """24 of one and 24 of the other: told where nothing else is, for it may only be tuned anew. Where one more came it says so."""
    old, new = (
        "void reduce_kernel<512, 1, Op<sum_functor>>(Op)",
        "void reduce_kernel<128, 4, Op<sum_functor>>(Op)",
    )
    went, came = counted("kernel", 24, 0, name=old), counted("kernel", 0, 24, name=new)
    alone = result("regressed", seen(1_000, 1_092, 8), structure=[went, came])
    assert headline(alone).counts == "By count: 24 launches of reduce per step with other template arguments."
    attention = "triton_poi_fused__scaled_dot_product_efficient_attention_arange_expand_le_scalar_tensor{}_unsqueeze_view_where_4"
    went_too, came_too = (
        counted("kernel", *each, name=attention.format(more))
        for *each, more in ((8, 0, ""), (0, 8, "_slice"))
    )
    compiled = headline(result("regressed", seen(1_000, 1_092, 8), structure=[went_too, came_too])).counts
    assert compiled.startswith("By count: 8 launches of triton_poi_") and compiled.endswith(
        "in another variant."
    )
    waits = counted("synchronisations", 1, 2, name="cudaStreamSynchronize")
    beside = msgspec.structs.replace(alone, structure=[waits, went, came])
    assert headline(beside).counts == "By count: cudaStreamSynchronize 1 -> 2."
    more = msgspec.structs.replace(came, candidate=25)
    said = headline(result("regressed", seen(1_000, 1_092, 8), structure=[more, went])).counts
    assert said.startswith("By count: ") and said.endswith("is new (25 per step).")


def test_a_kernel_is_not_new_where_another_one_has_its_name() -> None:
    """Both sides run `cat` of 4 bytes; of 2 bytes there are 16 launches more, or 24 that came for 8 that went."""
    cat = "void CatArrayBatchedCopy<OpaqueType<{}>, unsigned int>(T1)"
    whole = sample.full().kernels[0]
    assert whole.baseline is not None
    row = msgspec.structs.replace(
        whole, baseline=msgspec.structs.replace(whole.baseline, names=[cat.format(4)])
    )
    came, went = counted("kernel", 0, 16, name=cat.format(2)), counted("kernel", 8, 0, name=cat.format(8))
    one = result("regressed", seen(1_000, 1_092, 8), structure=[came], kernels=[row])
    assert headline(one).counts == "By count: 16 launches of CatArrayBatchedCopy more per step."
    both = [msgspec.structs.replace(came, candidate=24.0), went]
    assert headline(msgspec.structs.replace(one, structure=both)).counts == headline(one).counts
    gone = msgspec.structs.replace(came, baseline=16.0, candidate=0.0)
    row = msgspec.structs.replace(row, candidate=row.baseline)
    one = msgspec.structs.replace(one, structure=[gone], kernels=[row])
    assert headline(one).counts == "By count: 16 launches of CatArrayBatchedCopy fewer per step."
    one = msgspec.structs.replace(one, structure=[msgspec.structs.replace(gone, baseline=1.0)])
    assert headline(one).counts == "By count: 1 launch of CatArrayBatchedCopy fewer per step."


def test_a_kernel_that_went_is_told_with_what_is_in_its_place() -> None:
    """`silu` went and `swish` came: one is in the place of the other where they are one row of the kernel table; else both are told."""
    went, came = counted("kernel", 8, 0, name="silu"), counted("kernel", 0, 4, name="swish")
    row = sample.full().kernels[0]
    sides = (msgspec.structs.replace(row.baseline, names=[name]) for name in ("silu", "swish"))
    matched = msgspec.structs.replace(row, **dict(zip(("baseline", "candidate"), sides, strict=True)))
    for rows in ([went, came], [came, went]):
        one = result("regressed", seen(1_000, 1_092, 8), structure=rows, kernels=[matched])
        assert headline(one).counts == "By count: silu replaced by swish."
    apart = msgspec.structs.replace(
        one, structure=[went, came, counted("kernel", 0, 2, name="mul")], kernels=[]
    )
    assert headline(apart).counts == "By count: silu is gone (8 per step); swish is new (4 per step)."


@pytest.mark.parametrize(
    ("others", "said"),
    [
        (["direct_copy_kernel", "i16832gemm"], "sgemm replaced by i16832gemm"),
        (["direct_copy_kernel", "mul"], "sgemm is gone (8 per step)"),
    ],
)
def test_of_several_kernels_in_the_place_of_one_that_of_its_kind_is_told(others, said) -> None:
    row = sample.full().kernels[0]
    sides = (msgspec.structs.replace(row.baseline, names=names) for names in (["sgemm"], others))
    split = msgspec.structs.replace(row, **dict(zip(("baseline", "candidate"), sides, strict=True)))
    rows = [counted("kernel", 8, 0, name="sgemm")]
    one = result("regressed", seen(1_000, 1_092, 8), structure=rows, kernels=[split])
    assert headline(one).counts.startswith(f"By count: {said}")


def test_three_counts_of_the_phase_are_said_none_twice() -> None:
    """The range that has most of the kernels is named in place of all; other calls follow from what is said, and one kernel is."""
    rows = [
        counted("kernels", 149, 141), counted("kernels", 149, 141, range="forward"), counted("calls", 92, 0, name="cuKernelGetName"),
        counted("synchronisations", 1, 2, name="cudaStreamSynchronize"), counted("kernel", 16, 8, name="gemm"),
        counted("kernel", 8, 0, name="mul"), counted("allocations", 0, 3, name="cudaMalloc"), counted("synchronisations", 1, 9, name="cudaEventSynchronize", phase="mixed"),
    ]  # fmt: skip
    assert headline(result("regressed", seen(1_000, 1_092, 8), structure=rows)).counts == (
        "By count: 149 -> 141 kernels per step in forward; cudaStreamSynchronize 1 -> 2; gemm 16 -> 8 launches."
    )


def test_a_kernel_that_others_replaced_is_told_by_count_with_what_replaced_it() -> None:
    name = (
        "cudnn_generated_fort_native_sdpa_sm80_flash_fprop_wmma_f16_knob_3_64x64x64_4x1x1_cga1x1x1_kernel0_0"
    )
    kernels = m.Kernels((short(name),), ("gemvx::kernel",))
    cause = finding("kernel_time", 46.0, rank=2, level="exact", where={"kernels": kernels}, facts=m.FindingFacts(match="replaced"))  # fmt: skip
    one = result("regressed", seen(1_000, 1_092, 8), cause, structure=[counted("kernel", 8, 0, name=name)])
    assert headline(one).counts == "By count: attention replaced by GEMM (+46.0 us)."
    came = counted("kernel", 0, 8, name="gemvx::kernel")
    both = msgspec.structs.replace(one, structure=[*one.structure, came])
    assert headline(both).counts == headline(one).counts  # that says both
    named_first = result("regressed", seen(1_000, 1_092, 8, cause), cause, structure=[counted("kernel", 8, 0, name=name)])  # fmt: skip
    assert headline(named_first).counts == ""  # that says it


@pytest.mark.parametrize(
    ("launches", "said"),
    [
        ((5, 7), "graph launches 5 -> 7; 402 of 407 -> 484 of 491 kernels per step in CUDA graphs"),
        ((0, 7), "402 of 407 -> 484 of 491 kernels per step in CUDA graphs"),  # there none went before
    ],
)
def test_more_launches_of_graphs_are_said_before_the_kernels_that_they_bring(
    launches: tuple[float, float], said: str
) -> None:
    rows = [
        counted("graph_kernels", 402, 484, baseline_of=407, candidate_of=491), counted("graph_launches", *launches),
    ]  # fmt: skip
    assert headline(result("regressed", seen(1_000, 1_092, 8), structure=rows)).counts == f"By count: {said}."


def test_kernels_that_take_longer_together_are_called_by_the_first_without_its_count() -> None:
    """Two kernels of attention became one that takes longer; those of a GEMM split."""
    kernels = m.Kernels(("flash", "lean"), ("fmha",)), m.Kernels(("gemm",), ("a", "b"))
    parts = [m.FindingPart("kernel_time", m.Where(kernels=one), 490e3, 1.0, 1.0, "exact") for one in kernels]
    counts = m.FindingEvidence("", [], count_baseline=16, count_candidate=8)
    one = finding("kernel_time", 980.0, where={"kernels": kernels[0]}, parts=parts)
    one = msgspec.structs.replace(one, evidence=counts)
    assert named(one) == "slower kernels (flash and 1 more kernel)"
    assert title(one) == "slower flash + lean -> fmha and 1 more kernel: 16 -> 8 per step"
    same = msgspec.structs.replace(one, evidence=msgspec.structs.replace(counts, count_candidate=16))
    assert title(same) == "slower flash + lean -> fmha and 1 more kernel"  # 16 are the first kernel's
    still = [msgspec.structs.replace(parts[1], delta_ns=9e3)]  # under 1 % of it
    alone = msgspec.structs.replace(same, parts=[parts[0], *still])
    assert named(alone) == "flash and 1 more kernel replaced by fmha"


def test_kernels_that_changed_together_are_called_after_the_kind_that_changed_most() -> None:
    """Of 336 us more 42 are layer norm's, whose row is the largest, and 241 those of ten GEMMs; of 90 us of theirs it keeps its name."""
    norm = m.FindingPart(
        "kernel_added",
        m.Where(kernels=m.Kernels(("layer_norm",), ("layer_norm",))),
        42.0,
        41.0,
        43.0,
        "exact",
    )
    for each, said in (
        (24.1, "more launches of GEMM and 10 more kernels"),
        (8.0, "more launches of layer_norm and 10 more kernels"),
    ):
        gemms = [
            m.FindingPart(
                "kernel_added",
                m.Where(kernels=m.Kernels((f"nvjet_{number}",), (f"nvjet_{number}",))),
                each,
                each,
                each,
                "exact",
            )
            for number in range(10)
        ]
        one = finding(
            "kernel_added",
            336.0,
            where={"kernels": norm.where.kernels},
            parts=[norm, *gemms],
            facts=m.FindingFacts(match="more"),
        )
        assert said in named(one)


def test_mean_counts_that_differ_by_less_than_a_hundredth_are_one() -> None:
    """35.97 and 36.23 launches in a typical step differ by 0.7 %, as steps are cut; 149 and 148 kernels differ by one."""
    one = finding("kernel_time", 574.0, where={"kernels": m.Kernels(("relu",), ("relu_2",))})
    facts = m.FindingFacts(baseline_mean_ns=10_000.0, candidate_mean_ns=25_870.0)
    said = []
    for before, after in ((35.97, 36.23), (149.0, 148.0)):
        counts = m.FindingEvidence("", [], count_baseline=before, count_candidate=after)
        said.append(title(msgspec.structs.replace(one, facts=facts, evidence=counts)))
    assert [text.rpartition(": ")[2] for text in said] == [
        "10.00 -> 25.87 us each, 36.10 per typical step",
        "10.00 -> 25.87 us each, 149 -> 148 per step",
    ]


def test_gemms_that_are_launched_more_often_are_some_of_those_of_a_step() -> None:
    """Of 75 GEMMs of a step 7 became 240; the others are in another count."""
    facts = m.FindingFacts(match="template")
    counts = m.FindingEvidence("", [], count_baseline=7, count_candidate=240)
    kernels = m.Kernels(("nvjet_sm90_tst_256x128_TNT",), ("nvjet_sm90_tst_64x64_TNT",))
    one = finding("kernel_added", 16_280.0, where={"kernels": kernels}, facts=facts)
    one = msgspec.structs.replace(one, evidence=counts)
    assert named(one) == "more launches of some GEMMs, 7 -> 240 per step"


def test_communication_with_kernels_beside_it_says_so() -> None:
    """Of -166 us NCCL has -212, the attention between its calls +39: the sum is not that of the communication alone."""
    names = ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "flash_fwd", "silu")
    kernels = [m.Kernels((name,)) for name in names]
    parts = [m.FindingPart("comm", m.Where(kernels=one), 1.0, 1.0, 1.0, "likely") for one in kernels]
    one = finding("comm", -166.0, where={"kernels": kernels[0]}, parts=parts)
    assert named(one) == "communication in NCCL's all-reduce and 2 more kernels"
    assert named(msgspec.structs.replace(one, parts=parts[:1])) == "communication in NCCL's all-reduce"


# Would it repeat


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"runs": m.Pair(4, 5)}, ": 4 + 5 runs"),
        ({"runs": m.Pair(3, 5)}, ": 3 + 5 runs are too few to confirm the change"),
        ({"runs": m.Pair(1, 5)}, ": 1 + 5 runs; how much runs differ is assumed, not measured"),
        ({"time_share": m.Shares(0.36, 0.9)}, ": 5 + 5 runs; only 36 % of the step time was compared"),
    ],
)
def test_what_limits_belief(more: dict[str, Any], said: str) -> None:
    one = result("regressed", seen(1_000, 1_092, 8), **more)
    assert reason(one) == f"A repeat would show +84.0 to +100 us (95 %){said}."


def test_causes_that_carry_a_verdict_alone_are_said_to_do_so() -> None:
    """92 +- 100 us: the step itself may be as fast as before."""
    carried = reason(result("likely_regressed", seen(1_000, 1_092, 100), runs=m.Pair(1, 1)))
    assert carried.endswith(": 1 + 1 runs; only the causes are beyond noise.")
    # a faster CPU may be a part of it: that an interval which holds 0 is no verdict is said all the same
    both = msgspec.structs.replace(seen(1_000, 908, 100), host_speed_ns=-30_000.0)
    assert reason(result("likely_improved", both, runs=m.Pair(1, 1))) == carried.replace(
        "-8.00 to +192", "-192 to +8.00"
    )


def test_the_speed_of_the_host_is_a_doubt_and_no_part_of_the_size() -> None:
    """20 of 92 us; 4 us are less than 5 % of it."""
    slow = result("regressed", seen(1_000, 1_092, 40, host_speed_ns=20_000.0))
    assert reason(slow).endswith("; up to 20.0 us of the change may come from a slower CPU.")
    assert headline(slow).what.endswith("(+92.0 us, +9.2 %).")
    assert reason(result("regressed", seen(1_000, 1_092, 40, host_speed_ns=4_000.0))).endswith(
        ": 5 + 5 runs."
    )
    against = seen(1_000, 1_092, 40, host_speed_ns=-20_000.0)
    assert reason(result("regressed", against)).endswith(": 5 + 5 runs.")
    hidden = m.VerdictFacts("scatter", "generation", host=True)
    unclear = result("inconclusive", seen(1_000, 959, 60, host_speed_ns=-30_000.0), verdict_facts=hidden)
    assert headline(unclear).what.endswith("(-41.0 us, -4.1 %, within noise).")
    assert reason(unclear) == (
        "A repeat would show -101 to +19.0 us (95 %): 5 + 5 runs; up to 30.0 us of the change may come from a faster CPU."
    )


def test_warnings_that_change_belief_are_doubts_of_the_first_screen() -> None:
    """The CPUs only where a change of the host rests on them, and steps that do not repeat only where the first sentence is of these."""
    notes = [m.Note(slug, "...") for slug in ("steps-inferred", "host-speed-unknown", "steps-do-not-repeat")]
    few = "few kernels have a counterpart"
    programs = m.Comparability(True, [m.Check("programs", "warn", "30 %", "18 %", few)])
    cpu = "part of the change may come from a slower CPU, whose speed is not known"
    steps = "steps were compared without matching, as hardly two launch the same work"
    kernel = finding("kernel_time", 88.6, where={"kernels": m.Kernels(("add",))})
    anew = msgspec.structs.replace(GENERATION, repeated=False)

    def doubts(verdict: m.Verdict, cause: m.Finding, **more: Any) -> list[str]:
        found = result(verdict, seen(1_000, 1_092, 8, cause), cause, warnings=notes, **more)
        return [line for line in first.lines(found) if line.startswith("Doubt")]

    assert doubts("regressed", WORK, comparability=programs, phases=[anew]) == [
        f"Doubt: {few}; {steps}; {cpu}."
    ]
    assert doubts("regressed", WORK) == [f"Doubt: {cpu}."]
    assert doubts("regressed", kernel) == doubts("inconclusive", WORK) == []
    faster = phase("generation", delta(1_000.0, -92.0, 8.0), "regressed")
    assert doubts("regressed", WORK, phases=[faster]) == []  # a slower CPU makes no typical step faster
    assert doubts("inconclusive", kernel, comparability=programs) == [f"Doubt: {few}."]
    notes.append(m.Note("rank-without-steps", "..."))
    assert doubts("no_change", kernel) == ["Doubt: a process with GPU work has no steps and is not compared."]
    assert doubts("not_comparable", WORK, comparability=programs) == []


def test_runs_in_turns_on_one_machine_are_said_to_be_so() -> None:
    turns = result("regressed", seen(1_000, 1_092, 8, hosts="one"))
    assert reason(turns).endswith(": 5 + 5 runs took turns on one machine.")


def test_a_change_within_noise_is_said_to_be_so() -> None:
    """It is said once, in the first sentence; a part of it that may be noise is told as such."""
    unsure = msgspec.structs.replace(WORK, level="within_noise")
    one = result("inconclusive", seen(1_000, 1_010, 30, unsure, host_speed_ns=9_000.0), unsure)
    assert headline(one).text == (
        "Unclear with pr: generation step 1,000 -> 1,010 us (+10.0 us, +1.0 %, within noise)."
        " Measured, may be noise: host work in _schedule (+88.6 us)."
    )
    assert reason(one) == "A repeat would show -20.0 to +40.0 us (95 %): 5 + 5 runs."
    assert headline(result("inconclusive", seen(1_000, 1_100, 30))).what.endswith("(+100 us, +10.0 %).")


def test_runs_that_are_left_out_are_named() -> None:
    """By its step once its CPU's speed is set aside, or by a CPU that is by more than a half slower."""
    for speed, said in (
        (1.08, "its typical generation step takes 101 us more than in the other runs, CPU speed set aside."),
        (1.62, "its CUDA calls take 1.62 times as long as in the other runs."),
    ):
        odd = m.OddRun("candidate", "pr_r3.sqlite.xz", 101_000.0, "host_work", 98_000.0, speed, left_out=True)
        phases = [msgspec.structs.replace(GENERATION, odd_runs=[odd])]
        one = result("regressed", seen(1_000, 1_092, 8), phases=phases)
        assert first.lines(one)[-2] == f"Run pr_r3 of the candidate is left out: {said}"


def test_a_name_keeps_its_letters_at_the_start_of_a_sentence() -> None:
    begun = ["host work in x", "launches: 3", "aten::fill_ launches", "cudaMemcpyAsync calls"]
    assert [words.sentence(one) for one in begun] == ["Host work in x", "Launches: 3", *begun[2:]]


def test_a_pattern_has_no_condition_and_each_is_used() -> None:
    """What a sentence holds is decided on data: its slots are all filled, and each pattern is said somewhere."""
    files = [*(ROOT / "tracediff").rglob("*.py"), *(ROOT / "templates").rglob("*.j2")]
    code = "".join(path.read_text(encoding="utf-8") for path in files)
    quoted = set(re.findall(r'"([a-z_]+)"', code))
    made = [(low, high) for low, high in re.findall(r'f"([a-z_]*)\{[^"]*\}([a-z_]*)"', code) if low or high]
    unused = [
        name
        for name in set(grammar.PATTERNS) - quoted
        if not any(name.startswith(low) and name.endswith(high) for low, high in made)
    ]
    assert unused == []
    listed = (ROOT / "tracediff" / "report" / "grammar.txt").read_text(encoding="utf-8")
    assert len(re.findall(r'^[a-z_]+ = ".+"$', listed, re.MULTILINE)) == len(
        grammar.PATTERNS
    )  # none is there twice
    with pytest.raises(KeyError):
        grammar.say("what", direction="Slower")


def test_lines_that_a_page_explains_begin_with_their_term() -> None:
    explained = {name: text for name, text in grammar.PATTERNS.items() if name.startswith("repeat_")}
    assert len(explained) > 5 and all(text.startswith("A repeat ") for text in explained.values())
    assert grammar.PATTERNS["counts"].startswith("By count:")


def test_what_the_comparison_says_as_data_has_its_pattern() -> None:
    """The name of a pattern is the first argument of `Said`, and the third of `_check`, which writes `check_` before it."""
    named = set()
    for path in (ROOT / "tracediff" / "comparison").rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            called = call.func.id if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) else ""
            at, before = {"Said": (0, ""), "_check": (2, "check_")}.get(called, (None, ""))
            if at is not None and len(call.args) > at:
                said = (one for one in ast.walk(call.args[at]) if not isinstance(one, ast.Compare))
                texts = (one.value for one in said if isinstance(one, ast.Constant))
                named |= {f"{before}{text}" for text in texts if isinstance(text, str) and text}
    assert {"no_measure", "check_graph_mode", "check_two_rules"} <= named
    assert named - set(grammar.PATTERNS) == {"check_"}  # of `Said(f"check_{said}", slots)`


@pytest.mark.parametrize("folder", ["report", "companions"])
def test_no_sentence_is_composed_around_a_condition(folder: str) -> None:
    """Which sentence is said is decided before it is written: no string with slots chooses between words inside."""
    found = []
    for path in sorted((ROOT / "tracediff" / folder).rglob("*.py")):
        strings = (
            one
            for one in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(one, ast.JoinedStr)
        )
        found += [
            f"{path.name}:{one.lineno}"
            for one in strings
            if any(isinstance(part, ast.IfExp) for part in ast.walk(one))
        ]
    assert found == []


def test_a_phase_that_is_unclear_beside_an_interval_without_0_says_why() -> None:
    """p = 0.02 is 0.04 beside one other phase and 0.06 beside two; corrected as that is, only other batches are left to explain it."""
    own = {"p_value": 0.02}
    found = phase("generation", delta(1_000.0, 92.0, 80.0, **own), "inconclusive")
    others = [
        phase(name, delta(1_000.0, 9.0, 80.0, p_value=0.8), "inconclusive") for name in ("mixed", "context")
    ]
    observed = seen(1_000, 1_092, 80)
    for count, why in ((2, "chance among 3 phases"), (1, "other batches")):
        one = result("inconclusive", observed, phases=[found, *others[:count]])
        rows = {row.phase: row for row in fields.phase_lines(one)}
        assert [rows[name].unjudged for name in ("generation", "mixed")] == [why, ""]
        assert rows["generation"].measured == found.typical
        assert ("one may differ so by chance" in reason(one)) == (count == 2)
        assert f"| **generation, typical** | {why} |" in render_markdown(one)
    likely = msgspec.structs.replace(found, verdict="likely_regressed")
    (row, *_) = fields.phase_lines(result("likely_regressed", observed, phases=[likely, *others]))
    assert row.unjudged == ""


def test_what_a_repeat_would_show_is_in_the_table_where_the_first_screen_says_it() -> None:
    """A mean of 1,000 us grows by 4,000 +- 6,000: more than a whole step. Rows with a verdict or of the sentence say so, no other does."""
    mean = delta(1_000.0, 4_000.0, 6_000.0)
    rare = phase("generation", delta(1_000.0, 60.0, 90.0), "inconclusive", verdict_of="mean", mean=mean)
    one = result("inconclusive", seen(1_000, 5_000, 6_000, of="mean"), phases=[rare])
    assert reason(one) == "A repeat would show -2,000 to +10,000 us (95 %): 5 + 5 runs."
    said = {line.kind: line.measured for line in fields.phase_lines(one)}
    assert said["mean"] == mean
    other = result("inconclusive", seen(1_000, 1_060, 90), phases=[rare])
    assert {line.kind: line.measured for line in fields.phase_lines(other)}["mean"] == mean
    usual = msgspec.structs.replace(rare, verdict_of="typical")
    other = result("inconclusive", seen(1_000, 1_060, 90), phases=[usual])
    assert {line.kind: line.measured for line in fields.phase_lines(other)}["mean"] is None


# Causes and what stands beside them


def test_communication_that_changed_with_other_kernels_is_no_communication_in_them() -> None:
    """-212 us in 8 all-reduces, +39 us in attention between the same kernels; 8 is the number of neither together."""
    reduce = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"
    parts = [
        m.FindingPart(cause, m.Where(kernels=m.Kernels((name,))), us * US, us * US, us * US, "likely")
        for cause, name, us in (("comm", reduce, -212.0), ("kernel_time", "flash_fwd_kernel", 39.0))
    ]
    counts = m.FindingEvidence("", [], count_baseline=8.0, count_candidate=8.0)
    one = finding("comm", -173.0, where={"kernels": m.Kernels((reduce,))}, parts=parts)
    one = msgspec.structs.replace(one, evidence=counts)
    assert title(one) == f"{reduce} and 1 more kernel"
    assert named(one) == "NCCL's all-reduce and 1 more kernel"
    alone = msgspec.structs.replace(one, parts=[])
    assert title(alone) == f"communication in {reduce}: 8 per step"


def test_the_same_kernel_in_another_launch_shape_is_not_replaced() -> None:
    facts = m.FindingFacts(match="name", baseline_mean_ns=4_060.0, candidate_mean_ns=33_830.0)
    one = finding("kernel_time", 186.0, where={"kernels": m.Kernels(("copy_kernel",))}, facts=facts)
    evidence = msgspec.structs.replace(one.evidence, count_baseline=6.27, count_candidate=6.27)
    assert title(msgspec.structs.replace(one, evidence=evidence)) == (
        "copy_kernel in another launch shape: 4.06 -> 33.83 us each, 6.27 per typical step"
    )
    assert named(one) == "copy in another launch shape"
    # of a launch with the idle time that follows from it is no time of the kernel
    parts = [
        m.FindingPart(cause, one.where, ns, ns, ns, "likely", follows=cause != "kernel_time")
        for cause, ns in (("kernel_time", -2.0), ("host_api", 188.0))
    ]
    beside = msgspec.structs.replace(one, evidence=evidence, parts=parts)
    assert title(beside) == "copy_kernel in another launch shape: 6.27 per typical step"


def test_copies_are_written_without_brackets_wherever_they_stand() -> None:
    copy = "[memcpy DtoH]"
    where = {"kernels": m.Kernels((copy, copy, "[memset]"), ("[memcpy HtoD]",))}
    one = finding("memcpy", 3.0, where=where, facts=m.FindingFacts(match="sequence"))
    evidence = msgspec.structs.replace(one.evidence, count_baseline=8.0, count_candidate=4.0)
    assert title(msgspec.structs.replace(one, evidence=evidence)) == (
        "exposed 2 x memcpy DtoH + memset -> memcpy HtoD: 8 -> 4 per step"
    )
    assert spoken(["[memcpy DtoH]", "[memcpy DtoH]", "[memset]"]) == "memcpy DtoH and memset"


def test_rare_steps_are_a_part_of_all_steps() -> None:
    """One of 118 steps in one of three runs, 12 and 13 of 118 in two."""
    rare = finding("gc", 50.0, part="tail", facts=m.FindingFacts(rare=m.RareFact(1 / 3, 12.5, 118, 118, 0)))
    evidence = m.FindingEvidence("", [], runs_baseline_ns=[0, 0, 1], runs_candidate_ns=[9, 9])
    rare = msgspec.structs.replace(rare, evidence=evidence)
    note = with_words(result("regressed", seen(1_000, 1_092, 8), rare)).findings[0].note
    assert note.startswith("It is long in 0.3 % -> 11 % of the steps;")


def test_what_a_typical_step_has_of_a_cause_in_rare_steps_is_not_said_to_be_in_these() -> None:
    rare = finding("gc", 50.0, part="tail", **SCHEDULE)
    for own, said in (
        (50.0, "+50.0 us: Python GC in _schedule, in rare steps."),
        (20.0, "+20.0 us of it: Python GC in _schedule."),
    ):
        part = ObservedPart(rare.rank, own * US, own / 92)
        observed = msgspec.structs.replace(seen(1_000, 1_092, 8), parts=[part])
        assert headline(result("regressed", observed, rare)).why == said


def test_in_how_many_runs_a_cause_holds() -> None:
    one = result("regressed", seen(1_000, 1_092, 8))
    for held, said in ((m.Held(5, 5), "in 5 of 5 runs"), (m.Held(5, 1), "in 1 of 5 runs")):
        assert words.held(one, finding("host_work", 1.0, held=held, **SCHEDULE)) == said
    apart = m.OddRun("candidate", "pr_r4.sqlite", 400_000.0, "host_work", 400_000.0, left_out=True)
    less = msgspec.structs.replace(GENERATION, runs=m.Pair(5, 4), odd_runs=[apart])
    without = msgspec.structs.replace(one, phases=[less])
    assert words.held(without, finding("host_work", 1.0, held=m.Held(5, 4), **SCHEDULE)) == "in 4 of 4 runs"
    single = result("regressed", seen(1_000, 1_092, 8), runs=m.Pair(1, 5))
    assert words.held(single, finding("host_work", 1.0, **SCHEDULE)) == ""


def test_who_holds_the_gil_is_to_be_found_where_no_name_tells() -> None:
    """Of a thread with a name or ranges its work can be moved; nobody can move that of `an unnamed thread`."""
    known = finding("gil_wait", 1.0, where={"holder_thread": "await", "holder_range": "send"})
    assert advice(known).startswith("move the work of the await thread in send to another process")
    unknown = finding("gil_wait", 1.0, where={"holder_thread": "thread without ranges"})
    assert advice(unknown).startswith("find which thread holds the GIL (py-spy dump")


def test_a_gpu_that_starts_work_late_is_shared_with_another_process() -> None:
    """Two gaps of 5 us each are those of any launch; two of 240 us are not."""
    late = finding("launch_latency", 470_000.0, where={"range": "decode"})
    gaps = msgspec.structs.replace(late.evidence, count_candidate=2.0)
    for ns, said in (
        (480_000.0, "look for another process on the GPU"),
        (10_000.0, "the GPU was empty when"),
    ):
        one = msgspec.structs.replace(late, candidate_ns=ns, evidence=gaps)
        assert advice(one).startswith(said)


def test_titles() -> None:
    wait = finding(
        "gil_wait", 1.0, where={"thread": "executor", "holder_thread": "await", "holder_range": "send"}
    )
    assert title(wait) == named(wait) == "waiting for the GIL held by the await thread in send"
    launch = finding("launch_api", 1.0, where={"range": "forward", "api": "cudaGraphLaunch"})
    assert title(launch) == "launch calls (time in cudaGraphLaunch) in forward"
    for call, said in (("cudaMemsetAsync", "memset calls"), ("cudaMemcpyAsync", "copying calls")):
        calls = finding(
            "launch_api", 1.0, where={"range": "forward", "api": call}, facts=m.FindingFacts(copies=True)
        )
        assert title(calls) == f"{said} (time in {call}) in forward" and named(calls) == f"{said} in forward"
    copy = finding("memcpy", 1.0, where={"kernels": m.Kernels(("[memcpy HtoD]",), ("cast",))})
    assert named(copy) == "exposed memcpy HtoD"
    many = finding(
        "kernel_time",
        1.0,
        where={"kernels": m.Kernels(tuple("abcde"), ("f",))},
        facts=m.FindingFacts(match="sequence"),
    )
    assert title(many).startswith("a + b + c + 2 more replaced by f: ")
    generated = {
        "nvjet_sm90_tst_64x16_64x16_4x1_v_bz_TNT": "GEMM",
        "vectorized_elementwise_kernel<BinaryFunctor, MulFunctor>": "mul",
        "vectorized_elementwise_kernel<silu_kernel>": "silu",
        "elementwise_kernel<direct_copy_kernel_cuda>": "direct_copy",
        "vectorized_elementwise_kernel<CUDAFunctor_add>": "add",
        "reduce_kernel<or_kernel_cuda>": "or_kernel_cuda",
        "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma": "attention",
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL": "NCCL's all-reduce",
        "vectorized_layer_norm_kernel": "vectorized_layer_norm",
        "rms_norm": "rms_norm",
    }  # fmt: skip
    assert {name: spoken([name]) for name in generated} == generated
    assert named(many) == title(many, shortly=True) == "a and 4 more kernels replaced by f"
    plain = m.Kernels(
        ("flash_fwd",), ("elementwise_kernel<direct_copy_kernel_cuda>", "gemvx::kernel", "softmax")
    )
    many = finding("kernel_time", 1.0, where={"kernels": plain}, facts=m.FindingFacts(match="replaced"))
    assert named(many) == "flash_fwd replaced by GEMM and 2 more kernels"  # what has a kind tells most
    assert title(finding("gc", 1.0, part="tail", **SCHEDULE)) == "Python GC in _schedule, in rare steps"


def test_what_a_finding_explains_is_left_out_where_it_is_no_part() -> None:
    """Of 92 us. The change of mixed steps, and that of the mean, are others: the shares of a list would not add up."""
    slower, same = (result(verdict, seen(1_000, 1_092, 8)) for verdict in ("regressed", "no_change"))
    shares = {
        0.998: "all of the change",
        0.97: "97 % of the change",
        0.9: "90 % of the change",
        0.52: "52 % of the change",
        1.3: "",
        -0.2: "",
    }
    for share, said in shares.items():
        one = finding("host_work", share * 92, share=share, **SCHEDULE)
        assert words.explains(one, slower) == said
        assert words.explains(one, same) == ""
        for other in ({"share": None}, {"level": "within_noise"}, {"part": "tail"}, {"part": "mean"}):
            assert words.explains(msgspec.structs.replace(one, **other), slower) == ""
        assert words.explains(finding("host_work", share * 92, "mixed", share=share), slower) == ""


def test_a_cause_in_the_other_mean_of_its_steps_is_not_elsewhere() -> None:
    """The typical step and the mean hold the same time; what rare steps have comes on top, and other steps are others."""
    deltas = (("generation", "mean", 80.0), ("generation", "tail", 4.0), ("mixed", "typical", 50.0))
    phases = [m.PhaseDelta(name, part, us * US, 0.0, 0.0, "likely") for name, part, us in deltas]
    one = finding("host_work", 88.6, phases=phases, **SCHEDULE)
    assert words.elsewhere(one, units.scale_for([50 * US])) == (
        "+4.00 us per mean generation step, in rare steps (likely); +50.00 us per mixed step (likely)"
    )


def test_what_these_runs_can_detect() -> None:
    step = msgspec.structs.replace(
        sample.full().step, baseline_ns=1e6, min_detectable_ns=48e3, runs_advised=9
    )
    assert power_note(step) == (
        "The smallest change these runs can detect is 4.8 % (80 % power). For 2 % record 9 runs per side."
    )


def test_two_runs_do_not_say_how_many_are_enough() -> None:
    two = msgspec.structs.replace(sample.full().step, runs=m.Pair(2, 2), runs_advised=5)
    assert power_note(two).endswith(" Record 5 runs per side: only they tell how many show 2 %.")


def test_all_sentences_are_filled_in() -> None:
    told = with_words(result("regressed", seen(1_000, 1_092, 8, WORK), WORK))
    assert told.headline.text == (
        "Slower with pr: generation step 1,000 -> 1,092 us (+92.0 us, +9.2 %). +88.6 us of it: host work in _schedule."
    )
    assert told.verdict_reason == "A repeat would show +84.0 to +100 us (95 %): 5 + 5 runs."
    assert told.findings[0].title == "host work in _schedule"
    assert told.findings[0].next.startswith("profile the host code")


@pytest.mark.parametrize(
    ("recorded", "title"),
    [
        (["captured", "captured"], "host code outside any NVTX range"),
        (["captured", "not_captured"], "host code outside any NVTX range"),
        (["not_captured", "not_captured"], "host work"),
    ],
)
def test_where_no_ranges_were_recorded_none_is_missed(recorded: list[str], title: str) -> None:
    bare = finding("host_work", 88.6, where={"range": "outside any range"})
    coverage = m.Coverage(*[{"nvtx": one} for one in recorded])
    told = with_words(result("regressed", seen(1_000, 1_092, 8, bare), bare, coverage=coverage))
    assert told.findings[0].title == title
    assert told.headline.why == f"+88.6 us of it: {title}."


def test_what_is_left_of_a_cause_is_said_only_of_one_that_was_replayed() -> None:
    """Of 300 us the step gains 200, so waits take 100; a cause that went was not replayed."""
    grown = finding("memcpy", 300.0, without=m.Projected(1_300 * US, 1_100 * US, 1_000 * US, 1_200 * US, [1]))
    gone = finding("memcpy", -300.0)
    grew, went = with_words(result("regressed", seen(1_000, 1_092, 8), grown, gone)).findings
    assert grew.note == (
        "Replayed without it: -200 us per generation step (range -300 to -100 us)."
        " Waits that the cause hides now would take the rest of its time."
    )
    assert went.note == ""


# Real pairs whose truth is known


@cache
def demo(*sides: str) -> Result:
    """Bundles or folders of fixtures."""
    paths = [ROOT / "fixtures" / one for one in sides]
    request = CompareRequest(baseline=paths[0], candidate=paths[1] if len(paths) > 1 else None)
    return compare_request(request, keep=True)  # as other tests read them


def test_the_demo_says_what_its_own_clock_saw() -> None:
    """The program's log: 0.977 -> 1.382 ms on average, +405 us. The holder keeps the GIL for 300 us per step."""
    one = demo("bundles/hog300")
    what, why, *_ = first.lines(one)
    assert what == "Slower with hog300/candidate: generation step 972 -> 1,344 us (+372 us, +38.2 %)."
    assert (
        why == "+317 us of it: waiting for the GIL held by the await-response thread in serialize_responses."
    )
    assert "took turns on one machine" in one.verdict_reason
    mean = one.phases[0].mean
    assert mean is not None and mean.ci_low_ns < 405 * US < mean.ci_high_ns


def test_a_comb_is_said_with_its_cause() -> None:
    """A collection in _schedule in every fifth step, 3 ms long."""
    what, why, counts, *_ = first.lines(demo("bundles/gc5"))
    assert "every 5th generation step of the candidate takes 3.0" in what and what.startswith("Slower ")
    assert why.endswith("of it: Python GC in _schedule.") and "garbage collections in" in counts


def test_fused_kernels_are_counted_where_the_step_is_unclear() -> None:
    """Eight GEMMs fewer per step, and the silu kernels that take as much more."""
    what, why, counts, *_ = first.lines(demo("demo/graph_a", "demo/graph_fused"))
    assert what.startswith(
        "Unclear with graph_fused: generation step 1,013 -> 972 us (-41.3 us, -4.1 %, within noise)."
    )
    assert (
        "fused GEMMs, 16 -> 8 per step" in why
        and counts == "By count: 149 -> 141 kernels per step in [Executor] _forward_step."
    )


def test_graphs_name_themselves_and_own_what_they_save() -> None:
    """The same program without and with CUDA graphs: 3.7 and 0.97 ms per step by its own labels."""
    one = demo("captures/eager_a1.sqlite.xz", "demo/graph_a/graph_a1.sqlite.xz")
    what, why, counts, *_ = first.lines(one)
    assert re.match(
        r"Likely faster with graph_a1: generation step 3,\d+ -> 9\d\d us \(-2,\d+ us, -7\d\.\d %\)", what
    )
    assert re.match(r"-2,\d+ us of it: CUDA graphs launch 0 -> 100 % of all kernels", why)
    assert re.match(r"By count: 0 of 1\d\d -> 1\d\d of 1\d\d kernels per step in CUDA graphs", counts)
    back = demo("demo/graph_a/graph_a1.sqlite.xz", "captures/eager_a1.sqlite.xz")
    other, because, *_ = first.lines(back)
    assert re.match(r"Likely slower with eager_a1: generation step 9\d\d -> 3,\d+ us \(\+2,\d+ us", other)
    assert re.match(r"\+2,\d+ us of it: CUDA graphs launch 100 -> 0 % of all kernels", because)
    assert back.observed.delta_ns == -one.observed.delta_ns


def test_a_run_against_itself_is_identical() -> None:
    one = demo("captures/eager_a1.sqlite.xz", "captures/eager_a1.sqlite.xz")
    assert first.lines(one) == [
        "Same with eager_a1: both sides are one capture, and every measured time is identical.",
        "Next: nothing to do.",
    ]


@pytest.mark.parametrize(
    "name", ["aa_2x2", pytest.param("aa_4x4", marks=pytest.mark.slow), "aa_1x1", "aa_outlier"]
)
def test_nulls_claim_nothing(name: str) -> None:
    what, *others = first.lines(with_words(result_of(name)))
    assert what.startswith(("Unclear with ", "Same with "))
    assert not any(line.startswith(("By count", "No single cause")) for line in others)


@pytest.mark.parametrize(("after", "said"), [(1_200, True), (900, False)])
def test_another_clock_is_a_doubt_of_a_change_that_goes_its_way(after, said) -> None:
    """Kernels that take 3 % longer make no step shorter."""
    clock = Insight("slower_clock", count=14, low=0.03, high=0.03)
    one = result("likely_regressed", seen(1_000, after, 8), insights=[clock])
    doubt = "Doubt: 14 kernels of equal grids take 3.0 % longer"
    assert any(line.startswith(doubt) for line in first.lines(with_words(one))) == said


# Advice that fits what was seen


@pytest.mark.parametrize(
    ("cause", "more", "said"),
    [
        (
            "host_work",
            {"where": {"range": "recv"}},
            "find what the thread waits for in recv: look at the process",
        ),
        (
            "host_work",
            {"where": {"range": "wait_for_batch"}},
            "find what the thread waits for in wait_for_batch",
        ),
        ("host_work", {"where": {"range": "_schedule"}}, "profile the host code in _schedule"),
        (
            "host_work",
            {"where": {"range": "respond"}, "facts": m.FindingFacts(without_gil=True)},
            "find what takes the time in respond: a lock, a queue, I/O, a sleep, or native code",
        ),
        ("host_work", {"where": {"range": "ncclReduceScatter"}}, "join messages"),
        (
            "host_work",
            {"where": {"range": "awaited"}},
            "profile the host code in awaited",
        ),  # a word of its own
        (
            "host_work",
            {"where": {"range": "outside any range, after wait"}},
            "profile the host code after wait",
        ),
        (  # as ncu calls it
            "kernel_time",
            {"where": {"kernels": m.Kernels(("ns::silu_kernel<4, 1>",))}},
            "profile the kernel on both sides in Nsight Compute (tracediff capture --ncu 'silu_kernel')",
        ),
        ("launch_api", {"where": {"api": "cudaGraphLaunch"}}, "one call launches each graph already"),
        ("launch_api", {"where": {"api": "cudaLaunchKernel"}}, "count the launches per step: CUDA graphs"),
        (
            "launch_api",
            {"where": {"api": "cudaMemcpyAsync"}, "facts": m.FindingFacts(copies=True)},
            "join copies",
        ),
        (
            "host_work",
            {"facts": m.FindingFacts(code_loads=m.CallFact("cuLibraryLoadData", 0.0, 1.0))},
            "find what loads code anew",
        ),
        (
            "host_work",
            {"host_speed_ns": 30.0 * US},
            "record both sides in turns on one machine (tracediff capture): up to 30.0 us of it may be a slower CPU",
        ),
        ("host_work", {"host_speed_ns": 20.0 * US}, "profile the host code"),  # less than half of it
        (  # no CPU makes calls
            "host_sync",
            {"host_speed_ns": 30.0 * US, "facts": m.FindingFacts(counted_calls=True)},
            "find what calls a synchronising function on the launching thread: remove it",
        ),
        (
            "host_work",
            {"where": {"thread": "loader"}},
            "profile the host code on the loader thread (for Python: py-spy)",
        ),
    ],
)
def test_advice_fits_the_cause(cause: str, more: dict[str, Any], said: str) -> None:
    one = finding(cause, 50.0, **more)
    (found,) = with_words(result("regressed", seen(1_000, 1_050, 8, one), one)).findings
    assert found.next.startswith(said), found.next


GEMM = {"where": {"kernels": m.Kernels(("nvjet_gemm",), ("sgemm_128x64",))}}
OF_TYPES = {"name": "gemm", "baseline_values": ["bf16"], "candidate_values": ["fp32"]}


@pytest.mark.parametrize(
    ("cause", "more", "row", "said"),
    [
        ("host_work", {}, counted("blocking", 0, 30, baseline_of=30, candidate_of=30), "unset CUDA_LAUNCH_BLOCKING"),
        ("host_work", {}, counted("blocking", 30, 0, baseline_of=30, candidate_of=30), "profile the host code"),
        ("host_work", {}, counted("ahead", 1, 0), "find out why the host no longer launches the next step before it waits for this one"),
        ("host_work", {}, counted("ahead", 0, 1), "profile the host code"),
        ("launch_api", {}, counted("graph_instantiations", 0, 1, name="cudaGraphExecUpdate"), "find why CUDA graphs are made anew"),
        ("launch_api", {}, counted("graph_instantiations", 1, 0, name="cudaGraphExecUpdate"), "count the launches per step"),
        ("kernel_time", GEMM, counted("dtype", 1, 1, **OF_TYPES), "find what makes these kernels compute in fp32: a weight, an input or a cast was bf16"),
        ("kernel_time", GEMM, counted("dtype", 1, 1, **OF_TYPES | {"baseline_values": ["tf32"]}), "find what changed the precision of matrix products: allow_tf32"),
        ("kernel_time", GEMM, counted("dtype", 1, 1, **OF_TYPES | {"name": "norm"}), "find out what selects these kernels"),
    ],
)  # fmt: skip
def test_advice_fits_what_differs_by_count(
    cause: str, more: dict[str, Any], row: m.StructureRow, said: str
) -> None:
    one = finding(cause, 50.0, **more)
    (found,) = with_words(
        msgspec.structs.replace(result("regressed", seen(1_000, 1_050, 8, one), one), structure=[row])
    ).findings
    assert found.next.startswith(said), found.next


def test_a_cause_is_called_alike_in_the_first_sentence_and_in_its_title() -> None:
    load = m.FindingFacts(code_loads=m.CallFact("cuLibraryLoadData", 1.0, 0.0, 80_000.0))
    one = finding("host_work", -50.0, facts=load)
    said = "host work around loading code (cuLibraryLoadData 1 -> 0 per step, itself 80.0 us)"
    assert title(one) == named(one) == said


def test_a_new_synchronisation_is_in_the_title_of_the_kernels_of_its_range() -> None:
    launched = m.FindingFacts(
        launched=m.CallFact("kernels", 600.0, 612.0),
        synchronised=m.CallFact("cudaStreamSynchronize", 0.0, 1.0),
    )
    one = finding("kernel_added", 140.0, where={"range": "optimizer"}, facts=launched)
    assert (
        title(one)
        == named(one)
        == ("600 -> 612 kernels per step in optimizer, and cudaStreamSynchronize 0 -> 1 times")
    )


def test_kernels_of_a_range_are_replaced_by_others_of_it_which_a_python_function_names_by_its_class() -> None:
    launched = m.FindingFacts(launched=m.CallFact("kernels", 208.0, 248.0), match="replaced")
    kernels = m.Kernels(("flash",), ("gemm", "softmax"))
    where = {"range": "transformers.generation.utils.Mixin.generate", "kernels": kernels}
    one = finding("kernel_time", 400.0, where=where, facts=launched)
    said = "208 -> 248 kernels per step in Mixin.generate, flash replaced by gemm and 1 more kernel"
    assert named(one) == title(one) == said
    assert named(finding("host_work", 1.0, where={"range": where["range"]})) == "host work in Mixin.generate"
    assert named(finding("host_work", 1.0, where={"range": "v1.5.3"})) == "host work in v1.5.3"


def test_the_only_kernel_that_a_range_launches_more_often_is_named() -> None:
    """16 of the range's 184 kernels: which they are is told where all are one kernel, not where another changed with it."""
    launched = m.FindingFacts(launched=m.CallFact("kernels", 168.0, 184.0), match="more")
    where = {"range": "layer", "kernels": m.Kernels(("direct_copy",))}
    one = finding("kernel_added", 140.0, where=where, facts=launched)
    assert named(one) == "168 -> 184 kernels per step in layer, more launches of direct_copy"
    parts = [
        m.FindingPart(
            "kernel_added", m.Where(kernels=m.Kernels((name,))), 70_000.0, 69_000.0, 71_000.0, "exact"
        )
        for name in ("direct_copy", "amax")
    ]
    assert named(msgspec.structs.replace(one, parts=parts)) == "168 -> 184 kernels per step in layer"
    # 90 of 140 us; amax went in favour of two others, which gain 50
    parts = [
        msgspec.structs.replace(parts[0], delta_ns=90_000.0),
        msgspec.structs.replace(parts[1], delta_ns=50_000.0, of={"amax": -10_000.0, "mul": 40_000.0, "silu": 20_000.0}),
    ]  # fmt: skip
    mixed = msgspec.structs.replace(
        one, parts=parts, where=m.Where(range="layer", kernels=m.Kernels(("amax",)))
    )
    assert named(mixed) == "168 -> 184 kernels per step in layer, most of it direct_copy"
    assert "--kernel 'direct_copy'" in advice(mixed)


@pytest.mark.parametrize(
    ("cause", "said"),
    [("kernel_added", "--kernel 'a*; date; *b'"), ("kernel_time", "--ncu 'a.*..date...*b'")],
)
def test_a_name_of_a_trace_ends_no_quote_of_a_command(cause, said) -> None:
    one = finding(cause, 100.0, where={"kernels": m.Kernels(("a'; date; 'b",))})
    assert said in advice(one)


def test_a_place_outside_any_range_is_no_range() -> None:
    outside = "outside any range, between sort and sort"
    one = finding(
        "launch_api", 9.0, where={"range": outside, "api": "cudaLaunchKernel", "thread": "executor"}
    )
    assert title(one) == "launch calls (time in cudaLaunchKernel) between two ranges sort"
    assert ("place", "between two ranges sort") in words.place(one.where)
    assert [name for name, _ in words.places(one)] == ["API", "thread"]  # the title says the place


def test_sides_of_the_same_files_are_one_capture() -> None:
    """Every time is identical as well where a program is emulated; only the fingerprint tells that it is the same file."""
    same = result("no_change", seen(1_000, 1_000, 8), verdict_facts=m.VerdictFacts("identical"))

    def told(*prints: str) -> str:
        sides = [
            msgspec.structs.replace(side, runs=[msgspec.structs.replace(side.runs[0], fingerprint=text)])
            for side, text in zip((same.inputs.baseline, same.inputs.candidate), prints, strict=True)
        ]
        inputs = msgspec.structs.replace(same.inputs, baseline=sides[0], candidate=sides[1])
        return first.what(msgspec.structs.replace(same, inputs=inputs))

    assert told("a1", "b2") == told("", "") == "Same with pr: every measured time is identical."
    assert (
        told("a1", "a1") == "Same with pr: both sides are one capture, and every measured time is identical."
    )


@pytest.mark.parametrize(
    ("check", "said"),
    [
        ("programs", "compare captures of one program"),
        ("graph_mode", "record both sides alike (--cuda-graph-trace=node)"),
        ("trace_sync", "record both sides alike (-t cuda)"),
    ],
)
def test_what_cannot_be_compared_says_what_can(check: str, said: str) -> None:
    failed = [
        m.Check(check, "fail", "node", "graph", "they differ"),
        m.Check("gpu", "fail", "A", "B", "other"),
    ]
    one = result(
        "not_comparable", seen(1_000, 1_100, 8), verdict_facts=m.VerdictFacts("checks"), comparability=m.Comparability(False, failed)
    )  # fmt: skip
    assert first.advice(one) == f"Next: {said}; --force sets these two side by side all the same."
    assert "interval" not in words.steps_note(one)
    # the first screen has said why: below stands what else differs
    assert words.problems(one) == [("fail", "gpu: other (baseline A, candidate B)")]


def test_who_can_record_collections_is_told_how() -> None:
    """The variable is TensorRT-LLM's own; in other programs it does nothing."""

    def missing(source: str) -> str:
        whole = sample.minimal()
        runs = [msgspec.structs.replace(run, step_source=source) for run in whole.inputs.baseline.runs]
        side = msgspec.structs.replace(whole.inputs.baseline, runs=runs)
        other = msgspec.structs.replace(
            whole.inputs.candidate,
            runs=[msgspec.structs.replace(run, step_source=source) for run in whole.inputs.candidate.runs],
        )
        inputs = msgspec.structs.replace(whole.inputs, baseline=side, candidate=other)
        return words.missing(msgspec.structs.replace(whole, inputs=inputs), "gc")

    assert missing("tensorrt-llm").endswith("Capture with TLLM_PROFILE_RECORD_GC=1 to see it.")
    assert missing("step-range").endswith(
        "Capture with an NVTX range called Python GC around each collection (gc.callbacks) to see it."
    )


def test_a_phase_of_first_uses_says_how_few_of_its_steps_are_typical() -> None:
    """Of the mixed steps 77 % have first uses: their typical step is one of the other 23 %."""
    found = [
        phase("generation", delta(955.0, 60.0, 30.0), "regressed"),
        phase("mixed", delta(4_567.0, 212.0, 400.0), "inconclusive"),
    ]
    found[1] = msgspec.structs.replace(found[1], start_share=0.77)
    assert words.typical(result("inconclusive", seen(955, 1_015, 60), phases=found)) == (
        "typical: mean without the shortest and the longest quarter of the steps; mixed: 77 % are warm-up (first launch of a kernel) and in the mean alone"
    )


def test_copies_are_counted_as_their_cause_counts_them() -> None:
    """Of 2 copies to the host one is to pageable memory: 31 more of these are 2 -> 33 copies, as the cause says."""
    row = counted("copies", 1, 32, name="[memcpy DtoH]", memory="pageable")
    one = finding("memcpy", 46.0, rank=2, level="exact", where={"kernels": m.Kernels(("[memcpy DtoH]",))})

    def said(before: float, after: float, row: m.StructureRow = row) -> str:
        evidence = msgspec.structs.replace(one.evidence, count_baseline=before, count_candidate=after)
        cause = msgspec.structs.replace(one, evidence=evidence)
        return headline(result("regressed", seen(1_000, 1_092, 8), cause, structure=[row])).counts

    assert said(2, 33) == "By count: memcpy DtoH 2 -> 33 (+46.0 us)."
    assert said(1, 32) == said(4, 30) == "By count: memcpy DtoH (pageable) 1 -> 32 (+46.0 us)."
    ends = {"baseline_values": ["0", "1"], "candidate_values": ["31", "32"], "varies": True}
    some = counted("copies", 1, 32, name="[memcpy DtoH]", memory="pageable", **ends)
    assert said(2, 33, some) == "By count: memcpy DtoH (pageable) 0-1 -> 31-32 (+46.0 us)."  # its own
    # kernels that went with them took longer: 31 more copies do not take 46 us less
    other = m.Kernels(("mul",), ("[memcpy DtoH]",))
    one = finding("kernel_time", -46.0, rank=2, level="exact", where={"kernels": other})
    assert said(2, 33, some) == "By count: memcpy DtoH (pageable) 0-1 -> 31-32."


def test_launches_that_a_cause_counts_are_not_counted_again_among_all() -> None:
    """Of 2,551 kernels 2,318 are those of the cause: 2,304 more of these are all that came. A range says where, and stays."""
    kernels, evidence = (
        m.Kernels(("gemm",)),
        m.FindingEvidence("", [], count_baseline=2_318, count_candidate=4_622),
    )
    cause = msgspec.structs.replace(
        finding("kernel_added", 92.0, where={"kernels": kernels}), evidence=evidence
    )
    rows = [counted("kernels", 2_551, 4_855), counted("kernels", 2_551, 4_856)]

    def said(*rows: m.StructureRow) -> str:
        return headline(result("regressed", seen(1_000, 1_092, 8, cause), cause, structure=list(rows))).counts

    assert [said(one) for one in rows] == ["", "By count: 2,551 -> 4,856 kernels per step."]
    there = msgspec.structs.replace(rows[0], range="forward")
    assert said(there) == "By count: 2,551 -> 4,855 kernels per step in forward."


def test_parts_of_kernels_that_went_both_ways_stand_in_the_brackets_of_their_names() -> None:
    parts = [
        m.FindingPart(
            "kernel_time", m.Where(kernels=m.Kernels((name,), ())), us * US, us * US, us * US, "exact"
        )
        for name, us in (("silu", -160.0), ("mul", 100.0))
    ]
    one = finding("kernel_time", -60.0, parts=parts, where={"kernels": m.Kernels(("silu", "mul"), ())})
    said = headline(result("improved", seen(1_000, 940, 8, one), one)).why
    assert said.endswith("faster kernels (silu and mul: silu -160.00 us, mul +100.00 us).")

"""The first sentence of a comparison and those after it, from facts that are made by hand; the sentences are written by hand too."""

from __future__ import annotations

from typing import Any

import msgspec
from tracediff.report.headline import headline, reason

from tests.report import sample
from tracediff import model as m
from tracediff.companions.model import Result
from tracediff.report import words
from tracediff.report.causes import named, spoken, title
from tracediff.report.phrases import power_note, with_words

US = 1_000.0


def delta(base: float, change: float, half: float, **more: Any) -> m.Delta:
    """Times in us; `detectable_ns` is 1.5 times the half-width."""
    return m.Delta(
        base * US, (base + change) * US, change * US, (change - half) * US, (change + half) * US, detectable_ns=1.5 * half * US, **more
    )  # fmt: skip


def phase(name: str, typical: m.Delta, verdict: m.Verdict, **more: Any) -> m.Phase:
    fields: dict[str, Any] = {"share": 0.5, "judged": True, "tail": delta(0.0, 0.0, 1.0)} | more
    return m.Phase(name, None, verdict=verdict, typical=typical, **fields)


def finding(cause: str, change: float, phase: str = "generation", **more: Any) -> m.Finding:
    """A confirmed cause, us, +-1 us; `where`, `level`, `share` and the rest as given. What is within noise is +-300 us."""
    where = msgspec.structs.replace(m.Where(**more.pop("where", {})), phase=phase)
    fields: dict[str, Any] = {"level": "confirmed", "share": None, "held": m.Held(5, 5)} | more
    half = 300 if fields["level"] == "within_noise" else 1
    return m.Finding(
        rank=1, cause=cause, delta_ns=change * US, ci_low_ns=(change - half) * US, ci_high_ns=(change + half) * US, title="",
        where=where, evidence=m.FindingEvidence("", []), next="", baseline_ns=0.0, candidate_ns=change * US, **fields,
    )  # fmt: skip


def result(
    verdict: m.Verdict, facts: m.VerdictFacts, phases: list[m.Phase], findings: list[m.Finding], **more: Any
) -> Result:
    whole = sample.full()
    step = msgspec.structs.replace(whole.step, time_share=more.pop("time_share", m.Shares(1.0, 1.0)))
    step = msgspec.structs.replace(step, runs=more.pop("runs", m.Pair(5, 5)))
    findings = [msgspec.structs.replace(one, rank=number) for number, one in enumerate(findings, 1)]
    return msgspec.structs.replace(
        whole, verdict=verdict, verdict_facts=facts, phases=phases, findings=findings, step=step, **more
    )


SCHEDULE = {"where": {"range": "_schedule", "thread": "executor"}}
GENERATION = phase("generation", delta(1_000.0, 92.0, 8.0), "regressed")
NOISY = phase("mixed", delta(5_000.0, 40.0, 400.0), "inconclusive")


def test_regressed_by_one_cause_that_is_in_another_phase_too() -> None:
    """88.6 of 92 us are all of it; mixed steps are too noisy for a verdict, not for the cause."""
    cause = finding(
        "host_work", 88.6, share=0.963, phases=[m.PhaseDelta("mixed", "typical", 88_000, 80_000, 96_000, "confirmed")], **SCHEDULE
    )  # fmt: skip
    one = result("regressed", m.VerdictFacts("phase", "generation"), [GENERATION, NOISY], [cause])
    found = headline(one)
    assert (
        found.text
        == "Regressed: +92.0 us (+9.2 %) per generation step, all of it from host work in _schedule."
    )
    assert (found.cause, found.delta_ns, found.level, found.phase) == (
        "host_work",
        92_000,
        "confirmed",
        "generation",
    )
    assert reason(one) == "The same cause is +88.0 us per mixed step, whose total is too noisy for a verdict."
    few = msgspec.structs.replace(cause, phases=[], held=m.Held(5, 4, ["pr_r2.sqlite"]))
    assert (
        reason(msgspec.structs.replace(one, findings=[few]))
        == "Host work in _schedule shows in 4 of 5 runs, not in pr_r2."
    )


def test_most_of_a_change_is_said_with_its_size() -> None:
    wait = finding(
        "gil_wait",
        354.0,
        "step",
        share=0.827,
        where={"thread": "loop", "holder_thread": "thread without ranges"},
    )
    one = result(
        "regressed", m.VerdictFacts("phase", "step"), [phase("step", delta(5_944.0, 428.0, 109.0), "regressed")], [wait]
    )  # fmt: skip
    assert headline(one).text == (
        "Regressed: +428 us (+7.2 %) per step, most of it (354 us) from waiting for the GIL held by an unnamed thread."
    )


def test_what_goes_the_other_way_and_a_larger_estimate_that_is_unsure() -> None:
    rows = [
        finding("host_work", 150.0, share=1.63, **SCHEDULE),
        finding("launch_api", -40.0, share=-0.43, where={"range": "forward"}),
        finding("host_sync", 200.0, share=2.2, level="within_noise", where={"range": "sample"}),
    ]
    one = result("regressed", m.VerdictFacts("phase", "generation"), [GENERATION, NOISY], rows)
    assert headline(one).text == (
        "Regressed: +92.0 us (+9.2 %) per generation step; host work in _schedule adds 150 us, while launch overhead in forward"
        " takes 40.0 us off; the largest estimate, GPU idle after synchronisation in sample (+200 us), is within noise."
    )


def test_a_change_without_a_certain_cause() -> None:
    rows = [
        finding("kernel_removed", 27.4, share=-0.09, where={"kernel": "gemm_a"}),
        finding("host_work", -60.0, share=0.65, level="within_noise", **SCHEDULE),
    ]
    faster = phase("generation", delta(1_000.0, -92.0, 8.0), "improved")
    one = result("improved", m.VerdictFacts("phase", "generation"), [faster, NOISY], rows)
    assert headline(one).text == (
        "Improved: -92.0 us (-9.2 %) per generation step, no cause of it is certain; the largest estimate,"
        " host work in _schedule (-60.0 us), is within noise."
    )
    assert reason(one).startswith("Only fewer launches of gemm_a are certain: +27.4 us per generation step.")


def test_a_change_that_hosts_of_unknown_speed_may_make() -> None:
    """92 us more host work of 500; of these 60 us are new in one place in the second case, and 32 of 92 may be the host's."""
    books = m.Accounting({"host_work": 500 * US}, {"host_work": 592 * US}, {"host_work": 92 * US}, 0)
    said = "; most of it may be the speed of the hosts, which is not known."
    for speed, new, unknown in ((None, 0.0, True), (None, 60.0, False), (1.0, 0.0, False)):
        slower = msgspec.structs.replace(GENERATION, accounting=books, host_speed=speed)
        rows = [finding("host_work", new, **SCHEDULE)] if new else []
        one = result("regressed", m.VerdictFacts("phase", "generation"), [slower, NOISY], rows)
        assert headline(one).text.endswith(said) is unknown


def fused(phase: str, own: float, gemm: float, silu: float, launches: float, level: m.Evidence) -> m.Finding:
    """GEMMs of which two become one, silu that gets slower with them, and host work that follows, us."""
    rows = [
        ("kernel_fused", "2 x nvjet_sm90_tst_64x16_TNT -> nvjet_sm90_tst_128x16_TNT", gemm, "exact", False),
        ("kernel_time", "vectorized_elementwise_kernel<silu_kernel> -> elementwise_kernel<silu_kernel>", silu, "exact", False),
        ("host_work", None, launches, level, True),
    ]  # fmt: skip
    parts = [
        m.FindingPart(cause, m.Where(kernel=kernel), size * US, size * US, size * US, sure, follows)
        for cause, kernel, size, sure, follows in rows
        if size
    ]
    where = {"kernel": "2 x nvjet_sm90_tst_64x16_TNT -> nvjet_sm90_tst_128x16_TNT"}
    return finding("kernel_fused", own + launches, phase, where=where, level="exact", parts=parts, share=0.01)


def test_the_same_kernel_in_another_launch_shape_is_not_replaced() -> None:
    facts = m.FindingFacts(match="name", baseline_mean_ns=4_060.0, candidate_mean_ns=33_830.0)
    one = finding("kernel_time", 186.0, where={"kernel": "copy_kernel"}, facts=facts)
    evidence = msgspec.structs.replace(one.evidence, count_baseline=6.27, count_candidate=6.27)
    assert title(msgspec.structs.replace(one, evidence=evidence)) == (
        "copy_kernel in another launch shape: 4.06 -> 33.83 us each, 6.27 per step"
    )
    assert named(one) == "slower copy kernels"


def test_copies_are_written_without_brackets_wherever_they_stand() -> None:
    where = {"kernel": "2 x [memcpy DtoH] + [memset] -> [memcpy HtoD]"}
    one = finding("memcpy", 3.0, where=where, facts=m.FindingFacts(match="sequence"))
    evidence = msgspec.structs.replace(one.evidence, count_baseline=8.0, count_candidate=4.0)
    assert title(msgspec.structs.replace(one, evidence=evidence)) == (
        "2 x memcpy DtoH + memset -> memcpy HtoD: 8 -> 4 per step"
    )
    assert spoken("2 x [memcpy DtoH] + [memset]") == "memcpy DtoH and memset"


def test_a_cause_of_a_sliver_of_the_change_is_not_named_for_it() -> None:
    """-216 us of -36 ms are 0.6 %: nothing that anybody asked for."""
    fusion = finding(
        "kernel_fused",
        -216.0,
        "step",
        level="exact",
        share=0.006,
        where={"kernel": "cudnn_a + cudnn_b -> cudnn_c"},
    )
    waiting = finding("host_work", -30_000.0, "step", level="likely", share=0.83, **SCHEDULE)
    faster = phase("step", delta(90_000.0, -36_000.0, 8_000.0), "likely_improved")
    facts = m.VerdictFacts("phase", "step")
    one = result("likely_improved", facts, [faster], [fusion, waiting], runs=m.Pair(1, 1))
    assert headline(one).text == (
        "Likely improved: -36.0 ms (-40.0 %) per step, most of it (30.0 ms) from host work in _schedule."
    )
    unsure = msgspec.structs.replace(waiting, level="within_noise", ci_high_ns=10.0 * US)
    one = result("likely_improved", facts, [faster], [fusion, unsure], runs=m.Pair(1, 1))
    assert headline(one).text == (
        "Likely improved: -36.0 ms (-40.0 %) per step, certain causes explain less than 5 % of it; the largest estimate,"
        " host work in _schedule (-30.0 ms), is within noise."
    )
    assert headline(one).cause == ""
    beyond = msgspec.structs.replace(unsure, ci_high_ns=-10.0 * US)  # one of many places, so not certain
    one = result("likely_improved", facts, [faster], [fusion, beyond], runs=m.Pair(1, 1))
    assert headline(one).text.endswith("; the largest estimate is host work in _schedule (-30.0 ms).")
    alone = result("likely_improved", facts, [faster], [fusion], runs=m.Pair(1, 1))
    assert headline(alone).text.endswith("per step, certain causes explain less than 5 % of it.")


def test_a_cause_explains_what_follows_from_it() -> None:
    """-2 us of kernels and -270 us of launches are 272 of 284 us: 96 %, but -270 us alone are within noise."""
    faster = phase("mixed", delta(5_100.0, -284.0, 181.0), "improved")
    calm = phase("generation", delta(1_000.0, -12.0, 24.0), "inconclusive")
    rows = [
        fused("mixed", -2.0, -50.0, 48.0, -270.0, "within_noise"),
        fused("generation", -1.3, -22.1, 20.8, 0.0, "exact"),
    ]
    one = result("improved", m.VerdictFacts("phase", "mixed"), [faster, calm], rows)
    assert headline(one).text == (
        "Improved: -284 us (-5.6 %) per mixed step, likely most of it (272 us) from fused GEMMs and the launches that they save."
    )
    assert reason(one) == (
        "Generation shows no certain change (-12.0 us ± 24.0 us per step): fused GEMMs -22.1 us, but +20.8 us in silu."
        " The kernels themselves: -50.0 us, but +48.0 us in silu."
    )
    sure = [fused("mixed", -2.0, -50.0, 48.0, -270.0, "confirmed")]
    assert headline(msgspec.structs.replace(one, findings=sure)).text.endswith(
        "per mixed step, all of it from fused GEMMs and the launches that they save."
    )


def test_the_second_cause_is_named_where_the_first_explains_less_than_half() -> None:
    """32 of 107 us are 30 %, and 18 us are 17 %; 9 us are less than a tenth."""
    rows = [
        finding("memcpy", 32.0, share=0.3, where={"kernel": "[memcpy HtoD]"}, level="exact"),
        finding("host_work", 18.0, share=0.17, **SCHEDULE),
        finding("gil_wait", 9.0, share=0.08),
    ]
    slower = phase("generation", delta(1_000.0, 107.0, 30.0), "regressed")
    one = result("regressed", m.VerdictFacts("phase", "generation"), [slower, NOISY], rows)
    assert headline(one).text.endswith(
        "generation step, 32.0 us of it from memcpy HtoD, 18.0 us from host work in _schedule."
    )
    less = msgspec.structs.replace(one, findings=[rows[0], rows[2]])
    assert headline(less).text.endswith("generation step, 32.0 us of it from memcpy HtoD.")


def test_certain_causes_carry_the_verdict_of_a_noisy_total() -> None:
    noisy = phase("step", delta(4_000.0, -290.0, 650.0), "inconclusive")
    cause = finding(
        "host_work", 118.0, "step", share=-0.4, where={"range": "outside any range, between one and two"}
    )
    one = result("regressed", m.VerdictFacts("part", "step", 118_000.0), [noisy], [cause])
    assert headline(one).text == (
        "Regressed by un-annotated host code between one and two: +118 us (+3.0 %) per step; the total, -290 us ± 650 us,"
        " is too noisy to show it."
    )


def test_rare_steps() -> None:
    collects = finding(
        "gc", 5_900.0, part="tail", share=0.8, facts=m.FindingFacts(rare=m.RareFact(0.0, 5.0, 70.2, 69.8, 0.0)), **SCHEDULE
    )  # fmt: skip
    calm = phase("generation", delta(1_000.0, 1.0, 8.0), "no_change", tail=delta(0.0, 6_100.0, 900.0))
    one = result("regressed", m.VerdictFacts("rare", "generation", 5_900_000.0), [calm, NOISY], [collects])
    assert headline(one).text == (
        "Regressed in rare steps: +5.90 ms per mean generation step, all of it from Python GC in _schedule"
        " (in 5 of about 70 generation steps per run, none before); the typical generation step is unchanged."
    )


def test_rare_steps_whose_total_is_another_than_that_of_their_certain_causes() -> None:
    """164 us are 46 % less than 302 us."""
    rare = m.FindingFacts(rare=m.RareFact(0.0, 14.0, 75.0, 68.0, 0.0))
    waits = finding(
        "gil_wait",
        302.0,
        part="tail",
        facts=rare,
        where={"thread": "loop", "holder_thread": "thread without ranges"},
    )
    calm = phase("generation", delta(3_500.0, -11.0, 113.0), "inconclusive", tail=delta(170.0, 164.0, 122.0))
    one = result("regressed", m.VerdictFacts("rare", "generation", 302_000.0), [calm, NOISY], [waits])
    assert headline(one).text == (
        "Regressed in rare steps: waiting for the GIL held by an unnamed thread adds 302 us per mean generation step (in 14 of about 68"
        " generation steps per run, none before); all that rare steps add is +164 us ± 122 us; the typical generation step does not"
        " change beyond noise."
    )


def test_rare_steps_of_the_phase_that_users_feel_first() -> None:
    """The verdict is of mixed steps; 9 us are less than a hundredth of a generation step."""
    slower = phase("mixed", delta(4_600.0, 727.0, 387.0), "likely_regressed")
    calm = phase("generation", delta(1_000.0, 1.0, 34.0), "inconclusive")
    rows = [finding("gc", 226.0, part="tail", level="likely", **SCHEDULE)]
    one = result("likely_regressed", m.VerdictFacts("phase", "mixed"), [slower, calm], rows)
    assert headline(one).text == (
        "Likely regressed: +727 us (+15.8 %) per mixed step, no cause of it is certain."
    )
    assert (
        reason(one)
        == "Rare generation steps add +226 us per mean generation step, likely: Python GC in _schedule."
    )
    small = [finding("gc", 9.0, part="tail", level="likely", **SCHEDULE)]
    assert reason(msgspec.structs.replace(one, findings=small)) == ""


def test_rare_steps_without_a_certain_cause() -> None:
    """One run a side: the interval of the typical step is a quarter of it, so nobody knows that it is unchanged."""
    rare = m.FindingFacts(rare=m.RareFact(0.0, 6.0, 28.0, 28.0, 0.0))
    rows = [
        finding("gc", 13_200.0, part="tail", level="within_noise", facts=rare, **SCHEDULE),
        finding("host_work", 2_500.0, part="tail", level="within_noise", **SCHEDULE),
    ]
    calm = phase("generation", delta(1_000.0, -54.0, 241.0), "no_change")
    one = result("likely_regressed", m.VerdictFacts("rare", "generation", 15_800_000.0), [calm, NOISY], rows)
    assert headline(one).text == (
        "Likely regressed in rare steps: +15.8 ms per mean generation step, no cause of it is certain; the largest estimate is"
        " Python GC in _schedule (+13.2 ms), in 6 of about 28 generation steps per run, none before;"
        " the typical generation step does not change beyond noise."
    )


def test_no_percentage_of_a_step_that_the_interval_exceeds() -> None:
    """± 15.7 ms of a step of 1 ms; what the runs can show is 1.5 times that."""
    noisy = phase("generation", delta(1_000.0, 11_500.0, 15_700.0), "inconclusive")
    one = result("inconclusive", m.VerdictFacts("scatter", "generation"), [noisy], [])
    assert headline(one).text == (
        "Inconclusive: generation +11.5 ms ± 15.7 ms; a generation change below 23.6 ms would not show."
    )


def test_an_interval_without_zero_is_not_yet_a_verdict() -> None:
    """-52 of 1,000 us are -5.2 %, 47 us are 4.7 %: with few runs chance goes so far."""
    faster = phase("generation", delta(1_000.0, -52.0, 47.0), "inconclusive")
    facts = m.VerdictFacts("scatter", "generation")
    one = result("inconclusive", facts, [faster], [], runs=m.Pair(3, 4))
    said = "Inconclusive: generation -5.2 % ± 4.7 %; this may still be chance"
    assert headline(one).text == f"{said}: record 5 runs per side."
    assert headline(result("inconclusive", facts, [faster], [])).text == f"{said}."


def test_no_change() -> None:
    """-7 of 1,000 us are -0.7 %, 24 us are 2.4 %."""
    one = phase("generation", delta(1_000.0, -7.0, 24.0, host_speed_ns=-30_000.0), "no_change", share=0.6)
    other = phase("mixed", delta(5_000.0, -130.0, 250.0), "no_change", share=0.4)
    same = result("no_change", m.VerdictFacts("same", "generation"), [other, one], [])
    assert headline(same).text == (
        "No change found: generation -0.7 % ± 2.4 %, mixed -2.6 % ± 5.0 % at equal host speed."
    )
    assert reason(same) == ""


def test_kernels_that_gain_as_much_as_others_lose() -> None:
    parts = [
        m.FindingPart(
            "kernel_fused", m.Where(kernel="2 x gemm_a -> gemm_b"), -22_100, -22_600, -21_600, "exact"
        ),
        m.FindingPart(
            "kernel_time", m.Where(kernel="silu -> slow_silu"), 20_800, 20_300, 21_300, "confirmed"
        ),
    ]
    fused = finding(
        "kernel_fused", -1.3, where={"kernel": "2 x gemm_a -> gemm_b"}, level="exact", parts=parts
    )
    calm = phase("generation", delta(1_000.0, -7.0, 24.0), "no_change")
    one = result("no_change", m.VerdictFacts("same", "generation", moved=True), [calm, NOISY], [fused])
    assert headline(one).text == (
        "No change found: generation -0.7 % ± 2.4 %, mixed +0.8 % ± 8.0 %;"
        " certain: fused gemm_a kernels -1.30 us net per generation step (-22.1 us, but +20.8 us in silu)."
    )
    open_ended = msgspec.structs.replace(
        fused, ci_low_ns=-3_300.0, ci_high_ns=700.0
    )  # their number is certain
    unsure = msgspec.structs.replace(one, findings=[open_ended])
    assert "fused gemm_a kernels -1.30 us ± 2.00 us net per generation step (-22.1" in headline(unsure).text
    assert headline(one).cause == "kernel_fused"
    assert reason(one) == "The step as a whole may not gain or lose that time."
    small = finding("host_work", 4.0, **SCHEDULE)
    another = msgspec.structs.replace(one, findings=[small])
    assert headline(another).text == "No change found: generation -0.7 % ± 2.4 %, mixed +0.8 % ± 8.0 %."
    assert reason(another) == (
        "Certain: host work in _schedule +4.00 us per generation step."
        " The step as a whole may not gain or lose that time."
    )


def test_identical() -> None:
    one = result("no_change", m.VerdictFacts("identical"), [GENERATION], [])
    assert headline(one).text == "No change found: both sides are identical."
    assert reason(one) == ""


def test_inconclusive_says_what_the_runs_could_have_shown() -> None:
    """detectable is 1.5 * 22 of 1,000 us."""
    noisy = phase("generation", delta(1_000.0, -9.0, 22.0), "inconclusive")
    one = result("inconclusive", m.VerdictFacts("scatter", "generation"), [noisy], [])
    assert headline(one).text == (
        "Inconclusive: generation -0.9 % ± 2.2 %; a generation change below 3.3 % would not show."
    )


def test_of_one_run_a_side_the_likely_cause_of_a_step_that_scatters_comes_first() -> None:
    likely = finding("host_work", 62.0, level="likely", **SCHEDULE)
    still = phase("generation", delta(1_000.0, 10.0, 200.0), "inconclusive")
    facts, phases = m.VerdictFacts("scatter", "generation"), [still, NOISY]
    scatter = (
        "generation +1.0 % ± 20.0 %, mixed +0.8 % ± 8.0 %; a generation change below 30.0 % would not show."
    )
    found = headline(result("inconclusive", facts, phases, [likely], runs=m.Pair(1, 1)))
    assert (
        found.text == f"Inconclusive; likely: host work in _schedule +62.0 us per generation step; {scatter}"
    )
    assert (found.cause, found.level) == ("host_work", "likely")
    five = result("inconclusive", facts, phases, [likely])  # they could have made it certain
    assert headline(five).text == f"Inconclusive: {scatter}"
    assert reason(five).startswith("Likely: host work in _schedule +62.0 us per generation step.")


def test_only_the_hosts_differ() -> None:
    noisy = phase(
        "generation", delta(1_000.0, 3.0, 10.0, host_speed_ns=72_000.0), "no_change", host_speed=1.08
    )
    one = result("no_change", m.VerdictFacts("same", "generation", host=True), [noisy], [])
    assert headline(one).text == (
        "No change found: the candidate's host was 8 % slower in short CUDA calls (machine or contention);"
        " at equal host speed generation +0.3 % ± 1.0 %."
    )


def test_another_speed_of_the_host_is_said_in_any_case() -> None:
    fast = phase(
        "generation", delta(1_000.0, 92.0, 8.0, host_speed_ns=-22_500.0), "regressed", host_speed=0.9
    )
    one = result("regressed", m.VerdictFacts("phase", "generation"), [fast, NOISY], [])
    assert reason(one) == (
        "Short CUDA calls took 10 % less time on the candidate's host; the 22.5 us per generation step that this explains are not"
        " in the change (if the change itself loads the CPU, they belong to it)."
    )
    near = msgspec.structs.replace(fast, host_speed=0.98)
    assert reason(msgspec.structs.replace(one, phases=[near, NOISY])) == ""


def test_not_comparable() -> None:
    checks = [m.Check("gpu", "fail", "A100", "H200", "the sides ran on other GPUs")]
    one = result(
        "not_comparable",
        m.VerdictFacts("checks"),
        [GENERATION],
        [],
        comparability=m.Comparability(False, checks),
    )
    assert headline(one).text == "Not comparable: the sides ran on other GPUs (gpu)."
    assert reason(one) == "gpu: A100 against H200: the sides ran on other GPUs."


def test_a_comparison_of_the_smaller_part_says_so_first() -> None:
    one = result(
        "regressed",
        m.VerdictFacts("phase", "generation"),
        [GENERATION, NOISY],
        [],
        time_share=m.Shares(0.36, 0.9),
    )
    # the sample's raw means: 1,419.1 and 1,560.7 us
    assert headline(one).text.startswith(
        "Regressed: the mean of all steps goes from 1.42 ms to 1.56 ms (+10.0 %); in the compared part (36 % of the "
        "baseline's step time), +92.0 us (+9.2 %) per generation step"
    )
    assert "workloads that both sides have: generation step" in reason(one)


def test_one_run_a_side_is_likely_at_best() -> None:
    likely = finding("host_work", 88.6, share=0.963, level="likely", held=m.Held(1, 1), **SCHEDULE)
    slower = msgspec.structs.replace(GENERATION, verdict="likely_regressed")
    facts = m.VerdictFacts("phase", "generation")
    one = result("likely_regressed", facts, [slower, NOISY], [likely], runs=m.Pair(1, 1))
    assert headline(one).text == (
        "Likely regressed: +92.0 us (+9.2 %) per generation step, all of it from host work in _schedule."
    )
    assert (
        reason(one)
        == "With one run on a side run-to-run noise is not measured: the interval assumes the usual one."
    )
    two = result("likely_regressed", facts, [slower, NOISY], [likely], runs=m.Pair(2, 2))
    assert reason(two).endswith("2 runs per side are too few to confirm it: record 5.")


def test_a_likely_cause_of_a_certain_change_is_not_said_to_be_certain() -> None:
    likely = finding("host_work", 88.6, share=0.963, level="likely", **SCHEDULE)
    one = result("regressed", m.VerdictFacts("phase", "generation"), [GENERATION, NOISY], [likely])
    assert headline(one).text.endswith("per generation step, likely all of it from host work in _schedule.")


def test_graphs_that_no_longer_launch() -> None:
    """1,330 of 1,700 us are 78 %."""
    slower = phase("generation", delta(1_000.0, 1_700.0, 100.0), "regressed")
    facts = m.VerdictFacts("phase", "generation")
    side = sample.full().launch.candidate
    launch = msgspec.structs.replace(
        sample.full().launch, candidate=msgspec.structs.replace(side, graph_coverage=0.0)
    )
    coverage = m.FindingFacts(graph_coverage=m.Shares(0.98, 0.0))
    cause = finding("launch_api", 1_330.0, facts=coverage, **SCHEDULE)
    one = result("regressed", facts, [slower, NOISY], [cause], launch=launch)
    assert title(cause) == "CUDA graphs launch 98 -> 0 % of the kernels in _schedule"
    assert headline(one).text == (
        "Regressed: +1.70 ms (+170 %) per generation step, most of it (1.33 ms) because CUDA graphs no longer launch the kernels."
    )


def test_rare_steps_that_cost_as_much_are_in_the_first_sentence() -> None:
    """Half of 92 us is 46 us."""
    work = finding("host_work", 90.0, share=0.98, **SCHEDULE)
    collections = finding("gc", 232.0, part="tail", **SCHEDULE)
    one = result("regressed", m.VerdictFacts("phase", "generation"), [GENERATION, NOISY], [collections, work])
    assert headline(one).text == (
        "Regressed: +92.0 us (+9.2 %) per generation step, all of it from host work in _schedule;"
        " rare steps add +232 us per mean generation step (Python GC in _schedule)."
    )
    assert "are steps add" not in reason(one)
    small = msgspec.structs.replace(collections, delta_ns=45_000.0)
    one = msgspec.structs.replace(one, findings=[work, small])
    assert "rare" not in headline(one).text
    assert "Rare steps add +45.0 us per mean generation step: Python GC in _schedule." in reason(one)


def test_rare_steps_are_counted_in_all_runs() -> None:
    """One of 118 steps in one of three runs, 12 and 13 of 118 in two."""
    rare = finding("gc", 50.0, part="tail", facts=m.FindingFacts(rare=m.RareFact(1 / 3, 12.5, 118, 118, 0)))
    evidence = m.FindingEvidence("", [], runs_baseline_ns=[0, 0, 1], runs_candidate_ns=[9, 9])
    rare = msgspec.structs.replace(rare, evidence=evidence)
    one = result("regressed", m.VerdictFacts("rare", "generation"), [GENERATION, NOISY], [rare])
    note = with_words(one).findings[0].note
    assert note.startswith("Steps that have it: 1 of 354 on the baseline, 25 of 236 on the candidate;")


def test_of_a_cause_that_is_unsure_for_what_follows_the_certain_part_is_named() -> None:
    """-22 + 20 us of kernels are counted; -26 us of launches may be noise."""
    both = fused("generation", -2.0, -22.0, 20.0, -26.0, "within_noise")
    calm = phase("generation", delta(1_000.0, -7.0, 34.0), "inconclusive")
    unsure = msgspec.structs.replace(both, level="likely")
    one = result("inconclusive", m.VerdictFacts("scatter", "generation"), [calm, NOISY], [unsure])
    assert headline(one).text.startswith(
        "Inconclusive; certain: fused GEMMs -2.00 us net per generation step (-22.0 us, but +20.0 us in silu); generation -0.7 %"
    )


def test_a_rank_that_is_late_is_not_a_part_of_a_mean_over_ranks() -> None:
    late = finding("host_work", 302.0, share=0.51, where={"range": "_schedule", "rank": 1})
    one = result("regressed", m.VerdictFacts("phase", "generation"), [GENERATION, NOISY], [late])
    assert headline(one).text.endswith("per generation step; host work in _schedule on rank 1: +302 us.")


def test_runs_that_lie_apart_are_named_with_their_difference() -> None:
    odd = m.OddRun("candidate", "pr_r3.sqlite", 101_000.0, "host_work", 98_000.0, 1.08)
    one = result(
        "regressed", m.VerdictFacts("phase", "generation"), [msgspec.structs.replace(GENERATION, odd_runs=[odd]), NOISY], []
    )  # fmt: skip
    assert reason(one) == (
        "Run pr_r3 of the candidate lies 101 us per generation step above the others at equal host speed: host work +98.0 us,"
        " and its CUDA calls are 8 % slower."
    )
    slow = m.OddRun("baseline", "main_r1.sqlite", 9_700.0, "launch_api", 11_900.0, 2.36, left_out=True)
    phases = [msgspec.structs.replace(GENERATION, odd_runs=[slow]), NOISY]
    assert reason(msgspec.structs.replace(one, phases=phases)) == (
        "Run main_r1 of the baseline is left out: its CUDA calls are 136 % slower than those of the other runs."
    )


def test_in_how_many_runs_a_cause_holds() -> None:
    """The candidate's runs are pr_r0 to pr_r4."""
    one = result("regressed", m.VerdictFacts("phase", "generation"), [GENERATION], [])
    every = [f"pr_r{number}.sqlite" for number in range(5)]
    for held, said in (
        (m.Held(5, 5), "in all 5 runs"),
        (m.Held(5, 4, every[2:3]), "in 4 of 5 runs, not in pr_r2"),
        (m.Held(5, 1, [*every[:3], every[4]]), "in 1 of 5 runs: pr_r3"),
        (m.Held(4, 5, ["main_r1.sqlite"]), "in all 5 runs, and in main_r1 of the baseline"),
    ):
        assert words.held(one, finding("host_work", 1.0, held=held, **SCHEDULE)) == said
    apart = m.OddRun("candidate", "pr_r4.sqlite", 400_000.0, "host_work", 400_000.0, left_out=True)
    less = msgspec.structs.replace(GENERATION, runs=m.Pair(5, 4), odd_runs=[apart])
    without = msgspec.structs.replace(one, phases=[less])
    assert words.held(without, finding("host_work", 1.0, held=m.Held(5, 4), **SCHEDULE)) == "in all 4 runs"
    few = finding("host_work", 1.0, held=m.Held(5, 1, every[1:4]), **SCHEDULE)
    assert words.held(without, few) == "in 1 of 4 runs: pr_r0"
    assert reason(without).endswith(
        "above the others at equal host speed: host work +400 us; it is left out."
    )
    single = result("regressed", m.VerdictFacts(), [GENERATION], [], runs=m.Pair(1, 5))
    assert words.held(single, finding("host_work", 1.0, **SCHEDULE)) == ""


def test_titles() -> None:
    wait = finding(
        "gil_wait", 1.0, where={"thread": "executor", "holder_thread": "await", "holder_range": "send"}
    )
    assert title(wait) == "GPU idle: the executor thread waits for the GIL, held by the await thread in send"
    assert named(wait) == "waiting for the GIL held by the await thread in send"
    launch = finding("launch_api", 1.0, where={"range": "forward", "api": "cudaGraphLaunch"})
    assert title(launch) == "launch overhead (time in cudaGraphLaunch) in forward"
    for call, said in (("cudaMemsetAsync", "memset calls"), ("cudaMemcpyAsync", "copying calls")):
        calls = finding(
            "launch_api", 1.0, where={"range": "forward", "api": call}, facts=m.FindingFacts(copies=True)
        )
        assert title(calls) == f"{said} (time in {call}) in forward" and named(calls) == f"{said} in forward"
    copy = finding("memcpy", 1.0, where={"kernel": "[memcpy HtoD] -> cast"})
    assert named(copy) == "memcpy HtoD"
    many = finding(
        "kernel_time", 1.0, where={"kernel": "a + b + c + d + e -> f"}, facts=m.FindingFacts(match="sequence")
    )
    assert title(many).startswith("kernel replaced: a + b + c + 2 more -> f")
    generated = {
        "nvjet_sm90_tst_64x16_64x16_4x1_v_bz_TNT": "GEMM",
        "2 x nvjet_sm90_tst_64x16 -> nvjet_sm90_tst_128x16": "GEMM",
        "vectorized_elementwise_kernel<BinaryFunctor, MulFunctor> + vectorized_elementwise_kernel<silu_kernel>": "mul and silu",
        "elementwise_kernel<direct_copy_kernel_cuda>": "direct_copy",
        "vectorized_elementwise_kernel<CUDAFunctor_add>": "add",
        "reduce_kernel<or_kernel_cuda>": "or_kernel_cuda",
        "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma": "attention",
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL": "NCCL",
        "vectorized_layer_norm_kernel": "vectorized_layer_norm",
        "rms_norm": "rms_norm",
    }  # fmt: skip
    assert {name: spoken(name) for name in generated} == generated
    assert named(many) == "replaced kernels (a, b and 3 more)"
    assert title(finding("gc", 1.0, part="tail", **SCHEDULE)) == "Python GC in _schedule, in rare steps"


def test_what_a_finding_explains_is_left_out_where_it_is_no_part() -> None:
    shares = {0.9: "all of the change", 0.52: "52 % of the change", 1.3: "", -0.2: "", None: ""}
    for share, said in shares.items():
        assert words.explains(finding("host_work", 1.0, share=share, **SCHEDULE)) == said


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
    one = result(
        "regressed", m.VerdictFacts("phase", "generation"), [GENERATION, NOISY], [finding("host_work", 88.6, share=0.96, **SCHEDULE)]
    )  # fmt: skip
    told = with_words(one)
    assert (
        told.headline.text.startswith("Regressed: +92.0 us")
        and told.findings[0].title == "host work in _schedule"
    )
    assert told.findings[0].next.startswith("profile the host code")


def test_what_is_left_of_a_cause_is_said_only_of_one_that_was_replayed() -> None:
    """Of 300 us the step gains 200, so waits take 100; a cause that went was not replayed."""
    grown = finding("memcpy", 300.0, without=m.Projected(1_300 * US, 1_100 * US, 1_000 * US, 1_200 * US, [1]))
    gone = finding("memcpy", -300.0)
    one = result("regressed", m.VerdictFacts("phase", "generation"), [GENERATION], [grown, gone])
    first, second = with_words(one).findings
    assert first.note == (
        "Replayed without it: 1.10 ms instead of 1.30 ms per generation step (range 1.00 ms to 1.20 ms)."
        " Waits that the cause hides now would take the rest of its time."
    )
    assert second.note == ""


def test_an_inconclusive_result_says_once_what_it_could_have_shown() -> None:
    noisy = phase("generation", delta(1_000.0, -9.0, 22.0), "inconclusive")
    one = result("inconclusive", m.VerdictFacts("scatter", "generation"), [noisy], [])
    one = msgspec.structs.replace(one, step=msgspec.structs.replace(one.step, runs_advised=12))
    assert with_words(one).step.power_note == "For 2 % record 12 runs per side."


def test_an_inconclusive_result_names_a_large_estimate_and_the_runs_that_make_it() -> None:
    """99.2 of 1,000 us; of the candidate's runs only pr_r3 shows it. 19 us are less than 2 % of the step."""
    noisy = phase("generation", delta(1_000.0, 100.0, 175.0), "inconclusive")
    odd = m.Held(5, 1, ["pr_r0.sqlite", "pr_r1.sqlite", "pr_r2.sqlite", "pr_r4.sqlite"])
    large = finding("host_work", 99.2, level="within_noise", held=odd, **SCHEDULE)
    one = result("inconclusive", m.VerdictFacts("scatter", "generation"), [noisy, NOISY], [large])
    assert reason(one) == (
        "The largest estimate within noise is host work in _schedule: +99.2 us per generation step, in 1 of 5 runs: pr_r3."
    )
    rare = finding("host_work", 120.0, level="within_noise", part="tail", **SCHEDULE)
    assert reason(msgspec.structs.replace(one, findings=[large, rare])).startswith(
        "The largest estimate of the typical step within noise is host work in _schedule: +99.2 us"
    )
    small = finding("host_work", 19.0, level="within_noise", held=odd, **SCHEDULE)
    assert reason(msgspec.structs.replace(one, findings=[small])) == ""

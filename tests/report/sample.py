"""Results made by hand: a full one whose sums close, one with nothing in it, and a very large one.

The names are hostile on purpose: a kernel, a range or a label may hold anything.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, Literal

import msgspec

from tracediff import model as m
from tracediff.companions.model import Kpi, KpiRow, Result
from tracediff.model.observed import Observed, ObservedPart
from tracediff.report.html import render_html

SCRIPT = "<script>alert(1)</script>"
PIPE = "a|b"
TICK = "`x`"
MENTION = "@everyone"
CDATA = "]]>"
ESCAPE = "\x1b[31mred"
JINJA = "{{7*7}}"
MARKUP = "[red]not red[/red]"
LINK = "[click](https://evil.example/x)"
HOSTILE = (SCRIPT, PIPE, TICK, MENTION, CDATA, ESCAPE, JINJA, MARKUP, LINK)

GEMM = (
    "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_128x64_64x4_tn_align8>"
    "(cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_128x64_64x4_tn_align8::Params)"
)
US = 1_000.0

TIMES = {  # category -> baseline, candidate
    "compute": (719_500.0, 718_200.0), "comm": (41_200.0, 44_000.0), "memcpy": (3_100.0, 3_100.0), "launch_latency": (5_700.0, 5_400.0),
    "dependency": (7_400.0, 7_600.0), "graph_internal": (68_400.0, 61_200.0), "launch_api": (121_400.0, 126_100.0),
    "host_sync": (3_900.0, 4_800.0), "host_api": (2_200.0, 2_200.0), "gc": (4_000.0, 27_500.0), "gil_wait": (6_100.0, 14_900.0),
    "host_work": (55_700.0, 152_900.0), "unattributed": (0.0, 0.0),
}  # fmt: skip
BASELINE, CANDIDATE = ({key: both[side] for key, both in TIMES.items()} for side in (0, 1))
LEVELS: dict[str, m.Evidence] = dict.fromkeys(BASELINE, "within_noise")
LEVELS |= {"host_work": "confirmed", "gc": "confirmed", "graph_internal": "confirmed", "gil_wait": "likely"}
TOTAL_BASELINE = math.fsum(BASELINE.values())
TOTAL_CANDIDATE = math.fsum(CANDIDATE.values())
DELTA = TOTAL_CANDIDATE - TOTAL_BASELINE
TAIL = CANDIDATE["gc"] - BASELINE["gc"]  # collections run in rare steps: the typical step has none
TYPICAL = DELTA - TAIL

# The first sentences, by hand. 1,140.4 us are 105.8 us and 10.2 % more than 1,034.6 us; 95.1 us of them are in _schedule.
WHAT = f"Slower with pr {SCRIPT}: generation step 1,035 -> 1,140 us (+106 us, +10.2 %)."
WHY = "+95.1 us of it: host work in _schedule."
COUNTS = f"By count: 149 -> 141 kernels per step in {SCRIPT}, garbage collections in 4.1 % -> 31 % of steps."

SQL = """FROM aligned_gap
WHERE cause = 'host_work' AND thread = 'executor' AND place IN ('_schedule');  -- </pre><script>alert(1)</script>"""


def _side(label: str, stem: str, runs: int) -> m.SideInput:
    return m.SideInput(
        label=label,
        runs=[
            m.RunInput(
                name=f"{stem}_r{i}.sqlite",
                fingerprint=f"{i + 7:x}" * 64,
                bytes=48_213_004 + 91_377 * i,
                duration_ns=31_204_118_000 + 1_000_003 * i,
                ranks=2,
                steps=29,
                step_source="tensorrt-llm",
            )
            for i in range(runs)
        ],
    )


def _finding(
    rank: int, cause: m.Cause, base: float, cand: float, title: str, where: m.Where, **more: Any
) -> m.Finding:
    delta = cand - base
    spread = more.pop("spread", 0.08) * max(abs(delta), 2_000.0)
    runs_b = [base * f for f in (0.98, 1.01, 1.0, 0.99, 1.02)]
    runs_c = [cand * f for f in (1.01, 0.99, 1.0, 1.02, 0.98)]
    fields: dict[str, Any] = {
        "next": "",
        "level": "confirmed",
        "p_value": 0.008,
        "q_value": 0.024,
        "note": "",
        "evidence": m.FindingEvidence(
            query=SQL, moments=[], runs_baseline_ns=runs_b, runs_candidate_ns=runs_c
        ),
    } | more
    return m.Finding(
        rank=rank,
        cause=cause,
        delta_ns=delta,
        ci_low_ns=delta - spread,
        ci_high_ns=delta + spread,
        share=delta / (TAIL if more.get("part") == "tail" else TYPICAL),
        title=title,
        where=where,
        baseline_ns=base,
        candidate_ns=cand,
        **fields,
    )


def _findings() -> list[m.Finding]:
    moments = [
        m.Moment(
            "candidate",
            "pr_r0.sqlite",
            4_811_204_113 + i * 91_000_000,
            4_811_299_981 + i * 91_000_000,
            f"longest _schedule, step {31 + i}",
        )
        for i in range(3)
    ]
    runs_b = [30_900.0, 31_700.0, 31_000.0, 31_900.0, 31_500.0]
    runs_c = [126_100.0, 127_300.0, 125_900.0, 126_800.0, 126_400.0]
    return [
        _finding(
            1, "host_work", 31_400.0, 126_500.0, "host work in _schedule", m.Where(range="_schedule", thread="executor", phase="generation"),
            next="Look at what _schedule does between its start and its end: sample it with py-spy.",
            evidence=m.FindingEvidence(SQL, moments, runs_b, runs_c, 1.0, 1.0), held=m.Held(5, 5),
            phases=[m.PhaseDelta("context", "typical", 88_000.0, 60_000.0, 116_000.0, "likely")],
        ),
        _finding(
            2, "gc", 4_000.0, 27_500.0, f"Python GC in {SCRIPT}, in rare steps", m.Where(thread="executor", range=SCRIPT, phase="generation"),
            next="gc.freeze() after warm-up, or TLLM_... thresholds; see the GC table for the generations.",
            evidence=m.FindingEvidence(
                SQL, moments[:1], [3.9e3, 4.1e3, 4e3, 4e3, 4e3], [26e3, 29e3, 27e3, 28e3, 27.5e3], 0.04, 0.31
            ),
            spread=0.25, part="tail", facts=m.FindingFacts(rare=m.RareFact(0.0, 1.4, 28.0, 28.2, 0.0)), held=m.Held(5, 5),
            note="It is long in 0 % -> 5.0 % of the steps; in the typical step it changes by 0 us.",
        ),
        _finding(
            3, "gil_wait", 6_100.0, 14_900.0, f"waiting for the GIL held by the await_response thread in {PIPE}",
            m.Where(thread="executor", holder_thread="await_response", holder_range=PIPE, phase="generation"),
            next="Move the detokenisation of finished requests out of the worker process.",
            level="likely", q_value=0.06, held=m.Held(5, 4, ["pr_r2.sqlite"]),
        ),
        _finding(
            4, "graph_internal", 68_400.0, 61_200.0, "Gaps inside CUDA graphs shrank: 8 fewer nodes a launch",
            m.Where(kernels=m.Kernels((GEMM,)), phase="generation"), level="confirmed",
        ),
        _finding(
            5, "launch_api", 121_400.0, 126_100.0, "launch overhead (time in cudaGraphLaunch), on rank 0 alone",
            m.Where(api="cudaGraphLaunch", rank=0, phase="generation"), level="within_noise", q_value=0.61, spread=4.0,
        ),
        _finding(
            6, "comm", 41_200.0, 44_000.0, "waiting for rank 0 in ncclDevKernel_AllReduce: 16 per step",
            m.Where(kernels=m.Kernels(("ncclDevKernel_AllReduce",)), phase="generation"), level="within_noise", q_value=0.22, spread=1.4,
        ),
        _finding(
            7, "kernel_fused", 212_300.0, 210_700.0, f"2 kernels became 1: {TICK} and {MENTION} are now {JINJA}",
            m.Where(kernels=m.Kernels((JINJA,)), phase="generation"), level="exact", held=m.Held(5, 5), parts=_parts(), p_value=None,
            q_value=None, evidence=m.FindingEvidence(SQL, [], [], [], 16.0, 8.0), note=f"{ESCAPE} {CDATA} {MARKUP} {LINK}",
        ),
    ]  # fmt: skip


def _parts() -> list[m.FindingPart]:
    """-4.4, +3.1 and -0.3 us are the -1.6 us of the finding."""
    rows: list[tuple[m.Cause, m.Where, float, m.Evidence, bool]] = [
        ("kernel_fused", m.Where(kernels=m.Kernels((TICK, MENTION), (JINJA,))), -4_400.0, "exact", False),
        ("kernel_time", m.Where(kernels=m.Kernels((MARKUP,))), 3_100.0, "confirmed", False),
        ("launch_latency", m.Where(range=SCRIPT, thread="executor"), -300.0, "likely", True),
    ]
    return [
        m.FindingPart(cause, where, delta, delta - 200.0, delta + 200.0, level, follows)
        for cause, where, delta, level, follows in rows
    ]


def kernel_side(names: list[str], count: float, ns: float, grid: str = "[32,4,1]") -> m.KernelSide:
    return m.KernelSide(names, count, ns, ns / count if count else 0.0, [grid], ["[128,1,1]"], 168, 49_152)


def _kernels() -> list[m.KernelRow]:
    def row(
        match: Any, base: Any, cand: Any, category: str, family: str, level: Any = "within_noise", **more: Any
    ) -> Any:
        delta = (cand.ns_per_step if cand else 0.0) - (base.ns_per_step if base else 0.0)
        return m.KernelRow(
            match=match,
            confidence=more.pop("confidence", 1.0),
            category=category,
            family=family,
            baseline=base,
            candidate=cand,
            delta_ns=delta,
            ci_low_ns=delta - 900.0,
            ci_high_ns=delta + 900.0,
            level=level,
            q_value=more.pop("q_value", 0.02),
            **more,
        )

    k = kernel_side
    nccl, vectorized = (
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL",
        "void at::native::vectorized_elementwise_kernel",
    )
    return [
        row("fused", k([TICK, MENTION], 16, 212_300), k([JINJA], 8, 211_000), "gemm", "cutlass", "confirmed", confidence=0.86, q_value=0.011),
        row("exact", k([GEMM], 32, 318_400), k([GEMM], 32, 318_900), "gemm", "cutlass", q_value=0.48),
        row(
            "template", k([f"{vectorized}<4, {PIPE}>"], 40, 60_100), k([f"{vectorized}<8, {PIPE}>"], 40, 58_300), "elementwise", "pytorch",
            "confirmed", confidence=0.9, q_value=0.004,
        ),
        row("exact", k([SCRIPT], 8, 96_800), k([SCRIPT], 8, 96_900), "attention", "flashinfer"),
        row("removed", k([ESCAPE], 1, 4_300), None, "norm", "pytorch", "exact"),
        row("added", None, k([CDATA, MARKUP], 1, 5_100), "norm", "triton", "exact"),
        row("sequence", k(["triton_red_fused_0"], 8, 27_600), k(["triton_red_fused_1"], 8, 28_000), "norm", "triton", confidence=0.7),
        row("exact", k([nccl], 16, 41_200), k([nccl], 16, 44_000), "communication", "nccl", "likely", q_value=0.08),
    ]  # fmt: skip


def _samples() -> list[m.StepSample]:
    out = []
    sides: tuple[tuple[Literal["baseline", "candidate"], float], ...] = (
        ("baseline", TOTAL_BASELINE),
        ("candidate", TOTAL_CANDIDATE),
    )
    for side, mean in sides:
        for run in range(5):
            for i in range(29):
                wobble = (
                    1
                    + 0.05 * math.sin(1.7 * i + run)
                    + 0.012 * (run - 2)
                    + (0.9 if i == 17 and run == 3 else 0.0)
                )
                period = round(mean * wobble)
                out.append(m.StepSample(side, run, i % 2, "generation", 21 + i, period))
            out.append(m.StepSample(side, run, 0, "context", 45, round(13e6 + 9e5 * run)))
    return out


def _phase(phase: str, base: float, cand: float, steps: int) -> m.Phase:
    def side(mean: float) -> m.PhaseSide:
        runs = [mean * (1 + 0.012 * (i - 2)) for i in range(5)]
        return m.PhaseSide(steps, mean, mean * 0.995, mean * 1.05, mean * 1.9, runs)

    b, c = side(base), side(cand)
    return m.Phase(phase, b, c, c.mean_ns - b.mean_ns, c.p50_ns - b.p50_ns, c.p99_ns - b.p99_ns)


def _generation() -> m.Phase:
    """The one phase that is compared: its typical step and what rare steps add make up the mean step."""
    half = 18_000.0
    typical = m.Delta(
        TOTAL_BASELINE - BASELINE["gc"], TOTAL_CANDIDATE - CANDIDATE["gc"], TYPICAL, TYPICAL - half, TYPICAL + half,
        0.0, 0.008, half, 31_000.0,
    )  # fmt: skip
    tail = m.Delta(
        BASELINE["gc"], CANDIDATE["gc"], TAIL, TAIL - 5_900.0, TAIL + 5_900.0, 0.0, 0.012, 5_900.0, 9_000.0
    )
    mean = m.Delta(TOTAL_BASELINE, TOTAL_CANDIDATE, DELTA, DELTA - 18_400.0, DELTA + 21_100.0)
    start = m.Change(9_800_000.0, 9_900_000.0, 100_000.0)
    return msgspec.structs.replace(
        _phase("generation", TOTAL_BASELINE, TOTAL_CANDIDATE, 145),
        verdict="regressed", typical=typical, mean=mean, tail=tail, start=start, share=1.0, start_share=0.03,
        time_share=m.Shares(0.677, 1.0), runs=m.Pair(5, 5), steps=m.Pair(117, 117), workload="ops", repeated=True, judged=True,
        host_speed=1.01,
    )  # fmt: skip


def _observed() -> Observed:
    typical = _generation().typical
    assert typical is not None
    parts = [ObservedPart(1, 95_100.0, 95_100.0 / TYPICAL)]
    return Observed(
        "generation", "typical", typical.baseline_ns, typical.candidate_ns, TYPICAL, typical.ci_low_ns, typical.ci_high_ns, parts
    )  # fmt: skip


def _structure() -> list[m.StructureRow]:
    steps: dict[str, Any] = {"phase": "generation", "baseline_steps": 145, "candidate_steps": 145}
    return [
        m.StructureRow(
            kind="kernels", range=SCRIPT, baseline=149, candidate=141, certain=True, baseline_any=145, candidate_any=145, **steps
        ),
        m.StructureRow(
            kind="collections", baseline=0.04, candidate=0.31, certain=True, rate=True, baseline_any=6, candidate_any=45, p_value=1e-9,
            **steps,
        ),
    ]  # fmt: skip


def _gaps() -> list[m.GapRow]:
    def side(count: float, ns: float) -> m.GapSide:
        return m.GapSide(count, ns, ns / count, 0.8 * ns / count, 2.1 * ns / count)

    return [
        m.GapRow("host_work", "executor", "_schedule", "argmax_kernel", GEMM, side(1, 31_400), side(1, 126_500), 95_100.0),
        m.GapRow("gc", "executor", "Python GC", MENTION, JINJA, side(0.04, 4_000), side(0.31, 27_500), 23_500.0),
        m.GapRow("launch_api", "executor", "_forward_step", TICK, PIPE, side(1, 121_400), side(1, 126_100), 4_700.0),
        m.GapRow("graph_internal", "executor", "", GEMM, GEMM, side(148, 68_400), side(140, 61_200), -7_200.0),
        m.GapRow("host_work", "executor", ESCAPE, SCRIPT, LINK, None, side(2, 1_900), 1_900.0),
    ]  # fmt: skip


# what older results do not hold of a rank
NO_OWN_TIME = dict.fromkeys(("candidate_own_ns", "delta_own_ns", "candidate_last", "candidate_behind_ns"))


def full() -> Result:
    """Five runs a side, everything captured, a confirmed regression."""
    step = m.Step(
        TOTAL_BASELINE, TOTAL_CANDIDATE, DELTA, DELTA - 18_400.0, DELTA + 21_100.0, 0.008, m.Pair(5, 5), m.Pair(145, 145), 42_000.0, "repeats",
        31_000.0, "The smallest change these runs can detect is 3.0 % (80 % power).", time_share=m.Shares(0.677, 1.0),
    )  # fmt: skip
    launch_b = m.LaunchSide(6.0, 1.0, 149.0, 0.966, 148_300.0, 127_100.0, 3_400.0, 2_900.0, 14_800.0)
    launch_c = m.LaunchSide(6.0, 1.0, 141.0, 0.964, 152_100.0, 131_500.0, 3_300.0, 2_850.0, 15_100.0)
    return Result(
        tool=m.Tool("tracediff", "0.1.0"),
        inputs=m.Inputs(
            _side("main", "main", 5),
            _side(f"pr {SCRIPT}", "pr", 5),
            {"steps": "generation", "noise": None, "seed": 7},
        ),
        verdict="regressed",
        headline=m.Headline(
            f"{WHAT} {WHY} {COUNTS}", "host_work", TYPICAL, "confirmed", "generation", WHAT, WHY, COUNTS
        ),
        observed=_observed(),
        structure=_structure(),
        verdict_reason="A repeat would show +87.8 to +124 us (95 %): 5 + 5 runs.",
        verdict_facts=m.VerdictFacts("phase", "generation"),
        step=step,
        phases=[
            _phase("context", 13.9e6, 14.0e6, 5),
            _generation(),
        ],
        accounting=m.Accounting(
            BASELINE,
            CANDIDATE,
            {key: CANDIDATE[key] - BASELINE[key] for key in BASELINE},
            0,
            {key: 0.9 * (CANDIDATE[key] - BASELINE[key]) - 900.0 for key in BASELINE},
            {key: 1.1 * (CANDIDATE[key] - BASELINE[key]) + 900.0 for key in BASELINE},
            LEVELS,
            {"gc": 1_200.0, "gil_wait": 38_400.0},
            {"gc": 9_800.0, "gil_wait": 61_000.0},
        ),
        mix=m.Mix(1_420_300.0, 1_561_900.0, 12_400.0, 129_200.0),
        findings=_findings(),
        kernels=_kernels(),
        ranges=[
            m.RangeRow("_schedule", "", "executor", m.RangeSide(1, 31_900, 31_900), m.RangeSide(1, 127_100, 127_100), 95_200.0),
            m.RangeRow(
                "_forward_step N: N ctx reqs, N gen reqs", "", "executor", m.RangeSide(1, 812_000, 812_000), m.RangeSide(1, 814_500, 814_500), 2_500.0
            ),
            m.RangeRow(SCRIPT, PIPE, MENTION, None, m.RangeSide(2, 4_400, 2_200), 4_400.0),
        ],
        gaps=_gaps(),
        worst_gaps=[
            m.WorstGap("candidate", "pr_r3.sqlite", 5_214_118_402, 1_061_220, "gc", "Python GC", "executor", TICK, GEMM, "generation"),
            m.WorstGap("candidate", "pr_r1.sqlite", 4_902_004_981, 402_118, "host_work", "_schedule", "executor", PIPE, JINJA, "generation"),
            m.WorstGap("baseline", "main_r2.sqlite", 3_118_220_004, 388_402, "launch_api", "_forward_step", "executor", ESCAPE, LINK, "context"),
        ],
        launch=m.Launch(
            baseline=launch_b,
            candidate=launch_c,
            apis=[
                m.ApiRow(
                    api=api, kind=kind, baseline_calls=calls, candidate_calls=calls, baseline_ns=base, candidate_ns=cand, delta_ns=cand - base
                )
                for api, kind, calls, base, cand in (
                    ("cudaGraphLaunch", "launch", 1, 118_400.0, 122_800.0),
                    ("cudaLaunchKernel", "launch", 5, 29_900.0, 29_300.0),
                    ("cudaEventSynchronize", "sync", 1, 541_000.0, 530_200.0),
                )
            ],
            transitions=[m.TransitionRow(TICK, 2.0, 0.0, 0.0, 2.0)],
        ),
        gil=m.Gil(
            [
                m.GilRow(
                    "executor", "generation", 388_000.0, 44_500.0, 6_100.0, 476_000.0, 75_900.0, 14_900.0
                ),
                m.GilRow("await_response", "generation", 92_000.0, 30_100.0, 0.0, 118_000.0, 51_200.0, 0.0),
                m.GilRow(MENTION, "generation", None, None, None, 12_000.0, 3_100.0, 0.0),
            ],
            [
                m.GilPairRow("executor", "await_response", PIPE, 38_200.0, 69_900.0),
                m.GilPairRow("executor", MENTION, JINJA, None, 6_000.0),
            ],
        ),
        gc=m.Gc(
            [
                m.GcRow("executor", "2", 0.04, 5_200.0, 4_000.0, 0.31, 37_300.0, 27_500.0),
                m.GcRow("await_response", "?", 0.1, 800.0, 0.0, 0.1, 810.0, 0.0),
            ]
        ),
        graphs=m.Graphs(
            mode_baseline="node",
            mode_candidate="node",
            launches_per_step_baseline=1.0,
            launches_per_step_candidate=1.0,
            nodes_per_launch_baseline=144.0,
            nodes_per_launch_candidate=136.0,
        ),
        threads=[
            m.ThreadRow(
                role="executor", process="worker", score=0.97, baseline_ranges=["_schedule", "_forward_step N"],
                candidate_ranges=["_schedule", SCRIPT], baseline_range_ns=890_000.0, candidate_range_ns=1_012_000.0, delta_ns=122_000.0,
            ),
            m.ThreadRow(
                role="await_response", process="worker", score=0.88, baseline_ranges=["await_responses"],
                candidate_ranges=["await_responses", PIPE], baseline_range_ns=140_000.0, candidate_range_ns=166_000.0, delta_ns=26_000.0,
                baseline_every=None, candidate_every=10, baseline_burst_ns=None, candidate_burst_ns=1_660_000.0,
            ),
        ],
        response_path=[
            m.ResponseStage(
                stage=stage, thread=thread, range=inside, baseline_count=1.0, candidate_count=2.0, baseline_ns=base, candidate_ns=cand,
                delta_ns=cand - base, keeps_up_baseline=True, keeps_up_candidate=keeps_up,
            )
            for stage, thread, inside, base, cand, keeps_up in (
                ("executor", "executor", "_handle_responses", 41_000.0, 44_000.0, True),
                ("await", "await_response", "await_responses", 140_000.0, 166_000.0, True),
                ("detokenise", "dispatch", "_handle_response", 980_000.0, 1_190_000.0, False),
            )
        ],
        strata=[
            m.Stratum(
                phase="generation", ctx_reqs="0", ctx_tokens="0", gen_reqs="16", level="exact", baseline_steps=140, candidate_steps=141,
                baseline_ns=TOTAL_BASELINE, candidate_ns=TOTAL_CANDIDATE, delta_ns=DELTA, weight=1.0, compared=True,
                baseline_share=0.677, candidate_share=1.0,
            ),
            m.Stratum(  # 5 x 13.9 ms of 69.5 + 140 x 1.0386 ms
                phase="context", ctx_reqs="4", ctx_tokens="768", gen_reqs="0", level="bucket", baseline_steps=5, candidate_steps=0,
                baseline_ns=13.9e6, candidate_ns=None, delta_ns=None, weight=0.0, compared=False, reason="baseline_only",
                baseline_share=0.323, candidate_share=0.0,
            ),
        ],
        ranks=[
            m.RankRow(0, 0, TOTAL_BASELINE, TOTAL_CANDIDATE, DELTA, 1_100.0, 1_300.0, 40_100.0, 42_700.0, 21_000.0, 66_000.0, **NO_OWN_TIME),
            m.RankRow(
                1, 1, TOTAL_BASELINE + 200, TOTAL_CANDIDATE - 100, DELTA - 300, 21_000.0, 66_000.0, 40_000.0, 42_500.0, 1_100.0, 1_300.0,
                **NO_OWN_TIME,
            ),
        ],
        kpi=Kpi(
            "trtllm-bench.json",
            "trtllm-bench.json",
            [
                KpiRow(
                    "output_throughput_tok_s", "tok/s", "higher", 15_420.0, 13_720.0, -1_700.0, level="likely"
                ),
                KpiRow("itl_mean_ms", "ms", "lower", 1.04, 1.17, 0.13, 0.93, level="likely"),
                KpiRow("itl_p99_ms", "ms", "lower", 1.9, 2.28, 0.38, level="within_noise"),
            ],
            "The benchmark ran unprofiled.",
            "likely_regressed",
            ("itl_mean_ms", "output_throughput_tok_s"),
        ),
        comparability=m.Comparability(
            True,
            [
                m.Check("gpu", "ok", "8 x NVIDIA H200", "8 x NVIDIA H200", "same model and count"),
                m.Check("driver", "warn", "570.86.10", "570.124.06", "driver versions differ"),
                m.Check("trace kinds", "ok", "cuda, nvtx, python-gil", "cuda, nvtx, python-gil", "same"),
                m.Check(f"graph mode {PIPE}", "ok", "node", "node", f"same {MENTION}"),
            ],
        ),
        coverage=m.Coverage(
            dict.fromkeys(("gil", "gc", "nvtx", "graphs", "memcpy", "sync"), "captured"),
            dict.fromkeys(("gil", "gc", "nvtx", "graphs", "memcpy", "sync"), "captured"),
        ),
        warnings=[
            m.Note(
                "steps-cut",
                "The first and the last step of each capture were cut and are left out (20 of 310).",
            ),
            m.Note("odd-name", f"A range is named {LINK} {SCRIPT} {ESCAPE} {JINJA} {CDATA} {MARKUP} {TICK}"),
        ],
        samples=_samples(),
        samples_left_out=0,
    )  # fmt: skip


@cache
def page() -> str:
    """That of `full`."""
    return render_html(full())


def minimal() -> Result:
    """One run a side, empty tables, nothing captured beyond kernels."""
    none = dict.fromkeys(("gil", "gc", "nvtx", "graphs", "memcpy", "sync"), "not_captured")
    accounting = {"compute": 812_000.0, "unattributed": 88_000.0}
    launch = m.LaunchSide(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    return Result(
        tool=m.Tool("tracediff", "0.1.0"),
        inputs=m.Inputs(_side("a", "a", 1), _side("b", "b", 1)),
        verdict="inconclusive",
        headline=m.Headline(
            "Unclear with b: nothing that both sides have was measured.", "", 0.0, "within_noise", ""
        ),
        verdict_reason="",
        step=m.Step(900_000.0, 900_000.0, 0.0, -4_000.0, 4_000.0, None, m.Pair(1, 1), m.Pair(29, 29)),
        phases=[],
        accounting=m.Accounting(accounting, dict(accounting), dict.fromkeys(accounting, 0.0), 0),
        mix=m.Mix(900_000.0, 900_000.0, 0.0, 0.0),
        findings=[],
        kernels=[],
        ranges=[],
        gaps=[],
        worst_gaps=[],
        launch=m.Launch(baseline=launch, candidate=launch, apis=[], transitions=[]),
        gil=m.Gil([], []),
        gc=m.Gc([]),
        graphs=m.Graphs(
            mode_baseline="none",
            mode_candidate="none",
            launches_per_step_baseline=0.0,
            launches_per_step_candidate=0.0,
            nodes_per_launch_baseline=None,
            nodes_per_launch_candidate=None,
        ),
        threads=[],
        response_path=[],
        strata=[],
        ranks=[],
        kpi=None,
        comparability=m.Comparability(True, []),
        coverage=msgspec.convert({"baseline": none, "candidate": none}, m.Coverage),
        warnings=[],
    )


def one_sided() -> Result:
    """GIL waits captured on the baseline only: nothing to compare, and the waterfall must still close."""
    candidate = {key: value for key, value in CANDIDATE.items() if key != "gil_wait"}
    candidate["host_work"] += CANDIDATE["gil_wait"]
    whole = full()
    coverage = m.Coverage(whole.coverage.baseline, whole.coverage.candidate | {"gil": "not_captured"})
    accounting = m.Accounting(BASELINE, candidate, {k: candidate[k] - BASELINE[k] for k in candidate}, 0)
    return msgspec.structs.replace(
        whole, accounting=accounting, coverage=coverage, verdict="likely_regressed"
    )


def large(rows: int = 3_000) -> Result:
    """Tables far beyond what a page should hold, with long hostile names."""
    whole = full()
    name = f"{SCRIPT}{TICK}{PIPE}{MENTION}" * 8
    kernels = [
        m.KernelRow(
            match="exact",
            confidence=1.0,
            category="gemm",
            family="cutlass",
            baseline=kernel_side([f"{name}{i}"], 1, 1e3),
            candidate=kernel_side([f"{name}{i}"], 1, 1e3 + i),
            delta_ns=float(i),
            ci_low_ns=i - 1.0,
            ci_high_ns=i + 1.0,
            level="confirmed",
            q_value=0.02,
        )
        for i in range(rows)
    ]
    gaps = [
        msgspec.structs.replace(whole.gaps[i % 5], range=f"{name} {i}", delta_ns=1e3 * i) for i in range(rows)
    ]
    findings = [msgspec.structs.replace(whole.findings[i % 7], rank=i + 1) for i in range(rows // 4)]
    warnings = [m.Note("many", f"{name} {i}") for i in range(rows)]
    return msgspec.structs.replace(whole, kernels=kernels, gaps=gaps, findings=findings, warnings=warnings)

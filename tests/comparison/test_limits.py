"""Achieved rates against the peaks of a GPU, on traces whose numbers a reader works out, and on recorded copies."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from msgspec.structs import replace
from rich.console import Console

from fixtures.builders import TraceBuilder
from fixtures.builders.torch_trace import TorchTrace
from tests.comparing import compare, show
from tests.tiny import FIXTURES, label
from tracediff.capture.scrub import scrub_trace
from tracediff.execution.run import reduce_file
from tracediff.execution.sides import Reading, Run, Side
from tracediff.limits.peaks import PEAKS, peak_of
from tracediff.limits.work import Work, math_type, work_of
from tracediff.report.html import render_html
from tracediff.report.markdown import render_markdown
from tracediff.report.show import render_show_html, render_show_markdown, render_show_terminal
from tracediff.report.terminal import render_terminal

BF16 = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize64x64x64_warpgroupsize1x1x1_execute_kernel"
NVJET = "nvjet_sm90_tst_64x16_64x16_4x1_v_bz_TNT"
FLASH = (
    "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<(int)128, (int)128, (int)64, (int)4, (bool)0, (bool)0,"
    " cutlass::bfloat16_t, Flash_kernel_traits<(int)128, (int)128, (int)64, (int)4, cutlass::bfloat16_t>>, (bool)0,"
    " (bool){causal}, (bool){local}, (bool)0, (bool)1, (bool)1, (bool)0, (bool)0>(pytorch_flash::Flash_fwd_params)"
)
STEP = 1_000_000  # ns


def sizes(operator: str, *dims: list[int]) -> str:
    """As emit_nvtx(record_shapes=True) names an operator's range."""
    return f"{operator}, op_id = 7, sizes = {list(dims)}"


def steps(inside, *, device: str = "NVIDIA H200", count: int = 4) -> TraceBuilder:
    """Steps of 1 ms; `inside(trace, number, start)` adds what runs in each, from 10,000 ns of it on. The last one is not whole."""
    trace = TraceBuilder().device(0, device).process(100).thread(100, 1)
    for number in range(count + 1):
        start = number * STEP
        trace.range(1, label(number), start, start + 900_000)
        trace.api(1, "cudaLaunchKernel", start + 10, start + 20, corr=10 * number + 1)
        trace.kernel(10 * number + 1, start + 30, start + 40, name="first")
        inside(trace, number, start)
    return trace


def launched(
    trace: TraceBuilder,
    number: int,
    start: int,
    kernel: str,
    ns: int,
    text: str = "",
    at: int = 10_000,
    corr: int = 2,
) -> None:
    """A kernel launched inside a range of this text."""
    begin = start + at
    if text:
        trace.range(1, text, begin, begin + 1_000, domain=None)
    trace.api(1, "cudaLaunchKernel", begin + 10, begin + 500, corr=10 * number + corr)
    trace.kernel(10 * number + corr, begin + 600, begin + 600 + ns, name=kernel)


def side(trace, folder, name: str = "t.sqlite") -> Side:
    return Side(name, [Run(name, [reduce_file(trace.write(folder / name), Reading(threads=1))])])


def limits_of(trace, folder):
    return show(side(trace, folder)).limits


# What an operator has to do.


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # 2 x 16 x 32 x 64; 16 x 64 + 64 x 32 read, 16 x 32 written
        (sizes("aten::mm", [16, 64], [64, 32]), Work("gemm", "16 x 32 x 64", "", 65536, 3072, 512)),
        ("aten::mm, seq = 12, sizes = [[16, 64], [64, 32]]", Work("gemm", "16 x 32 x 64", "", 65536, 3072, 512)),
        ("aten::mm, sizes = [[16, 64], [64, 32]], input_op_ids = [[1,0], [2,0]]", Work("gemm", "16 x 32 x 64", "", 65536, 3072, 512)),
        # the bias is not counted
        (sizes("aten::addmm", [32], [16, 64], [64, 32], [], []), Work("gemm", "16 x 32 x 64", "", 65536, 3072, 512)),
        # one matrix for all of a batch looks the same without strides: what is read is not known
        (sizes("aten::bmm", [8, 16, 64], [8, 64, 32]), Work("gemm", "8 of 16 x 32 x 64", "", 524288, None, 4096)),
        (sizes("aten::mm", [16, 64], [65, 32]), None),  # no product
        (sizes("aten::mm", [16, 0], [0, 32]), None),
        (sizes("aten::linear", [16, 64], [32, 64]), None),  # the operator below it is read
        ("aten::mm, sizes = [[16, 64], [64, 32", None),
        ("my mm, sizes = [[16, 64], [64, 32]]", None),
    ],
)  # fmt: skip
def test_work_of_a_range(text, expected):
    assert work_of(text, None) == expected


def told(dims, types, **more) -> str:
    return json.dumps({"Input Dims": dims, "Input type": types, **more})


def test_work_of_an_operator_of_torch():
    halves = ["c10::BFloat16"] * 2
    found = work_of("aten::mm", told([[16, 64], [64, 32]], halves))
    assert found == Work("gemm", "16 x 32 x 64", "bf16", 65536, 3072, 512)
    assert found.moved("bf16") == 2 * (3072 + 512)
    # a batch of 8 that shares its second matrix: read once
    strides = {"Input Strides": [[1024, 64, 1], [0, 32, 1]]}
    found = work_of("aten::bmm", told([[8, 16, 64], [8, 64, 32]], halves, **strides))
    assert (found.flop, found.read, found.written) == (524288, 8 * 1024 + 2048, 4096)
    # a third argument is the type of the output
    assert work_of("aten::mm", told([[16, 64], [64, 32], []], halves)).moved("bf16") is None


def test_fp8_writes_the_type_that_it_is_told():
    dims = [[16, 64], [64, 32], [], [], [], [], [], []]
    types = ["c10::Float8_e4m3fn", "c10::Float8_e4m3fn", "float", "float", "", "", "Scalar", "Scalar"]
    constants = ["", "", "", "", "", "", "15", "True"]
    found = work_of("aten::_scaled_mm", told(dims, types, **{"Concrete Inputs": constants}))
    assert found.moved("fp8") == 3072 + 2 * 512
    assert work_of("aten::_scaled_mm", told(dims, types)).moved("fp8") is None


@pytest.mark.parametrize(
    ("causal", "keys", "pairs"),
    [("False", 48, 32 * 48), ("True", 32, 32 * 33 // 2), ("True", 48, None), ("", 48, None)],
)
def test_work_of_attention(causal, keys, pairs):
    """Two products of 64 wide rows for each pair of a query and a key; with other lengths a causal mask may begin anywhere."""
    dims = [[2, 8, 32, 64], [2, 2, keys, 64], [2, 2, keys, 64], [], [], [], []]
    strides = [
        [16384, 2048, 64, 1],
        [2 * keys * 64, keys * 64, 64, 1],
        [2 * keys * 64, keys * 64, 64, 1],
        [],
        [],
        [],
        [],
    ]
    constants = ["", "", "", "0.", causal, "False", ""]
    said = told(dims, ["c10::Half"] * 3, **{"Input Strides": strides, "Concrete Inputs": constants})
    found = work_of("aten::_scaled_dot_product_flash_attention", said)
    if pairs is None:
        assert found is None
    else:
        assert found.flop == 2 * 2 * (2 * 8 * pairs * 64)
        assert found.read == 2 * 8 * 32 * 64 + 2 * (2 * 2 * keys * 64)


@pytest.mark.parametrize(
    ("keys", "kernel", "pairs"),
    [
        (32, FLASH.format(causal=1, local=0), 32 * 33 // 2),
        (32, FLASH.format(causal=0, local=0), 32 * 32),
        (48, FLASH.format(causal=0, local=0), 32 * 48),
        (48, FLASH.format(causal=1, local=0), None),  # where the mask begins is not known
        (32, FLASH.format(causal=0, local=1), None),  # a window of unknown width
        (32, "fmha_cutlassF_bf16_aligned_64x128_rf_sm80", None),
    ],
)  # fmt: skip
def test_the_kernel_tells_the_mask_where_the_range_does_not(keys, kernel, pairs):
    """emit_nvtx records no is_causal: it is an argument of the template of flash attention. Each pair costs two products 64 wide."""
    text = sizes("aten::_scaled_dot_product_flash_attention", [2, 8, 32, 64], *[[2, 2, keys, 64]] * 2, [], [])
    found = work_of(text, None).of_kernel(kernel)
    assert (found and found.flop) == (pairs and 2 * 2 * (2 * 8 * pairs * 64))


@pytest.mark.parametrize(
    ("dtype", "kernel", "expected"),
    [
        ("bf16", NVJET, "bf16"),
        ("", NVJET, ""),  # its letters are documented nowhere
        ("", BF16, "bf16"),
        ("", "ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_64x3_tn", "fp16"),
        ("", "ampere_sgemm_32x128_tn", "fp32"),
        ("float", "sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize32x32x8_stage3", "tf32"),
        ("float", "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize32x32x8_ffma", "fp32"),
        ("float", "gemm_of_mine", ""),
        ("", "convert_bf16_to_fp16_gemm", ""),  # which of them it computes in is not said
    ],
)  # fmt: skip
def test_type_of_a_kernel(dtype, kernel, expected):
    assert math_type(dtype, kernel) == expected


def test_peaks():
    assert peak_of("NVIDIA H200", 132) is PEAKS["H200"]
    assert peak_of("Tesla T4", 0) is PEAKS["T4"]
    assert peak_of("NVIDIA H200", 16) is None  # a part of it
    assert peak_of("NVIDIA H200 MIG 1g.18gb", 0) is None
    assert peak_of("NVIDIA Q9000", 132) is None
    for peak in PEAKS.values():
        assert peak.source.startswith("https://")
        assert 1e11 < peak.memory < 1e13


# A GEMM of M, N, K in t ns.


def test_a_gemm_bound_by_compute(tmp_path):
    """4096^3 in bf16: 2 x 4096^3 FLOP in 200 us are 687 TFLOP/s, of 989.4; the step of 1 ms could do 989.4 GFLOP."""
    text = sizes("aten::mm", [4096, 4096], [4096, 4096])
    found = limits_of(steps(lambda trace, *at: launched(trace, *at, BF16, 200_000, text)), tmp_path)
    (row,) = found.rows
    flop = 2 * 4096**3
    assert row.baseline.flop_per_s == pytest.approx(flop / 200e-6)
    assert row.baseline.of_flops == pytest.approx(0.69456, abs=1e-5)
    assert row.baseline.bytes_per_s == pytest.approx(3 * 4096 * 4096 * 2 / 200e-6)  # 503 GB/s
    assert row.baseline.of_bandwidth == pytest.approx(0.10486, abs=1e-5)
    assert row.baseline.least == row.baseline.of_flops
    assert (row.baseline.shapes, row.baseline.dtype, row.baseline.known) == (
        ["4096 x 4096 x 4096"],
        "bf16",
        1,
    )
    (phase,) = found.phases
    assert phase.baseline.mfu == pytest.approx(flop / 989.4e12 / 1e-3, rel=1e-9)
    # the kernel `first` of 10 ns is of no known kind
    assert phase.baseline.known == pytest.approx(200_000 / 200_010)


def test_a_gemm_bound_by_memory(tmp_path):
    """16 x 28672 x 4096: 2 x (16 x 4096 + 4096 x 28672 + 16 x 28672) bytes in 79 us are 62.4 % of 4.8 TB/s. The cache may hold 60 MiB of it."""
    text = sizes("aten::mm", [16, 4096], [4096, 28672])
    (row,) = limits_of(steps(lambda trace, *at: launched(trace, *at, BF16, 79_000, text)), tmp_path).rows
    moved = 2 * (16 * 4096 + 4096 * 28672 + 16 * 28672)
    assert row.baseline.of_bandwidth == pytest.approx(moved / 79e-6 / 4.8e12)
    assert row.baseline.of_bandwidth == pytest.approx(0.6222, abs=1e-4)
    assert row.baseline.least == pytest.approx((moved - 60 * 2**20) / 79e-6 / 4.8e12)


def test_operands_in_the_cache_say_nothing_of_memory(tmp_path):
    """16 x 4096 x 4096 are 34 MB, which the L2 cache of an H200 may hold."""
    text = sizes("aten::mm", [16, 4096], [4096, 4096])
    (row,) = limits_of(steps(lambda trace, *at: launched(trace, *at, BF16, 20_000, text)), tmp_path).rows
    assert row.baseline.bytes_per_s == pytest.approx(33_816_576 / 20e-6)
    assert row.baseline.of_bandwidth is None
    assert row.baseline.of_flops == row.baseline.least == pytest.approx(2 * 16 * 4096**2 / 20e-6 / 989.4e12)


def test_a_split_k_adds_to_the_time_of_gemms_and_not_to_their_flop(tmp_path):
    text = sizes("aten::mm", [4096, 4096], [4096, 4096])

    def both(trace, number, start):
        launched(trace, number, start, BF16, 200_000, text)
        launched(trace, number, start, "cublasLt::splitKreduce_kernel", 50_000, "", at=10_600, corr=3)

    def inside(trace, number, start):
        trace.range(1, text, start + 10_000, start + 12_000, domain=None)
        both(trace, number, start)

    found = limits_of(steps(inside), tmp_path)
    assert [row.baseline.flop_per_s for row in found.rows] == pytest.approx([2 * 4096**3 / 200e-6])
    assert found.phases[0].baseline.known > 0.99


def test_a_kernel_of_several_shapes_is_one_row(tmp_path):
    """Each of four whole steps launches it with 2048 rows for 100 us and with 4096 for 200 us."""
    half, whole = (sizes("aten::mm", [rows, 4096], [4096, 4096]) for rows in (2048, 4096))

    def inside(trace, number, start):
        launched(trace, number, start, BF16, 100_000, half)
        launched(trace, number, start, BF16, 200_000, whole, at=120_000, corr=3)

    (row,) = limits_of(steps(inside), tmp_path).rows
    assert (row.baseline.launches, len(row.baseline.shapes)) == (8, 2)
    assert row.baseline.flop_per_s == pytest.approx(3 * 4096**3 / 300e-6)


def test_what_is_not_known_is_not_said(tmp_path):
    """No shapes, two GEMMs in one operator, a kernel of another kind: nothing at all."""
    text = sizes("aten::mm", [4096, 4096], [4096, 4096])

    def two(trace, number, start):
        trace.range(1, text, start + 10_000, start + 14_000, domain=None)
        launched(trace, number, start, BF16, 1_000)
        launched(trace, number, start, BF16, 200_000, at=12_000, corr=3)

    plain = lambda kernel, text: lambda trace, *at: launched(trace, *at, kernel, 200_000, text)  # noqa: E731
    for inside in (plain(BF16, ""), two, plain("elementwise_kernel", text)):
        report = show(side(steps(inside), tmp_path))
        assert report.limits is None
        assert "Limits" not in render_show_markdown(report)
        assert 'id="limits"' not in render_show_html(report)


@pytest.mark.parametrize(
    ("kernel", "device", "said"),
    [
        (NVJET, "NVIDIA H200", "where a kernel's name does not tell its data type"),
        (BF16, "NVIDIA Q9000", "Peak rates: unknown for this GPU"),
    ],
)
def test_a_rate_needs_no_peak(tmp_path, kernel, device, said):
    """2 x 4096^3 FLOP in 200 us are 687 TFLOP/s, of whatever type and GPU."""
    text = sizes("aten::mm", [4096, 4096], [4096, 4096])
    report = show(
        side(steps(lambda trace, *at: launched(trace, *at, kernel, 200_000, text), device=device), tmp_path)
    )
    (row,) = report.limits.rows
    assert row.baseline.flop_per_s == pytest.approx(2 * 4096**3 / 200e-6)
    assert (row.baseline.of_flops, row.baseline.of_bandwidth, report.limits.phases) == (None, None, [])
    assert "687 TFLOP/s" in render_show_markdown(report)
    assert said in render_show_markdown(report)


def test_no_utilisation_where_a_part_of_the_gemms_is_unknown(tmp_path):
    """A second GEMM of a quarter of the time, without shapes: 80 % are known, which is not enough."""
    text = sizes("aten::mm", [4096, 4096], [4096, 4096])

    def inside(trace, number, start):
        launched(trace, number, start, BF16, 200_000, text)
        launched(trace, number, start, NVJET, 50_000, at=300_000, corr=3)

    found = limits_of(steps(inside), tmp_path)
    assert len(found.rows) == 1
    assert found.phases == []


def test_shapes_of_torch_profiler(tmp_path):
    """The same GEMM in a trace of torch.profiler with record_shapes=True, whose kernel says nothing of its type."""
    trace = TorchTrace()
    for number in range(6):
        start = number * STEP
        trace.range(1, f"ProfilerStep#{number}", start, start + 900_000)
        said = {
            "Input Dims": [[4096, 4096], [4096, 4096]],
            "Input type": ["c10::BFloat16"] * 2,
            "Concrete Inputs": ["", ""],
        }
        trace.event("cpu_op", "aten::mm", start + 10, start + 900, 100, 1, {"External id": 5, **said})
        trace.api(1, "cudaLaunchKernel", start + 20, start + 500, number + 1)
        trace.kernel(number + 1, start + 600, start + 200_600, name=NVJET)
    found = limits_of_file(trace.write(tmp_path / "t.json"))
    assert found.rows[0].baseline.of_flops == pytest.approx(2 * 4096**3 / 200e-6 / 989.4e12)
    scrub_trace(tmp_path / "t.json", tmp_path / "scrubbed.json")
    assert limits_of_file(tmp_path / "scrubbed.json") == found


def limits_of_file(path):
    return show(Side("t", [Run(path.name, [reduce_file(path, Reading(threads=1))])])).limits


# Recorded GEMMs and attention: fixtures/torch/README.md. Times are means of the kernels' events in the file.


@pytest.fixture(scope="module")
def decoder():
    return show(
        Side("t", [Run("t", [reduce_file(FIXTURES / "torch" / "shapes.json.gz", Reading(threads=1))])])
    )


_KEYS = (16 * sum(range(513, 519)) + 12 * 519) / 108  # mean over the launches of decode steps


@pytest.mark.parametrize(
    ("shape", "us", "flop", "elements", "of_flops", "of_bandwidth"),
    [
        # prefill of 16 x 512 tokens: 1.0995e12 FLOP, 470 MB
        ("8192 x 16384 x 4096", 1422.85, 2 * 8192 * 16384 * 4096, 8192 * 4096 + 4096 * 16384 + 8192 * 16384, 0.781, 0.069),
        ("8192 x 12288 x 4096", 1027.42, 2 * 8192 * 12288 * 4096, 8192 * 4096 + 4096 * 12288 + 8192 * 12288, 0.811, 0.075),
        # two shapes by turns, 1340.90 and 333.73 us
        ("8192 x 4096 x 16384", 1674.63, 2 * 8192 * 4096 * (16384 + 4096), 8192 * (16384 + 4096) + 4096 * (16384 + 4096) + 2 * 8192 * 4096, 0.8295, 0.0793),
        # 512 x 513 / 2 pairs, two products of 128 for each; queries, keys, values and the output
        ("16 x 32 heads, 512 queries, 512 keys of 128, causal", 184.89, 4 * 128 * 16 * 32 * 512 * 513 // 2, 4 * 16 * 32 * 512 * 128, 0.188, 0.302),
        # decode of 16 tokens: 135 MB, nearly all of it weights
        ("16 x 16384 x 4096", 35.16, 2 * 16 * 16384 * 4096, 16 * 4096 + 4096 * 16384 + 16 * 16384, 0.062, 0.799),
        ("16 x 4096 x 16384", 34.52, 2 * 16 * 4096 * 16384, 16 * 16384 + 16384 * 4096 + 16 * 4096, 0.063, 0.814),
        ("16 x 12288 x 4096", 28.32, 2 * 16 * 12288 * 4096, 16 * 4096 + 4096 * 12288 + 16 * 12288, 0.0575, 0.7444),
        ("16 x 32000 x 4096", 67.29, 2 * 16 * 32000 * 4096, 16 * 4096 + 4096 * 32000 + 16 * 32000, 0.063, 0.815),
        # keys and values of 516 tokens, one query, one row out
        ("16 x 32 heads, 1 query, 513 keys of 128", 64.39, 4 * 128 * 16 * 32 * _KEYS, 2 * 16 * 32 * 128 * (_KEYS + 1), 0.002, 0.438),
    ],
)  # fmt: skip
def test_recorded_kernels(decoder, shape, us, flop, elements, of_flops, of_bandwidth):
    (one,) = (row.baseline for row in decoder.limits.rows if row.baseline.shapes[0] == shape)
    assert (one.dtype, one.known) == ("bf16", 1)
    assert one.flop_per_s == pytest.approx(flop / us * 1e6, rel=1e-3)
    assert one.bytes_per_s == pytest.approx(2 * elements / us * 1e6, rel=1e-3)
    assert one.of_flops == pytest.approx(of_flops, abs=6e-4)
    assert one.of_bandwidth == pytest.approx(of_bandwidth, abs=6e-4)


def test_recorded_utilisation_of_prefill_and_decode(decoder):
    """4 layers and the head, of the last token alone; from label to label a mean step is 20.107 and 2.241 ms."""
    weights, head = 4096 * (12288 + 4096 + 2 * 16384), 2 * 16 * 32000 * 4096
    found = {phase.phase: phase.baseline.mfu for phase in decoder.limits.phases}
    for phase, tokens, pairs, ms in (
        ("step-with-vectorized_gather_kernel", 8192, 512 * 513 // 2, 20.107),
        ("step", 16, _KEYS, 2.241),
    ):
        flop = 4 * (2 * tokens * weights + 4 * 128 * 16 * 32 * pairs) + head
        assert found[phase] == pytest.approx(flop / (ms * 1e-3 * 989.4e12), rel=5e-3)
    assert [round(found[phase], 3) for phase in ("step-with-vectorized_gather_kernel", "step")] == [
        0.670,
        0.014,
    ]


# Copies.


def test_copies_to_a_device_on_an_h200():
    """16,777,216 bytes in 304,969 ns each (mean of the export) are 55.0 GB/s, of 64."""
    (row,) = limits_of_file(FIXTURES / "pairs" / "h2d_1.sqlite.xz").rows
    one = row.baseline
    assert one.bytes_per_s == pytest.approx(55.0e9, rel=2e-3)
    assert one.of_bandwidth == one.least == pytest.approx(55.0 / 64, rel=2e-3)
    assert (one.link, one.launches, one.flop_per_s) == ("host", 30, None)


def test_a_copy_within_the_device_reads_and_writes(tmp_path):
    """256 MiB in 200 us: twice that through the memory, 2.68 TB/s of 4.8. Small copies and those between GPUs are not looked at."""

    def inside(trace, number, start):
        for place, (kind, many, ns) in enumerate(
            (("DtoD", 256 << 20, 200_000), ("DtoH", 4096, 50_000), ("PtoP", 1 << 28, 90_000))
        ):
            corr = 10 * number + 2 + place
            begin = start + 10_000 + 250_000 * place
            trace.api(1, "cudaMemcpyAsync", begin, begin + 500, corr=corr)
            trace.memcpy(corr, begin + 600, begin + 600 + ns, kind, many)  # type: ignore[arg-type]

    (row,) = limits_of(steps(inside), tmp_path).rows
    assert row.baseline.bytes_per_s == pytest.approx(2 * (256 << 20) / 200e-6)
    assert row.baseline.of_bandwidth == pytest.approx(0.55924, abs=1e-5)


# How it is told.


def printed(render, report) -> str:
    out = StringIO()
    render(report, Console(file=out, width=160))
    return out.getvalue()


def test_a_saved_report_may_name_a_kernel_that_is_not_there():
    report = show(
        Side("t", [Run("t", [reduce_file(FIXTURES / "pairs" / "h2d_1.sqlite.xz", Reading(threads=1))])])
    )
    rows = [replace(row, kernel=place) for row in report.limits.rows for place in (-1, 10_000)]
    other = replace(report, limits=replace(report.limits, rows=rows))
    assert 'id="limits"' not in render_show_html(other)
    assert 'id="limits"' in render_show_html(report)


def test_every_output_says_it(tmp_path):
    """A GEMM of 16 rows that took 95 us and takes 79: 51.7 -> 62.2 % of the bandwidth."""
    text = sizes("aten::mm", [16, 4096], [4096, 28672])
    both = [
        side(steps(lambda trace, *at, ns=ns: launched(trace, *at, BF16, ns, text)), tmp_path, f"{ns}.sqlite")
        for ns in (95_000, 79_000)
    ]
    report = show(both[1])
    for output in (
        render_show_markdown(report),
        printed(render_show_terminal, report),
        render_show_html(report),
    ):
        assert "62 %" in output.replace("\u202f", " ")
    assert 'id="limits"' in render_show_html(report)
    result = compare(*both)
    for output in (render_markdown(result), printed(render_terminal, result), render_html(result)):
        assert "62 %" in output.replace("\u202f", " ")
    assert "52 % -> 62 %" in render_markdown(result)
    assert "16 x 28672 x 4096 bf16" in render_markdown(result)

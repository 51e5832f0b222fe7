"""The pages of `ncu --csv`: what is read, in which unit, and what is refused."""

from __future__ import annotations

import pytest

from tracediff.companions.ncu.read import read
from tracediff.errors import TracediffError

from .counters import PEAK, raw_csv

KERNEL = "void quantize<float, 128>(float *, int)"
METRICS = {
    "gpu__time_duration.sum": ("usecond", "41.500000"),
    f"sm__throughput.{PEAK}": ("%", "12.25"),
    "launch__grid_size": ("", "132"),
    "lts__t_sectors.sum": ("sector", "1,000"),
    "dram__bytes_read.sum": ("Mbyte", "2.500000"),
    "gpc__cycles_elapsed.avg.per_second": ("cycle/nsecond", "1.98"),
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": ("sector", "400"),
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": ("", "100"),
    "smsp__sass_inst_executed_op_memory_128b.sum": ("inst", "30"),
    "smsp__sass_inst_executed_op_memory_64b.sum": ("inst", "10"),
    "smsp__sass_inst_executed_op_memory_32b.sum": ("inst", "0"),
    "smsp__sass_inst_executed_op_memory_16b.sum": ("inst", "0"),
    "smsp__sass_inst_executed_op_memory_8b.sum": ("inst", "0"),
    "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio": ("inst", "7.5"),
    "device__attribute_display_name": ("", "NVIDIA H200"),
    "launch__func_cache_config": ("", "CachePreferNone"),
}
EXPECTED = {
    "duration_ns": 41_500, "compute_pct": 12.25, "grid_blocks": 132, "l2_bytes": 32_000, "dram_read_bytes": 2.5e6,
    "sm_clock_hz": 1.98e9, "load_sectors_per_request": 4, "wide_access_pct": 75,
}  # fmt: skip


def _read(tmp_path, text: str):
    path = tmp_path / "page.csv"
    path.write_text(text, encoding="utf-8")
    return read(path)


def test_the_raw_page(tmp_path):
    found = _read(tmp_path, raw_csv((KERNEL, "(132, 1, 1)", "(256, 1, 1)", METRICS)))
    assert (found.file, found.source, found.device) == ("page.csv", "csv-raw", "NVIDIA H200")
    (launch,) = found.launches
    assert (launch.name, launch.grid, launch.block) == (KERNEL, "132,1,1", "256,1,1")
    assert launch.values == pytest.approx(EXPECTED)
    assert launch.stalls == {"long_scoreboard": 7.5}


def test_what_the_program_printed_before_and_after_is_passed_over(tmp_path):
    noise = '==PROF== Connected to process 4242 (/secret/app)\nhello, "world"\n\n'
    text = raw_csv((KERNEL, "(132, 1, 1)", "(256, 1, 1)", METRICS), before=noise) + "==PROF== Disconnected\n"
    assert _read(tmp_path, text).launches[0].values == pytest.approx(EXPECTED)


def test_an_empty_cell_is_not_collected_and_not_zero(tmp_path):
    without = {name: value for name, value in METRICS.items() if not name.startswith("dram")}
    found = _read(
        tmp_path, raw_csv(*((KERNEL, "(1, 1, 1)", "(32, 1, 1)", one) for one in (METRICS, without)))
    )
    assert "dram_read_bytes" in found.launches[0].values
    assert "dram_read_bytes" not in found.launches[1].values


def test_a_ratio_of_nothing_is_not_collected(tmp_path):
    none = {**METRICS, "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": ("", "0")}
    assert (
        "load_sectors_per_request" not in _read(tmp_path, raw_csv((KERNEL, "", "", none))).launches[0].values
    )


def test_instances_of_a_metric_are_left_out_of_its_value(tmp_path):
    one = {**METRICS, "gpu__time_duration.sum": ("ns", "500 (100; 400)")}
    assert _read(tmp_path, raw_csv((KERNEL, "", "", one))).launches[0].values["duration_ns"] == 500


def test_the_shape_is_taken_from_the_metrics_where_the_columns_lack(tmp_path):
    dims = {
        f"launch__{kind}_dim_{axis}": ("", str(size))
        for kind, size in (("grid", 6), ("block", 64))
        for axis in "xyz"
    }
    (launch,) = _read(tmp_path, raw_csv((KERNEL, "", "", {**METRICS, **dims}))).launches
    assert (launch.grid, launch.block) == ("6,6,6", "64,64,64")


RAW = raw_csv((KERNEL, "(132, 1, 1)", "(256, 1, 1)", METRICS))
HEADER = RAW.splitlines()[0]


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("", "ncu-empty"),
        ("a,b\nx,y\n", "ncu-unknown-file"),
        ("a,b\n1,2\n", "other-input"),  # columns of numbers: latencies, for all that is known
        ('"ID","Name"\n"0","x"\n', "ncu-csv-shape"),
        ('==PROF== Connected\n==ERROR== ERR_NVGPUCTRPERM\n', "ncu-csv-shape"),
        (HEADER + "\n", "ncu-csv-shape"),  # no row of units
        ("\n".join(RAW.splitlines()[::2]) + "\n", "ncu-csv-shape"),  # the launch where the units should be
        (RAW[:-40], "ncu-csv-shape"),
        (RAW[: RAW.rindex('"CachePrefer')].rstrip(",") + "\n", "ncu-csv-shape"),
        ("\n".join(RAW.splitlines()[:2]) + "\n", "ncu-empty"),
        ('"ID","Kernel Name","Metric Name","Metric Value"\n"0","k","Duration","1"\n', "ncu-csv-shape"),  # --page details
        ('"ID","Kernel Name","Kernel Time"\n"","",""\n"0","k","1"\n', "ncu-csv-shape"),
        ('"Kernel Name","ID","Metric Name","Minimum"\n"k","0","x","1"\n', "ncu-csv-shape"),
        (RAW.replace('"41.500000"', '"41,5"'), "ncu-csv-numbers"),
        (RAW.replace('"usecond"', '"fortnight"'), "ncu-csv-unit"),
        (RAW.replace(KERNEL, "\0" * 9), None),
    ],
)  # fmt: skip
def test_other_shapes_are_refused_by_name(tmp_path, text, slug):
    if slug is None:
        assert len(_read(tmp_path, text).launches) == 1
        return
    with pytest.raises(TracediffError) as caught:
        _read(tmp_path, text)
    assert caught.value.slug == slug
    assert "page.csv" in caught.value.message and str(tmp_path) not in caught.value.message


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(TracediffError) as caught:
        read(tmp_path / "none.ncu-rep")
    assert caught.value.slug == "ncu-no-file"
    with pytest.raises(TracediffError) as caught:
        read(tmp_path)
    assert caught.value.slug == "ncu-no-file"


def test_nothing_of_the_host_is_read(tmp_path):
    found = repr(_read(tmp_path, RAW))
    assert "secret" not in found and "4242" not in found

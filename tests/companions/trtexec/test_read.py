"""Files of trtexec: recognised by what they hold, read to the number, refused by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fixtures.builders import trtexec as made
from tracediff.companions.trtexec import read as trtexec
from tracediff.companions.trtexec.compare import compare_trtexec
from tracediff.companions.trtexec.read import (
    LayerInfo,
    kind_of,
    precision,
    read,
    read_layers,
    read_log,
    read_profile,
    read_times,
    recognise,
    version_text,
)
from tracediff.companions.trtexec.render import headline
from tracediff.errors import TracediffError
from tracediff.formats.inputs import resolve

FILES = {"times.json": "times", "profile.json": "profile", "layers.json": "layer info", "log.txt": "log"}  # fmt: skip


def refused(slug: str, call, *arguments) -> str:
    with pytest.raises(TracediffError) as caught:
        call(*arguments)
    assert caught.value.slug == slug, caught.value
    return str(caught.value)


def put(folder, text: str | bytes, name="x"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_the_sample_is_what_the_builder_writes():
    for side in ("fp32", "fp16"):
        for name, text in made.sample(side).items():
            file = made.ROOT / side / (f"{name}.txt" if name == "log" else f"{name}.json")
            assert file.read_text(encoding="utf-8") == text


@pytest.mark.parametrize(("name", "kind"), FILES.items())
def test_files_are_known_by_what_they_hold(name, kind, tmp_path):
    data = (made.ROOT / "fp32" / name).read_bytes()
    assert kind_of(put(tmp_path, data, "anything.bin")) == kind
    assert recognise(data[:200]) == kind
    assert recognise(b"\xef\xbb\xbf" + data) == kind


@pytest.mark.parametrize(
    "head",
    [b"", b"[]", b"{}", b"text", b"\x00\xff" * 50, b'[{"name": "a", "dimensions": "1x3"}]', b'{"traceEvents": []}',
     b'{"layers": []}', b"SQLite format 3\x00", b'[ { "countdown" : 1 } ]'],
)  # fmt: skip
def test_other_files_are_not(head):
    assert recognise(head) is None


def test_times_of_8_and_10(tmp_path):
    found = read_times(put(tmp_path, made.times([0.8, 0.9], every=2.0)))
    assert found.values["gpu_compute"] == pytest.approx([0.8e6, 0.9e6])
    assert found.values["latency"] == pytest.approx([0.87e6, 0.97e6])
    assert found.values["h2d"] == pytest.approx([0.05e6] * 2)
    assert found.start == pytest.approx([200e6, 202e6]) and not found.with_warmups
    assert read_times(put(tmp_path, made.times([0.8], end_to_end=True))).with_warmups


def test_the_order_of_iterations_in_the_file_does_not_matter(tmp_path):
    rows = json.loads(made.times([0.8, 0.9, 0.7]))
    one, other = (
        read_times(put(tmp_path, json.dumps(order))) for order in (rows, [rows[2], rows[0], rows[1]])
    )
    assert one.values["gpu_compute"].tolist() == other.values["gpu_compute"].tolist() == [0.8e6, 0.9e6, 0.7e6]


@pytest.mark.parametrize(
    ("change", "told"),
    [({"computeMs": -1.0}, "iteration 1: computeMs is -1"), ({"computeMs": None}, "iteration 1 has no finite computeMs"),
     ({"latencyMs": 1e999}, "no finite latencyMs")],
)  # fmt: skip
def test_iterations_that_cannot_be(change, told, tmp_path):
    rows = json.loads(made.times([0.8, 0.9]))
    rows[1] |= change
    text = json.dumps(rows).replace("Infinity", "inf")
    assert told in refused("trtexec-bad-number", read_times, put(tmp_path, text))


def test_a_profile_is_a_query(tmp_path):
    layers = read_profile(put(tmp_path, made.profile(50, [("a", 30.0), ("b + c", 10.0)])))
    assert layers == (("a", pytest.approx(30e3)), ("b + c", pytest.approx(10e3)))
    # a layer in a loop of four passes takes all of them per query
    text = '[ { "count" : 10 }\n, { "name" : "loop", "timeMs" : 8, "averageMs" : 0.2, "percentage" : 100 } ]'
    assert read_profile(put(tmp_path, text))[0][1] == pytest.approx(0.8e6)


def test_what_trtexec_writes_where_nothing_took_time_is_no_json_but_read(tmp_path):
    text = made.profile(50, [("a", 0.0)])
    assert '"percentage" : nan' in text
    assert read_profile(put(tmp_path, text))[0][1] == 0
    assert read_profile(put(tmp_path, text.replace(" nan", " -nan(ind)")))[0][1] == 0
    refused("trtexec-bad-number", read_profile, put(tmp_path, text.replace('"timeMs" : 0', '"timeMs" : -4')))
    text = text.replace('"timeMs" : 0, "averageMs" : 0', '"timeMs" : nan, "averageMs" : nan')
    refused("trtexec-bad-number", read_profile, put(tmp_path, text))
    refused("trtexec-bad-number", read_profile, put(tmp_path, made.profile(0, [("a", 1.0)])))


def test_names_in_no_encoding_are_read(tmp_path):
    data = made.profile(1, [("n\udcff", 1.0)]).encode(errors="surrogateescape")
    assert read_profile(put(tmp_path, data))[0][0] == "n\ufffd"


def test_layer_info_in_detail_and_by_name(tmp_path):
    info = made.layer(
        "a + b", "Convolution", (made.FP32, made.FP16), "sm80_x", "CaskConvolution", ("/a", "/b")
    )
    (found,) = read_layers(put(tmp_path, made.layers([info])))
    assert (found.type, found.subtype, found.precision, found.output_precision) == (
        "Convolution",
        "CaskConvolution",
        "FP32",
        "FP16",
    )
    assert found.tactic == "sm80_x" and found.onnx == ("/a", "/b")
    assert found.format == f"{made.FP32} -> {made.FP16}"
    (found,) = read_layers(put(tmp_path, made.layers([info | {"TacticValue": "0x11bd"}])))
    assert found.tactic == "sm80_x 0x11bd"
    assert [one.name for one in read_layers(put(tmp_path, made.layers(["a", "b"])))] == ["a", "b"]
    bare = {"Name": "only", "LayerType": "NoOp", "Inputs": [{"Format/Datatype": "N/A due to dynamic shapes"}]}
    (found,) = read_layers(put(tmp_path, made.layers([bare])))
    assert (found.type, found.precision, found.tactic) == ("NoOp", "", "")


@pytest.mark.parametrize(
    ("text", "kind"),
    [("Row major linear FP32", "FP32"), ("Channel major FP16 format where channel % 8 == 0", "FP16"), ("Half", "FP16"),
     ("Thirty-two wide channel vectorized row major Int8 format", "INT8"), ("Row major linear BFloat16 format", "BF16"),
     ("Row major linear FP8 format", "FP8"), ("Float", "FP32"), ("Int64", "INT64"), ("Bool", "BOOL"), ("", ""),
     ("Unknown format", "")],
)  # fmt: skip
def test_precisions(text, kind):
    assert precision(text) == kind


def test_a_log(tmp_path):
    found = read_log(put(tmp_path, made.log(made.SUMMARY["fp32"], throughput=1005.03)))
    assert found is not None
    assert (found.version, found.device, found.throughput) == ("10.3.0", "NVIDIA H200", 1005.03)
    assert (found.queries, found.profiled) == (10, False)
    assert found.figures["gpu_compute"] == pytest.approx(
        {"min": 0.79e6, "max": 0.88e6, "mean": 0.81e6, "median": 0.80e6, "p90": 0.82e6, "p95": 0.88e6, "p99": 0.88e6}
    )  # fmt: skip
    assert found.options == {
        "Precision": "FP32",
        "Batch": "Explicit",
        "Streams": "1",
        "Data transfers": "Enabled",
        "Spin-wait": "Disabled",
        "CUDA Graph": "Disabled",
    }


def test_logs_of_windows_and_of_another_console(tmp_path):
    text = made.log(made.SUMMARY["fp32"], throughput=1.0)
    for data in (text.replace("\n", "\r\n").encode(), b"\xef\xbb\xbf" + text.encode()):
        path = put(tmp_path, data)
        assert kind_of(path) == "log"
        assert read_log(path).figures["d2h"]["mean"] == pytest.approx(20e3)
    bare = text.replace(made.STAMP, "")
    assert read_log(put(tmp_path, bare)).figures["d2h"]["mean"] == pytest.approx(20e3)


def test_versions():
    assert [version_text(one) for one in ("8503", "8603", "100300", "101000", "")] == [
        "8.5.3",
        "8.6.3",
        "10.3.0",
        "10.10.0",
        "",
    ]


def test_the_profiler_within_the_measurement_is_seen(tmp_path):
    text = made.log(made.SUMMARY["fp32"], profile_in="Disabled")
    assert read_log(put(tmp_path, text)).profiled
    none = text.replace("Export profile to JSON file: profile.json", "Export profile to JSON file: ")
    assert not read_log(put(tmp_path, none)).profiled


def test_logs_that_say_too_little_or_too_much(tmp_path):
    built = made.log(None)
    assert read_log(put(tmp_path, built)) is None
    assert "the log is cut short" in refused("trtexec-no-summary", read, str(put(tmp_path, built)))
    good = made.log(made.SUMMARY["fp32"], throughput=1.0)
    refused("trtexec-log-twice", read_log, put(tmp_path, good + good))
    refused("trtexec-failed", read_log, put(tmp_path, good.replace("PASSED", "FAILED")))
    for wrong in ("nan", "-1", "inf", "x" * 500):
        text = good.replace("mean = 0.88 ms", f"mean = {wrong} ms")
        assert text != good and len(refused("trtexec-bad-number", read_log, put(tmp_path, text))) < 300


BUILDS = Path(__file__).parents[3] / "fixtures" / "trtexec" / "builds"


def test_the_log_of_a_build_has_its_time_and_the_tactics_chosen():
    """The time that trtexec prints, not the builder's own within it; a tactic's name is that of the lines on tuning."""
    log = read_log(BUILDS / "before.txt")
    assert log is not None and log.build == pytest.approx(10.7e9) and not log.figures
    assert log.options["Timing cache"] == "local"
    assert log.built == [
        LayerInfo(
            "/conv1/Conv + /relu1/Relu", "CaskConvolution", precision="FP16", output_precision="FP16",
            tactic="sm90_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize128x64x32 0x1f6c40e3e09ec730",
        ),
        LayerInfo("{ForeignNode[/norm/ReduceMean.../fc/MatMul]}", "Myelin", precision="FP16", output_precision="FP16"),
    ]  # fmt: skip
    (run,) = read(str(BUILDS / "before.txt")).runs
    assert run.files == ("build log",) and run.layers == tuple(log.built)


def test_the_log_of_a_build_lies_beside_that_of_a_run(tmp_path):
    put(tmp_path, (BUILDS / "before.txt").read_text(), "a_build.txt")
    put(tmp_path, made.log(made.SUMMARY["fp32"], throughput=1.0), "log.txt")
    (run,) = read(str(tmp_path)).runs
    assert run.files == ("log", "build log") and run.log is not None
    assert run.log.build == pytest.approx(10.7e9) and run.log.throughput == 1.0


def test_older_releases_print_the_time_of_the_builder_alone(tmp_path):
    text = "&&&& RUNNING TensorRT.trtexec [TensorRT v8601]\n[05/21/2026-10:00:00] [V] [TRT] Engine generation completed in 584.689 seconds.\n"
    log = read_log(put(tmp_path, text))
    assert log is not None and log.build == pytest.approx(584.689e9)
    refused("trtexec-bad-number", read_log, put(tmp_path, text.replace("584.689", "inf")))


@pytest.mark.parametrize("name", ["times.json", "profile.json", "layers.json"])
def test_a_truncated_file_is_damaged(name, tmp_path):
    data = (made.ROOT / "fp32" / name).read_bytes()
    path = put(tmp_path, data[: len(data) * 2 // 3], name)
    assert name in refused("trtexec-damaged", read, str(path))


@pytest.mark.parametrize(
    ("text", "slug"),
    [('[ { "count" : 4 } ]', "trtexec-empty"), ('{"Layers": [], "Bindings": []}', "trtexec-empty"),
     ('[ { "count" : "many" } ]', "trtexec-damaged"), ('{"Layers": [7]}', "trtexec-damaged"),
     ('{"Layers": [' + "[" * 100_000, "trtexec-damaged"), ('[ { "startEnqMs" : 1, "computeMs" : {} } ]', "trtexec-damaged"),
     ("[]", "trtexec-unknown-file"), ("{}", "trtexec-unknown-file"), ("", "trtexec-unknown-file")],
)  # fmt: skip
def test_empty_and_odd_files(text, slug, tmp_path):
    refused(slug, read, str(put(tmp_path, text)))


def test_a_huge_file_is_refused_before_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr("tracediff.companions.trtexec.read.LARGEST", 100)
    refused("trtexec-large", read_times, put(tmp_path, made.times([0.8] * 9)))


def test_a_file_of_many_small_things_is_refused_before_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr("tracediff.companions.trtexec.read.OBJECTS", 4)
    assert len(read_times(put(tmp_path, made.times([0.8] * 4))).start) == 4
    refused("trtexec-large", read_times, put(tmp_path, made.times([0.8] * 5)))
    refused("trtexec-large", read_layers, put(tmp_path, made.layers(["a"] * 70)))
    monkeypatch.setattr("tracediff.companions.trtexec.read.LAYERS", 2)
    refused("trtexec-large", read_layers, put(tmp_path, made.layers(["a"] * 3)))
    refused("trtexec-large", read_profile, put(tmp_path, made.profile(1, [("a", 1.0)] * 3)))


# Sides


def test_a_folder_a_list_and_a_file_are_the_same_run(tmp_path):
    folder = made.ROOT / "fp32"
    whole = read(str(folder))
    listed = read(",".join(str(folder / name) for name in FILES))
    assert whole.label == "fp32" and listed.label == "times.json + 3"
    for side in (whole, listed):
        (run,) = side.runs
        assert run.files == ("log", "times", "profile", "layer info")
    assert read(str(folder / "times.json")).runs[0].files == ("times",)
    comma = put(tmp_path, made.times([0.8]), "a,b.json")
    assert read(str(comma)).label == "a,b.json"


def test_a_folder_of_folders_is_a_side_of_several_runs(tmp_path):
    for number in (1, 2):
        made.write(tmp_path / "side" / f"run{number}", times=made.times([0.8, 0.9]))
    (tmp_path / "side" / "notes").mkdir()
    side = read(str(tmp_path / "side"))
    assert [run.name for run in side.runs] == ["run1", "run2"]


def test_two_files_of_a_kind_are_no_run(tmp_path):
    for name in ("a.json", "b.json"):
        put(tmp_path, made.times([0.8]), name)
    assert "a.json and b.json" in refused("trtexec-two-of-a-kind", read, str(tmp_path))


def test_a_log_of_the_build_beside_that_of_the_run_is_left_out(tmp_path):
    made.write(tmp_path, log=made.log(made.SUMMARY["fp32"], throughput=1.0))
    put(tmp_path, made.log(None), "build.txt")
    (run,) = read(str(tmp_path)).runs
    assert run.skipped == ("build.txt",) and run.log is not None


def test_paths_that_are_nothing(tmp_path):
    refused("trtexec-no-file", read, str(tmp_path / "none"))
    refused("trtexec-no-file", read, f"{made.ROOT / 'fp32' / 'times.json'},{tmp_path / 'none'}")
    refused("trtexec-no-file", read, ",")
    refused("trtexec-nothing", read, str(tmp_path))
    assert "tracediff" not in refused("trtexec-unknown-file", read, str(put(tmp_path, "x")))


@pytest.mark.parametrize("name", FILES)
def test_a_side_of_a_comparison_of_steps_is_refused(name):
    path = made.ROOT / "fp32" / name
    assert "tracediff compare BASELINE CANDIDATE" in refused("trtexec-as-side", resolve, str(path))
    assert "trtexec" in refused("trtexec-as-side", resolve, str(path.parent))


def test_the_capture_command_names_every_file():
    for word in ("--exportTimes", "--exportProfile", "--exportLayerInfo", "--separateProfileRun"):
        assert word in trtexec.CAPTURE


@pytest.mark.parametrize("number", ["1e12", "1e308", "-1e-9"])
def test_numbers_that_no_time_is(number, tmp_path):
    text = made.profile(1, [("a", 10.0)]).replace('"timeMs" : 0.01', f'"timeMs" : {number}')
    refused("trtexec-bad-number", read_profile, put(tmp_path, text))
    text = made.times([0.8]).replace('"computeMs" : 0.8', f'"computeMs" : {number}')
    refused("trtexec-bad-number", read_times, put(tmp_path, text))
    text = made.log(made.SUMMARY["fp32"]).replace("mean = 0.88 ms", f"mean = {number} ms")
    refused("trtexec-bad-number", read_log, put(tmp_path, text))


def test_a_log_of_7_that_failed_is_told(tmp_path):
    text = "&&&& RUNNING TensorRT.trtexec # trtexec --onnx=x\n[E] broken\n&&&& FAILED TensorRT.trtexec # trtexec --onnx=x\n"
    refused("trtexec-failed", read, str(put(tmp_path, text)))


# As TensorRT 10 and 8.4 print it (samples/common/sampleReporting.cpp): the name last, and the name first without medians.
_LAST = """
[05/08/2024-14:05:14] [I] === Profile (2000 iterations ) ===
[05/08/2024-14:05:14] [I]    Time(ms)     Avg.(ms)   Median(ms)   Time(%)   Layer
[05/08/2024-14:05:14] [I]     {conv}       0.9600       0.9600      80.0   conv1 + relu 2
[05/08/2024-14:05:14] [I]      480.00       0.2400       0.2400      20.0   fc 3
[05/08/2024-14:05:14] [I]     2400.00       1.2000       1.2000     100.0   Total
"""
_FIRST = """
[04/18/2024-16:28:04] [I] === Profile (2000 iterations ) ===
[04/18/2024-16:28:04] [I]              Layer   Time (ms)   Avg. Time (ms)   Time %
[04/18/2024-16:28:04] [I]     conv1 + relu 2     {conv}           0.9600     80.0
[04/18/2024-16:28:04] [I]               fc 3      480.00           0.2400     20.0
[04/18/2024-16:28:04] [I]              Total     2400.00           1.2000    100.0
"""


@pytest.mark.parametrize("table", [_LAST, _FIRST])
def test_a_table_of_layers_in_the_log(table, tmp_path):
    head = made.log(made.SUMMARY["fp32"], throughput=1005.03)
    more = "[05/08/2024-14:05:15] [W] * GPU compute time is not of these 2 layers at all\n"
    found = read_log(put(tmp_path, head + table.format(conv="1920.00") + more))
    assert found.passes == 2000
    assert found.layers == [("conv1 + relu 2", pytest.approx(960_000)), ("fc 3", pytest.approx(240_000))]
    assert found.figures == read_log(put(tmp_path, head)).figures


def test_a_layer_of_that_table_that_changed_is_said(tmp_path):
    """0.96 -> 0.56 ms per query; with the file of --exportProfile that is taken instead."""
    head = made.log(made.SUMMARY["fp32"], throughput=1005.03)
    for side, conv in (("a", "1920.00"), ("b", "1120.00")):
        made.write(tmp_path / side, log=head + _LAST.format(conv=conv))
    result = compare_trtexec(*(read(str(tmp_path / side)) for side in ("a", "b")))
    (row,) = [row for row in result.rows if row.delta_ns]
    assert row.delta_ns == pytest.approx(-400_000) and row.level == "likely"
    assert "every figure is the same" not in result.verdict_reason
    assert "The largest change of a layer is in conv1 + relu 2: " in headline(result)
    other = made.profile(10, [("conv1 + relu 2", 5.0)])
    made.write(tmp_path / "a", profile=other)
    (run,) = read(str(tmp_path / "a")).runs
    assert [name for name, _ in run.profile] == ["conv1 + relu 2"]


def test_end_to_end_latency_of_old_versions(tmp_path):
    line = "[I] End-to-End Host Latency: min = 3.47217 ms, max = 4.42708 ms, mean = 3.70519 ms, median = 3.64288 ms, percentile(99%) = 4.37744 ms\n"
    found = read_log(put(tmp_path, made.log(made.SUMMARY["fp32"], throughput=1.0) + line))
    assert found.figures["end_to_end"]["mean"] == pytest.approx(3_705_190)
    assert found.figures["end_to_end"]["p99"] == pytest.approx(4_377_440)
    assert (
        found.figures["latency"]
        == read_log(put(tmp_path, made.log(made.SUMMARY["fp32"], throughput=1.0))).figures["latency"]
    )


def test_a_table_twice_is_refused(tmp_path):
    twice = made.log(made.SUMMARY["fp32"], throughput=1.0) + 2 * _LAST.format(conv="1920.00")
    refused("trtexec-log-twice", read_log, put(tmp_path, twice))


def test_a_time_in_that_table_that_is_none_is_refused(tmp_path):
    bad = made.log(made.SUMMARY["fp32"], throughput=1.0) + _LAST.format(conv="nan")
    assert "layer 'conv1 + relu 2'" in refused("trtexec-bad-number", read_log, put(tmp_path, bad))

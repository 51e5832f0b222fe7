"""Reports: what is taken of NVIDIA's reader, and that a damaged container is refused before it is asked."""

from __future__ import annotations

import struct

import pytest

from tracediff.companions.ncu import read as ncu_report
from tracediff.companions.ncu.read import MAGIC, read
from tracediff.errors import TracediffError

from .counters import PEAK, StubAction, StubMetric

METRICS = {
    "gpu__time_duration.sum": StubMetric(41_500, "ns"),
    f"sm__throughput.{PEAK}": StubMetric(12.25, "%"),
    "dram__bytes_read.sum": StubMetric(2_500_000.0, "byte"),
    "gpc__cycles_elapsed.avg.per_second": StubMetric(1.98e9, "hz"),
    "launch__registers_per_thread": StubMetric(float("nan"), "register/thread"),
    "sm__warps_active.avg.pct_of_peak_sustained_active": StubMetric(None, "%"),
    **{f"launch__{kind}_dim_{axis}": StubMetric(float(size)) for kind, sizes in (("grid", (132, 1, 1)), ("block", (256, 1, 1)))
       for axis, size in zip("xyz", sizes, strict=True)},
    "smsp__average_warps_issue_stalled_wait_per_issue_active.ratio": StubMetric(2.5, "inst"),
    "device__attribute_display_name": StubMetric("NVIDIA H200"),
    "sass__inst_executed_per_opcode": StubMetric(30, instances={"LDG": 10, "FFMA": 20}),
    "smsp__secret_metric.sum": StubMetric(1),
}  # fmt: skip


def test_what_is_taken_of_a_launch():
    found = ncu_report.extract([[StubAction("quantize(float *)", METRICS)]])
    assert found["device"] == "NVIDIA H200"
    (launch,) = found["launches"]
    assert launch == {
        "name": "quantize(float *)", "grid": "132,1,1", "block": "256,1,1",
        "values": {"duration_ns": 41_500, "compute_pct": 12.25, "dram_read_bytes": 2.5e6, "sm_clock_hz": 1.98e9},
        "stalls": {"wait": 2.5}, "opcodes": {"LDG": 10, "FFMA": 20},
    }  # fmt: skip


def test_the_function_name_stands_in_for_a_missing_demangled_one():
    class Nameless(StubAction):
        def name(self, base=0):
            return "" if base else "quantize"

    assert ncu_report.extract([[Nameless("x", METRICS)]])["launches"][0]["name"] == "quantize"


def block(results=0, payload=b"", strings=b"") -> bytes:
    """A block of the container: header with results, string table and size of the payload; then the payload."""
    header = (
        bytes([2 << 3, results]) + bytes([4 << 3 | 2, len(strings)]) + strings + bytes([5 << 3, len(payload)])
    )
    return struct.pack("<I", len(header)) + header + payload


def container(*blocks: bytes) -> bytes:
    header = bytes([1 << 3, 7])
    return MAGIC + struct.pack("<I", len(header)) + header + b"".join(blocks)


def test_results_are_counted_over_all_blocks(tmp_path):
    path = tmp_path / "a.ncu-rep"
    path.write_bytes(container(block(), block(2, b"x" * 90, b"name"), block(1, b"y" * 10)))
    assert ncu_report.results(path) == 3


WHOLE = container(block(), block(1, b"x" * 90))


@pytest.mark.parametrize(
    "data",
    [WHOLE[:-1], WHOLE[:21], WHOLE[:6], MAGIC, WHOLE + b"\x01", WHOLE + struct.pack("<I", 1 << 30),
     MAGIC + struct.pack("<I", 2) + b"\x08\x07" + struct.pack("<I", 4) + b"\xff\xff\xff\xff",
     MAGIC + struct.pack("<I", 2) + b"\x08\x07" + struct.pack("<I", 20) + b"\xff" * 20,
     MAGIC + struct.pack("<I", 0xFFFFFFFF)],
)  # fmt: skip
def test_a_damaged_container_is_refused(tmp_path, monkeypatch, data):
    monkeypatch.setattr(ncu_report, "find_spec", lambda name: object())
    path = tmp_path / "a.ncu-rep"
    path.write_bytes(data)
    with pytest.raises(TracediffError) as caught:
        read(path)
    assert caught.value.slug == "ncu-damaged"


def test_without_the_package_the_way_out_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(ncu_report, "find_spec", lambda name: None)
    path = tmp_path / "a.ncu-rep"
    path.write_bytes(WHOLE)
    with pytest.raises(TracediffError) as caught:
        read(path)
    assert caught.value.slug == "ncu-package-missing"
    assert "tracediff-gpu[ncu]" in str(caught.value) and "--csv --page raw" in str(caught.value)


class Answer:
    def __init__(self, stdout=b"", returncode=0):
        self.stdout, self.returncode = stdout, returncode


LAUNCH = b'{"name":"k","grid":"","block":"","values":{"duration_ns":5.0},"stalls":{},"opcodes":{}}'
BARE = b'{"name":"k","grid":"","block":"","values":{},"stalls":{},"opcodes":{}}'


@pytest.mark.parametrize(
    ("answer", "slug"),
    [
        (Answer(b'{"device":"d","launches":[' + LAUNCH + b"]}"), None),
        (Answer(b'{"device":"d","launches":[]}'), "ncu-damaged"),  # one result is announced
        (Answer(b'{"device":"d","launches":[' + BARE + b"]}"), "ncu-damaged"),
        (Answer(b"", -11), "ncu-damaged"),  # the native reader crashed
        (Answer(b"", 1), "ncu-damaged"),
        (Answer(b"not json"), "ncu-damaged"),
    ],
)
def test_what_the_reader_answers_is_checked(tmp_path, monkeypatch, answer, slug):
    monkeypatch.setattr(ncu_report, "find_spec", lambda name: object())
    monkeypatch.setattr(ncu_report.subprocess, "run", lambda *_, **__: answer)
    path = tmp_path / "a.ncu-rep"
    path.write_bytes(WHOLE)
    if slug is None:
        assert read(path).launches[0].values == {"duration_ns": 5.0}
        return
    with pytest.raises(TracediffError) as caught:
        read(path)
    assert caught.value.slug == slug


@pytest.mark.skipif(ncu_report.find_spec("ncu_report") is None, reason="ncu-report is not installed")
def test_the_real_reader_refuses_a_report_of_nothing(tmp_path):
    """NVIDIA's own code answers a container that it cannot parse with an empty report; that is no success."""
    path = tmp_path / "a.ncu-rep"
    path.write_bytes(WHOLE)
    with pytest.raises(TracediffError) as caught:
        read(path)
    assert caught.value.slug == "ncu-damaged"

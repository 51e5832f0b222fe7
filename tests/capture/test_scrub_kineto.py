"""`tracediff scrub` of a trace of torch.profiler: what is read stays, what tells of machine and owner goes."""

from __future__ import annotations

import gzip
import json

import pytest
from click.testing import CliRunner

from fixtures.builders.torch_trace import TorchTrace
from tests.formats.test_kineto import EXECUTOR, steps
from tracediff.capture.scrub import scrub_trace
from tracediff.cli.main import cli
from tracediff.errors import TracediffError
from tracediff.execution.run import reduce_file
from tracediff.execution.sides import Reading

SECRETS = ("secret-host", "someone", "jane", "142BAB1F", "hunter2", "corp.example", "acme", "python)")


def private() -> TorchTrace:
    """A trace that tells everything about its owner."""
    trace = steps(TorchTrace(), 4)
    trace.head["distributedInfo"] = {
        "rank": 1,
        "world_size": 2,
        "backend": "nccl",
        "pg_config": [{"desc": "acme"}],
    }
    trace.head["with_flops"] = "acme"
    trace.range(EXECUTOR, "/home/jane/acme/serve/loop.py(12): step", 700, 720, cat="python_function")
    trace.range(EXECUTOR, "load https://corp.example/x of secret-host", 720, 730)
    trace.range(EXECUTOR, "read /home/jane/weights", 730, 740, cat="cpu_op")
    trace.event("cuda_sync", "Stream Synchronize", 10, 20, 0, 7, {"note": "hunter2"})
    trace.event(
        "cpu_op",
        "aten::mm",
        740,
        741,
        100,
        EXECUTOR,
        {"Concrete Inputs": ["hunter2"], "correlation": "hunter2"},
    )
    shapes = {
        "Input Dims": [[16, 64], [64, 32]],
        "Input type": ["c10::BFloat16", "acme"],
        "Concrete Inputs": ["hunter2", "1."],
    }
    trace.event("cpu_op", "aten::mm", 742, 743, 100, EXECUTOR, shapes)
    trace.event("Trace", "PyTorch Profiler (0)", -300, 9000, "Spans", "PyTorch Profiler")
    return trace


@pytest.mark.parametrize("name", ["out.json", "out.json.gz"])
def test_nothing_of_the_machine_is_left_and_nothing_measured_is_changed(name, tmp_path):
    source = private().write(tmp_path / "in.json")
    target = tmp_path / name
    done = scrub_trace(source, target)
    raw = target.read_bytes()
    text = (gzip.decompress(raw) if name.endswith(".gz") else raw).decode()
    assert [word for word in SECRETS if word not in source.read_text()] == []
    assert [word for word in SECRETS if word in text] == []
    assert b"in.json" not in raw
    assert json.loads(text)["distributedInfo"] == {"rank": 1, "world_size": 2}
    assert done.events == len(json.loads(text)["traceEvents"])
    before, after = (reduce_file(one, Reading(threads=1)) for one in (source, target))
    for table in ("periods", "strata", "kernels", "keys"):
        assert getattr(before, table).equals(getattr(after, table)), table
    assert (before.meta, before.devices, before.coverage) == (after.meta, after.devices, after.coverage)


def test_what_is_said_behind_the_events_is_kept_and_known_as_the_owner_s(tmp_path):
    trace = private()
    source, target = tmp_path / "in.json", tmp_path / "out.json"
    events = [json.loads(text) for text in trace.events]
    source.write_text(json.dumps({"metadata": {"started_by": "jane"}, "traceEvents": events} | trace.head))
    scrub_trace(source, target)
    text = target.read_text()
    assert [word for word in SECRETS if word in text] == []
    said = json.loads(text)
    assert said["distributedInfo"] == {"rank": 1, "world_size": 2}
    assert [device["name"] for device in said["deviceProperties"]] == ["NVIDIA H200"]


def test_times_are_written_to_the_nanosecond(tmp_path):
    trace = TorchTrace().kernel(1, 0, 10)
    trace.raw({"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": -1.5, "dur": 2})
    trace.raw(
        '{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 4399230783764.964, "dur": 1.5e1}'
    )
    scrub_trace(trace.write(tmp_path / "in.json"), tmp_path / "out.json")
    text = (tmp_path / "out.json").read_text()
    assert '"ts":-1.500,"dur":2.000' in text
    assert '"ts":4399230783764.964,"dur":15.000' in text


def test_the_command(tmp_path):
    source = private().write(tmp_path / "in.json")
    target = tmp_path / "out.json.gz"
    done = CliRunner().invoke(cli, ["scrub", str(source), str(target)])
    assert done.exit_code == 0, done.output
    assert "events read back and equal" in done.output
    assert CliRunner().invoke(cli, ["scrub", str(source), str(target)]).exit_code != 0
    assert CliRunner().invoke(cli, ["scrub", "-f", str(source), str(target)]).exit_code == 0


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ('{"schemaVersion": 1, "traceEvents": [{"ph": "X", "cat": "v8", "name": "GC", "ts": 1, "dur": 1}]}', "not-kineto"),
        ('{"schemaVersion": 1, "traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "du', "truncated"),
        ("", "empty-file"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_leaves_nothing(text, slug, tmp_path):
    source = tmp_path / "in.json"
    source.write_text(text)
    with pytest.raises(TracediffError) as error:
        scrub_trace(source, tmp_path / "out.json")
    assert error.value.slug == slug
    assert [one.name for one in tmp_path.iterdir()] == ["in.json"]


def test_an_output_is_not_overwritten(tmp_path):
    source, target = private().write(tmp_path / "in.json"), tmp_path / "out.json"
    target.write_text("mine")
    with pytest.raises(TracediffError) as error:
        scrub_trace(source, target)
    assert error.value.slug == "output-exists"
    assert target.read_text() == "mine"

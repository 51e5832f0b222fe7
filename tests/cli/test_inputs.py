"""`tracediff inputs`: every kind of input named, counted as the loaders count, broken ones said, nothing private told."""

from __future__ import annotations

import gzip
import json
import lzma
import shutil
import sqlite3

import pytest
from click.testing import CliRunner

from fixtures.builders import BROKEN, SCHEMAS, two_steps
from fixtures.builders.columnar import to_folder
from tests.tiny import CAPTURES, FIXTURES, label, one_gap
from tracediff.cli.main import cli
from tracediff.cli.outputs import ALONE
from tracediff.errors import TracediffError
from tracediff.execution.run import reduce_file
from tracediff.execution.sides import Reading
from tracediff.formats.capture import load_capture
from tracediff.formats.inputs import resolve
from tracediff.formats.recognise import recognise

SECRETS = ("hunter2", "node17", "somebody", "/home/somebody/run.sh", "API_TOKEN")


def said(*paths, status=0):
    """The inputs of `--json`."""
    done = CliRunner().invoke(cli, ["inputs", *map(str, paths), "--json"], catch_exceptions=False)
    assert done.exit_code == status, done.output
    return json.loads(done.stdout)["inputs"]


def told(*paths, status=0):
    """The same, and the text."""
    text = CliRunner().invoke(cli, ["inputs", *map(str, paths)], catch_exceptions=False)
    assert text.exit_code == status
    return said(*paths, status=status), text.stdout


def traces(one):
    return {trace["name"]: trace for trace in one["contents"]["traces"]}


def answers(one):
    return {answer["question"]: answer for answer in one["contents"]["answers"]}


@pytest.mark.parametrize("name", ["graph_a1", "eager_a1", "tp2_a1"])
def test_counts_are_those_of_the_loader(name, tmp_path):
    (one,) = said(CAPTURES[name])
    capture = load_capture(CAPTURES[name], tmp_path)
    found = traces(one)
    want = {
        "kernels": capture.count("op", "kind = 0"),
        "kernels inside CUDA graphs": capture.count("op", "kind = 0 AND graph_node IS NOT NULL"),
        "copies": capture.count("op", "kind = 1"),
        "memsets": capture.count("op", "kind = 2"),
        "CUDA calls": capture.count("api_call"),
        "NVTX ranges": capture.count("range"),
        "Python's GIL": capture.count("gil"),
        "Python garbage collection": capture.count("gc"),
    }
    assert {kind: found[kind]["count"] for kind in want} == want
    devices = capture.db.execute(
        "SELECT DISTINCT device FROM op_descriptor WHERE kind = 0 ORDER BY 1"
    ).fetchall()
    assert [device["device"] for device in one["contents"]["devices"]] == [number for (number,) in devices]
    assert {device["model"] for device in one["contents"]["devices"]} == {"NVIDIA H200"}
    assert answers(one)["exposed communication"]["yes"] == (name == "tp2_a1")
    capture.close()
    reduction = reduce_file(CAPTURES[name], Reading(threads=1))
    assert one["contents"]["steps"]["rule"] == reduction.step_source == "tensorrt-llm"
    assert one["contents"]["steps"]["labels"] == 31  # iterations 20 to 50 were captured


def test_a_tiny_trace_by_hand(tmp_path):
    (one,), text = told(one_gap().write(tmp_path / "run.sqlite"))
    found = traces(one)
    assert (one["kind"], one["title"]) == ("sqlite", "an export of Nsight Systems (SQLite)")
    assert (found["kernels"]["count"], found["CUDA calls"]["count"], found["NVTX ranges"]["count"]) == (
        2,
        2,
        2,
    )
    assert (one["contents"]["start_ns"], one["contents"]["end_ns"]) == (-200, 1100)
    assert one["contents"]["steps"] == {"rule": "tensorrt-llm", "labels": 2, "processes": 1, "phases": True}
    assert not found["Python's GIL"]["captured"]
    assert found["Python's GIL"]["flag"] == "-t python-gil"
    assert answers(one)["time per step, closed accounting"]["yes"]
    assert answers(one)["waiting for the GIL"] == {
        "question": "waiting for the GIL", "yes": False, "reason": "no Python's GIL, which -t python-gil records",
    }  # fmt: skip
    assert one["next"].startswith(f"tracediff show {tmp_path}/run.sqlite; tracediff compare ")
    assert "next: tracediff show" in text


def test_rows_of_tables_whose_column_is_the_row_number(tmp_path):
    """ENUM tables number their rows by the value, up to 2^31."""
    path = one_gap().write(tmp_path / "run.sqlite")
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE ENUM_ODD (id INTEGER PRIMARY KEY, name TEXT)")
        db.execute("INSERT INTO ENUM_ODD VALUES (1, 'a'), (2147483648, 'b')")
    db.close()
    (one,) = said(path)
    assert {table["name"]: table["rows"] for table in one["contents"]["tables"]}["ENUM_ODD"] == 2


def test_a_folder_of_tables_says_what_its_sqlite_says(tmp_path):
    trace = two_steps()
    export = trace.write(tmp_path / "run.sqlite")
    (one,) = said(export)
    (other,) = said(to_folder(export, tmp_path / "tables"))
    assert other["kind"] == "parquetdir"
    left_out = ("tables", "graph_mode")  # META_DATA_CAPTURE is not written there
    a, b = ({k: v for k, v in x["contents"].items() if k not in left_out} for x in (one, other))
    assert a == b
    counts = [{table["name"]: table["rows"] for table in x["contents"]["tables"]} for x in (one, other)]
    assert counts[1] == {name: rows for name, rows in counts[0].items() if name != "META_DATA_CAPTURE"}


def test_graphs_traced_as_a_whole(tmp_path):
    trace = one_gap()
    trace.api(1, "cudaGraphLaunch", 870, 880, corr=9).gc(1, 10, 20)
    (one,), text = told(trace.write(tmp_path / "run.sqlite"))
    assert "Python garbage collection (1 collection)" in " ".join(text.split())
    answer = answers(one)["kernels inside CUDA graphs"]
    assert (answer["yes"], answer["reason"]) == (False, "1 launch without nodes: --cuda-graph-trace=node")


def test_a_capture_of_the_host_alone(tmp_path):
    from fixtures.builders import TraceBuilder

    trace = TraceBuilder().process(7).thread(7, 1)
    for number in range(4):
        trace.range(1, label(number), 1000 * number, 1000 * number + 900)
    (one,) = said(trace.write(tmp_path / "run.sqlite"))
    assert not answers(one)["time per step, closed accounting"]["yes"]
    assert answers(one)["host time by CUDA call and NVTX range"]["yes"]
    assert (
        one["next"]
        == f"tracediff show {tmp_path}/run.sqlite; tracediff compare {tmp_path}/run.sqlite CANDIDATE"
    )


KNOWN = {
    "fixtures/torch/loop_a.json.gz": "torch-trace",
    "fixtures/kpi/bench_streaming.json": "benchmark",
    "fixtures/kpi/iter_log.log": "benchmark",
    "fixtures/kpi/serving_summary.json": "benchmark",
    "fixtures/ncu/gemm_two.csv": "ncu-csv",
    "fixtures/bundles/aa": "bundle",
    "fixtures/demo/graph_a": "folder",
}


@pytest.mark.parametrize(("path", "kind"), KNOWN.items())
def test_bundled_files(path, kind):
    (one,), text = told(FIXTURES.parent / path)
    assert (one["kind"], one["known"]) == (kind, True)
    assert one["facts"] or one["contents"]
    assert one["title"] in " ".join(text.split())
    assert one["next"]


@pytest.mark.parametrize("folder", ["trtexec", "latencies", "kpi", "ncu"])
def test_every_fixture_is_known(folder):
    """Whatever is bundled is of a kind with a command that takes it, but for pages of source, which the product itself asks ncu for."""
    files = [path for path in sorted((FIXTURES / folder).rglob("*"))
             if path.is_file() and path.suffix not in (".md", ".toml", ".py", ".sh") and not path.stem.endswith("_source")]  # fmt: skip
    if not files:
        pytest.skip("no such fixtures")
    found, _ = told(*files)
    assert [one["name"] for one in found if not one["known"]] == []
    if folder in ("trtexec", "latencies"):
        assert {one["kind"] for one in found} == {folder}


def test_a_folder_tells_its_runs_and_ranks(tmp_path):
    for name in ("a_rank0", "a_rank1", "b_rank0", "b_rank1"):
        one_gap().write(tmp_path / f"{name}.sqlite")
    (one,) = said(tmp_path)
    assert one["facts"] == ["2 runs", "2 runs with 2 ranks"]
    assert [member["name"] for member in one["members"]] == [
        "a_rank0.sqlite", "a_rank1.sqlite", "b_rank0.sqlite", "b_rank1.sqlite",
    ]  # fmt: skip


@pytest.mark.parametrize("command", ["compare", "show"])
def test_results_are_known(command, tmp_path):
    export = two_steps().write(tmp_path / "run.sqlite")
    out = tmp_path / "out.json"
    words = [command, *[str(export)] * (2 if command == "compare" else 1), "--quiet"]
    done = CliRunner().invoke(cli, [*words, "--json", str(out)])
    assert out.is_file(), done.output
    (one,) = said(out)
    assert one["kind"] == {"compare": "result", "show": "show-result"}[command]
    assert one["next"] == f"tracediff report {out}"


@pytest.mark.parametrize(
    ("keys", "known"), [*(({"kind": kind.name}, True) for kind in ALONE), ({"point": {}}, False)]
)
def test_what_report_renders_is_known_and_a_point_of_a_history_is_none(keys, known, tmp_path):
    path = tmp_path / "out.json"
    path.write_text(json.dumps({"format_version": 1, **keys, "tool": {}}))
    kind = recognise(path)
    assert (kind is not None and kind.use == "tracediff report FILE") == known


def test_a_report_of_nsys_says_its_version_without_nsys(tmp_path, monkeypatch):
    monkeypatch.setattr("tracediff.trace.identify.find_nsys", lambda: None)
    path = tmp_path / "run.nsys-rep"
    path.write_bytes(b"NVIDIA Tegra Profiler Report 2023@4@4@54-234433681190v0\0" + b"\0" * 100)
    (one,) = said(path)
    assert one["facts"][0] == "recorded by nsys 2023.4.4.54"
    assert (one["kind"], one["known"]) == ("nsys-report", True)


@pytest.mark.parametrize("name", BROKEN)
def test_broken_exports(name, tmp_path):
    """Each is named with what is wrong, or says what it holds; never a traceback, a path only in the command."""
    path = BROKEN[name](tmp_path / "broken.sqlite")
    done = CliRunner().invoke(cli, ["inputs", str(path), "--json"], catch_exceptions=False)
    (one,) = json.loads(done.stdout)["inputs"]
    assert done.exit_code == (0 if one["known"] else 1)
    assert one["known"] == (one["problem"] is None)
    assert str(tmp_path) not in json.dumps({**one, "next": ""})
    try:
        load_capture(path, tmp_path).close()
    except TracediffError as error:
        if error.slug != "bad-column":  # a value in a column that nothing is counted by
            assert one["problem"], error.slug


@pytest.mark.parametrize("schema", SCHEMAS)
def test_schemas_of_every_year(schema, tmp_path):
    (one,) = said(two_steps(schema).write(tmp_path / "run.sqlite"))
    assert traces(one)["kernels"]["count"] == 3  # one a label, three labels for two whole steps


def test_several_files_are_each_said(tmp_path):
    good = one_gap().write(tmp_path / "run.sqlite")
    (tmp_path / "empty.sqlite").touch()
    (tmp_path / "noise.bin").write_bytes(bytes(range(256)) * 9)
    (tmp_path / "half.sqlite.xz").write_bytes(lzma.compress(good.read_bytes())[:900])
    (tmp_path / "half.json.gz").write_bytes(gzip.compress(b'{"traceEvents": [' + b" " * 99999)[:40])
    names = ["run.sqlite", "empty.sqlite", "noise.bin", "half.sqlite.xz", "half.json.gz", "gone.sqlite"]
    found, _ = told(*(tmp_path / name for name in names), status=1)
    assert [one["name"] for one in found] == names
    slugs = [one["problem"] and one["problem"]["slug"] for one in found]
    assert slugs == [None, "empty-file", "unknown-input", "bad-xz", "truncated", "not-a-file"]


def test_nothing_private_is_told(tmp_path):
    """An export as nsys leaves it: environment, command line, user and host in four tables."""
    path = two_steps().write(tmp_path / "run.sqlite")
    with sqlite3.connect(path) as db:
        for table in ("META_DATA_CAPTURE", "META_DATA_EXPORT", "TARGET_INFO_SYSTEM_ENV"):
            db.execute(f"CREATE TABLE IF NOT EXISTS {table} (name TEXT, value TEXT)")
            columns = {row[1] for row in db.execute(f"PRAGMA table_info({table})")}
            for name, value in (
                ("PROCESS_0:ENVIRONMENT_VARIABLE", "API_TOKEN=hunter2"), ("PROCESS_0:USER_NAME", "somebody"),
                ("PROCESS_0:COMMAND", "/home/somebody/run.sh"), ("EXPORT_HOST", "node17"), ("Hostname", "node17"),
                ("EXPORT_USER", "somebody"), ("PROCESS_0:WORKING_DIR", "/home/somebody"),
            ):  # fmt: skip
                if {"name", "value"} <= columns:
                    extra = [column for column in columns if column not in ("name", "value")]
                    places = ", ".join(["?"] * (2 + len(extra)))
                    db.execute(
                        f"INSERT INTO {table} ({', '.join(['name', 'value', *extra])}) VALUES ({places})",
                        [name, value, *[0] * len(extra)],
                    )
        db.execute("CREATE TABLE IF NOT EXISTS PROCESSES (globalPid INTEGER, pid INTEGER, name TEXT)")
        db.execute("INSERT INTO PROCESSES (name) VALUES ('/home/somebody/run.sh')")
    db.close()
    assert b"hunter2" in path.read_bytes()
    for source in (path, to_folder(path, tmp_path / "tables")):
        done = CliRunner().invoke(cli, ["inputs", str(source), "--json"], catch_exceptions=False)
        text = CliRunner().invoke(cli, ["inputs", str(source), "--tables"], catch_exceptions=False)
        assert done.exit_code == text.exit_code == 0
        assert not [secret for secret in SECRETS if secret in done.stdout + text.stdout]


def test_names_that_would_move_a_terminal(tmp_path):
    trace = one_gap()
    export = trace.write(tmp_path / "run.sqlite")
    with sqlite3.connect(export) as db:
        db.execute("UPDATE TARGET_INFO_GPU SET name = '\x1b[31mGPU\x07'")
    db.close()
    _, text = told(export)
    assert "\x1b" not in text
    assert "\x07" not in text


def test_a_side_of_another_kind_is_sent_to_its_command(tmp_path):
    with pytest.raises(TracediffError) as refused:
        resolve(str(FIXTURES / "ncu" / "gemm_two.csv"))
    assert refused.value.slug == "other-input"
    assert refused.value.fix == "tracediff compare BASELINE CANDIDATE"
    named = shutil.copy(FIXTURES / "kpi" / "bench_streaming.json", tmp_path / "trace.json")
    with pytest.raises(TracediffError) as refused:
        resolve(str(named))
    assert "benchmark" in refused.value.message


def test_the_next_command_names_the_path_as_it_was_given(tmp_path, monkeypatch):
    """Also where a blank is in it, for members of a folder, and with a label before it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my runs").mkdir()
    one_gap().write(tmp_path / "my runs" / "a.sqlite")
    (folder,) = said("my runs")
    assert folder["next"].startswith("tracediff compare 'my runs' CANDIDATE")
    assert folder["members"][0]["next"].startswith("tracediff show 'my runs/a.sqlite'; ")
    (labelled,) = said("main=my runs/a.sqlite")
    assert labelled["name"] == "a.sqlite"
    assert labelled["next"].startswith("tracediff show 'my runs/a.sqlite'; ")


@pytest.mark.parametrize("folder", ["trtexec", "latencies/same_1", "ncu", "kpi"])
def test_folders_of_other_files_say_what_they_hold(folder):
    path = FIXTURES / folder
    (one,) = said(path)
    assert one["problem"] is None
    assert one["bytes"] == sum(member["bytes"] for member in one["members"]) > 0
    nexts = one["next"] or one["members"][0]["next"]
    assert nexts.startswith("tracediff compare ")
    with pytest.raises(TracediffError) as refused:
        resolve(str(path))
    assert "nsys export" not in (refused.value.fix or "")
    assert "tracediff compare " in (refused.value.fix or "")


def test_a_bundle_has_the_bytes_and_the_runs_of_its_files():
    folder = FIXTURES / "bundles" / "aa"
    (one,) = said(folder)
    assert one["facts"] == [
        f"{side}: 4 profiled runs, 2 without profiler" for side in ("baseline", "candidate")
    ]
    assert one["bytes"] == sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) > 0


UNREADABLE = {
    "latency.csv": ("latency_ms\n1.5\nfoo\n", "latencies-bad-value"),
    "profile.json": ('[\n{ "count" : 5 }\n, { "name" : "a", "timeMs" : 1', "trtexec-damaged"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_the_loader_refuses_has_no_next_command(name, tmp_path):
    text, slug = UNREADABLE[name]
    (tmp_path / name).write_text(text)
    (one,) = said(tmp_path / name, status=1)
    assert (one["problem"]["slug"], one["next"]) == (slug, "")


ASKED = {
    "hyperfine.json": (
        '{"results": [{"command": "a", "times": [1, 2]}, {"command": "b", "times": [2, 3]}]}',
        ":COLUMN",
    ),
    "two.csv": ("ttft_ms,e2e_ms\n1,2\n3,4\n", ":COLUMN"),
    "plain.txt": ("1.5\n2.5\n", ":UNIT"),
}


@pytest.mark.parametrize("name", ASKED)
def test_latencies_that_need_an_option_say_so(name, tmp_path):
    text, option = ASKED[name]
    (tmp_path / name).write_text(text)
    (one,) = said(tmp_path / name)
    assert one["kind"] == "latencies"
    assert one["next"] == f"tracediff compare {tmp_path / name}{option} CANDIDATE"


def test_no_flag_is_named_for_graphs_that_were_never_launched():
    (one,) = said(FIXTURES / "torch" / "nsys_eager_base.sqlite.xz")
    inside = answers(one)["kernels inside CUDA graphs"]
    assert (inside["yes"], inside["reason"]) == (False, "no graph was launched")
    assert traces(one)["kernels inside CUDA graphs"]["flag"] == ""


def test_the_recorder_is_said_once():
    _, text = told(FIXTURES / "torch" / "loop_a.json.gz")
    assert "recorded by torch.profiler CUPTI 130001;" in " ".join(text.split())


def test_a_trace_of_another_name_is_to_be_renamed(tmp_path):
    path = tmp_path / "g.trace"
    shutil.copy(FIXTURES / "torch" / "loop_a.json.gz", path)
    with pytest.raises(TracediffError) as refused:
        resolve(str(path))
    assert refused.value.fix == "rename it to g.json.gz"

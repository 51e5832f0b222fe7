"""`tracediff timeline` on traces whose steps are known in advance; what it writes is read with Perfetto's own definitions."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from fixtures.builders import TraceBuilder
from tests.cli.checks import expect_error, files
from tests.report.decode import Decoded, decode
from tests.report.hostile import NAMES
from tests.serving import US, serving
from tests.tiny import FIXTURES, label
from tracediff.cli.main import cli

ORIGIN = 1_000_000


@pytest.fixture(scope="module")
def sides(tmp_path_factory):
    """Steps of 707 us against steps of 757: 50 us more in `_schedule`."""
    folder = tmp_path_factory.mktemp("sides")
    before = serving(gil=True, gc_us=3).write(folder / "before.sqlite")
    return before, serving(gil=True, gc_us=3, schedule_us=150).write(folder / "after.sqlite")


@pytest.fixture(scope="module")
def four(sides):
    """Four pairs of steps of both."""
    out = sides[0].with_name("four.pftrace")
    done = CliRunner().invoke(cli, ["timeline", *map(str, sides), "-o", str(out), "--steps", "4"])
    assert (done.exit_code, done.stdout) == (0, ""), done.output
    return decode(out.read_bytes())


def read(name: str) -> Decoded:
    return decode(Path(f"{name}.pftrace").read_bytes())


def written(run, *words) -> Decoded:
    code, out, err = run("timeline", *words, "-o", "out.pftrace")
    assert code == 0, err
    assert out == ""
    return read("out")


def sums(slices) -> dict[str, int]:
    out: dict[str, int] = {}
    for one in slices:
        out[one.name] = out.get(one.name, 0) + one.end - one.start
    return out


@pytest.mark.slow
def test_pairs_begin_together_and_the_next_where_the_longer_ended(four) -> None:
    begins = [ORIGIN + 757 * US * nth for nth in range(4)]
    for side, length in (("baseline", 707), ("candidate", 757)):
        steps = four.of(side, "steps", "step")
        assert [(one.start, one.end - one.start) for one in steps] == [
            (begin, length * US) for begin in begins
        ]
        assert [(one.args["pair"], one.args["delta_ns"], one.args["phase"]) for one in steps] == [
            (nth, 50 * US, "generation") for nth in (1, 2, 3, 4)
        ]
        assert {one.args["step_ns"] for one in steps} == {length * US}
    assert [one.end - one.start for one in four.of("baseline", "steps", "padding")] == [50 * US] * 4
    assert four.of("candidate", "steps", "padding") == []
    assert four.counters == [
        *(("step time, candidate - baseline", begin, 50 * US) for begin in begins),
        ("step time, candidate - baseline", ORIGIN + 4 * 757 * US, 0),
    ]


def test_the_device_is_busy_and_idle_as_the_trace_says(four) -> None:
    """By hand, a step: 3 kernels of 200 us; then the device waits for _schedule, of which a collection has the
    first 3 us and a wait for the GIL the 10th to the 30th, 5 us of launching and 2 until it starts."""
    for side, schedule in (("baseline", 100), ("candidate", 150)):
        assert sums(four.of(side, "GPU busy")) == {"compute": 4 * 600 * US}
        assert sums(four.of(side, "GPU idle")) == {
            "gc": 4 * 3 * US, "gil_wait": 4 * 20 * US, "host_work": 4 * (schedule - 23) * US,
            "launch_api": 4 * 5 * US, "launch_latency": 4 * 2 * US,
        }  # fmt: skip
        work = [one for one in four.of(side, "GPU idle") if one.name == "host_work"]
        assert {one.args["range"] for one in work} == {"_schedule"}
        assert all(one.args["ns"] == one.end - one.start and one.args["cause"] == one.name for one in work)
        assert {one.args["thread"] for one in work} == {"executor"}
        step = four.of(side, "steps", "step")[0]
        said = {name.removesuffix("_ns"): value for name, value in step.args.items() if name.endswith("_ns")}
        assert (
            said["host_work"] == (schedule - 23) * US and said["compute"] == 600 * US and said["gc"] == 3 * US
        )


def test_ops_calls_ranges_gil_and_collections(four) -> None:
    ops = four.of("candidate", "stream 7")
    assert [one.name for one in ops[:4]] == ["gemm_0", "gemm_1", "gemm_2", "gemm_0"]
    assert {one.end - one.start for one in ops} == {200 * US} and len(ops) == 12
    assert ops[0].args["grid"] == "1,1,1" and ops[0].args["block"] == "128,1,1"
    assert ops[0].category == "gemm" and ops[0].args["launched_by"] == "CUDA graph"
    assert [one.path[1:] for one in ops[:1]] == [("rank 0, GPU 0", "stream 7, compute")]
    calls = four.of("candidate", "CUDA calls, executor")
    # the last 600 us of the synchronising call, then the launch of the next step
    assert [(one.name, one.category, one.end - one.start) for one in calls[:2]] == [
        ("cudaStreamSynchronize", "host_sync", 600 * US), ("cudaGraphLaunch", "launch_api", 5 * US),
    ]  # fmt: skip
    assert calls[0].args["whole_ns"] == 602 * US and calls[0].args["began_before_step_ns"] == 2 * US
    ranges = four.of("candidate", "NVTX ranges, executor")
    assert sum(one.end - one.start for one in ranges if one.name == "_schedule") == 4 * 150 * US
    assert {one.depth for one in ranges if one.name == "_schedule"} == {1}  # inside the label of its step
    waits = four.of("candidate", "GIL waits, executor")
    assert [one.end - one.start for one in waits] == [20 * US] * 4
    pauses = four.of("candidate", "Python GC")
    assert [(one.name, one.end - one.start) for one in pauses] == [("generation 2", 3 * US)] * 4


def test_a_flow_leads_from_the_launch_to_its_first_op(four) -> None:
    """The launch of the ops of a step is in the step before: three of the four shown have both ends."""
    for side in ("baseline", "candidate"):
        calls = [one for one in four.of(side, "CUDA calls") if one.flows]
        ops = [one for one in four.of(side, "stream") if one.flows]
        assert [one.name for one in calls] == ["cudaGraphLaunch"] * 3 and [one.name for one in ops] == [
            "gemm_0"
        ] * 3
        assert [one.flows for one in calls] == [one.flows for one in ops]
    ids = [flow for one in four.slices for flow in one.flows]
    assert sorted(ids) == sorted([*range(1, 7), *range(1, 7)])


def test_a_range_of_steps(run, sides) -> None:
    trace = written(run, *sides, "--steps", "3-5")
    assert [one.args["pair"] for one in trace.of("baseline", "steps", "step")] == [3, 4, 5]
    assert trace.of("baseline", "steps", "step")[0].start == ORIGIN


@pytest.mark.slow
def test_what_is_not_shown_is_said(run, tmp_path) -> None:
    serving(23).write(tmp_path / "a.sqlite")
    code, _, err = run("timeline", "a.sqlite", "a.sqlite", "-o", "out.pftrace")
    assert code == 0 and "20 of 23 pairs of steps are shown" in err and "[timeline-window]" in err
    assert "pairs of steps 1 to 20 of 23" in err
    (about,) = read("out").instants
    assert about.args["pairs_shown"] == 20 and about.args["pairs"] == 23
    assert "timeline-window" in str(about.args["warning 1"])
    code, _, err = run("timeline", "a.sqlite", "a.sqlite", "-o", "all.pftrace", "--steps", "23")
    assert code == 0 and "timeline-window" not in err and "pairs of steps 1 to 23 of 23" in err
    assert len(read("all").of("baseline", "steps", "step")) == 23


@pytest.mark.slow
def test_events_are_bounded_and_that_is_said(run, sides, four) -> None:
    events = [one for one in four.slices if one.category not in ("step", "padding")]
    most = len(events) - 1
    code, _, err = run("timeline", *sides, "-o", "cut.pftrace", "--steps", "4", "--max-events", most)
    assert (
        code == 0
        and f"1 of the 4 pairs of steps asked for were left out: with them there would be more than {most}"
        in err
    )
    assert "[timeline-cut]" in err
    cut = read("cut")
    assert [one.args["pair"] for one in cut.of("candidate", "steps", "step")] == [1, 2, 3]
    expect_error(run("timeline", *sides, "-o", "no.pftrace", "--max-events", "10"), "timeline-too-large")


@pytest.mark.slow
def test_the_same_files_give_the_same_bytes(run, sides, tmp_path) -> None:
    for name in ("one", "two"):
        assert run("timeline", *sides, "-o", f"{name}.pftrace", "-q")[0] == 0
    assert (tmp_path / "one.pftrace").read_bytes() == (tmp_path / "two.pftrace").read_bytes()


@pytest.mark.slow
def test_quiet_says_warnings_only(run, sides) -> None:
    code, out, err = run("timeline", *sides, "-o", "out.pftrace", "-q", "--steps", "12")
    assert (code, out, err) == (0, "", "")


@pytest.mark.slow
def test_folders_show_the_median_run_or_the_one_asked_for(run, tmp_path) -> None:
    for side, schedules in (("a", (100, 130, 110)), ("b", (200, 260, 300))):
        (tmp_path / side).mkdir()
        for nth, schedule in enumerate(schedules):
            serving(schedule_us=schedule).write(tmp_path / side / f"r{nth}.sqlite")
    for words, lengths in (((), (717, 867)), (("--run", "2"), (737, 867)), (("--run", "1,3"), (707, 907))):
        code, _, err = run("timeline", "a", "b", "-o", "out.pftrace", "-f", *words)
        assert code == 0, err
        trace = read("out")
        for side, length in zip(("baseline", "candidate"), lengths, strict=True):
            assert {one.end - one.start for one in trace.of(side, "steps", "step")} == {length * US}
    assert trace.processes == {
        1: "baseline: a, run r0.sqlite",
        2: "candidate: b, run r2.sqlite",
        3: "candidate - baseline",
    }
    assert "run r0.sqlite" in err and "run r2.sqlite" in err


@pytest.mark.slow
def test_a_gil_traced_on_one_side_counts_on_neither(run, tmp_path) -> None:
    serving(gil=True).write(tmp_path / "a.sqlite")
    serving().write(tmp_path / "b.sqlite")
    code, _, err = run("timeline", "a.sqlite", "b.sqlite", "-o", "out.pftrace")
    assert code == 0 and "[gil-one-side]" in err
    trace = read("out")
    assert sums(trace.of("baseline", "GPU idle")) == sums(trace.of("candidate", "GPU idle"))
    step = trace.of("baseline", "steps", "step")[0]
    assert "gil_wait_ns" not in step.args and step.args["host_work_ns"] == 100 * US


@pytest.mark.slow
def test_hostile_names(run, tmp_path) -> None:
    for side in ("a", "b"):
        trace = serving(6)
        for step in range(6):
            for nth, name in enumerate(NAMES):
                at = step * 707 * US + 1_000 + nth * 3_000
                corr = 100_000 + step * 100 + nth
                trace.range(1, name, at, at + 2_500).api(1, "cudaLaunchKernel", at + 100, at + 300, corr=corr)
                trace.kernel(corr, at + 500, at + 1_200, name=f"k{nth:02} {name}", stream=9)
        trace.write(tmp_path / f"{side}.sqlite")
    found = written(run, "a.sqlite", "b.sqlite")
    text = [one.name for one in found.slices] + [
        str(value) for one in found.slices for value in one.args.values()
    ]
    assert all(len(one) <= 4_096 and "\x00" not in one and one for one in text)
    assert len({one.name for one in found.of("baseline", "stream 9")}) == len(NAMES)


@pytest.mark.slow
def test_what_overlaps_without_nesting_keeps_its_length(run, tmp_path) -> None:
    """Kernels of one stream may overlap (programmatic dependent launch), and so may ranges that are no stack."""
    for side in ("a", "b"):
        trace = serving(6)
        for step in range(6):
            at = step * 707 * US + 10 * US
            for nth in range(3):
                corr = 100_000 + step * 10 + nth
                trace.api(1, "cudaLaunchKernel", at + nth * US, at + nth * US + 500, corr=corr)
                trace.kernel(
                    corr, at + 5 * US + nth * US, at + 9 * US + nth * US, name=f"over{nth}", stream=9
                )
                begin = at + (20 + nth) * US
                trace.range(2, f"crossing{nth}", begin, begin + 4 * US, kind="start_end")
        trace.write(tmp_path / f"{side}.sqlite")
    found = written(run, "a.sqlite", "b.sqlite", "--steps", "3")
    for kind in ("over", "crossing"):
        mine = [
            one for one in found.slices if one.path[0].startswith("baseline") and one.name.startswith(kind)
        ]
        assert len(mine) == 9 and {one.end - one.start for one in mine} == {4 * US}
        assert (
            len({one.path for one in mine}) == 1 and len({one.track for one in mine}) == 3
        )  # lanes of one name


@pytest.mark.slow
def test_two_devices_of_one_process(run, tmp_path) -> None:
    """One thread launches on both: its calls and ranges are shown once, each device has steps of its own."""
    for side, extra in (("a", 0), ("b", 7)):
        trace = serving(6)
        for step in range(7):
            begin = step * 707 * US + 100 * US
            corr = 100_000 + step
            trace.api(1, "cudaLaunchKernel", begin - 4 * US, begin - 3 * US, corr=corr)
            trace.kernel(corr, begin + 20 * US, begin + (120 + extra) * US, name="second", device=1, stream=3)
        trace.write(tmp_path / f"{side}.sqlite")
    found = written(run, "a.sqlite", "b.sqlite", "--steps", "3")
    steps = {device: found.of("candidate", "steps", "step")[device::2] for device in (0, 1)}
    assert [one.path[1] for one in steps[0]] == ["rank 0, GPU 0"] * 3
    assert [one.path[1] for one in steps[1]] == ["rank 0, GPU 1"] * 3
    # the first device begins 7 us after the launch call, the second 20: they keep that distance
    assert [late.start - early.start for early, late in zip(steps[0], steps[1], strict=True)] == [13 * US] * 3
    calls = found.of("candidate", "CUDA calls")
    assert len({one.track for one in calls}) == 1
    assert [one.name for one in calls].count("cudaGraphLaunch") == 3
    second = [one for one in found.of("candidate", "GPU busy") if one.path[1] == "rank 0, GPU 1"]
    assert {one.end - one.start for one in second} == {107 * US}
    assert {name for name, _, _ in found.counters} == {
        f"step time, rank 0, device {unit} of the rank, candidate - baseline" for unit in (0, 1)
    }


@pytest.mark.slow
def test_an_export_a_rank(run, tmp_path) -> None:
    """Clocks of two exports have nothing to do with each other: their steps begin with the pair."""
    for side, slower in (("a", 0), ("b", 30)):
        (tmp_path / side).mkdir()
        for rank in (0, 1):
            trace = serving(6, schedule_us=100 + slower * rank)
            trace.write(tmp_path / side / f"run_rank{rank}.sqlite")
    found = written(run, "a", "b", "--steps", "2-3")
    begins = [ORIGIN, ORIGIN + 737 * US]
    for side in ("baseline", "candidate"):
        steps = found.of(side, "steps", "step")
        for rank in (0, 1):
            assert [one.start for one in steps if one.path[1].startswith(f"rank {rank}")] == begins
    assert {(name, value) for name, _, value in found.counters if value} == {
        ("step time, rank 1, candidate - baseline", 30 * US)
    }


@pytest.mark.slow
def test_a_capture_as_one_step(run, tmp_path) -> None:
    """Where no steps are found."""
    trace = TraceBuilder().process(100).thread(100, 1)
    for number in range(3):
        trace.api(1, "cudaLaunchKernel", 100 * number, 100 * number + 5, corr=number)
        trace.kernel(number, 100 * number + 10, 100 * number + 40, name=f"kernel{number}")
    one = trace.write(tmp_path / "one.sqlite")
    code, _, err = run("timeline", one, one, "-o", "out.pftrace")
    assert code == 0 and "[steps-not-found]" in err and "[whole-capture]" in err
    assert [step.name for step in read("out").of("baseline", "steps", "step")] == ["step"]
    expect_error(run("timeline", one, one, "-o", "two.pftrace", "--max-events", "5"), "timeline-too-large")


# What cannot be done is said before anything is written


def test_an_output_that_exists(run, sides, tmp_path) -> None:
    kept = tmp_path / "out.pftrace"
    kept.write_text("mine")
    before = files(tmp_path)
    expect_error(run("timeline", *sides, "-o", kept), "output-exists")
    assert kept.read_text() == "mine" and files(tmp_path) == before
    assert run("timeline", *sides, "-o", kept, "-f")[0] == 0
    assert decode(kept.read_bytes()).slices and files(tmp_path) == before


def test_a_failure_leaves_nothing(run, sides, tmp_path) -> None:
    before = files(tmp_path)
    expect_error(run("timeline", sides[0], "no.sqlite", "-o", "out.pftrace"), "not-a-file")
    expect_error(run("timeline", *sides, "-o", "no/such/out.pftrace"), "output-folder-missing")
    text = expect_error(run("timeline", *sides, "-o", "out.pftrace", "--steps", "13-20"), "timeline-no-steps")
    assert "have 12 pairs" in text
    text = expect_error(run("timeline", *sides, "-o", "out.pftrace", "--run", "1,2"), "timeline-no-run", 2)
    assert "the candidate has no run 2, only 1 run " in text
    assert files(tmp_path) == before


def test_no_workload_in_common(run, tmp_path, monkeypatch) -> None:
    serving().write(tmp_path / "a.sqlite")
    monkeypatch.setattr("tests.serving.label", lambda number, gen: label(number, ctx=1, tokens=64, gen=0))
    serving().write(tmp_path / "b.sqlite")
    expect_error(run("timeline", "a.sqlite", "b.sqlite", "-o", "out.pftrace"), "no-common-strata", 4)


@pytest.mark.parametrize(
    "words",
    [
        ("--steps", "0"), ("--steps", "5-3"), ("--steps", "x"), ("--steps", "1-"), ("--run", "0"), ("--run", "1,0"),
        ("--run", "a"), ("--max-events", "0"),
    ],
)  # fmt: skip
def test_usage(words, run, sides) -> None:
    code, out, err = run("timeline", *sides, "-o", "out.pftrace", *words)
    assert code == 2 and "Usage:" in err and "Traceback" not in err and out == ""


def test_an_output_is_needed(run, sides) -> None:
    code, _, err = run("timeline", *sides)
    assert code == 2 and "--output" in err


@pytest.mark.parametrize("other", ["base_1", "gtgraph_1"])
def test_graphs_that_were_traced_as_wholes_have_no_timeline(other: str, run) -> None:
    """Of gtgraph the kernels of CUDA graphs were not recorded (fixtures/pairs/README.md), so the host of both sides was measured."""
    of = [str(FIXTURES / "pairs" / f"{name}.sqlite.xz") for name in ("gtgraph_1", other)]
    error = expect_error(run("timeline", *of, "-o", "out.pftrace"), "no-kernels")
    assert "gtgraph_1.sqlite.xz" in error and "--cuda-graph-trace=node" in error

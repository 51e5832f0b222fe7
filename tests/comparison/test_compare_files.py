"""Comparisons of files: order of their rows, ranks with phases of their own, batches of another size."""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import sys

import pytest

from fixtures.builders import TraceBuilder
from tests.comparing import compare
from tests.serving import runs_of, serving, step_ns
from tests.swapping import plain
from tests.tiny import CAPTURES, ROOT, label, reduced
from tests.tiny import plain as unpacked
from tracediff.comparison.compare import Options
from tracediff.execution.run import reduce_file, reduce_sides
from tracediff.execution.sides import Reading, Run, Side
from tracediff.formats.inputs import resolve


def shuffle_rows(source, target, seed: int) -> None:
    """Copy a database table by table, the rows of each in a random order."""
    rng = random.Random(seed)
    old, new = sqlite3.connect(source), sqlite3.connect(target)
    old.text_factory = bytes
    for name, statement in old.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall():
        name, statement = name.decode(), statement.decode()
        new.execute(statement)
        rows = [
            tuple(value.decode() if isinstance(value, bytes) else value for value in row)
            for row in old.execute(f'SELECT * FROM "{name}"')
        ]
        rng.shuffle(rows)
        if rows:
            marks = ", ".join("?" * len(rows[0]))
            new.executemany(f'INSERT INTO "{name}" VALUES ({marks})', rows)
    new.commit()
    old.close()
    new.close()


def without_identity(result) -> dict:
    content = plain(result)
    for side in ("baseline", "candidate"):
        for run in content["inputs"][side]["runs"]:
            del run["fingerprint"], run["bytes"]
    return content


@pytest.mark.parametrize("name", ["tp2_a1", pytest.param("graph_gc", marks=pytest.mark.slow)])
def test_the_order_of_rows_in_a_file_is_irrelevant(name, tmp_path, reduction_of):
    straight = unpacked(name, tmp_path)
    (tmp_path / "shuffled").mkdir()
    other = tmp_path / "shuffled" / straight.name
    shuffle_rows(straight, other, seed=7)
    with sqlite3.connect(straight) as one, sqlite3.connect(other) as two:  # it is another order indeed
        query = "SELECT start FROM CUPTI_ACTIVITY_KIND_KERNEL"
        assert one.execute(query).fetchall() != two.execute(query).fetchall()
    against = Side("eager", [Run("eager_a1", [reduction_of("eager_a1")])])
    sides = [Side("s", [Run(name, [reduce_file(path, Reading())])]) for path in (straight, other)]
    options = Options(force=True)
    results = [without_identity(compare(against, side, options)) for side in sides]
    assert results[0] == results[1]
    mine = [without_identity(compare(*pair, options)) for pair in (sides, sides[::-1])]
    assert mine[0] == mine[1]


@pytest.mark.slow
def test_the_same_input_gives_the_same_bytes(tmp_path):
    """Whatever the hash seed, the number of threads and the process."""
    written = []
    for seed, threads in (("1", "1"), ("2", "2")):
        out = tmp_path / f"{seed}.json"
        files = [CAPTURES[name] for name in ("graph_a1", "graph_fused_1")]
        command = [sys.executable, "-m", "tracediff", "compare", *files]
        command += ["-q", "--json", out]
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PYTHONHASHSEED": seed,
            "TRACEDIFF_THREADS": threads,
        }
        subprocess.run([*map(str, command)], check=True, cwd=tmp_path, env=environment, capture_output=True)
        written.append(out.read_bytes())
    assert written[0] == written[1]


def test_a_folder_is_its_runs_in_any_order_of_writing(tmp_path):
    for folder, order in (("one", (0, 1, 2)), ("two", (2, 0, 1))):
        (tmp_path / folder).mkdir()
        for number in order:
            serving(schedule_us=100 + 10 * number).write(tmp_path / folder / f"run{number}.sqlite")
    sides = reduce_sides([resolve(str(tmp_path / folder)) for folder in ("one", "two")], Reading(threads=1))
    assert [[run.name for run in side.runs] for side in sides] == [
        ["run0.sqlite", "run1.sqlite", "run2.sqlite"]
    ] * 2
    result = compare(*sides)
    assert result.verdict == "no_change"
    # runs of 707, 717 and 727 us
    assert (
        result.step.baseline_ns
        == result.step.candidate_ns
        == pytest.approx((step_ns(100) + step_ns(110) + step_ns(120)) / 3)
    )


def two_ranks(context_us: float) -> TraceBuilder:
    """Rank 0 generates; of rank 1's eight steps one is context. Kernels of 100 us, and `context_us`."""
    trace = TraceBuilder()
    for pid, device in ((100, 0), (200, 1)):
        trace.process(pid).thread(pid, pid + 1)
        for number in range(9):
            begin, context = 1_000_000 * number, pid == 200 and number == 4
            trace.range(
                pid + 1,
                label(number, ctx=1, tokens=64, gen=0) if context else label(number),
                begin,
                begin + 90_000,
            )
            trace.api(pid + 1, "cudaLaunchKernel", begin + 10_000, begin + 20_000, corr=number)
            name, length = ("prefill", int(context_us * 1000)) if context else ("decode", 100_000)
            trace.kernel(number, begin + 30_000, begin + 30_000 + length, name=name, device=device)
    return trace


def test_a_rank_may_have_phases_that_rank_0_lacks(tmp_path):
    sides = []
    for name, context_us in (("a", 300), ("b", 500)):
        (tmp_path / name).mkdir()
        sides.append(Side(name, [Run(name, [reduced(two_ranks(context_us), tmp_path / name)])]))
    result = compare(*sides, Options())
    # 16 whole steps, one of them context: (15 * 100 + 300) / 16 us of compute, then (15 * 100 + 500) / 16
    assert result.accounting.baseline["compute"] == pytest.approx(1800_000 / 16)
    assert result.accounting.candidate["compute"] == pytest.approx(2000_000 / 16)
    rows = {row.baseline.names[0]: row for row in result.kernels}
    assert rows["decode"].baseline.ns_per_step == pytest.approx(15 * 100_000 / 16)
    assert rows["prefill"].delta_ns == pytest.approx(200_000 / 16)
    assert rows["prefill"].baseline.count_per_step == pytest.approx(1 / 16)


def mixed_batches(folder, name: str, small: int, large: int, *, kernel: str = "decode") -> Side:
    """Steps of 4 requests with 100 us of host work, then steps of 8 requests with 300 us, of a `kernel` of theirs, in one capture."""
    trace = TraceBuilder().process(100).thread(100, 1)
    now = 0
    for number in range(small + large + 1):
        requests, host = (4, 100_000) if number < small else (8, 300_000)
        launch = now + host
        trace.range(1, label(number, gen=requests), now, launch + 6_000)
        trace.api(1, "cudaLaunchKernel", launch, launch + 5_000, corr=number)
        trace.kernel(number, launch + 6_000, launch + 50_000, name="decode" if requests == 4 else kernel)
        trace.api(1, "cudaStreamSynchronize", launch + 5_000, launch + 50_000)
        now = launch + 50_000
    (folder / name).mkdir()
    return Side(name, [Run(name, [reduced(trace, folder / name)])])


def test_another_mix_of_batches_is_no_change_of_speed(tmp_path):
    one, other = mixed_batches(tmp_path, "few", 12, 4), mixed_batches(tmp_path, "many", 4, 12)
    result = compare(one, other)
    # Period n = [first op n, first op n + 1): kernel of n, host work before n + 1. A step of 4 requests
    # lasts 150 us except the last before a larger one: 350; one of 8 lasts 350.
    # few:  11 x 150, 1 x 350 | 4 x 350   stratum means (11 * 150 + 350) / 12 = 166.67 and 350
    # many:  3 x 150, 1 x 350 | 12 x 350  stratum means 200 and 350
    strata = {row.gen_reqs: row for row in result.strata}
    assert (strata["4"].baseline_steps, strata["4"].candidate_steps) == (12, 4)
    assert strata["4"].baseline_ns == pytest.approx(2_000_000 / 12)
    assert strata["4"].candidate_ns == pytest.approx(200_000)
    assert strata["8"].delta_ns == pytest.approx(0, abs=1e-6)
    # The first of the 16 steps is the start, equal on both sides. The 15 others are weighed by how many of a workload both sides have
    # (overlap weights): few 11 + 4 of 4 and 8 requests, many 3 + 12: 11 * 3 / 14 to 4 * 12 / 16.
    # Means of 4 requests without the start: (10 * 150 + 350) / 11 and (2 * 150 + 350) / 3
    four = (33 / 14) / (33 / 14 + 48 / 16)
    assert strata["4"].weight == pytest.approx((15 * four + 1) / 16)
    delta = 15 / 16 * four * (650_000 / 3 - 1_850_000 / 11)
    assert result.step.delta_ns == pytest.approx(delta)
    # raw means: few (2000 + 1400) / 16 = 212.5 us, many (800 + 4200) / 16 = 312.5 us
    assert (result.mix.baseline_raw_ns, result.mix.candidate_raw_ns) == pytest.approx((212_500, 312_500))
    # what is not in the means of equal workload is the mix
    assert (result.mix.speed_ns, result.mix.batch_mix_ns) == pytest.approx((delta, 100_000 - delta))
    (finding,) = [one for one in result.findings if one.cause == "batch_mix"]
    assert finding.delta_ns == pytest.approx(100_000 - delta) and finding.share is None
    # 12 and 4 of the 16 steps have 4 requests, 4 and 12 have 8
    (check,) = [one for one in result.comparability.checks if one.name == "batch_mix"]
    assert (check.status, check.said.slots["percent"]) == ("warn", "50 %")
    assert result.verdict != "regressed"


def test_a_kernel_that_one_side_lacks_in_a_workload_is_0_there(tmp_path):
    """One kernel of 44 us a step; what steps of 8 requests run has another name in the candidate."""
    one, other = mixed_batches(tmp_path, "one", 8, 8), mixed_batches(tmp_path, "other", 8, 8, kernel="wide")
    result = compare(one, other)
    four, eight = sorted(range(2), key=lambda number: result.strata[number].gen_reqs)
    found = {}
    for row in result.kernels:
        for part in row.strata:
            sides = (part.baseline_count, part.baseline_ns, part.candidate_count, part.candidate_ns)
            found[(row.candidate or row.baseline).names[0], part.stratum] = sides
    assert found == {
        ("decode", four): (1, 44_000, 1, 44_000),
        ("decode", eight): (1, 44_000, 0, 0),
        ("wide", eight): (0, 0, 1, 44_000),
    }


def test_no_steps_of_like_workload(tmp_path):
    small, large = (
        runs_of(tmp_path, name, (100,), gen=gen, jitter_us=0) for name, gen in (("s", 4), ("l", 64))
    )
    result = compare(small, large)  # one phase on both sides: compared as such, and said
    assert [(row.gen_reqs, row.compared) for row in result.strata] == [("4", True), ("64", True)]
    assert "coarse-strata" in [note.slug for note in result.warnings]
    other = compare(small, contexts(tmp_path))  # no phase of both, and no kernel
    assert other.verdict == "not_comparable"
    assert [check.name for check in other.comparability.checks if check.status == "fail"] == ["programs"]
    assert (other.observed.baseline_ns, other.observed.candidate_ns) == (
        pytest.approx(707_000),
        pytest.approx(1_000),
    )


def contexts(folder) -> Side:
    trace = TraceBuilder().thread(100, 1)
    for number in range(6):
        begin = 1000 * number
        trace.range(1, label(number, ctx=2, tokens=100, gen=0), begin, begin + 90)
        trace.api(1, "cudaLaunchKernel", begin + 10, begin + 20, corr=number).kernel(
            number, begin + 30, begin + 400
        )
    (folder / "contexts").mkdir()
    return Side("contexts", [Run("contexts", [reduced(trace, folder / "contexts")])])


def test_another_gpu_is_not_comparable_unless_forced(tmp_path):
    one = serving()
    other = serving().device(0, "NVIDIA B200")
    sides = []
    for name, trace in (("one", one), ("other", other)):
        (tmp_path / name).mkdir()
        sides.append(Side(name, [Run(name, [reduced(trace, tmp_path / name)])]))
    result = compare(*sides)
    assert result.verdict == "not_comparable"
    assert "times of different GPU models are not comparable" in result.headline.what
    (failed,) = (check for check in result.comparability.checks if check.status == "fail")
    assert (failed.name, failed.candidate) == ("gpu", "NVIDIA B200")
    assert compare(*sides, Options(force=True)).verdict == "no_change"

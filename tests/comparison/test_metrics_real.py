"""GPU metrics recorded on an H200, against plain loops over the export's own rows (fixtures/system/README.md)."""

from __future__ import annotations

import lzma
import re
import sqlite3
from bisect import bisect_left, bisect_right
from itertools import pairwise
from statistics import correlation, fmean

import pytest

from tests.comparing import compare
from tests.tiny import FIXTURES
from tracediff.execution.run import reduce_file
from tracediff.execution.sides import Reading, Run, Side

SMS, DRAM, CLOCK = (
    "SMs Active [Throughput %]",
    "DRAM Read Bandwidth [Throughput %]",
    "GPC Clock Frequency [MHz]",
)
ENGINE = "GR Active [Throughput %]"
SERVED = ("metrics_plain", "metrics_slow", "metrics_gc")
ATTENTION = "cudnn_generated_fort_native_sdpa_sm80%"


class Recorded:
    """One export, or one process of it and its GPU, read by sqlite3 alone. Times are ns; intervals are half-open."""

    def __init__(self, path, pid: int | None = None, gpu: int = 0) -> None:
        self.db, self.gpu = sqlite3.connect(path), gpu
        self._of = "" if pid is None else f"AND {{}} >> 24 & 16777215 = {pid}"
        self.kernels = merged(self._ops("KERNEL") + self._ops("MEMSET"))
        self.work = merged(self._ops("KERNEL") + self._ops("MEMSET") + self._ops("MEMCPY"))

    def _ops(self, kind: str) -> list[tuple[int, int]]:
        table = f"CUPTI_ACTIVITY_KIND_{kind}"
        found = self.db.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone()
        mine = self._of.format("globalPid")
        return (
            self.db.execute(f'SELECT start, "end" FROM {table} WHERE true {mine}').fetchall() if found else []
        )

    def samples(self, metric: str) -> list[tuple[int, int]]:
        """(time, value as stored) of the GPU, in order of time."""
        return self.db.execute(
            "SELECT timestamp, value FROM GPU_METRICS JOIN TARGET_INFO_GPU_METRICS USING (typeId, metricId)"
            " WHERE metricName = ? AND typeId & 255 = ? ORDER BY 1",
            (metric, self.gpu),
        ).fetchall()

    def steps(self, *, generation: bool = False) -> list[tuple[int, int]]:
        """From first work to first work, of all steps or those without context requests; the last label has no end."""
        labels = sorted(
            (start, bool(int(found[1])))
            for start, text in self.db.execute(
                "SELECT n.start, coalesce(n.text, s.value) FROM NVTX_EVENTS n LEFT JOIN StringIds s ON s.id = n.textId"
                f" WHERE true {self._of.format('n.globalTid')}"
            )
            if text and (found := re.search(r"_forward_step \d+: (\d+) ctx reqs", text))
        )
        launched = " UNION ALL ".join(
            f"SELECT r.start, o.start FROM CUPTI_ACTIVITY_KIND_RUNTIME r JOIN CUPTI_ACTIVITY_KIND_{kind} o"
            " ON o.correlationId = r.correlationId AND o.globalPid >> 24 = r.globalTid >> 24"
            f" {self._of.format('o.globalPid')}"
            for kind in ("KERNEL", "MEMCPY", "MEMSET")
            if self._ops(kind)
        )
        firsts = [float("inf")] * len(labels)
        for called, began in self.db.execute(launched):
            step = bisect_right([start for start, _ in labels], called) - 1
            if step >= 0:
                firsts[step] = min(firsts[step], began)
        ends = zip(firsts, firsts[1:], labels, strict=False)
        return [(int(start), int(end)) for start, end, (_, context) in ends if not (generation and context)]

    def parts(self, metric: str, *, generation: bool = False) -> dict[str, list[int]]:
        """Samples of the steps, or of those without context requests: all, those in kernels for 95 % of the time around them, those with 5 % of any work."""
        rows = self.samples(metric)
        steps = self.steps(generation=generation)
        starts = [start for start, _ in steps]
        found: dict[str, list[int]] = {"steps": [], "busy": [], "idle": []}
        for before, (time, value), after in zip(rows, rows[1:], rows[2:], strict=False):
            step = bisect_right(starts, time) - 1
            if step < 0 or time >= steps[step][1]:
                continue
            found["steps"].append(value)
            length = after[0] - before[0]
            if inside(self.kernels, before[0], after[0]) >= 0.95 * length:
                found["busy"].append(value)
            elif inside(self.work, before[0], after[0]) <= 0.05 * length:
                found["idle"].append(value)
        return found


def merged(intervals) -> list[tuple[int, int]]:
    out: list[tuple[int, int]] = []
    for start, end in sorted(intervals):
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(end, out[-1][1]))
        else:
            out.append((start, end))
    return out


def inside(intervals: list[tuple[int, int]], start: int, end: int) -> int:
    """How much of [start, end) sorted disjoint intervals cover."""
    at, total = max(bisect_left(intervals, (start, 0)) - 1, 0), 0
    while at < len(intervals) and intervals[at][0] < end:
        total += max(0, min(end, intervals[at][1]) - max(start, intervals[at][0]))
        at += 1
    return total


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    """Name -> (reduction, the export, its path)."""
    found = {}

    def get(name: str):
        if name not in found:
            path = tmp_path_factory.mktemp("metrics") / f"{name}.sqlite"
            path.write_bytes(lzma.decompress((FIXTURES / f"system/{name}.sqlite.xz").read_bytes()))
            found[name] = reduce_file(path, Reading(threads=1)), Recorded(path), path
        return found[name]

    return get


@pytest.fixture(scope="module")
def compared(opened):
    def get(*names: str):
        return compare(*(Side(name, [Run(name, [opened(name)[0]])]) for name in names))

    return get


def rows_of(result) -> dict:
    return {row.metric: row for row in result.system.gpu_metrics}


@pytest.mark.parametrize("name", [*SERVED, "metrics_steps"])
def test_steps_are_those_of_a_plain_loop(opened, name):
    reduction, recorded, _ = opened(name)
    periods = reduction.periods.filter(reduction.periods["phase"] == "generation").sort("start_ns")
    steps = recorded.steps(generation=True)
    assert periods.select("start_ns", "end_ns").rows() == steps
    assert len(steps) == (99 if name == "metrics_steps" else 29)


@pytest.mark.parametrize("metric", [SMS, DRAM, CLOCK, ENGINE])
@pytest.mark.parametrize("pair", [("metrics_plain", "metrics_slow"), ("metrics_plain", "metrics_gc")])
def test_means_of_both_sides(opened, compared, pair, metric):
    row = rows_of(compared(*pair))[metric]
    scale, unit = (1e6, "MHz") if metric == CLOCK else (1, "%")  # clocks are stored in Hz
    assert (row.rank, row.device, row.unit) == (0, 0, unit)
    for name, side in zip(pair, ("baseline", "candidate"), strict=True):
        wanted = opened(name)[1].parts(metric)
        counted = getattr(row, side)
        assert (counted.busy_samples, counted.idle_samples, counted.refused_samples) == (
            len(wanted["busy"]), len(wanted["idle"]), 0,
        )  # fmt: skip
        assert counted.samples_per_step == pytest.approx(len(wanted["steps"]) / 30)
        for part, values in wanted.items():
            mean = getattr(getattr(row, part), side)
            if len(values) < 20:
                assert mean is None
            else:
                assert mean == pytest.approx(fmean(values) / scale)
    assert len(opened("metrics_plain")[1].parts(metric)["busy"]) > 100  # there is something to compare


def test_what_was_planted_is_in_the_metrics(opened, compared):
    """Attention over three times the context (`--slow-kernel 3`): as many calls, slower, and more reads of memory."""
    result = compared("metrics_plain", "metrics_slow")
    attention = []
    for name in ("metrics_plain", "metrics_slow"):
        recorded = opened(name)[1]
        within = recorded.steps(generation=True)
        found = [
            end - start
            for start, end in recorded.db.execute(
                'SELECT k.start, k."end" FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON s.id = k.shortName'
                " WHERE s.value LIKE ?",
                (ATTENTION,),
            )
            if any(low <= start < high for low, high in within)
        ]
        assert len(found) == 8 * 29
        attention.append(sum(found) / 29)
    first = result.findings[0]
    assert first.where.called[0].startswith("cudnn_generated_fort_native_sdpa_sm8")  # shortened in the middle
    # the typical steps are not all: the slowest and fastest tenth is left out
    assert (first.baseline_ns, first.candidate_ns) == pytest.approx(tuple(attention), rel=0.01)
    assert first.delta_ns == pytest.approx(attention[1] - attention[0], rel=0.01)
    assert first.delta_ns > 150_000
    rows = rows_of(result)
    assert rows[DRAM].steps.delta > 5 and rows[DRAM].busy.delta > 5  # percent of the peak
    assert (
        abs(rows[CLOCK].steps.delta) < 40 and 1_700 < rows[CLOCK].steps.baseline <= 1_980
    )  # MHz; the H200's limit
    for side in (result.coverage.baseline, result.coverage.candidate):
        assert [side[kind] for kind in ("gil", "gpu_metrics", "gc")] == [
            "captured",
            "captured",
            "not_captured",
        ]


def test_collections_leave_the_gpu_idle(opened, compared):
    """`--gc-every 5`, 4.88 ms each by the program's own clock: six of them lie in the 29 steps, in `_schedule`."""
    result = compared("metrics_plain", "metrics_gc")
    first = result.findings[0]
    assert (first.cause, first.where.range) == ("host_work", "_schedule")
    rare = sum(one.delta_ns for one in first.phases if one.phase == "generation")
    together = first.delta_ns + rare + first.host_speed_ns  # of the 28 steps after the first
    assert 0.85 * 6 * 4_879_691 / 29 < together < 6 * 4_879_691 / 28
    rows = rows_of(result)
    assert rows[SMS].candidate.idle_samples > 200 > 20 > rows[SMS].baseline.idle_samples
    assert rows[SMS].idle.candidate < 1 and rows[SMS].steps.candidate < 0.6 * rows[SMS].steps.baseline
    assert abs(rows[SMS].busy.delta) < 1  # the kernels are the same


@pytest.mark.parametrize("name", SERVED)
def test_the_engine_is_active_for_as_long_as_the_accounting_says(opened, compared, name):
    """Two clocks of one thing: the share of kernels and memsets in the steps, and what the GPU's counter saw."""
    recorded = opened(name)[1]
    steps = recorded.steps()
    share = sum(inside(recorded.kernels, *step) for step in steps) / sum(end - start for start, end in steps)
    mean = rows_of(compared(name, name))[ENGINE].steps.baseline
    assert mean == pytest.approx(100 * share, abs=5)


@pytest.mark.parametrize("name", [*SERVED, "metrics_steps"])
def test_a_sample_stands_for_the_time_after_it(opened, name):
    """What docs/result.md says of nsys 2025.3: the counter follows the kernels between a sample's instant and the next."""
    recorded = opened(name)[1]
    rows = [row for row in recorded.samples(ENGINE)
            if recorded.kernels[0][0] < row[0] < recorded.kernels[-1][1]]  # fmt: skip
    pairs = list(pairwise(rows))
    shares = [inside(recorded.kernels, one[0], two[0]) / (two[0] - one[0]) for one, two in pairs]
    assert correlation(shares, [one[1] for one, _ in pairs]) > 0.99
    assert correlation(shares, [two[1] for _, two in pairs]) < 0.9


def renumbered(path, gpu: int, cuda: int, tmp_path):
    """The export with its metrics taken from this GPU of nsys, which the process calls device `cuda`."""
    other = tmp_path / f"gpu{gpu}_{cuda}.sqlite"
    other.write_bytes(path.read_bytes())
    with sqlite3.connect(other) as db:
        for table in ("GPU_METRICS", "TARGET_INFO_GPU_METRICS"):
            db.execute(f"UPDATE {table} SET typeId = typeId - (typeId & 255) + ?", (gpu,))
        db.execute(
            "UPDATE TARGET_INFO_CUDA_DEVICE SET cudaId = CASE gpuId WHEN ? THEN ? ELSE ? END",
            (gpu, cuda, 1 - cuda),
        )
    db.close()
    return reduce_file(other, Reading(threads=1))


def test_metrics_are_of_the_gpu_that_the_process_used(opened, tmp_path):
    """Two GPUs, the process on its device 0: GPU 1 is that device where the table says so, and another one where not."""
    reduction, _, path = opened("metrics_slow")
    assert reduction.gpu_sampling.rows() == [(0, 0, 0, 100_000, 8)]
    seen = renumbered(path, 1, 0, tmp_path)
    assert seen.gpu_sampling.rows() == [(0, 0, 1, 100_000, 8)]
    assert seen.gpu_metrics.equals(reduction.gpu_metrics) and not seen.gpu_metrics.is_empty()
    other = renumbered(path, 1, 1, tmp_path)
    assert other.gpu_metrics.is_empty() and other.gpu_sampling.rows() == [(0, 0, None, 0, 0)]


def test_short_kernels_have_no_sample_of_their_own(opened, compared):
    """Bursts of eight kernels of 3 us in steps of 187 us, a sample each 50 us: no window of 100 us is in kernels."""
    recorded = opened("metrics_steps")[1]
    row = rows_of(compared("metrics_steps", "metrics_steps"))[SMS]
    wanted = recorded.parts(SMS)
    assert (row.baseline.busy_samples, row.busy.baseline) == (0, None)
    assert row.baseline.idle_samples == len(wanted["idle"]) > 20
    assert row.idle.baseline == pytest.approx(fmean(wanted["idle"]))
    assert row.steps.baseline == pytest.approx(fmean(wanted["steps"]))
    assert row.baseline.samples_per_step == pytest.approx(187.1 / 50, rel=0.01)


@pytest.mark.parametrize("metric", [SMS, DRAM, CLOCK])
def test_two_ranks_each_with_the_samples_of_its_gpu(opened, metric):
    """Rank 1 is 300 us late in each step (`--straggler-us 300`): its GPU idles, that of rank 0 runs a collective meanwhile."""
    reduction, recorded, path = opened("metrics_tp2")
    sql = "SELECT DISTINCT globalPid >> 24 & 16777215, deviceId FROM CUPTI_ACTIVITY_KIND_KERNEL ORDER BY 1"
    devices = recorded.db.execute(sql).fetchall()
    assert sorted(device for _, device in devices) == [0, 1]
    of_gpu = "SELECT gpuId FROM TARGET_INFO_CUDA_DEVICE WHERE pid IN (?, ? << 24) AND cudaId = ?"
    generation = reduction.periods.filter(reduction.periods["phase"] == "generation")["stratum"].unique()
    table = reduction.gpu_metrics.filter(
        (reduction.gpu_metrics["metric"] == metric)
        & reduction.gpu_metrics["stratum"].is_in(generation.to_list())
    )
    idle = []
    for rank, (pid, device) in enumerate(devices):
        ((gpu,),) = recorded.db.execute(of_gpu, (pid, pid, device)).fetchall()
        wanted = Recorded(path, pid, gpu).parts(metric, generation=True)
        mine = table.filter((table["rank"] == rank) & (table["device"] == device))
        found = {
            state: mine.filter(mine["state"] == state).select("samples", "sum").sum().row(0)
            for state in ("busy", "idle")
        }
        scale = 1e6 if metric == CLOCK else 1
        assert {state: count for state, (count, _) in found.items()} == {
            state: len(wanted[state]) for state in found
        }
        for state, (_, total) in found.items():
            assert total == pytest.approx(sum(wanted[state]) / scale)
        assert (mine["samples"].sum(), mine["sum"].sum()) == (
            len(wanted["steps"]), pytest.approx(sum(wanted["steps"]) / scale),
        )  # fmt: skip
        idle.append(len(wanted["idle"]))
    assert idle[0] < 5 and idle[1] > 50
    if metric == SMS:  # on the other GPU they would be some ten percent
        late = table.filter((table["rank"] == 1) & (table["state"] == "idle"))
        assert late["sum"].sum() < late["samples"].sum()

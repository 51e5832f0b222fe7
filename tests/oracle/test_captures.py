"""The oracle on real captures: everything closes, and the means are the ones that were measured before."""

import re
from itertools import pairwise
from pathlib import Path

import pytest

from tests.oracle import load, periods
from tests.oracle.real import captures, unpacked

CAPTURES = captures()
# One run of each program: what repeats it takes the same path.
PROGRAMS = {(path.parent, re.sub(r"[_-]?\d+$", "", name)): path for name, path in CAPTURES.items()}

# Means over the 29 generation periods of a capture, us a step.
MEANS: dict[str, dict[str, float]] = {
    "graph_a1": {"period": 985.6, "compute": 719.5, "memcpy": 3.1, "launch_api": 121.4, "host_work": 55.7,
                 "launch_latency": 5.7, "graph_internal": 69.3, "dependency": 6.5, "host_sync": 3.9},
    "graph_a3": {"period": 1073.1, "compute": 720.0, "memcpy": 3.1, "launch_api": 182.6, "host_work": 80.6,
                 "launch_latency": 5.4, "graph_internal": 69.3, "dependency": 6.7, "host_sync": 4.8},
    "graph_gc": {"period": 16257.7, "compute": 719.7, "memcpy": 3.1, "launch_api": 151.1, "host_work": 2515.0,
                 "launch_latency": 5.1, "graph_internal": 69.4, "gc": 12764.2, "gil_wait": 16.2},
    "graph_sleep": {"period": 3226.1, "compute": 719.9, "memcpy": 3.1, "launch_api": 142.9,
                    "host_work": 2272.1, "launch_latency": 4.3, "graph_internal": 69.5},
    "eager_a1": {"period": 3718.0, "compute": 717.4, "memcpy": 3.0, "launch_api": 729.2, "host_work": 1852.9,
                 "launch_latency": 296.4, "graph_internal": 0.0, "gil_wait": 76.3, "host_api": 35.8},
    "eager_a2": {"period": 3710.3, "compute": 716.7, "memcpy": 3.0, "launch_api": 687.0, "host_work": 1859.6,
                 "launch_latency": 310.4, "graph_internal": 0.0, "gil_wait": 92.2, "host_api": 33.5},
}  # fmt: skip


@pytest.mark.skipif(not CAPTURES, reason="no captures here")
@pytest.mark.slow
@pytest.mark.parametrize("path", PROGRAMS.values(), ids=[name for _, name in PROGRAMS])
def test_every_period_closes(path: Path) -> None:
    capture = load(unpacked(path))
    if path.parent.name == "system" and not capture.ops:
        pytest.skip("recorded without a GPU: there is no period to close")
    found = periods(capture)
    assert found
    for period in found:
        assert period.residual_ns == 0
        assert period.busy_ns + period.idle_ns == period.period_ns
        shares = sum(share for _, _, share in period.kernels.values())
        assert shares == period.categories["compute"] + period.categories["comm"]
        assert sum(period.places.values()) == period.idle_ns
    for period, following in pairwise(found):
        if (period.rank, period.device) == (following.rank, following.device):
            assert period.end_ns == following.start_ns
            assert period.number + 1 == following.number


@pytest.mark.slow
@pytest.mark.parametrize("name", MEANS)
def test_the_means_are_those_measured(name: str) -> None:
    if name not in CAPTURES:
        pytest.skip(f"no capture {name} here")
    found = [period for period in periods(load(unpacked(CAPTURES[name]))) if period.phase == "generation"]
    assert len(found) == 29
    means = {key: sum(p.categories.get(key, 0) for p in found) / 29_000 for key in found[0].categories}
    means["period"] = sum(period.period_ns for period in found) / 29_000
    assert {key: round(means[key], 1) for key in MEANS[name]} == MEANS[name]
    assert {period.kernel_count for period in found} == {149}
    assert "gc" not in means or name == "graph_gc"

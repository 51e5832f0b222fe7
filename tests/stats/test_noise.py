"""The noise assumed with one run a side, against repeats and real changes of two programs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracediff.model import CATEGORIES
from tracediff.model.causes import CAUSES
from tracediff.stats.noise import assumed_half_width, assumed_noise_total

US = 1_000.0


def us(**categories: float) -> dict[str, float]:
    return {name: value * US for name, value in categories.items()}


# ns a generation step; the first two are one program.
GRAPH_1 = us(compute=719.5, memcpy=3.1, launch_api=121.4, host_work=55.7, launch_latency=5.7,
             graph_internal=68.4, dependency=7.4, host_sync=3.9)  # fmt: skip
GRAPH_3 = us(compute=720.0, memcpy=3.1, launch_api=182.6, host_work=80.6, launch_latency=5.4,
             graph_internal=68.4, dependency=7.6, host_sync=4.8)  # fmt: skip
GC = us(compute=719.7, memcpy=3.1, launch_api=151.1, host_work=2515.0, launch_latency=5.1,
        graph_internal=68.5, gc=12764.2, gil_wait=16.2)  # fmt: skip
SLEEP = us(compute=719.9, memcpy=3.1, launch_api=142.9, host_work=2272.1, launch_latency=4.3,
           graph_internal=68.6)  # fmt: skip
EAGER_1 = us(compute=717.4, memcpy=3.0, launch_api=728.1, host_work=1852.9, launch_latency=296.4,
             gil_wait=76.3, host_api=36.9)  # fmt: skip
EAGER_2 = us(compute=716.7, memcpy=3.0, launch_api=686.5, host_work=1859.6, launch_latency=310.4,
             gil_wait=92.2, host_api=34.0)  # fmt: skip


def assumed_noise(b: dict[str, float], c: dict[str, float]) -> dict[str, float]:
    names = sorted({*b, *c})
    return {name: float(assumed_half_width(name, b.get(name, 0.0), c.get(name, 0.0))) for name in names}


def beyond(b: dict[str, float], c: dict[str, float]) -> set[str]:
    noise = assumed_noise(b, c)
    return {name for name in noise if abs(c.get(name, 0.0) - b.get(name, 0.0)) > noise[name]}


def total(side: dict[str, float]) -> float:
    return sum(side.values())


def test_every_category_of_the_accounting_has_a_prior():
    everything = dict.fromkeys(CATEGORIES, 100 * US)
    assert set(assumed_noise(everything, everything)) == set(CATEGORIES)
    assert any(CAUSES[name].noise.together for name in CATEGORIES)


@pytest.mark.parametrize(("b", "c"), [(GRAPH_1, GRAPH_3), (EAGER_1, EAGER_2)])
def test_the_same_program_stays_within(b: dict[str, float], c: dict[str, float]):
    assert beyond(b, c) == set()
    assert abs(total(c) - total(b)) < assumed_noise_total(b, c)


def test_real_changes_stand_out():
    steady = {"compute", "memcpy", "launch_api", "launch_latency", "graph_internal"}
    assert {"gc", "host_work"} <= beyond(GRAPH_1, GC)
    assert "host_work" in beyond(GRAPH_1, SLEEP)
    for changed in (GC, SLEEP):
        assert not steady & beyond(GRAPH_1, changed)
        assert total(changed) - total(GRAPH_1) > assumed_noise_total(GRAPH_1, changed)


def test_the_table_by_hand():
    b = us(compute=700, memcpy=3, comm=100, launch_api=100, gc=5)
    c = us(compute=710, memcpy=3, comm=90, launch_api=160, gc=0)
    expected = us(compute=0.02 * 710, memcpy=1, comm=30, launch_api=160 * (1 - 1 / 1.6) + 10, gc=20)
    assert assumed_noise(b, c) == pytest.approx(expected)
    assert assumed_noise_total(b, c) == pytest.approx(US * np.sqrt(14.2**2 + 1 + 30**2 + 70**2 + 20**2))


def test_host_categories_add_up():
    side = us(host_work=160, launch_api=160)
    assert assumed_noise_total(side, side) == pytest.approx(140 * US)


def test_a_ratio_of_1_6_is_the_edge_for_host_time():
    big = 1e9  # where the 10 us do not count
    assert beyond({"host_work": big}, {"host_work": 1.59 * big}) == set()
    assert beyond({"host_work": big}, {"host_work": 1.61 * big}) == {"host_work"}


def test_nothing_on_either_side_is_no_noise():
    assert assumed_noise({"gc": 0.0, "compute": 0.0}, {}) == {"gc": 0.0, "compute": 0.0}
    assert assumed_noise_total({}, {}) == 0.0


def test_places_of_a_category_at_once():
    widths = assumed_half_width("host_work", np.array([0.0, 16e3]), np.array([0.0, 8e3]))
    assert widths.tolist() == [0.0, 16e3 * (1 - 1 / 1.6) + 10e3]
    with pytest.raises(KeyError):
        assumed_half_width("kernels", 1.0, 1.0)


@given(st.dictionaries(st.sampled_from(CATEGORIES), st.tuples(st.floats(0, 1e9), st.floats(0, 1e9))))
def test_the_sides_are_symmetric(pairs: dict[str, tuple[float, float]]):
    b, c = ({name: pair[i] for name, pair in pairs.items()} for i in (0, 1))
    assert assumed_noise(b, c) == assumed_noise(c, b)
    assert assumed_noise_total(b, c) == assumed_noise_total(c, b)
    assert assumed_noise_total(b, c) >= max(assumed_noise(b, c).values(), default=0.0)

"""A reduction as bytes: nothing is lost, and damage is noticed."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import polars as pl
import pytest

from tests.conftest import CAPTURES
from tracediff.accounting.reduction import Lane, Reduction, SampledStep
from tracediff.execution.cache import DamagedError, pack, unpack
from tracediff.execution.run import reduce_file
from tracediff.execution.sides import Reading


@pytest.fixture(scope="module")
def reduction() -> Reduction:
    return reduce_file(CAPTURES["tp2_a1"], Reading(keep=True))


def same(one: object, other: object) -> bool:
    """Equality down to the types of columns and arrays."""
    if isinstance(one, pl.DataFrame) and isinstance(other, pl.DataFrame):
        return one.schema == other.schema and one.equals(other)
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, (Reduction, SampledStep, Lane)):
        names = one.__struct_fields__
        return type(one) is type(other) and all(same(getattr(one, n), getattr(other, n)) for n in names)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, tuple) and isinstance(other, tuple):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


def test_what_comes_back_is_the_same(reduction):
    assert reduction.sampled
    back = unpack(pack(reduction))
    different = [name for name in back.__struct_fields__ if not same(getattr(reduction, name), getattr(back, name))]  # fmt: skip
    assert different == []


def test_any_tool_reads_the_tables(reduction):
    row = pl.read_ipc_stream(io.BytesIO(pack(reduction)[:-32]))
    assert row["periods"][0].struct.unnest().equals(reduction.periods)


def test_equal_reductions_are_equal_bytes(reduction):
    assert pack(reduction) == pack(unpack(pack(reduction)))


def test_every_damaged_byte_is_noticed(reduction):
    raw = bytearray(pack(reduction))
    for at in [*range(60), *np.linspace(60, len(raw) - 1, 50, dtype=int).tolist()]:
        raw[at] ^= 1
        with pytest.raises(DamagedError):
            unpack(bytes(raw))
        raw[at] ^= 1
    unpack(bytes(raw))


@pytest.mark.parametrize("size", [0, 1, 31, 32, 33, 1000, -1])
def test_a_cut_copy_is_noticed(reduction, size):
    with pytest.raises(DamagedError):
        unpack(pack(reduction)[:size])


def test_what_was_stored_under_another_key_is_not_read(reduction):
    raw = pack(reduction, "one")
    assert same(unpack(raw, "one"), reduction)
    with pytest.raises(DamagedError):
        unpack(raw, "other")


def test_threads_read_at_once(reduction):
    """Two threads that make msgspec's first decoder of a type at once end the process."""
    raw = pack(reduction)
    with ThreadPoolExecutor(4) as threads:
        assert [pack(one) for one in threads.map(unpack, [raw] * 8)] == [raw] * 8

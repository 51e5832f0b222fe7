"""JSON with latencies: what known benchmarks write, lists, and objects with a list."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tracediff.errors import TracediffError
from tracediff.load.latencies_found import Found, as_number
from tracediff.load.latency_names import choose, unit_of

_UNIT_KEYS = ("unit", "units", "time_unit")
_FAILURES = (msgspec.MsgspecError, ValueError, RecursionError)


def parse(data: bytes) -> Any:
    """Decode JSON; NaN and Infinity, which Python's json writes, are let through to be named later.

    Raises `ValueError` where it is none.
    """
    try:
        return msgspec.json.decode(data)
    except _FAILURES as error:
        if b"NaN" not in data and b"Infinity" not in data:
            raise ValueError(str(error)) from error
    try:
        return json.loads(data)
    except _FAILURES as error:
        raise ValueError(str(error)) from error


def find(value: Any, column: str | None, where: str) -> Found | None:
    """Return the latencies in a decoded file, None where it holds none that are known here.

    Raises `TracediffError`: latencies-column, latencies-no-data, latencies-unit, latencies-empty.
    """
    if isinstance(value, dict):
        for reader in (_pytest_benchmark, _hyperfine, _vllm):
            found = reader(value, column, where)
            if found is not None:
                return found
        return _object(value, column, where)
    if isinstance(value, list):
        return _list(value, column, where)
    return None


def rows(objects: Sequence[Mapping[str, Any]], column: str | None, where: str, form: str = "json") -> Found:
    """Return the latencies of a list of objects, one an iteration; the key is chosen as a column of a CSV is."""
    first = objects[0]
    numeric = [key for key, value in first.items() if isinstance(key, str) and as_number(value) is not None]
    key = choose(numeric, column, where)
    units = {str(one.get(name)) for one in objects for name in _UNIT_KEYS if name in one}
    return Found(form, key, [one.get(key) for one in objects], _stated(units, where), "object")


def _list(values: list[Any], column: str | None, where: str) -> Found | None:
    if not values:
        return Found("json", "", [])
    if all(isinstance(one, dict) for one in values):
        return rows(values, column, where)
    if isinstance(values[0], dict | list):
        return None
    return Found("json", "", values)


def _object(value: dict[str, Any], column: str | None, where: str) -> Found | None:
    lists = {
        key: one
        for key, one in value.items()
        if isinstance(one, list) and (not one or any(as_number(item) is not None for item in one))
    }
    if not lists:
        return None
    key = choose(list(lists), column, where)
    stated = {str(value[name]) for name in _UNIT_KEYS if name in value}
    return Found("json", key, lists[key], _stated(stated, where))


def _stated(units: set[str], where: str) -> str | None:
    """The unit that a file states; an unknown one is refused, for nothing may be guessed instead."""
    if not units:
        return None
    named = {unit_of(one) for one in units}
    if len(named) > 1 or None in named:
        told = ", ".join(sorted(one[:20] for one in units))
        raise TracediffError(
            "latencies-unit", f"{where}: the unit is given as {told}", fix="ns, us, ms or s, one for all"
        )
    return named.pop()


def _one_of(series: Sequence[tuple[str, Any]], column: str | None, where: str, what: str) -> tuple[str, Any]:
    """Return the benchmark asked for, or the only one."""
    names = [name for name, _ in series]
    if column is None and len(series) == 1:
        return series[0]
    chosen = [one for one in series if one[0] == column]
    if len(chosen) == 1:
        return chosen[0]
    listed = ", ".join(name[:80] for name in names[:12])
    raise TracediffError(
        "latencies-column",
        f"{where}: {len(series)} {what}: {listed}",
        fix="--column NAME, one of these"
        if len(set(names)) == len(names)
        else "save each in a file of its own",
    )


def _pytest_benchmark(value: dict[str, Any], column: str | None, where: str) -> Found | None:
    found = value.get("benchmarks")
    if not isinstance(found, list) or not found or "machine_info" not in value:
        return None
    series = [(str(one.get("name", "")), one.get("stats")) for one in found if isinstance(one, dict)]
    name, stats = _one_of(series, column, where, "benchmarks")
    data = stats.get("data") if isinstance(stats, dict) else None
    if not isinstance(data, list):
        raise TracediffError(
            "latencies-no-data",
            f"{where}: the rounds of benchmark {name[:80]} were not saved, only their statistics",
            fix="pytest --benchmark-json FILE, or --benchmark-autosave with --benchmark-save-data",
        )
    return Found("pytest-benchmark", name, data, "s")


def _hyperfine(value: dict[str, Any], column: str | None, where: str) -> Found | None:
    found = value.get("results")
    if (
        not isinstance(found, list)
        or not found
        or not all(isinstance(one, dict) and "command" in one for one in found)
    ):
        return None
    series = [(str(one.get("name") or one["command"]), one) for one in found]
    name, one = _one_of(series, column, where, "commands")
    if isinstance(one.get("times"), list):
        return Found("hyperfine", name, one["times"], "s")
    measured = one.get("measurements")
    parts = [part for part in measured if isinstance(part, dict)] if isinstance(measured, list) else []
    clocks = [clock for part in parts if isinstance(clock := part.get("time_wall_clock"), dict)]
    if not clocks:
        raise TracediffError(
            "latencies-no-data",
            f"{where}: no single runs of {name[:80]}",
            fix="hyperfine --export-json FILE COMMAND",
        )
    return Found(
        "hyperfine",
        name,
        [part.get("value") for part in clocks],
        _stated({str(part.get("unit")) for part in clocks}, where),
    )


def _vllm(value: dict[str, Any], column: str | None, where: str) -> Found | None:
    """Seconds are what vLLM writes; the mean that it writes beside them has to be theirs."""
    times, mean = value.get("latencies"), as_number(value.get("avg_latency"))
    if (
        column not in (None, "latencies")
        or not isinstance(times, list)
        or mean is None
        or "percentiles" not in value
    ):
        return None
    numbers = [as_number(one) for one in times]
    known = [one for one in numbers if one is not None]
    if (
        not known
        or len(known) != len(numbers)
        or not math.isclose(math.fsum(known) / len(known), mean, rel_tol=1e-3)
    ):
        return None
    return Found("vllm-latency", "latencies", times, "s")

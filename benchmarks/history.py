"""`python -m benchmarks.history`: what `tracediff history` finds in histories whose truth is known, and how long a large store takes.

false alarms   histories of one program, 200 series of 100 points each, whose noise is of several kinds: how many hold any change
power          histories of 60 points, 6 times of steps and 200 causes, with a step or a slow drift planted in one of the first
store          points of 157 measures each: seconds to read and to analyse them, beside a bare read of the files
"""

from __future__ import annotations

import argparse
import hashlib
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from tracediff.history import changes
from tracediff.history.analysis import Commits, analyse
from tracediff.history.changes import Series
from tracediff.history.points import Measures, Point, Program
from tracediff.history.store import Kept, Store

NOISES = ("normal", "student-3", "odd runs", "skewed", "neighbours 0.3", "neighbours 0.6")
SERIES, POINTS = 200, 100


def noise(kind: str, many: int, random: np.random.Generator) -> np.ndarray:
    """Noise of about one standard deviation. odd runs: one point in twenty is off by 8 on average; neighbours: correlated so far."""
    if kind == "student-3":
        return random.standard_t(3, size=many) / np.sqrt(3)
    values = random.normal(size=many)
    if kind == "odd runs":
        odd = random.random(many) < 0.05
        values[odd] += random.choice([-1, 1], odd.sum()) * random.exponential(8, odd.sum())
    if kind == "skewed":
        return np.exp(0.7 * values)
    if kind.startswith("neighbours"):
        r = float(kind.split()[1])
        for at in range(1, many):
            values[at] = r * values[at - 1] + values[at] * np.sqrt(1 - r * r)
    return values


def series(values: np.ndarray, error: float = 1.0) -> Series:
    """Values of commits of their own."""
    return Series(values, np.full(len(values), error), np.arange(len(values)))


def false_alarms(kind: str, histories: int, points: int = POINTS, seed: int = 1) -> tuple[int, int]:
    """Of so many histories without any change: how many hold a change, and how many a drift."""
    random = np.random.default_rng(seed)
    changed = drifted = 0
    for _ in range(histories):
        found = [0, 0]
        for _ in range(SERIES):
            one = series(100 + noise(kind, points, random))
            inside = changes.changes(one, SERIES)
            drift = changes.drift(one, inside, SERIES)
            found[0] += len(inside)
            found[1] += drift is not None and drift.p <= changes.ALPHA
        changed += found[0] > 0
        drifted += found[1] > 0
    return changed, drifted


def power(step: float, at: int, family: int, histories: int, kind: str = "normal", seed: int = 2) -> float:
    """Share of histories of 60 points in which a step of so many standard deviations before point `at` is found, two points off at most."""
    random = np.random.default_rng(seed)
    found = 0
    for _ in range(histories):
        values = 100 + noise(kind, 60, random)
        values[at:] += step
        found += any(abs(one.at - at) <= 2 for one in changes.changes(series(values), family))
    return found / histories


def drift_power(total: float, histories: int, seed: int = 3) -> float:
    """Share of histories of 60 points in which a slow rise by so many standard deviations is called a drift."""
    random = np.random.default_rng(seed)
    found = 0
    for _ in range(histories):
        one = series(100 + noise("normal", 60, random) + np.linspace(0, total, 60))
        drift = changes.drift(one, changes.changes(one, 12), 12)
        found += drift is not None and drift.p <= changes.ALPHA
    return found / histories


def names() -> list[str]:
    """Measures of a point: three phases with ten categories, sixty places and kernels, counts."""
    kinds = [
        "compute",
        "memcpy",
        "launch_latency",
        "dependency",
        "graph_internal",
        "launch_api",
        "host_sync",
        "host_api",
        "gil_wait",
        "host_work",
    ]
    phases = ("generation", "context", "mixed")
    steps = [name for phase in phases for name in (phase, *(f"{phase}.{kind}" for kind in kinds))]
    places = [f"generation.host_work@_place_{number}" for number in range(60)]
    kernels = [f"kernel:gemm_{number}_bf16_128x128" for number in range(60)]
    return [*steps, *places, *kernels, "launches", "graph_launches", "kernels", "syncs"]


def points(many: int, seed: int = 0) -> list[Point]:
    """Points of commits six hours apart; two thirds through, generation takes 2 % more, in one place."""
    random, said = np.random.default_rng(seed), names()
    base = random.uniform(2e4, 1e6, len(said))
    scatter = np.where(
        [name in ("launches", "graph_launches", "kernels", "syncs") for name in said], 0.0, 0.01
    )
    made = []
    for number in range(many):
        values = base * (1 + scatter * random.normal(size=len(said)))
        if number >= 2 * many // 3:
            values[[0, said.index("generation.host_work"), said.index("generation.host_work@_place_7")]] += (
                0.02 * base[0]
            )
        made.append(point(number, said, values, base, 0.01 * base))
    return made


def point(
    number: int,
    said: Sequence[str],
    values: np.ndarray,
    base: np.ndarray,
    errors: np.ndarray,
    **other: object,
) -> Point:
    """The point of a commit, against the pinned baseline v1."""
    rounded = [[round(float(one), 2) for one in column] for column in (values, errors, base, values - base)]
    fields = {
        "commit": hashlib.sha1(str(number).encode()).hexdigest(),
        "time": (datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=6 * number)).isoformat(timespec="seconds"),
        "program": Program("", "tensorrt-llm", ("generation",)),
        "machine": {"gpu": "NVIDIA H200", "driver": "580.1"}, "configuration": {"nsys": "2023.4"},
        "baseline": "v1", "pinned": "v1", "candidate": "pr", "verdict": "no_change", "captures": [f"{number:016x}"],
        "measures": Measures(list(said), *rounded),
    }  # fmt: skip
    return Point(**{**fields, **other})


def kept(made: Sequence[Point]) -> list[Kept]:
    """The same as they lie in a store."""
    return [Kept(f"{number:08}.json", one, one.time, f"{number}.json") for number, one in enumerate(made)]


def time_store(many: int) -> list[tuple[str, float, float]]:
    """What, seconds, and its ratio to a bare read of the files."""
    with tempfile.TemporaryDirectory() as folder:
        store = Store(folder)
        for one in points(many):
            store.add(one)
        begin = time.perf_counter()
        bytes_read = sum(len(path.read_bytes()) for path in Path(folder).iterdir())
        bare = time.perf_counter() - begin
        begin = time.perf_counter()
        found, torn = store.read()
        read = time.perf_counter() - begin
        assert len(found) == many and not torn
        begin = time.perf_counter()
        history = analyse(found, Commits(problem="no-repository"))
        analysed = time.perf_counter() - begin
        assert [one.measure for one in history.segments[0].changes] == ["generation"]
    return [
        (f"bare read of {bytes_read / 1e6:.0f} MB", bare, 1.0),
        ("read, checked and decoded", read, read / bare),
        ("analysed", analysed, analysed / bare),
    ]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--histories", type=int, default=20)
    parser.add_argument("--points", type=int, default=5_000)
    chosen = parser.parse_args()
    print(
        f"| noise | of {chosen.histories} histories of {SERIES} x {POINTS}: false changes | false drifts |\n|-|-|-|"
    )
    for kind in NOISES:
        changed, drifted = false_alarms(kind, chosen.histories)
        print(f"| {kind} | {changed} | {drifted} |", flush=True)
    print(
        "\n| step, standard deviations | points after it, of 60 | found among 6 series | among 200 |\n|-|-|-|-|"
    )
    for step in (1.0, 2.0, 3.0, 6.0):
        for after in (30, 10, 5, 3):
            shares = [power(step, 60 - after, family, 100) for family in (12, 400)]
            print(f"| {step:.0f} | {after} | {shares[0]:.0%} | {shares[1]:.0%} |", flush=True)
    print("\n| slow rise over 60 points, standard deviations | called a drift |\n|-|-|")
    for total in (2.0, 3.0, 5.0):
        print(f"| {total:.0f} | {drift_power(total, 100):.0%} |")
    print(f"\n| {chosen.points} points | s | ratio |\n|-|-|-|")
    for what, seconds, ratio in time_store(chosen.points):
        print(f"| {what} | {seconds:.2f} | {ratio:.1f} |")


if __name__ == "__main__":
    main()

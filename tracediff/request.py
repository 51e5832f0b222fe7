"""What can be asked: one dataclass a command. Its fields are the options of the command line and the arguments of `tracediff.api`.

A field made with `option` is an option; its metadata says how the command line spells it (see `tracediff.cli.options`); GROUP is where its help stands. A field
that is not keyword-only is an argument. A field with neither is fixed for that command.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from tracediff.formats.selection import Pick, Selection, read_pick, selections, spell_ranks, spell_steps

if TYPE_CHECKING:
    from tracediff.execution.sides import Reading

PathLike = str | os.PathLike[str]
Paths = PathLike | Sequence[PathLike]


def option(default: Any, text: str, **spelling: Any) -> Any:
    """A field that is an option. `text`: its help; `spelling`: name (where it is another), group, metavar, minimum, choices, path, word."""
    return field(default=default, metadata={"help": text, **spelling})


def paths(given: Paths) -> tuple[Path, ...]:
    """One path or several, as several."""
    return (Path(given),) if isinstance(given, str | os.PathLike) else tuple(Path(one) for one in given)


def word(given: PathLike | None) -> str | None:
    """A path that may have a label, as a string."""
    return None if given is None else os.fspath(given)


STEPS, BESIDE, MORE = "Steps and ranks", "Beside the traces", "More answers"  # groups of options


@dataclass(frozen=True, kw_only=True)
class ReadRequest:
    """How captures are read."""

    GROUP: ClassVar[str] = ""
    step_regex: str | None = option(
        None, "NVTX ranges that begin a step; groups number, ctx, tokens, gen.", metavar="REGEX", group=STEPS
    )

    def reading(self, *, keep: bool = False) -> Reading:
        """The same for `execution`, with what the environment says; `keep`: the events of some steps, to draw.

        Raises `TracediffError`: bad-limit, bad-export.
        """
        from tracediff.execution.sides import Reading, tuning

        same = {name: getattr(self, name) for name in Reading.__struct_fields__ if hasattr(self, name)}
        return Reading(**same, **tuning(), keep=keep)


@dataclass(frozen=True, kw_only=True)
class OpenRequest(ReadRequest):
    """`tracediff query` and `tracediff.open`: the tables of one or two captures."""

    capture: PathLike = field(kw_only=False)
    candidate: PathLike | None = field(default=None, kw_only=False)


@dataclass(frozen=True, kw_only=True)
class MeasureRequest(ReadRequest):
    """Which steps are measured. Raises ValueError where steps or ranks are no selection."""

    steps: str | None = option(
        None,
        "Only these steps, by the number in their label (else by their place, from 1): 20-50; or by the time of the trace: 1.5s-2.5s."
        " With two sides, A/B is one for each.",
        metavar="FROM-TO",
        group=STEPS,
    )
    ranks: str | None = option(None, "Only these ranks: 0,3-7.", metavar="LIST", group=STEPS)
    skip_unreadable: bool = option(
        False,
        "Leave exports out that cannot be read, and say which, instead of ending with an error.",
        group=STEPS,
    )
    cache: bool = True  # take what was read before from the cache, and keep there what is read now

    def __post_init__(self) -> None:
        self.selections()

    def selections(self) -> tuple[Selection, Selection]:
        """What is measured of the baseline and of the candidate."""
        return selections(self.steps, self.ranks)

    def reading(self, *, keep: bool = False) -> Reading:
        """Raises `TracediffError`: bad-limit, bad-export."""
        from msgspec.structs import replace

        return replace(super().reading(keep=keep), cached=self.cache)

    def said(self, sides: int = 2, **more: object) -> dict[str, object]:
        """The options that a result mentions, where they were given; a selection as a pair where the sides differ."""
        said: dict[str, object] = {"step_regex": self.step_regex, **more}
        for name, spelled in (("steps", spell_steps), ("ranks", spell_ranks)):
            words = list(dict.fromkeys(spelled(one) or "all" for one in self.selections()[:sides]))
            said[name] = "/".join(words) if words != ["all"] else None
        return {name: value for name, value in said.items() if value}


@dataclass(frozen=True, kw_only=True)
class CompareRequest(MeasureRequest):
    """`tracediff compare` and `tracediff.compare`."""

    GROUP: ClassVar[str] = MORE
    baseline: PathLike = field(kw_only=False)
    candidate: PathLike | None = field(default=None, kw_only=False)  # None: `baseline` is a capture bundle
    beside: str | Sequence[str] = option(
        (),
        "What else is known of the baseline or the candidate: benchmark reports and iteration logs, latencies without a profiler,"
        " files of trtexec, a profile of Nsight Compute; noise=PATH: repeats of the baseline's program. Repeatable.",
        name="--with",
        metavar="SIDE=PATH",
        group=BESIDE,
    )
    kernel: str | Sequence[str] = option(
        (),
        "Everything about the kernels in whose name NAME occurs (*: anything); repeatable.",
        metavar="NAME",
    )
    what_if: bool = option(
        False,
        "Say what a step would take without each of the first causes, and without all three (docs/investigate.md#what-if).",
    )
    force: bool = option(False, "Give a verdict even where the captures are not comparable.", group=MORE)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.given()

    def given(self) -> dict[str, list[Path]]:
        """What is given beside the traces, by side. Raises ValueError where a word is no SIDE=PATH, or noise is several."""
        found: dict[str, list[Path]] = {"baseline": [], "candidate": [], "noise": []}
        for one in (self.beside,) if isinstance(self.beside, str) else self.beside:
            side, _, path = one.partition("=")
            if side not in found or not path:
                raise ValueError(f"--with: {one!r} is no SIDE=PATH, where SIDE is {', '.join(found)}")
            found[side].append(Path(path))
        if len(found["noise"]) > 1:
            raise ValueError("--with noise=PATH: one folder of repeats, not several")
        return found

    def of_steps(self) -> list[str]:
        """The options that were given and need steps."""
        given = {
            "--steps": self.steps, "--step-regex": self.step_regex, "--ranks": self.ranks, "--with": self.beside,
            "--kernel": self.kernel, "--what-if": self.what_if,
        }  # fmt: skip
        return [name for name, value in given.items() if value]

    def kernels(self) -> tuple[str, ...]:
        """The names of kernels that are asked for."""
        return (self.kernel,) if isinstance(self.kernel, str) else tuple(self.kernel)


@dataclass(frozen=True, kw_only=True)
class BisectRequest(ReadRequest):
    """`tracediff bisect`. Raises ValueError where nothing says how to capture, or a number of minutes is none."""

    good: str = field(kw_only=False)
    bad: str = field(kw_only=False)
    cause: str = option(
        "step",
        "What is searched for, as in a gate; without a limit, half of the difference between GOOD and BAD.  [default: step]",
        metavar="MEASURE[:+LIMIT]",
    )
    build: str | None = option(None, "Shell command that builds a checkout, run at its top.", metavar="CMD")
    capture: str | None = option(
        None, "Command to profile, run in a checkout, or a plan of `tracediff capture` (.toml) without sides.", metavar="CMD|PLAN.toml"
    )  # fmt: skip
    max_pairs: int = option(30, "Pairs of runs for a commit, after which it is skipped.", minimum=3)
    budget: float | None = option(
        None,
        "Minutes of builds and runs in all, after which the search stops.",
        metavar="MINUTES",
        type=float,
    )
    first_parent: bool = option(False, "Follow the first parent of merges only.")
    repository: Path = option(
        Path(), "The repository.  [default: .]", name="-C --repository", metavar="DIR", path=True
    )

    def __post_init__(self) -> None:
        if not self.capture:
            raise ValueError("--capture is missing: the command to profile, or a plan")
        if self.budget is not None and not 0 < self.budget < float("inf"):
            raise ValueError(f"--budget is a number of minutes, not {self.budget}")


@dataclass(frozen=True, kw_only=True)
class TimelineRequest(MeasureRequest):
    """`tracediff timeline`. Raises ValueError where pairs or runs are none."""

    GROUP: ClassVar[str] = ""
    steps: str | None = None  # `pairs` says it
    baseline: PathLike = field(kw_only=False)
    candidate: PathLike | None = field(default=None, kw_only=False)
    pairs: str | None = option(
        None, "Which pairs of steps: the first N, the A-th to the B-th, or those in a time of the trace: 1.5s-2.5s.  [default: 20]",
        name="--steps", metavar="N|A-B",
    )  # fmt: skip
    max_events: int = option(
        500_000, "Events of both sides together; pairs of steps beyond them are left out, with a warning.", minimum=1
    )  # fmt: skip
    run: str | None = option(
        None, "Which run of each side, counted from 1.  [default: that with the median step time]", metavar="N|N,M"
    )  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        self.window_of_pairs()
        self.runs()

    def selections(self) -> tuple[Selection, Selection]:
        """Steps in a time of the trace; of pairs by number all are read."""
        return selections(self.pairs if self._by_time else None, self.ranks)

    @property
    def _by_time(self) -> bool:
        return self.pairs is not None and re.search(r"[a-z]", self.pairs) is not None

    def window_of_pairs(self) -> tuple[int, int] | None:
        """First and last pair of steps, counted from 1; None: not asked for by number."""
        if self.pairs is None or self._by_time:
            return None
        found = re.fullmatch(r"(?:(\d{1,9})-)?(\d{1,9})", self.pairs)
        first, last = (int(found[1] or 1), int(found[2])) if found else (0, 0)
        if not 1 <= first <= last:
            raise ValueError(
                f"--steps: {self.pairs!r} is neither a number of steps, nor a range A-B of them, counted from 1, nor a time such as 1.5s-2.5s"
            )
        return first, last

    def runs(self) -> tuple[int, int] | tuple[None, None]:
        """The run of each side, counted from 0; None: not asked for."""
        if self.run is None:
            return None, None
        found = re.fullmatch(r"(\d{1,6})(?:,(\d{1,6}))?", self.run)
        runs = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
        if min(runs) < 1:
            raise ValueError(
                f"--run: {self.run!r} is neither the number of a run nor two of them as N,M, counted from 1"
            )
        return runs[0] - 1, runs[1] - 1


@dataclass(frozen=True, kw_only=True)
class ShowRequest(MeasureRequest):
    """`tracediff show`: one side."""

    GROUP: ClassVar[str] = MORE
    capture: PathLike = field(kw_only=False)
    kpi: Paths = option(
        (), "Benchmark report or iteration log of the program; repeatable.", path=True, group=BESIDE
    )
    step: str | int | Sequence[str | int] = option(
        (), "This step beside the typical step of its class; repeatable.", metavar="[RUN:]N"
    )
    worst: int | None = option(
        None,
        "The N steps that exceed the typical step of their class most, likewise.",
        minimum=1,
        metavar="N",
    )

    def __post_init__(self) -> None:
        baseline, candidate = self.selections()
        if baseline != candidate:
            raise ValueError("--steps of two sides: there is one")
        self.picks()

    def picks(self) -> tuple[Pick, ...]:
        """The single steps that are asked for. Raises ValueError where one is none."""
        given = (self.step,) if isinstance(self.step, str | int) else self.step
        return tuple(read_pick(str(one)) for one in given)


@dataclass(frozen=True, kw_only=True)
class WhatIfRequest(MeasureRequest):
    """`tracediff what-if`: one side and what is different in it."""

    GROUP: ClassVar[str] = ""
    capture: PathLike = field(kw_only=False)
    without: str | Sequence[str] = option(
        (), "Take the time of a cause away, at some places or all, or of kernels with their launches: gc, gil_wait@await_response, kernel:NAME; repeatable.", metavar="CAUSE[@PLACE]"
    )  # fmt: skip
    scale: str | Sequence[str] = option(
        (), "Multiply the time of kernels, or of a cause at some places: 'fmha*=0.5', host_work@_schedule=0.5; repeatable.", metavar="NAME=FACTOR"
    )  # fmt: skip
    fuse: str | Sequence[str] = option(
        (), "Make one kernel of kernels that follow one another, with the time of all, or FACTOR times that; repeatable.", metavar="A+B[=FACTOR]"
    )  # fmt: skip
    graph: bool = option(False, "Launch the kernels between two waits as one CUDA graph.")
    ahead: bool = option(
        False, "Await the result of a step one step later: the host runs ahead of the GPU.", name="--async"
    )

    def __post_init__(self) -> None:
        baseline, candidate = self.selections()
        if baseline != candidate:
            raise ValueError("--steps of two sides: there is one")

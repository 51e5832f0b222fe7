"""Which ranges label steps, by evidence: for names that no table knows.

A family is what one thread says in one NVTX domain, with numbers masked. Its windows are [start, next start);
that of its last range ends with the range.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from tracediff.formats.capture import Capture
from tracediff.formats.database import sql
from tracediff.trace.ranges import mask

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

ENOUGH = 5  # points that a family needs to be taken

# What refuses a family, and how far it must go.
MOST_OVERLAPS = 0.05  # ranges that begin before the one before them ended
LEAST_WORKING = 0.8  # windows with a kernel
LEAST_AFTER = 0.5  # ops of the process after the first range began
LEAST_INSIDE = 0.3  # ops launched inside the ranges
LEAST_RANGES, LEAST_NUMBERED = 4, 2

# What gives points.
_RISES, _DISTINCT = 0.9, 0.95  # numbers one above the one before; different numbers
_INSIDE, _MOSTLY_INSIDE = 0.6, 0.9  # ops launched inside the ranges
_WAITED = 0.9  # windows in which the host waits for a result
_ALIKE = 0.6  # ops in classes of windows that occur three times
_POINTS = {"number": 3, "word": 2, "inside": 1, "mostly-inside": 2, "waits": 1, "alike": 1, "part": -2}

# Names that frameworks give to their own functions and to the layers of a model: parts of a step, at best.
LIBRARY = (
    r"^(?:aten|cub|thrust|at|c10|c10d|autograd|FSDP|torch|cudnn|cublas)::|^nccl|^nn\.Module|^autograd::|^Optimizer\."
    r"|^DistributedDataParallel\.|^Thunk:"
)
_PART = re.compile(
    r"(?i)(?<![a-z])(?:layers?|blocks?|attn|attention|mlp|ffn|moe|experts?|norm|embed|embeddings?|linear)(?![a-z])"
)
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_WORD = re.compile(
    r"(?i)(?<![a-z])(?:steps?|iters?|iterations?|forward|batch|batches|tokens?|decode|execute|engine|frames?)(?![a-z])"
)

_NUMBER = re.compile(r"0x[0-9a-fA-F]+|\d+(?:\.\d+)?")  # what `mask` masks
_MOST_NUMBERS = 4  # of a text that are looked at
_MOST_WINDOWS = 2000  # that are sorted into classes
_MOST_LEADERS = 200
_CLASS = 0.15  # Bray-Curtis distance to the leader of a class, at most
_RECURRING = 3  # windows of a class
_LONGEST = 200  # windows after which a sequence of classes is looked for again
_REPEATS = 0.9  # windows like the one that many before
_ONE_CLASS = 0.97  # share of the largest class: nothing is left that could alternate


@dataclass(frozen=True)
class Launched:
    """What one process launched, in order: arrays of one length. `result`: instants at which it waited for a copy."""

    start: Ints
    content: Words
    ops: Ints
    kernels: Ints
    result: Ints


_NONE = np.zeros(0, np.int64)
NOTHING = Launched(_NONE, np.zeros(0, np.uint64), _NONE, _NONE, _NONE)


@dataclass(frozen=True)
class Mark:
    """One thing seen of a family: its points, and the share (or count) that gave or refused them."""

    code: str
    points: int
    value: float


@dataclass(frozen=True)
class Family:
    """Ranges of one name on one thread, and what speaks for them."""

    text: str  # numbers masked
    pattern: str  # RE2, the number that rises as its group
    numbered: bool
    count: int
    marks: tuple[Mark, ...]
    refused: Mark | None

    @property
    def score(self) -> int:
        """Points for and against it; a family that is refused has those too."""
        return sum(mark.points for mark in self.marks)

    @property
    def taken(self) -> bool:
        """Whether it may label steps."""
        return self.refused is None and self.score >= ENOUGH


def families(capture: Capture) -> list[Family]:
    """Judge every family of the processes that launch work: the best first, those refused last.

    A name is judged where it does best, whatever thread or process that is.
    """
    found = capture.db.execute(
        sql("trace/evidence_range"), {"library": LIBRARY, "least": LEAST_NUMBERED}
    ).fetchnumpy()
    label, start, end = (np.asarray(found[name], np.int64) for name in ("label", "start_ns", "end_ns"))
    if not len(label):
        return []
    launched = _launched(capture)
    texts = dict(capture.db.execute("SELECT label, text FROM range_text").fetchall())
    best: dict[str, tuple[tuple[float, ...], Family]] = {}
    for low, high in pairwise([0, *(np.flatnonzero(np.diff(found["family"])) + 1).tolist(), len(label)]):
        work = launched.get(int(found["pid"][low]), NOTHING)
        one = judge([texts[name] for name in label[low:high].tolist()], start[low:high], end[low:high], work)
        # of equal families the numbered one, then the one that holds more, then the earlier one
        held = max((mark.value for mark in one.marks if mark.code.endswith("inside")), default=0.0)
        order = (one.refused is None, one.score, one.numbered, round(held, 2), -int(start[low]))
        if one.text not in best or order > best[one.text][0]:
            best[one.text] = order, one
    ranked = sorted(best.values(), key=lambda pair: (*(-value for value in pair[0]), pair[1].text))
    return [one for _, one in ranked]


def judge(texts: list[str], start: Ints, end: Ints, launched: Launched) -> Family:
    """Judge one family by its ranges, in order of start: their texts, and where they begin and end in ns."""
    group = _rising(texts)
    name = mask(texts[0])
    seen = [
        ("number", group is not None, 1.0),
        ("word", _WORD.search(_CAMEL.sub(" ", name)) is not None, 1.0),
    ]
    refused = _refused_by_ranges(name, group is not None, start, end)
    if refused is None and len(launched.ops):
        held = _held(start, end, launched)
        seen += [
            ("inside", _INSIDE <= held < _MOSTLY_INSIDE, held),
            ("mostly-inside", held >= _MOSTLY_INSIDE, held),
        ]
        bounds = np.append(start, max(int(end[-1]), int(start[-1]) + 1))
        refused = _refused_by_work(bounds, held, launched)
        if refused is None:
            waited = float(np.mean(np.diff(np.searchsorted(launched.result, bounds)) > 0))
            kinds, alike = classes(np.searchsorted(launched.start, bounds), launched)
            period = structured(kinds)
            seen += [("waits", waited >= _WAITED, waited), ("alike", alike >= _ALIKE, alike)]
            seen += [("part", period > 0, period)]
    marks = tuple(Mark(code, _POINTS[code], value) for code, found, value in seen if found)
    return Family(name, pattern(texts[0], group), group is not None, len(texts), marks, refused)


def _refused_by_ranges(name: str, numbered: bool, start: Ints, end: Ints) -> Mark | None:
    if _PART.search(_CAMEL.sub(" ", name)):
        return Mark("layer", 0, 1)
    if len(start) < (LEAST_NUMBERED if numbered else LEAST_RANGES):
        return Mark("few", 0, len(start))
    overlaps = float(np.mean(start[1:] < end[:-1]))
    return Mark("overlaps", 0, overlaps) if overlaps > MOST_OVERLAPS else None


def _refused_by_work(bounds: Ints, held: float, launched: Launched) -> Mark | None:
    at = np.searchsorted(launched.start, bounds)
    working = float(np.mean(np.diff(_before(launched.kernels)[at]) > 0))
    if working < LEAST_WORKING:
        return Mark("idle", 0, working)
    after = float(launched.ops[at[0] :].sum() / launched.ops.sum())
    if after < LEAST_AFTER:
        return Mark("late", 0, after)
    return Mark("outside", 0, held) if held < LEAST_INSIDE else None


def _held(start: Ints, end: Ints, launched: Launched) -> float:
    """Share of the ops that were launched inside the ranges; where they overlap, 1 at most."""
    before = _before(launched.ops)
    ops = before[np.searchsorted(launched.start, end)] - before[np.searchsorted(launched.start, start)]
    return min(float(ops.sum() / before[-1]), 1.0)


def _before(counts: Ints) -> Ints:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])


def _rising(texts: list[str]) -> int | None:
    """Which number of the texts (0: the first) rises by one from range to range, and is nowhere twice; None: none does."""
    numbers = [_NUMBER.findall(text) for text in texts]
    for at in range(min(len(numbers[0]), _MOST_NUMBERS)):
        values = [int(one[at]) if at < len(one) and one[at].isdigit() else None for one in numbers]
        rises = sum(b is not None and a is not None and b == a + 1 for a, b in pairwise(values))
        if rises and rises >= _RISES * (len(texts) - 1) and len(set(values)) >= _DISTINCT * len(texts):
            return at
    return None


def pattern(text: str, group: int | None) -> str:
    """A regular expression for the texts of a family, from one of them: fit for a shell's single quotes.

    `group`: which of its numbers is a group of the expression.
    """
    parts = []
    for at, (literal, number) in enumerate(
        zip(_NUMBER.split(text), [*_NUMBER.findall(text), ""], strict=True)
    ):
        parts.append("".join(_escaped(letter) for letter in literal))
        if number:
            hexadecimal = number[:2] == "0x"
            one = "0x[0-9a-fA-F]+" if hexadecimal else r"\d+" if number.isdigit() else r"\d+(?:\.\d+)?"
            parts.append(f"({one})" if at == group else one)
    found = "".join(parts)
    return f"^{found}$"


def _escaped(letter: str) -> str:
    """A letter as itself; what a terminal or a shell's quotes would change is any letter."""
    if letter.isspace() and letter != " ":
        return r"\s"
    if not " " <= letter <= "~" or letter == "'":
        return "."
    return "\\" + letter if letter in r".^$*+?{}[]\|()" else letter


def classes(at: Ints, launched: Launched) -> tuple[Ints, float]:
    """Sort windows by what is launched in them: the class of each, and the share of ops in classes of three or more.

    Window k holds the launches [at[k], at[k + 1]); equal ones in a row count once. A class holds what is within 0.15
    of its most frequent content (Bray-Curtis). Looks at the first 2,000 windows.
    """
    at = at[: _MOST_WINDOWS + 1]
    count, low, high = len(at) - 1, int(at[0]), int(at[-1])
    window = np.repeat(np.arange(count, dtype=np.int64), np.diff(at))
    working = launched.ops[low:high] > 0
    window, (names, token) = (
        window[working],
        np.unique(launched.content[low:high][working], return_inverse=True),
    )
    ops = np.bincount(window, weights=launched.ops[low:high][working], minlength=count)
    new = np.ones(len(token), np.bool_)
    new[1:] = (token[1:] != token[:-1]) | (window[1:] != window[:-1])
    held, times = np.unique(window[new] * max(len(names), 1) + token[new], return_counts=True)
    bags = np.zeros((count, max(len(names), 1)), np.int32)
    bags[held // max(len(names), 1), held % max(len(names), 1)] = times
    contents, content, often = np.unique(bags, axis=0, return_inverse=True, return_counts=True)
    kind = _led(contents.astype(np.float64), often)[content.reshape(-1)]
    sizes = np.bincount(kind)
    recurring = sizes[kind] >= _RECURRING
    return kind, float(ops[recurring].sum() / max(ops.sum(), 1))


def _led(contents: npt.NDArray[np.float64], often: Ints) -> Ints:
    """The class of each content: leaders in the order of how often they occur, each with all that is near and still free."""
    kind = np.full(len(contents), -1, np.int64)
    size = contents.sum(axis=1)
    leaders = 0
    for leader in np.argsort(-often, kind="stable"):
        if kind[leader] >= 0:
            continue
        free = np.flatnonzero(kind < 0)
        if leaders == _MOST_LEADERS:
            kind[free] = leaders + np.arange(len(free))
            break
        apart = np.abs(contents[free] - contents[leader]).sum(axis=1)
        near = free[apart <= _CLASS * np.maximum(size[free] + size[leader], 1)]
        kind[near] = leaders
        leaders += 1
    return kind


def structured(kind: Ints) -> int:
    """After how many windows the classes come again, where windows are parts of something longer; 0 where they are not.

    Nine windows in ten are like the one that many before, also of those outside the most frequent class: at least
    halfway from what chance, and likeness of neighbours, give to always.
    """
    if not len(kind):
        return 0
    share = np.bincount(kind) / len(kind)
    if share.max() >= _ONE_CLASS:
        return 0
    chance = float((share**2).sum())
    neighbours = float(np.mean(kind[1:] == kind[:-1])) if len(kind) > 1 else 1.0
    least = max(_REPEATS, (1 + max(chance, neighbours)) / 2)
    for distance in range(2, min(_LONGEST, len(kind) // 2) + 1):
        same = float(np.mean(kind[distance:] == kind[:-distance]))
        rare = kind[:-distance] != share.argmax()
        again = float(np.mean(kind[distance:][rare] == kind[:-distance][rare])) if rare.any() else 0.0
        if same >= least and again >= _REPEATS:
            return distance
    return 0


def _launched(capture: Capture) -> dict[int, Launched]:
    """What each process launched."""
    rows = capture.db.execute(sql("trace/evidence_launch")).fetchnumpy()
    pids = np.asarray(rows["pid"], np.int64)
    out = {}
    for low, high in pairwise([0, *(np.flatnonzero(np.diff(pids)) + 1).tolist(), len(pids)]):
        part = {name: np.asarray(values[low:high]) for name, values in rows.items()}
        if high > low and part["ops"].any():
            out[int(pids[low])] = Launched(
                part["start_ns"].astype(np.int64), part["content"].astype(np.uint64), part["ops"].astype(np.int64),
                part["kernels"].astype(np.int64),
                results(part["start_ns"].astype(np.int64), part["reads_back"].astype(np.bool_), part["waits"].astype(np.bool_)),
            )  # fmt: skip
    return out


def results(start: Ints, reads_back: npt.NDArray[np.bool_], waits: npt.NDArray[np.bool_]) -> Ints:
    """When the host waits for a result: the calls that synchronise after a copy to the host, or are one that blocks."""
    copies = np.cumsum(reads_back)
    at = np.flatnonzero(waits)
    return np.asarray(start[at[np.diff(copies[at], prepend=0) > 0]], np.int64)

"""Perfetto's trace format, as much of it as slices, counters and flows need: protobuf written by hand.

A handful of messages (TracePacket, TrackDescriptor, TrackEvent, InternedData) do not ask for a protobuf library whose
version the stacks that are profiled pin themselves, and the bytes written here are the same wherever they are written.
The tests read them back with Perfetto's own definitions. Field numbers: perfetto/trace/perfetto_trace.proto.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import count

from tracediff.model import CATEGORIES
from tracediff.report import words as names
from tracediff.report.escape import shorten, visible
from tracediff.report.timelines import workload_name
from tracediff.steps.traced import SIDES, STATES, Args, Pair, ShownStep, Slice, TracedPair

MOST_TEXT = 4_096  # characters of a name or an argument; longer ones are cut in the middle
_UNNAMED = "(no name)"
_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4  # TrackEvent.Type
_EXPLICIT, _UNIT_TIME_NS = 3, 1  # TrackDescriptor.ChildTracksOrdering, CounterDescriptor.Unit
_CATEGORIES, _NAMES, _ARG_NAMES, _ARG_TEXTS = 1, 2, 3, 29  # fields of InternedData

_Arguments = Iterable[tuple[str, str | int]]


@lru_cache(1 << 16)
def _varint(value: int) -> bytes:
    """A number; negative ones as 64 bits in two's complement, as int32 and int64 have them."""
    value &= 0xFFFF_FFFF_FFFF_FFFF
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


@lru_cache(1 << 16)
def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _fixed64(field: int, value: int) -> bytes:
    return _varint(field << 3 | 1) + value.to_bytes(8, "little")


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _text(field: int, value: str) -> bytes:
    return _bytes(field, clean(value).encode())


def clean(text: str) -> str:
    """A name as it is written: nothing that cannot be seen, no lone surrogates, not endless, never empty."""
    return shorten(visible(text[: 4 * MOST_TEXT]), MOST_TEXT) or _UNNAMED


class TraceWriter:
    """A trace in the making: one sequence of packets, every text once. Times are ns."""

    def __init__(self) -> None:
        self._out = bytearray()
        self._interned: dict[tuple[int, str], int] = {}
        self._fresh = bytearray()  # texts that the next packet brings along
        self._uuids = count(1)
        self._begun = False

    def data(self) -> bytes:
        """Everything written so far."""
        return bytes(self._out)

    def track(
        self,
        name: str,
        parent: int = 0,
        *,
        place: int = 0,
        process: int = 0,
        counts_ns: bool = False,
        about: str = "",
    ) -> int:
        """Add a track and return its id; with a number, of a process. `place`: among its siblings."""
        uuid = next(self._uuids)
        fields = _number(1, uuid) + _text(2, name)
        if process:
            fields += _bytes(3, _number(1, process) + _text(6, name))
        if parent:
            fields += _number(5, parent)
        if counts_ns:
            fields += _bytes(8, _number(3, _UNIT_TIME_NS))
        fields += _number(11, _EXPLICIT) + _number(12, place)
        if about:
            fields += _text(14, about)
        self._packet(_bytes(60, fields))
        return uuid

    def begin(
        self, track: int, at: int, name: str, category: str, args: _Arguments, starts: int = 0, ends: int = 0
    ) -> None:
        """Open a slice, from which a flow may start, and at which one may end. Slices of a track must nest."""
        self._event(_BEGIN, track, at, self._described(name, category, args, starts, ends))

    def end(self, track: int, at: int) -> None:
        """Close the slice opened last."""
        self._event(_END, track, at, b"")

    def instant(self, track: int, at: int, name: str, category: str, args: _Arguments) -> None:
        """Mark an instant."""
        self._event(_INSTANT, track, at, self._described(name, category, args, 0, 0))

    def counter(self, track: int, at: int, value: int) -> None:
        """Set a counter."""
        self._event(_COUNTER, track, at, _number(30, value))

    def _described(self, name: str, category: str, args: _Arguments, starts: int, ends: int) -> bytes:
        fields = _number(10, self._intern(_NAMES, name)) + _number(3, self._intern(_CATEGORIES, category))
        for key, value in args:
            said = _number(1, self._intern(_ARG_NAMES, key))
            if isinstance(value, str):
                said += _number(17, self._intern(_ARG_TEXTS, value))
            else:
                said += _number(4, value)
            fields += _bytes(4, said)
        if starts:
            fields += _fixed64(47, starts)
        if ends:
            fields += _fixed64(48, ends)
        return fields

    def _intern(self, kind: int, text: str) -> int:
        known = self._interned.get((kind, text))
        if known is None:
            known = self._interned[kind, text] = len(self._interned) + 1
            self._fresh += _bytes(kind, _number(1, known) + _text(2, text))
        return known

    def _event(self, kind: int, track: int, at: int, described: bytes) -> None:
        fields = _number(9, kind) + _number(11, track) + described
        self._packet(_number(8, at) + _bytes(11, fields))

    def _packet(self, fields: bytes) -> None:
        # the first packet says that nothing came before it, every one that it needs the texts of those before
        fields += _number(10, 1) + _number(13, 2 if self._begun else 3)
        self._begun = True
        if self._fresh:
            fields += _bytes(12, bytes(self._fresh))
            self._fresh.clear()
        self._out += _bytes(1, fields)


# Paired steps of both sides as one Perfetto trace: a process a side, their steps at the same points of one axis.

_ORIGIN = 1_000_000  # ns, of the axis: a viewer may take 0 for no time
# Kinds of tracks in their order under a device, and under the host of a rank.
_OF_DEVICE = ("steps", "state", "idle", "stream")
_OF_HOST = ("calls", "ranges", "gil_holders", "gil_waits", "gc")
RULE = (
    "The k-th step of a workload of the baseline is paired with the k-th of the candidate, in order of time. Both begin at the"
    " same point; the next pair begins where the longer step ended. Further devices and ranks keep their distance to the"
    " first one of their export. Everything is cut at the bounds of its step."
)

_Key = tuple[int, int, str, str]  # rank, unit (-1: host), kind, name


@dataclass
class _Collected:
    """Tracks of one side: slices at their place on the axis, and the flows between them."""

    tracks: dict[_Key, list[Slice]] = field(default_factory=dict)
    devices: dict[tuple[int, int], int] = field(default_factory=dict)
    flows: dict[_Key, dict[int, tuple[int, int]]] = field(default_factory=dict)  # position -> begins, ends


def render_perfetto(traced: TracedPair) -> bytes:
    """The bytes of a .pftrace file: the same for the same comparison."""
    writer = TraceWriter()
    flows = count(1)
    for side in (0, 1):
        _write_side(writer, traced, side, _collect(traced, side, flows))
    _write_deltas(writer, traced)
    return writer.data()


def _collect(traced: TracedPair, side: int, flows: Iterator[int]) -> _Collected:
    out = _Collected()
    launches: dict[tuple[int, int], list[tuple[_Key, int]]] = {}
    for pair in traced.pairs:
        for shown in pair.steps[side]:
            at = _ORIGIN + pair.at + shown.offset
            out.devices[shown.rank, shown.unit] = shown.device
            own: _Key = (shown.rank, shown.unit, "steps", "steps")
            out.tracks.setdefault(own, []).append(_step_slice(traced, pair, shown, side, at))
            for track in traced.steps[side][shown.part, shown.period].tracks:
                unit = shown.unit if track.kind in _OF_DEVICE else -1
                key = (shown.rank, unit, track.kind, track.name)
                slices = out.tracks.setdefault(key, [])
                for one in track.slices:
                    launch = max(one.leaves, one.lands)
                    if launch >= 0:
                        launches.setdefault((shown.part, launch), []).append((key, len(slices)))
                    one = replace(one, start=at + one.start, end=at + one.end)
                    slices.append(_shortened(one) if track.kind == "stream" else one)
    for key, slices in out.tracks.items():
        if key[2] == "steps":
            out.tracks[key] = _padded(slices, _ORIGIN + traced.pairs[-1].end())
    for ends in launches.values():
        begun = [end for end in ends if out.tracks[end[0]][end[1]].leaves >= 0]
        landed = [end for end in ends if out.tracks[end[0]][end[1]].lands >= 0]
        if len(begun) != 1 or len(landed) != 1:
            continue  # the other end is in a step that is not shown
        (call, at_call), (stream, at_op) = begun[0], landed[0]
        if out.tracks[call][at_call].start <= out.tracks[stream][at_op].start:
            number = next(flows)
            out.flows.setdefault(call, {})[at_call] = number, 0
            out.flows.setdefault(stream, {})[at_op] = 0, number
    return out


_short = lru_cache(1 << 14)(names.short)


def _shortened(op: Slice) -> Slice:
    """A C++ signature gives way to its telling part, and becomes an argument."""
    name = _short(op.name)
    return op if name == op.name else replace(op, name=name, args=(("kernel", op.name), *op.args))


def _step_slice(traced: TracedPair, pair: Pair, shown: ShownStep, side: int, at: int) -> Slice:
    period = traced.parts[side][shown.part].periods.row(shown.period, named=True)
    stratum = traced.strata[shown.row]
    said: list[tuple[str, str | int | None]] = [
        ("pair", pair.number), ("step_ns", shown.ns), ("delta_ns", pair.deltas().get((shown.rank, shown.unit))),
        ("phase", period["phase"]), ("number", period["number"]), ("workload", workload_name(stratum)),
        ("ctx_reqs", period["ctx_reqs"]), ("ctx_tokens", period["ctx_tokens"]), ("gen_reqs", period["gen_reqs"]),
        ("launching_thread", traced.steps[side][shown.part, shown.period].thread or None),
        ("capture", traced.parts[side][shown.part].name), ("capture_start_ns", int(period["start_ns"])),
        *((f"{name}_ns", ns) for name, ns in _accounting(traced, side, shown).items()),
    ]  # fmt: skip
    number = "" if period["number"] is None else f" {period['number']}"
    phase = "" if period["phase"] == "step" else f"{period['phase']} "
    args: Args = tuple((key, value) for key, value in said if value is not None)
    return Slice(at, at + shown.ns, f"{phase}step{number}", "step", args)


def _padded(steps: list[Slice], end: int) -> list[Slice]:
    """Steps of one device, and what is empty between them up to `end` said not to be time of this run."""
    out: list[Slice] = []
    for one, following in zip(steps, [*(step.start for step in steps[1:]), end], strict=True):
        out.append(one)
        if following > one.end:
            out.append(Slice(one.end, following, "(empty until the next pair of steps)", "padding"))
    return out


def _accounting(traced: TracedPair, side: int, shown: ShownStep) -> dict[str, int]:
    """Category -> ns of the step, as the comparison counts them."""
    period = traced.parts[side][shown.part].periods.row(shown.period, named=True)
    own = {name: int(period[name]) for name in CATEGORIES if period[name]}
    if traced.with_gil:
        return own
    out = {name: own[name] for name in STATES if name in own}
    for track in traced.steps[side][shown.part, shown.period].tracks:
        if track.kind == "idle":
            for one in track.slices:
                out[one.name] = out.get(one.name, 0) + one.end - one.start
    return out


def _write_side(writer: TraceWriter, traced: TracedPair, side: int, collected: _Collected) -> None:
    label, run = traced.labels[side], traced.runs[side]
    name = f"{SIDES[side]}: {label}" + ("" if run.startswith(label) else f", run {run}")
    process = writer.track(name, place=side, process=side + 1, about=RULE)
    groups = sorted(
        {(rank, unit) for rank, unit, _, _ in collected.tracks}, key=lambda one: (one[0], one[1] < 0, one[1])
    )
    for place, (rank, unit) in enumerate(groups):
        device = collected.devices.get((rank, unit), -1)
        title = f"rank {rank}, GPU {device}" if unit >= 0 else f"rank {rank}, host"
        group = writer.track(title, process, place=place)
        kinds = _OF_DEVICE if unit >= 0 else _OF_HOST
        own = [key for key in collected.tracks if key[:2] == (rank, unit)]
        first = {key: number for number, key in enumerate(own)}  # the launching thread's come first in a step
        own.sort(key=lambda key: (kinds.index(key[2]), first[key] if unit < 0 else 0, _natural(key[3])))
        for number, key in enumerate(own):
            _write_slices(
                writer, (key[3], group, number), collected.tracks[key], collected.flows.get(key, {})
            )


def _natural(name: str) -> tuple[int, str]:
    """Streams in order of their numbers."""
    digits = "".join(one for one in name.split(",")[0] if one.isdigit())
    return (int(digits) if digits else -1, name)


def _write_slices(
    writer: TraceWriter, track: tuple[str, int, int], slices: list[Slice], flows: dict[int, tuple[int, int]]
) -> None:
    """One track, or several of one name where slices overlap without nesting: a viewer shows them as one."""
    name, group, place = track
    lanes = _lanes(slices)
    for lane in range(max(lanes, default=-1) + 1):
        uuid = writer.track(name, group, place=place)
        open_until: list[int] = []
        for position, one in enumerate(slices):
            if lanes[position] != lane:
                continue
            while open_until and open_until[-1] <= one.start:
                writer.end(uuid, open_until.pop())
            writer.begin(uuid, one.start, one.name, one.category, one.args, *flows.get(position, (0, 0)))
            open_until.append(one.end)
        while open_until:
            writer.end(uuid, open_until.pop())


def _lanes(slices: Iterable[Slice]) -> list[int]:
    """For each slice, in order of (start, longest first), the first lane on which it lies inside or behind all others."""
    stacks: list[list[int]] = []
    out = []
    for one in slices:
        for stack in stacks:
            while stack and stack[-1] <= one.start:
                stack.pop()
        lane = next((at for at, stack in enumerate(stacks) if not stack or one.end <= stack[-1]), len(stacks))
        if lane == len(stacks):
            stacks.append([])
        stacks[lane].append(one.end)
        out.append(lane)
    return out


def _write_deltas(writer: TraceWriter, traced: TracedPair) -> None:
    """A process of its own: what the trace shows, and step time of the candidate less the baseline's."""
    process = writer.track("candidate - baseline", place=2, process=3)
    about = writer.track("about", process, place=0)
    args: list[tuple[str, str | int]] = [("rule", RULE)]
    for side in (0, 1):
        args += [(SIDES[side], traced.labels[side]), (f"{SIDES[side]}_run", traced.runs[side])]
    args += [("pairs_shown", len(traced.pairs)), ("pairs", traced.all_pairs)]
    args += [
        (f"warning {number}", f"{note.message} [{note.slug}]")
        for number, note in enumerate(traced.warnings, 1)
    ]
    writer.instant(about, _ORIGIN, "tracediff timeline", "about", args)
    units = sorted({key for pair in traced.pairs for key in pair.deltas()})
    for place, key in enumerate(units, 1):
        title = "step time" if len(units) == 1 else f"step time, rank {key[0]}"
        title += f", device {key[1]} of the rank" if any(unit for _, unit in units) else ""
        track = writer.track(f"{title}, candidate - baseline", process, place=place, counts_ns=True)
        for pair in traced.pairs:
            delta = pair.deltas().get(key)
            if delta is not None:
                writer.counter(track, _ORIGIN + pair.at, delta)
        writer.counter(track, _ORIGIN + traced.pairs[-1].end(), 0)

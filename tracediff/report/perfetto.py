"""Perfetto's trace format, as much of it as slices, counters and flows need: protobuf written by hand.

A handful of messages (TracePacket, TrackDescriptor, TrackEvent, InternedData) do not ask for a protobuf library whose
version the stacks that are profiled pin themselves, and the bytes written here are the same wherever they are written.
The tests read them back with Perfetto's own definitions. Field numbers: perfetto/trace/perfetto_trace.proto.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import count

import msgspec

from tracediff.accounting.reduction import Lane, Reduction
from tracediff.comparison.timeline import Pair, PairedRuns, PairedStep
from tracediff.kernels.names import category
from tracediff.model.common import SIDES
from tracediff.report import names
from tracediff.report.escape import shorten, visible
from tracediff.report.units import step as step_name
from tracediff.report.workloads import workload_name
from tracediff.steps.timelines import accounting_of

MOST_TEXT = 4_096  # characters of a name or an argument; longer ones are cut in the middle
_UNNAMED = "(no name)"
_BEGIN, _END, _INSTANT, _COUNTER = range(1, 5)  # TrackEvent.Type
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
            annotation = _number(1, self._intern(_ARG_NAMES, key))
            if isinstance(value, str):
                annotation += _number(17, self._intern(_ARG_TEXTS, value))
            else:
                annotation += _number(4, value)
            fields += _bytes(4, annotation)
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
_OF_DEVICE = ("steps", "state", "idle", "gpu")
_OF_HOST = ("api", "range", "holders", "gil", "gc")
RULE = (
    "The k-th step of a workload of the baseline is paired with the k-th of the candidate, in order of time. Both begin at the"
    " same point; the next pair begins where the longer step ended. Further devices and ranks keep their distance to the"
    " first one of their export. Everything is cut at the bounds of its step."
)
_STREAM_DOES = {"comm": "communication", "memcpy": "copies"}  # anything else: compute
_OP_CATEGORY = {"comm": "communication", "memcpy": "copy"}  # anything else: that of the kernel
_category = lru_cache(1 << 16)(category)
_short = lru_cache(1 << 14)(names.short)

_Args = tuple[tuple[str, str | int], ...]


class _Slice(msgspec.Struct):
    """Something that lasts, ns on the axis. leaves, lands: a launch, by its number in the export, that begins in it or whose first op it is.

    begins, ends: number of the flow that does so in it, 0 none.
    """

    start: int
    end: int
    name: str
    category: str
    args: _Args = ()
    leaves: int = -1
    lands: int = -1
    begins: int = 0
    ends: int = 0


class _Track(msgspec.Struct):
    """Slices in order of (start, longest first)."""

    kind: str
    name: str
    source: int  # stream
    slices: list[_Slice] = msgspec.field(default_factory=list)


_Group = tuple[int, int]  # rank, unit (-1: host)


def render_perfetto(shown: PairedRuns) -> bytes:
    """The bytes of a .pftrace file: the same for the same comparison."""
    writer = TraceWriter()
    flows = count(1)
    for side in (0, 1):
        _write_side(writer, shown, side, _tracks(shown, side, flows))
    _write_deltas(writer, shown)
    return writer.data()


def _tracks(shown: PairedRuns, side: int, flows: Iterator[int]) -> dict[_Group, list[_Track]]:
    """The tracks of a side, with the flows from calls to the ops that they launched."""
    run = shown.sides[side]
    texts = [_Texts(part) for part in run.parts]
    found: dict[_Group, dict[tuple[str, int], _Track]] = {}
    launches: dict[tuple[int, int], tuple[list[_Slice], list[_Slice]]] = {}  # calls, and their first ops
    busy: dict[tuple[int, int, int], Counter[str]] = {}  # rank, unit, stream -> ns by what it does

    def track(rank: int, unit: int, kind: str, source: int, name: str) -> _Track:
        own = found.setdefault((rank, unit), {})
        return own.setdefault((kind, source), _Track(kind, name, source))

    for pair in shown.pairs:
        for one in pair.steps[side]:
            at = _ORIGIN + pair.at + one.offset
            text, step = texts[one.part], run.steps[one.part, one.period]
            track(one.rank, one.device, "steps", -1, "steps").slices.append(
                _step_slice(shown, pair, one, side, at)
            )
            for lane in step.lanes:
                unit = one.device if lane.kind in _OF_DEVICE else -1
                own = track(one.rank, unit, lane.kind, lane.source, text.track(lane))
                for event in text.slices(lane, at, shown.with_gil):
                    for end, launch in enumerate((event.leaves, event.lands)):
                        if launch >= 0:
                            launches.setdefault((one.part, launch), ([], []))[end].append(event)
                    own.slices.append(event)
                if lane.kind == "gpu":
                    ns = busy.setdefault((one.rank, unit, lane.source), Counter())
                    for group in set(lane.group.tolist()):
                        mine = lane.group == group
                        does = _STREAM_DOES.get(lane.groups[group], "compute")
                        ns[does] += int((lane.end - lane.start)[mine].sum())
    for (rank, unit), tracks in found.items():
        for (kind, source), own in tracks.items():
            if kind == "steps":
                own.slices = _padded(own.slices, _ORIGIN + shown.pairs[-1].end())
            elif kind == "gpu":
                own.name += f", {busy[rank, unit, source].most_common(1)[0][0]}"
    for calls, ops in launches.values():  # the other end may be in a step that is not shown
        if len(calls) == len(ops) == 1 and calls[0].start <= ops[0].start:
            calls[0].begins = ops[0].ends = next(flows)
    return {group: list(tracks.values()) for group, tracks in found.items()}


class _Texts:
    """What tracks and slices of one export are called."""

    def __init__(self, part: Reduction) -> None:
        threads = {one.tid: one for one in part.threads}
        shared = Counter((one.pid, one.role) for one in threads.values())
        self._roles = {tid: one.role for tid, one in threads.items()}
        # threads of a process that share a role are told apart by their ids
        self._threads = {
            tid: one.role if shared[one.pid, one.role] == 1 else f"{one.role} {tid & 0xFFFFFF}"
            for tid, one in threads.items()
        }
        self._keys = part.keys.select("name", "grid", "block", "registers", "shared_bytes").rows(named=True)

    def track(self, lane: Lane) -> str:
        """The name of the track of a lane."""
        thread = self._threads.get(lane.source, "a thread")
        known = {
            "idle": "GPU idle, by cause",
            "api": f"CUDA calls, {thread}",
            "range": f"NVTX ranges, {thread}",
            "gil": f"GIL waits, {thread}",
            "holders": "GIL held by",
        }
        return known.get(lane.kind, lane.name)

    def slices(self, lane: Lane, at: int, with_gil: bool) -> Iterator[_Slice]:
        """The events of a lane in a step that begins at a point of the axis. Arguments without a value are left out."""
        columns = {name: values.tolist() for name, values in lane.columns.items()}
        group = lane.group if with_gil or lane.under is None else lane.under
        for number, (start, end, what, own) in enumerate(
            zip(lane.start.tolist(), lane.end.tolist(), lane.what.tolist(), group.tolist(), strict=True)
        ):
            event = {name: values[number] for name, values in columns.items()}
            name, kind, args, flows = self._event(lane, what, lane.groups[own], end - start, event)
            if event["whole_ns"] != end - start:
                args += (("whole_ns", event["whole_ns"]), ("began_before_step_ns", event["before_ns"]))
                flows.pop("lands", None)
            yield _Slice(at + start, at + end, name, kind, args, **flows)

    def _event(
        self, lane: Lane, what: int, group: str, ns: int, event: dict[str, int]
    ) -> tuple[str, str, _Args, dict[str, int]]:
        """Name, category, arguments and flows of one event."""
        text = lane.texts[what] if lane.texts and lane.kind != "gpu" else ""
        match lane.kind:
            case "idle":
                return group, "idle", self._idle_args(lane, group, ns, event), {}
            case "gpu":
                name, kind, args = self._op(what, group, ns, lane.source, event)
                return name, kind, args, {"lands": event["launch"]} if event["first"] else {}
            case "api":
                return text or "a CUDA call", group, (("duration_ns", ns),), {"leaves": event["launch"]}
            case "holders":
                return self._threads.get(event["tid"], "a thread"), "gil_hold", (), {}
            case "gil":
                return "waits for the GIL", "gil_wait", (), {}
            case "gc":
                thread = self._roles.get(event["tid"], "a thread")
                return f"generation {text}", "gc", (("thread", thread),), {}
        return text, lane.kind, (), {}

    def _idle_args(self, lane: Lane, cause: str, ns: int, event: dict[str, int]) -> _Args:
        args: list[tuple[str, str | int]] = [
            ("cause", cause), ("ns", ns), ("range", lane.texts[event["range"]]),
            ("thread", self._roles.get(event["tid"], "")), ("call", lane.texts[event["call"]]),
        ]  # fmt: skip
        if cause == "gil_wait":
            args.append(("gil_holder", self._roles.get(event["holder"]) or "nobody recorded"))
            args.append(("gil_holder_range", lane.texts[event["holder_range"]]))
        return tuple(one for one in args if one[1] != "")

    def _op(
        self, what: int, group: str, ns: int, stream: int, event: dict[str, int]
    ) -> tuple[str, str, _Args]:
        key = self._keys[what]
        full, name = key["name"], _short(key["name"])
        args: list[tuple[str, str | int]] = [("kernel", full)] if name != full else []
        args.append(("duration_ns", ns))
        args += [
            (fact, key[fact])
            for fact in ("grid", "block", "registers", "shared_bytes")
            if key[fact] is not None and key[fact] != ""
        ]
        args.append(("stream", stream))
        if event["launch"] >= 0:
            args.append(("launch_to_start_ns", event["launched_ns"]))
        if event["graph"]:
            args.append(("launched_by", "CUDA graph"))
        return name, _OP_CATEGORY.get(group) or _category(full), tuple(args)


def _step_slice(shown: PairedRuns, pair: Pair, one: PairedStep, side: int, at: int) -> _Slice:
    run = shown.sides[side]
    part, step = run.parts[one.part], run.steps[one.part, one.period]
    period = part.periods.row(one.period, named=True)
    facts: list[tuple[str, str | int | None]] = [
        ("pair", pair.number), ("step_ns", one.ns), ("delta_ns", pair.deltas().get((one.rank, one.device))),
        ("phase", period["phase"]), ("number", period["number"]), ("workload", workload_name(shown.strata[one.row])),
        ("ctx_reqs", period["ctx_reqs"]), ("ctx_tokens", period["ctx_tokens"]), ("gen_reqs", period["gen_reqs"]),
        ("launching_thread", step.thread or None), ("capture", part.name), ("capture_start_ns", int(period["start_ns"])),
        *((f"{name}_ns", ns) for name, ns in accounting_of(part, step, shown.with_gil).items()),
    ]  # fmt: skip
    number = "" if period["number"] is None else f" {period['number']}"
    args = tuple((key, value) for key, value in facts if value is not None)
    return _Slice(at, at + one.ns, f"{step_name(period['phase'])}{number}", "step", args)


def _padded(steps: list[_Slice], end: int) -> list[_Slice]:
    """Steps of one device, and what is empty between them up to `end` said not to be time of this run."""
    out: list[_Slice] = []
    for one, following in zip(steps, [*(step.start for step in steps[1:]), end], strict=True):
        out.append(one)
        if following > one.end:
            out.append(_Slice(one.end, following, "(empty until the next pair of steps)", "padding"))
    return out


def _write_side(
    writer: TraceWriter, shown: PairedRuns, side: int, tracks: dict[_Group, list[_Track]]
) -> None:
    """A process of tracks, by rank and device."""
    run = shown.sides[side]
    name = f"{SIDES[side]}: {run.label}" + ("" if run.name.startswith(run.label) else f", run {run.name}")
    process = writer.track(name, place=side, process=side + 1, about=RULE)
    gpus = {(one.rank, one.device): one.gpu for pair in shown.pairs for one in pair.steps[side]}
    for place, (rank, unit) in enumerate(sorted(tracks, key=lambda one: (one[0], one[1] < 0, one[1]))):
        title = f"rank {rank}, GPU {gpus[rank, unit]}" if unit >= 0 else f"rank {rank}, host"
        group = writer.track(title, process, place=place)
        kinds = _OF_DEVICE if unit >= 0 else _OF_HOST
        # streams by number; threads as in a step, the launching one first
        own = sorted(
            tracks[rank, unit], key=lambda one: (kinds.index(one.kind), one.source if unit >= 0 else 0)
        )
        for number, track in enumerate(own):
            _write_track(writer, track, group, number)


def _write_track(writer: TraceWriter, track: _Track, group: int, place: int) -> None:
    """One track, or several of one name where slices overlap without nesting: a viewer shows them as one."""
    lanes = _lanes(track.slices)
    for lane in range(max(lanes, default=-1) + 1):
        uuid = writer.track(track.name, group, place=place)
        open_until: list[int] = []
        for one in (one for at, one in zip(lanes, track.slices, strict=True) if at == lane):
            while open_until and open_until[-1] <= one.start:
                writer.end(uuid, open_until.pop())
            writer.begin(uuid, one.start, one.name, one.category, one.args, one.begins, one.ends)
            open_until.append(one.end)
        while open_until:
            writer.end(uuid, open_until.pop())


def _lanes(slices: Iterable[_Slice]) -> list[int]:
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


def _write_deltas(writer: TraceWriter, shown: PairedRuns) -> None:
    """A process of its own: what the trace shows, and step time of the candidate less the baseline's."""
    process = writer.track("candidate - baseline", place=2, process=3)
    about = writer.track("about", process, place=0)
    args: list[tuple[str, str | int]] = [("rule", RULE)]
    for side in (0, 1):
        args += [(SIDES[side], shown.sides[side].label), (f"{SIDES[side]}_run", shown.sides[side].name)]
    args += [("pairs_shown", len(shown.pairs)), ("pairs", shown.all_pairs)]
    args += [
        (f"warning {number}", f"{note.message} [{note.slug}]")
        for number, note in enumerate(shown.warnings, 1)
    ]
    writer.instant(about, _ORIGIN, "tracediff timeline", "about", args)
    units = sorted({key for pair in shown.pairs for key in pair.deltas()})
    for place, key in enumerate(units, 1):
        title = "step time" if len(units) == 1 else f"step time, rank {key[0]}"
        title += f", device {key[1]} of the rank" if any(unit for _, unit in units) else ""
        track = writer.track(f"{title}, candidate - baseline", process, place=place, counts_ns=True)
        for pair in shown.pairs:
            delta = pair.deltas().get(key)
            if delta is not None:
                writer.counter(track, _ORIGIN + pair.at, delta)
        writer.counter(track, _ORIGIN + shown.pairs[-1].end(), 0)

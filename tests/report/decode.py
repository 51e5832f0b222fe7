"""What a trace says, read with Perfetto's own definitions and nothing of the program's: packets -> slices and counters."""

from __future__ import annotations

from dataclasses import dataclass, field

from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos

BEGIN, END, INSTANT, COUNTER = (protos.TrackEvent.Type.Value(f"TYPE_{name}") for name in ("SLICE_BEGIN", "SLICE_END", "INSTANT", "COUNTER"))  # fmt: skip


@dataclass
class Slice:
    """A slice with everything that is said of it; `path`: the names of its tracks from the process down."""

    path: tuple[str, ...]
    track: int
    start: int
    name: str
    category: str
    args: dict[str, str | int]
    end: int = -1
    flows: tuple[int, ...] = ()
    depth: int = 0


@dataclass
class Decoded:
    slices: list[Slice] = field(default_factory=list)
    instants: list[Slice] = field(default_factory=list)
    counters: list[tuple[str, int, int]] = field(default_factory=list)  # track, time, value
    processes: dict[int, str] = field(default_factory=dict)

    def of(self, side: str = "", kind: str = "", category: str = "") -> list[Slice]:
        """Slices of processes, tracks and categories that begin so, in order of time."""
        found = [one for one in self.slices if one.path[0].startswith(side) and one.path[-1].startswith(kind) and one.category.startswith(category)]  # fmt: skip
        return sorted(found, key=lambda one: (one.start, -one.end))


def decode(data: bytes) -> Decoded:
    """Read a trace as the format is specified: one sequence, texts by number, slices of a track as a stack."""
    trace = protos.Trace()
    trace.ParseFromString(data)
    out = Decoded()
    names: dict[int, tuple[str, int]] = {}
    texts: dict[tuple[str, int], str] = {}
    stacks: dict[int, list[Slice]] = {}
    last: dict[int, int] = {}

    def path(uuid: int) -> tuple[str, ...]:
        name, parent = names[uuid]
        return (*path(parent), name) if parent else (name,)

    for number, packet in enumerate(trace.packet):
        for message in (packet, packet.track_event, packet.track_descriptor, packet.interned_data):
            assert len(UnknownFieldSet(message)) == 0
        assert packet.trusted_packet_sequence_id == 1
        assert packet.sequence_flags == (3 if number == 0 else 2)
        for kind in ("event_categories", "event_names", "debug_annotation_names"):
            for one in getattr(packet.interned_data, kind):
                assert (kind, one.iid) not in texts
                texts[kind, one.iid] = one.name
        for one in packet.interned_data.debug_annotation_string_values:
            texts["text", one.iid] = one.str.decode("utf-8")
        if packet.HasField("track_descriptor"):
            one = packet.track_descriptor
            assert one.uuid not in names
            names[one.uuid] = (one.name, one.parent_uuid)
            if one.HasField("process"):
                out.processes[one.process.pid] = one.process.process_name
            continue
        event = packet.track_event
        uuid = event.track_uuid
        assert uuid in names and packet.timestamp >= last.get(uuid, 0)
        last[uuid] = packet.timestamp
        if event.type == COUNTER:
            out.counters.append((names[uuid][0], packet.timestamp, event.counter_value))
            continue
        stack = stacks.setdefault(uuid, [])
        if event.type == END:
            stack.pop().end = packet.timestamp
            continue
        args: dict[str, str | int] = {}
        for arg in event.debug_annotations:
            name = texts["debug_annotation_names", arg.name_iid]
            assert name not in args
            args[name] = (
                texts["text", arg.string_value_iid] if arg.HasField("string_value_iid") else arg.int_value
            )
        (category,) = event.category_iids
        found = Slice(
            path(uuid), uuid, packet.timestamp, texts["event_names", event.name_iid], texts["event_categories", category],
            args, flows=(*event.flow_ids, *event.terminating_flow_ids), depth=len(stack),
        )  # fmt: skip
        if event.type == INSTANT:
            out.instants.append(found)
        else:
            assert event.type == BEGIN
            stack.append(found)
            out.slices.append(found)
    assert not any(stacks.values()), "a slice is never closed"
    for one in out.slices:
        assert one.end > one.start
    return out

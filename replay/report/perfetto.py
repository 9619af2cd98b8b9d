"""Write slices as a Perfetto trace (``-o FILE.pftrace``) with the ``perfetto`` package's own builder and protobufs."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import IO, Any

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TrackEvent
from perfetto.trace_builder.proto_builder import TraceProtoBuilder

from replay.report.slices import Slices, Track

_SEQUENCE = 1  # one writer
_SLICES_PER_CHUNK = 10_000  # bounds the memory of a large trace's packets; traces concatenate


def write(slices: Slices, path: Path) -> None:
    """Write ``path``: a process per rank and run, a thread per track, a begin and an end packet per slice.

    The slice at the head of an arrow terminates it with its end packet: the member of a collective that waits begins
    before the one it waits for, and a flow must not end before it begins.
    """
    with path.open("wb") as file:
        _write_tracks(slices.tracks, file)
        _write_slices(slices, file)


def _write_tracks(tracks: tuple[Track, ...], file: IO[bytes]) -> None:
    """Descriptors; track i has uuid i + 1, its process a uuid (and pid) after all tracks."""
    builder = TraceProtoBuilder()
    pid: dict[str, int] = {}
    for track in tracks:
        if track.process in pid:
            continue
        pid[track.process] = len(tracks) + 1 + len(pid)
        packet = _packet(builder)
        packet.track_descriptor.uuid = pid[track.process]
        packet.track_descriptor.process.pid = pid[track.process]
        packet.track_descriptor.process.process_name = track.process
    for index, track in enumerate(tracks):
        descriptor = _packet(builder).track_descriptor
        descriptor.uuid = index + 1
        descriptor.parent_uuid = pid[track.process]
        descriptor.thread.pid = pid[track.process]
        descriptor.thread.tid = index + 1
        descriptor.thread.thread_name = track.name
    file.write(builder.serialize())


def _write_slices(slices: Slices, file: IO[bytes]) -> None:
    leaving, arriving = defaultdict[int, list[int]](list), defaultdict[int, list[int]](list)
    for flow, (source, target) in enumerate(
        zip(slices.flow_source.tolist(), slices.flow_target.tolist(), strict=True), 1
    ):
        leaving[source].append(flow)
        arriving[target].append(flow)
    start, end = slices.start_ns.tolist(), slices.end_ns.tolist()
    track, name = slices.track.tolist(), slices.name.tolist()
    builder = TraceProtoBuilder()
    for i, args in enumerate(slices.args()):
        begin = _event(builder, TrackEvent.TYPE_SLICE_BEGIN, start[i], track[i])
        begin.name = slices.names[name[i]]
        begin.categories.append(str(args["kind"]))
        begin.flow_ids.extend(leaving.get(i, ()))
        _annotate(begin, args)
        finish = _event(builder, TrackEvent.TYPE_SLICE_END, end[i], track[i])
        finish.terminating_flow_ids.extend(arriving.get(i, ()))
        if (i + 1) % _SLICES_PER_CHUNK == 0:
            file.write(builder.serialize())
            builder = TraceProtoBuilder()
    file.write(builder.serialize())


def _packet(builder: TraceProtoBuilder) -> Any:
    packet = builder.add_packet()
    packet.trusted_packet_sequence_id = _SEQUENCE
    return packet


def _event(builder: TraceProtoBuilder, kind: int, time_ns: int, track: int) -> Any:
    packet = _packet(builder)
    packet.timestamp = time_ns
    packet.track_event.type = kind
    packet.track_event.track_uuid = track + 1
    return packet.track_event


def _annotate(event: Any, args: dict[str, str | int]) -> None:
    for key, value in args.items():
        note = event.debug_annotations.add()
        note.name = key
        if isinstance(value, int):
            note.int_value = value
        else:
            note.string_value = value

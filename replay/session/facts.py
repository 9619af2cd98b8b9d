"""What the report says about the input: facts and health of a trace or a pipeline recording."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from replay.core.units import NS_PER_US, percent
from replay.graph.types import Graph, GraphHealth
from replay.layout import Layout
from replay.recording import PipelineRecording
from replay.report.log_facts import peak_facts
from replay.report.result import HealthFacts, InputFacts
from replay.trace import Health, Trace


def trace_facts(trace: Trace, health: GraphHealth | None) -> InputFacts:
    """Files, ranks and the step used."""
    return InputFacts(
        files=tuple(trace.files),
        format=trace.format,
        device=trace.device,
        ranks=tuple(trace.ranks),
        world_size=trace.world_size if trace.world_size > 0 else None,
        steps=health.steps if health else (),
        step_used=health.step_label if health else "",
    )


def memory_facts(trace: Trace, layout: Layout) -> dict[str, Any]:
    """Peak memory of the ranks that recorded theirs."""
    peaks = np.array([(peak.rank, peak.allocated_nbytes, peak.reserved_nbytes) for peak in trace.memory], np.int64)
    rank, allocated, reserved = peaks.reshape(-1, 3).T
    return peak_facts(rank.astype(np.int32), allocated, reserved, layout)


def recording_facts(recording: PipelineRecording, step_used: str) -> InputFacts:
    """Files, pipeline ranks and iterations; ``ranks`` are the workers (one per data-parallel rank and stage)."""
    workers = len({(int(d), int(s)) for d, s in zip(recording.dp_rank, recording.stage, strict=True)})
    return InputFacts(
        files=tuple(recording.files),
        format=recording.format,
        device="",
        ranks=tuple(range(workers)),
        world_size=recording.layout.world_size,
        steps=tuple(str(step) for step in sorted(set(recording.step.tolist()))),
        step_used=step_used,
    )


def health_facts(health: Health, graph: Graph | None = None) -> HealthFacts:
    """Counts of everything that was not taken as it stood."""
    found = graph.health if graph is not None else GraphHealth()
    return HealthFacts(
        events=health.events,
        dropped=sum(health.dropped.values()),
        clipped=sum(health.clipped.values()),
        inferred_edges=None if graph is None else int((~graph.edges.recorded).sum()),
        kernels_without_launch=health.kernels_without_launch,
        launches_without_kernel=health.launches_without_kernel,
        warnings=tuple(dict.fromkeys(health.warnings + found.warnings)),
        blocked_share_pct={name: percent(share, 1.0) for name, share in found.blocked_share.items()},
        clock_offset_us={
            str(rank): (offset / NS_PER_US, error / NS_PER_US)
            for rank, (offset, error) in found.clock_offset_ns.items()
        },
        detail=_detail(health, found),
    )


def _detail(health: Health, found: GraphHealth) -> dict[str, Mapping[str, int]]:
    """Each count with its reasons; what did not happen is left out."""
    edges = {"dropped": found.dropped_edges, "cycles broken": found.broken_cycles}
    counts = {
        "dropped": health.dropped,
        "clipped": health.clipped,
        "inferred": health.inferred,
        "not ops": health.skipped,
        "inferred edges": {name: count for name, count in edges.items() if count},
    }
    return {name: dict(reasons) for name, reasons in counts.items() if reasons}

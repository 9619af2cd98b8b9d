"""Source and target layout of a question on a pipeline recording, and what such a recording cannot answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from replay.core.errors import LayoutError, RefusedError
from replay.layout import Layout
from replay.recording import PipelineRecording

RECORDED = ("pp", "vpp", "microbatches")  # read from the passes themselves
ANSWERABLE = ("pp", "vpp", "gbs", "schedule", "world_size")
_WHY = {
    "tp": "it divides the work inside a pass, which the recording does not show",
    "cp": "it divides the work inside a pass, which the recording does not show",
    "ep": "experts are inside a pass, which the recording does not show",
    "etp": "experts are inside a pass, which the recording does not show",
    "dispatcher": "experts are inside a pass, which the recording does not show",
    "mbs": "how a pass grows with its micro-batch was not measured",
    "seq": "how a pass grows with its sequence was not measured",
    "dp": "gradient synchronisation over another number of replicas was not measured",
}


def source_layout(
    recording: PipelineRecording, given: Mapping[str, int | str], microbatches: int | None = None
) -> Layout:
    """The recording's layout with the facts a user adds. Raises :class:`LayoutError` where they contradict it."""
    recorded = recording.layout
    facts: dict[str, Any] = {**given, **({} if microbatches is None else {"microbatches": microbatches})}
    for key in RECORDED:
        if facts.get(key, getattr(recorded, key)) != getattr(recorded, key):
            raise LayoutError(f"the recording has {key} {getattr(recorded, key)}, but {facts[key]} was given")
    merged = {key: facts.get(key, getattr(recorded, key)) for key in ("tp", "cp", "pp", "dp")}
    if "world_size" not in facts and facts.keys() & merged.keys():
        facts["world_size"] = merged["tp"] * merged["cp"] * merged["pp"] * merged["dp"]
    return _with_batch(replace(recorded, **{"gbs": None, "mbs": None, **facts}) if facts else recorded)


def _with_batch(layout: Layout) -> Layout:
    """Global batch = micro-batch · dp · micro-batches: any one of the two sizes gives the other."""
    per_sequence = layout.dp * (layout.microbatches or 1)
    if layout.gbs is None and layout.mbs is not None:
        return replace(layout, gbs=layout.mbs * per_sequence)
    if layout.mbs is None and layout.gbs is not None:
        if layout.gbs % per_sequence:
            raise LayoutError(
                f"global batch {layout.gbs} does not divide by dp {layout.dp} x {layout.microbatches} micro-batches"
            )
        return replace(layout, mbs=layout.gbs // per_sequence)
    return layout


def target_layout(
    source: Layout, asked: Mapping[str, int | str], layers: int | None = None
) -> tuple[Layout, tuple[str, ...], tuple[str, ...]]:
    """(target, keys that change, warnings). Raises :class:`RefusedError` for what the recording cannot answer."""
    changed = tuple(key for key, value in asked.items() if getattr(source, key) != value)
    for key in changed:
        if key not in ANSWERABLE:
            reason = _WHY.get(key, "it was not measured")
            raise RefusedError(
                f"--{key} cannot be answered from a recording of whole passes: {reason}; give a profiler trace"
            )
    sizes: dict[str, Any] = {key: value for key, value in asked.items() if key in ANSWERABLE}
    target = source.change(**sizes) if changed else source
    if "world_size" in changed and target.dp != source.dp:
        raise RefusedError(
            f"--world {target.world_size} means dp {target.dp} instead of {source.dp}, which cannot be answered from a "
            f"recording of whole passes: {_WHY['dp']}"
        )
    if target.vpp > 1 and target.group_size is None:
        target = replace(target, group_size=target.pp)
    return target, changed, _warnings(source, target, layers)


def _warnings(source: Layout, target: Layout, layers: int | None) -> tuple[str, ...]:
    warnings = []
    if target.dp != source.dp:
        held = " (devices held fixed)" if target.world_size == source.world_size else ""
        warnings.append(
            f"dp follows from {source.dp} to {target.dp}{held}; gradient synchronisation over "
            f"{target.dp} replicas was not measured and is left as it was"
        )
    if target.pp * target.vpp != source.pp * source.vpp:
        warnings.append(
            "passes are scaled by their layers alone: memory, and kernels that run less well in smaller chunks, "
            "are not modelled"
        )
        if layers is None:
            warnings.append(
                f"the recording does not say how many layers a chunk holds; {source.pp * source.vpp} chunks are taken "
                f"to divide evenly into {target.pp * target.vpp} (assumed): give --layers"
            )
    return tuple(warnings)

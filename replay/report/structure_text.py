"""The program found in a step, as a section of the terminal report."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import RenderableType
from rich.text import Text

from replay.report.result import Inspection
from replay.report.structure import StructureFacts
from replay.report.text_tables import heading, new_table
from replay.report.words import ms, pct

SHOWN_LAYERS = 32


def structure(result: Inspection) -> Iterable[RenderableType]:
    """Layers x micro-batches, costs of layers, shares of phases, and how all of it is known."""
    found = result.structure
    if found is None:
        return
    yield heading("Structure")
    yield Text(f"  {_counts(found)}")
    shares = ", ".join(f"{phase} {pct(share)}" for phase, share in found.phase_share_pct.items() if phase != "none")
    yield Text(f"  device time: {shares + ', ' if shares else ''}unassigned {pct(found.unassigned_pct)}")
    if found.layer_costs:
        yield _costs(found)
    for sentence in found.evidence:
        yield Text(f"  {sentence}", style="dim")


def _counts(found: StructureFacts) -> str:
    if not found.layers and not found.microbatches:
        return "neither layers nor micro-batches can be told apart"
    kinds = ", ".join(f"{count} {kind}" for kind, count in found.kinds.items() if kind != "unknown")
    layers = f"{_count(found.layers, 'layer')}{f' ({kinds})' if kinds else ''}"
    chunks = f", {found.chunks} chunks a rank" if found.chunks > 1 else ""
    return f"{layers} x {_count(found.microbatches, 'micro-batch', 'micro-batches')}{chunks}"


def _count(number: int, noun: str, plural: str = "") -> str:
    return f"{number or '?'} {noun if number == 1 else plural or noun + 's'}"


def _costs(found: StructureFacts) -> RenderableType:
    """Times of the first layers; those of all are in the JSON."""
    table = new_table("layer", "kind", "forward", "backward", left=2)
    for row in found.layer_costs[:SHOWN_LAYERS]:
        table.add_row(str(row.layer), row.kind, ms(row.forward_ms), ms(row.backward_ms))
    hidden = len(found.layer_costs) - SHOWN_LAYERS
    if hidden > 0:
        table.add_row("...", f"{hidden} more", "", "")
    return table

"""``--ep N``: another expert-parallel size, and another load of the experts, on the ops of a labelled graph.

Per rank the FLOPs of the experts stay; shapes, weight traffic, the exchanges and the expert gradients change (R8).
Every factor is model(new) / model(old) on a measured duration (R1).
"""

from __future__ import annotations

from replay.core.errors import RefusedError
from replay.graph.types import Graph
from replay.layout import Layout
from replay.program.expert_ops import ExpertOps, expert_ops
from replay.program.origins import origins
from replay.program.retiming import RetimeContext, Retiming
from replay.program.types import Labels
from replay.whatif._comparison import compare
from replay.whatif._draft import Draft
from replay.whatif._exchange_changes import put_deduplicated, put_flat, put_gathers, put_gradients, put_waits
from replay.whatif._gemm_changes import put_gemms
from replay.whatif._optimizer_changes import put_optimizer

LEVEL = "program"
OPTION = "--ep"


def retime(graph: Graph, labels: Labels, source: Layout, target: Layout, context: RetimeContext) -> Retiming:
    """Factors on the ops of ``graph`` when experts are laid out as in ``target`` and loaded as in ``context``.

    Raises :class:`RefusedError` when the model's experts are not known, when an ep does not fit, and when the graph has
    no expert ops to re-time.
    """
    if source.ep == target.ep and context.loads is None:
        return Retiming.identity(graph)
    compared, assumed = compare(graph, labels, source, target, context)
    launch_ns = origins(graph, context.trace).time_ns
    ops = expert_ops(graph, labels, source, launch_ns, compared.old.local_experts)
    _check_answerable(ops)
    if source.ep == 1 < target.ep and not ops.all_to_all.any():
        raise RefusedError(
            f"the step was measured with ep 1, so it holds no expert exchange from which ep {target.ep} could be "
            "derived: give a measurement with ep 2 or more, or say with --from ep=N what it was measured with"
        )
    draft = Draft(graph)
    for sentence in assumed:
        draft.warn(sentence)
    put_gemms(draft, compared, ops)
    put_deduplicated(draft, compared, ops)
    put_flat(draft, compared, ops)
    put_gathers(draft, compared, ops)
    put_waits(draft, compared, ops)
    put_gradients(draft, compared, ops, source, target)
    put_optimizer(draft, compared, labels)
    return draft.finish()


def _check_answerable(ops: ExpertOps) -> None:
    if not (ops.fused | ops.separate | ops.exchanges()).any():
        raise RefusedError(
            "no expert work can be told apart (no grouped GEMM, no dispatch or combine, no all-to-all of an expert "
            "group): record with ranges such as 'experts', 'dispatch' and 'combine' around them"
        )

"""Steps without a backward pass."""

from __future__ import annotations

from replay.layout import Layout
from replay.model import ModelSpec
from replay.program.label import label
from replay.program.types import Labels, Phase
from tests.program.events import graph_of, trace_of
from tests.program.structure.steps import Step


def labelled(*names: str) -> Labels:
    """Labels of a step that runs these operators."""
    step = Step()
    for name in names:
        step.plain(name)
    trace = trace_of(step.rows)
    return label(graph_of(trace), trace, Layout(), ModelSpec())


def test_everything_is_forward() -> None:
    assert set(labelled("aten::conv2d", "aten::relu").phase.tolist()) == {Phase.FORWARD}


def test_every_pass_begins_with_its_embedding() -> None:
    layer = ("aten::scaled_dot_product_attention", "aten::linear")
    labels = labelled("aten::embedding", *layer, *layer, "aten::embedding", *layer, *layer)
    assert labels.microbatch.tolist() == [0] * 5 + [1] * 5


def test_embeddings_inside_of_a_pass_begin_none() -> None:
    """Passes hold equally many attentions; 1 and 2 are no passes."""
    attention = "aten::scaled_dot_product_attention"
    labels = labelled("aten::embedding", attention, "aten::embedding", attention, attention)
    assert len(set(labels.microbatch.tolist())) == 1

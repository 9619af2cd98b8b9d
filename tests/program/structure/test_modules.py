"""Layers from calls of modules."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from replay.core.errors import LayoutError
from replay.layout import Layout
from replay.model import ModelSpec
from replay.program.label import label
from replay.program.types import Labels, Phase, Role
from replay.trace import EventKind
from tests.program.events import AUTOGRAD, HOST, Row, graph_of, launched, operator, trace_of

Tree = Sequence["str | tuple[str, Tree]"]


def rows_of(tree: Tree, begin: int = 0) -> list[Row]:
    """Rows of nested module calls; a string is a module in which one kernel of 1 ns is launched, 10 ns each."""
    rows: list[Row] = []
    for item in tree:
        name, inside = (item, []) if isinstance(item, str) else item
        children = rows_of(inside, begin + 1)
        end = max([row.start + row.dur for row in children], default=begin + 9) + 1
        rows.append(Row(EventKind.MODULE, f"nn.Module: {name}", HOST, begin, end - begin))
        rows += children
        if not children:
            rows += launched(f"{name} kernel", HOST, begin + 2, begin + 3, 1, begin + 1)
        begin = end
    return rows


def labelled(tree: Tree, *more: Row) -> Labels:
    """Labels of the kernels of a tree and of more rows."""
    trace = trace_of([*rows_of(tree), *more])
    return label(graph_of(trace), trace, Layout(), ModelSpec())


def layers(tree: Tree) -> list[int]:
    """Layer of every kernel, in order of launch."""
    return [int(layer) for layer in labelled(tree).layer]


def block(number: int) -> tuple[str, Tree]:
    """A layer with attention and feed-forward."""
    return (f"GPT2Block_{number}", [f"GPT2Attention_{number}", f"GPT2MLP_{number}"])


def test_the_class_that_repeats_is_the_layer() -> None:
    assert layers([("GPT2_0", ["Embedding_0", block(0), block(1), "LayerNorm_0"])]) == [-1, 0, 0, 1, 1, -1]


def test_instances_keep_their_number_in_every_call_of_the_model() -> None:
    model: Tree = [("GPT2_0", [block(0), block(1)])]
    assert layers([*model, *model]) == [0, 0, 1, 1, 0, 0, 1, 1]


def test_encoder_and_decoder_count_on() -> None:
    encoder: Tree = [("EncoderLayer_0", ["Linear_0"]), ("EncoderLayer_1", ["Linear_1"])]
    decoder: Tree = [("DecoderLayer_0", ["Linear_2"]), ("DecoderLayer_1", ["Linear_3"])]
    assert layers([("Bart_0", [("Encoder_0", encoder), ("Decoder_0", decoder)])]) == [0, 1, 2, 3]


def test_stacks_that_repeat_less_than_their_blocks_are_no_layers() -> None:
    """T5 is two stacks of one class, and each is several blocks."""
    stacks: Tree = [
        (f"Stack_{stack}", [(f"T5Block_{3 * stack + i}", [f"Linear_{i}"]) for i in range(3)]) for stack in (0, 1)
    ]
    assert layers([("T5_0", stacks)]) == [0, 1, 2, 3, 4, 5]


def test_containers_and_parts_of_layers_are_none() -> None:
    """Bottlenecks in Sequentials count through; experts repeat inside of a layer."""
    stages: Tree = [(f"Sequential_{i}", [(f"Bottleneck_{i}", [f"Conv2d_{i}"])]) for i in (0, 1)]
    assert layers([("ResNet_0", stages)]) == [0, 1]
    experts: Tree = [(f"Expert_{i}", [f"Linear_{i}"]) for i in range(4)]
    moe: Tree = [("DecoderLayer_0", [("SparseMoe_0", experts)]), ("DecoderLayer_1", ["Qwen2MLP_0"])]
    assert layers([("Mixtral_0", moe)]) == [0, 0, 0, 0, 1]


def test_where_only_containers_repeat_they_are_the_layers() -> None:
    blocks: Tree = [(f"Sequential_{i}", [f"Conv2d_{i}", f"ReLU_{i}"]) for i in (0, 1)]
    assert layers([("Net_0", [*blocks, "Linear_0"])]) == [0, 0, 1, 1, -1]


def test_shared_weights_are_a_layer_each_time() -> None:
    shared = ("AlbertLayer_0", ["Linear_0"])
    assert layers([("Albert_0", [shared, shared, shared])]) == [0, 1, 2]


def test_the_backward_pass_has_the_layers_of_the_forward_operators() -> None:
    """Operators in the two layers make nodes 7 and 8; the engine takes 8 first."""
    made = [operator("aten::mm", HOST, 3, 8, 7), operator("aten::mm", HOST, 16, 19, 8)]
    model: Tree = [("GPT_0", [("Block_0", ["SelfAttention_0"]), ("Block_1", ["SelfAttention_1"])])]
    back: list[Row] = []
    for at, number in ((100, 8), (200, 7)):
        back.append(operator("autograd::engine::evaluate_function: MmBackward0", AUTOGRAD, at, at + 20, number))
        back += launched("mm_backward", AUTOGRAD, at + 5, at + 6, 1, at)
    labels = labelled(model, *made, *back)
    assert labels.layer.tolist() == [0, 1, 1, 0]
    assert labels.phase.tolist() == [Phase.FORWARD] * 2 + [Phase.BACKWARD] * 2
    assert set(labels.role.tolist()) == {Role.ATTENTION}


def test_a_contradiction_shows_both_numbers() -> None:
    trace = trace_of(rows_of([("GPT2_0", [block(0), block(1)])]))
    with pytest.raises(LayoutError, match=r"has 3 layers, but 2 are called in the trace \(2 x GPT2Block\)"):
        label(graph_of(trace), trace, Layout(), ModelSpec(layers=3))

"""Groups from the rank order: worked examples of Megatron's parallel_state docstrings and of formats used here."""

import pytest

from replay.core.errors import LayoutError
from replay.layout import Layout
from replay.program.groups import FAMILIES, classify, coordinates, family_named, members, rank_at
from replay.trace import Group

WORLD16 = Layout(pp=2, dp=8, ep=4, world_size=16)


@pytest.mark.parametrize(
    ("family", "rank", "expected"),
    [
        ("ep", 5, (4, 5, 6, 7)),
        ("edp", 5, (1, 5)),
        ("dp", 5, tuple(range(8))),
        ("pp", 5, (5, 13)),
        ("world", 5, tuple(range(16))),
        ("tp", 5, (5,)),
    ],
)
def test_members_of_pp2_dp8_ep4(family: str, rank: int, expected: tuple[int, ...]) -> None:
    """Rank 5 is stage 0: experts span 4 neighbours, expert data parallel strides by 4, the pipeline by 8."""
    assert members(WORLD16, FAMILIES[family], rank) == expected


@pytest.mark.parametrize(
    ("description", "family"),
    [
        ("EXPERT_MODEL_PARALLEL_GROUP", "ep"),
        ("exp", "ep"),  # MindSpeed names HCCL's communicators as Megatron asks for NCCL's options
        ("tp_exp", "etp_ep"),
        ("dp_modulo_exp", "edp"),
        ("tp:0", "tp"),  # vLLM counts its groups
        ("default_group", "world"),
        ("", ""),
    ],
)
def test_families_by_name(description: str, family: str) -> None:
    assert family_named(description) == family


def test_dense_grid_of_the_megatron_docstring() -> None:
    """initialize_model_parallel: 16 ranks, tp 2, pp 4 has tp (0, 1), dp (0, 2), pp (0, 4, 8, 12)."""
    layout = Layout(tp=2, pp=4, dp=2, world_size=16)
    assert members(layout, FAMILIES["tp"], 0) == (0, 1)
    assert members(layout, FAMILIES["dp"], 0) == (0, 2)
    assert members(layout, FAMILIES["pp"], 0) == (0, 4, 8, 12)
    assert members(layout, FAMILIES["model"], 0) == (0, 1, 4, 5, 8, 9, 12, 13)
    assert members(layout, FAMILIES["embedding"], 0) == (0, 12)


def test_expert_grid_folds_tensor_parallel_ranks() -> None:
    """W 16, tp 2, pp 2, ep 4, etp 1: expert groups are {0..3} and {4..7} in the first stage (formats/megatron)."""
    layout = Layout(tp=2, pp=2, dp=4, ep=4, world_size=16)
    assert members(layout, FAMILIES["ep"], 6) == (4, 5, 6, 7)


@pytest.mark.parametrize("expert", [False, True])
def test_coordinates_round_trip(expert: bool) -> None:
    """rank_at inverts coordinates on both grids."""
    layout = Layout(tp=2, cp=2, pp=2, dp=4, ep=8, world_size=32, rank_order="tp-cp-ep-pp-dp")
    for rank in range(32):
        assert rank_at(layout, coordinates(layout, rank, expert=expert), expert=expert) == rank


def test_members_decide_over_a_wrong_description() -> None:
    """A group described as tensor parallel whose ranks are an expert group is the expert group."""
    family = classify(Group("a", "TENSOR_MODEL_PARALLEL_GROUP", (4, 5, 6, 7), 4), WORLD16)
    assert family is FAMILIES["ep"]


def test_description_decides_between_equal_families() -> None:
    """With ep = dp, an expert group and a data group have the same ranks."""
    layout = Layout(dp=4, ep=4, world_size=4)
    ranks = (0, 1, 2, 3)
    assert classify(Group("a", "DATA_PARALLEL_GROUP", ranks, 4), layout) is FAMILIES["dp"]
    assert classify(Group("a", "EXPERT_MODEL_PARALLEL_GROUP", ranks, 4), layout) is FAMILIES["ep"]
    assert classify(Group("a", "", ranks, 4), layout, likely=("dp_cp",)) is FAMILIES["dp_cp"]


def test_group_that_fits_nothing() -> None:
    """Ranks that no axis explains have no family."""
    assert classify(Group("a", "", (0, 3), 2), WORLD16) is None


def test_rank_order_must_name_every_axis() -> None:
    """A rank order without pp cannot place ranks."""
    with pytest.raises(LayoutError, match="tp-cp-ep-dp"):
        coordinates(Layout(rank_order="tp-cp-ep-dp"), 0)

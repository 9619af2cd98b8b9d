"""Questions and facts in the words of the command line."""

from __future__ import annotations

import pytest

from replay.core.errors import LayoutError
from replay.session.question import Question, parse_layout


def test_from_is_parsed_key_by_key() -> None:
    """``world`` is the option's word for world_size."""
    assert parse_layout("tp=2, pp=4,world=64,schedule=1f1b") == {"tp": 2, "pp": 4, "world_size": 64, "schedule": "1f1b"}


@pytest.mark.parametrize("text", ["tp", "tp=", "=2", "tp=-1", "tp=2.5", "cows=2", "tp 2"])
def test_from_names_the_item_that_is_wrong(text: str) -> None:
    """Nothing is ignored."""
    with pytest.raises(LayoutError, match="--from"):
        parse_layout(text)


def test_a_question_reads_as_its_options() -> None:
    """What was asked stands in the report."""
    question = Question(layout={"ep": 8, "world_size": 32}, scale=(("@gemm", 0.5),))
    assert question.options() == ("--ep 8", "--world 32", "--scale @gemm=0.5")


@pytest.mark.parametrize(
    ("question", "program"),
    [(Question(), False), (Question(link=(("all", 2.0),)), False), (Question(layout={"ep": 8}), True)],
)
def test_sizes_need_the_program_and_edits_do_not(question: Question, program: bool) -> None:
    """The lowest level that answers is used."""
    assert question.changes_program is program

"""Keys of case files and words of the command line say the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from replay.cli.run import command
from replay.core.errors import LayoutError, UnknownName
from replay.session.question import Facts, Question
from replay.session.words import KEYS, MICROBATCHES, WORDS, asked, from_words, sizes_from

HERE = Path()
OUTPUT = {"--json", "--output", "-o", "--explain", "--quiet", "-q"}


def test_every_question_of_replay_run_can_be_written() -> None:
    """Whatever option is added there, or it is one of output."""
    options = {name for parameter in command.params for name in parameter.opts if name.startswith("-")} - OUTPUT
    words = {name.removeprefix("--") for name in options}
    assert {WORDS.get(word, word.replace("-", "_")) for word in words} <= set(KEYS)


def test_words_are_the_same_question_as_keys() -> None:
    """Repeated options add up; flags have no value."""
    words = from_words("--ep 8 --scale 'gemm*=2' --scale attn=0.5 --world=16 --force --from tp=2 --measured-step 12.5")
    keys = {"ep": 8, "scale": {"gemm*": 2, "attn": 0.5}, "world_size": 16, "force": True, "from": {"tp": 2},
            "measured_step": 12.5}  # fmt: skip
    question, facts = asked(words, HERE)
    assert (question, facts) == asked(keys, HERE)
    assert question == Question({"ep": 8, "world_size": 16}, scale=(("gemm*", 2.0), ("attn", 0.5)))
    assert facts == Facts(layout={"tp": 2}, force=True, measured_step_ms=12.5)


def test_microbatches_are_a_size_of_the_target_but_on_the_command_line_of_the_source() -> None:
    """``--microbatches`` states a fact there."""
    assert asked({MICROBATCHES: "4"}, HERE)[0].layout == {"microbatches": 4}
    assert asked(from_words("--from tp=2 --microbatches 4"), HERE)[1].layout == {"tp": 2, "microbatches": 4}


def test_sizes_from_a_table_or_a_text() -> None:
    """As ``--from`` is written."""
    assert sizes_from("ep=8, world=16") == {"ep": "8", "world_size": "16"}
    assert sizes_from({"ep": 8}) == {"ep": 8}
    with pytest.raises(LayoutError, match="KEY=VALUE"):
        sizes_from("ep 8")


def test_files_are_relative_to_the_folder_of_the_case(tmp_path: Path) -> None:
    """A load that is no file is a word."""
    (tmp_path / "load.json").write_text("[1, 2]", encoding="utf-8")
    question, facts = asked({"experts": "load.json", "model": "config.json"}, tmp_path)
    assert question.experts == str(tmp_path / "load.json")
    assert facts.model == tmp_path / "config.json"
    assert asked({"experts": "zipf:1.2"}, tmp_path)[0].experts == "zipf:1.2"


def test_profiles_are_files_beside_the_cases_or_names(tmp_path: Path) -> None:
    """A profile of that name stays a name where no such file lies there."""
    (tmp_path / "links.toml").write_text("")
    assert asked({"source_hardware": "links.toml"}, tmp_path)[1].source_hardware == str(tmp_path / "links.toml")
    assert asked({"source_hardware": "h100-sxm"}, tmp_path)[1].source_hardware == "h100-sxm"


@pytest.mark.parametrize("text", ["ep 8", "--ep", "--scale 'x"])
def test_words_that_are_no_options_are_refused(text: str) -> None:
    """Each with what is wrong."""
    with pytest.raises(LayoutError, match="edit: "):
        from_words(text)


@pytest.mark.parametrize(
    "values",
    [{"ep": "x"}, {"ep": True}, {"ep": 1.5}, {"scale": "x"}, {"force": "maybe"}, {"measured_step": -1}, {"from": "x"}],
)
def test_values_of_the_wrong_kind_are_refused(values: dict[str, object]) -> None:
    """Naming the key."""
    with pytest.raises(LayoutError, match=next(iter(values))):
        asked(values, HERE)


def test_the_nearest_key_is_named() -> None:
    """For keys and words."""
    with pytest.raises(UnknownName, match="did you mean 'schedule'"):
        asked({"schedul": "1f1b"}, HERE)
    with pytest.raises(UnknownName, match="did you mean 'step_marker'"):
        from_words("--step-markr x")


@pytest.mark.parametrize("edit", [3, {"gbs": 8}, True])
def test_an_edit_that_is_no_text_is_an_error(edit: object) -> None:
    """TOML can say anything in any place."""
    with pytest.raises(LayoutError, match="is no text"):
        from_words(edit)


def test_a_list_is_taken_as_what_the_command_line_separates_by_commas() -> None:
    """Layers of every chunk."""
    assert asked({"chunk_layers": [4, 4]}, HERE)[0].chunk_layers == "4,4"

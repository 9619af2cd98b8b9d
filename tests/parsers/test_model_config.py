"""Model descriptions in the forms that people have them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from parsers.model_config import model_from, read_model
from replay.core.errors import TraceError
from replay.model import ModelSpec

MEGATRON_LOG = """\
------------------------ arguments ------------------------
  ffn_hidden_size ................................. 18432
  hidden_size ..................................... 7168
  moe_ffn_hidden_size ............................. 2048
  moe_layer_freq .................................. [0, 0, 0, 1, 1]
  moe_router_group_topk ........................... 4
  moe_router_num_groups ........................... 8
  moe_router_topk ................................. 8
  num_experts ..................................... 256
  num_layers ...................................... 5
  params_dtype .................................... torch.bfloat16
  seq_length ...................................... 4096
  sequence_parallel ............................... True
-------------------- end of arguments ---------------------
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "model"
    path.write_text(text)
    return path


def test_deepseek_v3(shared_data: Path) -> None:
    model = read_model(shared_data.parent / "facts" / "models" / "deepseek-v3.json")
    assert (model.experts, model.topk, model.router_groups, model.router_topk_groups) == (256, 8, 8, 4)
    assert (model.layers, model.dense_layers, model.hidden, model.moe_ffn) == (61, 3, 7168, 2048)
    assert model.seq is None  # a position limit is not the length trained with


def test_mixtral_experts_have_the_models_own_size(tmp_path: Path) -> None:
    config = {"model_type": "mixtral", "num_hidden_layers": 32, "hidden_size": 4096, "intermediate_size": 14336,
              "num_local_experts": 8, "num_experts_per_tok": 2}  # fmt: skip
    model = read_model(written(tmp_path, json.dumps(config)))
    assert (model.experts, model.topk, model.moe_ffn) == (8, 2, 14336)


def test_a_dense_model_has_no_experts() -> None:
    model = model_from({"num_hidden_layers": 24, "hidden_size": 1024, "intermediate_size": 2816}, "f")
    assert model == ModelSpec(layers=24, hidden=1024, ffn=2816)


def test_a_nested_language_model_counts() -> None:
    document = '{"model_type": "vl", "hidden_size": 1, "text_config": {"hidden_size": 4096, "num_hidden_layers": 2}}'
    from parsers.model_config import _pairs  # noqa: PLC0415

    assert _pairs(document, Path("f"))["hidden_size"] == 4096


def test_megatron_arguments_of_a_log(tmp_path: Path) -> None:
    model = read_model(written(tmp_path, MEGATRON_LOG))
    assert (model.experts, model.topk, model.router_groups, model.router_topk_groups) == (256, 8, 8, 4)
    assert (model.layers, model.seq, model.dense_layers, model.dtype) == (5, 4096, 3, "bfloat16")


@pytest.mark.parametrize("text", ["num_layers: 4\nhidden_size: 64\n", "--num_layers=4\n--hidden_size=64\n"])
def test_plain_pairs(tmp_path: Path, text: str) -> None:
    assert read_model(written(tmp_path, text)) == ModelSpec(layers=4, hidden=64)


def test_layer_frequency_as_text() -> None:
    assert model_from({"num_layers": 61, "moe_layer_freq": "([0]*3+[1]*58)"}, "f").dense_layers == 3


@pytest.mark.parametrize("value", ["many", 2.5, -1, True])
def test_a_size_that_is_no_number_is_named(value: Any) -> None:
    with pytest.raises(TraceError, match="f: num_layers must be a whole number"):
        model_from({"num_layers": value}, "f")


@pytest.mark.parametrize("text", ["", "{}", "nothing here\n", '{"optimizer": "adam"}'])
def test_a_file_that_describes_no_model(tmp_path: Path, text: str) -> None:
    with pytest.raises(TraceError, match="names neither layers"):
        read_model(written(tmp_path, text))


def test_broken_json(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="is not JSON"):
        read_model(written(tmp_path, '{"hidden_size": '))


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="cannot be read"):
        read_model(tmp_path / "absent.json")

"""Data types: spellings of traces, logs and tables."""

import pytest

from replay.core.dtypes import canonical, element_nbytes, first_of


@pytest.mark.parametrize("spelt", ["BFloat16", "c10::BFloat16", "torch.bfloat16", "bfp16", " bf16 "])
def test_spellings_of_one_type(spelt: str) -> None:
    assert canonical(spelt) == "bf16"


def test_an_unknown_type_stays() -> None:
    assert canonical("TF32") == "tf32"
    assert element_nbytes("TF32") is None


@pytest.mark.parametrize(("types", "first"), [('["c10::Half","int"]', "fp16"), ("[]", ""), ("FLOAT16;INT32", "fp16")])
def test_first_of_the_types_of_an_operator(types: str, first: str) -> None:
    assert first_of(types) == first

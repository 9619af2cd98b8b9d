"""Contract of every shipped profile, and the messages of broken ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import hwprofiles
from hwprofiles.schema import profile_from
from replay.core.errors import ProfileError, UnknownName


@pytest.mark.parametrize("name", hwprofiles.names())
def test_every_profile_loads_under_its_file_name(name: str) -> None:
    profile = hwprofiles.load(name)
    assert profile.name == name
    assert all(parameter.source for parameter in profile.parameters.values())


@pytest.mark.parametrize("name", hwprofiles.names())
def test_a_pair_of_devices_is_not_faster_than_a_device_to_all(name: str) -> None:
    profile = hwprofiles.load(name)
    pair, total = profile.get("intra_node_pair_bytes_per_s"), profile.get("intra_node_bytes_per_s")
    assert pair is None or total is None or pair <= total


def test_no_two_profiles_claim_one_device() -> None:
    devices = [device for name in hwprofiles.names() for device in hwprofiles.load(name).devices]
    assert len(devices) == len(set(devices))


def test_a_trace_device_finds_its_profile() -> None:
    found = hwprofiles.match("NVIDIA H800")
    assert found is not None
    assert found.value("inter_node_bytes_per_s") == 50e9  # 400 Gb/s


def test_an_unknown_device_finds_none() -> None:
    assert hwprofiles.match("") is None


def test_an_unknown_name_lists_the_nearest() -> None:
    with pytest.raises(UnknownName, match="h800"):
        hwprofiles.load("H80")


def test_a_name_near_none_lists_all() -> None:
    with pytest.raises(UnknownName, match=r"known: a100-sxm-40gb, .*, or a .toml file$"):
        hwprofiles.load("zzz")


def test_a_missing_parameter_is_named() -> None:
    with pytest.raises(ProfileError, match="ascend-910b3 has no super_node_bytes_per_s"):
        hwprofiles.load("ascend-910b3").value("super_node_bytes_per_s")


def test_a_file_is_a_profile(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('name = "mine"\ntitle = "t"\ndevices = []\n[parameters]\n')
    assert hwprofiles.load(path).name == "mine"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"unit": "GB/s"}, "must be 'B/s'"),
        ({"value": -1.0}, "positive"),
        ({"value": True}, "finite number"),
        ({"grade": "guess"}, "none of measured"),
        ({"extra": 1}, "nothing else"),
    ],
)
def test_a_bad_parameter_is_named(change: dict[str, Any], message: str) -> None:
    row = {"value": 1e9, "unit": "B/s", "grade": "datasheet", "source": "x"} | change
    with pytest.raises(ProfileError, match=rf"f\.toml: parameters\.hbm_bytes_per_s.*{message}"):
        profile_from({"name": "n", "title": "t", "devices": [], "parameters": {"hbm_bytes_per_s": row}}, "f.toml")


def test_an_unknown_parameter_is_refused() -> None:
    with pytest.raises(ProfileError, match="warp_speed: unknown parameter"):
        profile_from({"name": "n", "title": "t", "devices": [], "parameters": {"warp_speed": {}}}, "f.toml")


@pytest.mark.parametrize("text", ["name = ", "\udcff"])
def test_a_file_that_is_not_toml(tmp_path: Path, text: str) -> None:
    path = tmp_path / "broken.toml"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ProfileError, match="is not TOML"):
        hwprofiles.load(path)

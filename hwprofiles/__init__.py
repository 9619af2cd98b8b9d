"""Hardware profiles: one TOML per machine in this folder, or any file of the same form.

A name is looked up in this folder; anything with a path separator or a ``.toml`` suffix is a file.
"""

from __future__ import annotations

import difflib
import tomllib
from pathlib import Path

from hwprofiles.schema import UNITS, HardwareProfile, Parameter
from hwprofiles.schema import profile_from as _profile_from
from replay.core.errors import ProfileError, UnknownName

__all__ = ["UNITS", "HardwareProfile", "Parameter", "alike", "load", "match", "names"]

_FOLDER = Path(__file__).parent
_SAME = 0.005  # cores and clocks that differ by less are the same: counters tell them to three digits


def names() -> tuple[str, ...]:
    """Names of the profiles that ship with the package, in alphabetical order."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.toml")))


def load(name: str | Path) -> HardwareProfile:
    """The profile of a name or a file.

    Raises :class:`UnknownName` with the nearest names, :class:`ProfileError` for a file that is not a profile.
    """
    path = Path(name)
    if path.suffix == ".toml" or len(path.parts) > 1:
        return _read(path)
    if str(name) not in names():
        near = difflib.get_close_matches(str(name).lower(), names(), n=3, cutoff=0.3)
        hint = f"did you mean {' or '.join(near)}" if near else f"known: {', '.join(names())}"
        raise UnknownName(f"no hardware profile {str(name)!r}; {hint}, or a .toml file{'?' if near else ''}")
    return _read(_FOLDER / f"{name}.toml")


def match(device: str) -> HardwareProfile | None:
    """The profile that lists a device name as traces report it, ``None`` when there is none."""
    return next((profile for profile in map(load, names()) if device in profile.devices), None)


def alike(cores: float, clock_hz: float) -> tuple[HardwareProfile, ...]:
    """The profiles with this number of cube cores at this clock, in alphabetical order."""
    found = []
    for profile in map(load, names()):
        own = profile.get("cores"), profile.get("clock_hz")
        if profile.get("cube_side") is None or None in own:
            continue
        if all(abs(a / (b or 1.0) - 1.0) < _SAME for a, b in zip((cores, clock_hz), own, strict=True)):
            found.append(profile)
    return tuple(found)


def _read(path: Path) -> HardwareProfile:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ProfileError(
            f"{path}: cannot be read ({error.strerror}); give a profile's name or a .toml file"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ProfileError(f"{path}: is not TOML ({error})") from None
    return _profile_from(document, str(path))

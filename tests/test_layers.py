"""Imports go downward only: a module may import its own layer and those below it, never one above."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("replay", "parsers", "calibration", "hwprofiles")

LAYERS = (  # top to bottom; members of one row may import one another
    ("replay.cli",),
    ("replay.api",),
    ("replay.session",),
    ("replay.report", "calibration"),
    ("replay.whatif", "replay.simulate"),
    ("replay.program",),
    ("replay.costs", "replay.collectives", "replay.pipelines"),
    ("replay.graph",),
    ("parsers", "hwprofiles"),
    (
        "replay.trace",
        "replay.recording",
        "replay.runlog",
        "replay.model",
        "replay.layout",
        "replay.samples",
        "replay.cost_model",
    ),
    ("replay.core",),
)
SIMULATE_MAY_IMPORT = ("replay.simulate", "replay.graph", "replay.core")
FILES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def layer_of(module: str) -> int | None:
    """Depth of a module's layer; ``None`` for modules that are not ours (and for the empty ``replay`` package)."""
    for depth, row in enumerate(LAYERS):
        if any(module == member or module.startswith(f"{member}.") for member in row):
            return depth
    return None


def imports(path: Path) -> Iterator[str]:
    """Every module a file imports, wherever in the file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def module_name(path: Path) -> str:
    """Dotted name of a file of ours."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_imports_go_downward(path: Path) -> None:
    """No module imports from a layer above its own."""
    own = layer_of(module_name(path))
    if own is None:
        assert list(imports(path)) == [], f"{path} belongs to no layer, so it may import nothing"
        return
    upward = [name for name in imports(path) if (other := layer_of(name)) is not None and other < own]
    assert upward == []


@pytest.mark.parametrize("path", [p for p in FILES if "simulate" in p.parts], ids=module_name)
def test_the_engine_knows_graph_and_core_only(path: Path) -> None:
    """What a graph needs beyond that is passed in."""
    ours = [name for name in imports(path) if layer_of(name) is not None]
    assert [name for name in ours if not name.startswith(SIMULATE_MAY_IMPORT)] == []


@pytest.mark.parametrize(
    ("importer", "imported"), [("replay.core.units", "replay.trace"), ("parsers.kineto", "replay.graph.build")]
)
def test_the_check_sees_an_upward_import(importer: str, imported: str) -> None:
    """A check that cannot fail is worse than none."""
    below, above = layer_of(importer), layer_of(imported)
    assert below is not None
    assert above is not None
    assert above < below

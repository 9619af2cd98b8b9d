"""The HTML report: one file, no requests, nothing breaks out of it, and a browser draws it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from replay.graph.types import Graph, OpKind
from replay.report.accuracy import measured_timeline
from replay.report.breakdown import breakdown
from replay.report.diff.compare import compare
from replay.report.diff.types import Execution, OpFacts, Side
from replay.report.slices import Run, collect
from replay.simulate.engine import simulate
from tests.synthetic import Op, graph_of

pytest.importorskip("bokeh", reason="the HTML report needs the extra html")

from PIL import Image

from replay.report.html import difference_page
from replay.report.html.blocks import blocks

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--virtual-time-budget=8000",
    "--window-size=1440,1600",
)
BROWSER_ITSELF = "not an origin"  # initiator of Chromium's own requests in its net log
HOSTILE = "</script><script>document.title='broken out'</script><b>&\"'"
COMPUTE_BLUE = (0, 114, 178)
MEGABYTE = 1_000_000


def side(name: str, graph: Graph) -> Side:
    """A graph as it was measured."""
    faithful = simulate(graph, residuals=True)
    measured = measured_timeline(graph, faithful)
    nothing = ("",) * len(graph)
    execution = Execution(
        Run(name, graph, measured),
        faithful,
        breakdown(graph, measured, graph.measured_step_ns),
        OpFacts(nothing, nothing),
    )
    return Side(source="trace", name=name, step_ns=graph.measured_step_ns, execution=execution)


def page(kernel_ns: int = 5_000_000) -> str:
    """Two steps of three kernels; the second one has a name that tries to break out."""

    def step(second: int) -> Graph:
        ops = [Op("first", 2_000_000, start=0), Op(HOSTILE, second, after=[0], start=2_000_000),
               Op("host", 1_000_000, lane="thread 1", kind=OpKind.HOST, start=0)]  # fmt: skip
        return graph_of(ops)

    return difference_page.page(compare(side("a", step(4_000_000)), side("b", step(kernel_ns))))


def chain(n: int) -> Graph:
    """One lane of ``n`` kernels of 1 to 16 µs with gaps of 1 µs."""
    lengths = [1_000 * (1 + (7 * i) % 16) for i in range(n)]
    starts = np.cumsum([0, *(length + 1_000 for length in lengths)]).tolist()
    names = [f"kernel_with_a_long_name_{i % 200}_" + "x" * 60 for i in range(n)]
    return graph_of(
        [Op(name, length, start=start) for name, length, start in zip(names, lengths, starts, strict=False)]
    )


def test_no_name_breaks_out() -> None:
    """A kernel name is text wherever it stands: in tables, and in the data of the plots."""
    assert "<script>document.title" not in page()


def test_nothing_outside_is_asked_for() -> None:
    """No element loads by URL, and the policy in the page forbids it to scripts too."""
    text = page()
    assert re.findall(r"<(?:script|img|link|iframe)[^>]+(?:src|href)\s*=", text) == []
    assert "default-src 'none'" in text


def test_a_step_of_50_000_ops_stays_below_5_mb() -> None:
    """Both sides have 50,000 ops."""
    graph = chain(50_000)
    found = compare(side("a", graph), side("b", graph))
    assert len(difference_page.page(found).encode()) < 5 * MEGABYTE


def test_merging_keeps_the_busy_time() -> None:
    """What is merged is counted: no op and no busy ns is lost."""
    graph = chain(2_000)
    slices = collect([side("a", graph).execution.run])  # type: ignore[union-attr]
    drawn = blocks(slices, np.ones(1, np.bool_), shown=100)
    assert len(drawn) <= 100
    assert int(drawn.count.sum()) == 2_000
    assert int(drawn.busy_ns.sum()) == int(graph.duration_ns.sum())


def test_few_slices_are_not_merged() -> None:
    """Every slice of a small step stands for itself."""
    slices = collect([side("a", chain(50)).execution.run])  # type: ignore[union-attr]
    assert (blocks(slices, np.ones(1, np.bool_)).count == 1).all()


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed (Debian: apt-get install chromium)")
def test_a_browser_draws_it_without_any_request(tmp_path: Path) -> None:
    """Kernels appear in their colour, and the page asks the network for nothing."""
    asked, picture = opened(tmp_path, page())
    pixels = np.asarray(Image.open(picture).convert("RGB")).reshape(-1, 3)
    assert (pixels == COMPUTE_BLUE).all(axis=1).mean() > 0.005
    assert asked == set()


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed (Debian: apt-get install chromium)")
def test_a_request_would_be_seen(tmp_path: Path) -> None:
    """The check above can fail: an image from elsewhere is noticed."""
    asked, _ = opened(tmp_path, '<img src="http://example.invalid/image.png">')
    assert asked == {"http://example.invalid/image.png"}


def opened(folder: Path, text: str) -> tuple[set[str], Path]:
    """What a page asks the network for when it is opened, and a picture of it."""
    (folder / "page.html").write_text(text, encoding="utf-8")
    log, picture = folder / "net.json", folder / "page.png"
    command = [str(CHROMIUM), *FLAGS, f"--user-data-dir={folder / 'profile'}", f"--log-net-log={log}"]
    command += [f"--screenshot={picture}", (folder / "page.html").as_uri()]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    found = [event.get("params", {}) for event in _events(log)]
    by_page = [params for params in found if params.get("initiator") not in (None, BROWSER_ITSELF)]
    return {params["url"] for params in by_page if not params["url"].startswith(("file:", "data:", "blob:"))}, picture


def _events(log: Path) -> list[dict[str, Any]]:
    """Events of a net log; Chromium may leave its last line open."""
    text = log.read_text(encoding="utf-8").rstrip().rstrip(",")
    return list(json.loads(text if text.endswith("}") and '"polledData"' in text else text + "]}")["events"])

"""Write the sample's real output into README.md: ``python docs/readme_output.py``."""

from __future__ import annotations

import io
import json
import math
import re
from pathlib import Path

from replay import api

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
SAMPLE = ROOT / "traces" / "moe-pp2-dp8-ep4"
LAST_SECTION = "\n\nCollectives"  # the README shows the report up to here
NUMBER = re.compile(r"\d[\d,]*\.?\d*")
BLOCK = re.compile(r"(<!-- sample-output -->\n```text\n).*?(\n```)", re.DOTALL)


def output() -> str:
    """The beginning of the report that the main job prints."""
    answer = api.answer([SAMPLE], api.ask(ep=8, vpp=2), api.Facts())
    out = io.StringIO()
    api.render(answer.result, out)
    text = out.getvalue().partition(LAST_SECTION)[0]
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n\n..."


def shown() -> str:
    """The block that the README shows."""
    found = BLOCK.search(README.read_text(encoding="utf-8"))
    if found is None:
        raise ValueError("README.md has no block marked sample-output")
    return found.group(0)


def expected() -> str:
    """The block as it should be."""
    return f"<!-- sample-output -->\n```text\n{output()}\n```"


def is_stale() -> bool:
    """Other words, or numbers that differ by more than a thousandth: the last digit may depend on the machine."""
    blocks = (shown(), expected())
    words, numbers = zip(*((NUMBER.sub("#", text), NUMBER.findall(text)) for text in blocks), strict=True)
    return words[0].split() != words[1].split() or not all(
        math.isclose(float(a.replace(",", "")), float(b.replace(",", "")), rel_tol=1e-3, abs_tol=0.01)
        for a, b in zip(*numbers, strict=True)
    )


def really_took() -> str:
    """What the target layout's own run measured, as the README says it."""
    run = json.loads((SAMPLE.parent / "moe-pp2-dp8-ep8-vpp2" / "run.json").read_text(encoding="utf-8"))
    return f"took {run['profiled_step_ms']['median']:,.0f} ms"


if __name__ == "__main__":
    text = README.read_text(encoding="utf-8").replace(shown(), expected())
    README.write_text(re.sub(r"took [\d,]+ ms", really_took(), text), encoding="utf-8")

"""A page: headline, sections of plots, tables and lists. Every word is escaped by the template."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import files

from bokeh.embed import components
from bokeh.plotting import figure
from bokeh.resources import Resources
from jinja2 import Environment
from markupsafe import Markup


@dataclass(frozen=True, slots=True)
class Table:
    """Columns of words first (``left`` of them), then of numbers."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: int = 1


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with what stands below it, in this order: notes, plots, table, lines."""

    title: str
    notes: tuple[str, ...] = ()
    plots: tuple[figure, ...] = ()
    table: Table | None = None
    lines: tuple[str, ...] = ()
    legend: tuple[tuple[str, str], ...] = ()  # (meaning, colour)

    @property
    def is_empty(self) -> bool:
        """Nothing to show."""
        return not (self.plots or self.lines or (self.table and self.table.rows))


@dataclass(frozen=True, slots=True)
class Page:
    """Title, the answer in large type, what stands below it, and the sections."""

    title: str
    headline: str
    facts: tuple[str, ...]
    sections: tuple[Section, ...] = field(default=())


def render(page: Page) -> str:
    """One self-contained file: Bokeh's script, the styles and the data are all inside."""
    shown = [section for section in page.sections if not section.is_empty]
    plots = [plot for section in shown for plot in section.plots]
    script, divs = components(plots) if plots else ("", ())
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(files(__package__).joinpath("page.html.j2").read_text(encoding="utf-8"))
    return template.render(
        page=page,
        sections=_with_divs(shown, divs),
        library=Markup(Resources(mode="inline", components=["bokeh"]).render_js()) if plots else "",
        script=Markup(script),
    )


def _with_divs(sections: Sequence[Section], divs: Sequence[str]) -> list[tuple[Section, list[Markup]]]:
    """Every section with the places of its plots; Bokeh escapes the data in its script itself."""
    left = iter(divs)
    return [(section, [Markup(next(left)) for _ in section.plots]) for section in sections]

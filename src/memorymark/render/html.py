"""Results as HTML: a fragment for notebooks, a page to keep or send. Inline styles and SVG, no scripts, no network."""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from memorymark.render.card import badge_view, card_view
from memorymark.render.explanation_view import picture_view
from memorymark.render.html_views import title_of, view_of
from memorymark.render.matrix import matrix_picture
from memorymark.render.plain import clean
from memorymark.results.analysis import Analysis
from memorymark.results.explanation import Explanation
from memorymark.results.grid import Grid
from memorymark.results.matrix import Matrix
from memorymark.results.result import Result
from memorymark.results.trial import Trial
from memorymark.templating import templates_of
from memorymark.units import format_bytes, format_rate, format_ratio, format_usd
from memorymark.version import __version__


def page(result: Result | Trial | Grid | Explanation | Matrix) -> str:
    """Renders a result as a self-contained HTML document."""
    kind, view = view_of(result)
    return render_page(kind, view, title_of(result))


def render_page(kind: str, view: dict[str, Any], title: str) -> str:
    """Renders a self-contained HTML document with the template of a kind of result, and what it shows."""
    return _render("page", kind, view, title=title, version=__version__)


def fragment(result: Result | Trial | Explanation | Matrix) -> str:
    """Renders a result as an HTML fragment."""
    return _render("fragment", *view_of(result))


def picture(result: Explanation | Matrix) -> str:
    """Renders the memory of a step, or a matrix, as a picture that stands alone, on a light or a dark screen."""
    if isinstance(result, Matrix):
        return _templates().get_template("matrix.svg.jinja").render(matrix=matrix_picture(result))
    return _templates().get_template("timeline.svg.jinja").render(picture_view(result))


def card(result: Analysis) -> str:
    """Renders a picture of 1200 x 630 pixels to share."""
    return _templates().get_template("card.svg.jinja").render(card=card_view(result), version=__version__)


def badge(result: Analysis) -> str:
    """Renders a badge for a README."""
    return _templates().get_template("badge.svg.jinja").render(badge=badge_view(result))


def _render(template: str, kind: str, view: dict[str, Any], **facts: str) -> str:
    return _templates().get_template(f"{template}.html.jinja").render({**facts, "kind": kind, kind: view})


@cache
def _templates() -> Environment:
    templates = templates_of("memorymark.render", finalize=_without_controls)
    templates.filters.update(
        bytes=format_bytes,
        rate=format_rate,
        usd=format_usd,
        times=format_ratio,
        milliseconds=lambda seconds: format_rate(1e3 * seconds),
        percent=lambda share: f"{100 * share:.2f}%",
        coordinate=lambda place: f"{place:.1f}",
    )
    return templates


def _without_controls(value: Any) -> Any:
    """Removes control characters from text; markup made by a template is already clean."""
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value

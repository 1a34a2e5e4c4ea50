"""report.md -> report.html: one file with its pictures in it, which opens without a network."""

import base64
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token

TEMPLATES = Path(__file__).with_name("templates")
LARGEST_SVG = 250_000
"""Bytes; a larger SVG is thousands of lines of hundreds of blocks, and its PNG is put in instead."""
# Everything else that looks like HTML is shown as it was typed.
_OURS = re.compile(r"</?details>|<summary>[^<>]*</summary>")


def render(markdown: str, title: str, run_dir: Path) -> str:
    """Return the page of a report; pictures are read from the run's directory."""
    parser = MarkdownIt("commonmark", {"html": True}).enable("table")
    parser.add_render_rule("html_block", _html)
    parser.add_render_rule("html_inline", _html)
    parser.add_render_rule("image", _image)
    parser.add_render_rule("table_open", _table_open)
    parser.add_render_rule("table_close", _table_close)
    # Links lead to files beside report.md, and this file travels alone.
    parser.add_render_rule("link_open", _nothing)
    parser.add_render_rule("link_close", _nothing)
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True)
    body = parser.render(markdown, {"run_dir": run_dir})
    return environment.get_template("report.html.j2").render(title=title, body=body)


def _html(_: RendererHTML, tokens: Sequence[Token], at: int, *__: Any) -> str:
    content, kept, end = tokens[at].content, list[str](), 0
    for ours in _OURS.finditer(content):
        kept += [_escaped(content[end : ours.start()]), ours[0].replace("<details>", "<details open>")]
        end = ours.end()
    return "".join([*kept, _escaped(content[end:])])


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _image(_: RendererHTML, tokens: Sequence[Token], at: int, __: Any, env: dict[str, Any]) -> str:
    token = tokens[at]
    path = env["run_dir"] / str(token.attrs["src"])
    svg = path.with_suffix(".svg")
    chosen, kind = (svg, "svg+xml") if svg.stat().st_size <= LARGEST_SVG else (path, "png")
    data = base64.b64encode(chosen.read_bytes()).decode()
    return f'<img alt="{_escaped(token.content).replace(chr(34), "&quot;")}" src="data:image/{kind};base64,{data}">'


def _table_open(*_: Any) -> str:
    return '<div class="table"><table>\n'


def _table_close(*_: Any) -> str:
    return "</table></div>\n"


def _nothing(*_: Any) -> str:
    return ""

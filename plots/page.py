"""report.md -> report.html: one file with its pictures and a script in it, which opens without a network."""

import base64
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token

from plots.pictures import NARROW

TEMPLATES = Path(__file__).with_name("templates")
LARGEST_SVG = 250_000
"""Bytes; a larger SVG is thousands of lines of hundreds of blocks, and its PNG is put in instead."""
# Everything else that looks like HTML is shown as it was typed.
_METADATA = re.compile(r"\s*<metadata>.*?</metadata>", re.DOTALL)
_NAMED = re.compile(r'(\bid="|xlink:href="#|url\(#)')
_OURS = re.compile(r"</?details>|<summary>[^<>]*</summary>")


def render(markdown: str, title: str, run_dir: Path) -> str:
    """Return the page of a report, what stands before its first section as its first screen.

    Pictures are read from the run's directory.
    """
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
    first, heading, rest = markdown.partition("\n## ")
    screen, body = (parser.render(part, {"run_dir": run_dir}) for part in (first, f"{heading.lstrip()}{rest}"))
    return environment.get_template("report.html.j2").render(title=title, screen=screen, body=body)


def _html(_: RendererHTML, tokens: Sequence[Token], at: int, *__: Any) -> str:
    content, kept, end = tokens[at].content, list[str](), 0
    for ours in _OURS.finditer(content):
        kept += [_escaped(content[end : ours.start()]), ours[0]]
        end = ours.end()
    return "".join([*kept, _escaped(content[end:])])


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _image(_: RendererHTML, tokens: Sequence[Token], at: int, __: Any, env: dict[str, Any]) -> str:
    path = env["run_dir"] / str(tokens[at].attrs["src"])
    alt = _escaped("".join(part.content for part in tokens[at].children or ())).replace('"', "&quot;")
    narrow = path.with_stem(path.stem + NARROW)
    if not narrow.exists():
        return _picture(path, alt, "")
    return _picture(path, alt, "wide") + _picture(narrow, alt, "narrow")


def _picture(path: Path, alt: str, which: str) -> str:
    svg = path.with_suffix(".svg")
    if svg.stat().st_size > LARGEST_SVG:
        data = base64.b64encode(path.read_bytes()).decode()
        return f'<img class="{which}" alt="{alt}" src="data:image/png;base64,{data}">'
    drawn = svg.read_text(encoding="utf-8")
    drawn = _METADATA.sub("", drawn[drawn.index("<svg ") :]).replace(
        "<svg ", f'<svg class="{which}" role="img" aria-label="{alt}" ', 1
    )
    # Each picture names its own parts; on one page a name has to be unique.
    return _NAMED.sub(rf"\1{path.stem}-", drawn)


def _table_open(*_: Any) -> str:
    return '<div class="table"><table>\n'


def _table_close(*_: Any) -> str:
    return "</table></div>\n"


def _nothing(*_: Any) -> str:
    return ""

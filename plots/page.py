"""report.md -> report.html: one file that has its pictures and its script inside and needs no network."""

import base64
import html
import io
import re
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import jinja2
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from PIL import Image

from plots.pictures import NARROW

TEMPLATES = Path(__file__).with_name("templates")
LARGEST_SVG = 250_000
"""Bytes; in place of a larger SVG the page has the PNG, with this number of colours."""
FEW_COLOURS = 64
_METADATA = re.compile(r"\s*<metadata>.*?</metadata>", re.DOTALL)
_NAMED = re.compile(r'(\bid="|xlink:href="#|url\(#)')
# Only these tags are kept; all other HTML is escaped.
_OURS = re.compile(r"</?details>|<summary>[^<>]*</summary>")


def render(markdown: str, title: str, run_dir: Path) -> str:
    """Return the page of a report, with the pictures of the run; the text before the first section is the header."""
    parser = MarkdownIt("commonmark", {"html": True}).enable("table")
    parser.add_render_rule("html_block", _html)
    parser.add_render_rule("html_inline", _html)
    parser.add_render_rule("image", _image)
    parser.add_render_rule("heading_open", _heading)
    fixed = {"table_open": '<div class="table"><table>\n', "table_close": "</table></div>\n"}
    for rule, tag in fixed.items():
        parser.add_render_rule(rule, lambda *_, tag=tag: tag)
    for rule in ("link_open", "link_close"):
        parser.add_render_rule(rule, _link)
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True)
    first, heading, rest = markdown.partition("\n## ")
    screen, body = (parser.render(part, {"run_dir": run_dir}) for part in (first, f"{heading.lstrip()}{rest}"))
    return environment.get_template("report.html.j2").render(title=title, screen=screen, body=body)


def _html(_: RendererHTML, tokens: Sequence[Token], at: int, *__: Any) -> str:
    content = tokens[at].content
    escaped = (html.escape(part, quote=False) for part in _OURS.split(content))
    return "".join(f"{text}{tag}" for text, tag in zip_longest(escaped, _OURS.findall(content), fillvalue=""))


def _link(_: RendererHTML, tokens: Sequence[Token], at: int, *__: Any) -> str:
    # Other links lead to files beside report.md; a reader of this page may not have them.
    opened = next(token for token in reversed(tokens[: at + 1]) if token.type == "link_open")
    where = str(opened.attrs["href"])
    return "" if where[:1] != "#" else f'<a href="{where}">' if tokens[at] is opened else "</a>"


def _heading(_: RendererHTML, tokens: Sequence[Token], at: int, *__: Any) -> str:
    slug = re.sub(r"[^a-z0-9]+", "-", tokens[at + 1].content.lower()).strip("-")
    return f'<{tokens[at].tag} id="{slug}">'


def _image(_: RendererHTML, tokens: Sequence[Token], at: int, __: Any, env: dict[str, Any]) -> str:
    path = (env["run_dir"] / str(tokens[at].attrs["src"])).resolve()
    alt = html.escape("".join(p.content for p in tokens[at].children or ()), quote=False).replace('"', "&quot;")
    # A file below raw/ is a host's own: an SVG of it would run its script in the page.
    if path.parent != env["run_dir"].resolve() / "plots" or not path.with_suffix(".svg").exists():
        return alt
    narrow = path.with_stem(path.stem + NARROW)
    if not narrow.exists():
        return _picture(path, alt, "")
    return _picture(path, alt, "wide") + _picture(narrow, alt, "narrow")


def _picture(path: Path, alt: str, which: str) -> str:
    svg = path.with_suffix(".svg")
    if svg.stat().st_size > LARGEST_SVG:
        few = io.BytesIO()
        Image.open(path).convert("RGB").quantize(FEW_COLOURS).save(few, "png", optimize=True)
        data = base64.b64encode(few.getvalue()).decode()
        return f'<img class="{which}" alt="{alt}" src="data:image/png;base64,{data}">'
    drawn = svg.read_text(encoding="utf-8")
    drawn = _METADATA.sub("", drawn[drawn.index("<svg ") :]).replace(
        "<svg ", f'<svg class="{which}" role="img" aria-label="{alt}" ', 1
    )
    # Ids of a picture's parts have to be unique in the page.
    return _NAMED.sub(rf"\1{path.stem}-", drawn)

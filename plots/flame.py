"""A flame graph of two profiles at once: an SVG that says all without a script, and that report.js zooms into."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from html import escape

LARGEST = 120_000
"""Bytes of one; frames that are too narrow to be seen are left out until it fits."""
_ROW, _LEAST = 17, 0.001
_SAME, _MORE, _LESS = "#eeeeee", ("#fee6ce", "#fdae6b", "#e6550d"), ("#deebf7", "#9ecae1", "#4292c6")
_STEPS = (0.003, 0.01, 0.03)
"""From which share of the whole on a difference is drawn in which colour."""


@dataclass
class Frame:
    """A function where it stands in a stack, with what both sides spend in it and below it."""

    name: str
    baseline: float = 0.0
    candidate: float = 0.0
    inside: dict[str, "Frame"] = field(default_factory=dict)

    @property
    def width(self) -> float:
        """What it takes of both sides."""
        return self.baseline + self.candidate


def tree(sides: tuple[Mapping[tuple[str, ...], float], Mapping[tuple[str, ...], float]]) -> Frame:
    """Lay the stacks of baseline and candidate, outermost function first, over each other."""
    root = Frame("all")
    for side, stacks in zip(("baseline", "candidate"), sides, strict=True):
        for stack, value in stacks.items():
            frames = [root]
            for name in stack:
                frames.append(frames[-1].inside.setdefault(name, Frame(name)))
            for frame in frames:
                setattr(frame, side, getattr(frame, side) + value)
    return root


def drawn(root: Frame, said: Callable[[float, float], str], chance: Callable[[float, float], float]) -> str:
    """Return the picture, outermost functions on top; frames are as wide as what both sides spend in them.

    ``said`` puts both sides' values into words; ``chance`` is how far they may be apart by chance.
    """
    least = _LEAST
    while len(text := _svg(root, said, chance, least)) > LARGEST:
        least *= 1.5
    return text


def _svg(
    root: Frame, said: Callable[[float, float], str], chance: Callable[[float, float], float], least: float
) -> str:
    deepest = 0

    def frame(of: Frame, x: float, width: float, depth: int) -> str:
        nonlocal deepest
        deepest = max(deepest, depth)
        inner, left = [], 0.0
        for one in sorted(of.inside.values(), key=lambda one: one.name):
            if one.width >= least * root.width:
                inner.append(frame(one, left, 100 * one.width / of.width, depth + 1))
            left += 100 * one.width / of.width
        mark, colour = _look(of, root, chance)
        plain = of.name.partition("[go.shape")[0]  # what a generic function is made for may have a path, too
        short = plain.rpartition("/")[2]
        return (
            f'<svg x="{x:.4g}%" y="{_ROW if depth else 0}" width="{width:.4g}%"><title>{escape(of.name)}: '
            f'{said(of.baseline, of.candidate)}</title><rect width="100%" height="{_ROW - 1}" rx="2" fill="{colour}"/>'
            f'<text x="3" y="12">{mark}{escape(short, quote=False)}</text>{"".join(inner)}</svg>'
        )

    body = frame(root, 0.0, 100.0, 0)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" data-flame="" width="100%" style="height:{(deepest + 1) * _ROW}px" '
        f'font-family="sans-serif" font-size="11">{body}</svg>\n'
    )


def _look(of: Frame, root: Frame, chance: Callable[[float, float], float]) -> tuple[str, str]:
    """Return mark and colour: by how much of the whole it is, so that the way to what differs stands out."""
    difference = of.candidate - of.baseline
    size = sum(abs(difference) >= step * max(root.baseline, root.candidate) for step in _STEPS)
    if not size or abs(difference) <= chance(of.baseline, of.candidate):
        return "", _SAME
    return ("▲ ", _MORE[size - 1]) if difference > 0 else ("▼ ", _LESS[size - 1])

"""A flame graph of two profiles: an SVG that needs no script; report.js adds a zoom."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from html import escape

Words = Callable[[float, float], str]
Chance = Callable[[float, float], float]
"""Functions of the values of both sides."""
LARGEST = 120_000
"""Most bytes of a graph; the narrowest frames are left out until it fits."""
_ROW, _LEAST = 17, 0.001
_SAME, _MORE, _LESS = "#eeeeee", ("#fee6ce", "#fdae6b", "#e6550d"), ("#deebf7", "#9ecae1", "#4292c6")
_STEPS = (0.003, 0.01, 0.03)
"""The least share of the whole that a difference has in each colour."""


@dataclass
class Frame:
    """A function in a stack, with the costs of both sides in it and in the functions that it calls."""

    name: str
    baseline: float = 0.0
    candidate: float = 0.0
    inside: dict[str, "Frame"] = field(default_factory=dict)

    @property
    def width(self) -> float:
        """The costs of both sides together."""
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


def drawn(root: Frame, label: Words, chance: Chance) -> str:
    """Return the picture, outermost functions on top; the width of a frame is the cost of both sides.

    ``label`` puts both sides' values into words; ``chance`` returns how far they may be apart by chance.
    """
    least = _LEAST
    while len(text := _svg(root, label, chance, least)) > LARGEST:
        least *= 1.5
    return text


def _svg(root: Frame, label: Words, chance: Chance, least: float) -> str:
    deepest = 0

    def frame(node: Frame, x: float, width: float, depth: int) -> str:
        nonlocal deepest
        deepest = max(deepest, depth)
        inner, left = [], 0.0
        for child in sorted(node.inside.values(), key=lambda child: child.name):
            if child.width >= least * root.width:
                inner.append(frame(child, left, 100 * child.width / node.width, depth + 1))
            left += 100 * child.width / node.width
        mark, colour = _look(node, root, chance)
        # Type arguments of a generic function may have paths, too.
        short = node.name.partition("[go.shape")[0].rpartition("/")[2]
        title = f"{escape(node.name)}: {label(node.baseline, node.candidate)}"
        return (
            f'<svg x="{x:.4g}%" y="{_ROW if depth else 0}" width="{width:.4g}%"><title>{title}</title>'
            f'<rect width="100%" height="{_ROW - 1}" rx="2" fill="{colour}"/>'
            f'<text x="3" y="12">{mark}{escape(short, quote=False)}</text>{"".join(inner)}</svg>'
        )

    body = frame(root, 0.0, 100.0, 0)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" data-flame="" width="100%" style="height:{(deepest + 1) * _ROW}px" '
        f'font-family="sans-serif" font-size="11">{body}</svg>\n'
    )


def _look(frame: Frame, root: Frame, chance: Chance) -> tuple[str, str]:
    """Return mark and colour by the difference's share of the whole: they mark the path to the difference."""
    difference = frame.candidate - frame.baseline
    size = sum(abs(difference) >= step * max(root.baseline, root.candidate) for step in _STEPS)
    if not size or abs(difference) <= chance(frame.baseline, frame.candidate):
        return "", _SAME
    return ("▲ ", _MORE[size - 1]) if difference > 0 else ("▼ ", _LESS[size - 1])

"""The sections of a report: each module declares its own, with their places and the reports that have them."""

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass

from plots.pictures import Pictures
from plots.source import Shape, Source

Make = Callable[[Source, Pictures], str]


@dataclass(frozen=True)
class Section:
    """A part of a report below a title; `make` returns an empty text if the run has no data for it."""

    title: str
    order: int
    shapes: tuple[Shape, ...]
    make: Make


_SECTIONS: list[Section] = []


def heading(title: str, order: int, *shapes: Shape) -> Callable[[Make], Make]:
    """Make a function a section: `order` is where it stands, `shapes` are the reports that have it (or all)."""

    def add(make: Make) -> Make:
        _SECTIONS.append(Section(title, order, shapes, make))
        return make

    return add


def sections(source: Source) -> list[Section]:
    """Return the sections of a run's report in their order."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    of_shape = (section for section in _SECTIONS if not section.shapes or source.shape in section.shapes)
    return sorted(of_shape, key=lambda section: section.order)

"""Pictures of a report: each is drawn into plots/ as SVG and PNG, and shown where its section wants it."""

from dataclasses import dataclass, field
from pathlib import Path

from matplotlib.figure import Figure

from plots.charts import style
from tsduel.core import files

NARROW = "-narrow"


@dataclass(frozen=True)
class Pictures:
    """The pictures of one report; `missing` are the names of those that there is no data for."""

    run_dir: Path
    missing: list[str] = field(default_factory=list)

    def show(
        self, file: str, name: str, alt: str, caption: str, figure: Figure | None, *, narrow: Figure | None = None
    ) -> str:
        """Draw a picture and return it as Markdown; without a figure note that it is missing, and return nothing.

        `alt` is Markdown. A narrow one takes its place where report.html is read on a phone.
        What an earlier report has drawn from other data does not stay.
        """
        path = self.run_dir / "plots" / file
        for old in (file, file + NARROW):
            for suffix in (".svg", ".png"):
                path.with_name(old + suffix).unlink(missing_ok=True)
        if figure is None:
            self.missing.append(name)
            return ""
        style.save(figure, path)
        if narrow is not None:
            style.save(narrow, path.with_name(file + NARROW))
        # One paragraph, so that the caption stays below its picture wherever that is put.
        return f"[![{alt}](plots/{file}.png)](plots/{file}.svg)\\\n{caption}"

    def keep(self, file: str, alt: str, caption: str, svg: str) -> str:
        """Write an SVG of ours that has no other form, and return it as Markdown."""
        (self.run_dir / "plots").mkdir(exist_ok=True)
        files.write(self.run_dir / f"plots/{file}.svg", svg)
        return f"[![{alt}](plots/{file}.svg)](plots/{file}.svg)\\\n{caption}"

"""Pictures of a report: files in plots/, as SVG and PNG, and the Markdown that shows them."""

from dataclasses import dataclass, field
from pathlib import Path

from matplotlib.figure import Figure

from plots.charts import style
from tsduel.core import files

NARROW = "-narrow"


@dataclass(frozen=True)
class Pictures:
    """The pictures of a report; `missing` are the names of those without data."""

    run_dir: Path
    missing: list[str] = field(default_factory=list)

    def show(
        self, file: str, name: str, alt: str, caption: str, figure: Figure | None, *, narrow: Figure | None = None
    ) -> str:
        """Draw a picture and return it as Markdown; without a figure add it to `missing` and return an empty text.

        `alt` is Markdown. A phone shows the `narrow` figure in report.html. Files of an earlier report are
        deleted.
        """
        path = self.run_dir / "plots" / file
        for suffix in (".svg", ".png", f"{NARROW}.svg", f"{NARROW}.png"):
            path.with_name(file + suffix).unlink(missing_ok=True)
        if figure is None:
            self.missing.append(name)
            return ""
        style.save(figure, path)
        if narrow is not None:
            style.save(narrow, path.with_name(file + NARROW))
        # Keep picture and caption in one paragraph.
        return f"[![{alt}](plots/{file}.png)](plots/{file}.svg)\\\n{caption}"

    def keep(self, file: str, alt: str, caption: str, svg: str) -> str:
        """Write an SVG that has no PNG, and return it as Markdown."""
        (self.run_dir / "plots").mkdir(exist_ok=True)
        files.write(self.run_dir / f"plots/{file}.svg", svg)
        return f"[![{alt}](plots/{file}.svg)](plots/{file}.svg)\\\n{caption}"

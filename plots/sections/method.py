"""How it was measured and what it does not show, from plots/templates; and how to do it again."""

from collections.abc import Callable
from pathlib import Path

import jinja2
import yaml

from plots import markup, numbers
from plots.pictures import Pictures
from plots.sections import compared
from plots.source import Source
from tsduel.core.wording import number_of

_TEXTS = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parents[1] / "templates"),
    autoescape=False,  # noqa: S701 - Markdown, which is no HTML; what people wrote is escaped where it is put in
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=jinja2.StrictUndefined,
)


def text(name: str, summary: str = "") -> Callable[[Source, Pictures], str]:
    """Return a section that is a template of plots/templates, with the plan and the machine; folded with a summary."""

    def section(source: Source, _: Pictures) -> str:
        calibration = source.run.of_any_host("calibration.json")

        def counts(key: str) -> str:
            found = ", ".join(f"{of} {numbers.count(n)}" for of, n in (calibration.get(key) or {}).items())
            return f" Counts: {found}." if found else ""

        found = _TEXTS.get_template(f"{name}.md.j2").render(
            plan=source.plan, host={"cpus": source.host.get("cpus")}, rows=calibration.get("rows") or [], counts=counts,
            count=numbers.count, code=markup.code, number_of=number_of,
        )  # fmt: skip
        return markup.folded(summary, found) if summary else found

    return section


def reproduce(source: Source, _: Pictures) -> str:
    """Return the command, what has to be the same, the experiment as it was written, and where the figures are."""
    asked, imported = source.plan.asked, source.plan.imported
    written = yaml.safe_dump(asked.written, sort_keys=False, allow_unicode=True, width=110) if asked.written else ""
    logs = imported.logs.items() if imported else ()
    named = [] if imported else [(v.name, v.label, source.revision(v.name)) for v in source.plan.variants]
    return markup.paragraphs(
        compared.command(source),
        markup.folded("What has to be the same, and where the figures are", markup.items([
            *(f"{name}: a log with sha256 {markup.code(log.sha256)}" for name, log in logs),
            *(f"{name}: {markup.text(label)} is {markup.code(revision)}" for name, label, revision in named),
            f"tsduel {markup.text(compared.own(source))}",
        ]),
        written and f"{asked.experiment or 'the experiment'} as it was read, before knobs:",
        written and markup.block(written, "yaml"),
        "The figures behind this page: `tidy/measurements.csv` and `tidy/pairs.csv` (a line a block and metric), "
        "`stats/comparison.csv` (a line a metric), `tidy/checks.csv`; all of them from `raw/`, again with "
        f"`make tidy compare report RUN={source.run.path.name}`."),
    )  # fmt: skip

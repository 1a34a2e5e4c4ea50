"""The method, its limits (both from plots/templates), and the command that repeats the run."""

from pathlib import Path

import jinja2
import yaml

from plots import markup, numbers
from plots.pictures import Pictures
from plots.sections import heading, sides
from plots.source import Source
from tsduel.core.wording import number_of

_TEXTS = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parents[1] / "templates"),
    autoescape=False,  # noqa: S701 - Markdown, which is no HTML; what people wrote is escaped where it is put in
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=jinja2.StrictUndefined,
)
SAME_ANYWHERE = (
    "the kind of machine: data, queries and the order of blocks are the same anywhere (seeds are in "
    "`plan/experiment.json`), times are not"
)
_OWN = {"upgrade": "upgrade-", "gobench": "bench-"}
"""The beginning of the names of templates, for reports that have their own."""


@heading("How it was measured", 90)
def method(source: Source, _: Pictures) -> str:
    """Return the method of the plan on this machine, folded."""
    return markup.folded("Blocks, phases and statistics", _text(source, "method"))


@heading("Limitations", 92)
def limits(source: Source, _: Pictures) -> str:
    """Return the limits of the figures."""
    return _text(source, "limits")


def _text(source: Source, name: str) -> str:
    calibration = source.run.of_any_host("calibration.json")

    def counts(key: str) -> str:
        each = ", ".join(f"{markup.text(name)} {numbers.count(n)}" for name, n in (calibration.get(key) or {}).items())
        return f" Counts: {each}." if each else ""

    cpus, servers = source.run.host.get("cpus"), sides.cpus_of_servers(source)
    rows = calibration.get("rows") or []
    host = {"cpus": cpus, "servers": servers if servers < (cpus or 0) else 0}
    return _TEXTS.get_template(f"{_OWN.get(source.shape, '')}{name}.md.j2").render(
        plan=source.plan, host=host, rows=rows, counts=counts,
        operations=[row["count"] * (row.get("parts") or 1) for row in rows],
        turned=sum((row.get("parts") or 1) > 1 for row in rows),
        count=numbers.count, code=markup.code, number_of=number_of,
    )  # fmt: skip


@heading("How to reproduce", 91)
def reproduce(source: Source, _: Pictures) -> str:
    """Return the command, the revisions and environment, the experiment as written, and the files of figures."""
    asked = source.plan.asked
    written = yaml.safe_dump(asked.written, sort_keys=False, allow_unicode=True, width=110) if asked.written else ""
    go = sides.in_common(source).get("Go", "")
    environment = ", ".join(markup.code(name) for name in sorted(source.run.host.get("environment") or {}))
    return markup.paragraphs(
        sides.command(source.plan.kind, asked),
        markup.folded("What has to be the same, and where the figures are", markup.items([
            *(
                f"{v.name}: {markup.text(v.label)} is {markup.code(source.revision(v.name))}"
                for v in source.plan.variants
            ),
            f"tsduel {markup.text(sides.own(source))}",
            *([f"Go: {markup.text(go)}"] if go else []),
            SAME_ANYWHERE,
            *([f"the environment of servers: {environment}"] if environment else []),
        ]),
        written and f"{asked.experiment or 'the experiment'} as it was read, before knobs:",
        written and markup.block(written, "yaml"),
        "The figures behind this page: `tidy/measurements.csv` and `tidy/pairs.csv` (a line a block and metric), "
        "`stats/comparison.csv` (a line a metric), `tidy/checks.csv`; all of them from `raw/`, again with "
        f"`make tidy compare report RUN={source.run.path.name}`."),
    )  # fmt: skip

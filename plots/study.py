"""A compared study of settings, for its report: a source that has the comparisons of all of its runs."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from plots import markup, sentences
from plots.source import Source, open_source
from tsduel.core.errors import UserError
from tsduel.core.files import read_json
from tsduel.core.metrics import Metric
from tsduel.studies.growth import PER_SAMPLE

NS = 1e9
Figures = Mapping[tuple[str, str], str]
"""Metric and query type -> title, of the figures of a table or a picture."""


@dataclass(frozen=True, eq=False)
class Settings(Source):
    """A compared study: as a source it has the run of its first setting, and the comparisons of all.

    `sources`: those of the settings whose runs were compared, with the rows of the study.
    """

    sources: dict[str, Source] = field(default_factory=dict)

    @property
    def query_types(self) -> list[str]:
        """Names of the query types of all settings."""
        return list(dict.fromkeys(name for source in self.sources.values() for name in source.query_types))


def open_settings(directory: Path) -> Settings:
    """Open a compared study; one that is not compared raises UserError with the command to run first."""
    if not (directory / "stats/comparison.json").exists():
        raise UserError(f"{directory} is not compared: run `make compare RUN={directory.name}` first")
    document, sources = read_json(directory / "stats/comparison.json"), dict[str, Source]()
    for each in document["settings"]:
        if each["compared"]:
            source, name = open_source(directory.with_name(each["run"])), each["name"]
            rows = [row for row in document["rows"] if row["setting"] == name]
            own = [
                replace(side, setting=name, rows=[row for row in rows if row["candidate"] == side.candidate])
                for side in source.comparisons
            ]
            sources[name] = replace(source, comparisons=own)
    every = [*sources.values()]
    return Settings(
        run=every[0].run,
        document=document,
        metrics={name: metric for source in every for name, metric in source.metrics.items()},
        # A label that differs between settings is none: the variant's name is.
        labels={
            name: label if all(source.labels[name] == label for source in every) else name
            for name, label in every[0].labels.items()
        },
        comparisons=[side for source in every for side in source.comparisons],
        sources=sources,
    )


def figures_of(study: Settings) -> Figures:
    """Return the figures that the answers are about."""
    return {key: title_of(study, *key) for key in sentences.keys(study.comparisons)}


def title_of(study: Settings, metric: str, query_type: str) -> str:
    """Return the title of a figure."""
    row = next(row for comparison in study.comparisons if (row := comparison.row(metric, query_type)))
    return f"{study.comparisons[0].named(row)}{' a sample' if metric in PER_SAMPLE else ''}"


def unit_of(metric: Metric, samples: int | None) -> tuple[str, float]:
    """Return the unit of a figure and its factor; some metrics are divided by the stored samples."""
    if metric.name not in PER_SAMPLE or not samples:
        return metric.unit, 1.0
    return ("ns", NS / samples) if metric.unit == "s" else (metric.unit, 1 / samples)


def samples_of(study: Settings) -> dict[str, int | None]:
    """Return the samples that each setting stores, if it stores any."""
    loads = {name: source.plan.workload for name, source in study.sources.items()}
    return {name: load.samples if load else None for name, load in loads.items()}


def short_name(setting: str) -> str:
    """Return e2-standard-8 for machine=e2-standard-8; a setting of several keys stays whole."""
    return markup.text(setting if " " in setting else setting.removeprefix("machine="))

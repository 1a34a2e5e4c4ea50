"""results/worst/NAME -> report.md, map.{svg,png} and worst-1.yml: the load in which the candidate loses most."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from plots import markup
from plots.charts.style import save
from plots.charts.worst import worst_map
from tsduel.core import files
from tsduel.core.errors import UserError
from tsduel.core.wording import number_of
from tsduel.worst import search
from tsduel.worst.probes import experiment, percent
from tsduel.worst.search import Point, Probe, Worst

MOST_TOLD = 12


def main(environment: Mapping[str, str], results: Path) -> str:
    """Write the report of a search, its map and the experiments of the finalists; return the report."""
    directory = results / search.HOME / environment.get("RUN", "")
    study = Worst.load(directory)
    if search.best_of(study) is None:
        why = next((probe.failed for probe in study.probes if probe.failed), "none has ended")
        raise UserError(f"{directory}: no load could be measured: {why}")
    fields = {name: [_word(value) for value in key.every] for name, key in study.space.items()}
    points = [
        (probe.at, percent(study, probe.middle), probe.why == "confirm") for probe in study.probes if probe.values
    ]
    title = f"{study.followed.name}: change over each field, all probes"
    save(worst_map(fields, points, title, study.sign * study.followed.threshold_pct), directory / "map.svg")
    anew = _ranked(study)
    for number, (probe, _) in enumerate(anew, 1):
        if number > 1 and probe.at == study.usual:
            continue
        files.write(directory / f"worst-{number}.yml", experiment(study, probe.at, number, directory))
    text = report(study, anew)
    files.write(directory / "report.md", text)
    return f"{text}\nKept in {directory}: report.md, map.svg, map.png, worst-1.yml\n"


def _ranked(study: Worst) -> list[tuple[Probe, float | None]]:
    """Return what was measured anew, the answer first; the usual load is the last one, unless it is the answer."""
    anew, found = list(search.confirmed(study)), search.answer(study)
    return [*anew[-1:], *anew[:-1]] if found and found[0].at == study.usual else anew


def report(study: Worst, anew: list[tuple[Probe, float | None]]) -> str:
    """Return the report as Markdown."""
    rows = [
        [
            f"{'' if number > 1 and probe.at == study.usual else f'worst-{number}.yml: '}{_load(study, probe.at)}",
            _change(study, probe), "" if p is None else f"{p:.2g}", probe.run,
        ]
        for number, (probe, p) in enumerate(anew, 1)
    ]  # fmt: skip
    ranked = sorted((probe for probe in study.searched if probe.values), key=lambda probe: -probe.middle)
    tried = [[_load(study, probe.at), _change(study, probe), probe.why, probe.run] for probe in ranked[:MOST_TOLD]]
    failed = [probe for probe in study.probes if probe.failed]
    left_out = [f"{_load(study, probe.at)}: {markup.text(probe.failed)}" for probe in failed[:MOST_TOLD]]
    heads = ["load", f"{study.followed.name}, change", "p, adjusted", "run"]
    return (
        markup.paragraphs(
            f"# In which load is it {study.given.get('FOR', 'worse')}? {markup.text(study.followed.name)}",
            f"**Answer.** {answer(study, anew)}",
            markup.table(heads, rows, range(1, 3)) if rows else "",
            "![the change over each field](map.png)",
            "Small circles: probes, which chose. Filled: measured anew, by other blocks. Dashed: the threshold.",
            f"{number_of(len(study.searched), 'probe')} of {study.minutes:g} minutes. Those that showed most:",
            markup.table(["load", "change", "why", "run"], tried, range(1, 2)),
            markup.titled(f"**Left out** ({number_of(len(failed), 'load')}):", markup.items(left_out)),
            "It is a lower bound: a load that was not probed may be worse.",
        )
        + "\n"
    )


def answer(study: Worst, anew: list[tuple[Probe, float | None]]) -> str:
    """Return what was found in a sentence, and the field that it takes."""
    wanted = study.given.get("FOR", "worse")
    if not anew:
        return "The search has not come to an end."
    if (found := search.answer(study)) is None:
        if not any(probe.values for probe, _ in anew):
            return "What was measured anew has no figure: see the loads that are left out."
        return (
            f"No load was found in which it is {wanted} by {study.followed.threshold_pct:g} % and by more than chance."
        )
    probe, p = found
    usual = next((_change(study, each) for each, _ in anew if each.at == study.usual), "not measured")
    if probe.at == study.usual:
        return f"{_change(study, probe)} (p {p:.2g}) with the usual load, and no load was found that is {wanted}."
    keys = " and ".join(f"`{key}`" for key in search.named_keys(study, probe))
    named = f" What it takes: {keys}; the usual value there takes a half of it away, or more." if keys else ""
    return f"{_change(study, probe)} (p {p:.2g}) with {_load(study, probe.at)}; with the usual load {usual}.{named}"


def _change(study: Worst, probe: Probe) -> str:
    if not probe.values:
        return "failed"
    return f"{percent(study, probe.middle):+.1f} %"


def _load(study: Worst, at: Point) -> str:
    fields = study.fields(at)
    return ", ".join(f"{name}={_word(value)}" for name, value in fields.items()) or "the usual load"


def _word(value: Any) -> str:
    return "none" if value is None else " ".join(map(str, value)) if isinstance(value, list) else str(value)

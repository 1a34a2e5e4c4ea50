"""How figures grow over settings: powers in words, pictures on logarithmic axes, and the table of exponents."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from plots import markup, numbers
from plots.charts.scaling import Panel, scaling
from plots.pictures import Pictures
from plots.sections import blocks
from plots.study import Figures, Settings, figures_of, samples_of, title_of, unit_of
from tsduel.core.metrics import GEOMEAN

MOST_LINES, MOST_PANELS = 6, 12
"""Lines that have a picture, figures in a picture."""
Fit = Mapping[str, Any]


def growth(study: Settings) -> list[str]:
    """Return a paragraph for each line: the exponents of each subject along it, for every variant."""
    paragraphs = []
    for at, line in enumerate(study.document["lines"][:MOST_LINES]):
        parts = []
        for key, title in figures_of(study).items():
            fits = _fits(study, at, *key)
            powers: dict[str, list[str]] = {}
            for variant, fit in fits.items():
                powers.setdefault(_power(line["name"], fit), []).append(markup.text(study.labels[variant]))
            each = "; ".join(f"{text} for {' and '.join(names)}" for text, names in powers.items())
            parts += [f"**{markup.text(title)}** {_verb(list(fits.values()))} {each}"] if fits else []
        beside = markup.aside(markup.text(line["beside"]))
        paragraphs.append(markup.titled(f"How it grows by {line['name']}{beside}:", markup.items(parts)))
    return paragraphs


def _verb(fits: Sequence[Fit]) -> str:
    if all(fit["lo"] is not None and fit["lo"] > 0 for fit in fits):
        return "grows as"
    return "falls as" if all(fit["hi"] is not None and fit["hi"] < 0 for fit in fits) else "changes as"


def _power(axis: str, fit: Fit) -> str:
    """Return an exponent with its interval: scale^0.12 (0.09 to 0.15); a bent line has the exponents of both ends."""
    bent = f"; bent: ^{_two(fit['first'])} at first, ^{_two(fit['last'])} at the end" if fit["bent"] else ""
    return f"{axis}^{_two(fit['exponent'])} ({_interval(fit) or 'no interval'}{bent})"


def _two(value: float) -> str:
    """Return two decimals; no minus before a zero."""
    return f"{round(value, 2) + 0.0:.2f}"


def _interval(fit: Fit) -> str:
    return "" if fit["lo"] is None else f"{_two(fit['lo'])} to {_two(fit['hi'])}"


def _fits(study: Settings, line: int, metric: str, query_type: str) -> dict[str, Fit]:
    wanted = (line, metric, query_type)
    fits = [fit for fit in study.document["fits"] if (fit["line"], fit["metric"], fit["query_type"]) == wanted]
    return {name: fit for name in study.labels for fit in fits if fit["variant"] == name}


def pictures_of(study: Settings, pictures: Pictures, figures: Figures, file: str) -> Iterator[str]:
    """Draw a picture a line; without a line (no key is numeric) one picture of all settings side by side."""
    lines = study.document["lines"][:MOST_LINES]
    names = list(study.sources)
    whole = [{"name": "", "beside": "", "settings": names, "at": list(map(float, range(len(names))))}]
    for at, line in enumerate(lines or whole):
        panels = []
        for (name, query_type), title in list(figures.items())[:MOST_PANELS]:
            metric, values = study.metrics[name], _values(study, line, name, query_type)
            if not values.empty and (values["value"] > 0).all():
                fits = _fits(study, at, name, query_type) if lines else {}
                words = {variant: _drawn(line["name"], fit) for variant, fit in fits.items()}
                panels.append(Panel(title, unit_of(metric, 1)[0], metric.better, words, values))
        settings = dict(zip(line["at"], line["settings"], strict=True))
        of_types = all(metric == "duel_typical_ms" and t != GEOMEAN for metric, t in figures)
        what = "Query time" if of_types else "Figures"
        wide, narrow = (
            scaling(panels, line["name"], settings, study.labels, what, narrow=narrow) if panels else None
            for narrow in (False, True)
        )
        by = f"by {line['name']}{markup.aside(markup.text(line['beside']))}" if line["name"] else "by setting"
        yield pictures.show(
            f"{file}-{at + 1}" if len(lines) > 1 else file, f"figures {by}", f"Figures {by}: {study.names}",
            "A point is a block, a line joins the medians. On these axes a power law is a straight line. An exponent "
            "has its 95 % interval beside it."
            if lines else "A point is a block, a bar is the median of a setting.",
            wide, narrow=narrow,
        )  # fmt: skip


def _drawn(axis: str, fit: Fit) -> str:
    return f"{axis}$^{{{_two(fit['exponent'])}}}${markup.aside(_interval(fit))}{', bent' if fit['bent'] else ''}"


def _values(study: Settings, line: Mapping[str, Any], metric: str, query_type: str) -> pd.DataFrame:
    """Return columns at, setting, variant, block, value of the blocks that count."""
    parts, samples = [], samples_of(study)
    for at, name in zip(line["at"], line["settings"], strict=True):
        source = study.sources[name]
        of_setting = source.counting(blocks.values_of(source, metric, query_type)).assign(setting=name)
        parts.append(
            of_setting.assign(at=at, value=of_setting["value"] * unit_of(study.metrics[metric], samples[name])[1])
        )
    return pd.concat(parts)


def exponents(study: Settings) -> Iterator[str]:
    """Yield a table a line: the exponents of each variant and of each ratio, whose sign shows if a gap opens."""
    baseline, *candidates = study.labels
    for at, line in enumerate(study.document["lines"]):
        fits: dict[tuple[str, str], dict[str, Fit]] = {}
        for fit in study.document["fits"]:
            if fit["line"] == at:
                column = fit["variant"] or f"/{fit['candidate']}"
                fits.setdefault((fit["metric"], fit["query_type"]), {})[column] = fit
        columns = [baseline, *candidates, *(f"/{name}" for name in candidates)]
        rows = [
            [title_of(study, *key), *(_short(of_series.get(column)) for column in columns)]
            for key, of_series in fits.items()
            if any((row := side.row(*key)) and row["family"] != "shown" for side in study.comparisons)
        ]
        head = [f"Exponent of {line['name']}{', ' + line['beside'] if line['beside'] else ''}", *study.labels.values()]
        head += [f"{study.labels[name]} / {study.labels[baseline]}" for name in candidates]
        yield markup.table(head, rows, range(1, len(head)))
    if study.document["lines"]:
        yield (
            "Least squares on logarithms, a slope for each round (the k-th block of each run); estimate "
            "(Hodges-Lehmann) and exact 95 % interval over the rounds' slopes. *bent*: the slopes at both ends differ "
            "by more than chance, so that one exponent says little. Intervals are not adjusted for their number."
        )


def _short(fit: Fit | None) -> str:
    if fit is None:
        return numbers.MISSING
    bent = f", bent: {_two(fit['first'])} to {_two(fit['last'])}" if fit["bent"] else ""
    return f"{_two(fit['exponent'])}{markup.aside(_interval(fit))}{bent}"

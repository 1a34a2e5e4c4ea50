"""stats/ + tidy/ + plan -> exports/: the figures of a run in formats that other tools read (results/README.md).

What feeds alerts elsewhere (github-action-benchmark, Bencher, Otava) is written for what may be taken for a result:
not for a smoke run, an A/A run, imported logs or keys of Go benchmarks as columns. A screen's names say that it is
one, so that it never joins the results of the same experiment.
"""

import json
import shutil
from pathlib import Path

from plots.exports import openmetrics, otava, trackers
from plots.source import Source, open_source

_NO_RESULT = {
    "smoke": "a smoke run is no result",
    "aa": "an A/A run has no candidate",
    "imported": "imported logs are one run each",
}
_SWEPT = "a sweep is asked once, and its cells are no series"
_ONE_REVISION = "with a pivot there is one revision, and no candidate"


def main(run_dir: Path) -> str:
    """Write results/RUN/exports anew, and return the sentence that says where they are."""
    source = open_source(run_dir)
    out, partial = run_dir / "exports", run_dir / "exports.partial"
    for old in (partial, out):
        shutil.rmtree(old, ignore_errors=True)
    partial.mkdir()
    for variant in ("baseline",) if source.pivoted else source.run.variants:
        shutil.copyfile(run_dir / f"stats/{variant}.bench.txt", partial / f"{variant}.bench.txt")
    (partial / "openmetrics.txt").write_text(openmetrics.text(source), encoding="utf-8")
    why = _NO_RESULT.get(source.standing) or (_ONE_REVISION if source.pivoted else _SWEPT if source.plan.sweeps else "")
    why = why or ("" if any(one.valid for one in source.comparisons) else "no block counts")
    if not why:
        for name, text in _for_trackers(source).items():
            (partial / name).write_text(text, encoding="utf-8")
    partial.replace(out)
    return f"Exports: {out}" + (f" (without those that feed alerts: {why})" if why else "")


def _for_trackers(source: Source) -> dict[str, str]:
    documents = {
        "smaller-is-better.json": trackers.github_action_benchmark(source, "lower"),
        "bigger-is-better.json": trackers.github_action_benchmark(source, "higher"),
        "bencher.json": trackers.bencher(source),
    }
    texts = {
        name: json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        for name, document in documents.items()
        if document  # an empty list is an error to who reads it
    }
    return texts | otava.files(source)

"""stats/ + tidy/ + plan -> exports/: the figures of a run in formats that other tools read (results/README.md).

Files that feed alerts (github-action-benchmark, Bencher, Otava) are written for results and screens only: not
for a smoke run, an A/A run or a pivot. A screen has names of its own, so that it never joins the
results.
"""

import json
import shutil
from pathlib import Path

from plots.exports import openmetrics, otava, trackers
from plots.source import Source, open_source
from tsduel.core import files

_NO_RESULT = {"smoke": "a smoke run is no result", "aa": "an A/A run has no candidate"}
_ONE_REVISION = "with a pivot there is one revision, and no candidate"


def main(run_dir: Path) -> str:
    """Write results/RUN/exports anew, and return a sentence with the path."""
    source = open_source(run_dir)
    out, partial = run_dir / "exports", files.partial_of(run_dir / "exports")
    shutil.rmtree(out, ignore_errors=True)
    partial.mkdir()
    for variant in ("baseline",) if source.pivoted else source.run.variants:
        shutil.copyfile(run_dir / f"stats/{variant}.bench.txt", partial / f"{variant}.bench.txt")
    (partial / "openmetrics.txt").write_text(openmetrics.text(source), encoding="utf-8")
    why = _NO_RESULT.get(source.standing) or (_ONE_REVISION if source.pivoted else "")
    why = why or ("" if any(side.valid for side in source.comparisons) else "no block counts")
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
    filled = {name: document for name, document in documents.items() if document}  # trackers refuse an empty list
    texts = {name: json.dumps(d, indent=1, ensure_ascii=False, allow_nan=False) + "\n" for name, d in filled.items()}
    return texts | otava.files(source)

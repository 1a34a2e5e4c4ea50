"""The differences between the variants, and the identity of variants, machine and data."""

import hashlib
import json
import shlex
from typing import Any

from plots import markup, numbers
from plots.pictures import Pictures
from plots.sections import heading
from plots.source import Source
from tsduel.core.plan import Asked, Component, Variant
from tsduel.workloads.tsbs.queries import SERIES_A_HOST

_HASH, _SHORT = 20, 12


@heading("What differs", 10)
def section(source: Source, _: Pictures) -> str:
    """Return the table of differences with short hashes, and a fold with everything in full."""
    differ, head = differences(source), ["", *columns(source)]
    return markup.paragraphs(
        markup.table(head, [list(map(_short, row)) for row in differ]) or "The variants do not differ.",
        markup.folded(
            "In full: revisions, hashes, machine and data",
            markup.table(head, differ),
            markup.table(["In common", ""], [*map(list, in_common(source).items()), *machine(source)]),
        ),
    )


def columns(source: Source) -> list[str]:
    """Return the labels of the builds; a pivot has one build."""
    return [source.plan.variants[0].label] if source.pivoted else list(source.labels.values())


def identities(source: Source) -> list[tuple[str, list[str]]]:
    """Return the facts that identify the variants: names with a value for each variant, except all-empty ones."""
    variants = source.plan.variants[:1] if source.pivoted else [source.plan.variant(name) for name in source.labels]
    described = [_variant(source, variant) for variant in variants]
    keys = list(dict.fromkeys(key for facts in described for key in facts))
    rows = [(key, [facts.get(key, "") for facts in described]) for key in keys]
    return [(key, [value or "none" for value in values]) for key, values in rows if any(values)]


def differences(source: Source) -> list[list[str]]:
    """Return the facts in which the variants differ: a name, then the value of each."""
    return [[name, *values] for name, values in identities(source) if len(set(values)) > 1]


def in_common(source: Source) -> dict[str, str]:
    """Return the facts that all variants share."""
    return {name: values[0] for name, values in identities(source) if len(set(values)) == 1}


def cpus_of_servers(source: Source) -> int:
    """Return on how many CPUs each server was pinned in the duel; 0 where it was not."""
    return len((source.run.host.get("pin") or {}).get("server") or ()) if source.plan.duels else 0


def _variant(source: Source, variant: Variant) -> dict[str, str]:
    build = source.run.json(f"build/{variant.name}.json")
    facts = {
        "database": variant.target if source.plan.targets else "",
        "package": variant.package,
        "benchmarks": variant.bench,
    }
    built = build.get("components") or [build]
    for at, component in enumerate(variant.components):
        role = f"{component.role}: " if source.plan.roles else ""
        own = _component(component, build | (built[at] if at < len(built) else {}))
        facts |= {f"{role}{key}": value for key, value in own.items()}
    return facts


def _component(component: Component, build: dict[str, str]) -> dict[str, str]:
    env = " ".join(f"{key}={value}" for key, value in component.env.items())
    return {
        "version": component.version or component.ref,
        "source": " ".join(filter(None, (component.source, component.repo, component.path, component.url))),
        "flags": markup.code(shlex.join(component.flags)) if component.flags else "",
        "environment": markup.code(env) if env else "",
        "files": ", ".join(
            f"{markup.text(name)} (sha256 {hashlib.sha256(text.encode()).hexdigest()[:_SHORT]})"
            for name, text in component.files.items()
        ),
        "Go": str(build.get("go_version") or ""),
        "revision": str(build.get("revision") or component.revision),
        "local changes (sha256 of the diff)": component.dirty,
        "sha256 of the binary": str(build.get("sha256") or ""),
    }


def _short(value: str) -> str:
    hexadecimal = len(value) > _HASH and " " not in value and value.isalnum()
    return f"{value[:_SHORT]}…" if hexadecimal else value


def machine(source: Source) -> list[list[str]]:
    """Return names and values of the machine, the data and the tools, except those that were not recorded."""
    host, run = source.run.host, source.run
    named = (run.node_of(name) or run.plan.machine_of(name) for name in run.machines)
    machines = dict.fromkeys(named) or [run.plan.host.machine]
    models = dict.fromkeys(str(facts.get("cpu_model") or "") for facts in run.machines.values())
    pin = (host.get("pin") or {}) if source.plan.duels else {}
    pins = [(role, pin.get(role)) for role in ("server", "client") if pin.get("server")]
    pinned = ", ".join(f"{role} on CPU {', '.join(map(str, cpus))}" for role, cpus in pins if cpus)
    limit = f", limited to {host['cpu_limit']:g}" if host.get("cpu_limit") else ""
    made = run.of_any_host("workload.json")
    hashes = [(file["format"], file["sha256"]) for file in made.get("data") or []]
    facts = [
        ("machine", ", ".join(filter(None, [*machines, str(host.get("virtualization") or "")]))),
        ("CPU", f"{' | '.join(models)}, {host.get('cpus', '?')} CPUs{limit}" if any(models) else ""),
        ("pins in the duel", _pins(pinned, pin)),
        ("memory", numbers.quantity(host["memory_bytes"]) if host.get("memory_bytes") else ""),
        *((key, str(host.get(key) or "")) for key in ("kernel", "os", "filesystem")),
        ("not seen from the pod", _unseen(source)),
        ("GOMAXPROCS (-cpu)", str(run.of_any_host("calibration.json").get("cpu") or "")),
        ("module", source.plan.gobench.module if source.plan.gobench else ""),
        ("data", _data(source)),
        *((f"sha256 of the data ({name})", str(digest)) for name, digest in hashes),
        ("TSBS", source.plan.tsbs.version if source.plan.tsbs else ""),
        ("tsduel", own(source)),
    ]  # fmt: skip
    return [[name, value] for name, value in facts if value]


def _unseen(source: Source) -> str:
    """Return what a pod may not read of its node: nothing is guessed in its place."""
    if not source.plan.place.in_pods:
        return ""
    unseen = ["processes of others and threads of the kernel (foreign CPU has both)"]
    signals = set(source.table("noise").get("signal", []))
    unseen += [f"pressure ({name})" for name in ("cpu", "io", "memory") if f"pressure_{name}_pct" not in signals]
    facts = {"virtualization": "whether the node is virtual", "governor": "the governor of its clock rate"}
    return ", ".join([*unseen, *(text for name, text in facts.items() if not source.run.host.get(name))])


def _pins(pinned: str, pin: dict[str, Any]) -> str:
    if not pinned:
        return f"none: {pin['reason'] or pin['mode']}" if pin else ""
    return f"{pinned} ({pin['reason']})" if pin["reason"] else pinned


def asked(source: Source) -> str:
    """Return a sentence about the data of a run: how much of what; empty without data."""
    work = source.plan.workload
    if work is None:
        return ""
    if work.own_data:
        return f"Data: {markup.text(work.own_data.holds)}."
    series = f"{numbers.count(work.scale * SERIES_A_HOST)} series, " if work.use_case == "cpu-only" else ""
    return f"TSBS {work.use_case}: {numbers.count(work.scale)} hosts, {series}{numbers.count(work.samples)} samples."


def _data(source: Source) -> str:
    workload = source.plan.workload
    if workload is None:
        return ""
    window = f"{workload.start} to {workload.end} every {workload.interval}"
    hosts, samples = numbers.count(workload.scale), numbers.count(workload.samples)
    text = f"{workload.use_case}, {hosts} hosts, {window}, seed {workload.seed}, {samples} samples"
    if workload.own_data:
        text = f"{workload.own_data}; {workload.start} to {workload.end}"
    return text


def own(source: Source) -> str:
    """Return the version and commit of tsduel."""
    return " ".join(filter(None, (source.plan.own.version, source.plan.own.commit)))


def command(kind: str, written: Asked) -> str:
    """Return the command that asks this again, as a block of code."""
    words = ["make", kind, *([f"EXPERIMENT={written.experiment}"] if written.experiment else [])]
    words += [f"{name}={v if isinstance(v, str) else json.dumps(v)}" for name, v in written.knobs.items() if v]
    return markup.block(shlex.join(words), "shell")

"""What differs between the sides, and, folded, all that identifies them, the machine and the data."""

import hashlib
import json
import shlex

from plots import markup, numbers
from plots.pictures import Pictures
from plots.source import Source
from tsduel.core.plan import Component, Variant

_HASH, _SHORT = 20, 12


def section(source: Source, _: Pictures) -> str:
    """Return the table of differences, its hashes short, and a fold with everything in full."""
    rows = sides(source)
    differ = [[name, *(_short(value) for value in values)] for name, values in rows if len(set(values)) > 1]
    names = columns(source)
    return markup.paragraphs(
        markup.table(["", *names], differ) or "The variants do not differ.",
        markup.folded(
            "In full: revisions, hashes, machine and data",
            markup.table(["", *names], [[name, *values] for name, values in rows if len(set(values)) > 1]),
            markup.table(["In common", ""], [*([n, v[0]] for n, v in rows if len(set(v)) == 1), *machine(source)]),
        ),
    )


def columns(source: Source) -> list[str]:
    """Return the names of what was built: of columns of a pivot there is one build."""
    return [source.plan.variants[0].label] if source.pivoted else list(source.labels.values())


def sides(source: Source) -> list[tuple[str, list[str]]]:
    """Return what identifies each variant, name and a value each; what none of them has is left out."""
    variants = source.plan.variants[:1] if source.pivoted else [source.plan.variant(name) for name in source.labels]
    described = [_variant(source, variant) for variant in variants]
    keys = list(dict.fromkeys(key for one in described for key in one))
    rows = [(key, [one.get(key, "") for one in described]) for key in keys]
    return [(key, [value or "none" for value in values]) for key, values in rows if any(values)]


def _variant(source: Source, variant: Variant) -> dict[str, str]:
    build = source.run.json(f"build/{variant.name}.json")
    found = {
        "database": variant.target if source.plan.targets else "",
        "package": variant.package,
        "benchmarks": variant.bench,
    }
    built = build.get("components") or [build]
    for at, component in enumerate(variant.components):
        role = f"{component.role}: " if source.plan.roles else ""
        own = _component(component, build | (built[at] if at < len(built) else {}))
        found |= {f"{role}{key}": value for key, value in own.items()}
    return found


def _component(component: Component, build: dict[str, str]) -> dict[str, str]:
    env = " ".join(f"{key}={value}" for key, value in component.env.items())
    return {
        "version": component.version or component.ref,
        "source": " ".join(filter(None, (component.source, component.repo, component.path))),
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
    """Return on what and with what it ran, name and value; what was not recorded is left out."""
    host, run = source.host, source.run
    machines = dict.fromkeys(run.plan.machine_of(name) for name in run.machines) or [run.plan.host.machine]
    models = dict.fromkeys(str(of.get("cpu_model") or "") for of in run.machines.values())
    pin = (host.get("pin") or {}) if source.plan.duels else {}
    sides = ("server", "client") if pin.get("server") else ()
    pinned = ", ".join(f"{who} on CPU {', '.join(map(str, pin[who]))}" for who in sides if pin.get(who))
    limit = f", limited to {host['cpu_limit']:g}" if host.get("cpu_limit") else ""
    made = run.of_any_host("workload.json")
    files = [*(made.get("data") or []), *made.get("groups", [])]
    wide = [
        ("machine", ", ".join(filter(None, [*machines, str(host.get("virtualization") or "")]))),
        ("CPU", f"{' | '.join(models)}, {host.get('cpus', '?')} CPUs{limit}" if any(models) else ""),
        ("hosts", _hosts(source)),
        ("pins in the duel", pinned or (f"none: {pin['reason'] or pin['mode']}" if pin else "")),
        ("memory", numbers.quantity(host.get("memory_bytes")) if host.get("memory_bytes") else ""),
        *((key, str(host.get(key) or "")) for key in ("kernel", "os", "filesystem")),
        ("GOMAXPROCS (-cpu)", str(run.of_any_host("calibration.json").get("cpu") or "")),
        ("module", source.plan.gobench.module if source.plan.gobench else ""),
        ("data", _data(source)),
        *(
            (f"sha256 of the data ({', '.join([file['format'], *file.get('cells', ()), *of])})", str(file["sha256"]))
            for file in files
            for of in [[file["host"]] if "host" in file else []]
        ),
        ("TSBS", source.plan.tsbs.version if source.plan.tsbs else ""),
        ("tsduel", own(source)),
    ]  # fmt: skip
    return [[name, value] for name, value in wide if value and value != "unknown"]


def _hosts(source: Source) -> str:
    """Return what ran where, and how far from the client, where components have hosts of their own."""
    said = []
    for name, roles in source.plan.topology.items():
        facts = source.run.json(f"raw/{name}.json")
        link = facts.get("link") or {}
        away = f"{link['round_trip_ms']:.2g} ms away" if link else ""
        model = f"{facts['cpu_model']}, {facts['cpus']} CPUs" if facts.get("cpu_model") and link else ""
        about = ", ".join(filter(None, (model, away)))
        said.append(f"{', '.join(roles)} on {name}{f' ({about})' if about else ''}")
    return "; ".join(said)


def _data(source: Source) -> str:
    of = source.plan.imported or source.plan.workload
    if of is None:
        return ""
    scale = numbers.count(of.scale) if isinstance(of.scale, int) else of.scale
    parts = (of.use_case, f"{scale} hosts", f"{of.start} to {of.end} every {of.interval}", f"seed {of.seed}")
    said = ", ".join([*(part for part in parts if "unknown" not in part), f"{numbers.count(of.samples)} samples"])
    swept = dict.fromkeys(key for cell in source.plan.cells for key in cell.set if key.startswith("workload."))
    return f"{said}; other {', '.join(swept)} in other cells" if swept and source.plan.sweeps else said


def own(source: Source) -> str:
    """Return which tsduel it was."""
    return " ".join(filter(None, (source.plan.own.version, source.plan.own.commit)))


def command(source: Source) -> str:
    """Return the command that makes this run again, as a block of code."""
    asked = source.plan.asked
    words = [
        "make",
        "import" if source.plan.imported else source.plan.kind,
        *([f"EXPERIMENT={asked.experiment}"] if asked.experiment else []),
    ]
    words += [f"{name}={v if isinstance(v, str) else json.dumps(v)}" for name, v in asked.knobs.items() if v]
    return markup.block(" ".join(shlex.quote(word) for word in words), "shell")

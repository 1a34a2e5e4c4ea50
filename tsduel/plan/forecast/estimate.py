"""The estimate at the begin of a run: blocks, time, disk, memory, and what the design can show."""

from pathlib import Path

from tsduel.core.plan import Plan
from tsduel.core.rundir import Run
from tsduel.core.wording import amount, lasting
from tsduel.places.place import provider_of
from tsduel.plan import order
from tsduel.plan.forecast import earlier
from tsduel.plan.forecast.spread import Forecast
from tsduel.stats import calibration
from tsduel.workloads import workload_of

# Measured with an empty cache on two quiet cores: 200 s for two variants and all the rest.
VARIANT_S, TSBS_S, AGENT_S = 70, 40, 20


def forecast(run_dir: Path, plan: Plan, cache: Path) -> Forecast:
    """Return the forecast from the last A/A run on this kind of machine, or from an earlier run."""
    kind, results = kind_here(plan, cache), run_dir.absolute().parent
    if kind and (kept := calibration.find(results, plan, kind)):
        source = {"what": "the last A/A run", **{key: kept[key] for key in ("run", "same_workload")}}
        return Forecast(plan, kept["spreads"], source)
    if kind and (before := earlier.find(results, plan, kind)) and before.spreads:
        source = {"what": "the last run of this kind", "run": before.newest, "same_workload": True}
        return Forecast(plan, before.spreads, source)
    return Forecast(plan, (), {})


def kind_here(plan: Plan, cache: Path) -> str | None:
    """Return the kind of machine that the blocks will run on; None if it is not known yet."""
    host = provider_of(plan.place).machine(cache)
    return calibration.kind_of(plan.host.machine, host) if host else None


def lines(run_dir: Path, plan: Plan, cache: Path) -> list[str]:
    """Return the lines of the estimate for the blocks that are left."""
    run = Run(run_dir, plan)
    finished = {block.name for block in run.blocks}
    left = [row for row in run.due if row.name not in finished]
    # Hosts work at the same time, so the busiest host decides.
    busiest = max(([row.kind for row in left if row.host == host] for host in plan.hosts), key=len)
    kind = kind_here(plan, cache)
    before = earlier.find(run_dir.absolute().parent, plan, kind) if kind else None
    paced = earlier.pace(run_dir.absolute().parent, kind, plan.run) if kind else None
    each = f", {len(busiest)} at most on a host" if len(plan.hosts) > 1 else ""
    sentences = [f"blocks    {len(left)}{f' to go, {len(finished)} finished' if finished else ''}{each}"]
    # The price of a rented machine, a few lines above, has the time.
    if not plan.place.rented or finished:
        sentences.append(f"time      {_time(plan, busiest, before, cache, paced)}")
    sentences.append(f"disk      {_disk(plan, cache)}")
    sentences += _memory(plan, before)
    unknown = "" if kind else provider_of(plan.place).unseen
    block_s = before.block_s if before else plan.duration.block_s if plan.duration else 0.0
    recorded = Forecast.read(run)
    return sentences + (recorded.before(unknown, block_s) if recorded else [])


def _time(plan: Plan, left: list[str], before: earlier.Earlier | None, cache: Path, paced: float | None) -> str:
    warm = left.count("warmup")
    if before:
        seconds = warm * before.warmup_s + (len(left) - warm) * before.block_s
        runs = f"{before.runs} earlier run{'s' if before.runs > 1 else ''} here"
        return f"about {lasting(seconds)} (as in {runs}: {before.block_s:.0f} s a block), and what is still to be built"
    rough = plan.duration
    if rough is None:
        return "not known"
    prepare_s = rough.prepare_s if plan.place.rented else _build_s(plan, cache)
    share = order.share_of_busiest(plan.design, len(plan.hosts))
    of_blocks = (rough.total_s - rough.prepare_s - rough.workload_s) / plan.design.planned / share
    seconds = prepare_s + rough.workload_s + len(left) * of_blocks
    parts = f"{lasting(prepare_s)} to prepare, " if prepare_s else ""
    if paced:
        certain_s = prepare_s + len(left) * plan.mixed_s
        seconds = certain_s + paced * (seconds - certain_s)
        block_s = plan.mixed_s + paced * (rough.block_s - plan.mixed_s)
        other = "as much longer or shorter than planned as other runs here"
        return f"about {lasting(seconds)} ({parts}{block_s:.0f} s a block: {other})"
    return (
        f"about {lasting(seconds)}, a rough guess ({parts}{rough.block_s} s a block): "
        "no run of this kind on such a machine is stored here"
    )


def _build_s(plan: Plan, cache: Path) -> int:
    """Return roughly the seconds to build the programs that the cache lacks."""
    keys = {part.build_key for variant in plan.variants for part in variant.components if not part.url}
    here = plan.place.builds_here
    missing = sum(not (here and (cache / "variants" / key).is_dir()) for key in keys)
    others = (("tsbs", TSBS_S), ("agent", AGENT_S))
    return VARIANT_S * missing + sum(s for name, s in others if not (here and any(cache.glob(f"{name}/*/"))))


def _disk(plan: Plan, cache: Path) -> str:
    needs = f"up to {amount(plan.estimate.total)} for data, databases and results"
    if (free := provider_of(plan.place).free_bytes(cache)) is None:
        return needs
    too_little = "; that is TOO LITTLE: free some, or point TSDUEL_CACHE to a larger disk"
    return f"{needs}; {amount(free)} are free in {cache}{too_little if free < plan.estimate.total else ''}"


def _memory(plan: Plan, before: earlier.Earlier | None) -> list[str]:
    """Return the memory of all servers that are resident at once, and a remedy if the machine has less."""
    each = before.rss_bytes if before and before.rss_bytes else memory(plan)
    if not each:
        return []
    servers = len(plan.variants) if plan.duels else 1
    how = "as in earlier runs here" if before and before.rss_bytes else "a rough guess"
    which = "the server" if servers == 1 else f"{servers} servers"
    line = f"memory    about {amount(servers * each)} for {which} ({how})"
    total, of_pod = provider_of(plan.place).memory_bytes(plan.place), plan.place.in_pods
    if total is None or servers * each <= total:
        return [line]
    remedy = "take a smaller workload.scale" + (', or SET="k8s.memory_gb=..."' if of_pod else "")
    if servers > 1 and each <= total and not plan.loads_in_turn:
        remedy = 'SET="duel.enabled=false" has them alone, one after the other'
    return [f"{line}; that is TOO LITTLE: {'a pod' if of_pod else 'this machine'} has {amount(total)}: {remedy}"]


def memory(plan: Plan) -> int | None:
    """Return the rough memory of one server in bytes; None if unknown."""
    return workload_of(plan).memory(plan.workload, [(side.target, len(side.components)) for side in plan.variants])

"""Components on hosts of their own: bare hosts, a private network between them, real TSBS and VictoriaMetrics."""

from __future__ import annotations

import base64
import csv
import gzip
import json
import re
import subprocess
import time

import pytest
import yaml
from barehost import STANDINS, USERS, BareHost, our_go, require
from checkout import CACHE, MARK, QUIET, Checkout, build, checks_of
from fakeproject import FAKES, wait_for
from fleet import left
from network import network

# One after the other: they load the machine.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("bare")]
OURS = f"/var/tmp/tsduel-{USERS[0]}"  # noqa: S108 - in a tree of the test's own
PORT = 18300
SIDES = ("baseline", "candidate")
# The single-node server, which listens where vminsert and vmselect look for a storage.
STORAGE = """#!/usr/bin/env bash
words=()
for word; do
  case $word in
    -vminsertAddr=* | -vmselectAddr=*) words+=("-httpListenAddr=${{word#*=}}") ;;
    *) words+=("$word") ;;
  esac
done
exec {binary} "${{words[@]}}"
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """Return a checkout for somebody who has no agent, with what smoke.yml needs built."""
    made = Checkout(tmp_path_factory.mktemp("apart") / "tsduel")
    made.environment.pop("SSH_AUTH_SOCK", None)
    made.make("plan", "RUN=here", "EXPERIMENT=experiments/smoke.yml")
    build(made.results("here"))
    return made


@pytest.fixture(scope="module")
def hosts(tmp_path_factory, checkout):
    """Boot four bare hosts, which see our Go and have copies of our builds."""
    require()
    mounts = {CACHE: "/seed", our_go(): "/usr/local/go"}
    directory = tmp_path_factory.mktemp("bare")
    with network([BareHost(directory / f"host{number}", mounts=mounts) for number in range(1, 5)]) as linked:
        for host in linked.hosts:
            host.ssh(STANDINS, user="root")
            copies = "; ".join(f"mkdir -p {kind}; cp -r /seed/{kind}/{key} {kind}/" for kind, key in _built(checkout))
            made = f"umask 077; mkdir -p {OURS}/cache; cd {OURS}/cache; {MARK}; {copies}"
            host.ssh(f"{made}; chown -R {USERS[0]} {OURS}", user="root")
        yield linked


def _built(checkout):
    """Return the directories of the cache that a run of smoke.yml uses, as kind and key."""
    build_dir = checkout.results("here") / "build"
    records = {name: json.loads((build_dir / f"{name}.json").read_text()) for name in ("agent", "tsbs", *SIDES)}
    programs = [of.get("binary") or of["bin_dir"] + "/x" for of in records.values()]
    return {(kind, key) for *_, kind, key, _ in (path.split("/") for path in programs)}


def words_for(linked, count, run, **more):
    """Return the words of `make` for a run on the first so many hosts."""
    of = zip(linked.hosts[:count], linked.addresses, strict=False)
    named = ",".join(f"{USERS[0]}@{host.address}/{private}" for host, private in of)
    config = linked.hosts[0].directory / "all"
    config.write_text("".join(
        f"Host {host.address}\n  IdentityFile {host.key}\n  UserKnownHostsFile {host.known_hosts}\n"
        for host in linked.hosts
    ) + "Host *\n  IdentitiesOnly yes\n  IdentityAgent none\n  GlobalKnownHostsFile /dev/null\n")  # fmt: skip
    values = {"TARGET": "ssh", "SSH_HOST": named, "SSH_CONFIG": str(config), "RUN": run} | more
    return [f"{name}={value}" for name, value in values.items()]


def asked(checkout, name, **parts):
    """Write an experiment of two small blocks with hosts apart, and return its path."""
    written = yaml.safe_load((checkout.path / "experiments/smoke.yml").read_text()) | {"name": name} | parts
    (checkout.path / f"experiments/{name}.yml").write_text(yaml.safe_dump(written))
    return f"experiments/{name}.yml"


def fastest_ms(run_dir, block, query_type):
    """Return the shortest service time of a type in a block, over all variants."""
    with gzip.open(run_dir / f"raw/host1/{block:03d}/duel/exchanges.csv.gz", "rt", newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if row["query_type"] == query_type]
    return min(float(row[name]) for row in rows for name in (f"{side}_ns" for side in SIDES)) / 1e6


def cpu_us(run_dir, block, query_type):
    """Return the servers' CPU time of an operation of a type in a block, over all variants."""
    duel = json.loads((run_dir / f"raw/host1/{block:03d}/block.json").read_text())["duel"]
    of = next(one for one in duel["types"] if one["query_type"] == query_type)
    return sum(of["cpu_ns"].values()) / of["exchanges"] / len(of["cpu_ns"]) / 1e3


def test_a_client_apart_and_a_slow_link(hosts, checkout, tmp_path):
    """The whole way over two hosts; 20 ms on the way are found in service time, and not in CPU."""
    client, server = hosts.hosts[:2]
    path = asked(checkout, "client-apart-smoke", hosts=["client", "server"], duel={"seconds": 1.5, "idle_s": 0.2})
    log, run_dir = tmp_path / "log", checkout.results("two")
    words = words_for(hosts, 2, "two", EXPERIMENT=path, SET=f"host.port={PORT} {QUIET}")

    def ended():
        events = run_dir / "raw/host1/events.jsonl"
        return events.read_text().count('"block-end"') if events.exists() else 0

    with checkout.making(log, "tsbs", *words) as process:
        wait_for(lambda: ended() > 0 or process.poll() is not None)
        listening = server.ssh("cat /proc/net/tcp", user="root").stdout
        hosts.delay(20.0)
        try:
            assert process.wait() == 0, log.read_text()
        finally:
            hosts.delay(0.0)
    assert {check["check"] for check in checks_of(run_dir)} >= {"listens_on_loopback", "same_process", "equal_start"}
    # Of ours, nothing listens where others reach it but at the address that was named, as the kernel writes it.
    ours = {line.split()[1] for line in listening.splitlines()[1:] if line.split()[3] == "0A"}
    assert {
        at for at in ours if int(at.partition(":")[2], 16) >= PORT and not at.startswith(("0200D60A", "0100007F"))
    } == set()
    between = {int(at.partition(":")[2], 16) for at in ours if at.startswith("0200D60A")}
    # These a group of rented machines opens to itself.
    assert between <= set(range(PORT, PORT + 101))
    # No answer is there before its way is over, however fast or busy the machine; work is nothing of that way.
    query_type = "single-groupby-1-1-1"
    assert fastest_ms(run_dir, 2, query_type) >= 20
    assert fastest_ms(run_dir, 1, query_type) < fastest_ms(run_dir, 2, query_type)
    assert cpu_us(run_dir, 2, query_type) / 1e3 < 20
    facts = [json.loads((run_dir / f"raw/host{number}.json").read_text()) for number in (1, 2)]
    assert facts[1]["link"]["address"] == "10.214.0.2"
    assert "clock_ahead_ms" in facts[1]["link"]
    assert "nothing is pinned: no component shares this host with the client" in facts[0]["pin"]["reason"]
    block = json.loads((run_dir / "raw/host1/001/block.json").read_text())
    assert all("host2" in phase["hosts"] for phase in block["phases"] if "noise" in phase)
    assert (run_dir / "raw/host1/001/baseline/server.log").stat().st_size > 0
    assert (run_dir / "host/lent.json").stat().st_mode & 0o077 == 0
    token = json.loads((run_dir / "host/lent.json").read_text())["token"]
    assert token not in log.read_text()
    assert token not in (run_dir / "report.html").read_text()
    assert "client on host1" in (run_dir / "report.md").read_text()
    # The client ran nothing else, and nothing was left on either.
    assert left(client) == left(server) == []


def test_three_components_over_three_hosts(hosts, checkout, tmp_path):
    """A cluster of stand-ins, each on a host of its own beside the client's: counted where it runs.

    Three roles, addresses with paths, ports by name, rows that are answered before they are stored.
    """
    single = json.loads((checkout.results("here") / "build/candidate.json").read_text())["binary"]
    storage = tmp_path / "vmstorage"
    storage.write_text(STORAGE.format(binary=f"{OURS}/cache/variants/{single.split('/')[-2]}/binary"))
    storage.chmod(0o755)
    paths = {"vmstorage": storage, "vminsert": FAKES / "proxy", "vmselect": FAKES / "proxy"}
    components = [{"role": role, "source": "binary", "path": str(path)} for role, path in paths.items()]
    cluster = {"target": "victoriametrics-cluster", "components": components}
    smoke = yaml.safe_load((checkout.path / "experiments/smoke.yml").read_text())
    path = asked(
        checkout, "three", variants={"baseline": cluster, "candidate": cluster},
        hosts=["client", "vmselect", "vminsert", "vmstorage"],
        workload=smoke["workload"] | {"batch_size": 500}, duel=smoke["duel"] | {"load": True},
    )  # fmt: skip
    run_dir = checkout.results("three")
    words = words_for(hosts, 4, "three", EXPERIMENT=path, SET=f"host.port={PORT} {QUIET}", BLOCKS="1")
    checkout.make("plan", "provision", "build", "run", "give-back", "tidy", *words)
    stored = [float(check["actual"]) for check in checks_of(run_dir) if check["check"] == "samples_stored"]
    # Of each variant alone, and exchanged in two sittings.
    assert len(stored) == 2 * 3
    assert min(stored) > 0
    block = json.loads((run_dir / "raw/host1/001/block.json").read_text())
    for one in block["duel"]["types"]:
        assert one["compared"] == one["exchanges"] > 0
        assert one["cpu_ns_by_role"]["candidate"]["vmselect"] > 0
        assert one["cpu_ns_by_role"]["candidate"]["vmstorage"] > 0
    assert set(block["duel"]["load"][0]["cpu_ns_by_role"]["candidate"]) == {"vmselect", "vminsert", "vmstorage"}
    assert block["solo"]["candidate"]["arrive_s"] is not None
    assert {name for phase in block["phases"] for name in phase.get("hosts", {})} == {"host2", "host3", "host4"}
    assert sorted(path.name for path in (run_dir / "raw").glob("host*.json")) == [f"host{n}.json" for n in range(1, 5)]
    assert [left(host) for host in hosts.hosts] == [[]] * 4


def test_of_three_hosts_one_is_killed_and_one_frozen(hosts, checkout, tmp_path):
    """Killed: a sentence, and the same command goes on. Silent for seconds: the block is run again."""
    path, (_, other, server, _) = asked(checkout, "frozen", hosts=["client", "client", "server"]), hosts.hosts
    run_dir = checkout.results("frozen")
    words = words_for(hosts, 3, "frozen", EXPERIMENT=path, SET=f"host.port={PORT} {QUIET}", BLOCKS="3")

    def in_block_2(process):
        before = len(phases(run_dir, "block 2 "))
        wait_for(lambda: process.poll() is not None or len(phases(run_dir, "block 2 ")) > before)
        assert process.poll() is None

    with checkout.making(tmp_path / "log", "tsbs", *words) as process:
        in_block_2(process)
        assert other.kill_everything() > 0
        assert process.wait() != 0
    said = (tmp_path / "log").read_text()
    assert "host2 does not answer any more" in said
    assert "finished blocks are kept: once it is up again, the same command with RUN= goes on" in said
    assert "Traceback" not in said
    first = run_dir / "raw/host1/001/block.json"
    kept = first.stat().st_mtime_ns
    with checkout.making(tmp_path / "again", "tsbs", *words) as process:
        in_block_2(process)
        with server.frozen():
            time.sleep(7)
        assert process.wait() == 0, (tmp_path / "again").read_text()
    assert first.stat().st_mtime_ns == kept
    noise = json.loads((run_dir / "raw/host1/noise.json").read_text())
    spoilt = {block["block"]: block["causes"] for block in noise["blocks"] if block["state"] == "invalid"}
    assert [cause for cause in spoilt.pop(2) if re.fullmatch(r"no answer came for .* s on host3 .*", cause)]
    assert spoilt == {}
    checks_of(run_dir)
    assert [left(host) for host in hosts.hosts[:3]] == [[]] * 3


def phases(run_dir, block):
    """Return the lines of a block's phases that have come home so far, of all tries."""
    log = run_dir / "run.log"
    return [line for line in log.read_text().splitlines() if re.search(block, line)] if log.exists() else []


def made_by_one(checkout, run_dir):
    """Return the lines that one client would have made."""
    workload = json.loads((run_dir / "plan/experiment.json").read_text())["workload"]
    tsbs = json.loads((checkout.results("here") / "build/tsbs.json").read_text())["bin_dir"]
    words = [f"--timestamp-{which}={workload[which]}" for which in ("start", "end")]
    words += [f"--{name}={workload[name.replace('-', '_')]}" for name in ("use-case", "scale", "seed")]
    words += ["--format=victoriametrics", f"--log-interval={workload['interval']}"]
    return subprocess.run(
        [f"{tsbs}/tsbs_generate_data", *words], capture_output=True, check=True, text=True
    ).stdout.splitlines()


def test_two_clients(hosts, checkout):
    """They load and ask from an instant that they agree on; what they sent is added, and all samples are stored."""
    rates = {"seconds": 4, "connections": 8, "late_ms": 100, "late_pct": 50}
    path = asked(
        checkout, "two-clients", hosts=["client", "client", "server"],
        mixed={"ingest": 20_000, "queries": 20, "types": ["single-groupby-1-1-1"], **rates},
    )  # fmt: skip
    run_dir = checkout.results("clients")
    checkout.make("tsbs", *words_for(hosts, 3, "clients", EXPERIMENT=path, SET=f"host.port={PORT} {QUIET}", BLOCKS="1"))
    checked = {(check["check"], check["phase"]) for check in checks_of(run_dir)}
    assert checked >= {("samples_sent", "load"), ("samples_stored", "settle"), ("samples_stored", "mixed")}
    # Each made every other line of what one would have made, and sent that by TSBS's loader.
    files, whole = json.loads((run_dir / "raw/host1/workload.json").read_text()), made_by_one(checkout, run_dir)
    assert files["data"] == []
    for number, group in enumerate(files["groups"]):
        packed = base64.b64decode(hosts.hosts[number].ssh(f"base64 {group['path']}", user="root").stdout)
        made = (
            subprocess.run(["zstd", "-dc"], input=packed, capture_output=True, check=True).stdout.decode().splitlines()
        )
        as_one = made == whole[number::2]
        assert (group["host"], as_one) == (f"host{number + 1}", True)
    block = json.loads((run_dir / "raw/host1/001/block.json").read_text())
    for side, solo in block["solo"].items():
        assert {client["host"]: client["samples"] for client in solo["clients"]} == dict.fromkeys(
            ("host1", "host2"), len(whole) * 10 / 2
        )
        assert solo["skew_ms"] >= 0
        assert all((run_dir / f"raw/host1/001/{side}/load-host{number}.csv").stat().st_size > 0 for number in (1, 2))
    assert "2 clients (host1, host2) loaded a part of the simulated hosts each" in (run_dir / "report.md").read_text()
    for of in block["mixed"].values():
        phase = of["phases"][0]
        assert [client["host"] for client in phase["clients"]] == ["host1", "host2"]
        assert phase["skew_ms"] >= 0
        assert sum(client["started"] for client in phase["clients"]) == sum(one["started"] for one in phase["streams"])
        assert all(client["lines"] > 0 for client in phase["clients"])
        assert sum(client["lines"] for client in phase["clients"]) * 10 == phase["samples"]
        assert all(one["unstarted"] == 0 and one["failed"] == 0 for one in phase["streams"])
    assert [left(host) for host in hosts.hosts] == [[]] * 4

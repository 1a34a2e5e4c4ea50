"""A measured host that lies, against each reader of ours in Python. host/ has the same table for Go.

What lies can do is nothing: an answer that cannot be meant is a sentence, at home nothing is written but the host's own
files, no memory or disk is filled, and no letter reaches a terminal that it would obey. `READERS` has each function
that reads what a host says or has written; one that is not in it makes a test fail.
"""

from __future__ import annotations

import ast
import contextlib
import gzip
import io
import json
import os
import re
import resource
import subprocess
import sys
import tarfile
import threading
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import plans
import pytest
import synthetic
import synthetic_gobench

from tsduel.build import ansible
from tsduel.core import files
from tsduel.core.errors import UserError
from tsduel.core.place import K8sPlace
from tsduel.core.rundir import open_run
from tsduel.doctor import __main__ as doctor
from tsduel.places import liveness, lock, uninstall
from tsduel.places.k8s import bring
from tsduel.places.ssh import pack, probe, stream, untrusted
from tsduel.places.ssh.link import Link
from tsduel.places.ssh.ssh import Host, NoConnectionError
from tsduel.rounds import attend, control, follow, remote, runstate
from tsduel.rounds.view import show
from tsduel.rounds.view.events import Tail, parse
from tsduel.tidy import tables as tidy
from tsduel.workloads.tsbs.read import read_counts

PROJECT = Path(__file__).resolve().parent.parent
SECRET = "of the user's own"  # noqa: S105 - it is none
# What a test may add to our memory.
MOST_MB = 300


# --- a host, and what of it is at home ---


@pytest.fixture
def run_dir(tmp_path, monkeypatch):
    """Return a run at home of one host, with files that no host may touch."""
    path = tmp_path / "results/r"
    where = {
        "hosts": {"host1": {}, "host2": {}}, "context": "c", "namespace": "n", "node_selector": {},
        "storage_class": "", "image": "i", "directory": "/tsduel", "name": "r", "cpus": 1, "memory_gb": 1,
        "disk_gb": 2, "wait_s": 5, "estimate_s": 60, "lifetime_s": 7200,
    }  # fmt: skip
    plans.write(path, place=K8sPlace.model_validate(where), spare_hosts=("host2",))
    ours = ("host/outputs.json", "host/inventory.json", "host/key", "build/agent.json", "raw/host2/001/block.json")
    for name in (*ours, pack.ARCHIVE, bring.PROGRAMS):
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(json.dumps({"hosts": {"host1": {"address": "there"}}, "is": SECRET}))
    (tmp_path / "outside").write_text(SECRET)
    for name in ("LONGEST_PAUSE_S", "PATIENCE_S"):
        monkeypatch.setattr(attend, name, 0.4)
    monkeypatch.setattr(attend, "STARTING_S", 0.0)
    monkeypatch.setattr(follow, "SILENCE_S", 0.1)
    monkeypatch.setattr(untrusted, "LAST_WORDS_S", 0.2)
    return path


@pytest.fixture
def link(run_dir):
    """Return the link to that host."""
    planned = frozenset(row.name for row in open_run(run_dir).planned)
    return Link(run_dir, Host("there"), "/there/tsduel-host", "/there/cache", "/there/run", planned)


def mine(path):
    """Whether a file below a run is of host1."""
    return bool(re.match(r"(raw/host1(/|\.json$)|host/host1/(control/|build/|fetched\.partial))", path))


def not_of_the_host(run_dir):
    """Return what is at home but for the host's own files."""
    root = run_dir.parent.parent
    found = {}
    for path in root.rglob("*"):
        if path.is_file() and not (path.is_relative_to(run_dir) and mine(str(path.relative_to(run_dir)))):
            found[str(path.relative_to(root))] = path.read_bytes()
    return found


@contextlib.contextmanager
def unharmed(run_dir, capfd):
    """Require that the body ends, in a sentence if it must, and that nothing is changed or shown by it."""
    before = not_of_the_host(run_dir)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    said = ""
    try:
        yield
    except UserError as error:
        said = str(error)
        assert said.strip()
    finally:
        shown = said + "".join(capfd.readouterr())
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < MOST_MB << 10
    assert not [letter for letter in shown if not letter.isprintable() and letter not in "\n\t"]
    assert SECRET not in shown
    changed = {name for name, content in not_of_the_host(run_dir).items() if before.get(name) != content}
    assert {name for name in changed if not name.endswith(("run.log", "lost.json", "attended.lock"))} == set()
    assert set(before) <= set(not_of_the_host(run_dir))
    assert not [path for path in run_dir.rglob("*") if path.is_symlink()]


# --- what it says to a question ---

SUM = "0" * 64
HONEST = (
    b"ended 0\nblock 001\nfree_mib=9\nsystem=Linux\n" + f"{SUM}  ./host1/001/block.json\n".encode() +
    b"pid 7, began 7, boot 0-a, user u, since 2026-11-21T09:00:00Z, /run\n" +
    b"ok\tcpu\t8\nafter block 1\nreached 10.0.0.1 22 10.0.0.2 22\n2: eth0    inet 10.0.0.2/24 brd\n" +
    b'{"event":"block-end","t":5,"block":1,"status":"ok","line":"block 1 ok"}\n'
)  # fmt: skip
DEEP = "../" * 12
TEXTS = {
    "honest": HONEST,
    "nothing": b"",
    "length": (
        b"ended " + b"9" * 6000 + b"\nblock " + b"9" * 6000 + b"\nfree_mib=" + b"9" * 6000 + b"\n" + b"9" * 6000 +
        b"\n" + f"{SUM}  ./host1/{'x' * 900}\n".encode() + b'{"event":"block-end","t":' + b"9" * 6000 + b"}\n"
    ),
    "encoding": b"\x1b]0;owned\x07\x1b[2J\xff\xfe\x9b31m\nerror\tcpu\t\x1b[31m\nok\t\x1b[2J\t\x07\nstopped \x1b[2J\n"
                b"running 1\x1b[2J\nblock \x1b[2J\nsystem=\x1b[2J\nusable=\x1b[2J\nreason=\x1b[2J\n"
                b'{"event":"note","t":5,"line":"\x1b[2J\\u001b[2J"}\n',
    "surplus": HONEST * 3,
    "truncated": HONEST[: len(HONEST) // 2],
    "schema": b'{"event":["block-end"],"t":{},"block":[1]}\n[[1]]\nended\nrunning\nblock\nafter\npid\nok\nreached\n',
    "depth": b"[" * 200_000 + b"\n",
    "member": b"ended 0\nblock 999\nblock 001\n" + f"{SUM}  ./host1/999/block.json\n".encode(),
    "upward": (
        f"ended 0\nblock {DEEP}outside\nblock /etc/passwd\n{SUM}  ./{DEEP}outside\n{SUM}  ./host1/{DEEP}outside\n"
        f"{SUM}  .//etc/passwd\n{SUM}  ./host2/001/block.json\n{SUM}  ./host1/../host2/001/block.json\n"
    ).encode(),
}  # fmt: skip


@pytest.fixture
def liar(link, monkeypatch, tmp_path):
    """Have this be the only host; return how to make each command there print a text, and go on with shell."""
    monkeypatch.setattr(Link, "all", lambda _: {"host1": link})
    monkeypatch.setattr(liveness, "why_gone", lambda *_: "")
    where = {"hosts": {"host1": {"address": "there", "directory": "/x/y"}}, "config_file": None}
    monkeypatch.setattr(uninstall.place, "asked", lambda _: where)
    monkeypatch.setattr(uninstall, "REMOVE_S", 0.4)

    def says(text, behind="", *, errors=False):
        (tmp_path / "says").write_bytes(text)
        line = f'cat "$0"{" >&2; exit 1" if errors else ""}; {behind}'
        monkeypatch.setattr(Host, "command", lambda *_: ["sh", "-c", line, str(tmp_path / "says")])

    return says


def quiet():
    """Return a view of one who asks for plain lines."""
    return show.View(None)


def attended(link):
    """Attend the run, and have all that a terminal would show."""
    leaving = threading.Event()
    attendant = attend.Attendant(link, show.View(None), patience_s=0.2, leaving=leaving)
    # As long as a host says that the run goes on, we stay.
    threading.Timer(1, leaving.set).start()
    with contextlib.suppress(KeyboardInterrupt):
        attendant.attend()


def followed(link):
    """Follow it, as one who heard of it."""
    follower = follow.Follower(open_run(link.run_dir), "host1", show.View(None))
    follower.heard = time.monotonic()
    for each in (follower.elsewhere, partial(follower._over_ssh, link)):
        timed(each)


def timed(do):
    """Do it for a while: what follows a run has no end while it is told that the run goes on."""
    errors = []

    def run():
        try:
            do()
        except BaseException as error:  # noqa: BLE001 - the test raises it
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(1.5)
    if errors:
        raise errors[0]


def asked_to_stand_in(link):
    """Ask the host to take the blocks of a lost one."""
    fleet = remote.Fleet(link.run_dir, {"host2": link}, lambda _: quiet())
    fleet._begin = lambda *_: None
    fleet._lose("host1", UserError("it is lost"))


def streamed(link):
    """Read its events until the first pauses."""
    for count, line in enumerate(stream.events(link, 1, lambda: 0.1)):
        if line:
            parse(line)
        if count > 50:
            break


def looked(link):
    """Print what the doctor finds there."""
    for line in doctor._there(link.host, "true"):
        print(line.level, line.what, line.finding, line.remedy)  # noqa: T201 - as it does


def brought(link):
    """Bring an archive there."""
    with contextlib.closing(io.BytesIO()), (link.run_dir / "plan/blocks.tsv").open("rb") as archive:
        said = bring._send(link.host, "true", "/tsduel/runs/r", archive)
    assert "\x1b" not in said


def brought_one(link):
    """Bring everything to a pod."""
    bring.one(link.run_dir, "host1")
    liveness.equip(link)


SAYS = {
    "tsduel.places.ssh.ssh:Host.run": lambda link: link.host.run("true"),
    "tsduel.places.ssh.link:Link.ask": lambda link: link.ask("sums"),
    "tsduel.places.ssh.link:Link.state": lambda link: link.state(),
    "tsduel.places.ssh.link:Link.start": lambda link: link.start(),
    "tsduel.places.ssh.link:Link.missing": lambda link: link.missing(),
    "tsduel.places.ssh.link:Link.bring_home": lambda link: link.bring_home(),
    "tsduel.places.ssh.probe:_facts": lambda link: list(map(print, probe.examine(link.host, "/x/y"))),
    "tsduel.places.ssh.stream:events": streamed,
    "tsduel.places.lock:holder": lambda link: lock.refuse_if_taken(link.run_dir, "tsbs", link.host, "/x"),
    "tsduel.places.k8s.provider:_equip": lambda link: brought_one(replace(link, host=Host("there", through=("x",)))),
    "tsduel.places.uninstall:main": lambda _: uninstall.main({}),
    "tsduel.places.k8s.bring:_send": brought,
    "tsduel.places.k8s.bring:one": brought_one,
    "tsduel.doctor.__main__:_there": looked,
    "tsduel.build.ansible:_needs_build": ansible._needs_build,
    "tsduel.build.ansible:_refuse_another": ansible._refuse_another,
    "tsduel.rounds.control:_status": lambda link: control.status(link.run_dir),
    "tsduel.rounds.control:stop": lambda link: control.stop(link.run_dir),
    "tsduel.rounds.control:fetch": lambda link: control.fetch(link.run_dir),
    "tsduel.rounds.attend:Attendant._attend_once": attended,
    "tsduel.rounds.attend:Attendant._follow": attended,
    "tsduel.rounds.attend:Attendant._finish": attended,
    "tsduel.rounds.remote:Fleet._lose": asked_to_stand_in,
    "tsduel.rounds.follow:Follower.elsewhere": followed,
    "tsduel.rounds.follow:Follower._over_ssh": followed,
}


@pytest.mark.parametrize("lie", TEXTS)
@pytest.mark.parametrize("reader", SAYS)
def test_what_a_host_says_is_understood_or_refused_in_a_sentence(reader, lie, link, liar, capfd):
    """Of any length and encoding, more or less of it than was asked, of another schema, or with paths upwards."""
    for errors in (False, True):
        liar(TEXTS[lie], errors=errors)
        with unharmed(link.run_dir, capfd):
            SAYS[reader](link)


@pytest.fixture
def impatient(monkeypatch):
    """Have little patience, and take little."""
    monkeypatch.setattr(untrusted, "MOST_TEXT", 1 << 20)
    monkeypatch.setattr(attend, "MOST_EVENTS", 1 << 20)
    for module, name in ((untrusted, "SILENCE_S"), (control, "STOP_S")):
        monkeypatch.setattr(module, name, 0.4)
    for method in (Host.run, Link.ask):
        monkeypatch.setattr(method, "__kwdefaults__", method.__kwdefaults__ | {"timeout_s": 0.4})


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("behind", ["exec yes 'block 001'", "exec yes 'block 001' >&2", "exec sleep 30"])
@pytest.mark.parametrize("reader", SAYS)
def test_what_has_no_end_is_cut_off(reader, behind, link, liar, capfd):
    """A host that never stops talking, on either stream, or says nothing more, takes no memory and little time."""
    liar(HONEST, behind)
    with unharmed(link.run_dir, capfd):
        timed(partial(SAYS[reader], link))


def test_an_event_has_an_end(link, liar, monkeypatch):
    """A line without one is refused; and so is a number of lines that no run has."""
    liar(b"", behind="exec tr '\\0' x </dev/zero")
    with pytest.raises(UserError, match="there: an event has more than 1 MiB: none of it is taken"):
        list(stream.events(link, 1, lambda: 0.1))
    monkeypatch.setattr(attend, "MOST_EVENTS", 1 << 20)
    liar(b"running 1\n", behind='exec yes \'{"event":"note","t":5}\'')
    monkeypatch.setattr(Link, "state", lambda _: attend.State("running", 0, ()))
    with pytest.raises(UserError, match=r"events\.jsonl would have more than 1 MiB: there lies"):
        attend.Attendant(link, quiet()).attend()
    assert (link.raw / "events.jsonl").stat().st_size < 2 << 20


# --- what it sends as an archive ---

BLOCK = "raw/host1/001"


def entry(name, content=b"{}", **parts):
    """Return a member of an archive."""
    made = tarfile.TarInfo(name)
    made.size = len(content)
    for part, value in parts.items():
        setattr(made, part, value)
    return made, content


def packed(*members, end=True):
    """Return an archive with these members behind an honest block."""
    stream = io.BytesIO()
    archive = tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT)  # noqa: SIM115 - perhaps without an end
    for made, content in (entry(f"{BLOCK}/block.json"), entry(f"{BLOCK}/a/metrics.prom.gz", b"x" * 2000), *members):
        archive.addfile(made, io.BytesIO(content))
    if end:
        archive.close()
    return stream.getvalue()


def link_to(target, kind=tarfile.SYMTYPE):
    """Return a link in the block, and a file through it."""
    return entry(f"{BLOCK}/l", b"", type=kind, linkname=target), entry(f"{BLOCK}/l/x")


def header(kind, size):
    """Return the header of a member, of which the content does not come."""
    made = tarfile.TarInfo(f"{BLOCK}/long")
    made.type, made.size = kind, size
    return packed(end=False) + made.tobuf(tarfile.GNU_FORMAT)


ARCHIVES = {
    "a member too many": packed(entry("host/outputs.json", b'{"hosts": {"host1": {"through": ["-c", "1"]}}}')),
    "an inventory": packed(entry("host/inventory.json")),
    "another host's block": packed(entry("raw/host2/001/block.json")),
    "another block": packed(entry("raw/host1/002/block.json")),
    "a file beside": packed(entry("raw/host1.json")),
    "a path upward": packed(entry(f"{BLOCK}/../../../host/outputs.json")),
    "a path far upward": packed(entry(f"{DEEP}outside")),
    "an absolute path": packed(entry("/tmp/tsduel-hostile")),  # noqa: S108 - it must not be made
    "a link": packed(*link_to("../../../host")),
    "a link in the block": packed(*link_to("a")),
    "a link upward": packed(*link_to(f"{DEEP}tmp")),
    "a hard link": packed(*link_to("host/key", tarfile.LNKTYPE)),
    "a hard link in the block": packed(*link_to(f"{BLOCK}/block.json", tarfile.LNKTYPE)),
    "the block is a link": packed(entry("raw/host1/001", b"", type=tarfile.SYMTYPE, linkname="../../host")),
    "a device": packed(entry(f"{BLOCK}/zero", b"", type=tarfile.CHRTYPE, devmajor=1, devminor=5)),
    "a pipe": packed(entry(f"{BLOCK}/pipe", b"", type=tarfile.FIFOTYPE)),
    "a sparse file": packed(
        entry(
            f"{BLOCK}/s", b"1\n0\n1\n".ljust(513, b"\0"),
            pax_headers={"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": str(1 << 60)},
        )
    ),
    "an old sparse file": header(tarfile.GNUTYPE_SPARSE, 1 << 40),
    "a long header": header(tarfile.XHDTYPE, 1 << 33),
    "a long name": header(tarfile.GNUTYPE_LONGNAME, 1 << 33),
    "a name that is too long": packed(entry(f"{BLOCK}/{'x' * 300}")),
    "a name that a terminal obeys": packed(entry(f"{BLOCK}/\x1b[2J\n")),
    "a negative size": packed(end=False) + entry(f"{BLOCK}/x", b"", size=-512)[0].tobuf(tarfile.GNU_FORMAT),
    "a member twice": packed(entry(f"{BLOCK}/block.json", b"[]")),
    "a file and a directory": packed(entry(f"{BLOCK}/block.json/x")),
    "no file": packed(entry(BLOCK, b"", type=tarfile.REGTYPE)),
    "no archive": b"x" * 4096,
    "no archive, and long": b"x" * 200_000,
    "nothing": b"",
    "too many members": packed(*(entry(f"{BLOCK}/{number}", b"") for number in range(300))),
}  # fmt: skip
BEHIND = {
    "cut short": (packed(entry(f"{BLOCK}/long", b"x" * 9000))[:4000], ""),
    "endless": (header(tarfile.REGTYPE, 1 << 40), "exec cat /dev/zero"),
    "endless behind its end": (packed(), "exec cat /dev/zero"),
    "endless errors": (packed(end=False), "exec yes >&2"),
    "silent": (packed(end=False), "exec sleep 30"),
    "slow": (header(tarfile.REGTYPE, 1 << 40), "while :; do printf x; sleep 0.1; done"),
}


SLOW = {"silent", "slow", "endless errors"}
BROKEN = {"no archive", "no archive, and long", "nothing", "a negative size"}
ENDLESS_ONES = {"endless", "endless behind its end"}


@pytest.fixture
def small(monkeypatch, request):
    """Have archives be smaller than a test of them, and little patience with those that are slow."""
    if request.node.callspec.params["lie"] in SLOW:
        monkeypatch.setattr(untrusted, "SILENCE_S", 0.4)
    monkeypatch.setattr(untrusted, "MOST_BYTES", 4 << 20)
    monkeypatch.setattr(untrusted, "MOST_FILES", 200)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("lie", [*ARCHIVES, *BEHIND])
def test_of_an_archive_comes_home_what_was_asked_for_or_nothing(lie, link, liar, capfd):
    """Regular files of the one block, each once, of a size and a number; else the block is not taken at all."""
    text, behind = BEHIND.get(lie) or (ARCHIVES[lie], "")
    liar(text, behind)
    with unharmed(link.run_dir, capfd):
        with pytest.raises(UserError) as refused:
            link.fetch_block("001")
        assert str(refused.value).startswith("there")
        assert not (link.raw / "001").exists()
    assert not Path("/tmp/tsduel-hostile").exists()  # noqa: S108 - what the lie has named
    # It is refused for what came, and not because nothing more did.
    assert lie not in BROKEN or "was cut short" in str(refused.value)
    # What may be a broken connection is tried again.
    assert isinstance(refused.value, NoConnectionError) == (lie in {*BEHIND, *BROKEN} - ENDLESS_ONES)
    # Files that come one by one, and directories, pass the same gate.
    with unharmed(link.run_dir, capfd), contextlib.suppress(UserError):
        link.fetch_files(["control/log", "build/"], link.received)
    assert not (link.received / "outputs.json").exists()


def test_a_host_brings_no_more_than_there_can_be(link, liar, monkeypatch):
    """However many archives it takes: each alone would be small enough."""
    one = packed(entry(f"{BLOCK}/b/c"))
    monkeypatch.setattr(untrusted, "MOST_OF_HOST", 2 * len(one))
    liar(one)
    for _ in range(2):
        link.fetch_block("001")
    with pytest.raises(UserError, match="there: an archive has more than there can be"):
        link.fetch_block("001")


def test_an_honest_block_comes_home_whole(link, liar):
    """With its directories; what was here of it before is replaced, and no partial stays."""
    (link.raw / "001").mkdir(parents=True)
    (link.raw / "001/old").touch()
    directory = entry(f"{BLOCK}/a", b"", type=tarfile.DIRTYPE)
    liar(packed(directory, entry(f"{BLOCK}/b/c")))
    link.fetch_block("001")
    found = {str(path.relative_to(link.raw)) for path in link.raw.rglob("*") if path.is_file()}
    assert found == {"001/block.json", "001/a/metrics.prom.gz", "001/b/c"}


def test_a_block_is_on_the_disk_before_it_has_its_name(link, liar, monkeypatch):
    """Its files and directories, then its name, before anybody may delete the machine that has it."""
    done = []
    fsync, rename = untrusted.os.fsync, Path.replace

    def synced(descriptor):
        done.append(("sync", Path(f"/proc/self/fd/{descriptor}").readlink()))
        fsync(descriptor)

    def renamed(path, target):
        done.append(("rename", path))
        return rename(path, target)

    monkeypatch.setattr("os.fsync", synced)
    monkeypatch.setattr(Path, "replace", renamed)
    liar(packed())
    link.fetch_block("001")
    (at,) = (at for at, (what, path) in enumerate(done) if what == "rename" and str(path).endswith(BLOCK))
    arrived = done[at][1]
    before, after = done[:at], done[at + 1 :]
    for path in (arrived / "block.json", arrived / "a/metrics.prom.gz", arrived, arrived / "a"):
        assert ("sync", path) in before, path
    assert ("sync", link.raw) in after


# --- what its files say, once they are at home ---

ENDLESS = 3 << 20


def stacked(of, value):
    """Return stacks of a profile, as a host packs them."""
    found = {"stacks": [{"of": of, "values": [value]}], "values": ["cpu"], "units": ["ns"], "functions": ["f"]}
    return json.dumps(found | {"period": 1}).encode()


JSONS = {
    "length": b'{"block": ' + b"9" * 6000 + b"}",
    "depth": b'{"a":' + b"[" * 200_000,
    "encoding": b'{"status": "\xff\x1b[2J"}',
    "endless": b'{"a": "' + b"x" * ENDLESS + b'"}',
    "truncated": b'{"status": "ok", "bl',
    "another schema": b'{"status": [1], "block": "x", "blocks": [1], "signals": {"a": 1}, "profiles": [{"file": 3}]}',
    "a list": b"[1, 2]",
    "a deep stack": stacked([0] * 900, 1),
    "less than nothing": stacked([0], -1),
    "no number": b'{"status": "ok", "block": 1, "started": NaN, "ended": 1e999}',
    "another block": b'{"status": "ok", "block": 7, "host": "../../.."}',
    "a long host": b'{"status": "ok", "block": 7, "host": "' + b"x://" * 200_000 + b'"}',
}
OTHERS = {
    "endless": b"x" * ENDLESS,
    "encoding": b"\xff\xfe\x1b[2J\n" * 100,
    "truncated": b"",
    "another schema": b"query_type,sitting,baseline_ns\nx,y,z\n\0,1\n# snapshot x\n\t9\t-9\n",
    "surplus": b"1,2,3,4,5,6,7,8,9,10,11,12\n" * 9,
}
EVENT_LIES = b'{"event":"window","block":1,"rss_bytes":{}}\n[{"event":"window"}]\n'
RUNS = {
    "tsbs": lambda path: synthetic.write_run(
        path, synthetic.Spec(blocks=1, query_types=synthetic.TWO_TYPES[:1], solo_s=0.2, exchanges=40)
    ),
    "gobench": lambda path: synthetic_gobench.write_run(path, synthetic_gobench.Spec(blocks=2)),
}
# Read by tidy, of any file below raw/: the lies take the place of each file in turn.
TIDY = {
    *("tsduel.core.record:read_block", "tsduel.core.rundir:Run.of_host", "tsduel.core.rundir:Run.of_any_host"),
    *("tsduel.core.rundir:Run.variants", "tsduel.tidy.blocks:decide", "tsduel.tidy.profiles:index"),
    "tsduel.tidy.profiles:_listed",
    *("tsduel.tidy.profiles:_stacks", "tsduel.tidy.tables:main", "tsduel.tidy.tables:_windows"),
    *("tsduel.tidy.tables:_signals", "tsduel.tidy.tables:_collection", "tsduel.workloads.gobench.read:read_block"),
    *("tsduel.workloads.gobench.read:_results", "tsduel.workloads.reading:Reader.read_block"),
    *("tsduel.core.record:table", "tsduel.tidy.tables:_copied", "tsduel.workloads.tsbs.read:read_block"),
    *("tsduel.workloads.tsbs.read:read_times", "tsduel.workloads.tsbs.read:read_counts"),
    *("tsduel.core.rundir:Run.machines", "tsduel.core.rundir:Run.host"),
}


@pytest.fixture(scope="module", params=RUNS)
def written(request, tmp_path_factory):
    """Return a run whose blocks are at home."""
    run = RUNS[request.param](tmp_path_factory.mktemp("written") / "results/r")
    profiles = run / "raw/host1/profiles"
    profiles.mkdir()
    of = {"variant": "baseline", "work": "w", "role": "", "kind": "cpu", "operations": 1, "why": "", "file": "p"}
    (profiles / "profiles.json").write_text(json.dumps({"profiles": [of]}))
    stacks = {"stacks": [{"of": [0], "values": [1]}], "values": ["cpu"], "units": ["ns"], "functions": ["main.f"]}
    (profiles / "p.stacks.json.gz").write_bytes(gzip.compress(json.dumps(stacks | {"period": 1}).encode()))
    window = {"event": "window", "t": 1, "block": 1, "variant": "baseline", "life": 1, "elapsed_s": 1, "rss_bytes": 1}
    (run / "raw/host1/events.jsonl").write_text(json.dumps(window, separators=(",", ":")) + "\n")
    return synthetic.tidied(run)


def test_what_its_files_say_is_read_or_refused_in_a_sentence(written, monkeypatch, capfd):
    """Each file below raw/ in turn, of a wrong size, form, encoding or schema, packed or not."""
    monkeypatch.setattr(files, "MOST_JSON", 1 << 20)
    monkeypatch.setattr(files.content, "__defaults__", (1 << 20,))
    alike = {"000", "002", "candidate", "server.log"}
    whole = [path for path in sorted(written.rglob("raw/**/*")) if path.is_file() and not alike & set(path.parts)]
    for path in whole:
        kept = path.read_bytes()
        lies = JSONS if ".json" in path.suffixes else {**OTHERS, "events": EVENT_LIES}
        try:
            for lie, content in lies.items():
                path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
                try:
                    with unharmed_tidy(written, capfd):
                        tidy.main(written)
                except Exception as error:  # noqa: BLE001 - with what was read
                    pytest.fail(f"{path.relative_to(written)}: {lie}: {error!r}")
        finally:
            path.write_bytes(kept)
    tidy.main(written)


@contextlib.contextmanager
def unharmed_tidy(run, capfd):
    """Require that only tables are written, and no letters shown that a terminal obeys."""
    said = ""
    try:
        yield
    except UserError as error:
        said = str(error)
    shown = said + "".join(capfd.readouterr())
    assert not [letter for letter in shown if not letter.isprintable() and letter != "\n"]
    assert not (run.parent.parent / "outside").exists()


@pytest.mark.parametrize("lie", [{"variant": "zzz"}, {"rss_limit": "x"}, {"rss_limit": float("nan")}])
def test_a_window_is_of_a_variant_and_has_numbers(lie, tmp_path):
    """What tidy lets pass, comparison and report take for true."""
    run = RUNS["tsbs"](tmp_path / "results/r")
    window = {"event": "window", "block": 1, "variant": "baseline", "life": 1, "elapsed_s": 1, "rss_bytes": 1} | lie
    (run / "raw/host1/events.jsonl").write_text(json.dumps(window, separators=(",", ":")) + "\n")
    with pytest.raises(UserError, match="events"):
        synthetic.tidied(run)


COUNTS = {name: f"rate,operation,time,value_ns,count\n5,query,response,{row}\n".encode() for name, row in (
    ("none", "1,0"), ("fewer than none", "1,-1"), ("before its begin", "-1,1"),
)}  # fmt: skip


@pytest.mark.parametrize("lie", OTHERS | COUNTS)
def test_counts_are_a_table_or_a_sentence(lie, tmp_path, monkeypatch):
    """Of a part at a fixed rate, which the run above has not."""
    monkeypatch.setattr(files.content, "__defaults__", (1 << 20,))
    path = tmp_path / "mixed.csv.gz"
    path.write_bytes(gzip.compress((OTHERS | COUNTS)[lie]))
    with contextlib.suppress(UserError):
        assert read_counts(path) == {}


def test_a_profile_is_a_file_beside_its_record(tmp_path):
    """A name with a path upward reads nothing else."""
    run = RUNS["tsbs"](tmp_path / "results/r")
    profiles = run / "raw/host1/profiles"
    profiles.mkdir()
    stacks = {"stacks": [], "values": [SECRET], "units": ["u"], "functions": [], "period": 1}
    (tmp_path / "outside.stacks.json.gz").write_bytes(gzip.compress(json.dumps(stacks).encode()))
    of = {"variant": "baseline", "work": "w", "role": "", "kind": "cpu", "operations": 1, "why": ""}
    record = {"profiles": [of | {"file": "../../../../../outside"}]}
    (profiles / "profiles.json").write_text(json.dumps(record))
    with pytest.raises(UserError, match=r"profiles/outside\.stacks\.json\.gz is missing"):
        synthetic.tidied(run)


@pytest.mark.parametrize("lie", [*JSONS, *OTHERS, *TEXTS])
def test_events_at_home_are_read_or_skipped(lie, run_dir):
    """A second view, and the list of runs, read them from the file."""
    path = run_dir / "raw/host1/events.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes((JSONS | OTHERS | TEXTS)[lie] + b"\n")
    assert all(event.name for event in Tail(path).read())
    assert isinstance(runstate.last_event(path), dict)
    (run_dir / "raw/host2/001/block.json").unlink()
    assert runstate.state(open_run(run_dir), "")


@pytest.mark.parametrize("lie", JSONS)
def test_a_record_of_a_build_is_no_way_around(lie, run_dir):
    """What the build there has written about its agent is a path there, or a sentence."""
    path = run_dir / "host/host1/build/agent.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(JSONS[lie])
    with contextlib.suppress(UserError):
        assert all(isinstance(word, str) for link in Link.all(run_dir).values() for word in link.detached("state"))
    with contextlib.suppress(UserError):
        ansible.compare_builds(run_dir, Link.all(run_dir))


def test_a_record_that_was_cut_short_is_built_again(run_dir):
    """By a full disk or a power cut: a machine must not stay for it."""
    path = run_dir / "host/host1/build/agent.json"
    path.parent.mkdir(parents=True)
    path.write_text("")
    assert Link.all(run_dir)["host1"].agent == ""


def test_what_was_built_is_not_told_anew_by_a_host_on_which_versions_ran(link, liar):
    """The record that came with the build stays; logs that are not here come."""
    (link.received / "build").mkdir(parents=True)
    (link.received / "build/agent.json").write_text('{"binary": "/ours"}')
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for made, content in (entry("build/agent.json", b'{"binary": "/theirs"}'), entry("build/agent.log", b"built")):
            archive.addfile(made, io.BytesIO(content))
    liar(stream.getvalue())
    link.fetch_files(["build/"], link.received, again=False)
    assert json.loads((link.received / "build/agent.json").read_text()) == {"binary": "/ours"}
    assert (link.received / "build/agent.log").read_text() == "built"


def test_no_variable_of_the_build_is_what_a_host_says(tmp_path):
    """A module's answer there may have facts of any name; where its records go at home is said by the inventory."""
    answer = {"changed": False, "rc": 0, "stdout": "", "ansible_facts": {"home_run_dir": "/theirs"}}
    liar = tmp_path / "python"
    liar.write_text(f"#!/bin/sh\ncat >/dev/null\necho '{json.dumps(answer)}'\n")
    liar.chmod(0o755)
    variables = {
        "ansible_connection": "local", "ansible_python_interpreter": str(liar), "home_run_dir": "/ours",
    }  # fmt: skip
    (tmp_path / "inventory.json").write_text(json.dumps({"all": {"hosts": {"there": variables}}}))
    tasks = [
        {"ansible.builtin.command": "true"},
        {"ansible.builtin.assert": {"that": "home_run_dir == '/ours'"}},
    ]
    (tmp_path / "play.yml").write_text(json.dumps([{"hosts": "all", "gather_facts": False, "tasks": tasks}]))
    program = Path(sys.executable).parent / "ansible-playbook"
    command = [program, "-i", tmp_path / "inventory.json", tmp_path / "play.yml"]
    environment = {"ANSIBLE_CONFIG": str(PROJECT / "ansible/ansible.cfg"), "ANSIBLE_HOME": str(tmp_path)}
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


# --- the table is whole ---

# How a function shows that it reads what a host says or writes.
MARKS = re.compile(
    r"\bhost\.(run|command)\(|\b(link|self)\.(ask|state|start)\(|links\[\w+\]\.state\("
    r"|\buntrusted\.(ask|started|unpack)\(|\.of_(any_)?host\(|\.machines\b|\.host\.get|read_block\("
    r"|\btable\(block|\.json\(f?['\"]raw|files\.(reading|content|text)\("
    r"|\bTail\(|\bparse\(line|['\"/]events\.jsonl|block\.path"
)
# What is read of a host by other words, or shown after another one of this table has read it.
EVENTS = {
    *("tsduel.rounds.attend:Attendant._follow", "tsduel.rounds.remote:main", "tsduel.rounds.view.events:parse"),
    *("tsduel.rounds.follow:Follower.__init__", "tsduel.rounds.run:_Shown.__init__", "tsduel.rounds.runstate:state"),
    *("tsduel.rounds.runstate:last_event", "tsduel.rounds.ending:_fetch", "tsduel.doctor.queries:check"),
}
ARCHIVED = {"tsduel.places.ssh.link:Link._unpack"}
# Figures of a description that they show as it is: in the report plots/markup.py escapes it, in a table csv does.
SHOWN = {
    *("tsduel.calibrate.page:text", "tsduel.core.rundir:Run.node_of", "tsduel.doctor.queries:_table"),
    *("tsduel.stats.calibration:machine_kind", "tsduel.stats.compare:_hosts", "tsduel.workloads.gobench.read:rows"),
    *("tsduel.workloads.gobench.read:bench_configuration", "tsduel.workloads.gobench.read:bench_name"),
    *("tsduel.workloads.gobench.read:bench_operations", "tsduel.workloads.tsbs.read:bench_configuration"),
    *("plots.exports.trackers:_extra", "plots.sections.checks:_busy_client", "plots.sections.duel:_conditions"),
    *("plots.sections.method:_text", "plots.sections.method:reproduce", "plots.sections.sides:machine"),
    *("plots.sections.hosts:_settings", "tsduel.tidy.tables:_windows", "plots.cost:cpus_of"),
    *("plots.sections.sides:_unseen", "plots.sections.sides:cpus_of_servers"),
}
# These marks mean something of home: Kubernetes' API server, what is to be rented, our own files.
HOME = {
    *(f"tsduel.places.k8s.cluster:Cluster.{name}" for name in ("find", "all", "delete", "events", "_may")),
    "tsduel.places.gcp.provider:_provide",
}
READERS = {*SAYS, *ARCHIVED, *TIDY, *EVENTS, *SHOWN, *HOME}


def readers():
    """Yield the functions that read what comes from a host, as MODULE:CLASS.FUNCTION."""

    def below(node, before):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef):
                yield from below(child, f"{before}{child.name}.")
            elif isinstance(child, ast.FunctionDef) and MARKS.search(ast.unparse(child)):
                yield f"{before}{child.name}"

    for root in ("tsduel", "plots"):
        for path in sorted((PROJECT / root).rglob("*.py")):
            module = ".".join(path.relative_to(PROJECT).with_suffix("").parts)
            yield from (f"{module}:{name}" for name in below(ast.parse(path.read_text()), ""))


def test_each_reader_of_what_a_host_sends_is_in_the_table():
    """A new one is tried with these lies, or it is said above why it need not be."""
    found = set(readers())
    assert sorted(found - READERS) == []
    # Others of the table read by a function that is found.
    assert sorted(READERS - found - set(SAYS) - TIDY - EVENTS) == []

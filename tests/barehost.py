"""A machine for tests: a bare Debian 12 with python3, sudo and sshd and nothing else, reached by real SSH.

A debootstrap tree in namespaces of its own (mounts, processes, network), so that the end of its first process is the
end of everything in it, mounts and network link included, however the test ended. Needs root on Debian.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import egress
import pytest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

PROJECT = Path(__file__).resolve().parent.parent
HOME = PROJECT / ".cache" / "barehost"
SUITE = "bookworm"
PACKAGES = ("python3", "sudo", "openssh-server")
# What this machine needs to make and reach it: command -> Debian package.
NEEDS = {"debootstrap": "debootstrap", "ip": "iproute2", "ssh": "openssh-client", "unshare": "util-linux"}
# How this machine reaches the package registries; paths in them mean nothing there.
PASSED = (
    *("GOPROXY", "GOSUMDB", "GONOSUMDB", "GONOSUMCHECK"),
    *("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_DEFAULT_TIMEOUT"),
)
TRUST = ("SSL_CERT_FILE", "PIP_CERT", "GIT_SSL_CAINFO", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE")
BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")
START_S = 240.0
MOST_SAID = 2000
TIMES, PAUSE_S = 3, 20.0
USERS = ("tester", "plain")  # the first may use sudo without a password
# As if the packages were there: nothing has to be compiled, since what was built here is copied.
STANDINS = (
    "for p in make git gcc; do printf '#!/bin/sh\\nexit 1\\n' >/usr/local/bin/$p; chmod 755 /usr/local/bin/$p; done; "
    "mkdir -p /usr/include; touch /usr/include/stdio.h"
)


def require() -> None:
    """Skip the test where it cannot be: on a laptop without root, or another system than Debian."""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        pytest.skip("a bare Debian 12 to test with needs root and apt-get (debootstrap, namespaces); CI has them")


def _command(*words: str | Path, **more: object) -> str:
    command = [str(word) for word in words]
    done = subprocess.run(  # type: ignore[call-overload]  # `more` has any of its options
        command, capture_output=True, text=True, check=False, **more
    )
    # What went wrong is said last, and debootstrap says much.
    assert done.returncode == 0, f"{words}: {(done.stdout + done.stderr)[-MOST_SAID:]}"
    return str(done.stdout)


def _install_needs() -> None:
    missing = [package for command, package in NEEDS.items() if not shutil.which(command)]
    if missing:
        _command(PROJECT / "scripts" / "ensure-packages", *(f"-={package}" for package in missing))


def _mirror() -> list[str]:
    """Return where this machine has its own Debian packages from; without an answer debootstrap knows one."""
    asked = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Label: Debian", f"Codename: {SUITE}"]
    found = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.split()
    return found[:1]


def tree() -> Path:
    """Return the tree of the bare machine, made once (about a minute) and kept in the cache."""
    key = hashlib.sha256(repr((SUITE, PACKAGES)).encode()).hexdigest()[:12]
    made = HOME / f"tree-{key}"
    HOME.mkdir(parents=True, exist_ok=True)
    with (HOME / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _install_needs()
        if not made.exists():
            _bootstrap(HOME / f"tree-{key}.partial").rename(made)
    return made


def _bootstrap(partial: Path) -> Path:
    """Make a tree; a package that cannot be had just now is asked for again, and those that came are kept."""
    fetched = HOME / "packages"
    fetched.mkdir(exist_ok=True)
    words = ["debootstrap", "--variant=minbase", f"--cache-dir={fetched}", f"--include={','.join(PACKAGES)}", SUITE]
    for left in reversed(range(TIMES)):
        shutil.rmtree(partial, ignore_errors=True)
        try:
            _command(*words, partial, *_mirror())
            break
        except AssertionError:
            if not left:
                raise
            time.sleep(PAUSE_S)
    shutil.rmtree(fetched)
    return partial


def our_go() -> Path:
    """Return the root of the Go that builds here."""
    go = subprocess.run(
        [PROJECT / "scripts" / "ensure-go", "1.25.5"], capture_output=True, text=True, check=True
    ).stdout.strip()
    environment = os.environ | {"GOTOOLCHAIN": "local"}
    root = subprocess.run([go, "env", "GOROOT"], env=environment, capture_output=True, text=True, check=True)
    return Path(root.stdout.strip())


def _is_process(pid: int, began: str) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19] == began
    return False


def _began(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]


def _remove_leftovers() -> None:
    """End and remove what tests that were killed have left: known by the process of each, never by a name."""
    for state in HOME.glob("live-*"):
        owner = (state / "owner").read_text().split() if (state / "owner").exists() else []
        if owner and _is_process(int(owner[0]), owner[1]):
            continue
        init = (state / "init").read_text().split() if (state / "init").exists() else []
        if init and _is_process(int(init[0]), init[1]):
            os.kill(int(init[0]), signal.SIGKILL)
        shutil.rmtree(state, ignore_errors=True)


def send(number: int, pids: Collection[int]) -> int:
    """Send a signal to processes, of which some may have ended; return how many they were."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
    return len(pids)


class BareHost:
    """One such machine: `address`, `port`, `key` (private key file) and `config` (an ssh_config that uses it)."""

    port = 22

    def __init__(self, directory: Path, *, mounts: Mapping[Path, str] | None = None) -> None:
        """Take a directory for the key; ``mounts``: directories of this machine, and where they are seen there."""
        self.directory = directory
        self.mounts = dict(mounts or {})
        self.key = directory / "key"
        self.config = directory / "ssh_config"
        self.known_hosts = directory / "known_hosts"
        self.locks: list[int] = []

    def start(self) -> BareHost:
        """Boot it, and return when sshd answers."""
        lower = tree()
        _remove_leftovers()
        self.state = HOME / f"live-{os.getpid()}-{self.directory.name}"
        # Whoever sees it sees whose it is: without an owner it is a leftover.
        fresh = HOME / f"new-{self.state.name}"
        fresh.mkdir()
        (fresh / "owner").write_text(f"{os.getpid()} {_began(os.getpid())}")
        fresh.rename(self.state)
        self.link, self.address, home_address = self._make_link()
        self.proxy = egress.start(home_address)
        self._make_key(lower)
        self._furnish(lower, home_address)
        self._boot(lower)
        return self

    def _make_link(self) -> tuple[str, str, str]:
        for number in range(1, 200):
            link = f"tsduel{number}h"
            words = ["ip", "link", "add", link, "type", "veth", "peer", "name", f"tsduel{number}g"]
            if self._is_free(link) and subprocess.run(words, capture_output=True, check=False).returncode == 0:
                home = f"10.213.{number}.1"
                _command("ip", "address", "add", f"{home}/30", "dev", link)
                _command("ip", "link", "set", link, "up")
                return link, f"10.213.{number}.2", home
        raise AssertionError("no network link can be made")

    def _is_free(self, link: str) -> bool:
        """Take a link unless a host has it. One that has ended took its link along, and still has name and address."""
        lock = os.open(f"/run/lock/{link}", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return False
        self.locks.append(lock)
        return True

    def _make_key(self, lower: Path) -> None:
        self.directory.mkdir(exist_ok=True)
        _command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.key)
        public = (lower / "etc/ssh/ssh_host_ed25519_key.pub").read_text()
        self.known_hosts.write_text(f"{self.address} {public}")
        self.config.write_text(
            f"Host *\n  IdentityFile {self.key}\n  IdentitiesOnly yes\n  IdentityAgent none\n"
            f"  UserKnownHostsFile {self.known_hosts}\n  GlobalKnownHostsFile /dev/null\n"
        )

    def _furnish(self, lower: Path, home_address: str) -> None:
        """Users, the key, and the way to the package registries: what a provider's image gets at its first boot."""
        upper = self.state / "upper"
        proxy = f"http://{home_address}:{self.proxy.server_port}"
        environment = {name: os.environ[name] for name in PASSED if os.environ.get(name)}
        environment |= dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), proxy)
        environment |= {"PATH": "/usr/local/go/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}
        files = {"etc/apt/apt.conf.d/99egress": f'Acquire::http::Proxy "{proxy}";\nAcquire::https::Proxy "{proxy}";\n'}
        if BUNDLE.exists():
            files["opt/trusted.crt"] = BUNDLE.read_text()
            environment |= dict.fromkeys(TRUST, "/opt/trusted.crt")
        files["etc/environment"] = "".join(f"{name}={value}\n" for name, value in environment.items())
        files["etc/hosts"] = "127.0.0.1 localhost bare\n"
        files["etc/sudoers.d/tester"] = f"{USERS[0]} ALL=(ALL) NOPASSWD: ALL\n"
        names = {"root": (0, "root")} | {name: (1000 + n, f"home/{name}") for n, name in enumerate(USERS)}
        for kind, line in (("passwd", "{n}:x:{i}:{i}::/home/{n}:/bin/bash\n"), ("group", "{n}:x:{i}:\n")):
            known = (lower / "etc" / kind).read_text()
            files[f"etc/{kind}"] = known + "".join(line.format(n=n, i=names[n][0]) for n in USERS)
        shadow = (lower / "etc/shadow").read_text()
        files["etc/shadow"] = shadow + "".join(f"{n}:*:19000:0:99999:7:::\n" for n in USERS)
        (self.state / "upper").mkdir()
        for name, text in files.items():
            path = upper / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (upper / "etc/shadow").chmod(0o600)
        (upper / "etc/sudoers.d/tester").chmod(0o440)
        (upper / "run/sshd").mkdir(parents=True)
        for number, home in names.values():
            ssh = upper / home / ".ssh"
            ssh.mkdir(parents=True)
            (ssh / "authorized_keys").write_text(self.key.with_suffix(".pub").read_text())
            for path in (ssh.parent, ssh, ssh / "authorized_keys"):
                os.chown(path, number, number)
                path.chmod(0o700 if path.is_dir() else 0o600)
        for directory in ("etc", "run", "opt", "home"):
            (upper / directory).chmod(0o755)

    def _boot(self, lower: Path) -> None:
        guest = f"{self.link[:-1]}g"
        init = [Path(__file__).parent / "barehost-init", lower, self.state, guest, f"{self.address}/30"]
        mounts = [f"{here}={there}" for here, there in self.mounts.items()]
        # It ends with us, however we end, and all that is in it ends with it.
        words = ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--net", "--uts", "--ipc", "--fork"]
        with (self.state / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [str(w) for w in [*words, "--kill-child=KILL", "--", *init, *mounts]],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
            )
        (self.state / "init").write_text(f"{self.process.pid} {_began(self.process.pid)}")
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        self._wait(lambda: children.read_text().strip() != "")
        self.init = int(children.read_text().split()[0])
        _command("ip", "link", "set", guest, "netns", str(self.init))
        assert self.process.stdin is not None
        self.process.stdin.write(b"go\n")
        self.process.stdin.close()
        self._wait(lambda: self.ssh("true", user="root", check=False).returncode == 0)

    def _wait(self, condition) -> None:
        deadline = time.monotonic() + START_S
        while not condition():
            log = (self.state / "log").read_text() if (self.state / "log").exists() else ""
            assert self.process.poll() is None, f"the bare host ended: {log}"
            assert time.monotonic() < deadline, f"the bare host does not answer: {log}"
            time.sleep(0.1)

    def ssh(self, line: str, *, user: str = USERS[0], check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a line of shell there, over a connection of its own."""
        options = ["-F", str(self.config), "-oConnectTimeout=5", "-oBatchMode=yes", "-oServerAliveInterval=20"]
        words = ["ssh", *options, f"{user}@{self.address}", line]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert not check or done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"
        return done

    def processes(self) -> dict[int, str]:
        """Return pid (of this machine's numbering) -> command line of all that runs there."""
        found = {}
        ours = Path(f"/proc/{self.init}/ns/pid").readlink()
        for directory in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if (directory / "ns/pid").readlink() == ours:
                    found[int(directory.name)] = (directory / "cmdline").read_text().replace("\0", " ").strip()
        return found

    def left(self) -> dict[int, str]:
        """Return pid and command line of all that runs there but sshd."""
        return {pid: line for pid, line in self.processes().items() if line and not line.startswith("sshd")}

    def kill_connections(self) -> int:
        """Break every SSH connection at once; return how many processes of sshd that took."""
        sessions = [pid for pid, line in self.processes().items() if line.startswith("sshd: ") and pid != self.init]
        sessions = [pid for pid in sessions if "[listener]" not in self.processes().get(pid, "")]
        return send(signal.SIGKILL, sessions)

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Stop all that runs there but sshd, and have it go on."""
        found = self.left()
        send(signal.SIGSTOP, found)
        yield
        send(signal.SIGCONT, found)

    def kill_everything(self) -> int:
        """Kill all that runs there but sshd at once, as a restart does; return how many that were."""
        found = self.left()
        send(signal.SIGSTOP, found)
        return send(signal.SIGKILL, found)

    def mount_small(self, directory: str, mebibytes: int) -> None:
        """Put an almost full disk there, which everybody may write to."""
        there = f"{self.state}/root{directory}"
        self._inside("mkdir", "-p", there)
        self._inside("mount", "-t", "tmpfs", "-o", f"size={mebibytes}m,mode=1777", "tmpfs", there)

    def _inside(self, *words: str) -> None:
        _command("nsenter", "--target", str(self.init), "--mount", *words)

    @contextlib.contextmanager
    def unplugged(self) -> Iterator[None]:
        """Take the network away without a word, and give it back."""
        _command("ip", "link", "set", self.link, "down")
        try:
            yield
        finally:
            _command("ip", "link", "set", self.link, "up")

    def stop(self) -> None:
        """End it with all that runs in it, and remove what it wrote."""
        if self.locks and hasattr(self, "link"):
            subprocess.run(["ip", "link", "delete", self.link], capture_output=True, check=False)
        if hasattr(self, "process"):
            self.process.kill()
            self.process.wait()
            deadline = time.monotonic() + START_S
            while Path(f"/proc/{self.init}").exists() if hasattr(self, "init") else False:
                assert time.monotonic() < deadline
                time.sleep(0.05)
        if hasattr(self, "proxy"):
            self.proxy.shutdown()
            self.proxy.server_close()
        if hasattr(self, "state"):
            shutil.rmtree(self.state, ignore_errors=True)
        while self.locks:
            os.close(self.locks.pop())

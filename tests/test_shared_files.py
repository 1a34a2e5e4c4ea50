"""What a run leaves in results/ can be shared: no secret of the user stands in any file of it."""

from __future__ import annotations

import base64
import contextlib
import gzip
import json
import os
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from asking import FAKES, written
from checkout import share
from fakeproject import agent, running
from gitrepo import Repository

TOKEN, IN_ENV, IN_FLAG, IN_URL = (f"pl4nt3d-{place}" for place in ("in-git", "in-env", "in-flag", "in-url"))
SECRETS = (TOKEN, IN_ENV, IN_FLAG, IN_URL)
MAKEFILE = "victoria-metrics:\n\tmkdir -p bin && cp server bin/victoria-metrics\n"


class PrivateRepository(BaseHTTPRequestHandler):
    """Git's own server behind a login."""

    root = Path()

    def log_message(self, *_):
        """Say nothing."""

    def do_GET(self):
        """Have git answer whoever has the token."""
        wanted = f"Basic {base64.b64encode(f'me:{TOKEN}'.encode()).decode()}"
        if self.headers["Authorization"] != wanted:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="x"')
            self.end_headers()
            return
        path, _, query = self.path.partition("?")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        environment = os.environ | {
            "GIT_PROJECT_ROOT": str(self.root), "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path, "QUERY_STRING": query,
            "REQUEST_METHOD": self.command, "CONTENT_TYPE": self.headers.get("Content-Type") or "",
            "CONTENT_LENGTH": str(len(body)), "GIT_PROTOCOL": self.headers.get("Git-Protocol") or "",
        }  # fmt: skip
        done = subprocess.run(["git", "http-backend"], input=body, env=environment, capture_output=True, check=True)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        self.send_response(int(fields.pop("Status", "200").split()[0]))
        for name, value in fields.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_GET  # noqa: N815 - its caller's name


@pytest.fixture
def private(tmp_path):
    """Return the URL of a private repository, whose branch `main` builds a fake database; that of `broken` does not."""
    made = Repository(tmp_path / "git" / "db.git")
    made.write("Makefile", MAKEFILE)
    made.write("server", (FAKES / "database").read_text(), 0o755)
    made.commit_all("first")
    made.git("config", "uploadpack.allowFilter", "true")
    made.git("switch", "--quiet", "--create", "broken")
    made.write("Makefile", "victoria-metrics:\n\tgit remote -v; exit 1\n")
    made.commit_all("broken")
    handler = type("Handler", (PrivateRepository,), {"root": tmp_path / "git"})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://me:{TOKEN}@127.0.0.1:{server.server_port}/db.git/.git"
    server.shutdown()
    server.server_close()


class Typed:
    """Types commands of one run, and sees the arguments of all that they start."""

    def __init__(self, root):
        self.root, self.run_dir, self.cache = root, root / "results" / "r", root / "cache"
        share(self.cache, "go", "toolchain", "agent")
        left_out = ("TSDUEL", "TSBS_", "FAKE_", "GIT_")
        self.env = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
        self.env |= {
            "TSDUEL_CACHE": str(self.cache), "TSDUEL_RESULTS": str(root / "results"), "RUN": "r", "VIEW": "plain",
            "TSDUEL_LOCK": str(root / "host.lock"), "SEEN_BY": str(root),
        }  # fmt: skip
        self.said, self.arguments = "", set()

    def type(self, *words, expect=0, **env):
        """Run a program to its end; its environment marks all that it starts, but for servers and clients."""
        stop = threading.Event()

        def look():
            while not stop.is_set():
                for mark in (f"SEEN_BY={self.root}", f"TSDUEL_SCRATCH={self.cache}/scratch"):
                    self.arguments |= set(running(mark.__eq__).values())
                time.sleep(0.002)

        looking = threading.Thread(target=look)
        looking.start()
        done = subprocess.run(
            [sys.executable, *words], env=self.env | env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            check=False,
        )  # fmt: skip
        stop.set()
        looking.join()
        self.said += done.stdout
        assert done.returncode == expect, done.stdout
        return done.stdout

    def stage(self, name, **more):
        """Run one stage."""
        return self.type("-m", "tsduel", name, **more)

    def planned(self, private, ref="main", **env):
        """Plan a run of the private repository against a candidate with secrets, and build it."""
        flags = [f"-httpAuth.password={IN_FLAG}", "-x.authKey", IN_FLAG, f"-x.url=http://u:{IN_URL}@127.0.0.1:1/x"]
        candidate = written()["variants"]["candidate"] | {"flags": flags, "env": {"FAKE_PASSWORD": IN_ENV, **env}}
        asked = self.root / "asked.yml"
        asked.write_text(json.dumps(written(variants={"candidate": candidate}, profile=["cpu"])))
        typed = {"EXPERIMENT": str(asked), "BASELINE": f"git:{private}@{ref}"}
        self.stage("plan", **typed)
        self.type("-m", "tsduel", "plan", **typed)  # the same question may be typed again
        (self.run_dir / "build").mkdir(exist_ok=True)

    def built(self):
        """Build both sides; the other programs are fakes."""
        build = Path(__file__).resolve().parent.parent / "ansible/build.py"
        self.type(build, self.run_dir, "baseline", "candidate")
        (self.run_dir / "build/tsbs.json").write_text(json.dumps({"bin_dir": str(FAKES)}))
        (self.run_dir / "build/agent.json").write_text(json.dumps({"binary": agent()}))

    def leaks(self):
        """Return what of a run, of what was said and of arguments has a secret in it."""
        found = [path for path in (self.root / "results").rglob("*") if path.is_file() and shown(path.read_bytes())]
        # Only the server itself is given its flags.
        calls = {words for words in self.arguments if "-storageDataPath" not in words and "/start " not in words}
        return [*found, *filter(shown, calls), *filter(shown, self.said.splitlines())]


def shown(content):
    """Return the planted secrets in a text or in a file, also a packed one."""
    content = content.encode() if isinstance(content, str) else content
    with contextlib.suppress(OSError, EOFError):
        content += gzip.decompress(content)
    with contextlib.suppress(ValueError):
        content += json.dumps(json.loads(content), ensure_ascii=False).encode()
    login = base64.b64encode(f"me:{TOKEN}".encode()).decode()
    return [secret for secret in (*SECRETS, login) if secret.encode() in content]


@pytest.fixture
def typed(tmp_path):
    """Return a run that nobody has planned yet."""
    return Typed(tmp_path)


def test_no_file_of_a_run_has_a_secret_of_the_user(typed, private, tmp_path):
    """Neither a token of git, nor a variable, nor a flag, from plan to exports; the servers had them all the same."""
    profiles = tmp_path / "pprof"
    profiles.mkdir()
    (profiles / "profile.1").write_bytes(b"no profile of " + IN_FLAG.encode())
    typed.planned(private)
    typed.built()
    typed.stage("run", FAKE_PPROF=str(profiles))
    for name in ("tidy", "compare", "report", "comment", "list", "status"):
        typed.stage(name)
    assert typed.leaks() == []
    logs = [path.read_text() for path in typed.run_dir.glob("raw/host1/*/candidate/*.log")]
    assert [
        log for log in logs if "-httpAuth.password=hidden-" not in log or '"FAKE_PASSWORD": "hidden-' not in log
    ] == []
    assert logs
    assert any(f"-httpAuth.password={IN_FLAG}" in words and IN_URL in words for words in typed.arguments)
    assert "hidden-" in (typed.run_dir / "report.md").read_text()
    # What is elsewhere is the user's alone, and holds each secret once.
    kept = {path.name: path.read_text() for path in (typed.cache / "secrets").iterdir()}
    assert {secret for secret in SECRETS if any(secret in text for text in kept.values())} == set(SECRETS)
    private_files = [*typed.cache.glob("src/*/config"), *typed.cache.glob("scratch/**/*.log")]
    assert [path for path in private_files if shown(path.read_bytes())] == []


def test_what_a_failed_block_says_has_no_secret(typed, private):
    """A server that quotes its flags and variables when it dies is quoted with hashes, also while its block runs."""
    typed.planned(private, FAKE_MODE="tell")
    typed.built()
    typed.stage("run")
    for name in ("tidy", "compare", "report"):
        typed.stage(name, expect=4 if name == "report" else 0)
    assert typed.leaks() == []
    failures = json.loads((typed.run_dir / "raw/host1/001/block.json").read_text())["failures"]
    assert "panic: cannot use [" in failures[0]["message"]
    assert failures[0]["message"].count("hidden-") == 4


def test_what_a_failed_build_says_has_no_secret(typed, private):
    """Nor does the log of its build, whose command asks git where it comes from."""
    typed.planned(private, ref="broken")
    build = Path(__file__).resolve().parent.parent / "ansible/build.py"
    assert "/db.git" in typed.type(build, typed.run_dir, "baseline", expect=2)
    assert typed.leaks() == []


@pytest.mark.parametrize("wrong", ["@no-such-branch", "", "/nothing@main"])
def test_what_a_refused_repository_says_has_no_secret(typed, private, wrong):
    """Whether the branch is missing, or its name, or the repository."""
    said = typed.type("-m", "tsduel", "plan", BASELINE=f"git:{private}{wrong}", EXPERIMENT="quick", expect=2)
    assert "127.0.0.1" in said
    assert typed.leaks() == []


def test_a_run_whose_values_were_removed_does_not_begin(typed, private):
    """It says what is missing, and why, before anything is built or started."""
    typed.planned(private)
    typed.built()
    for path in (typed.cache / "secrets").glob("hidden-*"):
        path.unlink()
    for stage in ("provision", "build", "run"):
        said = typed.stage(stage, expect=0 if stage == "provision" else 2)
    assert "make clean-cache removes it): start a new run" in said

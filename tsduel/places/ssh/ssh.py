"""One machine behind SSH, or reached in another way: options, commands, and sentences for ssh's errors.

A host is an object of ``hosts`` in host/outputs.json. ``user``, ``port``, ``config_file`` and ``key_file`` are None if
ssh's own configuration decides; ``known_hosts_file`` is None for the user's own file and rules. ``through``: arguments
of our Python for a program that takes ssh's place; what it is told is a command, and 255 is its exit code, too, for no
connection. ``login``: the words before a line of shell for a login by hand there.
"""

import hashlib
import os
import re
import shlex
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Self

from tsduel.core.errors import UserError
from tsduel.core.wording import last_line
from tsduel.places.ssh import untrusted

# ssh's exit code for "no connection"; that of a command is lower.
NO_CONNECTION = 255
CONNECT_S = 10
# A silent connection ends after ALIVE_S * ALIVE_COUNT seconds.
ALIVE_S = 5
ALIVE_COUNT = 3
PERSIST_S = 60
COMMAND_S = 120.0
NOTHING_FORWARDED = {"ForwardAgent": "no", "ForwardX11": "no", "ClearAllForwardings": "yes"}
# What takes ssh's place says so first if trying again does not help.
REFUSED = "refused: "


class NoConnectionError(UserError):
    """The machine was not reached, or the connection broke; trying again may help."""


class RefusedError(UserError):
    """The machine refuses the login, or must not be trusted; trying again does not help."""


def _path(path: str) -> str:
    """Return a path as a value of ssh's configuration, which is split at spaces and has tokens with %."""
    path = path.replace("%", "%%")
    return f'"{path}"' if " " in path else path


@dataclass(frozen=True)
class Host:
    """How to reach a machine where blocks run."""

    address: str
    user: str | None = None
    port: int | None = None
    config_file: str | None = None
    key_file: str | None = None
    known_hosts_file: str | None = None
    through: tuple[str, ...] = ()
    login: tuple[str, ...] = ()

    @classmethod
    def from_outputs(cls, host: Mapping[str, Any]) -> Self:
        """Read an object of ``hosts`` in host/outputs.json; its other fields are not for ssh."""
        fields: dict[str, Any] = {name: host.get(name) for name in cls.__dataclass_fields__}
        return cls(**fields | {name: (*host.get(name, ()),) for name in ("through", "login")})

    @property
    def name(self) -> str:
        """The name in messages."""
        return f"{self.user}@{self.address}" if self.user else self.address

    def options(self, *, agent: bool = True) -> list[str]:
        """Return the options of ssh for every connection, Ansible's too; without ``agent`` nothing is forwarded.

        A build may need the agent for a private repository. While versions run, a process of theirs could use it, or
        our screen, or whatever else the user's configuration forwards.
        """
        # The user's own configuration is not for rented machines.
        words = ["-F", self.config_file or "/dev/null"] if self.config_file or self.known_hosts_file else []
        settings = {
            "BatchMode": "yes",
            "ConnectTimeout": CONNECT_S,
            "ServerAliveInterval": ALIVE_S,
            "ServerAliveCountMax": ALIVE_COUNT,
            "ControlMaster": "auto",
            "ControlPersist": PERSIST_S,
            # A socket's path may have about 100 letters, so it is short.
            "ControlPath": _private_directory() / hashlib.sha256(repr((self, agent)).encode()).hexdigest()[:16],
        }
        if not agent:
            settings |= NOTHING_FORWARDED
        if self.key_file:
            settings |= {"IdentitiesOnly": "yes", "IdentityFile": _path(self.key_file)}
        if self.known_hosts_file:
            # A rented machine: its host keys are known, and candidates run there, so it gets no access to our keys.
            settings |= {
                "UserKnownHostsFile": _path(self.known_hosts_file),
                "GlobalKnownHostsFile": "/dev/null",
                "StrictHostKeyChecking": "yes",
                "UpdateHostKeys": "no",
                "IdentityAgent": "none",
                **NOTHING_FORWARDED,
            }
        return words + [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]

    def destination(self) -> list[str]:
        """Return the arguments that name the machine to ssh."""
        port = ["-p", str(self.port)] if self.port else []
        user = ["-l", self.user] if self.user else []
        return [*port, *user, "--", self.address]

    def command(self, *words: str) -> list[str]:
        """Return the command line that runs a command there, with each word quoted."""
        if self.through:
            return [sys.executable, *self.through, *words]
        return ["ssh", "-T", *self.options(agent=False), *self.destination(), shlex.join(words)]

    def hang_up(self) -> None:
        """End the connection that Ansible leaves open: through it the user's agent is there for who is that user."""
        if not self.through:
            command = ["ssh", "-O", "exit", *self.options(), *self.destination()]
            subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=COMMAND_S, check=False)

    def interactive(self, line: str) -> list[str]:
        """Return the command line for a login by hand: it may ask, and runs a line of shell in a terminal."""
        if self.login:
            return [*self.login, line]
        plain = [word.replace("BatchMode=yes", "BatchMode=no") for word in self.options(agent=False)]
        return ["ssh", "-t", *plain, *self.destination(), line]

    def run(
        self, *words: str, text: str = "", feed: IO[bytes] | None = None, timeout_s: float = COMMAND_S
    ) -> subprocess.CompletedProcess[str]:
        """Run a command there with ``text`` or a file as its input; only a broken connection is an error."""
        with self.heard(timeout_s), tempfile.TemporaryFile() as stdin_file:
            stdin_file.write(text.encode())
            stdin_file.seek(0)
            done = untrusted.ask(self.command(*words), feed or stdin_file, timeout_s)
        if done.returncode == NO_CONNECTION:
            raise self.failure(done.stderr)
        return done

    @contextmanager
    def heard(self, patience_s: float = untrusted.SILENCE_S) -> Iterator[None]:
        """Say of what host it is that the body was told too little, or too much."""
        try:
            yield
        except FileNotFoundError as error:
            if error.filename != "ssh":
                raise
            raise UserError("ssh is not installed; install it (Debian: openssh-client) and try again") from None
        except untrusted.SilentError:
            raise NoConnectionError(f"{self.name} did not answer within {patience_s:.0f} s") from None
        except untrusted.LieError as error:
            raise untrusted.LieError(
                f"{self.name}: {error}: none of it is taken. Somebody has changed our programs there, or a version "
                "that was measured did: look at that machine, or take another one"
            ) from None

    def failure(self, output: str) -> UserError:
        """Return the error for ssh's words: NoConnectionError if trying again may help, else RefusedError."""
        reason = last_line(output).removeprefix("ssh: ").rstrip(".")
        if self.through:
            kind = RefusedError if reason.startswith(REFUSED) else NoConnectionError
            return kind(f"{self.name} cannot be reached: {reason.removeprefix(REFUSED)}")
        by_hand = f"ssh {shlex.join([*(['-F', self.config_file] if self.config_file else []), *self.destination()])}"
        if match := re.search(r"Permissions \S+ for '(.+)' are too open", output):
            key = shlex.quote(match[1])
            unsafe = f"the SSH key {key} can be read by others, so ssh does not use it; type: chmod 600 {key}"
            return RefusedError(unsafe)
        for pattern, sentence in REFUSALS.items():
            if re.search(pattern, output):
                return RefusedError(sentence.format(name=self.name, by_hand=by_hand, reason=reason))
        return NoConnectionError(
            f"{self.name} cannot be reached ({reason}); see that this works: {by_hand} true, then try again"
        )


# What ssh prints -> what to do. All other errors may pass.
REFUSALS = {
    "REMOTE HOST IDENTIFICATION HAS CHANGED": (
        "{name} shows another host key than the one you have on record: it is another machine, or somebody is in "
        "between; only if you know why, remove the record with ssh-keygen -R"
    ),
    "Host key verification failed": (
        "the host key of {name} is not known yet; log in once by hand and compare it: {by_hand}"
    ),
    r"Permission denied \(": (
        "{name} refuses the login ({reason}); see that this works without a question: {by_hand} true "
        "(ssh-add your key, or name it in your ssh_config)"
    ),
    "Too many authentication failures": (
        "{name} refuses the login ({reason}); name the one key for it in your ssh_config"
    ),
    "Could not resolve hostname": "{name}: there is no machine of this name ({reason}); look at SSH_HOST",
    "[Bb]ad configuration option|Bad owner or permissions on|Can't open user config file": (
        "ssh does not take its configuration ({reason}); mend it and try again"
    ),
}


def _private_directory() -> Path:
    """Return the directory of the sockets, which only the user may read; another user's is refused."""
    directory = Path("/tmp") / f"tsduel-ssh-{os.getuid()}"  # noqa: S108 - looked at below
    directory.mkdir(mode=0o700, exist_ok=True)
    status = directory.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise UserError(
            f"{directory} is not a directory of yours alone, and our SSH sockets go there; remove it and try again"
        )
    return directory

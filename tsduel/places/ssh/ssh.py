"""One machine behind SSH: its options, its commands, and its refusals in a sentence.

A host is an object of ``hosts`` in host/outputs.json: ``address``; ``user``, ``port``, ``config_file`` and
``key_file``, None where ssh's own configuration decides; ``known_hosts_file``, None for the user's own with the user's
own rules.
"""

import hashlib
import os
import re
import shlex
import stat
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tsduel.core.errors import UserError
from tsduel.core.wording import last_line

# ssh's own exit code for "no connection"; a command's own is below.
NO_CONNECTION = 255
CONNECT_S = 10
# A connection without a word is given up after ALIVE_S * ALIVE_COUNT seconds.
ALIVE_S = 5
ALIVE_COUNT = 3
PERSIST_S = 60
COMMAND_S = 120.0


class NoConnectionError(UserError):
    """The machine was not reached, or the connection broke; trying again may help."""


class RefusedError(UserError):
    """The machine was reached and does not let us in, or must not be trusted: trying again does not help."""


@dataclass(frozen=True)
class Host:
    """How to reach the machine where the blocks run."""

    address: str
    user: str | None = None
    port: int | None = None
    config_file: str | None = None
    key_file: str | None = None
    known_hosts_file: str | None = None

    @classmethod
    def from_outputs(cls, host: Mapping[str, Any]) -> Self:
        """Read an object of ``hosts`` in host/outputs.json; other entries of it are not for ssh."""
        return cls(**{name: host.get(name) for name in cls.__dataclass_fields__})  # type: ignore[arg-type]  # it comes from JSON

    @property
    def name(self) -> str:
        """What a person calls it."""
        return f"{self.user}@{self.address}" if self.user else self.address

    def options(self) -> list[str]:
        """Return the options of ssh that every connection has, Ansible's too."""
        # What is in somebody's own configuration is for machines of theirs.
        words = ["-F", self.config_file or "/dev/null"] if self.config_file or self.known_hosts_file else []
        settings = {
            "BatchMode": "yes",
            "ConnectTimeout": CONNECT_S,
            "ServerAliveInterval": ALIVE_S,
            "ServerAliveCountMax": ALIVE_COUNT,
            "ControlMaster": "auto",
            "ControlPersist": PERSIST_S,
            "ControlPath": self._control_path(),
        }
        if self.key_file:
            settings |= {"IdentitiesOnly": "yes", "IdentityFile": self.key_file}
        if self.known_hosts_file:
            # A machine that was made for this run: its host keys were asked for elsewhere, and candidates run there, so
            # it is handed nothing of ours.
            settings |= {
                "UserKnownHostsFile": self.known_hosts_file,
                "GlobalKnownHostsFile": "/dev/null",
                "StrictHostKeyChecking": "yes",
                "UpdateHostKeys": "no",
                "IdentityAgent": "none",
                "ForwardAgent": "no",
                "ForwardX11": "no",
                "ClearAllForwardings": "yes",
            }
        return words + [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]

    def destination(self) -> list[str]:
        """Return the words that name the machine to ssh."""
        port = ["-p", str(self.port)] if self.port else []
        user = ["-l", self.user] if self.user else []
        return [*port, *user, "--", self.address]

    def _control_path(self) -> str:
        # A socket's path has room for 100 letters, so the directory is short.
        key = hashlib.sha256(repr(self).encode()).hexdigest()[:16]
        return str(_private_directory() / key)

    def command(self, *words: str) -> list[str]:
        """Return the whole command line that runs a command there, each word of it as it is."""
        return ["ssh", "-T", *self.options(), *self.destination(), shlex.join(words)]

    def interactive(self, line: str) -> list[str]:
        """Return the command line for a person who logs in: may ask, and runs a line of shell in a terminal."""
        plain = [word.replace("BatchMode=yes", "BatchMode=no") for word in self.options()]
        return ["ssh", "-t", *plain, *self.destination(), line]

    def run(self, *words: str, text: str = "", timeout_s: float = COMMAND_S) -> subprocess.CompletedProcess[str]:
        """Run a command there with ``text`` as its input; a broken connection is an error, another exit code is not."""
        try:
            done = subprocess.run(
                self.command(*words), input=text, capture_output=True, text=True, check=False, timeout=timeout_s
            )
        except FileNotFoundError:
            raise UserError("ssh is not installed; install it (Debian: openssh-client) and try again") from None
        except subprocess.TimeoutExpired:
            raise NoConnectionError(f"{self.name} did not answer within {timeout_s:.0f} s") from None
        if done.returncode == NO_CONNECTION:
            raise self.failure(done.stderr)
        return done

    def failure(self, said: str) -> UserError:
        """Return what ssh's complaint means: NoConnectionError where trying again may help, else RefusedError."""
        reason = last_line(said).removeprefix("ssh: ").rstrip(".")
        by_hand = f"ssh {shlex.join([*(['-F', self.config_file] if self.config_file else []), *self.destination()])}"
        if found := re.search(r"Permissions \S+ for '(.+)' are too open", said):
            key = shlex.quote(found[1])
            return RefusedError(
                f"the SSH key {key} can be read by others, so ssh does not use it; type: chmod 600 {key}"
            )
        for pattern, sentence in REFUSALS.items():
            if re.search(pattern, said):
                return RefusedError(sentence.format(name=self.name, by_hand=by_hand, reason=reason))
        return NoConnectionError(
            f"{self.name} cannot be reached ({reason}); see that this works: {by_hand} true, then try again"
        )


# What ssh prints -> what to do. All that is not here may pass.
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
    """Return the directory of the sockets: short, the user's alone, and not one that somebody else has put there."""
    directory = Path("/tmp") / f"tsduel-ssh-{os.getuid()}"  # noqa: S108 - looked at below
    directory.mkdir(mode=0o700, exist_ok=True)
    found = directory.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise UserError(
            f"{directory} is not a directory of yours alone, and our SSH sockets go there; remove it and try again"
        )
    return directory

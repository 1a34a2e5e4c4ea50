"""CACHE/secrets: one file of mode 0600 for each secret value, by its name, and for each login of a repository.

It lies outside results/, which people share. `make clean-cache` removes it.
"""

import hashlib
import os
import shlex
from collections.abc import Callable, Mapping

from tsduel.core import caches, files, hidden
from tsduel.core.errors import UserError
from tsduel.core.plan import Plan

HOME = "secrets"


def keep(environment: Mapping[str, str], plan: str) -> None:
    """Keep the values that a text names, as far as this process has read them in."""
    for name in _named(plan, lambda name: hidden.known.get(name, "")):
        if name in hidden.known:
            _write(environment, name, hidden.known[name])


def _named(text: str, value_of: Callable[[str], str]) -> list[str]:
    """Return the names in a text, and those in the values of these."""
    found, texts = list[str](), [text]
    while texts:
        new = [name for name in dict.fromkeys(hidden.NAME.findall(texts.pop())) if name not in found]
        found += new
        texts += map(value_of, new)
    return found


def needed(environment: Mapping[str, str], plan: Plan, *, builds: bool = True) -> list[str]:
    """Return the names of the files that the hosts of a plan need: of its values, and of logins if they build."""
    home = caches.directory(environment) / HOME
    parts = [part for variant in plan.variants for part in variant.components] if builds else []
    logins = {login_name(part.repo) for part in parts if part.repo}

    def value_of(name: str) -> str:
        return (home / name).read_text(encoding="utf-8") if (home / name).exists() else hidden.known.get(name, "")

    values = _named(plan.model_dump_json(), value_of)
    return sorted({*values, *(name for name in logins if (home / name).exists())})


def _write(environment: Mapping[str, str], name: str, content: str) -> None:
    cache = caches.directory(environment)
    caches.own(cache, environment)
    files.private_directory(cache / HOME)
    before = os.umask(0o077)
    try:
        files.write(cache / HOME / name, content)
    finally:
        os.umask(before)


def refuse_missing(environment: Mapping[str, str], plan: Plan) -> None:
    """Raise if a value that a plan names is not in the cache any more."""
    home = caches.directory(environment) / HOME
    if lost := [name for name in needed(environment, plan) if not (home / name).exists()]:
        raise UserError(
            f"{plan.run}: the secret value {lost[0]} of its plan is no longer in {home} (make clean-cache removes it): "
            "start a new run, without RUN="
        )


def login(environment: Mapping[str, str], repository: str) -> list[str]:
    """Return the words between `git` and a command for a repository whose login is kept, else none.

    git asks a helper for the login, so that it stands neither in an argument nor in a file of a run.
    """
    name = login_name(repository)
    if repository in hidden.logins:
        user, password = hidden.logins[repository]
        _write(environment, name, f"username={user}\npassword={password}\n")
    path = caches.directory(environment) / HOME / name
    if not path.exists():
        return []
    helper = f"credential.{'/'.join(repository.split('/')[:3])}.helper"
    # The empty one: no other helper is asked, or told.
    return ["-c", f"{helper}=", "-c", f"{helper}=!cat {shlex.quote(str(path))} #"]


def login_name(repository: str) -> str:
    """Return the name of the file with the login of a repository, as scripts/fetch-git has it."""
    return f"git-{hashlib.sha256(repository.encode()).hexdigest()[:16]}"

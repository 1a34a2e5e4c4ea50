"""What is a secret, and what is shown in its place: hidden-HASH, the same for equal values.

An experiment is hidden when it is read in, so that all that follows knows names only. tsduel.core.secret_store keeps
the values, and host/record/hidden.go gives them to the servers.
"""

import functools
import hashlib
import re
from typing import Any
from urllib.parse import unquote

NAME = re.compile(r"hidden-[0-9a-f]{8}")
_SAYS = re.compile(r"passw|passphrase|pwd|token|secret|key|auth|credential|bearer", re.IGNORECASE)
_ALWAYS = re.compile(r"passw|passphrase|pwd|secret|credential", re.IGNORECASE)
_SWITCH = re.compile(r"(true|false|yes|no|on|off|none|null)?", re.IGNORECASE)
_SMALL = re.compile(r"-?[\d.]{1,5}[a-z%]{0,3}", re.IGNORECASE)
# What follows a colon is a port, or a password, also one with a slash that is not escaped.
# With a bound, or a text of many URLs would be searched to its end from each of them.
_USER = r"(?!git@)(?:[^/?#\s'\"]*|[^/?#\s:\['\"]*:(?!\d+(?!\w))[^\s'\"]{0,1000})@"
_URL_USER = re.compile(rf"(\w://){_USER}")
_REPOSITORY = re.compile(rf"(?<!\w)(https?://)({_USER})(\S*)")
_SSH_PASSWORD = re.compile(r"(\w://[^/\s:@]*):[^/\s]*@")
_FLAG = re.compile(r"(--?[^=\s]+)=(.*)", re.DOTALL)
# `password: x y` as a line of a file, and `token=x` within one, or behind the ? of a URL.
_LINE = re.compile(
    r"""^(?P<head>[ \t-]*(?P<name>[\w.][\w.-]*)[ \t]*[:=][ \t]*)(?P<value>[^\s"'#][^\n]*)$""",
    re.MULTILINE,
)
_COMMENT = re.compile(r"[ \t]#")
# `password: |` and, indented deeper, what it is.
_INDICATOR = re.compile(r"[|>][-+\d]*")
_BLOCK = re.compile(
    r"""(?P<head>[ \t-]*)(?P<quote>["']?)(?P<name>[\w.][\w.-]*)(?P=quote)[ \t]*:[ \t]+"""
    rf"{_INDICATOR.pattern}[ \t]*(?:#.*)?"
)
_WITHIN = re.compile(
    r"""(?P<head>(?<![\w.\-/])(?P<name>[\w.-]+)["']?[ \t]*[:=][ \t]*(?:(?:bearer|basic|token)[ \t]+)?)"""
    r"""(?P<value>"(?:[^"\\\n]|\\.)*"|"[^"\n]*"|'(?:[^'\n]|'')*'|[^\s,;&"'\[\]{}|>][^\s,;&"'\[\]{}]*)""",
    re.IGNORECASE,
)
_SCHEME = re.compile(r"(bearer|basic|token)[ \t]+(?=\S)", re.IGNORECASE)
_SECTIONS = ("variants", "parameters", "matrix")
_FREE = {"env", "flags", "files", "parameters"}
"""Parts of an experiment whose values are the user's own words."""
_LEAST = 6
"""Letters of a value that is looked for in sentences: a shorter one may be part of any word."""

known: dict[str, str] = {}
"""The values that this process has read in, by their names."""
logins: dict[str, tuple[str, str]] = {}
"""User and password of the repositories that this process has read in, by their URLs."""


def says_secret(name: str) -> bool:
    """Return whether the name of a variable, flag or field says that its value is a secret."""
    return bool(_SAYS.search(name))


@functools.cache
def _name(value: str) -> str:
    # Guessing a weak password by its hash takes as long for each guess.
    return f"hidden-{hashlib.pbkdf2_hmac('sha256', value.encode(), b'tsduel', 50_000).hex()[:8]}"


def value(name: str, text: str) -> str:
    """Return what is shown of the value of a variable, flag or field: its own text, unless that is a secret."""
    small = _SMALL.fullmatch(text) and not _ALWAYS.search(name)
    if not says_secret(name) or NAME.fullmatch(text) or _SWITCH.fullmatch(text) or small:
        return text
    scheme = _SCHEME.match(text)
    return scheme[0] + value(name, text[scheme.end() :]) if scheme else _kept(text)


def _kept(text: str) -> str:
    known[_name(text)] = text
    return _name(text)


def repository(url: str) -> str:
    """Return the URL of a repository without user and password, which git gets in another way."""

    def noted(found: re.Match[str]) -> str:
        user, _, password = found[2].removesuffix("@").partition(":")
        logins[found[1] + found[3]] = (unquote(user), unquote(password))
        return found[1] + found[3]

    return _SSH_PASSWORD.sub(r"\1@", _REPOSITORY.sub(noted, url))


def knob(text: str) -> str:
    """Return the value of a knob that names revisions, with the URLs of its repositories as `repository` has them."""
    return re.sub(r"(?<!\w)git:(\S+)", lambda found: f"git:{_revision(found[1])}", text)


def _revision(text: str) -> str:
    bare = repository(text)
    # repository() has taken REPO@REF for a repository.
    location, at, _ = bare.rpartition("@")
    if bare in logins and at:
        logins[location] = logins.pop(bare)
    return bare


def experiment(data: dict[str, Any], *, templates: bool = False) -> dict[str, Any]:
    """Return an experiment's mapping with names in place of secrets; ``templates``: leave {{ x }} to be filled."""
    hide = functools.partial(_hidden, templates=templates)
    return {key: hide(part, key, free=key in _FREE) if key in _SECTIONS else part for key, part in data.items()}


def field(key: str, part: Any) -> Any:
    """Return the value of one field, like variants.baseline.env.PASSWORD, with names in place of secrets."""
    return _hidden(part, _own(key), free=_is_free(key)) if key.partition(".")[0] in _SECTIONS else part


def _is_free(key: str) -> bool:
    return bool(_FREE & set(key.split(".")))


def _own(key: str) -> str:
    """Return the last name of a field's key; that of a file may have dots."""
    return re.split(r"\.(?:env|files)\.", key, maxsplit=1)[-1] if _is_free(key) else key.rpartition(".")[2]


def _hidden(part: Any, name: str, *, free: bool, templates: bool = False) -> Any:
    hide = functools.partial(_hidden, templates=templates)
    if isinstance(part, dict):
        return {k: hide(v, str(k) if free else _own(str(k)), free=free or _is_free(str(k))) for k, v in part.items()}
    if isinstance(part, list):
        return [hide(each, _flag_of(part, at) or name, free=free) for at, each in enumerate(part)]
    if not isinstance(part, str):
        shown = value(name, str(part) * free)  # a sentence may refuse it
        return shown if type(part) is int and NAME.fullmatch(shown) else part
    if not free or (templates and "{{" in part):
        return repository(part) if name == "repo" else text(part) if name == "url" else part
    if flag := _FLAG.fullmatch(part):
        return f"{flag[1]}={hide(flag[2], flag[1], free=True)}"
    # Also what is hidden as a whole has secrets by which a log may be searched.
    return value(name, text(part))


def _flag_of(parts: list[Any], at: int) -> str:
    """Return the flag whose value is the next word; "" if this word is a flag, or the one before has its value."""
    before, this = (str(parts[at - 1]) if at else ""), str(parts[at])
    return before if before.startswith("-") and "=" not in before and not this.startswith("-") else ""


def text(words: str) -> str:
    """Return a text with names in place of what URLs and `password: x` have in it."""

    def assigned(found: re.Match[str]) -> str:
        quote = found["value"][0] if found["value"][0] in "\"'" else ""
        inner = found["value"][1:-1] if quote else found["value"]
        return f"{found['head']}{quote}{value(found['name'], inner)}{quote}"

    def user(found: re.Match[str]) -> str:
        login, colon, password = found[0].removeprefix(found[1]).removesuffix("@").partition(":")
        if NAME.fullmatch(password or login):
            return found[0]
        return f"{found[1]}{f'{login}:{_kept(password)}' if colon else _kept(login)}@"

    return _WITHIN.sub(assigned, _LINE.sub(_lined, _blocks(_URL_USER.sub(user, words))))


def _lined(found: re.Match[str]) -> str:
    """Return a line `name: value # comment`; what looks like more YAML is a value where nothing else can be meant."""
    whole = found["value"]
    own = _COMMENT.split(whole, maxsplit=1)[0].rstrip()
    if own[0] in "[]{}|>&*" and (_INDICATOR.fullmatch(own) or not _ALWAYS.search(found["name"])):
        return found[0]
    return found["head"] + value(found["name"], own) + whole[len(own) :]


def _blocks(words: str) -> str:
    """Return a text with names in place of the blocks below lines like `password: |`."""
    lines, done, at = words.split("\n"), list[str](), 0
    while at < len(lines):
        done.append(lines[at])
        at += 1
        if (begun := _BLOCK.fullmatch(done[-1])) and says_secret(begun["name"]):
            width, first = begun.end("head"), at
            while at < len(lines) and (not lines[at].strip() or _indent(lines[at]) > width):
                at += 1
            block = "\n".join(lines[first:at])
            if inner := block.strip():
                block = block.replace(inner, value(begun["name"], inner))
            done += [block] if first < at else []
    return "\n".join(done)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def sentence(words: str) -> str:
    """Return a sentence or a line of a log without the users of URLs and without values that were read in."""
    words = _URL_USER.sub(r"\1", words)
    for name, secret in known.items():
        if len(secret) >= _LEAST:
            words = words.replace(secret, name)
    return words

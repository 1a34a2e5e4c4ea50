"""The environment of a command: knobs that were typed, and where results and caches lie."""

from collections.abc import Iterable, MutableMapping
from pathlib import Path

from tsduel.cli.knobs import refuse_unknown
from tsduel.core import caches
from tsduel.core.errors import UserError
from tsduel.core.project import IS_INSTALLED, PROJECT

_SHAPES = frozenset(
    ("BASH_ENV", "ENV", "CDPATH", "SHELLOPTS", "BASHOPTS", "GLOBIGNORE", "POSIXLY_CORRECT", "IFS", "PS4", "LANGUAGE",
     "GREP_OPTIONS", "GREP_COLOR", "TAR_OPTIONS", "GZIP", "LS_COLORS", "BLOCK_SIZE", "DF_BLOCK_SIZE", "DU_BLOCK_SIZE")
)  # fmt: skip
_OURS = ("ANSIBLE_HOME", "PYTHONUTF8")


def words_to_knobs(words: Iterable[str]) -> dict[str, str]:
    """Return KNOB=VALUE words as a mapping; a UserError names the nearest knob of an unknown one."""
    knobs = {}
    for word in words:
        name, separator, value = word.partition("=")
        if not separator:
            raise UserError(f"{word!r} is not KNOB=VALUE")
        knobs[name] = value
    refuse_unknown(knobs)
    return knobs


def settle(environment: MutableMapping[str, str], *, results: str = "") -> None:
    """Set where results and caches lie: --results, the variables, this checkout if we are in it, else as XDG says."""
    inside = not IS_INSTALLED and Path.cwd().is_relative_to(PROJECT)
    if results:
        environment["TSDUEL_RESULTS"] = str(Path(results).absolute())
    if not inside:
        environment.setdefault("TSDUEL_RESULTS", str(_xdg(environment, "XDG_DATA_HOME", ".local/share") / "results"))
        if not environment.get("TSDUEL_CACHE"):
            environment["TSDUEL_CACHE"] = str(_xdg(environment, "XDG_CACHE_HOME", ".cache"))
    elif Path.cwd() != PROJECT:
        environment.setdefault("TSDUEL_RESULTS", str(PROJECT / "results"))


def _xdg(environment: MutableMapping[str, str], name: str, default: str) -> Path:
    # A path that is not absolute has to be ignored, says the specification.
    directory = Path(environment.get(name) or "-")
    return (directory if directory.is_absolute() else Path.home() / default) / "tsduel"


def keep_out_of_home(environment: MutableMapping[str, str]) -> None:
    """Name the cache, also to programs that would write into the home directory; forget the make that called us."""
    cache = caches.directory(environment)
    environment["TSDUEL_CACHE"] = str(cache)
    for name, part in (("ANSIBLE_HOME", "ansible"), ("MPLCONFIGDIR", "matplotlib")):
        environment.setdefault(name, str(cache / part))
    for name in (
        "MAKEFLAGS",
        "MFLAGS",
        "MAKELEVEL",
        "TSDUEL_GIVEN",
        "TSDUEL_GOALS",
        *filter(_shapes_programs, list(environment)),
    ):
        environment.pop(name, None)
    environment["LC_ALL"] = "C.UTF-8"


def _shapes_programs(name: str) -> bool:
    """Say whether a variable changes how every shell, Python, pip, Ansible or tool of GNU works that we start."""
    return name in _SHAPES or (name.startswith(("PYTHON", "BASH_FUNC_", "ANSIBLE_", "LC_")) and name not in _OURS)

"""What a plan has of a database: the host reads it beside the adapter in scripts/targets."""

from typing import Literal

from tsduel.core.sections import Part


class Counter(Part):
    """A sum over all samples called `name` whose labels match every regular expression of `labels` in full.

    `name` may be several names with | between them. With a `role`, only samples of that component count. Versions may
    lack one that is `optional`: a database is then quiet without it, and a note says so.
    """

    name: str
    labels: dict[str, str] = {}
    role: str = ""
    optional: bool = False

    @property
    def names(self) -> list[str]:
        """The names as a list."""
        return self.name.split("|")


class Target(Part):
    """What the host has to know of a database beside its adapter. Regular expressions are RE2.

    `adapter`: the database whose verbs it takes where scripts/targets has none of its own, "" for none.
    `query_form`: the form into which host/workload translates TSBS's queries of `query_format`, "" for no
    translation. `volatile`: the parts that may differ between equal answers. `trouble`: a line of the log
    that fails the block. A database has settled when all `quiet` counters are 0 and the `still` counters do
    not change. A merge starts when the `before_merge` counters are 0; no merge without them. `ticks`: names
    that a tick keeps. `write_path` takes lines of data by POST, for exchanged ingestion; "" without it.
    `own_paths`: where lines of a user's format go (workload.file), by the format; `tells_precision`: with the unit of
    their times, which others tell by their size. `query_arguments`: what
    TSBS's client adds to each query's address. To compare databases: `protocol`, in which data is written;
    `name_prefix`, before a field's name in answers; `windows`: which end of a window is the time of its point.
    `queues`: roles that acknowledge samples before they are stored: a load ends
    when all have arrived. `ports`: further ports of a role, by name. `immutable`: paths below a component's
    directory of files that never change; copies of the directory share them by hard links. `pprof`: the path
    of the profiles of Go's net/http/pprof on every component, "" without. A counter that is missing is missing
    in the report; one that judges a block (`quiet`, `still`, `before_merge`; stored samples, rows read, kept answers,
    parts of merged data) then fails its check by name.
    """

    name: str
    adapter: str = ""
    data_format: str
    query_format: str
    query_form: str = ""
    answers: str
    volatile: str = ""
    trouble: str = ""
    refused_flags: tuple[str, ...] = ()
    counters: dict[str, Counter] = {}
    quiet: tuple[str, ...] = ()
    before_merge: tuple[str, ...] = ()
    still: tuple[str, ...] = ()
    ticks: str = ""
    samples_per_row: int = 1
    write_path: str = ""
    own_paths: dict[str, str] = {}
    tells_precision: bool = False
    immutable: str = ""
    protocol: str = ""
    name_prefix: str = ""
    windows: Literal["end", "start"] = "end"
    query_arguments: str = ""
    queues: tuple[str, ...] = ()
    ports: dict[str, tuple[str, ...]] = {}
    pprof: str = ""


class Compared(Part):
    """How far answers of different databases are compared, and why no further.

    `values`: the same series with the same values at the same times; `points`: the same series with as many
    points; `series`: the same series; `data`: both have data.
    """

    level: Literal["values", "points", "series", "data"]
    why: str = ""

"""Where the blocks of a plan run: this machine, machines behind SSH, rented ones, or pods.

What is asked of a place is asked of these classes, or of its provider (tsduel.places.place): nobody asks for its kind.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from tsduel.core.sections import Part


class _Place(Part):
    """What is so of most places.

    `where`: in a sentence. `builds_here`: this machine builds the programs. `in_pods`: a lost host gets another one in
    its place. `rented`: for the run alone, and its blocks cannot be joined by those of other machines.
    """

    where: ClassVar[str]
    is_local: ClassVar[bool] = False
    builds_here: ClassVar[bool] = False
    in_pods: ClassVar[bool] = False
    rented: ClassVar[bool] = False

    def of(self, host: str, field: str) -> str:
        """Return a field of a host, or of the place if it is the same for all; "" if there is none."""
        own = getattr(self, "hosts", {}).get(host)
        return str(getattr(own, field, "") or getattr(self, field, "") or "")


class LocalPlace(_Place):
    """The machine of this checkout."""

    where = "on this machine"
    is_local = builds_here = True

    kind: Literal["local"] = "local"


class SshHost(Part):
    """Another machine. None: ssh's own configuration decides. `directory` holds all our files there."""

    user: str | None
    address: str
    port: int | None
    directory: str
    spare: bool = False


class SshPlace(_Place):
    """Other machines, by their names in the plan."""

    where = "on another machine"

    kind: Literal["ssh"] = "ssh"
    config_file: str | None
    hosts: dict[str, SshHost]


class Price(Part):
    """USD: an hour of each part and of all; `expected`: the estimated time; `worst`: the lifetime, with traffic."""

    machine_h: float
    disk_h: float
    network_h: float
    hour: float
    traffic: float = 0.0
    expected: float
    worst: float
    as_of: str


class GcpHost(Part):
    """The machine that is rented for a host. A spare host runs no block unless a host of its kind is lost."""

    machine: str
    threads_per_core: int = 2
    disk_type: str
    spare: bool = False

    @property
    def named(self) -> str:
        """The name of the machine in records and comparisons."""
        return self.machine + (" (one thread a core)" if self.threads_per_core == 1 else "")


class GcpPlace(_Place):
    """Rented machines, by their names in the plan. All have one network and one deadline.

    `network`, `subnetwork`: an organisation's, else the run makes its own. `rented_by`: the run whose machines
    these are; "" if this run rents them.
    """

    where = "on a rented machine"
    rented = True

    kind: Literal["gcp"] = "gcp"
    hosts: dict[str, GcpHost]
    project: str
    ssh_via: Literal["public", "iap"]
    ssh_source_ranges: tuple[str, ...]
    user: str
    directory: str
    name: str
    zones: tuple[str, ...]
    spot: bool
    image: str
    os_login: bool = False
    guest_attributes: bool = True
    network: str | None = None
    subnetwork: str | None = None
    kms_key: str | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    tags: dict[str, str] = Field(default_factory=dict)
    disk_gb: int
    estimate_s: int
    lifetime_s: int
    price: Price
    rented_by: str = ""

    @property
    def first(self) -> GcpHost:
        """The first machine; all are alike, but that some are spare."""
        return next(iter(self.hosts.values()))

    @property
    def machine(self) -> str:
        """The type of the machines."""
        return self.first.machine

    @property
    def makes_network(self) -> bool:
        """Whether the run has a network of its own."""
        return not (self.network or self.subnetwork)

    def instance(self, host: str) -> str:
        """Return the name of a host's instance at Google."""
        return f"{self.name}-{host}"


class K8sHost(Part):
    """A pod. It has no spare: a pod that is lost gets another one in its place."""

    spare: Literal[False] = False


class HourPrice(Part):
    """USD: what an hour of all pods costs."""

    hour: float


class K8sPlace(_Place):
    """Pods of one namespace, by their names in the plan; all are alike and have one deadline.

    `name`: the name of the run there, with which the names of its Jobs begin.
    `lets_out`: its client asks servers elsewhere. `wait_s`: how long a pod may take to run. `price`: None if it is not
    known.
    """

    where = "in pods"
    builds_here = in_pods = True

    kind: Literal["k8s"] = "k8s"
    hosts: dict[str, K8sHost]
    context: str
    namespace: str
    node_selector: dict[str, str]
    storage_class: str
    image: str
    directory: str
    name: str
    lets_out: bool = False
    cpus: int
    memory_gb: int
    disk_gb: int
    wait_s: int
    estimate_s: int
    lifetime_s: int
    price: HourPrice | None = None

    def job(self, host: str) -> str:
        """Return the name of a host's Job."""
        return f"{self.name}-{host}"


Place = Annotated[LocalPlace | SshPlace | GcpPlace | K8sPlace, Field(discriminator="kind")]
"""Where a run happens: this machine, one behind SSH, a rented one, or a pod."""
WHERE = {place.model_fields["kind"].default: place.where for place in (LocalPlace, SshPlace, GcpPlace, K8sPlace)}
"""Where that is, in a sentence, by the kind of place."""

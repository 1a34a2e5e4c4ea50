"""Machines rented from Google: made, found gone, and all that is done for them."""

import os
from pathlib import Path

from tsduel.core.place import GcpPlace
from tsduel.core.rundir import Run
from tsduel.places import hosts
from tsduel.places.gcp import give_back, provide, rent, terraform
from tsduel.places.gcp.api import Compute
from tsduel.places.provider import Made, Provider, Write
from tsduel.places.ssh.ssh import Host


def _provide(run_dir: Path, place: GcpPlace, write: Write) -> None:
    """Rent the machines that are not there; a run on those of another one records them, too."""
    owner = run_dir.with_name(place.rented_by or run_dir.name)
    made, recorded = (
        provide.machines(owner, place, os.environ, run_dir if place.rented_by else None),
        hosts.known(owner),
    )
    if made != recorded:
        # Their addresses are recorded after the first login, since later stages log in to recorded machines.
        with give_back.on_failure(owner, place, os.environ, kept="blocks may be there" if recorded else ""):
            for name, host in made.items():
                if host != recorded.get(name):
                    provide.first_login(place, Host.from_outputs(host))
            write(owner, made, provisioned=True)
    if place.rented_by:
        if hosts.made_anew(hosts.known(run_dir), made):
            provide.put_aside(run_dir)  # another run of the study has rented these anew
        write(run_dir, made, provisioned=False)


def _why_gone(run: Run, place: GcpPlace, wanted: Made) -> str:
    """Google may have taken them, or their deadline has passed."""
    if any(Compute(place.project).runs(host["zone"], host["instance"]) for host in wanted.values()):
        return ""
    taken = "Google has taken it back, as it does with spot machines"
    reason = taken if place.spot else "its life has ended, or it has stopped"
    names = ", ".join(host["instance"] for host in wanted.values())
    machines = f"the machines {names} are" if len(wanted) > 1 else f"the machine {names} is"
    gone = f"{machines} gone ({reason}, or somebody has deleted it)"
    if len(wanted) < len(hosts.known(run.path)):
        return gone
    return (
        f"{gone}; {len(run.blocks)} of {len(run.planned)} blocks are here. To begin anew on another: make "
        f"{run.plan.kind} RUN={run.path.name}"
    )


PROVIDER = Provider(
    hosts=rent.planned_hosts,
    complete=rent.complete,
    agree=rent.ask,
    agree_again=rent.offer_again,
    written=lambda plan: {"terraform.tfvars.json": terraform.variables(plan)},
    provide=_provide,
    give_back=give_back.main,
    why_gone=_why_gone,
)

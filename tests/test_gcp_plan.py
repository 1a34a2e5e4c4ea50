"""Planning rented machines: project, names, lifetime, price, and the user's agreement."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime

import pytest
from asking import written
from fakecompute import IMAGE, PROJECT
from hypothesis import given
from hypothesis import strategies as st
from renting import HERE, asked

from tsduel.core.errors import UserError
from tsduel.core.rundir import open_run
from tsduel.places import hosts
from tsduel.places import place as places
from tsduel.places.gcp import catalog, prices, reap, rent
from tsduel.plan import resolve as plan
from tsduel.question import knobs, read
from tsduel.studies import settings


class TestKnobs:
    """GCP_PROJECT, SSH_FROM, HOSTS and the section gcp."""

    @pytest.mark.parametrize(
        ("given", "sentence"),
        [
            ({"GCP_PROJECT": ""}, "TARGET=gcp needs to know who pays: add GCP_PROJECT="),
            ({"GCP_PROJECT": "My Project"}, "GCP_PROJECT: 'My Project' is no ID of a project"),
            ({"GCP_PROJECT": "123456"}, "GCP_PROJECT: '123456' is no ID of a project"),
            ({"SSH_FROM": ""}, "TARGET=gcp needs to know from where SSH is let in: add SSH_FROM="),
            ({"SSH_FROM": "0.0.0.0/0"}, "SSH_FROM: 0.0.0.0/0 would open SSH to the whole internet"),
            ({"SSH_FROM": "0.0.0.0/1,128.0.0.0/1"}, "SSH_FROM: 0.0.0.0/1 would open SSH to the whole internet"),
            ({"SSH_FROM": "203.0.113.7/24"}, "SSH_FROM: '203.0.113.7/24' is no IPv4 address or network"),
            ({"HOSTS": "0"}, "HOSTS: '0' is no number of machines of each type, 1 to 100; write HOSTS=4"),
            ({"HOSTS": "a,b"}, "HOSTS: 'a,b' is no number of machines"),
            ({"SSH_FROM": "home"}, "SSH_FROM: 'home' is no IPv4 address or network; write 203.0.113.7"),
        ],
    )
    def test_what_is_refused(self, given, sentence):
        """A sentence with the knob, the value and what to write."""
        with pytest.raises(UserError) as error:
            places.asked({"TARGET": "gcp"} | HERE | given)
        assert sentence in str(error.value)

    def test_what_is_taken(self):
        """Several networks, or the Identity-Aware Proxy."""
        found = places.asked({"TARGET": "gcp"} | HERE | {"SSH_FROM": "203.0.113.7, 198.51.100.0/24"})
        assert found["ssh_source_ranges"] == ("203.0.113.7/32", "198.51.100.0/24")
        assert places.asked({"TARGET": "gcp"} | HERE | {"SSH_FROM": "iap"})["ssh_via"] == "iap"

    @pytest.mark.parametrize(
        ("setting", "sentence"),
        [
            ("gcp.zones=[us-central1]", "gcp.zones: 'us-central1' is no zone; write it like us-central1-a"),
            ("gcp.zones=[us-central1-a,us-east1-b]", "gcp.zones: all in one region"),
            ("gcp.disk_type=pd-standard", "gcp.disk_type:"),
            ("gcp.machine=E2", "gcp.machine:"),
            ("gcp.machine=e2-medium", "gcp: machine: e2-medium has no cores of its own"),
            ("gcp.machine=e2-custom-small-4096", "gcp: machine: e2-custom-small-4096 has no cores of its own"),
            ("gcp.machine=e2-custom", "gcp: machine: e2-custom is no type of machine: write it like e2-standard-8, or"),
            ("gcp.subnetwork=default", "gcp.subnetwork"),
            ("gcp.kms_key=k", "gcp.kms_key"),
            ("gcp.machine=c4a-standard-8", "gcp: machine: a c4a-standard-8 is an Arm machine"),
            ("gcp.image=debian-12", "gcp.image:"),
            ("gcp.machine=n4-standard-8 gcp.disk_type=pd-ssd", "gcp: disk_type: a n4-standard-8 takes hyperdisk-"),
            ("gcp.disk_type=hyperdisk-balanced", "gcp: disk_type: a e2-standard-8 takes no Hyperdisk"),
            ("gcp.machine=t2d-standard-8 gcp.threads_per_core=1", "gcp: threads_per_core: a t2d-standard-8 has one"),
            ("gcp.size=8", "gcp.size: unknown key; allowed here: disk_gb, disk_type, guest_attributes, image, kms_key"),
        ],
    )
    def test_settings_are_fields_of_the_experiment(self, setting, sentence):
        """SET= gives them, and they are checked like other fields."""
        with pytest.raises(UserError) as error:
            read.validate(knobs.apply({"name": "x"}, {"SET": setting}), "SET")
        assert sentence in str(error.value)


class TestName:
    """The name of a run's resources."""

    @given(st.text(min_size=1, max_size=120, alphabet="abcXYZ0189._-"))
    def test_any_run_has_one(self, run):
        """Google allows 63 lower-case letters, digits and dashes, with -ssh at the end; two runs may have one name."""
        name = rent.name_of(run)
        assert len(f"{name}-ssh") <= 63
        assert reap.NAME.fullmatch(name)
        assert not name.endswith("-")
        assert rent.name_of(run) != name


class TestPrice:
    """Before money is spent."""

    def test_the_default_machine(self):
        """Price per hour of machine, disk and address; the worst case is the whole lifetime."""
        found = asked()
        cost = found.price
        assert cost.machine_h == 0.268024
        assert cost.disk_h == pytest.approx(100 * 0.10 / 730, abs=1e-6)
        assert found.lifetime_s == 6 * 3600
        assert cost.traffic == 0.12
        assert cost.worst == pytest.approx(6 * cost.hour + 0.12, abs=0.005)
        assert cost.expected == pytest.approx(3 * cost.hour + 0.12, abs=0.005)
        # Without a public address all that is fetched and sent goes through the NAT, at 0.045 a GiB.
        assert asked(SSH_FROM="iap").price.traffic == pytest.approx(0.12 + 7 * 0.045, abs=0.006)

    def test_a_fleet(self):
        """HOSTS machines, then the spare ones; the price counts all. gcp.price_h is that of one."""
        found = asked(HOSTS="2", SPARE_HOSTS="1")
        assert [f"{name} {of.machine}{' spare' * of.spare}" for name, of in found.hosts.items()] == [
            "host1 e2-standard-8", "host2 e2-standard-8", "host3 e2-standard-8 spare",
        ]  # fmt: skip
        assert found.price.hour == pytest.approx(3 * asked().price.hour, abs=1e-5)
        assert asked(HOSTS="3", price_h=2, lifetime_h=1).price.worst == 6.36

    def test_the_table_is_made_of_the_catalogue(self):
        """A machine costs its CPUs and memory in each region; spot prices are left out, and what it lacks stays."""

        def sku(description, nanos, *regions, usage="OnDemand"):
            rates = [{"unitPrice": {"currencyCode": "USD", "units": "0", "nanos": nanos}}]
            return {
                "description": description, "category": {"usageType": usage}, "serviceRegions": list(regions),
                "pricingInfo": [{"pricingExpression": {"tieredRates": rates}}],
            }  # fmt: skip

        pages = [
            {"skus": [
                sku("E2 Instance Core running in Americas", 21_811_590, "us-central1", "us-east1"),
                sku("Spot Preemptible E2 Instance Core running in Americas", 1, "us-central1", usage="Preemptible"),
                sku("Balanced PD Capacity in Frankfurt", 120_000_000, "europe-west3"),
            ]},
            {"skus": [
                sku("E2 Instance Ram running in Americas", 2_923_530, "us-central1", "us-east1"),
                sku("E2 Instance Core running in Frankfurt", 28_103_000, "europe-west3"),
                sku("E2 Instance Ram running in Frankfurt", 3_766_000, "europe-west3"),
            ]},
        ]  # fmt: skip
        header = "item,usd,unit,regions,as_of\n"
        before = f"{header}e2-standard-8,1,hour,us-central1,2026-01\nnat,0.0064,hour,*,2026-01\n"
        lines = list(catalog.table(pages, before, "2026-12"))
        assert "e2-standard-8,0.268046,hour,us-central1 us-east1,2026-12" in lines
        assert "e2-standard-8,0.345336,hour,europe-west3,2026-12" in lines
        assert "pd-balanced,0.12,GB-month,europe-west3,2026-12" in lines
        assert lines[-1] == "nat,0.0064,hour,*,2026-01"
        assert len([line for line in lines if line.startswith("e2-standard-8,")]) == 2

    def test_no_price_no_machine(self):
        """Without a price in the table nothing is rented."""
        with pytest.raises(UserError, match=r"no price of c4-standard-8 in us-central1, .*gcp.price_h"):
            asked(machine="c4-standard-8")
        with pytest.raises(UserError, match="no price of e2-standard-8 in asia-east1"):
            asked(zones=["asia-east1-a"])

    def test_the_table_is_dated(self):
        """Every price has the month of its look-up, and can be used."""
        rows = prices.TABLE.read_text().splitlines()[1:]
        assert len(rows) > 10
        for row in rows:
            item, usd, unit, regions, as_of = row.split(",")
            assert datetime.strptime(as_of, "%Y-%m").replace(tzinfo=UTC) < datetime.now(UTC)
            hours = {"hour": 1, "GiB": 1, "GB-month": 730}[unit]
            region = regions.split()[0].replace("*", "us-central1")
            assert prices.look_up(item, region) == (float(usd) / hours, as_of)

    def test_a_life_is_at_least_two_hours(self):
        """It is twice the estimate, or gcp.lifetime_h."""
        found = [asked(seconds=60), asked(seconds=7200), asked(seconds=7200, lifetime_h=3)]
        assert [place.lifetime_s for place in found] == [7200, 14400, 10800]

    def test_the_disk_follows_from_the_estimate(self):
        """It is at least 100 GB, since a disk's speed depends on its size."""
        assert [asked(database_bytes=n * 10**9).disk_gb for n in (1, 200)] == [100, 421]


class TestAgreement:
    """Nothing is rented that nobody agreed to."""

    def test_the_price_is_printed(self, capsys):
        """It prints machine, hours, the dated price of an hour, and the worst case."""
        rent.ask([asked()], {"YES": "1"})
        said = capsys.readouterr().out
        for words in (
            "e2-standard-8 in us-central1-a (else us-central1-b, us-central1-c, us-central1-f), 100 GB pd-balanced",
            PROJECT, "about 3.0 h", "Google deletes it after 6.0 h", "0.2867 USD an hour",
            "list price of 2026-11; check yours", f"images/{IMAGE}", "at worst 1.84 USD",
        ):  # fmt: skip
            assert words in said

    def test_the_price_is_that_of_all_machines(self, capsys):
        """It prints a line for each type, and the sum, which MAX_COST limits."""
        fleets = [asked(machine=of, HOSTS="2", SPARE_HOSTS="1") for of in ("e2-standard-8", "n2-standard-8")]
        with pytest.raises(UserError, match=r"MAX_COST: it costs 13\.2\d USD at worst.*take fewer machines \(HOSTS=\)"):
            rent.ask(fleets, {"YES": "1", "MAX_COST": "12"})
        said = capsys.readouterr().out
        assert "machine   3 x e2-standard-8 (1 of them spare) in us-central1-a" in said
        assert "machine   3 x n2-standard-8 (1 of them spare) in us-central1-a" in said
        assert "together  at worst 13.2" in said

    @pytest.mark.parametrize(
        ("environment", "sentence"),
        [
            ({}, "there is no terminal on which to agree to this price; add YES=1"),
            ({"YES": "yes"}, "YES: 'yes' is neither 1 nor 0"),
            ({"YES": "1", "MAX_COST": "1.83"}, "MAX_COST: it costs 1.84 USD at worst, and MAX_COST allows 1.83"),
            ({"YES": "1", "MAX_COST": "five"}, "MAX_COST: 'five' is no amount of USD"),
            ({"YES": "1", "MAX_COST": "nan"}, "MAX_COST: 'nan' is no amount of USD"),
        ],
    )
    def test_what_is_refused(self, environment, sentence, monkeypatch):
        """Without a terminal YES=1 is needed, and MAX_COST limits the price even then."""
        monkeypatch.setattr("sys.stdin", io.StringIO())
        with pytest.raises(UserError) as error:
            rent.ask([asked()], environment)
        assert sentence in str(error.value)

    @pytest.mark.parametrize(("answer", "agreed"), [("y", True), ("yes", True), ("", False), ("n", False)])
    def test_on_a_terminal_it_is_asked(self, answer, agreed, monkeypatch):
        """Only a yes is a yes."""
        monkeypatch.setattr("sys.stdin.isatty", lambda: True)
        monkeypatch.setattr("builtins.input", lambda _: answer)
        if agreed:
            rent.ask([asked()], {})
        else:
            with pytest.raises(UserError, match="not rented; nothing was made"):
                rent.ask([asked()], {})

    @pytest.mark.usefixtures("google")
    def test_a_refused_plan_is_not_written(self, tmp_path, monkeypatch):
        """`make plan TARGET=gcp` without a yes makes no run; with YES=1 plan/ has Terraform's variables."""
        monkeypatch.setattr("sys.stdin", io.StringIO())
        text = tmp_path / "fake.yml"
        text.write_text(json.dumps(written()))
        environment = HERE | {"TARGET": "gcp", "EXPERIMENT": str(text)}
        run_dir = tmp_path / "results" / "r"
        with pytest.raises(UserError, match="no terminal on which to agree"):
            plan.main(run_dir, environment)
        assert not run_dir.exists()
        more = {"SET": "gcp.machine=c3-standard-8 gcp.threads_per_core=1"}
        plan.main(run_dir, environment | more | {"YES": "1", "MAX_COST": "1"})
        made = json.loads((run_dir / "plan" / "experiment.json").read_text())
        told = json.loads((run_dir / "plan" / "terraform.tfvars.json").read_text())
        assert (told["name"], told["hosts"]["host1"]["threads_per_core"]) == (made["place"]["name"], 1)
        # The plan has the newest image of the family.
        image = f"projects/debian-cloud/global/images/{IMAGE}"
        assert (made["place"]["image"], told["image"]) == (image, image)
        assert made["host"]["machine"] == "c3-standard-8 (one thread a core)"
        # To continue the run would rent a machine again.
        with pytest.raises(UserError, match="no terminal on which to agree"):
            plan.main(run_dir, {"TARGET": "gcp", **HERE})


@pytest.mark.usefixtures("google")
class TestFleet:
    """Several machines in the plan."""

    @pytest.fixture
    def planned(self, tmp_path):
        """Return a function that plans an experiment with such sections and knobs."""

        def planned(knobs, **parts):
            text = tmp_path / "fake.yml"
            text.write_text(json.dumps(written(**parts)))
            run_dir = tmp_path / "results" / "r"
            plan.main(run_dir, HERE | {"TARGET": "gcp", "EXPERIMENT": str(text), "YES": "1"} | knobs)
            return open_run(run_dir)

        return planned

    def test_hosts_share_the_blocks(self, planned):
        """Spare ones come last, and run none of their own."""
        run = planned({"HOSTS": "2", "SPARE_HOSTS": "1"}, design={"blocks": 4})
        assert (run.plan.hosts, run.plan.spare_hosts) == (("host1", "host2"), ("host3",))
        assert sorted(row.host for row in run.planned if row.kind == "measured") == ["host1"] * 2 + ["host2"] * 2
        told = json.loads((run.path / "plan" / "terraform.tfvars.json").read_text())["hosts"]
        assert [of["machine_type"] for of in told.values()] == ["e2-standard-8"] * 3

    def test_a_study_rents_each_type_once_for_all_of_its_runs(self, tmp_path, capsys):
        """The price is asked once; runs of one type follow each other, and the later ones name whose machine it is."""
        swept = {"gcp.machine": ["e2-standard-8", "n2-standard-8"], "workload.scale": [2, 3]}
        (tmp_path / "fake.yml").write_text(json.dumps(written() | {"matrix": swept}))
        study = tmp_path / "results/s"
        knobs = {"TARGET": "gcp", "EXPERIMENT": str(tmp_path / "fake.yml")}
        with pytest.raises(UserError, match="no terminal on which to agree"):
            settings.plan(study, HERE | knobs)
        assert not study.exists()
        settings.plan(study, HERE | knobs | {"YES": "1"})
        assert capsys.readouterr().out.count("together  at worst") == 2
        runs = [open_run(study.with_name(step.run)) for step in settings.Sweep.load(study).in_order]
        places = [run.plan.place for run in runs]
        assert [place.machine for place in places] in (
            ["e2-standard-8"] * 2 + ["n2-standard-8"] * 2, ["n2-standard-8"] * 2 + ["e2-standard-8"] * 2,
        )  # fmt: skip
        for first, second in ((0, 1), (2, 3)):
            assert (places[first].rented_by, places[second].rented_by) == ("", runs[first].path.name)
            assert (places[first].name, places[first].price) == (places[second].name, places[second].price)
        steps = list(settings.rule(study))  # each answers with no code
        assert [step["TSDUEL_SHARED"] for step in steps] == ["1", "", "1", ""]
        # Of what is still due, the last one gives back.
        for at in (1, 3):
            (runs[at].path / settings.REPORT).touch()
        assert [step["TSDUEL_SHARED"] for step in settings.rule(study)] == ["", ""]
        # Also where it did not come as far as to build.
        hosts.write(runs[2].path, {}, provisioned=True)
        (runs[0].path / settings.REPORT).touch()
        left = settings.rule(study)
        next(left)
        assert left.send(2)["TSDUEL_STAGES"] == "give-back"

    @pytest.mark.parametrize(
        ("key", "values", "target"), [("gcp.spot", [True, False], "gcp"), ("k8s.cpus", [1, 2], "k8s")]
    )
    def test_hosts_are_swept_only_where_they_are_made(self, tmp_path, key, values, target):
        """On machines that are there anyway such settings would all be the same."""
        (tmp_path / "fake.yml").write_text(json.dumps(written() | {"matrix": {key: values}}))
        with pytest.raises(UserError, match=f"matrix: {key} is about hosts .* add TARGET={target}"):
            settings.plan(tmp_path / "results/s", {"EXPERIMENT": str(tmp_path / "fake.yml")})

    @pytest.mark.parametrize(
        ("knobs", "parts", "sentence"),
        [
            ({"HOSTS": "3"}, {"design": {"blocks": 2}}, "3 hosts share 2 blocks: name fewer hosts, or more BLOCKS="),
            ({"TARGET": "", "HOSTS": "2"}, {}, "HOSTS: so many machines are rented with TARGET=gcp, or pods made"),
        ],
    )
    def test_what_is_refused(self, planned, knobs, parts, sentence):
        """A sentence refuses it before anything is rented."""
        with pytest.raises(UserError) as error:
            planned(knobs, **parts)
        assert sentence in str(error.value)

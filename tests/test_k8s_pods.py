"""What becomes of pods: they are had, found over, replaced and given back, without a cluster."""

from __future__ import annotations

import contextlib
import threading

import plans
import pytest
from plans import on_a_pod as made

from tsduel.core.errors import UserError
from tsduel.places.k8s import cluster, manifests, pods, reap


class FakeCluster:
    """One that has these Jobs."""

    def __init__(self, *jobs):
        self.jobs = jobs

    def all(self, path, _):
        """Return the Jobs."""
        return self.jobs if path == cluster.JOBS else []

    def find(self, _):
        """Return the first Job."""
        return self.jobs[0]


def test_each_host_has_its_policy(tmp_path, monkeypatch):
    """Also where its pod is alone; the image that its tag was is told, with its digest."""
    asked = []
    running = pod(
        containerStatuses=[{"name": "host", "state": {"running": {}}, "imageID": "docker.io/library/debian@sha256:ab"}]
    )
    running["metadata"]["ownerReferences"] = [{"uid": "u"}]

    def ask(_, method, path, *_body, **_query):
        asked.append((method, path))
        if method == "POST":
            return {"metadata": {"name": "j", "uid": "u"}}
        if path == cluster.PODS:
            return {"items": [running]}
        raise cluster.ApiError("none", 404)

    monkeypatch.setattr(cluster.Cluster, "ask", ask)
    said = []
    monkeypatch.setattr(pods, "say", said.append)
    plans.write(tmp_path / "r", place=made())
    (host,) = pods.provide(tmp_path / "r", made()).values()
    assert [path for method, path in asked if method == "POST"] == [cluster.JOBS, cluster.POLICIES]
    assert host["image"] == "docker.io/library/debian@sha256:ab"
    (told,) = said
    assert told.startswith("debian:12-slim is docker.io/library/debian@sha256:ab now, and may be another one later")


def test_the_policy_of_a_job_before_it_is_none(monkeypatch):
    """The cluster deletes it with that Job, maybe late, and then nothing would keep the pod from the world."""
    asked = []

    def ask(_, method, path, *_body, **_query):
        asked.append((method, path))
        if path == f"{cluster.POLICIES}/{made().job('host1')}" and method == "GET":
            return {"metadata": {"name": "p", "ownerReferences": [{"uid": "before"}]}}
        if method in {"POST", "DELETE"}:
            return {"metadata": {"name": "j", "uid": "now"}}
        raise cluster.ApiError("none", 404)

    monkeypatch.setattr(cluster.Cluster, "ask", ask)
    assert pods._have(pods.cluster_of(made()), made(), "host1") == "now"
    assert [method for method, _ in asked if method != "GET"] == ["POST", "DELETE", "POST"]


def test_nothing_is_made_once_it_was_interrupted(tmp_path, monkeypatch):
    """The threads that wait for pods have ended before anything is given back."""
    posted, interrupted = [], threading.Event()

    def ask(_, method, *_asked, **_query):
        if method == "POST":
            posted.append(interrupted.is_set())
        return {"metadata": {"name": "j", "uid": "u"}, "items": []}

    def wait(_):
        interrupted.set()
        raise KeyboardInterrupt

    monkeypatch.setattr(cluster.Cluster, "ask", ask)
    monkeypatch.setattr(cluster.Cluster, "events", lambda *_: [])
    monkeypatch.setattr(pods.futures, "wait", wait)
    monkeypatch.setattr(pods, "say", lambda _: None)
    plans.write(tmp_path / "r", place=made())
    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        pods.provide(tmp_path / "r", made())
    assert threading.active_count() == before
    assert not any(posted)


def test_a_defect_gives_back_too(tmp_path, monkeypatch):
    """And stays what it was."""
    back = []
    plans.write(tmp_path, place=made())
    monkeypatch.setattr(pods, "give_back", lambda *_: back.append("all"))
    for wrong, raised in ((KeyError("items"), KeyError), (KeyboardInterrupt(), UserError)):
        with pytest.raises(raised), pods.on_failure(tmp_path, made(), {}):
            raise wrong
    assert back == ["all", "all"]


def test_a_second_interruption_says_what_may_be_left(tmp_path, monkeypatch):
    """While all is deleted; with the command that deletes it."""

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(pods, "sweep", interrupted)
    plans.write(tmp_path / "r", place=made())
    said = r"k8s: interrupted\nk8s: interrupted\nk8s: it is not known .* Then: make destroy RUN=r"
    with pytest.raises(UserError, match=said), pods.on_failure(tmp_path / "r", made(), {}):
        raise KeyboardInterrupt


@pytest.mark.parametrize("reason", ["DeadlineExceeded", "BackoffLimitExceeded"])
def test_a_deadline_does_not_begin_anew_by_itself(tmp_path, monkeypatch, reason):
    """Only who types the command again pays for as long anew; a pod that was lost is replaced."""
    job = {"metadata": {"name": "j"}, "status": {"conditions": [{"type": "Failed", "reason": reason}]}}
    replaced = []
    monkeypatch.setattr(pods, "cluster_of", lambda _: FakeCluster(job))
    monkeypatch.setattr(pods, "_provided", lambda _, __, name, ___: replaced.append(name) or {"address": "new"})
    plans.write(tmp_path / "r", place=made())
    if reason == "DeadlineExceeded":
        with pytest.raises(UserError, match="host1: its pod has reached its deadline: a longer life"):
            pods.renew(tmp_path / "r", "host1", "it is gone")
    else:
        pods.renew(tmp_path / "r", "host1", "it is gone")
        assert pods.hosts.known(tmp_path / "r")["host1"]["address"] == "new"
    assert len(replaced) == (reason != "DeadlineExceeded")


def pod(phase="Running", **status):
    """Return a pod with a status."""
    return {"metadata": {"name": "p"}, "spec": {"nodeName": "n"}, "status": {"phase": phase, **status}}


class TestOver:
    """Why a pod runs no more."""

    @pytest.mark.parametrize(
        ("status", "sentence"),
        [
            ({"phase": "Running"}, ""),
            ({"phase": "Pending"}, ""),
            ({"phase": "Failed", "reason": "Evicted", "message": "The node was low on  memory."},
             "the pod p was evicted from n (The node was low on memory.): the node lacks memory or disk"),
            ({"phase": "Failed", "reason": "Evicted", "message": "exceeds the limit."},
             'the pod p was evicted from n (exceeds the limit.): a new run with more has SET="k8s.disk_gb=20"'),
            ({"phase": "Failed", "conditions": [{"type": "DisruptionTarget", "reason": "PreemptionByScheduler"}]},
             "the pod p was preempted on n by a pod of a higher priority"),
            ({"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"reason": "OOMKilled"}}}]},
             'the pod p was killed for its memory (OOMKilled): a new run with more has SET="k8s.memory_gb=8"'),
            ({"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"reason": "Error"}}}]},
             "the pod p on n has ended (Error)"),
        ],
    )  # fmt: skip
    def test_each_is_a_sentence_with_what_to_do(self, status, sentence):
        """Nothing is said of a pod that runs, or will."""
        assert pods.over(pod(**status)).partition(", or take")[0] == sentence

    def test_one_that_is_being_deleted_is_over(self):
        """Its blocks run elsewhere, without waiting for its end."""
        gone = pod()
        gone["metadata"]["deletionTimestamp"] = "2026-11-24T19:00:00Z"
        assert "is being deleted (by somebody)" in pods.over(gone)


def test_reap_takes_what_is_over_and_nothing_that_runs():
    """A run is over when all of its Jobs are."""
    now = reap.datetime(2026, 11, 24, 12, tzinfo=reap.UTC)

    def job(run, *conditions, begun="2026-11-24T11:59:00Z"):
        status = {"conditions": [{"type": kind, "status": "True", "reason": "R"} for kind in conditions]}
        metadata = {"name": "j", "labels": {manifests.NAME: run}, "creationTimestamp": begun}
        return {"metadata": metadata, "spec": {"activeDeadlineSeconds": 100}, "status": status}

    found = reap.overdue(
        FakeCluster(
            job("a"), job("b", "Failed"), job("c", "Complete"), job("c"), job("d", begun="2026-11-24T11:00:00Z")
        ),
        now,
    )
    assert found == {"b": "its Job has ended (R)", "d": "past its deadline"}


@pytest.mark.parametrize("stays", [False, True])
def test_what_is_given_back_is_gone_or_named(tmp_path, monkeypatch, stays):
    """Not only asked for: a deletion that has no effect is an error."""
    jobs = {"j": {"metadata": {"name": "j"}}}

    def ask(_, method, path, *_body, **_query):
        if method == "DELETE" and not stays:
            del jobs[path.removeprefix(f"{cluster.JOBS}/")]
        return {"items": [*jobs.values()] if path == cluster.JOBS else []}

    monkeypatch.setattr(cluster.Cluster, "ask", ask)
    monkeypatch.setattr(pods, "GONE_S", 0)
    monkeypatch.setattr(pods, "PAUSE_S", 0)
    plans.write(tmp_path / "r", place=made())
    left = pytest.raises(UserError, match=r"this is left of .*: job/j$") if stays else contextlib.nullcontext()
    with left:
        pods.give_back(tmp_path / "r", made())
    assert bool(jobs) == stays

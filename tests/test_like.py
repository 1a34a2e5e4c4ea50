"""`like:` of an experiment: what it takes from another one."""

import pytest

from tsduel.core.errors import UserError
from tsduel.doctor import queries
from tsduel.question import read
from tsduel.question.experiments import find
from tsduel.question.like import merged

BASE = """
name: base
question: What is it?
variants:
  baseline:
    components: [{role: server, ref: v1}, {role: vmagent, ref: v2, flags: [-a]}]
  candidate: {ref: v3, flags: [-b]}
matrix: {workload.scale: [1, 2]}
workload: {scale: 7, workers: 2}
noise: {steal_pct: 30}
"""


@pytest.fixture
def wrote(tmp_path):
    """Return a function that writes an experiment like `base` and reads it."""
    (tmp_path / "base.yml").write_text(BASE)

    def write(text, name="x"):
        path = tmp_path / f"{name}.yml"
        path.write_text(text)
        return read.read_file(path)

    return write


def test_sections_are_merged_key_by_key_and_a_matrix_is_replaced(wrote):
    """Name and question are an experiment's own; what it does not say is the other's."""
    data = wrote(
        "name: x\nlike: base\nworkload: {scale: 9}\nmatrix: {workload.workers: [1, 4]}\nnoise: {canary_pct: null}"
    )
    assert data["workload"] == {"scale": 9, "workers": 2}
    assert data["noise"] == {"steal_pct": 30, "canary_pct": None}
    assert data["matrix"] == {"workload.workers": [1, 4]}
    assert "question" not in data
    assert "like" not in data
    with pytest.raises(UserError, match="name: is needed"):
        read.validate(wrote("like: base"), "x.yml")


def test_components_are_merged_by_role_and_other_variants_are_replaced():
    """A revision alone can be given for one component; flags of the other experiment's short form are not kept."""
    parts = [{"role": "server", "ref": "v1"}, {"role": "a", "ref": "v2", "env": {}}]
    base = {"variants": {"baseline": {"components": parts}, "candidate": {"ref": "v3", "flags": ["-b"]}}}
    own = {"variants": {"baseline": {"components": [{"role": "a", "ref": "v9"}]}, "candidate": {"ref": "v4"}}}
    assert merged(base, own)["variants"] == {
        "baseline": {"components": [{"role": "server", "ref": "v1"}, {"role": "a", "ref": "v9", "env": {}}]},
        "candidate": {"ref": "v4"},
    }


def test_one_of_ours_is_found_from_anywhere_and_by_its_own_name(wrote):
    """A file of the user that is called as ours is like ours, not like itself."""
    assert wrote("name: quick\nlike: quick", "quick")["design"] == {"load": "in_turn", "blocks": 8}
    wrote("name: x\nlike: base")
    assert wrote("name: y\nlike: x", "y")["noise"] == {"steal_pct": 30}


def test_data_of_the_user_are_seen_in_what_an_experiment_is_like(wrote, tmp_path):
    """`tsduel queries` makes TSBS's data smaller, and never the user's own; a name of ours is as good as a path."""
    wrote("name: x\nlike: own-dump")

    def names(asked):
        return queries._names_data(read.read_file(find(asked)))

    assert names(str(tmp_path / "x.yml"))
    assert names("own-dump")
    assert not names("own-dashboard")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("like: bas", r"x.yml: like: no experiment 'bas' beside it or in .*/experiments; did you mean base\?"),
        ("like: [base]", "x.yml: like: .*'base'.* is no name of an experiment; write it like `like: quick`"),
        ("like: y", "y.yml: like: x is like this experiment itself"),
    ],
)
def test_what_it_cannot_be_like(wrote, tmp_path, text, sentence):
    """No such experiment, no name, a circle: said with the file."""
    (tmp_path / "y.yml").write_text("like: x\n")
    with pytest.raises(UserError, match=sentence):
        wrote(text)

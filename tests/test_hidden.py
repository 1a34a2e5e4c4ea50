"""What is taken for a secret when an experiment is read in, and what is shown in its place."""

from __future__ import annotations

import json
import os
import stat
import time

import pytest
from asking import written

from tsduel.core import hidden, secret_store
from tsduel.core.errors import UserError
from tsduel.question import knobs, read

SECRET = "s3cr3t-Va|ue"  # noqa: S105 - planted


@pytest.fixture(autouse=True)
def _of_no_other_test(monkeypatch):
    monkeypatch.setattr(hidden, "known", {})
    monkeypatch.setattr(hidden, "logins", {})


def of_baseline(**fields):
    """Return the baseline of an experiment as it is read in."""
    data = written(variants={"baseline": written()["variants"]["baseline"] | fields})
    return read.validate(data, "x.yml").variants["baseline"].parts[0]


@pytest.mark.parametrize(
    "flags",
    [
        [f"-httpAuth.password={SECRET}"], [f"--remoteWrite.bearerToken={SECRET}"], ["-AUTHKEY", SECRET],
        [f"-x.url=https://me:{SECRET}@host:8428/write"], [f"-x.url=http://{SECRET}@[::1]:8428/x"],
        [f"-x.url=http://host:8428/api?n=1&access_token={SECRET}&a=b@c"], [f"-headers=Authorization: Bearer {SECRET}"],
        ["-client.pwd", SECRET, "-other"],
    ],
)  # fmt: skip
def test_a_flag_that_carries_a_secret_is_shown_as_a_hash(flags):
    """Its name says so, in one word or in two, or its value is a URL with a password; only the value is hidden."""
    shown = of_baseline(flags=flags).flags
    assert SECRET not in str(shown)
    assert [hidden.NAME.sub(SECRET, flag) for flag in shown] == flags


@pytest.mark.parametrize(
    "flags",
    [
        ["-search.disableCache"], ["-search.maxTagKeys=64"], ["-auth=true"], ["-retentionPeriod=100y", "-x=a:b@c"],
        ["-x.url=http://host:8428/a@b"], ["-x.url=http://[::1]:8428/a@b"], ["-token", "-other"],
        ["-x=https://host/?a=b@c"],
    ],
)  # fmt: skip
def test_other_flags_are_shown(flags):
    """A switch, a small number, a port or the name of a feature is no secret."""
    assert list(of_baseline(flags=flags).flags) == flags


def test_variables_and_files_are_shown_without_their_secrets():
    """The names of variables say so, and the lines of a file; of a file that is called so, nothing is shown."""
    lines = f"user: me\npassword: two words {SECRET}\nbasic_auth: {{token: '{SECRET}'}}\n- url: http://u:{SECRET}@h/\n"
    part = of_baseline(
        env={"DB_PASSWD": SECRET, "Api_Key": SECRET, "GOGC": "50", "OTHER": f"x?token={SECRET}"},
        files={"scrape.yml": lines, "auth.yml": f"no word says so {SECRET}"},
    )
    assert SECRET not in str(part)
    assert part.env["GOGC"] == "50"
    assert part.env["DB_PASSWD"] == part.env["Api_Key"] != part.env["OTHER"]
    assert part.files["scrape.yml"].startswith("user: me\npassword: hidden-")
    assert hidden.NAME.fullmatch(part.files["auth.yml"])


def test_a_sweep_and_its_parameters_name_no_secret():
    """A setting is called by the hash, whether the matrix sets a flag, a variable, or a parameter that a flag takes."""
    side = written()["variants"]["baseline"] | {"flags": ["-x={{ api_token }}", "-y.password={{ api_token }}-more"]}
    data = written(variants={"baseline": side}, parameters={"api_token": ""})
    data["matrix"] = {"parameters.api_token": [SECRET, "other-" + SECRET], "variants.candidate.env": [{"KEY": SECRET}]}
    found = read.expand(data, "x.yml")
    assert len({setting.name for setting in found}) == 2
    assert SECRET not in str(found)


def test_knobs_lose_what_nobody_else_may_read():
    """SET is as before but for its secrets, and revisions have repositories without users, also a mistyped one."""
    url = f"https://me:{SECRET}@host/db.git"
    given = knobs.given({
        "BASELINE": f"git:{url}@v1", "VERSIONS": f"v1 git:https://{SECRET}@h:8443/x@main git:ssh://git@h/x@v2",
        "SET": f"design.blocks=3 'variants.baseline.env.PASSWORD={SECRET} x' variants.candidate.flags=[-key,{SECRET}]",
    })  # fmt: skip
    assert SECRET not in str(given)
    assert given["BASELINE"] == "git:https://host/db.git@v1"
    assert given["VERSIONS"] == "v1 git:https://h:8443/x@main git:ssh://git@h/x@v2"
    assert given["SET"].startswith("design.blocks=3 ")
    assert hidden.logins["https://host/db.git"] == ("me", SECRET)
    for wrong in (f"git:{url}", f"git:https://me:{SECRET}/no-ref@host/x"):
        with pytest.raises(UserError) as caught:
            knobs.apply(written(), knobs.given({"BASELINE": wrong}))
        assert SECRET not in str(caught.value)


def test_no_sentence_quotes_what_was_read_in():
    """A value of a wrong type is refused by its key, and a sentence that quotes a URL has no user in it."""
    with pytest.raises(UserError, match=r"env\.PASSWORD") as caught:
        of_baseline(env={"PASSWORD": 1234567890.5})
    assert "1234567890" not in str(caught.value)
    assert "1234567890" not in str(of_baseline(env={"PASSWORD": 1234567890}).env)
    assert str(UserError(f"cannot read https://me:{SECRET}@host/x: no")) == "cannot read https://host/x: no"


def test_the_values_lie_in_the_cache_for_their_user_alone(tmp_path):
    """Only values that a plan names are kept, 0600; a run whose values were removed says so."""
    environment = os.environ | {"TSDUEL_CACHE": str(tmp_path / "cache")}
    named = of_baseline(env={"PASSWORD": SECRET}).env["PASSWORD"]
    before = os.umask(0)
    try:
        secret_store.keep(environment, json.dumps({"a": named, "b": "hidden-00000000"}))
    finally:
        os.umask(before)
    kept = tmp_path / "cache" / "secrets" / named
    assert (kept.read_text(), list(kept.parent.iterdir())) == (SECRET, [kept])
    assert [stat.S_IMODE(path.stat().st_mode) for path in (kept, kept.parent)] == [0o600, 0o700]


@pytest.mark.parametrize(
    ("lines", "shown"),
    [
        (
            f"a:\n- password: |\n    {SECRET}\n    more\n  user: me\n",
            "a:\n- password: |\n    hidden-########\n  user: me\n",
        ),
        (f"bearer_token: >-  # of CI\n  {SECRET}\nuser: me", "bearer_token: >-  # of CI\n  hidden-########\nuser: me"),
        (f"x.yml: |\n  password: |\n    {SECRET}\n", "x.yml: |\n  password: |\n    hidden-########\n"),
        (f'password="{SECRET}\\"', 'password="hidden-########"'),
        (f"- url: http://me:{'a' * 3000}@h/", "- url: http://me:hidden-########@h/"),
        (f"DB_PASSWORD={{{SECRET}", "DB_PASSWORD=hidden-########"),
        (f"password: &p {SECRET}  # x", "password: hidden-########  # x"),
        (f'x: {{token: "a\\"{SECRET}"}}', 'x: {token: "hidden-########"}'),
        (f"x: {{token: 'it''s {SECRET}'}}", "x: {token: 'hidden-########'}"),
        (
            "auth: {users: [me]}\nkeys: [a, b]\ntext: |\n  plain\n",
            "auth: {users: [me]}\nkeys: [a, b]\ntext: |\n  plain\n",
        ),
    ],
)
def test_a_secret_of_a_file_is_hidden_however_it_is_written(lines, shown):
    """As a block, behind a sign of YAML, with quotes in its quotes; and what is none stays."""
    assert hidden.NAME.sub("hidden-########", hidden.text(lines)) == shown


def test_a_text_of_many_addresses_is_searched_in_no_time():
    """It may be what a host says, or a stranger's experiment."""
    begin = time.process_time()
    hidden.text("x://" * 50_000 + "-" * 100_000)
    assert len(str(UserError("x://" * 5_000_000))) < 30_000
    assert time.process_time() - begin < 20

"""The user's own queries: what their files may say, the sentence for everything else, and their requests."""

from __future__ import annotations

import collections
import gzip
import json
import re
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from tests import plans
from tsduel.core import bounded
from tsduel.core.errors import UserError
from tsduel.core.sections import QuerySettings, WorkloadAsked
from tsduel.core.tsbs import Queries
from tsduel.question import read
from tsduel.targets import databases
from tsduel.workloads.own import asked as own
from tsduel.workloads.own import expression, grafana, requests
from tsduel.workloads.tsbs import own_types

OWN = Path(__file__).parent.parent / "experiments/own"
TARGET = databases()["victoriametrics"].target
WORKLOAD = WorkloadAsked(scale=20)
DATA = own.data_of(WORKLOAD, TARGET)
START, END = DATA.start, DATA.end


def asked_of(path, text, key="file", data=DATA):
    """Return the checked queries of a file with this text."""
    path.write_text(text)
    return own.settled(QuerySettings(**{key: str(path)}), data)


def requested(asked, name, most=200):
    """Return the arguments of the requests of a type."""
    (made,) = [made for made in own.types(asked, lambda _: DATA, 1, most) if made.name == name]
    return [
        {key: values[0] for key, values in parse_qs(urlsplit(request.partition(" ")[2]).query).items()}
        for request in made.requests
    ]


def refused(path, text, key="file", data=DATA):
    """Return the sentence that a file is refused with."""
    with pytest.raises(UserError) as caught:
        asked_of(path, text, key, data)
    return str(caught.value)


def yaml_of(*queries, more=""):
    """Return a file of queries with these texts, named a, b, c."""
    entries = [f"  - name: {name}\n    query: {json.dumps(text)}\n" for name, text in zip("abc", queries, strict=False)]
    return f"{more}queries:\n{''.join(entries)}"


def test_a_placeholder_is_another_value_in_each_request(tmp_path):
    """Hosts of the data, several at once without a repetition, its series, and a list of the file."""
    text = yaml_of('{{metric}}{hostname=~"{{hosts:8}}",region="{{region}}"}', more="values: {region: [x, y]}\n")
    filled = [one["query"] for one in requested(asked_of(tmp_path / "q.yml", text), "a")]
    assert len(set(filled)) > 190
    assert all(len(set(one.split('"')[1].split("|"))) == 8 for one in filled)
    assert {one.split("{")[0] for one in filled} == set(DATA.metrics)
    assert {one.split('"')[3] for one in filled} == {"x", "y"}


def test_windows_lie_in_the_data_with_all_that_they_read(tmp_path):
    """A range with [5m] begins five minutes after the data at the earliest; `last` is the same each time."""
    query = "  - {name: a, query: 'rate(cpu_usage_user[5m])', window: any 1h, step: 30s}\n"
    text = f"queries:\n{query}{query.replace('a,', 'b,', 1).replace('any', 'last')}"
    asked = asked_of(tmp_path / "q.yml", text)
    for one in requested(asked, "a"):
        assert float(one["start"]) >= START + 300
        assert float(one["end"]) <= END
        assert (float(one["end"]) - float(one["start"]), one["step"]) == (3600, "30")
    assert [(one["start"], one["end"]) for one in requested(asked, "b")] == [(f"{END - 3600:.0f}", f"{END:.0f}")]
    long = asked_of(tmp_path / "long.yml", text.replace("30s", "1234567s"))
    assert {one["step"] for one in requested(long, "a")} == {"1234567"}, "a server reads digits, and no exponent"


def test_what_a_panel_knows_is_its_own(tmp_path):
    """Two panels have different steps, so an interval that stands at auto is two; a long range has no exponent."""
    auto = {"name": "interval", "type": "interval", "current": {"value": "$__auto_interval_interval"}}
    panels = [
        {"title": title, "type": "stat", "gridPos": {}, "maxDataPoints": points, "targets": [{"expr": expr}]}
        for title, points, expr in (
            ("a", 1000, "rate(cpu_usage_user[$interval])"), ("b", 100, "rate(cpu_usage_idle[$interval])"),
        )
    ]  # fmt: skip
    found = {"panels": panels, "templating": {"list": [auto]}, "time": {"from": "now-6h", "to": "now"}}
    (tmp_path / "d.json").write_text(json.dumps(found))
    read_in = grafana.read(str(tmp_path / "d.json"), DATA)
    steps = {query.name: query.templates[0].step_s for query in read_in.queries}
    assert len(set(steps.values())) == 2
    assert sorted(read_in.values.values()) == sorted((f"{step:.0f}s",) for step in steps.values())
    assert grafana.filled("x[$__range]", 60, 1_296_000) == "x[1296000s]"


def test_the_same_seed_gives_the_same_requests_and_another_seed_others():
    """Requests depend on nothing but the file, the data and queries.seed."""
    asked = own.settled(QuerySettings(file=str(OWN / "dashboard.yml")), DATA)
    one, again, other = (own.types(asked, lambda _: DATA, seed, 50) for seed in (1, 1, 2))
    assert [made.sha256 for made in one] == [made.sha256 for made in again]
    assert all(a.sha256 != b.sha256 for a, b in zip(one, other, strict=True))


def test_the_mix_has_the_queries_in_the_proportion_of_their_weights(tmp_path):
    """A query of weight 9 is drawn nine times as often as one of weight 1."""
    text = yaml_of("cpu_usage_user", "cpu_usage_idle").replace("    query", "    weight: 9\n    query", 1)
    counts = collections.Counter(one["query"] for one in requested(asked_of(tmp_path / "q.yml", text), "mix", 2000))
    assert counts["cpu_usage_user"] / 2000 == pytest.approx(0.9, abs=0.03)


def test_a_plain_file_has_a_query_a_line(tmp_path):
    """Comments and empty lines are none; a name says the line."""
    asked = asked_of(tmp_path / "q.txt", "# mine\ncpu_usage_user\n\nsum(cpu_usage_idle)\n")
    assert [(query.name, query.where) for query in asked.queries] == [
        ("line-2", f"{tmp_path}/q.txt:2"),
        ("line-4", f"{tmp_path}/q.txt:4"),
    ]


BAD = {
    "q.yml": [
        (yaml_of("sum(cpu_usage_user"), "q.yml:2: a does not parse: argList: unexpected token"),
        (yaml_of("cpu_usage_user +"), "q.yml:2: a does not parse: singleExpr: unexpected token"),
        (yaml_of('cpu_usage_user{a="b}'), "a does not parse: cannot find closing quote"),
        (yaml_of("cpu_usage_user", "rand() * cpu_usage_idle"), "q.yml:4: b returns another thing each time, by rand()"),
        (yaml_of('cpu_usage_user{region="{{zone}}"}'), "q.yml:2: a has the placeholder {{zone}} without values"),
        (yaml_of('cpu_usage_user{region="{{z:3}}"}', more="values: {z: [a]}\n"),
         "wants 3 values of {{z:3}}, and there"),
        (yaml_of("x", more="values: {z: []}\n"), "q.yml:1: values: z has no values: give it a list"),
        (yaml_of("x", more="values: {z: [DE, NO]}\n"), "values: z: YAML reads a word of it as False: write it in quo"),
        (f"{yaml_of('x')}---\n{yaml_of('y')}", "q.yml: it has 2 documents, parted by ---: write all queries in one"),
        (yaml_of("rate(http_requests_total[5m])"), "a reads http_requests_total, which the data does not have"),
        (yaml_of("rate(cpu_usage_user[2d])"), "a reads 172,800 s, and the data's window has 86,400 s"),
        (yaml_of("SELECT mean(x) FROM cpu"), "a looks like InfluxQL, and this database is asked PromQL or MetricsQL"),
        (yaml_of("x").replace("query:", "querry:"), "q.yml:2: querry: unknown key of a query; allowed: name, query"),
        (yaml_of("x", "y").replace("name: b", "name: a"), "q.yml:4: the name a is there twice"),
        (yaml_of("x").replace("name: a", "name: mix"), "q.yml:2: 'mix' is no name of a query"),
        ("queries:\n  - {name: a, query: x, weight: 0}\n", "q.yml:2: weight 0 of a is no number above 0"),
        ("queries:\n  - {name: a, query: x, window: 1h}\n", "q.yml:2: window '1h': write `any 1h`"),
        (yaml_of("x").replace("name: a", "step: 0s\n    name: a"), "q.yml:2: '0s' is no duration"),
        (yaml_of('cpu_usage_user{hostname="{{host:0}}"}'), "a wants 0 values of {{host:0}}"),
        ("queries: [\n", "not YAML"),
        ("queries: []\n", "queries: is a list with at least one entry"),
        ("", "it is empty; queries.file needs at least one query"),
    ],
    "log": [
        ('{"topByCount": [{"count": 3}]}', "1 line cannot be replayed: it has no query"),
        ('GET /query?db=x&q=SELECT+1\n"POST /write"\n', "none of its requests can be replayed"),
        ("/api/v1/query?query=up\n", "no query is left that this data can be asked"),
        ("/api/v1/query?query=SELECT+x+FROM+cpu\n", "looks like InfluxQL"),
    ],
    "r.yml": [
        ("groups:\n- name: a\n  rules:\n  - {alert: A}\n", "r.yml:4: rule A has no `expr:`"),
        ("groups:\n- name: a\n  rules:\n  - {expr: x}\n", "r.yml:4: a rule has either `alert:` or `record:`"),
        ("groups:\n- name: a\n  interval: -5s\n  rules: []\n", "r.yml:2: '-5s' is no duration"),
        ("rules: []\n", "r.yml: no file of rules: it needs `groups:`"),
        ("groups:\n- name: a\n  rules:\n  - {alert: A, exp: x}\n", "r.yml:4: rule A has no `expr:`"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(("name", "text", "sentence"), [(name, *case) for name, cases in BAD.items() for case in cases])
def test_a_bad_file_is_a_sentence_with_file_and_line(tmp_path, name, text, sentence):
    """Of queries, a log, or rules: nothing of it reaches a stage that builds or starts something."""
    key = {"q.yml": "file", "log": "log", "r.yml": "rules"}[name]
    assert sentence in refused(tmp_path / name, text, key)


def test_a_parser_that_does_not_come_back_refuses_its_query_only():
    """Templates of templates take all memory; the queries before and behind them are examined."""
    endless = f"WITH (a0=x,{','.join(f'a{n}=a{n - 1}+a{n - 1}' for n in range(1, 40))}) a39"
    found = expression.examine(["up", endless, "sum(up"], "metricsql")
    assert [one.wrong.partition(":")[0] for one in found.values()] == [
        "", "takes its parser more than ten seconds, or a gigabyte of memory", "does not parse"
    ]  # fmt: skip


def test_all_faults_of_a_file_are_named_in_one_go(tmp_path):
    """What cannot be read and what cannot be asked, by their lines."""
    text = yaml_of("sum(cpu_usage_user", "cpu_usage_idle", "up").replace("name: b", "weight: -1\n    name: b")
    found = [line.rpartition("/")[2] for line in refused(tmp_path / "q.yml", text).splitlines()]
    assert [line.partition(" ")[0] for line in found] == ["q.yml:2:", "q.yml:4:", "q.yml:7:"]
    assert ["does not parse" in found[0], "weight -1" in found[1], "reads up" in found[2]] == [True] * 3


@pytest.mark.parametrize(
    ("query", "text", "sentence"),
    [
        ("rate(cpu_usage_user[$__rate_interval])", "rate(cpu_usage_user[75s])", ""),
        ("rate(cpu_usage_user[${__interval}])", "rate(cpu_usage_user[60s])", ""),
        ("cpu_usage_user / [[__range_s]]", "cpu_usage_user / 3600", ""),
        ("label_replace(cpu_usage_user, 'a', '$1', 'b', '(.*)')", None, ""),
        ("label_replace(cpu_usage_user, 'a', '$h', 'b', '(?P<h>.*)')", None, ""),
        ("cpu_usage_user{a=~'[[:alpha:]]$'}", None, ""),
        ("cpu_usage_user{hostname=~'$host'}", None, "a has $host, a variable of Grafana: write {{host}}"),
        ("cpu_usage_user{hostname=~'${host:regex}'}", None, "a has ${host:regex}, a variable of Grafana"),
        ("cpu_usage_user{hostname=~'[[host]]'}", None, "a has [[host]], a variable of Grafana"),
    ],
)
def test_grafanas_own_variables_are_filled_and_others_are_asked_for(tmp_path, query, text, sentence):
    """From the query's window and step; groups of a regular expression are none."""
    file = yaml_of(query, more="window: any 1h\n")
    if sentence:
        assert sentence in refused(tmp_path / "q.yml", file)
    else:
        ((one,),) = ((query.templates[0],) for query in asked_of(tmp_path / "q.yml", file).queries)
        assert one.text == (text or query)


@pytest.mark.parametrize("database", ["prometheus", "victoriametrics"])
def test_a_query_is_of_the_language_of_its_database(tmp_path, database):
    """What MetricsQL alone has Prometheus is not asked, and the other way round."""
    data = own.data_of(WORKLOAD, databases()[database].target)
    name = data.metrics[0]
    texts = {"prometheus": f"histogram_count({name} * 1_000)", "victoriametrics": f"median({name}) default 1Ki"}
    asked_of(tmp_path / "q.yml", yaml_of(texts.pop(database)), data=data)
    (other,) = texts.values()
    assert "does not parse" in refused(tmp_path / "q.yml", yaml_of(other), data=data)


def test_names_that_would_have_to_be_escaped_are_written_so(tmp_path):
    """{{metric}} takes plain names, and if there are none escaped ones."""
    for names, wanted in ((("a b", "c"), {"max(c)"}), (("a b", "1c"), {"max(a\\ b)", "max(\\1c)"})):
        data = requests.Data(START, END, "metricsql", metrics=names)
        asked = asked_of(tmp_path / "q.yml", yaml_of("max({{metric}})"), data=data)
        (made,) = own.types(asked, lambda _, data=data: data, 1, 50)
        found = {parse_qs(urlsplit(one.partition(" ")[2]).query)["query"][0] for one in made.requests}
        assert found == wanted


def test_influxql_is_asked_with_its_window_in_its_text(tmp_path):
    """{{start}} and {{end}} are the edges of the window."""
    target = databases()["influxdb"].target
    text = yaml_of("SELECT max(usage_user) FROM cpu WHERE time >= '{{start}}' AND time < '{{end}}' GROUP BY time(1m)")
    data = own.data_of(WORKLOAD, target)
    asked = asked_of(tmp_path / "q.yml", text.replace("    query", "    window: last 1h\n    query"), data=data)
    (made,) = own.types(asked, lambda _: data, 1)
    text = parse_qs(urlsplit(made.requests[0].partition(" ")[2]).query)["q"][0]
    assert "time >= '2025-06-10T23:00:00Z' AND time < '2025-06-11T00:00:00Z'" in text
    sentence = refused(tmp_path / "q.yml", yaml_of("SELECT x FROM cpu WHERE time > now() - 1h"), data=data)
    assert "returns another thing each time, by now()" in sentence


def test_a_variable_has_one_value_in_a_query(tmp_path):
    """On both sides of a ratio, say: else most of them match nothing."""
    text = yaml_of('cpu_usage_user{hostname="{{host}}"} / cpu_usage_idle{hostname="{{host}}"}')
    for one in requested(asked_of(tmp_path / "q.yml", text), "a"):
        first, second = re.findall("host_[0-9]+", one["query"])
        assert first == second


LOGGED = {"params": {"query": "sum(cpu_usage_user)", "start": "2026-11-02T08:00:00.000Z", "step": 15}}


def logged(end="2026-11-02T09:00:00.000Z", **params):
    """Return a line of Prometheus' query log."""
    return json.dumps({"params": {**LOGGED["params"], "end": end, **params}}) + "\n"


def test_times_of_a_log_move_to_the_end_of_the_data(tmp_path):
    """The latest request ends with the data; an earlier one is as much earlier as it was."""
    text = logged() + logged("2026-11-02T08:30:00.000Z", start="2026-11-02T08:00:00.000Z")
    text += logged("2026-11-02T09:00:00Z", start="2026-11-02T09:00:00Z", step=0, query="cpu_usage_idle")
    asked = asked_of(tmp_path / "log", text, "log")
    first, second = requested(asked, "log-sum-cpu_usage_user")
    assert [(one["start"], one["end"]) for one in (first, second)] == [
        (f"{END - 3600:.0f}", f"{END:.0f}"),
        (f"{END - 3600:.0f}", f"{END - 1800:.0f}"),
    ]
    assert requested(asked, "log-cpu_usage_idle") == [{"query": "cpu_usage_idle", "time": f"{END:.0f}"}]
    assert {query.name: query.weight for query in asked.queries} == {
        "log-sum-cpu_usage_user": 2,
        "log-cpu_usage_idle": 1,
    }


def test_what_cannot_be_replayed_is_counted_and_said(tmp_path):
    """A line of another path, a cut line, a query of a series that the data has not: each with its line and reason."""
    text = "/api/v1/query?query=cpu_usage_user&time=1762000000\nGET /api/v1/labels HTTP/1.1\n"
    text += '/api/v1/query?query=up\n{"params":{"que'
    asked = asked_of(tmp_path / "log", text, "log")
    assert [query.name for query in asked.queries] == ["log-cpu_usage_user"]
    path = tmp_path / "log"
    assert [sentence.partition(": ")[0] for sentence in asked.left_out] == [
        *(f"{path}:2", f"{path}:4", f"{path}:3"),
        str(path),
    ]
    assert "/api/v1/labels is no query of Prometheus' API" in asked.left_out[0]
    assert "1 line cannot be replayed: it is cut off" in asked.left_out[1]
    assert "1 request left out, log-up first: it reads up, which the data does not have" in asked.left_out[2]
    assert asked.left_out[3].endswith(": the mix is 25 % of what the file asks, 1 of its queries")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (logged(step="abc"), "'abc' is no number of seconds"),
        (logged(step=-5), "'-5' is no number of seconds"),
        (logged(start=[]), "'[]' is no time"),
        (logged("inf"), "'inf' is no time"),
        ("http://[::1/api/v1/query?query=x", "it is no URL (Invalid IPv6 URL)"),
        ('{"params":' * 9999, "it is cut off, and no JSON"),
        (logged(end="2026-11-02T07:00:00Z"), "its end lies before its start"),
        (logged(query=""), "it has no params.query, and is no line of Prometheus' query log"),
        ("/api/v1/query?time=3", "the request has no argument `query`"),
        ("[1, 2]", "no path of a request is no query of Prometheus' API (/api/v1/query, /api/v1/query_range)"),
    ],
)
def test_a_line_of_nonsense_is_one_that_cannot_be_replayed(tmp_path, line, why):
    """The rest of the log is asked all the same."""
    asked = asked_of(tmp_path / "log", logged() + line, "log")
    assert [query.name for query in asked.queries] == ["log-sum-cpu_usage_user"]
    assert asked.left_out[:-1] == (f"{tmp_path}/log:2: 1 line cannot be replayed: {why}",)


def test_victoriametrics_top_queries_are_a_log(tmp_path):
    """A query that is in several of its lists is asked as often as it was counted, over its time range."""
    entry = {"query": "avg(cpu_usage_user)", "timeRangeSeconds": 3600, "count": 7}
    wrong = [5, entry | {"timeRangeSeconds": "x"}, entry | {"count": None}]
    text = json.dumps({"topByCount": [entry], "topByAvgDuration": [*wrong, entry], "topBySumDuration": 0})
    asked = asked_of(tmp_path / "log", text, "log")
    (query,) = asked.queries
    assert (query.weight, query.templates[0].length_s) == (7, 3600)
    both = [entry | {"count": 9_000}, entry | {"timeRangeSeconds": 7200, "count": 1_000}]
    (query,) = asked_of(tmp_path / "log", json.dumps({"topByCount": both}), "log").queries
    ends = [re.search(r"start=(\d+)&end=(\d+)", path).groups() for path in requests.paths(query, DATA, 1)]
    spans = [int(end) - int(start) for start, end in ends]
    assert spans.count(3600) / len(spans) == pytest.approx(0.9, abs=0.03)  # each range as often as it was asked
    assert [sentence.rpartition(": ")[2] for sentence in asked.left_out[:-1]] == [
        "it has no query", "'x' is no number of seconds", "'None' is no number of seconds"
    ]  # fmt: skip


def test_a_query_log_of_rules_and_of_requests_by_path_is_read(tmp_path):
    """A rule's evaluation has no request; steps may be durations; a proxy's line has its path between other words."""
    rule = {"params": LOGGED["params"] | {"end": LOGGED["params"]["start"], "step": 0}, "ruleGroup": {"name": "cpu"}}
    path = "/select/0/prometheus/api/v1/query_range?query=cpu_usage_idle&start=1762000000&end=1762003600&step=5m"
    text = json.dumps(rule) + f'\n10.0.0.1 - - [01/Nov/2026] "GET {path} HTTP/1.1" 200 17\n'
    found = {query.name: query.templates[0] for query in asked_of(tmp_path / "log", text, "log").queries}
    assert found["log-sum-cpu_usage_user"].length_s == 0
    assert (found["log-cpu_usage_idle"].length_s, found["log-cpu_usage_idle"].step_s) == (3600, 300)


def test_rules_weigh_their_evaluations_a_second():
    """Eight rules every 15 s, six every 30 s and six a minute are 0.83 a second.

    Each may return nothing. Alerts may also together, and recording rules not.
    """
    asked = own.settled(QuerySettings(rules=str(OWN / "alerts.yml")), DATA)
    assert len(asked.queries) == 20
    assert own.rate(asked) == pytest.approx(8 / 15 + 6 / 30 + 6 / 60)
    assert all(query.quiet for query in asked.queries)
    assert {query.name for query in asked.queries if not query.silent} == {
        *("host-cpu_busy-avg5m", "region-cpu_user-avg", "datacenter-cpu_user-p90", "team-cpu_idle-min"),
        *("os-hosts-count", "cpu_user-change1h"),
    }


def experiment(**settings):
    """Return a validated experiment with these queries."""
    return read.validate({"name": "x", "queries": settings}, "x.yml")


def test_an_experiment_names_the_users_queries_as_its_types():
    """The mix is one of them. Rates ask the mix, and rules have a rate of their own."""
    found = experiment(file=str(OWN / "dashboard.yml"))
    assert found.queries.types == ("mix", "busy-cpu", "one-host", "any-metric", "by-region", "top-now")
    rules = {"name": "x", "queries": {"rules": str(OWN / "alerts.yml")}, "mixed": {"ingest": 1000}}
    assert read.validate(rules, "x.yml").mixed.queries == pytest.approx(0.8333, abs=1e-4)
    beside = rules | {"queries": rules["queries"] | {"file": str(OWN / "dashboard.yml")}}
    with pytest.raises(UserError, match=r"mixed\.queries: rules have a rate, and the other queries beside them"):
        read.validate(beside, "x.yml")
    with pytest.raises(UserError, match=r"mixed\.queries: how many queries a second"):
        read.validate({"name": "x", "mixed": {"ingest": 1000}}, "x.yml")


def test_rules_that_ask_too_often_for_so_long_are_refused(tmp_path):
    """As the same rate is, where it is typed."""
    path = tmp_path / "r.yml"
    path.write_text("groups:\n- {name: a, interval: 10ms, rules: [{alert: A, expr: cpu_usage_user}]}\n")
    mixed = {"ingest": 1000, "seconds": 200_000}
    with pytest.raises(UserError, match=r"mixed, with the rate of queries\.rules: .*20,000,000 queries in one phase"):
        read.validate({"name": "x", "queries": {"rules": str(path)}, "mixed": mixed}, "x.yml")


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        (r"(((((((\w+)+)+)+)+)+)+)!", "the regex of the variable v would take over"),
        ("a{9999999999}", ("host", ())),
        ("(" * 5000 + ")" * 5000, ("host", ())),
    ],
)
def test_a_pattern_of_a_dashboard_has_an_end(pattern, found, monkeypatch):
    """Grafana runs it in another language, which takes no longer than the text is long."""
    monkeypatch.setattr(bounded, "SECONDS", 1)
    if isinstance(found, str):
        with pytest.raises(UserError, match=found):
            grafana._parts("v", "host", pattern, [f"host_{number}_of_a_long_name" for number in range(99)])
    else:
        assert grafana._parts("v", "host", pattern, ["host_1"]) == found


def test_types_of_tsbs_and_own_queries_exclude_each_other():
    """So do two databases with one language's queries, and a file that is not there."""
    path = str(OWN / "dashboard.yml")
    with pytest.raises(UserError, match=r"either `types:`, of TSBS, or queries of your own"):
        experiment(file=path, types=["cpu-max-all-1"])
    with pytest.raises(UserError, match=r"queries\.log: /no/such: No such file or directory; give the path of a file"):
        experiment(log="/no/such")
    variants = {"baseline": {"ref": "v1"}, "candidate": {"ref": "v2", "target": "prometheus"}}
    with pytest.raises(UserError, match="compare versions of one database"):
        read.validate({"name": "x", "variants": variants, "queries": {"file": path}}, "x.yml")


def test_a_plan_has_the_requests_of_each_type_under_its_key():
    """Also over the windows of an upgrade; another content of a file gives another key. A line each, in one file."""
    settings = QuerySettings(file=str(OWN / "dashboard.yml"))
    made = own_types.planned_types(settings, WORKLOAD, TARGET, 1000, upgrades=True)
    assert [kind.name for kind in made["types"]] == [
        "mix",
        "busy-cpu",
        "one-host",
        "any-metric",
        "by-region",
        "top-now",
    ]
    assert [kind.name for kind in made["windowed"][:2]] == ["mix@half", "busy-cpu@half"]
    keys = [key for kind in (*made["types"], *made["windowed"]) for key in kind.keys.values()]
    assert len(set(keys)) == len(keys) == 18
    other = own_types.planned_types(settings, WorkloadAsked(scale=21), TARGET, 1000, upgrades=False)
    assert other["types"][1].keys != made["types"][1].keys
    assert made["types"][1].own == f"{OWN}/dashboard.yml:8"
    sections = {"workload": plans.SMALL_WORKLOAD, "targets": {TARGET.name: TARGET}}
    plan = plans.plan(**sections, queries=Queries(**settings.model_dump(), **made))
    lines = gzip.decompress(own_types.written(plan)[own_types.FILE]).decode().splitlines()
    assert {line.split(" ")[0] for line in lines} == set(keys)
    assert lines[0].split(" ")[1] == "GET"
    assert own_types.written(plans.plan()) == {}


def test_placeholders_take_values_that_the_users_data_have(tmp_path):
    """Of the label of that name; {{host}} of hostname, host or instance; what a query must escape is left out."""
    labels = {"host": ("a", "b", 'c"'), "path": ("x y",)}
    data = requests.Data(START, END, "metricsql", metrics=("up", "down"), labels=labels)
    text = yaml_of('{{metric}}{host=~"{{hosts:2}}",path="{{path}}"}')
    asked = asked_of(tmp_path / "q.yml", text, data=data)
    (made,) = own.types(asked, lambda _: data, 1, 50)
    filled = {parse_qs(urlsplit(request).query)["query"][0] for request in made.requests}
    assert filled == {f'{name}{{host=~"{hosts}",path="x y"}}' for name in ("up", "down") for hosts in ("a|b", "b|a")}
    sentence = refused(tmp_path / "q.yml", yaml_of('up{host=~"{{hosts:3}}"}'), data=data)
    assert "q.yml:2: a wants 3 values of {{hosts:3}}, and there are 2" in sentence


def test_values_are_given_beside_a_file_as_they_are_written(tmp_path):
    """On the command line: a list, numbers, one value; `queries.file=` takes a file away."""
    (tmp_path / "q.txt").write_text('cpu_usage_user{x="{{x}}",y="{{y}}"}\n')
    found = experiment(file=str(tmp_path / "q.txt"), log=None, values={"x": [1, 2], "y": "a b"})
    assert found.queries.values == {"x": ("1", "2"), "y": ("a b",)}
    with pytest.raises(UserError, match=r"x: YAML reads a word of it as False: write it in quotes"):
        experiment(file=str(tmp_path / "q.txt"), log=None, values={"x": ["DE", False], "y": "a b"})
    assert found.queries.types == ("line-1",)

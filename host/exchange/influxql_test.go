package exchange

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"testing"
)

func TestAnswersOfInfluxQLAreRead(t *testing.T) {
	grouped := `{"results":[{"statement_id":0,"series":[{"name":"cpu","tags":{"hostname":"host_1"},` +
		`"columns":["time","mean","mean_1"],` +
		`"values":[["2025-06-10T00:00:00Z",1.5,2],["2025-06-10T01:00:00Z",null,3e1]]}]}]}` + "\n"
	for _, c := range []struct {
		name, q, body string
		series        []string
	}{
		{"fields have their names from the query, a null is no point",
			"SELECT mean(usage_user), mean(usage_system) from cpu group by time(1h),hostname", grouped,
			[]string{`{__name__="cpu_usage_system",hostname="host_1"} [{1.7495136e+09 2} {1.7495172e+09 3e1}]`,
				`{__name__="cpu_usage_user",hostname="host_1"} [{1.7495136e+09 1.5}]`}},
		{"without a query, from the columns", "", grouped,
			[]string{`{__name__="cpu_mean",hostname="host_1"} [{1.7495136e+09 1.5}]`,
				`{__name__="cpu_mean_1",hostname="host_1"} [{1.7495136e+09 2} {1.7495172e+09 3e1}]`}},
		{"columns of text are tags of their row", "SELECT * from cpu",
			`{"results":[{"series":[{"name":"cpu","columns":["time","hostname","usage_user","up"],"values":[` +
				`[1749513600500000000,"a",1,true],[1749513600500000000,"b",2,null],` +
				`[1749513601500000000,"a",3,false]]}]}]}`,
			[]string{`{__name__="cpu_up",hostname="a"} [{1.7495136005e+09 true} {1.7495136015e+09 false}]`,
				`{__name__="cpu_usage_user",hostname="a"} [{1.7495136005e+09 1} {1.7495136015e+09 3}]`,
				`{__name__="cpu_usage_user",hostname="b"} [{1.7495136005e+09 2}]`}},
		{"a text is a tag of its own column", "SELECT * from cpu",
			`{"results":[{"series":[{"name":"cpu","columns":["time","x","y","n"],"values":[` +
				`[1749513600000000000,"a",null,1],[1749513600000000000,null,"a",2]]}]}]}`,
			[]string{`{__name__="cpu_n",x="a"} [{1.7495136e+09 1}]`, `{__name__="cpu_n",y="a"} [{1.7495136e+09 2}]`}},
		{"no series", "SELECT mean(x) from y", `{"results":[{"statement_id":0}]}`, nil},
	} {
		path := "/query?" + url.Values{"q": {c.q}}.Encode() + "&db=benchmark"
		got, err := parseInfluxQL([]byte(c.body), &Operation{Path: path})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var all []string
		for _, key := range slices.Sorted(maps.Keys(got.series)) {
			all = append(all, fmt.Sprint(key, " ", got.series[key]))
		}
		if !slices.Equal(all, c.series) {
			t.Errorf("%s: %q", c.name, all)
		}
	}
	for body, sentence := range map[string]string{
		`"series":[{"name":"cpu","columns":["time","x"],"values":[["2025-06-10T00:00:00Z"]]}]`: "" +
			"a row of cpu has 1 values for 2 columns",
		`"series":[{"name":"cpu","columns":["time","x"],"values":[["today",1]]}]`: "" +
			`parsing time "today" as "2006-01-02T15:04:05.999999999Z07:00": cannot parse "today" as "2006"`,
		`"statement_id":0,"error":"database not found: benchmark"`: "database not found: benchmark",
		`}]}{"results":[{"series":[]`:                              "the answer has more behind its JSON",
	} {
		body = `{"results":[{` + body + `}]}`
		if _, err := parseInfluxQL([]byte(body), &Operation{}); err == nil || err.Error() != sentence {
			t.Errorf("%s: %v", body, err)
		}
	}
}

// An answer of status 200 can be an error.
func TestEmptyAndFailedAnswersOfInfluxQL(t *testing.T) {
	for _, c := range []struct {
		body, sentence string
		empty          bool
	}{
		{`{"results":[{"statement_id":0}]}` + "\n", "", true},
		{`{"results":[{"statement_id":0,"series":[{"name":"cpu","tags":{"say":"\"error\":"},` +
			`"columns":["time","error"],"values":[["2025-06-10T00:00:00Z",1]]}]}]}`, "", false},
		{`{"results":[{"statement_id":0,"error":"timeout"}]}`, "timeout", false},
		{`{"results":[{"statement_id":0,"series":[{"name":"cpu"}]},{"error":"query killed"}]}`, "query killed", false},
		{`{"error":"missing required parameter \"q\""}`,
			`no answer of InfluxDB's /query: {"error":"missing required parameter \"q\""}`, false},
		{"<html>\n", "no answer of InfluxDB's /query: <html>", false},
		{"", "no answer of InfluxDB's /query: ", false},
	} {
		empty, err := emptyInfluxQL([]byte(c.body))
		if fmt.Sprint(err) != c.sentence && (err != nil || c.sentence != "") || empty != c.empty {
			t.Errorf("%s: %t, %v", c.body, empty, err)
		}
	}
}

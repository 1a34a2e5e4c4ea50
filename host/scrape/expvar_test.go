package scrape

import (
	"strings"
	"testing"
)

const vars = `{
"system": {"currentTime":"2026-11-22T00:00:00Z","uptime":12.5},
"cmdline": ["influxd","run"],
"memstats": {"Alloc":9007199254740993,"BySize":[{"Size":8}],"GCCPUFraction":1.5e-05,"EnableGC":true},
"plain": 7,
"shard:/d/benchmark/autogen/1:1": {"name":"shard","tags":{"database":"benchmark","path":"/d \"x\"\\1"},
 "values":{"writeValuesOk":480,"writePointsOk":48}},
"shard:/d/benchmark/autogen/2:2": {"name":"shard","tags":{"database":"benchmark","path":"2"},
 "values":{"writeValuesOk":20}},
"shard:/d/_internal/monitor/3:3": {"name":"shard","tags":{"database":"_internal"},"values":{"writeValuesOk":5}},
"httpd::8086": {"name":"httpd","tags":{},"values":{"valuesWrittenOK":500}}
}`

// Go's expvar JSON, and InfluxDB's, becomes exposition text.
func TestExpvar(t *testing.T) {
	text, err := Expvar([]byte(vars))
	must(t, err)
	ours := map[string]string{"database": "benchmark"}
	wantSums(t, text, []summed{
		{"shard_writeValuesOk", "", ours, 500},
		{"shard_writeValuesOk", "", nil, 505},
		{"shard_writePointsOk", "", map[string]string{"path": `/d "x"\\1`}, 48},
		{"httpd_valuesWrittenOK", "", nil, 500},
		{"system_uptime", "", nil, 12.5},
		{"memstats_GCCPUFraction", "", nil, 1.5e-05},
		{"plain", "", nil, 7},
		{"memstats_EnableGC", "", nil, none},
		{"cmdline", "", nil, none},
	})
	if !strings.Contains(string(text), "memstats_Alloc 9007199254740993\n") {
		t.Error("a large number lost digits")
	}
	if _, err := Expvar([]byte("<html>404</html>")); err == nil || !strings.Contains(err.Error(), "no expvar JSON: ") ||
		!strings.HasSuffix(err.Error(), ": <html>404</html>") {
		t.Error(err)
	}
}

package workload

import (
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/timescale/tsbs/pkg/query"

	"tsduel/host/record"
)

// asked returns the path of a request, as TSBS writes it.
func asked(expression string) string {
	return "/api/v1/query_range?" + url.Values{"query": {expression}, "start": {"1749513600"}, "end": {"1749517200"},
		"step": {"60"}}.Encode()
}

func TestPrometheusIsAskedWhatVictoriaMetricsIsAsked(t *testing.T) {
	for _, c := range []struct{ from, want string }{
		{"max(max_over_time(cpu_usage_user{hostname='host_5'}[1m])) by (__name__)",
			`max(max_over_time(usage_user{hostname="host_5"}[1m])) by(__name__)`},
		{"max(max_over_time(cpu_usage_user{hostname=~'host_5|host_9'}[1m])) by (__name__)",
			`max(max_over_time(usage_user{hostname=~"host_5|host_9"}[1m])) by(__name__)`},
		{"avg(avg_over_time(cpu_usage_user{}[1h])) by (__name__, hostname)",
			`avg(avg_over_time(usage_user[1h])) by(__name__,hostname)`},
		{"max(max_over_time({__name__=~'cpu_(usage_guest|usage_guest_nice)', hostname='host_0'}[1h])) by (__name__)",
			`label_replace(max(max_over_time(usage_guest{hostname="host_0"}[1h])) by(__name__), ` +
				`"__name__", "cpu_usage_guest", "", "") or on (__name__) ` +
				`label_replace(max(max_over_time(usage_guest_nice{hostname="host_0"}[1h])) by(__name__), ` +
				`"__name__", "cpu_usage_guest_nice", "", "")`},
		{"avg(avg_over_time({__name__=~'cpu_(usage_user|usage_system)'}[1h])) by (__name__, hostname)",
			`label_replace(avg(avg_over_time(usage_user[1h])) by(__name__,hostname), ` +
				`"__name__", "cpu_usage_user", "", "") or on (__name__) ` +
				`label_replace(avg(avg_over_time(usage_system[1h])) by(__name__,hostname), ` +
				`"__name__", "cpu_usage_system", "", "")`},
	} {
		if got, err := toPrometheus(asked(c.from)); err != nil || got != asked(c.want) {
			t.Errorf("%s:\n%s\n%s, %v", c.from, asked(c.want), got, err)
		}
	}
	for from, want := range map[string]string{
		"max(cpu_usage_user":                  "unparsed",
		"1":                                   "it has not one selector",
		"cpu_usage_user / cpu_usage_idle":     "it has not one selector",
		"cpu_usage_user or cpu_usage_idle":    "it has not one selector",
		"max(mem_used{hostname='host_1'})":    "mem_used is no series of the data",
		"max({hostname='host_1'})":            "does not begin with names of metrics",
		"max({__name__!='cpu_usage_user'})":   "does not begin with names of metrics",
		"max({__name__=~'cpu_usage_user|('})": "missing",
	} {
		if got, err := toPrometheus(asked(from)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %s, %v", from, got, err)
		}
	}
}

func TestAFileIsTranslatedQueryByQuery(t *testing.T) {
	from, to := filepath.Join(t.TempDir(), "from"), filepath.Join(t.TempDir(), "to")
	write := func(expressions ...string) {
		_, err := writeQueries(from, func(k int64) (*query.HTTP, error) {
			if int(k) == len(expressions) {
				return nil, io.EOF
			}
			return &query.HTTP{HumanLabel: []byte("VictoriaMetrics 1 cpu metric(s)"), Method: []byte("GET"),
				Path: []byte(asked(expressions[k])), StartTimestamp: 7}, nil
		})
		must(t, err)
	}
	write("cpu_usage_user", "cpu_usage_idle")
	j := &job{plan: &record.Plan{}, form: "prometheus"}
	if count, err := rewrite(from, to, j.ask); count != 2 || err != nil {
		t.Errorf("%d: %v", count, err)
	}
	_, err := rewrite(to, os.DevNull, func(k int64, q *query.HTTP) error {
		if want := []string{"usage_user", "usage_idle"}[k]; string(q.Path) != asked(want) || string(q.Method) != "GET" ||
			string(q.HumanLabel) != "Prometheus 1 cpu metric(s)" || q.StartTimestamp != 7 {
			t.Errorf("%s: %+v", want, q)
		}
		return nil
	})
	must(t, err)
	write("cpu_usage_user", "cpu")
	if count, err := rewrite(from, to, j.ask); count != 1 || err == nil ||
		!strings.Contains(err.Error(), "cpu is no series of the data") {
		t.Errorf("%d: %v", count, err)
	}
	j.form = "nonsense"
	if _, err := rewrite(from, to, j.ask); err == nil || !strings.Contains(err.Error(), `no form "nonsense"`) {
		t.Error(err)
	}
}

func TestSamplesAreCountedInTSBSsFormatForPrometheus(t *testing.T) {
	data := binary.AppendUvarint(nil, 1)
	for i := range 500 {
		size := 1 + rand.IntN(400)
		data = append(binary.AppendUvarint(data, uint64(size)), make([]byte, size)...)
		data[len(data)-1] = byte(i)
	}
	for _, step := range []int{1, 2, 7, 129, 1 << 20} {
		f, count := &framed{}, int64(0)
		for at := 0; at < len(data); at += step {
			count += f.count(data[at:min(at+step, len(data))])
		}
		if count != 500 {
			t.Errorf("%d samples, %d bytes at a time", count, step)
		}
	}
	if f := (&framed{}); f.count(data[:len(data)-1]) != 499 {
		t.Error("one that is cut short counts")
	}
}

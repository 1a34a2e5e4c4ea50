package values

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tsduel/host/record"
)

func near(a, b, share float64) bool { return math.Abs(a-b) <= share*math.Abs(b) }

// Drawn again and again, both estimators scatter by the standard error that they state; outliers move one of them.
func TestTheErrorsWithinABlockAreWhatBlocksScatterBy(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var means, ratios, errors, others []float64
	for range 400 {
		logs, b, c := make([]float64, 200), make([]float64, 200), make([]float64, 200)
		for i := range logs {
			logs[i], b[i] = 0.05*rng.NormFloat64(), math.Exp(0.3*rng.NormFloat64())
			c[i] = b[i] * math.Exp(logs[i])
		}
		one, other := trimmed(logs), total(b, c)
		means, errors = append(means, one.ratio), append(errors, one.se)
		ratios, others = append(ratios, other.ratio), append(others, other.se)
	}
	if !near(deviation(means, 0), mean(errors), 0.1) || !near(deviation(ratios, 0), mean(others), 0.1) {
		t.Error(deviation(means, 0), mean(errors), deviation(ratios, 0), mean(others))
	}
	logs, ones, times := make([]float64, 200), make([]float64, 200), make([]float64, 200)
	for i := range logs {
		if logs[i], ones[i] = 0.05*rng.NormFloat64(), 1; i < 5 {
			logs[i] = 3
		}
		times[i] = math.Exp(logs[i])
	}
	if one, other := trimmed(logs), total(ones, times); math.Abs(one.ratio) > 0.015 || other.ratio < 0.2 {
		t.Error(one, other)
	}
	if typical(ones, times) != trimmed(logs) && !near(typical(ones, times).ratio, trimmed(logs).ratio, 1e-9) {
		t.Error(typical(ones, times))
	}
	if two := trimmed([]float64{0.5, 0.7}); two.ratio != 0.6 || !math.IsNaN(two.se) {
		t.Error(two)
	}
}

// The forecast has one ratio of a metric: of all queries if there is one, else the mean of those of the types, and of
// what is not by type. A ratio that nobody could make is none.
func TestTheForecastHasOneRatioOfAMetric(t *testing.T) {
	key := func(metric string) [2]string { return [2]string{"c", metric} }
	b := &block{Block: record.NewBlock(record.BlockRow{}), alive: []string{"b", "c"},
		plan:  &record.Plan{Variants: []record.Variant{{Name: "b"}, {Name: "c"}}},
		whole: map[[2]string]float64{{"b", "load_rate"}: 2, {"c", "load_rate"}: 2 * math.E, {"c", "upgrade_ingest_rate"}: 1},
		bySitting: map[[2]string]map[string]map[int]estimate{
			key("duel_typical_ms"):            {"x": {0: {0.5, 0}}, geomean: {0: {0.1, 0}, 1: {0.3, 0}}},
			key("upgrade_half_typical_ms"):    {"x": {0: {0.5, 0}, 1: {0.7, 0}}, "y": {0: {0.1, 0}, 1: {0.3, 0}}},
			key("upgrade_right_after_cpu_us"): {"x": {0: {0.5, 0}}, every: {0: {0.1, 0}}},
			key("duel_p50_ms"):                {"x": {0: {0.5, 0}}}}}
	b.forecast()
	want := record.Ratios{"duel_typical_ms": 0.2, "upgrade_half_typical_ms": 0.4, "upgrade_right_after_cpu_us": 0.1,
		"load_rate": 1}
	for metric, ratio := range b.Ratios["c"] {
		if !near(ratio, want[metric], 1e-12) {
			t.Error(metric, ratio)
		}
	}
	if len(b.Ratios) != 1 || len(b.Ratios["c"]) != len(want) {
		t.Error(b.Ratios)
	}
}

func TestQuantile(t *testing.T) {
	for share, want := range map[float64]float64{0: 1, 0.25: 2, 0.5: 3, 0.9: 6.6, 1: 9} {
		if got := quantile([]float64{1, 2, 3, 3, 9}, share); !near(got, want, 1e-12) {
			t.Error(share, got)
		}
	}
}

func rung(rate, ms float64, held bool) record.RatePhase {
	return record.RatePhase{Rate: rate, Held: held, Streams: []record.RateStream{{
		Operations: record.Operations{Planned: 1}, ResponseNS: map[string]int64{"p99": int64(ms * 1e6)}}}}
}

// Behind the last rung that was held, between it and the next in the logs of both.
func TestTheCapacityLiesWhereTheBoundIsCrossed(t *testing.T) {
	climb := []record.RatePhase{rung(100, 5, true), rung(200, 10, true), rung(400, 40, false), rung(800, 90, false)}
	if got := capacity(climb, "p99", 20); !near(got, 200*math.Sqrt2, 1e-12) {
		t.Error(got)
	}
	climb[0] = rung(100, 50, false) // one that the machine has spoilt further down is not the end
	if got := capacity(climb, "p99", 20); !near(got, 200*math.Sqrt2, 1e-12) {
		t.Error(got)
	}
	// Within the bound, but not all were answered.
	if got := capacity([]record.RatePhase{rung(100, 5, true), rung(200, 9, false)}, "p99", 20); got != 100 {
		t.Error(got)
	}
	none, void := rung(50, 0, true), rung(400, 9, false)
	none.Streams[0].Planned, void.Void = 0, "the client" // a rung for which no start was drawn shows nothing
	for _, unknown := range [][]record.RatePhase{climb[2:], climb[:2], {climb[1], void}, nil, {none, climb[2]}} {
		if got := capacity(unknown, "p99", 20); !math.IsNaN(got) {
			t.Error(got)
		}
	}
}

func written(t *testing.T, text string) string {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const header = "time,per. sample/s,sample total,overall sample/s,per. row/s,row total,overall row/s\n"

// A line without numbers is a period in which nothing was acknowledged. The last, partial interval is added when it is
// long enough. A loader that was killed has no summary.
func TestTheOutputOfALoader(t *testing.T) {
	const lines = header + "100,-,-,-,-,-,-\n101,50.00,5.000000E+01,25.00,-,-,-\n"
	const loaded = "\nSummary:\nloaded 110 samples in 2.600sec with 4 workers (mean rate 42.30 samples/sec)\n" +
		"loaded 11 rows in 2.600sec with 4 workers (mean rate 4.23 rows/sec)\n"
	o := readLoad(written(t, lines+loaded))
	if o.samples != 110 || o.seconds != 2.6 || o.rate != 42.3 {
		t.Error(o)
	}
	if curve := o.curve(1); len(curve) != 3 || curve[1] != [2]float64{2, 50} || curve[0][1] != 0 ||
		!near(curve[2][1], 100, 1e-9) {
		t.Error(curve)
	}
	// Too short for a rate of its own: one with the interval before, and it ends where the load did.
	short := readLoad(written(t, lines+strings.Replace(loaded, "2.600sec", "2.400sec", 1)))
	if curve := short.curve(1); len(curve) != 2 || curve[1][0] != 2.4 || !near(curve[1][1], 110/1.4, 1e-9) {
		t.Error(curve)
	}
	for period, want := range map[float64]float64{1: 50, 0.25: 60} {
		more := readLoad(written(t, lines+"101,70.00,8.000000E+01,25.00,-,-,-\n"))
		if rate, has := more.firstSecond(period); rate != want || !has {
			t.Error(period, rate)
		}
	}
	if curve := readLoad(written(t, header+loaded)).curve(1); len(curve) != 1 || curve[0][0] != 2.6 {
		t.Error(curve)
	}
	killed := readLoad(written(t, lines))
	if !math.IsNaN(killed.samples) || len(killed.curve(1)) != 2 || len(readLoad("none").curve(1)) != 0 {
		t.Error(killed)
	}
}

// Milliseconds come out as seconds; a file that is cut or of something else gives no figure.
func TestTheResultsOfALoader(t *testing.T) {
	const whole = `{"DurationMillis": 3370, "Totals": {"metricRate": 320431.25},
		"RunnerConfig": {"reporting-period": 250000000}}`
	if seconds, rate, period := loadResults(written(t, whole)); seconds != 3.37 || rate != 320431.25 || period != 0.25 {
		t.Error(seconds, rate, period)
	}
	const silent = `{"DurationMillis": 1000, "Totals": {"metricRate": 5}}`
	if _, rate, period := loadResults(written(t, silent)); rate != 5 || period != 1 {
		t.Error(rate, period)
	}
	for _, text := range []string{"", "{", "[]", "{}", `{"Totals": null}`, "null", whole[:40]} {
		if seconds, rate, period := loadResults(written(t, text)); !math.IsNaN(seconds+rate) || period != 1 {
			t.Error(text, seconds, rate, period)
		}
	}
}

// The last statistics are of all queries; a client that panicked has none. Long phases take the mean from the sum.
func TestTheOutputOfQueries(t *testing.T) {
	const head = "Run complete after 500 queries with 2 workers (Overall query rate 969.06 queries/sec):\n"
	const stats = "min:     0.57ms, med:     1.80ms, mean:     2.06ms, max:    7.96ms, stddev:     1.18ms, " +
		"sum:   1.0sec, count: 500\n"
	found := readQueries(written(t, head+"VictoriaMetrics x:\nmin: 9.00ms, mean: 9.00ms, count: 9\nall queries :\n"+stats))
	want := map[string]float64{"min": 0.57, "mean": 2.06, "max": 7.96, "stddev": 1.18, "sum": 1, "count": 500}
	for name, value := range want {
		if found[name] != value {
			t.Error(name, found[name])
		}
	}
	if preciseMean(found) != 2.06 || readQueries(written(t, "panic: query error\n"+stats)) != nil {
		t.Error(preciseMean(found))
	}
	if mean := preciseMean(map[string]float64{"count": 100_000, "mean": 0.31, "sum": 31.4}); !near(mean, 0.314, 1e-9) {
		t.Error(mean)
	}
}

func exchanged(t *testing.T, lines string) []*exchanges {
	t.Helper()
	dir := t.TempDir()
	packed, err := record.CreatePacked(filepath.Join(dir, "x.csv.gz"))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = packed.WriteString(lines)
	if err := packed.Close(); err != nil {
		t.Fatal(err)
	}
	all, err := (&block{dir: dir, alive: []string{"a", "b"}}).readExchanges("x.csv.gz")
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestTheFirstBatchOfATurnOfSeveralIsInNoTime(t *testing.T) {
	all := exchanged(t, "sitting,k,order,first,lines,a_ns,b_ns\n0,0,01,true,9,50,60\n0,1,01,false,9,5,6\n")
	if !slices.Equal(all[0].pooled("a"), []float64{5}) || !slices.Equal(all[0].pooled("b"), []float64{6}) {
		t.Error(all[0])
	}
}

// What a variant that died did not answer is left out for all; variants that failed are not looked at.
func TestExchangesThatNotAllHaveAnswered(t *testing.T) {
	all := exchanged(t, "query_type,k,order,bytes,a_ns,b_ns,c_ns\nx,0,01,9,5,6,\nx,1,10,9,7,,\ny,0,01,9,0,3,\n")
	if len(all) != 2 || !slices.Equal(all[0].pooled("a"), []float64{5}) ||
		!slices.Equal(all[0].pooled("b"), []float64{6}) || all[1].pooled("a") != nil {
		t.Error(all)
	}
}

func TestWhatIsJudgedAtARateIsTheResponseTime(t *testing.T) {
	b := &block{rows: map[string][][]string{}, whole: map[[2]string]float64{}}
	response, service := map[string]int64{"p99": 8e6}, map[string]int64{"p99": 2e6}
	stream := record.RateStream{Operation: "query", Operations: record.Operations{Planned: 1}, ResponseNS: response,
		ServiceNS: service}
	b.mixed("a", record.RatePhase{Seconds: 2, CPUNS: 3e9, Streams: []record.RateStream{stream}})
	of := map[string]float64{"mixed_query_p99_ms": 8, "mixed_query_service_p99_ms": 2, "mixed_cpu_cores": 1.5}
	for metric, want := range of {
		if got := b.whole[[2]string{"a", metric}]; got != want {
			t.Errorf("%s is %g", metric, got)
		}
	}
}

// Of a mix of a user's queries, what stands for all is the mix: a heavy query that is rare in it is asked as often as
// any other by itself.
func TestAComponentsCPUIsThatOfTheMix(t *testing.T) {
	of := func(name string, exchanges int, ns int64) record.DuelType {
		by := map[string]map[string]int64{"a": {"vmselect": ns}}
		return record.DuelType{QueryType: name, Exchanges: exchanges, CPUNSByRole: by}
	}
	records := []record.DuelType{of("busy", 100, 9e9), of(mix, 1000, 1e9)}
	if all := forAll(records); len(all) != 1 || all[0].QueryType != mix || len(forAll(records[:1])) != 1 {
		t.Error(all)
	}
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	b := &block{Block: record.NewBlock(record.BlockRow{}), rows: map[string][][]string{}, alive: []string{"a"},
		roles: []string{"vmselect"}, whole: map[[2]string]float64{},
		plan: &record.Plan{Variants: []record.Variant{{Name: "a"}}}}
	b.dir = t.TempDir()
	must(os.MkdirAll(filepath.Join(b.dir, "duel"), 0o755))
	table, err := record.CreatePacked(filepath.Join(b.dir, "duel/exchanges.csv.gz"))
	must(err)
	_, err = table.WriteString("query_type,sitting,k,order,bytes,a_ns\n")
	must(err)
	must(table.Close())
	must(b.duel(&record.DuelRecord{Types: records}))
	want := []string{"a", "vmselect", "duel_role_cpu_us", "1000"} // a second of a thousand queries
	if !slices.ContainsFunc(b.rows["values"], func(row []string) bool { return slices.Equal(row, want) }) {
		t.Error(b.rows["values"])
	}
}

package values

import (
	"encoding/json"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"tsduel/host/record"
	"tsduel/host/scrape"
)

// alone is the files of a variant's solo part. Those that are missing or cut short give no value, never a wrong one.
type alone struct {
	*block
	variant   string
	record    record.SoloRecord
	snapshots []scrape.Snapshot
	edges     map[string]*scrape.Snapshot // the last one at each edge: a phase that was started again has several
}

const begun, loaded, settled, stopping = "load begin", "load end", "settle end", "stop begin"

// solo adds the figures of a variant alone. If loads are in turn, one alone is only in the warm-up block, of other
// data: its sizes are not shown, and in the other blocks there are only sizes.
func (b *block) solo(v record.Variant, of record.SoloRecord) {
	a := alone{block: b, variant: v.Name, record: of, edges: map[string]*scrape.Snapshot{}}
	wanted := maps.Clone(scrape.Kernel)
	maps.Copy(wanted, b.plan.Targets[v.Target].Counters)
	for _, role := range b.roles {
		for name, counter := range scrape.Kernel {
			wanted[name+"@"+role] = scrape.OfComponent(counter, role)
		}
	}
	a.snapshots, _ = scrape.Read(a.file("metrics.prom.gz"), wanted)
	ended := 0.0
	for _, p := range b.Phases {
		if p.Variant == v.Name && p.Part == record.Solo {
			ended = max(ended, p.End)
		}
	}
	// Snapshots of the duel are in the same file.
	a.snapshots = slices.DeleteFunc(a.snapshots, func(s scrape.Snapshot) bool { return s.Epoch > ended })
	for i, s := range a.snapshots {
		if s.Subject == "" {
			a.edges[s.Phase+" "+s.Edge] = &a.snapshots[i]
		}
	}
	inTurn := b.plan.Design.Load == record.InDuel
	if !inTurn || b.Kind == "warmup" {
		a.load()
	}
	if !inTurn {
		a.settle()
		a.whole()
		a.queries()
	}
	if !inTurn || b.Kind != "warmup" {
		a.sizes()
	}
	a.course()
}

func (a *alone) add(metric, subject string, value float64) {
	a.value(a.variant, metric, subject, value)
}

// at is the value of a counter at an edge.
func (a *alone) at(edge, counter string) float64 {
	if a.edges[edge] == nil {
		return math.NaN()
	}
	value, has := a.edges[edge].Values[counter]
	return known(value, has)
}

// grown is by how much a counter has grown between two edges.
func (a *alone) grown(counter, from, to string) float64 {
	return known(scrape.Growth(a.edges[from], a.edges[to], counter))
}

// growths adds the growth of counters since the load began, up to an edge, by metric.
func (a *alone) growths(to string, counters map[string]string) {
	for metric, counter := range counters {
		a.add(metric, "", a.grown(counter, begun, to))
	}
}

// cpu is what a variant's servers have used from the begin of a phase, by the clock of the processes.
func (a *alone) cpu(phase string) float64 {
	ns, has := a.record.CPUNS[phase]
	return known(float64(ns)/1e9, has)
}

func (a *alone) clientCPU(phase, queryType string) float64 {
	if p := a.phase(a.variant, record.Solo, phase, queryType); p != nil {
		return positive(p.ClientUserS + p.ClientSystemS)
	}
	return math.NaN()
}

func (a *alone) load() {
	seconds, rate, _ := loadResults(a.file("load.json"))
	lines := readLoad(a.file("load.csv"))
	if math.IsNaN(rate) {
		seconds, rate = lines.seconds, lines.rate
	}
	a.add("load_rate", "", rate)
	a.add("load_seconds", "", seconds)
	if at := slices.IndexFunc(lines.intervals, func(i interval) bool { return i.total > 0 }); at >= 0 {
		a.add("load_first_interval_rate", "", lines.intervals[at].rate)
	}
	a.add("load_cpu_seconds", "", a.cpu("drained")) // until the end of the drain
	a.add("load_rss_end_bytes", "", a.at(loaded, "rss"))
	a.add("load_rss_peak_bytes", "", a.at(loaded, "rss_peak"))
	a.add("load_client_cpu_seconds", "", a.clientCPU("load", ""))
	a.growths(loaded, map[string]string{"load_cpu_user_seconds": "cpu_user", "load_cpu_system_seconds": "cpu_system",
		"load_io_read_bytes": "io_read", "load_io_written_bytes": "io_written",
		"load_storage_read_bytes": "storage_read", "load_storage_written_bytes": "storage_written"})
	// Work after the last acknowledgement belongs to the load.
	a.growths(settled, map[string]string{"slow_inserts": "slow_inserts"})
}

func (a *alone) settle() {
	for metric, s := range map[string]*float64{"arrival_seconds": a.record.ArriveS, "drain_seconds": a.record.DrainS} {
		if s != nil {
			a.add(metric, "", *s)
		}
	}
	a.growths(settled, map[string]string{"merges": "merges", "rows_merged": "rows_merged",
		"load_cache_misses": "cache_misses"})
	a.add("bytes_per_sample", "", positive(a.at(settled, "bytes_kept"))/a.at(settled, "rows_kept"))
	// All until the end of the drain: samples in an agent's queue reach the other components after the load's end.
	for _, role := range a.roles {
		if ns, has := a.record.CPUNSByRole["drained"][role]; has && a.plan.Workload != nil {
			a.add("load_role_cpu_us", role, float64(ns)/float64(a.plan.Workload.Samples)/1e3)
		}
		a.add("load_role_rss_peak_bytes", role, a.at(settled, "rss_peak@"+role))
		for _, counter := range []string{"io_read", "io_written", "storage_written"} {
			a.add("load_role_"+counter+"_bytes", role, a.grown(counter+"@"+role, begun, settled))
		}
	}
}

func (a *alone) whole() {
	a.growths(stopping, map[string]string{"gc_cpu_seconds": "gc_cpu", "major_faults": "major_faults",
		"storage_written_bytes": "storage_written"})
	a.add("cpu_seconds", "", a.grown("cpu_user", begun, stopping)+a.grown("cpu_system", begun, stopping))
	var resident []float64
	for _, s := range a.snapshots {
		if rss, has := s.Values["rss"]; has && s.Phase == "" {
			resident = append(resident, rss)
		}
	}
	a.add("rss_mean_bytes", "", mean(resident))
	a.add("rss_peak_bytes", "", a.at(stopping, "rss_peak"))
	a.add("start_seconds", "", positive(a.record.StartS))
}

func (a *alone) sizes() {
	if size, has := a.record.Sizes["disk_bytes"]; has {
		a.add("disk_bytes", "", float64(size))
	}
	for _, role := range a.roles {
		if size, has := a.record.SizesByRole["disk_bytes"][role]; has {
			a.add("disk_role_bytes", role, float64(size))
		}
	}
	a.add("stop_seconds", "", positive(a.record.StopS))
}

// queries adds the figures of TSBS's closed loop.
func (a *alone) queries() {
	asked := false
	for _, t := range a.plan.Queries.Types {
		asked = a.query(t.Name) || asked
	}
	if asked {
		requests := a.grown("cache_requests", settled, stopping)
		a.add("cache_hit_ratio", "", 1-a.grown("cache_misses", settled, stopping)/positive(requests))
	}
}

// From so many queries on these percentiles are more than the time of a few of them.
const p99From, p999From = 1_000, 10_000

func (a *alone) query(queryType string) bool {
	var r struct {
		DurationMillis float64
		Totals         struct {
			OverallQueryRates map[string]float64
			OverallQuantiles  map[string]map[string]float64
		}
	}
	text, err := os.ReadFile(a.file("query/" + queryType + ".json"))
	if err != nil || json.Unmarshal(text, &r) != nil || r.Totals.OverallQuantiles["all_queries"] == nil {
		return false
	}
	stats := readQueries(a.file("query/" + queryType + ".stdout"))
	if stats == nil {
		return false
	}
	percentile := func(name string, from float64) float64 {
		value, has := r.Totals.OverallQuantiles["all_queries"][name]
		return known(value, has && stats["count"] >= from)
	}
	for _, of := range []struct {
		metric string
		value  float64
	}{{"rate", r.Totals.OverallQueryRates["all_queries"]}, {"seconds", r.DurationMillis / 1000},
		{"p50_ms", percentile("q50", 0)}, {"p95_ms", percentile("q95", 0)}, {"p99_ms", percentile("q99", p99From)},
		{"p999_ms", percentile("q999", p999From)}, {"mean_ms", preciseMean(stats)}, {"min_ms", stats["min"]},
		{"max_ms", stats["max"]}, {"stddev_ms", stats["stddev"]}, {"count", stats["count"]},
		{"cpu_seconds", a.cpu("query:" + queryType)}, {"client_cpu_seconds", a.clientCPU("query", queryType)}} {
		a.add("query_"+of.metric, queryType, of.value)
	}
	return true
}

// preciseMean is the mean in ms, from TSBS's mean or its sum, whichever has the smaller rounding error: the mean is
// printed to 0.01 ms, which is 3 % of a query of 0.3 ms, the sum to 0.1 s.
func preciseMean(stats map[string]float64) float64 {
	sum, mean := stats["sum"], stats["mean"]
	if sum > 0 && 0.05/sum < 0.005/mean {
		return sum * 1000 / stats["count"]
	}
	return known(mean, stats["count"] > 0)
}

func (a *alone) file(name string) string { return filepath.Join(a.dir, a.variant, name) }

// loadResults reads what a loader has measured: seconds, samples a second, and the seconds of a reporting period.
func loadResults(path string) (seconds, rate, period float64) {
	var r struct {
		DurationMillis float64
		Totals         struct{ MetricRate float64 }
		RunnerConfig   struct {
			Period float64 `json:"reporting-period"`
		}
	}
	text, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(text, &r) != nil || r.Totals.MetricRate == 0 {
		return math.NaN(), math.NaN(), 1
	}
	return r.DurationMillis / 1000, r.Totals.MetricRate, r.RunnerConfig.Period / 1e9
}

// interval is a line of a loader: samples a second in a period, and so far. The clock has whole seconds.
type interval struct{ clock, rate, total float64 }

// loadOutput is what a loader has printed; NaN without its summary.
type loadOutput struct {
	intervals              []interval
	samples, seconds, rate float64
}

var (
	intervalLine = regexp.MustCompile(`^(\d+),([^,]+),([^,]+),[^,]+,[^,]+,[^,]+,[^,]+$`)
	summaryLine  = regexp.MustCompile(`^loaded (\d+) (?:metrics|samples) in ([\d.]+)\s?sec with \d+ workers ` +
		`\(mean rate ([\d.]+) `)
	countLine = regexp.MustCompile(`^Run complete after \d+ queries with \d+ workers`)
	statsLine = regexp.MustCompile(`(min|mean|max|stddev|sum|count):\s*([\d.]+)`)
)

func readLoad(path string) loadOutput {
	text, _ := os.ReadFile(path)
	o := loadOutput{samples: math.NaN(), seconds: math.NaN(), rate: math.NaN()}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\r\n")
		if f := intervalLine.FindStringSubmatch(line); f != nil {
			// Without an acknowledged batch in a period there is a - in place of numbers.
			o.intervals = append(o.intervals, interval{number(f[1]), number(f[2]), number(f[3])})
		} else if f := summaryLine.FindStringSubmatch(line); f != nil {
			o.samples, o.seconds, o.rate = number(f[1]), number(f[2]), number(f[3])
		}
	}
	return o
}

// readQueries reads the last statistics that run_queries has printed, which are of all queries; nil without them.
func readQueries(path string) map[string]float64 {
	text, _ := os.ReadFile(path)
	complete := false
	var last map[string]float64
	for line := range strings.Lines(string(text)) {
		complete = complete || countLine.MatchString(line)
		if strings.HasPrefix(line, "min:") {
			last = map[string]float64{}
			for _, f := range statsLine.FindAllStringSubmatch(line, -1) {
				last[f[1]] = number(f[2])
			}
		}
	}
	if !complete {
		return nil
	}
	return last
}

func number(text string) float64 {
	value, _ := strconv.ParseFloat(text, 64)
	return value
}

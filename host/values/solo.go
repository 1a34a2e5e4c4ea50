package values

import (
	"encoding/json"
	"maps"
	"math"
	"os"
	"slices"
	"strings"

	"tsduel/host/record"
	"tsduel/host/scrape"
)

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
		a.edges[strings.TrimRight(s.Phase+" "+s.Edge+" "+s.Subject, " ")] = &a.snapshots[i]
	}
	inTurn := b.plan.Design.Load == record.InTurn
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

func (a *alone) load() {
	seconds, rate, period := loadResults(a.file("load.json"))
	lines := readLoad(a.file("load.csv"))
	if math.IsNaN(rate) {
		seconds, rate = lines.seconds, lines.rate
	}
	a.add("load_rate", "", rate)
	a.add("load_seconds", "", seconds)
	if rate, has := lines.firstSecond(period); has {
		a.add("load_first_interval_rate", "", rate)
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
	asked, requests, misses := false, 0.0, 0.0
	for _, t := range a.plan.Queries.Types {
		if a.query(t.Name) {
			begin, end := "query begin "+t.Name, "query end "+t.Name
			requests += a.grown("cache_requests", begin, end)
			misses += a.grown("cache_misses", begin, end)
			asked = true
		}
	}
	if asked {
		a.add("cache_hit_ratio", "", 1-misses/positive(requests))
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

package values

import (
	"compress/gzip"
	"encoding/csv"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"tsduel/host/record"
)

// exchanges are those of a query type ("" if the file has no such column): ns by sitting and variant.
type exchanges struct {
	queryType string
	ns        map[int]map[string][]float64
}

// readExchanges reads an exchanges.csv.gz. Columns of variants that failed are ignored, and exchanges that not all of
// the others answered, or that were the first of a turn.
func (b *block) readExchanges(name string) (all []*exchanges, err error) {
	path := filepath.Join(b.dir, name)
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var rows [][]string
	text, err := gzip.NewReader(file)
	if err == nil {
		rows, err = csv.NewReader(text).ReadAll()
	}
	if err != nil || len(rows) == 0 {
		return nil, fmt.Errorf("reading %s: %v", path, err)
	}
	field := func(row []string, name string) string {
		if at := slices.Index(rows[0], name); at >= 0 {
			return row[at]
		}
		return ""
	}
	of := map[string]*exchanges{}
	for _, row := range rows[1:] {
		queryType := field(row, "query_type")
		if of[queryType] == nil {
			of[queryType] = &exchanges{queryType, map[int]map[string][]float64{}}
			all = append(all, of[queryType])
		}
		sitting, _ := strconv.Atoi(field(row, "sitting"))
		ns := of[queryType].ns[sitting]
		if ns == nil {
			ns = map[string][]float64{}
			of[queryType].ns[sitting] = ns
		}
		if field(row, "first") == "true" {
			continue
		}
		answered := func(name string) bool { return number(field(row, name+"_ns")) > 0 }
		if !slices.ContainsFunc(b.alive, func(name string) bool { return !answered(name) }) {
			for _, name := range b.alive {
				ns[name] = append(ns[name], number(field(row, name+"_ns")))
			}
		}
	}
	return all, nil
}

// pooled are the times of a variant in all sittings together.
func (e *exchanges) pooled(variant string) (all []float64) {
	for _, sitting := range slices.Sorted(maps.Keys(e.ns)) {
		all = append(all, e.ns[sitting][variant]...)
	}
	return all
}

// estimated adds a value of each variant's times in all sittings together, and the ratio of each sitting.
func (b *block) estimated(metric, subject string, e *exchanges, value func([]float64) float64,
	ratio func(baseline, candidate []float64) estimate) {
	n := len(e.pooled(b.baseline()))
	for _, name := range b.alive {
		if times := e.pooled(name); len(times) > 0 {
			b.value(name, metric, subject, value(times)/1e6)
		}
	}
	for _, name := range b.candidates() {
		ratios := map[int]estimate{}
		for sitting, by := range e.ns {
			if len(by[b.baseline()]) > 0 {
				ratios[sitting] = ratio(by[b.baseline()], by[name])
			}
		}
		b.pair(name, metric, subject, ratios, int64(n))
	}
}

func (b *block) typical(metric, subject string, e *exchanges) {
	b.estimated(metric, subject, e, func(times []float64) float64 { return trimmed(times).ratio }, typical)
}

// times adds all figures of the service times of a query type.
func (b *block) times(e *exchanges) {
	b.typical("duel_typical_ms", e.queryType, e)
	b.estimated("duel_total_ms", e.queryType, e, mean, total)
	ordered := exchanges{e.queryType, map[int]map[string][]float64{0: {}}}
	for _, name := range b.alive {
		ordered.ns[0][name] = slices.Sorted(slices.Values(e.pooled(name)))
		if times := ordered.ns[0][name]; len(times) > 0 {
			b.value(name, "duel_min_ms", e.queryType, times[0]/1e6)
			b.value(name, "duel_max_ms", e.queryType, times[len(times)-1]/1e6)
			b.value(name, "duel_stddev_ms", e.queryType, deviation(times, 0)/1e6)
		}
	}
	for _, p := range []float64{50, 95, 99} {
		at := func(times []float64) float64 { return quantile(times, p/100) }
		// Of all sittings together, since a percentile of few exchanges says little.
		b.estimated(fmt.Sprintf("duel_p%.0f_ms", p), e.queryType, &ordered, at, func(baseline, candidate []float64) estimate {
			return estimate{math.Log(at(candidate) / at(baseline)), math.NaN()}
		})
	}
}

// byType calls do with the records of each query type, and with all of them; the mix, if there is one, has all queries.
func byType(records []record.DuelType, do func(subject string, own []record.DuelType)) {
	of := map[string][]record.DuelType{}
	for _, r := range records {
		of[r.QueryType] = append(of[r.QueryType], r)
	}
	for _, name := range slices.Sorted(maps.Keys(of)) {
		do(name, of[name])
	}
	do(every, forAll(records))
}

// forAll are the records that stand for all types: those of the mix, if there is one.
func forAll(records []record.DuelType) []record.DuelType {
	ofMix := slices.DeleteFunc(slices.Clone(records), func(r record.DuelType) bool { return r.QueryType != mix })
	if len(ofMix) > 0 {
		return ofMix
	}
	return records
}

// counted are the metrics of the database's own counters, how these are called, and their unit.
var counted = []struct {
	metric, counter string
	scale           float64
}{
	{"duel_rows_read", "rows_read", 1}, {"duel_index_searches", "index_searches", 1},
	{"duel_cache_requests", "cache_requests", 1}, {"duel_cache_misses", "cache_misses", 1},
	{"duel_gc_cpu_us", "gc_cpu", 1e-6}, {"duel_gc_runs", "gc_runs", 1e-3},
	{"duel_objects", "objects", 1}, {"duel_object_bytes", "object_bytes", 1},
	{"duel_read_calls", "read_calls", 1}, {"duel_write_calls", "write_calls", 1},
	{"duel_read_bytes", "read_bytes", 1}, {"duel_written_bytes", "written_bytes", 1},
	{"duel_context_switches", "context_switches", 1}, {"duel_throttled_us", "throttled_us", 1},
}

// loadCounted are the same for samples that were loaded in turn.
var loadCounted = []struct {
	metric, counter string
	scale           float64
}{
	{"duel_load_objects", "objects", 1e-3}, {"duel_load_object_bytes", "object_bytes", 1},
	{"duel_load_write_calls", "write_calls", 1e-3}, {"duel_load_written_bytes", "written_bytes", 1},
	{"duel_load_context_switches", "context_switches", 1e-3}, {"duel_load_throttled_us", "throttled_us", 1},
}

// duel adds the figures of a block's duel.
func (b *block) duel(d *record.DuelRecord) error {
	all, err := b.readExchanges("duel/exchanges.csv.gz")
	if err != nil {
		return err
	}
	for _, of := range all {
		b.times(of)
	}
	for _, metric := range []string{"duel_typical_ms", "duel_total_ms"} {
		for _, name := range b.candidates() {
			b.pair(name, metric, geomean, together(b.bySitting[[2]string{name, metric}]), 0)
		}
	}
	byType(d.Types, func(subject string, own []record.DuelType) { b.ofType(d, subject, own) })
	for _, role := range b.roles {
		cpu := clocks(forAll(d.Types), func(t record.DuelType) clock {
			return clock{t.Sitting, int64(t.Exchanges), only(t.CPUNSByRole, role)}
		})
		b.perOperation("duel_role_cpu_us", role, cpu, 1e3)
		if len(d.Counters) > 0 {
			objects := clock{moved: only(d.ObjectsByRole, role)}
			for _, t := range d.Types {
				objects.operations += int64(t.Exchanges)
			}
			b.perOperation("duel_role_objects", role, []clock{objects}, 1)
		}
		b.perOperation("duel_role_rss_bytes", role, []clock{{0, 1, only(d.RSSByRole, role)}}, 1)
	}
	idle, seconds := clock{}, 0.0
	for _, i := range d.Idle {
		seconds += i.Seconds
		idle.add(clock{moved: floats(i.CPUNS)})
	}
	b.each("duel_idle_cpu_ms", "", idle.moved, seconds*1e6)
	b.each("duel_rss_bytes", "", floats(d.RSSBytes), 1)
	b.each("duel_go_cpus", "", d.GoCPUs, 1)
	if len(d.Load) > 0 {
		return b.loadedInTurn(d)
	}
	return nil
}

func clocks[R any](records []R, of func(R) clock) (all []clock) {
	for _, r := range records {
		all = append(all, of(r))
	}
	return all
}

// ofType adds what clocks and counters say of one query type, or of all.
func (b *block) ofType(d *record.DuelRecord, subject string, own []record.DuelType) {
	add := func(metric string, scale float64, moved func(record.DuelType) map[string]float64) {
		b.perOperation(metric, subject, clocks(own, func(t record.DuelType) clock {
			return clock{t.Sitting, int64(t.Exchanges), moved(t)}
		}), scale)
	}
	add("duel_cpu_us", 1e3, func(t record.DuelType) map[string]float64 { return floats(t.CPUNS) })
	add("duel_instructions", 1, func(t record.DuelType) map[string]float64 { return floats(t.Instructions) })
	counting := slices.DeleteFunc(slices.Clone(own), func(t record.DuelType) bool { return len(t.Counters) == 0 })
	together, turns := clock{}, 0
	for _, t := range d.Types {
		together.operations += int64(t.Exchanges)
	}
	var seconds, turnS, client float64
	for _, t := range own {
		turns += t.Turns
		seconds, turnS, client = seconds+t.Seconds, turnS+t.TurnS, client+float64(t.ClientCPUNS)
	}
	for _, c := range counted {
		if subject == every && len(d.Counters) > 0 {
			together.moved = only(d.Counters, c.counter)
			b.perOperation(c.metric, subject, []clock{together}, c.scale)
		} else {
			b.perOperation(c.metric, subject, clocks(counting, func(t record.DuelType) clock {
				return clock{t.Sitting, int64(t.Exchanges), only(t.Counters, c.counter)}
			}), c.scale)
		}
	}
	if subject != every && len(counting) > 0 {
		shares := clock{}
		for _, t := range counting {
			shares.add(clock{moved: only(t.Counters, record.TakenOff)})
		}
		b.each("duel_taken_off_ratio", subject, shares.moved, float64(len(counting)))
	}
	for _, name := range b.alive { // the same for all variants
		if turns > 0 {
			b.value(name, "duel_turn_us", subject, turnS/(float64(turns)/1e6))
			b.value(name, "duel_turns_ratio", subject, turnS/seconds)
		}
		if subject != every {
			// One client sends the queries to all variants: each variant has the same share of its CPU.
			b.value(name, "duel_client_cpu_ratio", subject, client/(seconds*1e9))
		}
	}
}

// only is by variant the figure of one counter or role.
func only[N int64 | float64](figures map[string]map[string]N, name string) map[string]float64 {
	all := map[string]float64{}
	for variant, by := range figures {
		if value, has := by[name]; has {
			all[variant] = float64(value)
		}
	}
	return all
}

// loadedInTurn adds the figures of batches sent to each variant in turn.
func (b *block) loadedInTurn(d *record.DuelRecord) error {
	load := d.Load
	batches, err := b.readExchanges("duel/load.csv.gz")
	if err != nil {
		return err
	}
	for _, of := range batches { // none if a variant did not even accept a connection
		b.typical("duel_load_typical_ms", "", of)
	}
	add := func(metric, role string, moved func(record.DuelLoad) map[string]float64) {
		b.perOperation(metric, role, clocks(load, func(part record.DuelLoad) clock {
			return clock{part.Sitting, part.Samples, moved(part)}
		}), 1e3)
	}
	add("duel_load_cpu_us", "", func(part record.DuelLoad) map[string]float64 { return floats(part.DrainedCPUNS) })
	add("duel_load_acknowledged_cpu_us", "", func(part record.DuelLoad) map[string]float64 { return floats(part.CPUNS) })
	for _, c := range loadCounted {
		b.perOperation(c.metric, "", clocks(load, func(part record.DuelLoad) clock {
			return clock{part.Sitting, part.Samples, only(part.Counters, c.counter)}
		}), c.scale)
	}
	for _, role := range b.roles {
		own := func(part record.DuelLoad) map[string]float64 { return only(part.CPUNSByRole, role) }
		add("duel_load_role_cpu_us", role, own)
	}
	for _, name := range b.alive {
		peak, known := 0.0, true
		for _, part := range load {
			now, has := part.RSSPeakBytes[name]
			peak, known = max(peak, float64(now)), known && has
		}
		if _, alone := b.whole[[2]string{name, "rss_peak_bytes"}]; known && !alone {
			b.value(name, "rss_peak_bytes", "", peak)
		}
	}
	return nil
}

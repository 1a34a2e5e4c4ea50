package values

import (
	"math"
	"path/filepath"

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

func (a *alone) file(name string) string { return filepath.Join(a.dir, a.variant, name) }

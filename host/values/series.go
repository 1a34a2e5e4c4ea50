package values

import (
	"fmt"
	"math"
	"strconv"

	"tsduel/host/record"
	"tsduel/host/scrape"
)

const (
	tailFrom = 0.5 // of a reporting period: a shorter last interval is one with that before it
	leastS   = 0.4 // the kernel counts CPU in steps of 10 ms: over a shorter time a rate is mostly rounding error
)

// course adds the rate of the load over time, and the course of the server in the whole solo part: in seconds since the
// load began, up to the begin of the stop.
func (a *alone) course() {
	_, _, period := loadResults(a.file("load.json"))
	for _, at := range readLoad(a.file("load.csv")).curve(period) {
		a.point("load", at[0], "load_rate", at[1])
	}
	load, stop := a.phase(a.variant, record.Solo, "load", ""), a.phase(a.variant, record.Solo, "stop", "")
	if load == nil {
		return
	}
	var first, before *scrape.Snapshot
	// Edges are used as well as ticks, since a short query phase has no tick.
	for i := range a.snapshots {
		s := &a.snapshots[i]
		// The host reads the edge of a begin just before the phase's clock starts.
		if s.Epoch < load.Begin && (s.Phase != "load" || s.Edge != "begin") || stop != nil && s.Epoch > stop.Begin {
			continue
		}
		if first == nil {
			first, before = s, s
		}
		elapsed := max(0, s.Epoch-load.Begin)
		for _, of := range [][2]string{{"rss_bytes", "rss"}, {"data_size_bytes", "bytes_kept"}} {
			if value, has := s.Values[of[1]]; has {
				a.point(record.Solo, elapsed, of[0], value)
			}
		}
		written, has := s.Values["storage_written"]
		if since, had := first.Values["storage_written"]; has && had {
			a.point(record.Solo, elapsed, "storage_written_bytes", written-since)
		}
		if cores := (cpuOf(s) - cpuOf(before)) / (s.Epoch - before.Epoch); s.Epoch-before.Epoch >= leastS &&
			!math.IsNaN(cores) {
			a.point(record.Solo, elapsed, "cpu_cores", cores)
			before = s
		}
	}
}

func (a *alone) point(phase string, elapsed float64, metric string, value float64) {
	a.row("timeseries", a.variant, record.Solo, phase, "", fmt.Sprintf("%.3f", elapsed), metric,
		strconv.FormatFloat(value, 'g', 7, 64))
}

func cpuOf(s *scrape.Snapshot) float64 {
	user, has := s.Values["cpu_user"]
	system, both := s.Values["cpu_system"]
	return known(user+system, has && both)
}

// curve is the rate of a load over time: seconds since it began, samples a second in the interval that ended then. TSBS
// never prints its last, partial interval, so the last point is the summary minus the last line.
func (o loadOutput) curve(period float64) (curve [][2]float64) {
	at := 0.0
	for _, i := range o.intervals {
		// The count of periods is exact unless the loader was too busy and left one out.
		at += period
		if clock := i.clock - o.intervals[0].clock + period; clock > at+1 {
			at = clock
		}
		curve = append(curve, [2]float64{at, i.rate})
	}
	totals := []float64{0, 0}
	for _, i := range o.intervals {
		totals = append(totals, max(totals[len(totals)-1], i.total)) // a line without numbers has none
	}
	n := len(curve)
	switch left := o.seconds - at; {
	case !(left > 0): // killed: it has no summary
	case left >= tailFrom*period || n == 0:
		curve = append(curve, [2]float64{o.seconds, max(o.samples-totals[n+1], 0) / left})
	default: // too short for a rate of its own
		since := append([][2]float64{{}}, curve...)[n-1][0]
		curve[n-1] = [2]float64{o.seconds, max(o.samples-totals[n], 0) / (o.seconds - since)}
	}
	return curve
}

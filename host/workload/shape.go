package workload

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"tsduel/host/record"
)

// Shape is data made from a seed, of the kind that agents send (workload.shape): each of `targets` is scraped
// every interval. Times are in seconds since the epoch; the window is [Start, End).
type Shape struct {
	Format      string  `json:"format"` // exposition or influx
	Targets     int     `json:"targets"`
	Start       int64   `json:"start"`
	End         int64   `json:"end"`
	IntervalS   int64   `json:"interval_s"`
	Seed        uint64  `json:"seed"`
	Gauges      int     `json:"gauges"` // of a target, as the next two
	Counters    int     `json:"counters"`
	Histograms  int     `json:"histograms"` // of twelve buckets, a sum and a count each
	Labels      int     `json:"labels"`     // beside job, instance and pod
	ValueLength int     `json:"value_length"`
	EscapedPct  float64 `json:"escaped_pct"` // of the values of labels: they need escaping
	ChurnPct    float64 `json:"churn_pct"`   // of the targets get another pod every ChurnEveryS
	ChurnEveryS float64 `json:"churn_every_s"`

	pods []pod // of each target
}

// pod is a target's, after so many turns of churn.
type pod struct{ turns, generation uint64 }

// bounds are of client_golang's default histogram.
var bounds = []string{"0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1", "2.5", "5", "10", "+Inf"}

// MakeShape makes data of a shape, given as JSON, and puts them into the cache as ReadDump does with a file.
func MakeShape(ctx context.Context, shape, cache string) (*Dump, error) {
	var s Shape
	if err := json.Unmarshal([]byte(shape), &s); err != nil {
		return nil, err
	}
	text, to := io.Pipe()
	defer text.Close() // also ends the writer
	go record.Caught(func() { to.CloseWithError(s.Write(to)) })()
	return newReader("workload.shape").keep(ctx, text, cache)
}

// Write writes the lines in order of time. The same shape always gives the same bytes.
func (s *Shape) Write(to io.Writer) error {
	s.pods = make([]pod, s.Targets)
	w := bufio.NewWriterSize(to, 1<<20)
	for at := s.Start; at < s.End; at += s.IntervalS {
		for target := range s.Targets {
			if err := s.scrape(w, target, at); err != nil {
				return err
			}
		}
	}
	return w.Flush()
}

// scrape writes all samples of a target at a time.
func (s *Shape) scrape(w *bufio.Writer, target int, at int64) error {
	step := uint64(at-s.Start) / uint64(s.IntervalS)
	labels := s.labels(target, at)
	quote := `"`
	if s.Format == "influx" {
		quote = ""
	}
	line := func(metric string, value float64, le string) {
		tags, number := labels, strconv.FormatFloat(value, 'f', -1, 64)
		if le != "" {
			tags += ",le=" + quote + le + quote
		}
		if s.Format == "influx" {
			fmt.Fprintf(w, "%s,%s value=%s %d\n", metric, tags, number, at*int64(time.Second))
		} else {
			fmt.Fprintf(w, "%s{%s} %s %d\n", metric, tags, number, at*1000)
		}
	}
	for i := range s.Gauges {
		noise := float64(s.drawn(1, uint64(i), uint64(target), step)%10_000) / 100
		line(fmt.Sprintf("shape_gauge_%d", i), noise, "")
	}
	for i := range s.Counters {
		line(fmt.Sprintf("shape_counter_%d_total", i), s.count(2, i, target, step), "")
	}
	for i := range s.Histograms {
		name, count := fmt.Sprintf("shape_seconds_%d", i), s.count(3, i, target, step)
		for b, bound := range bounds {
			below := math.Floor(count * float64(b+1) / float64(len(bounds)))
			line(name+"_bucket", below, bound)
		}
		line(name+"_sum", count*1.5, "")
		line(name+"_count", count, "")
	}
	_, err := w.Write(nil) // a bufio.Writer keeps its first error
	return err
}

// labels writes those of a target at a time. After a churn it has another pod.
func (s *Shape) labels(target int, at int64) string {
	pod := &s.pods[target]
	for ; s.ChurnEveryS > 0 && pod.turns < uint64(float64(at-s.Start)/s.ChurnEveryS); pod.turns++ {
		if float64(s.drawn(4, pod.turns, uint64(target))%10_000) < s.ChurnPct*100 {
			pod.generation++
		}
	}
	pairs := []string{"job", "shape", "instance", fmt.Sprintf("host_%d:9100", target), "pod",
		fmt.Sprintf("app-%d-%d", target, pod.generation)}
	for i := range s.Labels {
		pairs = append(pairs, fmt.Sprintf("label_%d", i), s.value(target, i))
	}
	quote, escape := `"`, strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
	if s.Format == "influx" {
		quote, escape = "", strings.NewReplacer(`\`, `\\`, ",", `\,`, "=", `\=`, " ", `\ `)
	}
	var text strings.Builder
	for i := 0; i < len(pairs); i += 2 {
		if i > 0 {
			text.WriteByte(',')
		}
		text.WriteString(pairs[i] + "=" + quote + escape.Replace(pairs[i+1]) + quote)
	}
	return text.String()
}

// value is the value of a label: letters, of which some are replaced where it needs escaping.
func (s *Shape) value(target, label int) string {
	const letters = "abcdefghijklmnopqrstuvwxyz012345"
	value := make([]byte, s.ValueLength)
	for i := range value {
		value[i] = letters[s.drawn(5, uint64(target), uint64(label), uint64(i))%uint64(len(letters))]
	}
	if float64(s.drawn(6, uint64(target), uint64(label))%10_000) < s.EscapedPct*100 {
		special := `"\`
		if s.Format == "influx" {
			special = ` ,=`
		}
		for i := 1; i < len(value)-1; i += 4 {
			value[i] = special[i/4%len(special)]
		}
	}
	return string(value)
}

// count is a counter that never falls: a rate of its own, and some chance in each step.
func (s *Shape) count(kind uint64, metric, target int, step uint64) float64 {
	rate := 20 + s.drawn(kind, uint64(metric), uint64(target))%1000
	return float64(step*rate + s.drawn(kind, uint64(metric), uint64(target), step)%20)
}

// drawn is a number that depends on the seed and on what it is for (SplitMix64, Steele et al. 2014).
func (s *Shape) drawn(of ...uint64) uint64 {
	x := s.Seed
	for _, one := range of {
		x += 0x9e3779b97f4a7c15 + one
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		x ^= x >> 31
	}
	return x
}

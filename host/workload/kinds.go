package workload

import (
	"bytes"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"tsduel/host/record"
)

// change changes the series, the fields or the time (ns since the epoch) of a line of Influx's line protocol.
type change func(series, fields []byte, ns int64) ([]byte, []byte, int64)

// changesOf returns the changes of a plan's lines. TSBS's own data is regular: a sample of every series at
// every step, and values that walk by small steps. Changes keep the numbers of lines, series and fields:
//
//   - irregular: each line is later by a random number of milliseconds below one interval. Lines of a series
//     keep their order, and stay in the window; gaps between samples are between 0 and two intervals.
//   - high-variance: the logarithm of each value is uniform from 0.001 to 1000, with four significant digits.
//   - churn: see churned. Only the data behind the loaded window has it.
//
// Random numbers depend on workload.seed and the client's group: the same plan gives the same bytes.
func changesOf(j *job) (changes []change) {
	plan := j.plan.Workload
	draw := rand.New(rand.NewPCG(uint64(plan.Seed), 0))
	switch plan.DataKind {
	case "irregular":
		interval := max(1, record.Seconds(plan.IntervalS).Milliseconds())
		changes = append(changes, func(series, fields []byte, ns int64) ([]byte, []byte, int64) {
			return series, fields, ns + draw.Int64N(interval)*1e6
		})
	case "high-variance":
		changes = append(changes, func(series, fields []byte, ns int64) (_, spread []byte, _ int64) {
			for field := range bytes.SplitSeq(fields, []byte{','}) {
				name, _, _ := bytes.Cut(field, []byte{'='})
				spread = append(append(append(spread, ','), name...), '=')
				spread = strconv.AppendFloat(spread, math.Pow(10, 6*draw.Float64()-3), 'g', 4, 64)
			}
			return series, spread[1:], ns
		})
	}
	if j.behind == "mixed" && plan.Churn != nil {
		changes = append(changes, churned(*plan.Churn, j.start.UnixNano()))
	}
	return changes
}

// churned renames hosts. In step e of the rule, counted from start (ns since the epoch), host h has the name
// of its generation floor(e x share + frac(h x golden ratio)); generation 0 has the host's own name. So each
// step replaces the rule's share of the hosts, spread over all of them, and the same hosts in every file.
func churned(rule record.Churn, start int64) change {
	tag := []byte("hostname=host_")
	return func(series, fields []byte, ns int64) ([]byte, []byte, int64) {
		_, tail, _ := bytes.Cut(series, tag)
		digits, _, _ := bytes.Cut(tail, []byte{','})
		host, err := strconv.Atoi(string(digits))
		step := math.Floor(float64(ns-start) / 1e9 / rule.EveryS)
		_, phase := math.Modf(float64(host) * math.Phi)
		if generation := int64(math.Floor(step*rule.Pct/100 + phase)); err == nil && generation > 0 {
			name := strconv.AppendInt([]byte{'-'}, generation, 10)
			series = slices.Insert(slices.Clone(series), len(series)-len(tail)+len(digits), name...)
		}
		return series, fields, ns
	}
}

// lineWriter changes lines on their way to a writer. Other text, as an error of the generator, stays.
type lineWriter struct {
	to        io.Writer
	changes   []change
	rest, out []byte
}

func (w *lineWriter) Write(text []byte) (int, error) {
	if len(w.changes) == 0 {
		return w.to.Write(text)
	}
	w.rest, w.out = append(w.rest, text...), w.out[:0]
	whole := bytes.LastIndexByte(w.rest, '\n') + 1
	for line := range bytes.Lines(w.rest[:whole]) {
		first, last := bytes.IndexByte(line, ' '), bytes.LastIndexByte(line, ' ')
		ns, err := strconv.ParseInt(string(line[last+1:len(line)-1]), 10, 64)
		if err != nil || first == last {
			w.out = append(w.out, line...)
			continue
		}
		series, fields := line[:first], line[first+1:last]
		for _, change := range w.changes {
			series, fields, ns = change(series, fields, ns)
		}
		w.out = append(append(append(append(w.out, series...), ' '), fields...), ' ')
		w.out = append(strconv.AppendInt(w.out, ns, 10), '\n')
	}
	w.rest = append(w.rest[:0], w.rest[whole:]...)
	_, err := w.to.Write(w.out)
	return len(text), err
}

// flush writes the rest, which has no newline.
func (w *lineWriter) flush() error {
	_, err := w.to.Write(w.rest)
	return err
}

package workload

import (
	"bytes"
	"io"
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"tsduel/host/record"
)

// What TSBS makes is regular: a sample of every series at every step, of values that walk by small steps. Of the other kinds its lines
// are changed as they are written, series, lines and fields staying as many as they are:
//
//   - irregular: each line comes later by a time that is drawn evenly from the milliseconds of one interval. No two lines of a series
//     change places, and none leaves the window, so the gaps between two samples are anything from nothing to two intervals.
//   - high-variance: every value is drawn by itself, evenly in its logarithm from 0.001 to 1000, with four significant digits. So the
//     sample before says nothing of the next one.
//
// Drawn from workload.seed, and the number of a client's group: the same plan gives the same bytes.

// ofKind returns what the generator writes to, and what has to be called after its last byte.
func ofKind(plan *record.WorkloadPlan, group int, to io.Writer) (io.Writer, func() error) {
	k := &kind{to: to, draw: rand.New(rand.NewPCG(uint64(plan.Seed), uint64(group)))}
	switch plan.DataKind {
	case "irregular":
		k.change = k.later(record.Seconds(plan.IntervalS))
	case "high-variance":
		k.change = k.spread
	default:
		return to, func() error { return nil }
	}
	return k, k.flush
}

// kind changes the lines of Influx's protocol on their way.
type kind struct {
	to        io.Writer
	draw      *rand.Rand
	change    func(into, fields, stamp []byte) []byte // appends both, changed, with the space between them
	rest, out []byte
}

func (k *kind) Write(text []byte) (int, error) {
	k.rest, k.out = append(k.rest, text...), k.out[:0]
	for {
		end := bytes.IndexByte(k.rest, '\n')
		if end < 0 {
			break
		}
		k.out, k.rest = k.line(k.out, k.rest[:end+1]), k.rest[end+1:]
	}
	k.rest = append([]byte(nil), k.rest...)
	_, err := k.to.Write(k.out)
	return len(text), err
}

// flush writes what has no end, as the generator left it.
func (k *kind) flush() error {
	_, err := k.to.Write(k.rest)
	return err
}

// line appends a line: series, fields and time with a space between each. One that is none, as an error of the generator, is left alone.
func (k *kind) line(into, line []byte) []byte {
	first, last := bytes.IndexByte(line, ' '), bytes.LastIndexByte(line, ' ')
	if first < 0 || last == first {
		return append(into, line...)
	}
	stamp := bytes.TrimSuffix(line[last+1:], []byte{'\n'})
	if _, err := strconv.ParseInt(string(stamp), 10, 64); err != nil {
		return append(into, line...)
	}
	return append(k.change(append(into, line[:first+1]...), line[first+1:last], stamp), '\n')
}

func (k *kind) later(interval time.Duration) func(into, fields, stamp []byte) []byte {
	return func(into, fields, stamp []byte) []byte {
		ns, _ := strconv.ParseInt(string(stamp), 10, 64)
		ns += k.draw.Int64N(max(1, interval.Milliseconds())) * int64(time.Millisecond)
		return strconv.AppendInt(append(append(into, fields...), ' '), ns, 10)
	}
}

func (k *kind) spread(into, fields, stamp []byte) []byte {
	for i, field := range bytes.Split(fields, []byte{','}) {
		if i > 0 {
			into = append(into, ',')
		}
		name, _, _ := bytes.Cut(field, []byte{'='})
		into = strconv.AppendFloat(append(append(into, name...), '='), math.Pow(10, 6*k.draw.Float64()-3), 'g', 4, 64)
	}
	return append(append(into, ' '), stamp...)
}

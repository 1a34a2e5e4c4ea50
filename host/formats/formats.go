// Package formats knows lines of data that TSBS does not make: of Influx, of Prometheus' text or OpenMetrics, and
// of VictoriaMetrics' export in JSON. The database's own parsers read them.
package formats

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"iter"
	"math"
	"strconv"
	"strings"
	"unsafe"

	"github.com/VictoriaMetrics/VictoriaMetrics/lib/protoparser/influx"
	"github.com/VictoriaMetrics/VictoriaMetrics/lib/protoparser/prometheus"
	"github.com/VictoriaMetrics/VictoriaMetrics/lib/protoparser/vmimport"

	"tsduel/host/exchange"
)

// Sink counts the samples of lines. Numberless are values like NaN and null, which no database keeps; Escaped are
// lines that TSBS's loader cannot send: it counts spaces and commas of Influx's lines, and knows no escapes.
//
// Precisions has a bit for each unit that a time of Influx's lines is in.
type Sink struct {
	Samples, Numberless, Escaped int64
	Precisions                   Precision

	Each func(*Sample) error // nil: it only counts
}

// Precision is a set of units of Influx's times.
type Precision uint8

// The units, as InfluxDB names them in ?precision=.
const (
	Nanoseconds Precision = 1 << iota
	Microseconds
	Milliseconds
	Seconds
)

// Names are those of all units in the set.
func (p Precision) Names() (names []string) {
	for i, name := range []string{"ns", "u", "ms", "s"} {
		if p&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// Sample is one sample; nothing of it is valid beyond the call that gets it.
type Sample struct {
	Series uint64 // a hash
	MS     int64  // since the epoch
	Metric string
	Field  string // of Influx; the series' name is METRIC_FIELD then
	Labels iter.Seq2[string, string]
}

// Parser reads a line.
type Parser func(to *Sink, line []byte) error

// ErrUntimed says that a line has no time.
var ErrUntimed = errors.New("it has no timestamp, or one before 1970")

var seed = maphash.MakeSeed()

// Of returns the parser of a format: influx, exposition or json.
func Of(format string) (Parser, error) {
	switch format {
	case "influx", "victoriametrics": // TSBS's name of the lines that it writes for VictoriaMetrics
		return influxed(), nil
	case "exposition":
		return exposed(), nil
	case "json":
		return exported(), nil
	}
	return nil, fmt.Errorf("this tsduel reads no lines of the format %q", format)
}

// FormatOf tells the format by a line, "" if it is of none.
func FormatOf(line []byte) string {
	if line[0] == '{' && bytes.Contains(line, []byte(`"metric"`)) {
		return "json"
	}
	for _, format := range []string{"influx", "exposition"} {
		parse, _ := Of(format)
		untimed := func(s *Sample) error { return s.timed() }
		if err := parse(&Sink{Each: untimed}, line); err == nil || errors.Is(err, ErrUntimed) {
			return format
		}
	}
	return ""
}

// NoData says that a line holds no data: comments, and what `influx -import` runs before it reads data.
func NoData(line []byte) bool {
	if len(line) == 0 || line[0] == '#' {
		return true
	}
	if c := line[0] | 0x20; c != 'a' && c != 'c' && c != 'd' {
		return false
	}
	first, rest, _ := bytes.Cut(line[:min(len(line), len("CREATE RETENTION POLICY"))], []byte{' '})
	if len(first) > len("CREATE") {
		return false
	}
	switch second, _, _ := bytes.Cut(rest, []byte{' '}); strings.ToUpper(string(second)) {
	case "DATABASE", "RETENTION", "USER", "CONTINUOUS", "MEASUREMENT", "SERIES":
		word := strings.ToUpper(string(first))
		return word == "CREATE" || word == "DROP" || word == "ALTER"
	}
	return false
}

// InString says that a line ends within a string of Influx, which VictoriaMetrics' parser and ours do not read on.
func InString(line []byte) bool {
	quotes := 0
	for i, c := range line {
		if c == '"' && (i == 0 || line[i-1] != '\\') {
			quotes++
		}
	}
	return quotes%2 == 1
}

// Count counts the samples of the first lines of a file; of all if there are fewer.
func Count(path, format string, lines int64) (int64, error) {
	parse, err := Of(format)
	if err != nil {
		return 0, err
	}
	source, err := exchange.OpenBatches(path, "", 1)
	if err != nil {
		return 0, err
	}
	defer source.Close()
	var sink Sink
	for range lines {
		line, err := source.Next()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return 0, err
		}
		if err := parse(&sink, bytes.TrimSuffix(line.Body, []byte{'\n'})); err != nil {
			return 0, err
		}
	}
	return sink.Samples, nil
}

func (s *Sample) timed() error {
	if s.MS <= 0 {
		return ErrUntimed
	}
	return nil
}

func (to *Sink) add(s *Sample) error {
	to.Samples++
	if to.Each == nil {
		return nil
	}
	if err := s.timed(); err != nil {
		return err
	}
	return to.Each(s)
}

// textOf shares the bytes, which the parsers do not keep beyond a line.
func textOf(line []byte) string { return unsafe.String(unsafe.SliceData(line), len(line)) }

func influxed() Parser {
	var rows influx.Rows
	// Lines of a series that the database's parser has read need only a look at their numbers.
	var read [1 << 16]uint64
	return func(to *Sink, line []byte) error {
		end, isPlain := plain(line)
		series := maphash.Bytes(seed, line[:end])
		known := &read[series%uint64(len(read))]
		if isPlain && *known == series {
			if done, err := numbers(to, line, end, series); done {
				return err
			}
		}
		if !isPlain {
			to.Escaped++
		}
		if err := rows.Unmarshal(textOf(line), false); err != nil {
			return err
		}
		if len(rows.Rows) != 1 {
			return errors.New("no measurement with fields")
		}
		row := &rows.Rows[0]
		s := Sample{MS: to.influxMS(row.Timestamp), Metric: row.Measurement, Labels: labels(row.Tags,
			func(tag *influx.Tag) (key, value string) { return tag.Key, tag.Value })}
		for _, field := range row.Fields {
			if math.IsNaN(field.Value) {
				to.Numberless++
				continue
			}
			s.Field, s.Series = field.Key, series^maphash.String(seed, field.Key)
			if err := to.add(&s); err != nil {
				return err
			}
		}
		*known = series
		return nil
	}
}

// plain says where a line's series ends, and whether it is SERIES FIELDS TIME without escapes and strings.
func plain(line []byte) (end int, is bool) {
	if bytes.IndexByte(line, '\\') < 0 && bytes.IndexByte(line, '"') < 0 {
		end = max(0, bytes.IndexByte(line, ' '))
		return end, bytes.Count(line[end:], []byte{' '}) == 2 && len(line) < 60_000
	}
	for end < len(line) && (line[end] != ' ' || end > 0 && line[end-1] == '\\') {
		end++
	}
	return end, false
}

// numbers adds the samples of a plain line whose series was read before. It adds none and says false if a value is
// not digits alone, so that the database's parser decides.
func numbers(to *Sink, line []byte, end int, series uint64) (done bool, err error) {
	fields, at, _ := bytes.Cut(line[end+1:], []byte{' '})
	unixes, failed := strconv.ParseInt(textOf(at), 10, 64)
	var keys [64]string
	n := 0
	for rest := fields; len(rest) > 0; n++ {
		equals := bytes.IndexByte(rest, '=')
		if equals < 1 || n == len(keys) || bytes.IndexByte(rest[:equals], ',') >= 0 {
			return false, nil
		}
		keys[n], rest = textOf(rest[:equals]), rest[equals+1:]
		length := 0
		for length < len(rest) && (rest[length]-'0' < 10 || rest[length] == '.') {
			length++
		}
		switch {
		case length == 0 || length+1 == len(rest) || length < len(rest) && rest[length] != ',':
			return false, nil
		case length == len(rest):
			rest = nil
		default:
			rest = rest[length+1:]
		}
	}
	if failed != nil || n == 0 {
		return false, nil
	}
	metric, tags, _ := strings.Cut(textOf(line[:end]), ",")
	s := Sample{MS: to.influxMS(unixes), Metric: metric, Labels: func(yield func(_, _ string) bool) {
		for tag := range strings.SplitSeq(tags, ",") {
			if key, value, _ := strings.Cut(tag, "="); key != "" && !yield(key, value) {
				return
			}
		}
	}}
	for _, key := range keys[:n] {
		s.Field, s.Series = key, series^maphash.String(seed, key)
		if err := to.add(&s); err != nil {
			return true, err
		}
	}
	return true, nil
}

// influxMS tells the unit of a timestamp by its size, as VictoriaMetrics does.
func (to *Sink) influxMS(at int64) int64 {
	units, ms, unit := influxUnit(at)
	to.Precisions |= unit
	return at / units * ms
}

// influxUnit says how many units are so many milliseconds: a unit is a nanosecond, ..., or a second.
func influxUnit(at int64) (units, ms int64, unit Precision) {
	switch {
	case at >= 1e17:
		return 1e6, 1, Nanoseconds
	case at >= 1e14:
		return 1e3, 1, Microseconds
	case at >= 1e11:
		return 1, 1, Milliseconds
	}
	return 1, 1e3, Seconds
}

// labels are the tags that have a key.
func labels[T any](tags []T, pair func(*T) (key, value string)) iter.Seq2[string, string] {
	return func(yield func(_, _ string) bool) {
		for i := range tags {
			if key, value := pair(&tags[i]); key != "" && !yield(key, value) {
				return
			}
		}
	}
}

func exposed() Parser {
	var rows prometheus.Rows
	return func(to *Sink, line []byte) error {
		row, err := one(&rows, line)
		if err != nil {
			return err
		}
		if math.IsNaN(row.Value) {
			to.Numberless++
			return nil
		}
		s := Sample{MS: row.Timestamp, Metric: row.Metric, Series: maphash.String(seed, row.Metric)}
		for _, tag := range row.Tags {
			s.Series ^= pair(tag.Key, tag.Value)
		}
		s.Labels = labels(row.Tags, func(tag *prometheus.Tag) (key, value string) { return tag.Key, tag.Value })
		return to.add(&s)
	}
}

func one(rows *prometheus.Rows, line []byte) (*prometheus.Row, error) {
	var wrong error
	rows.UnmarshalWithErrLogger(textOf(line), func(why string) { wrong = errors.New(why) })
	if wrong != nil {
		return nil, wrong
	}
	if len(rows.Rows) != 1 {
		return nil, errors.New("no sample")
	}
	return &rows.Rows[0], nil
}

func pair(key, value string) uint64 {
	return maphash.String(seed, key)*31 + maphash.String(seed, value)
}

func exported() Parser {
	var rows vmimport.Rows
	return func(to *Sink, line []byte) error {
		if rows.Unmarshal(textOf(line)); len(rows.Rows) != 1 {
			return errors.New("no JSON with metric, values and timestamps")
		}
		row := &rows.Rows[0]
		var s Sample
		for _, tag := range row.Tags {
			if len(tag.Key) == 0 || string(tag.Key) == "__name__" {
				s.Metric = textOf(tag.Value)
			}
			s.Series ^= pair(textOf(tag.Key), textOf(tag.Value))
		}
		s.Labels = labels(row.Tags, func(tag *vmimport.Tag) (key, value string) {
			if key = textOf(tag.Key); key == "__name__" {
				key = ""
			}
			return key, textOf(tag.Value)
		})
		for i, ms := range row.Timestamps {
			if math.IsNaN(row.Values[i]) {
				to.Numberless++
				continue
			}
			s.MS = ms
			if err := to.add(&s); err != nil {
				return err
			}
		}
		return nil
	}
}

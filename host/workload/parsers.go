package workload

import (
	"bytes"
	"errors"
	"hash/maphash"
	"math"
	"unsafe"

	"github.com/VictoriaMetrics/VictoriaMetrics/lib/protoparser/influx"
	"github.com/VictoriaMetrics/VictoriaMetrics/lib/protoparser/prometheus"
	"github.com/VictoriaMetrics/VictoriaMetrics/lib/protoparser/vmimport"
)

// parser reads a line of a format with the database's own parser, and adds its samples.
type parser func(r *dumpReader, line []byte) error

// formatOf tells the format by the first line.
func formatOf(line []byte) (format string, p parser) {
	if line[0] == '{' && bytes.Contains(line, []byte(`"metric"`)) {
		return "json", exported()
	}
	for _, one := range []struct {
		format string
		parser
	}{{"influx", influxed()}, {"exposition", exposed()}} {
		if err := one.parser(newReader(""), line); err == nil || errors.Is(err, errUntimed) {
			return one.format, one.parser
		}
	}
	return "", nil
}

func newReader(path string) *dumpReader {
	return &dumpReader{Dump: Dump{Start: 1 << 62, End: -1 << 62}, path: path, last: map[uint64]int64{},
		names: map[string]bool{}, seed: maphash.MakeSeed()}
}

// textOf shares the bytes, which the parsers do not keep beyond a line.
func textOf(line []byte) string { return unsafe.String(unsafe.SliceData(line), len(line)) }

func influxed() parser {
	var rows influx.Rows
	return func(r *dumpReader, line []byte) error {
		if err := rows.Unmarshal(textOf(line), false); err != nil {
			return err
		}
		if len(rows.Rows) != 1 {
			return errors.New("no measurement with fields")
		}
		row := &rows.Rows[0]
		// The series is the line up to the fields; a measurement or tag may have escaped spaces.
		end := 0
		for end < len(line) && (line[end] != ' ' || end > 0 && line[end-1] == '\\') {
			end++
		}
		series := maphash.Bytes(r.seed, line[:end])
		for _, field := range row.Fields {
			own := series ^ maphash.String(r.seed, field.Key)
			if err := r.add(own, influxMS(row.Timestamp), row.Measurement, field.Key); err != nil {
				return err
			}
		}
		return nil
	}
}

// influxMS tells the unit of a timestamp by its size, as VictoriaMetrics does.
func influxMS(at int64) int64 {
	switch {
	case at >= 1e17:
		return at / 1e6
	case at >= 1e14:
		return at / 1e3
	case at >= 1e11:
		return at
	}
	return at * 1e3
}

func exposed() parser {
	var rows prometheus.Rows
	return func(r *dumpReader, line []byte) error {
		var wrong error
		rows.UnmarshalWithErrLogger(textOf(line), func(why string) { wrong = errors.New(why) })
		if wrong != nil {
			return wrong
		}
		if len(rows.Rows) != 1 {
			return errors.New("no sample")
		}
		row := &rows.Rows[0]
		end := bytes.LastIndexByte(line, '}') + 1
		if end == 0 {
			end = len(row.Metric)
		}
		if math.IsNaN(row.Value) {
			r.Numberless++
			return nil
		}
		return r.add(maphash.Bytes(r.seed, line[:end]), row.Timestamp, row.Metric, "")
	}
}

func exported() parser {
	var rows vmimport.Rows
	return func(r *dumpReader, line []byte) error {
		if rows.Unmarshal(textOf(line)); len(rows.Rows) != 1 {
			return errors.New("no JSON with metric, values and timestamps")
		}
		row := &rows.Rows[0]
		var series uint64
		name := ""
		for _, tag := range row.Tags {
			if len(tag.Key) == 0 || string(tag.Key) == "__name__" {
				name = textOf(tag.Value)
			}
			series ^= maphash.Bytes(r.seed, tag.Key)*31 + maphash.Bytes(r.seed, tag.Value)
		}
		for i, ms := range row.Timestamps {
			if math.IsNaN(row.Values[i]) {
				r.Numberless++
				continue
			}
			if err := r.add(series, ms, name, ""); err != nil {
				return err
			}
		}
		return nil
	}
}

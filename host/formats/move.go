package formats

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/VictoriaMetrics/VictoriaMetrics/lib/protoparser/prometheus"
)

// Moved appends a line with all of its times later by so many milliseconds. Of an exposition it leaves out
// exemplars, and writes labels in one form.
func Moved(to, line []byte, format string, ms int64) ([]byte, error) {
	switch format {
	case "json":
		return movedJSON(to, line, ms)
	case "exposition":
		return movedText(to, line, ms)
	}
	end := bytes.LastIndexByte(line, ' ') + 1
	at, err := strconv.ParseInt(string(line[end:]), 10, 64)
	if err != nil {
		return to, ErrUntimed
	}
	units, each, _ := influxUnit(at)
	at += ms * units / each
	return strconv.AppendInt(append(to, line[:end]...), at, 10), nil
}

var escape = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func movedText(to, line []byte, ms int64) ([]byte, error) {
	row, err := one(&prometheus.Rows{}, line)
	if err != nil {
		return to, err
	}
	to = append(to, row.Metric...)
	for i, tag := range row.Tags {
		open := byte(',')
		if i == 0 {
			open = '{'
		}
		to = append(append(append(to, open), tag.Key...), '=', '"')
		to = append(append(to, escape.Replace(tag.Value)...), '"')
	}
	if len(row.Tags) > 0 {
		to = append(to, '}')
	}
	to = append(strconv.AppendFloat(append(to, ' '), row.Value, 'g', -1, 64), ' ')
	return strconv.AppendInt(to, row.Timestamp+ms, 10), nil
}

// In a label the quotes have a backslash each.
var timesOfJSON = regexp.MustCompile(`"timestamps"\s*:\s*\[([^\]]*)\]`)

func movedJSON(to, line []byte, ms int64) ([]byte, error) {
	at := timesOfJSON.FindSubmatchIndex(line)
	if at == nil {
		return to, fmt.Errorf("no \"timestamps\":[ in %.100s", line)
	}
	to = append(to, line[:at[2]]...)
	for i, text := range bytes.Split(line[at[2]:at[3]], []byte{','}) {
		at, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64)
		if err != nil {
			return to, err
		}
		if i > 0 {
			to = append(to, ',')
		}
		to = strconv.AppendInt(to, at+ms, 10)
	}
	return append(to, line[at[3]:]...), nil
}

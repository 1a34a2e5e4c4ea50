package exchange

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"strings"
	"time"
)

type influxAnswer struct {
	Error   string
	Results []struct {
		Error   string
		Partial bool
		Series  []struct {
			Name    string
			Tags    map[string]string
			Columns []string
			Values  [][]any
			Partial bool
		}
	}
}

// emptyInfluxQL looks for an error first: InfluxDB says 200 before it knows. Quotes within values are escaped, so that no tag
// can look like a key.
func emptyInfluxQL(body []byte) (bool, error) {
	if !bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte(`{"results":`)) {
		return false, fmt.Errorf("no answer of InfluxDB's /query: %s", firstLine(body))
	}
	if bytes.Contains(body, []byte(`"error":`)) {
		var said influxAnswer
		_, err := said.read(body)
		return false, err
	}
	return !bytes.Contains(body, []byte(`"series":`)), nil
}

// read decodes a body, and returns the error that it names.
func (a *influxAnswer) read(body []byte) (partial bool, err error) {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber() // values as they were written
	if err := decoder.Decode(a); err != nil {
		return false, fmt.Errorf("the answer is no JSON: %w", err)
	}
	if a.Error != "" {
		return false, errors.New(a.Error)
	}
	for _, result := range a.Results {
		if result.Error != "" {
			return false, errors.New(result.Error)
		}
		partial = partial || result.Partial
		for _, series := range result.Series {
			partial = partial || series.Partial
		}
	}
	return partial, nil
}

// parseInfluxQL makes a series of each column of numbers, called MEASUREMENT_FIELD; columns of text, which are tags (SELECT *),
// are tags of their row. A null is no point.
func parseInfluxQL(body []byte, asked *Operation) (*answer, error) {
	var said influxAnswer
	partial, err := said.read(body)
	if err != nil {
		return nil, err
	}
	all := &answer{kind: fmt.Sprintf("%d results, partial: %t", len(said.Results), partial), series: map[string][]point{}}
	fields := selected(asked)
	for _, result := range said.Results {
		for _, series := range result.Series {
			var keys []string
			texts := "unseen"
			for _, row := range series.Values {
				if len(row) != len(series.Columns) || len(row) == 0 {
					return nil, fmt.Errorf("a row of %s has %d values for %d columns", series.Name, len(row), len(series.Columns))
				}
				seconds, err := influxTime(row[0])
				if err != nil {
					return nil, err
				}
				if now := textsOf(row[1:]); now != texts {
					keys, texts = influxKeys(series.Name, series.Columns[1:], series.Tags, row[1:], fields), now
				}
				for i, value := range row[1:] {
					switch value.(type) {
					case json.Number, bool:
						all.series[keys[i]] = append(all.series[keys[i]], point{seconds, fmt.Sprint(value)})
					}
				}
			}
		}
	}
	return all, nil
}

// textsOf tells rows of different tags apart.
func textsOf(row []any) (all string) {
	for _, value := range row {
		if text, is := value.(string); is {
			all += text + "\x00"
		}
	}
	return all
}

// influxKeys are the series of a row's columns.
func influxKeys(measurement string, columns []string, of map[string]string, row []any, fields []string) (keys []string) {
	tags := maps.Clone(of)
	if tags == nil {
		tags = map[string]string{}
	}
	for i, value := range row {
		if text, is := value.(string); is {
			tags[columns[i]] = text
		}
	}
	for i, field := range columns {
		if i < len(fields) { // max, max_1, max_2 ...
			field = fields[i]
		}
		tags["__name__"] = measurement + "_" + field
		keys = append(keys, keyOf(tags))
	}
	return keys
}

var (
	selectClause = regexp.MustCompile(`(?is)^\s*SELECT (.*?) FROM `)
	ofField      = regexp.MustCompile(`^\s*\w+\("?(\w+)"?\)\s*$`)
)

// selected are the fields of a query's functions, in the order of its answer's columns; none of another query.
func selected(asked *Operation) (fields []string) {
	_, arguments, _ := strings.Cut(asked.Path, "?")
	values, _ := url.ParseQuery(arguments)
	clause := selectClause.FindStringSubmatch(values.Get("q"))
	if clause == nil {
		return nil
	}
	for _, one := range strings.Split(clause[1], ",") {
		found := ofField.FindStringSubmatch(one)
		if found == nil {
			return nil
		}
		fields = append(fields, found[1])
	}
	return fields
}

// influxTime is a time in seconds since the epoch: RFC 3339, or a number of ns.
func influxTime(value any) (float64, error) {
	switch value := value.(type) {
	case string:
		at, err := time.Parse(time.RFC3339Nano, value)
		return float64(at.UnixNano()) / 1e9, err
	case json.Number:
		ns, err := value.Int64()
		return float64(ns) / 1e9, err
	}
	return 0, fmt.Errorf("%v is no time", value)
}

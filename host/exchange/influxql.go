package exchange

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// emptyInfluxQL looks for an error first: InfluxDB sends status 200 before it knows. InfluxDB escapes quotes
// in values, so no tag can look like a key.
func emptyInfluxQL(body []byte) (bool, error) {
	if !bytes.HasPrefix(bytes.TrimLeft(body, space), []byte(`{"results":`)) {
		return false, fmt.Errorf("no answer of InfluxDB's /query: %s", firstLine(body))
	}
	if bytes.Contains(body, []byte(`"error":`)) {
		_, err := new(influxAnswer).read(body)
		return false, err
	}
	return !bytes.Contains(body, []byte(`"series":`)), nil
}

// read decodes a body; an error that the body names is returned.
func (a *influxAnswer) read(body []byte) (partial bool, err error) {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber() // keeps a value as it is written
	if err := decoder.Decode(a); err != nil {
		return false, fmt.Errorf("the answer is no JSON: %w", err)
	}
	if _, more := decoder.Token(); more != io.EOF {
		return false, errors.New("the answer has more behind its JSON")
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

// parseInfluxQL makes a series of each column of numbers, called MEASUREMENT_FIELD. A column of text (SELECT
// *) is a tag of its row. A null is no point.
func parseInfluxQL(body []byte, operation *Operation) (*answer, error) {
	var reply influxAnswer
	partial, err := reply.read(body)
	if err != nil {
		return nil, err
	}
	kind := fmt.Sprintf("%d results, partial: %t", len(reply.Results), partial)
	parsed := &answer{kind, map[string][]point{}}
	fields := selected(operation)
	for _, result := range reply.Results {
		for _, series := range result.Series {
			var keys []string
			tags := "unseen"
			for _, row := range series.Values {
				if len(row) != len(series.Columns) || len(row) == 0 {
					return nil, fmt.Errorf("a row of %s has %d values for %d columns",
						series.Name, len(row), len(series.Columns))
				}
				seconds, err := influxTime(row[0])
				if err != nil {
					return nil, err
				}
				if own := tagsOf(row[1:]); own != tags {
					keys, tags = influxKeys(series.Name, series.Columns[1:], series.Tags, row[1:], fields), own
				}
				for i, value := range row[1:] {
					switch value.(type) {
					case json.Number, bool:
						parsed.series[keys[i]] = append(parsed.series[keys[i]], point{seconds, fmt.Sprint(value)})
					}
				}
			}
		}
	}
	return parsed, nil
}

// tagsOf is equal for rows with the same tags: it joins all texts of a row.
func tagsOf(row []any) (all string) {
	for _, value := range row {
		if text, is := value.(string); is {
			all += text + "\x01"
		}
		all += "\x00" // the column counts, too
	}
	return all
}

// influxKeys returns the keys of the series that the columns of a row belong to.
func influxKeys(measurement string, columns []string, shared map[string]string, row []any, fields []string) []string {
	keys, tags := []string{}, map[string]string{}
	maps.Copy(tags, shared)
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
	selectClause    = regexp.MustCompile(`(?is)^\s*SELECT (.*?) FROM `)
	functionOfField = regexp.MustCompile(`^\s*\w+\("?(\w+)"?\)\s*$`)
)

// selected returns the fields of a query's functions, in the order of columns; nil for other queries.
func selected(operation *Operation) (fields []string) {
	_, arguments, _ := strings.Cut(operation.Path, "?")
	values, _ := url.ParseQuery(arguments)
	clause := selectClause.FindStringSubmatch(values.Get("q"))
	if clause == nil {
		return nil
	}
	for _, expression := range strings.Split(clause[1], ",") {
		match := functionOfField.FindStringSubmatch(expression)
		if match == nil {
			return nil
		}
		fields = append(fields, match[1])
	}
	return fields
}

// influxTime reads a time, RFC 3339 or a number of ns, as seconds since the epoch.
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

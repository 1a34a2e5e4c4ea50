package scrape

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"tsduel/host/bound"
	"tsduel/host/record"
)

// sampleLine is a line of exposition text, of Prometheus' text format 0.0.4 or of OpenMetrics: a name, labels in
// braces, a value; then perhaps a time and an exemplar, which nobody needs.
var sampleLine = regexp.MustCompile(`^[ \t]*([a-zA-Z_:][a-zA-Z0-9_:]*)[ \t]*(\{(?:[^"}]|"(?:[^"\\]|\\.)*")*\})?` +
	`[ \t]*([^ \t\r\n#{}"]+)(?:[ \t]+[-+.0-9eE]+)?(?:[ \t]+#.*)?[ \t\r]*\n?$`)

// nameOf is the name of a line's sample, without a look at the rest; empty of a comment.
func nameOf(line []byte) (name, rest []byte) {
	line = bytes.TrimLeft(line, " \t")
	if end := bytes.IndexAny(line, "{ \t"); end > 0 && line[0] != '#' {
		return line[:end], line[end:]
	}
	return nil, nil
}

// roleLabel is the label for a sample's component in kept expositions.
const roleLabel = "tsduel_role"

// ours begins the names of samples that we add.
const ours = "tsduel_"

// OfRole adds the label of a component to every sample of an exposition. It drops what only we may say: samples with
// names of ours, and the heads of snapshots.
func OfRole(role string, text []byte) []byte {
	marked := make([]byte, 0, len(text)+len(text)/2)
	for line := range bytes.Lines(text) {
		name, rest := nameOf(line)
		labels, labelled := bytes.CutPrefix(bytes.TrimLeft(rest, " \t"), []byte{'{'})
		switch {
		case bytes.HasPrefix(name, []byte(ours)), bytes.HasPrefix(line, []byte(head)):
		case name == nil:
			marked = append(marked, line...)
		case labelled:
			marked = fmt.Appendf(marked, "%s{%s=%q,%s", name, roleLabel, role, labels)
		default:
			marked = fmt.Appendf(marked, "%s{%s=%q}%s", name, roleLabel, role, rest)
		}
	}
	return marked
}

// samplesMost is of one counter. A server with thousands of shards has as many.
const samplesMost = 100_000

// sumMost can be subtracted and multiplied, and is a number of JSON then.
const sumMost = 1e300

// Sum adds up the samples of an exposition that belong to a counter. Counter.Name is a name, or several
// joined by |; each regular expression of Counter.Labels must match in full. found is false if there is no
// sample: names differ between versions. A sample that cannot be read is the server's fault.
func Sum(text []byte, counter record.Counter) (sum float64, found bool, err error) {
	wanted, read := labelsOf(counter), 0
	// Parse only these names: there may be thousands of others. Without TYPE lines all samples are untyped.
	for line := range bytes.Lines(text) {
		if name, _ := nameOf(line); name == nil || !counter.Called(string(name)) {
			continue
		}
		if read++; read > samplesMost {
			return 0, false, bound.Theirs(fmt.Sprintf("the counter %s of /metrics has more than %d samples, and tsduel reads "+
				"no more", counter.Name, samplesMost))
		}
		metric, value, err := parseSample(line)
		if err != nil {
			return 0, false, bound.Theirs(fmt.Sprintf("the counter %s of /metrics cannot be read: %v: %s", counter.Name, err,
				OneLine(string(line[:min(len(line), 400)]))))
		}
		matches, err := match(metric.GetLabel(), wanted)
		if err != nil {
			return 0, false, err
		}
		if matches && !math.IsNaN(value) && !math.IsInf(value, 0) {
			sum, found = sum+value, true
		}
	}
	if math.Abs(sum) > sumMost {
		return 0, false, bound.Theirs(fmt.Sprintf("the counter %s of /metrics adds up to %g, and tsduel reckons with less",
			counter.Name, sum))
	}
	return sum, found, nil
}

// labelsOf are the regular expressions that the labels of a counter's samples match.
func labelsOf(counter record.Counter) map[string]string {
	wanted := map[string]string{}
	maps.Copy(wanted, counter.Labels)
	if counter.Role != "" {
		wanted[roleLabel] = regexp.QuoteMeta(counter.Role)
	}
	return wanted
}

// parseSample reads a line without its time, which expfmt knows as a whole number only.
func parseSample(line []byte) (metric *dto.Metric, value float64, err error) {
	parts := sampleLine.FindSubmatch(line)
	if parts == nil {
		return nil, 0, errors.New("it is no line of a sample")
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(fmt.Sprintf("%s%s %s\n", parts[1], parts[2], parts[3])))
	for _, family := range families {
		metric = family.GetMetric()[0]
	}
	return metric, metric.GetUntyped().GetValue(), err
}

// match says whether labels match the wanted regular expressions. A missing label is "".
func match(labels []*dto.LabelPair, wanted map[string]string) (bool, error) {
	values := map[string]string{}
	for _, label := range labels {
		values[label.GetName()] = label.GetValue()
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		pattern, err := regexp.Compile("^(?:" + wanted[name] + ")$")
		if err != nil {
			return false, fmt.Errorf("the label %s of a counter: %w", name, err)
		}
		if !pattern.MatchString(values[name]) {
			return false, nil
		}
	}
	return true, nil
}

// head begins the first line of a snapshot.
const head = "# snapshot "

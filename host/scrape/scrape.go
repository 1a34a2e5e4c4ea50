// Package scrape reads and keeps the counters that servers give at /metrics.
package scrape

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"tsduel/host/record"
)

// Timeout bounds a request whose ctx has no deadline. Tests set less.
var Timeout = 10 * time.Second

// client uses no proxy, and keeps no connections, since servers come and go.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
	DialContext: (&net.Dialer{Timeout: Timeout}).DialContext}}

// Fetch gets a body. Any status but 2xx is an error that quotes the body. It tries three times, since a busy
// server may reset a connection before it answers.
func Fetch(ctx context.Context, url string) (body []byte, err error) {
	for range 3 {
		if body, err = fetch(ctx, url); !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, io.EOF) {
			return body, err
		}
	}
	return body, err
}

func fetch(ctx context.Context, url string) ([]byte, error) {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, Timeout)
		defer cancel()
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	answer, err := client.Do(request)
	if err != nil {
		return nil, err // it names the method and the URL
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode/100 != 2 {
		err = fmt.Errorf("GET %s: HTTP status %d: %s", url, answer.StatusCode, OneLine(string(body)))
	}
	return body, err
}

// roleLabel is the label for a sample's component in kept expositions.
const roleLabel = "tsduel_role"

// OfRole adds the label of a component to every sample of an exposition.
func OfRole(role string, text []byte) []byte {
	marked := make([]byte, 0, len(text)+len(text)/2)
	for line := range bytes.Lines(text) {
		at := bytes.IndexAny(line, "{ ")
		switch {
		case at <= 0 || line[0] == '#':
			marked = append(marked, line...)
		case line[at] == '{':
			marked = fmt.Appendf(marked, "%s{%s=%q,%s", line[:at], roleLabel, role, line[at+1:])
		default:
			marked = fmt.Appendf(marked, "%s{%s=%q}%s", line[:at], roleLabel, role, line[at:])
		}
	}
	return marked
}

// Sum adds up the samples of an exposition that belong to a counter. Counter.Name is a name, or several
// joined by |; each regular expression of Counter.Labels must match in full. found is false if there is no
// sample: names differ between versions.
func Sum(text []byte, counter record.Counter) (sum float64, found bool, err error) {
	wanted := map[string]string{}
	maps.Copy(wanted, counter.Labels)
	if counter.Role != "" {
		wanted[roleLabel] = regexp.QuoteMeta(counter.Role)
	}
	// Parse only these names: there may be thousands of others. Without TYPE lines all samples are untyped.
	var lines bytes.Buffer
	names := strings.Split(counter.Name, "|")
	for line := range bytes.Lines(text) {
		if end := bytes.IndexAny(line, "{ "); end >= 0 && slices.Contains(names, string(line[:end])) {
			fmt.Fprintf(&lines, "%s\n", bytes.TrimRight(line, "\r\n"))
		}
	}
	if lines.Len() == 0 {
		return 0, false, nil
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(&lines)
	if err != nil {
		return 0, false, fmt.Errorf("read the counter %s: %w", counter.Name, err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			matches, err := match(metric.GetLabel(), wanted)
			if err != nil {
				return 0, false, err
			}
			if value := metric.GetUntyped().GetValue(); matches && !math.IsNaN(value) && !math.IsInf(value, 0) {
				sum, found = sum+value, true
			}
		}
	}
	return sum, found, nil
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

// OneLine makes one line of at most 400 bytes of a text, without control characters.
func OneLine(text string) string {
	line := strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsControl(r) || r == ' ' }), " ")
	return strings.ToValidUTF8(line[:min(len(line), 400)], "")
}

var noName = regexp.MustCompile(`[^a-zA-Z0-9_]`)

// Expvar makes exposition text of Go's expvar JSON. Each number is a sample, named by its path of keys joined
// by _. A number in an object of InfluxDB's form {"name": N, "tags": {T: V}, "values": {K: NUMBER}} is the
// sample N_K{T="V"}.
func Expvar(body []byte) ([]byte, error) {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber() // keeps all digits of counters beyond 2^53
	var all map[string]any
	if err := decoder.Decode(&all); err != nil {
		return nil, fmt.Errorf("no expvar JSON: %w: %s", err, OneLine(string(body)))
	}
	var text bytes.Buffer
	var write func(name, labels string, value any)
	write = func(name, labels string, value any) {
		switch value := value.(type) {
		case json.Number:
			fmt.Fprintf(&text, "%s%s %s\n", noName.ReplaceAllString(name, "_"), labels, value)
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(value)) {
				write(name+"_"+key, labels, value[key])
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		object, _ := all[key].(map[string]any)
		name, named := object["name"].(string)
		values, valued := object["values"].(map[string]any)
		if !named || !valued {
			write(key, "", all[key])
			continue
		}
		tags, _ := object["tags"].(map[string]any)
		var labels []string
		for _, tag := range slices.Sorted(maps.Keys(tags)) {
			labels = append(labels, fmt.Sprintf("%s=%q", noName.ReplaceAllString(tag, "_"), fmt.Sprint(tags[tag])))
		}
		joined := ""
		if labels != nil {
			joined = "{" + strings.Join(labels, ",") + "}"
		}
		write(name, joined, values)
	}
	return text.Bytes(), nil
}

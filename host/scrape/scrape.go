// Package scrape reads what servers say of themselves at /metrics, and keeps it.
package scrape

import (
	"bytes"
	"context"
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

// Timeout bounds one request: a server that hangs must not take us with it. Tests wait less.
var Timeout = 10 * time.Second

// All that a block speaks to is on this machine, so no proxy; connections are not kept, since servers come and go.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: (&net.Dialer{Timeout: Timeout}).DialContext}}

// Fetch gets a body; anything but 2xx is an error that quotes it. A busy server may reset a connection before it
// answers: three attempts.
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
		return nil, err // has method and address
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode/100 != 2 {
		err = fmt.Errorf("GET %s: HTTP status %d: %s", url, answer.StatusCode, OneLine(string(body)))
	}
	return body, err
}

// RoleLabel says in kept expositions which component a sample is of.
const RoleLabel = "tsduel_role"

// OfRole says in every sample of an exposition which component it is of.
func OfRole(role string, text []byte) []byte {
	marked := make([]byte, 0, len(text)+len(text)/2)
	for line := range bytes.Lines(text) {
		at := bytes.IndexAny(line, "{ ")
		switch {
		case at <= 0 || line[0] == '#':
			marked = append(marked, line...)
		case line[at] == '{':
			marked = fmt.Appendf(marked, "%s{%s=%q,%s", line[:at], RoleLabel, role, line[at+1:])
		default:
			marked = fmt.Appendf(marked, "%s{%s=%q}%s", line[:at], RoleLabel, role, line[at:])
		}
	}
	return marked
}

// Sum adds up the samples of an exposition that belong to a counter: its name, or several with | between them, its component if
// it names one, and for each label a regular expression that matches in full. False where there is none: names come and go
// between versions, which is no error.
func Sum(text []byte, counter record.Counter) (sum float64, found bool, err error) {
	if counter.Role != "" {
		labels := maps.Clone(counter.Labels)
		if labels == nil {
			labels = map[string]string{}
		}
		labels[RoleLabel], counter.Labels = regexp.QuoteMeta(counter.Role), labels
	}
	// Only the lines of that name, without types: the rest may be thousands, and a histogram's parts are plain samples.
	var lines bytes.Buffer
	names := strings.Split(counter.Name, "|")
	for line := range bytes.Lines(text) {
		if end := bytes.IndexAny(line, "{ "); end >= 0 && slices.Contains(names, string(line[:end])) {
			lines.Write(bytes.TrimRight(line, "\r\n"))
			lines.WriteByte('\n')
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
			matches, err := belongs(metric.GetLabel(), counter.Labels)
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

func belongs(labels []*dto.LabelPair, wanted map[string]string) (bool, error) {
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		pattern, err := regexp.Compile("^(?:" + wanted[name] + ")$")
		if err != nil {
			return false, fmt.Errorf("the label %s of a counter: %w", name, err)
		}
		at := slices.IndexFunc(labels, func(l *dto.LabelPair) bool { return l.GetName() == name })
		if at < 0 && !pattern.MatchString("") || at >= 0 && !pattern.MatchString(labels[at].GetValue()) {
			return false, nil
		}
	}
	return true, nil
}

const longestLine = 400

// OneLine makes a text fit for a sentence: one line, without what a terminal would obey, cut to what can be read.
func OneLine(text string) string {
	line := strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsControl(r) || r == ' ' }), " ")
	return strings.ToValidUTF8(line[:min(len(line), longestLine)], "")
}

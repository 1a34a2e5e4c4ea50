package workload

import (
	"bufio"
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/VictoriaMetrics/metricsql"
	"github.com/timescale/tsbs/pkg/query"

	"tsduel/host/record"
)

// TSBS's generators draw hosts before times for one database, and times before hosts for another, so the k-th
// queries of one seed differ. To compare databases, alike draws both anew from the seed and k, and puts them
// into TSBS's queries. Windows begin at whole minutes, which all databases support.

var (
	hostName = regexp.MustCompile(`\bhost_[0-9]+\b`)
	// The window in a dialect of SQL: time >= '2025-06-10T00:00:00Z' and time < '...'.
	timeEdge = regexp.MustCompile(`time (>=|<) '([^']+)'`)
)

// ask makes a query of TSBS what a job asks: with the same hosts and windows for every format, and in its form.
func (j *job) ask(k int64, q *query.HTTP) error {
	if j.plan.Queries.Alike {
		draw := rand.New(rand.NewPCG(uint64(j.query.Seed), uint64(k)))
		if err := askAlike(q, j.plan.Workload, draw); err != nil {
			return err
		}
	}
	if j.form == "" {
		return nil
	}
	return translate(q, j.form)
}

// rewrite writes the queries of a file to another file, each changed, and returns their number.
func rewrite(from, to string, change func(k int64, q *query.HTTP) error) (made int64, err error) {
	in, err := os.Open(from)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	read := gob.NewDecoder(bufio.NewReaderSize(in, 1<<20))
	return writeQueries(to, func(k int64) (*query.HTTP, error) {
		var q query.HTTP // new for each query, since gob does not reset missing fields
		if err := read.Decode(&q); errors.Is(err, io.EOF) {
			return nil, io.EOF
		} else if err != nil {
			return nil, fmt.Errorf("no file of TSBS's HTTP queries: %w", err)
		}
		if err := change(k, &q); err != nil {
			return nil, fmt.Errorf("query %d (%s): %w", k, q.HumanDescription, err)
		}
		return &q, nil
	})
}

// writeQueries writes a file of TSBS's queries until next returns io.EOF, and returns their number.
func writeQueries(to string, next func(k int64) (*query.HTTP, error)) (made int64, err error) {
	out, err := os.Create(to)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	buffer := bufio.NewWriterSize(out, 1<<20)
	write := gob.NewEncoder(buffer)
	for ; ; made++ {
		q, err := next(made)
		if errors.Is(err, io.EOF) {
			return made, buffer.Flush()
		} else if err != nil {
			return made, err
		}
		if err := write.Encode(q); err != nil {
			return made, err
		}
	}
}

// askAlike draws the begin of a query's window, then as many hosts as it names.
func askAlike(q *query.HTTP, plan *record.WorkloadPlan, draw *rand.Rand) error {
	u, err := url.Parse(string(q.Path))
	if err != nil {
		return err
	}
	arguments := u.Query()
	name := "query" // of PromQL's argument
	if arguments.Has("q") {
		name = "q" // of InfluxQL's
	}
	text := arguments.Get(name)
	begin, length, step, err := windowOf(arguments, text)
	if err != nil {
		return err
	}
	first := plan.Start.Truncate(time.Minute)
	if first.Before(plan.Start) {
		first = first.Add(time.Minute)
	}
	room := plan.End.Add(-length).Sub(first) / time.Minute
	if room < 0 {
		return record.UserError("queries.types: a window of %s from a whole minute on does not fit between "+
			"workload.start and workload.end", length)
	}
	start := first.Add(time.Duration(draw.Int64N(int64(room)+1)) * time.Minute)
	end := start.Add(length)
	switch {
	case begin.IsZero():
	case arguments.Has("start"):
		// A point is of the step before it, so the first point is one step after start.
		arguments.Set("start", strconv.FormatInt(start.Add(step).Unix(), 10))
		arguments.Set("end", strconv.FormatInt(end.Unix(), 10))
	default:
		text = timeEdge.ReplaceAllStringFunc(text, func(edge string) string {
			at := start
			if strings.Contains(edge, "<") {
				at = end
			}
			return edge[:strings.IndexByte(edge, '\'')] + "'" + at.Format(time.RFC3339) + "'"
		})
		// Groups of an hour begin with the query, as PromQL's do, and not with the hour.
		if offset := start.Sub(start.Truncate(time.Hour)); offset > 0 {
			text = strings.Replace(text, "time(1h)", fmt.Sprintf("time(1h,%dm)", offset/time.Minute), 1)
		}
	}
	drawn, taken := map[string]string{}, map[int]bool{}
	text = hostName.ReplaceAllStringFunc(text, func(host string) string {
		if _, known := drawn[host]; !known {
			n := draw.IntN(plan.Scale)
			for taken[n] && len(taken) < plan.Scale {
				n = draw.IntN(plan.Scale)
			}
			taken[n], drawn[host] = true, fmt.Sprintf("host_%d", n)
		}
		return drawn[host]
	})
	if string(q.RawQuery) == arguments.Get(name) {
		q.RawQuery = []byte(text)
	}
	arguments.Set(name, text)
	q.Path = []byte(u.Path + "?" + arguments.Encode())
	q.HumanDescription = fmt.Appendf(nil, "%s: %s", q.HumanLabel, start.Format(time.RFC3339))
	return nil
}

// windowOf returns the begin of a query's window, zero if it has none, its length, and the step of PromQL.
func windowOf(arguments url.Values, text string) (begin time.Time, length, step time.Duration, err error) {
	if arguments.Has("start") {
		var at [3]int64
		for i, name := range [3]string{"start", "end", "step"} {
			if at[i], err = strconv.ParseInt(arguments.Get(name), 10, 64); err != nil {
				return begin, 0, 0, fmt.Errorf("%s of %q is no number of seconds", name, text)
			}
		}
		return time.Unix(at[0], 0), time.Duration(at[1]-at[0]) * time.Second, time.Duration(at[2]) * time.Second, nil
	}
	var end time.Time
	for _, edge := range timeEdge.FindAllStringSubmatch(text, -1) {
		at, err := time.Parse(time.RFC3339, edge[2])
		if err != nil {
			return begin, 0, 0, err
		}
		if edge[1] == "<" {
			end = at
		} else {
			begin = at
		}
	}
	if begin.IsZero() {
		begin = end // a window with an end only
	}
	return begin, end.Sub(begin), 0, nil
}

// translate puts a query into another form. Files are cached by the name of a form: a changed form needs a new name.
func translate(q *query.HTTP, form string) error {
	if form != "prometheus" {
		return fmt.Errorf("this tsduel knows no form %q of queries", form)
	}
	path, err := toPrometheus(string(q.Path))
	q.Path = []byte(path)
	for _, label := range []*[]byte{&q.HumanLabel, &q.HumanDescription} {
		*label = bytes.ReplaceAll(*label, []byte("VictoriaMetrics"), []byte("Prometheus"))
	}
	return err
}

// prefix stands before fields in VictoriaMetrics' series of Influx's lines. Remote write has no prefix.
const prefix = "cpu_"

// toPrometheus translates the path of a request to VictoriaMetrics into one to Prometheus. VictoriaMetrics
// stores the field usage_user as cpu_usage_user, Prometheus as usage_user. MetricsQL's rollups keep the names
// of series, and `by (__name__)` keeps the series apart. PromQL's rollups drop the names, so a query of
// several metrics becomes a union of one query for each, with its name put back.
func toPrometheus(path string) (string, error) {
	at, err := url.Parse(path)
	if err != nil {
		return "", err
	}
	values := at.Query()
	tree, err := metricsql.Parse(values.Get("query"))
	if err != nil {
		return "", err
	}
	var selectors []*metricsql.MetricExpr
	metricsql.VisitAll(tree, func(e metricsql.Expr) {
		if selector, is := e.(*metricsql.MetricExpr); is {
			selectors = append(selectors, selector)
		}
	})
	if len(selectors) != 1 || len(selectors[0].LabelFilterss) != 1 || len(selectors[0].LabelFilterss[0]) == 0 {
		return "", fmt.Errorf("no translation for %s: it has not one selector", values.Get("query"))
	}
	name := &selectors[0].LabelFilterss[0][0]
	selected, err := fieldsOf(*name)
	if err != nil {
		return "", fmt.Errorf("no translation for %s: %w", values.Get("query"), err)
	}
	var union []string
	for _, field := range selected {
		*name = metricsql.LabelFilter{Label: "__name__", Value: field}
		text := string(tree.AppendString(nil))
		if len(selected) > 1 {
			text = fmt.Sprintf(`label_replace(%s, "__name__", "%s", "", "")`, text, prefix+field)
		}
		union = append(union, text)
	}
	// Without `on`, PromQL ignores names here, and drops all series but the first.
	values.Set("query", strings.Join(union, " or on (__name__) "))
	at.RawQuery = values.Encode()
	return at.String(), nil
}

// fields are the fields of TSBS's use case cpu-only.
var fields = strings.Fields("usage_user usage_system usage_idle usage_nice usage_iowait usage_irq usage_softirq " +
	"usage_steal usage_guest usage_guest_nice")

// fieldsOf returns the fields whose series in VictoriaMetrics a filter selects.
func fieldsOf(filter metricsql.LabelFilter) (selected []string, err error) {
	if filter.Label != "__name__" || filter.IsNegative {
		return nil, errors.New("its selector does not begin with names of metrics")
	}
	pattern := filter.Value
	if !filter.IsRegexp {
		pattern = regexp.QuoteMeta(pattern)
	}
	full, err := regexp.Compile("^(?:" + pattern + ")$")
	if err != nil {
		return nil, err
	}
	for _, field := range fields {
		if full.MatchString(prefix + field) {
			selected = append(selected, field)
		}
	}
	if selected == nil {
		err = fmt.Errorf("%s is no series of the data", filter.Value)
	}
	return selected, err
}

package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/VictoriaMetrics/metricsql"
	"github.com/influxdata/influxql"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

const (
	stepMS    = 60_000 // of a window like [5i]
	wordsMost = 200    // bytes of a parser's sentence
	textMost  = 1 << 16
)

func init() {
	// Servers may have been started with these features: what a server refuses in the end, it says.
	parser.EnableExperimentalFunctions = true
	parser.ExperimentalDurationExpr = true
	parser.EnableExtendedRangeSelectors = true
}

// Examine examines a query. names are all that the data have; none if they are not known.
func Examine(language, text string, names map[string]bool) (known Known) {
	defer func() { // a parser's bug is that query's
		if why := recover(); why != nil {
			known = Known{Wrong: "does not parse: " + short(fmt.Sprint(why))}
		}
	}()
	if strings.TrimSpace(text) == "" {
		return Known{Wrong: "is empty"}
	}
	if len(text) > textMost {
		return Known{Wrong: fmt.Sprintf("has %d bytes, and at most %d are asked", len(text), textMost)}
	}
	d := data{names}
	switch language {
	case "metricsql":
		e, err := metricsql.Parse(text)
		if err != nil {
			return Known{Wrong: cmp.Or(isInfluxQL(text, "PromQL or MetricsQL"), refused(err))}
		}
		return Known{unstable(e), d.metricsql(e), back(e)}
	case "promql":
		e, err := parser.ParseExpr(text)
		if err != nil {
			return Known{Wrong: cmp.Or(isInfluxQL(text, "PromQL"), refused(err))}
		}
		return Known{"", d.promql(e), backOf(e).Seconds()}
	case "influxql":
		return Known{Wrong: influx(text)}
	}
	return Known{Wrong: fmt.Sprintf("is in a language that this tsduel does not know: %q", language)}
}

func refused(err error) string { return "does not parse: " + short(err.Error()) }

func short(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > wordsMost {
		text = strings.ToValidUTF8(text[:wordsMost], "") + " ..."
	}
	return text
}

func never(what string) string {
	return "returns another thing each time, by " + what + "(): no two answers could be compared; leave it out"
}

func isInfluxQL(text, own string) string {
	if word, _, _ := strings.Cut(strings.ToUpper(strings.TrimSpace(text)), " "); word != "SELECT" && word != "SHOW" {
		return ""
	}
	return "looks like InfluxQL, and this database is asked " + own
}

func influx(text string) (wrong string) {
	query, err := influxql.ParseQuery(text)
	if err != nil {
		if _, other := metricsql.Parse(text); other == nil {
			return "looks like PromQL, and this database is asked InfluxQL"
		}
		return refused(err)
	}
	for _, statement := range query.Statements {
		if s, is := statement.(*influxql.SelectStatement); is && s.Target != nil {
			return "writes INTO a measurement: leave that out"
		}
		if word, _, _ := strings.Cut(statement.String(), " "); word != "SELECT" && word != "SHOW" {
			return "begins with " + word + ": write a SELECT or SHOW, which changes nothing"
		}
	}
	influxql.WalkFunc(query, func(n influxql.Node) {
		if call, is := n.(*influxql.Call); is && strings.EqualFold(call.Name, "now") {
			wrong = never("now")
		}
	})
	return wrong
}

// data knows which names there are.
type data struct{ names map[string]bool }

func (d data) has(name string) bool { return len(d.names) == 0 || name == "" || d.names[name] }

// first is the first name that the data lack.
func first[E any](lacks func(E) string, all ...E) (name string) {
	for _, e := range all {
		name = cmp.Or(name, lacks(e))
	}
	return name
}

// either is a name that the data lack if they lack one for each alternative.
func either[E any](lacks func(E) string, all ...E) (name string) {
	for _, e := range all {
		lacked := lacks(e)
		if lacked == "" {
			return ""
		}
		name = cmp.Or(name, lacked)
	}
	return name
}

func (d data) metricsql(e metricsql.Expr) string {
	switch e := e.(type) {
	case *metricsql.MetricExpr:
		return either(func(filters []metricsql.LabelFilter) string {
			for _, f := range filters {
				if f.Label == "__name__" && !f.IsRegexp && !f.IsNegative && !d.has(f.Value) {
					return f.Value
				}
			}
			return ""
		}, e.LabelFilterss...)
	case *metricsql.RollupExpr:
		return d.metricsql(e.Expr)
	case *metricsql.BinaryOpExpr:
		switch strings.ToLower(e.Op) {
		case "or", "default":
			return either(d.metricsql, e.Left, e.Right)
		case "unless", "ifnot":
			return d.metricsql(e.Left)
		}
		return first(d.metricsql, e.Left, e.Right)
	case *metricsql.FuncExpr:
		switch strings.ToLower(e.Name) {
		case "absent", "absent_over_time":
			return ""
		case "union", "":
			return either(d.metricsql, e.Args...)
		}
		return first(d.metricsql, e.Args...)
	case *metricsql.AggrFuncExpr:
		return first(d.metricsql, e.Args...)
	}
	return ""
}

func (d data) promql(n parser.Node) string {
	switch e := n.(type) {
	case *parser.VectorSelector:
		for _, m := range e.LabelMatchers {
			if m.Name == "__name__" && m.Type == labels.MatchEqual && !d.has(m.Value) {
				return m.Value
			}
		}
		return ""
	case *parser.BinaryExpr:
		switch e.Op {
		case parser.LOR:
			return either(d.promql, parser.Node(e.LHS), parser.Node(e.RHS))
		case parser.LUNLESS:
			return d.promql(e.LHS)
		}
	case *parser.Call:
		if e.Func.Name == "absent" || e.Func.Name == "absent_over_time" {
			return ""
		}
	}
	return first(d.promql, parser.Children(n)...)
}

// parts are the expressions in an expression.
func parts(e metricsql.Expr) []metricsql.Expr {
	switch e := e.(type) {
	case *metricsql.RollupExpr:
		return []metricsql.Expr{e.Expr}
	case *metricsql.BinaryOpExpr:
		return []metricsql.Expr{e.Left, e.Right}
	case *metricsql.FuncExpr:
		return e.Args
	case *metricsql.AggrFuncExpr:
		return e.Args
	}
	return nil
}

func unstable(e metricsql.Expr) string {
	if f, is := e.(*metricsql.FuncExpr); is {
		switch name := strings.ToLower(f.Name); name {
		case "rand", "rand_normal", "rand_exponential", "now":
			return never(name)
		}
	}
	return first(unstable, parts(e)...)
}

func back(e metricsql.Expr) (seconds float64) {
	for _, part := range parts(e) {
		seconds = max(seconds, back(part))
	}
	if r, is := e.(*metricsql.RollupExpr); is {
		seconds += float64(r.Window.Duration(stepMS)+max(0, r.Offset.Duration(stepMS))) / 1000
	}
	return seconds
}

func backOf(n parser.Node) (longest time.Duration) {
	for _, part := range parser.Children(n) {
		longest = max(longest, backOf(part))
	}
	switch e := n.(type) {
	case *parser.VectorSelector:
		longest += max(0, e.OriginalOffset)
	case *parser.MatrixSelector:
		longest += e.Range
	case *parser.SubqueryExpr:
		longest += e.Range + max(0, e.OriginalOffset)
	}
	return longest
}

// Known is what is known of a query: phrases that say why it is refused, and the longest way from its time to a
// sample that it reads, in seconds.
type Known struct {
	Wrong string  `json:"wrong"`
	Lacks string  `json:"lacks"` // a name that the data do not have, without which it has no answer
	BackS float64 `json:"back_s"`
}

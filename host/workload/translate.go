package workload

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/VictoriaMetrics/metricsql"
	"github.com/timescale/tsbs/pkg/query"
)

// form is what queries of a format are translated into: from the path of a request to that of another one, for the database of a
// title. Files are kept by a form's name: one that is changed needs another.
type form struct {
	title string
	path  func(string) (string, error)
}

var forms = map[string]form{"prometheus": {"Prometheus", toPrometheus}}

// translate writes the queries of a file of TSBS's in another form; it returns how many there are.
func translate(from, to, name string) (count int64, err error) {
	form, known := forms[name]
	if !known {
		return 0, fmt.Errorf("this tsduel knows no form %q of queries", name)
	}
	return rewrite(from, to, func(_ int64, one *query.HTTP) error {
		path, err := form.path(string(one.Path))
		one.Path = []byte(path)
		for _, label := range []*[]byte{&one.HumanLabel, &one.HumanDescription} {
			*label = bytes.ReplaceAll(*label, []byte("VictoriaMetrics"), []byte(form.title))
		}
		return err
	})
}

// ofCPU is what stands before a field's name where lines of Influx' protocol become series; remote write leaves it out.
const ofCPU = "cpu_"

// toPrometheus asks Prometheus what TSBS asks VictoriaMetrics. Its loader stores the field usage_user as the series usage_user, and
// not as cpu_usage_user. MetricsQL's rollups keep the names of series and `by (__name__)` tells them apart; those of PromQL
// drop them, so that a query of several metrics becomes a union of one for each, with the name put back where it was.
func toPrometheus(path string) (string, error) {
	at, err := url.Parse(path)
	if err != nil {
		return "", err
	}
	values := at.Query()
	asked, err := metricsql.Parse(values.Get("query"))
	if err != nil {
		return "", err
	}
	var selectors []*metricsql.MetricExpr
	metricsql.VisitAll(asked, func(e metricsql.Expr) {
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
		one := string(asked.AppendString(nil))
		if len(selected) > 1 {
			one = fmt.Sprintf(`label_replace(%s, "__name__", "%s", "", "")`, one, ofCPU+field)
		}
		union = append(union, one)
	}
	// Without `on`, names are not looked at, and all but the first would be taken for the same.
	values.Set("query", strings.Join(union, " or on (__name__) "))
	at.RawQuery = values.Encode()
	return at.String(), nil
}

// fields are those of TSBS's use case cpu-only.
var fields = strings.Fields("usage_user usage_system usage_idle usage_nice usage_iowait usage_irq usage_softirq usage_steal usage_guest usage_guest_nice")

// fieldsOf lists the fields whose series in VictoriaMetrics a filter selects.
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
		if full.MatchString(ofCPU + field) {
			selected = append(selected, field)
		}
	}
	if selected == nil {
		err = fmt.Errorf("%s is no series of the data", filter.Value)
	}
	return selected, err
}

package values

import (
	"encoding/json"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// loadResults reads what a loader has measured: seconds, samples a second, and the seconds of a reporting period.
func loadResults(path string) (seconds, rate, period float64) {
	var r struct {
		DurationMillis float64
		Totals         struct{ MetricRate float64 }
		RunnerConfig   struct {
			Period float64 `json:"reporting-period"`
		}
	}
	text, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(text, &r) != nil || r.Totals.MetricRate == 0 {
		return math.NaN(), math.NaN(), 1
	}
	period = r.RunnerConfig.Period / 1e9
	if !(period > 0) {
		period = 1
	}
	return r.DurationMillis / 1000, r.Totals.MetricRate, period
}

// interval is a line of a loader: samples a second in a period, and so far. The clock has whole seconds.
type interval struct{ clock, rate, total float64 }

// loadOutput is what a loader has printed; NaN without its summary.
type loadOutput struct {
	intervals              []interval
	samples, seconds, rate float64
}

var (
	intervalLine = regexp.MustCompile(`^(\d+),([^,]+),([^,]+),[^,]+,[^,]+,[^,]+,[^,]+$`)
	summaryLine  = regexp.MustCompile(`^loaded (\d+) (?:metrics|samples) in ([\d.]+)\s?sec with \d+ workers ` +
		`\(mean rate ([\d.]+) `)
	countLine = regexp.MustCompile(`^Run complete after \d+ queries with \d+ workers`)
	statsLine = regexp.MustCompile(`(min|mean|max|stddev|sum|count):\s*([\d.]+)`)
)

func readLoad(path string) loadOutput {
	text, _ := os.ReadFile(path)
	o := loadOutput{samples: math.NaN(), seconds: math.NaN(), rate: math.NaN()}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\r\n")
		if f := intervalLine.FindStringSubmatch(line); f != nil {
			// Without an acknowledged batch in a period there is a - in place of numbers.
			o.intervals = append(o.intervals, interval{number(f[1]), number(f[2]), number(f[3])})
		} else if f := summaryLine.FindStringSubmatch(line); f != nil {
			o.samples, o.seconds, o.rate = number(f[1]), number(f[2]), number(f[3])
		}
	}
	return o
}

// firstSecond is the mean rate of the first second in which samples were acknowledged, whatever the period is.
func (o loadOutput) firstSecond(period float64) (rate float64, has bool) {
	at := slices.IndexFunc(o.intervals, func(i interval) bool { return i.total > 0 })
	if at < 0 {
		return 0, false
	}
	first := o.intervals[at:min(len(o.intervals), at+max(1, int(math.Round(1/period))))]
	for _, i := range first {
		rate += i.rate / float64(len(first))
	}
	return rate, true
}

// readQueries reads the last statistics that run_queries has printed, which are of all queries; nil without them.
func readQueries(path string) map[string]float64 {
	text, _ := os.ReadFile(path)
	complete := false
	var last map[string]float64
	for line := range strings.Lines(string(text)) {
		complete = complete || countLine.MatchString(line)
		if strings.HasPrefix(line, "min:") {
			last = map[string]float64{}
			for _, f := range statsLine.FindAllStringSubmatch(line, -1) {
				last[f[1]] = number(f[2])
			}
		}
	}
	if !complete {
		return nil
	}
	return last
}

func number(text string) float64 {
	value, _ := strconv.ParseFloat(text, 64)
	return value
}

// preciseMean is the mean in ms, from TSBS's mean or its sum, whichever has the smaller rounding error: the mean is
// printed to 0.01 ms, which is 3 % of a query of 0.3 ms, the sum to 0.1 s.
func preciseMean(stats map[string]float64) float64 {
	sum, mean := stats["sum"], stats["mean"]
	if sum > 0 && 0.05/sum < 0.005/mean {
		return sum * 1000 / stats["count"]
	}
	return known(mean, stats["count"] > 0)
}

package openloop

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// The sum of windows has the percentiles of all their values.
func TestWindowsAreAdded(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 2))
	var windows [][]*Result
	pooled := newResult().Response
	for range 4 {
		r := newResult()
		r.Planned, r.Started, r.Answered, r.Lines = 1000, 1000, 1000, 10
		for range r.Planned {
			d := time.Duration(math.Exp(draw.NormFloat64()) * float64(time.Millisecond) * float64(1+len(windows)))
			r.Response.put(d)
			r.Service.put(d)
			pooled.put(d)
		}
		windows = append(windows, []*Result{r})
	}
	sum := add(windows...)[0]
	if !sum.Response.Equals(pooled.Histogram) || !sum.Service.Equals(pooled.Histogram) || sum.Planned != 4000 ||
		sum.Answered != 4000 || sum.Lines != 40 || sum.Lateness.TotalCount() != 0 {
		t.Errorf("%+v", sum)
	}
}

package openloop

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// The sum of clients has the percentiles of all their values, also after the way through JSON.
func TestClientsAreAdded(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 2))
	var clients [][]*Result
	pooled := newResult().Response
	for range 4 {
		r := newResult()
		r.Planned, r.Started, r.Answered, r.Lines = 1000, 1000, 1000, 10
		for range r.Planned {
			d := time.Duration(math.Exp(draw.NormFloat64()) * float64(time.Millisecond) * float64(1+len(clients)))
			r.Response.put(d)
			r.Service.put(d)
			pooled.put(d)
		}
		text, err := json.Marshal([]*Result{r})
		must(t, err)
		var travelled []*Result
		must(t, json.Unmarshal(text, &travelled))
		clients = append(clients, travelled)
	}
	sum := Add(clients...)[0]
	if !sum.Response.Equals(pooled.Histogram) || !sum.Service.Equals(pooled.Histogram) || sum.Planned != 4000 ||
		sum.Answered != 4000 || sum.Lines != 40 || sum.Lateness.TotalCount() != 0 {
		t.Errorf("%+v", sum)
	}
}

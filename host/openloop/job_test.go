package openloop

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// The sum of four clients has the p99.9 of all values within 0.1 %, also after the way through JSON. The mean
// of four p99.9 is far off.
func TestClientsAreAdded(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 2))
	var clients [][]*Result
	var pooled []int64
	var averaged float64
	for client := range 4 {
		r := newResult()
		r.Planned, r.Started, r.Answered, r.Lines = 50_000, 50_000, 50_000, 10
		for range r.Planned {
			// One client is sometimes slow: averaging is wrong for tails that differ.
			d := time.Duration(math.Exp(draw.NormFloat64()) * float64(time.Millisecond))
			if client == 0 && draw.Float64() < 0.02 {
				d *= 50
			}
			r.Response.put(d)
			r.Service.put(d)
			pooled = append(pooled, int64(d))
		}
		averaged += float64(r.Response.ValueAtQuantile(99.9)) / 4
		text, err := json.Marshal([]*Result{r})
		var travelled []*Result
		if err != nil || json.Unmarshal(text, &travelled) != nil {
			t.Fatal(err)
		}
		clients = append(clients, travelled)
	}
	slices.Sort(pooled)
	sum := Add(clients...)[0]
	exact := float64(pooled[int(math.Ceil(0.999*float64(len(pooled))))-1])
	if found := float64(sum.Response.ValueAtQuantile(99.9)); math.Abs(found/exact-1) > 0.001 {
		t.Errorf("p99.9 of all is %.0f, and added %.0f", exact, found)
	}
	if math.Abs(averaged/exact-1) < 0.1 {
		t.Errorf("averaging would do: %.0f of %.0f; this test shows nothing", averaged, exact)
	}
	if sum.Planned != 200_000 || sum.Answered != 200_000 || sum.Lines != 40 || sum.Service.TotalCount() != 200_000 ||
		sum.Lateness.TotalCount() != 0 {
		t.Errorf("%+v", sum)
	}
}

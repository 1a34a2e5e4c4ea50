package openloop

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// What four clients saw, added, is what one would have seen of all: p99.9 within 0.1 % of the pooled values', where the mean
// of four p99.9 is far off. It also holds after their results have travelled.
func TestClientsAreAdded(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 2))
	var clients [][]*Result
	var pooled []int64
	var averaged float64
	for client := range 4 {
		r := &Result{Planned: 50_000, Started: 50_000, Answered: 50_000, Lines: 10, Response: newHistogram(), Service: newHistogram(), Lateness: newHistogram()}
		for range r.Planned {
			// One of the four is slow now and then: tails that differ are what averaging gets wrong.
			d := time.Duration(math.Exp(draw.NormFloat64()) * float64(time.Millisecond))
			if client == 0 && draw.Float64() < 0.02 {
				d *= 50
			}
			put(r.Response, d)
			put(r.Service, d)
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
	if sum.Planned != 200_000 || sum.Answered != 200_000 || sum.Lines != 40 || sum.Service.TotalCount() != 200_000 || sum.Lateness.TotalCount() != 0 {
		t.Errorf("%+v", sum)
	}
}

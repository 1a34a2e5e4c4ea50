package exchange

import (
	"io"
	"net/http"
	"sync/atomic"
	"testing"
)

func TestReplicasTakeOperationsInTurn(t *testing.T) {
	var asked [3]atomic.Int64
	var sides []Side
	for i := range asked {
		sides = append(sides, serve(t, "", func(w http.ResponseWriter, _ *http.Request) {
			asked[i].Add(1)
			io.WriteString(w, matrix("2", 1))
		}))
	}
	job := jobOf(t, 8, Side{URL: sides[0].URL + "," + sides[1].URL}, sides[2])
	if result := run(t, job); result.Stopped != "" || len(result.Exchanges) != 8 {
		t.Fatalf("stopped %q after %d", result.Stopped, len(result.Exchanges))
	}
	for i, want := range []int64{4, 4, 8} {
		if got := asked[i].Load(); got != want {
			t.Errorf("server %d was asked %d times, want %d", i, got, want)
		}
	}
}

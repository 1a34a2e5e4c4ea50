package openloop

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Schedule says when operations are meant to start.
type Schedule struct {
	Rate    float64       // operations a second
	Length  time.Duration // all are meant to start within it
	Poisson bool          // as independent clients would, drawn from Seed; else at equal distances
	Seed    uint64
}

// Starts are the intended starts, from the begin of the phase on: Rate x Length of them, whatever is drawn. A Poisson
// process of which the number is known is so many independent uniform times, sorted (Ross, Stochastic Processes, 2.3).
func (s Schedule) Starts() []time.Duration {
	starts := make([]time.Duration, int(s.Rate*s.Length.Seconds()+1e-9))
	draw := rand.New(rand.NewPCG(s.Seed, 16))
	for k := range starts {
		if s.Poisson {
			starts[k] = time.Duration(draw.Float64() * float64(s.Length))
		} else {
			starts[k] = time.Duration(float64(k) / s.Rate * float64(time.Second))
		}
	}
	slices.Sort(starts)
	return starts
}

const (
	// spinFor is how long before its time a start is waited for awake: what a sleep is usually late by.
	spinFor = 30 * time.Microsecond
	// napMost is how long a context may go unseen.
	napMost = 100 * time.Millisecond
)

// wait returns at a time, or when ctx has ended; spun is what was waited awake. Go's own timers would be up to a
// millisecond late: it waits for the network in whole ones.
func wait(ctx context.Context, until time.Time) (spun time.Duration) {
	for ctx.Err() == nil {
		left := time.Until(until)
		if left <= spinFor {
			begin := time.Now()
			for time.Now().Before(until) {
			}
			return time.Since(begin)
		}
		// By default the kernel may be 50 us late; the thread may be another one than last time.
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
		nap := unix.NsecToTimespec(int64(min(left-spinFor, napMost)))
		_ = unix.Nanosleep(&nap, nil)
	}
	return 0
}

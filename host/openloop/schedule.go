package openloop

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Schedule is the intended starts of operations.
type Schedule struct {
	Rate    float64       // operations a second
	Length  time.Duration // of the phase
	Poisson bool          // drawn from Seed, as of independent clients; else at equal distances
	Seed    uint64
}

// Starts returns Rate x Length intended starts, ascending, from the begin of the phase. A Poisson process
// with n events is n independent uniform times, sorted (Ross, Stochastic Processes, 2.3).
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
	spinFor = 30 * time.Microsecond  // busy waiting before a start: about how late the end of a sleep is
	napMost = 100 * time.Millisecond // the longest sleep, after which ctx is looked at
)

// wait waits until a time, or until ctx has ended. spun is the time of busy waiting. Go's own timers may be a
// millisecond late, since Go waits for the network in whole milliseconds.
func wait(ctx context.Context, until time.Time) (spun time.Duration) {
	for ctx.Err() == nil {
		left := time.Until(until)
		if left <= spinFor {
			begin := time.Now()
			for time.Now().Before(until) {
			}
			return time.Since(begin)
		}
		// By default the kernel may end a sleep 50 us late. Set it each time, since the thread may be a new one.
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
		nap := unix.NsecToTimespec(int64(min(left-spinFor, napMost)))
		_ = unix.Nanosleep(&nap, nil)
	}
	return 0
}

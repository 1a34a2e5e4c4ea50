package exchange

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// floor is who runs; asking and turns are written down in their order.
type floor struct {
	mutex  sync.Mutex // of bursts: two workers ask at the same time
	held   map[string]bool
	log    []string
	fails  string // this side cannot be held
	wrong  []string
	cancel context.CancelFunc
}

type turnOf struct {
	*floor
	name string
}

func (o turnOf) Hold() error {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if o.fails == o.name {
		return errors.New("it waits for a disk")
	}
	o.held[o.name], o.log = true, append(o.log, "-"+o.name)
	return nil
}

func (o turnOf) Release() error {
	o.held[o.name], o.log = false, append(o.log, "+"+o.name)
	return nil
}

// side answers, and notes whether exactly the others are held meanwhile.
func (f *floor) side(t *testing.T, name string, all ...string) Side {
	t.Helper()
	s := saying(t, name, func(*http.Request) string {
		f.mutex.Lock()
		defer f.mutex.Unlock()
		for _, other := range all {
			if f.held[other] == (other == name) {
				f.wrong = append(f.wrong, "while "+name+" was asked: "+other)
			}
		}
		f.log = append(f.log, name)
		if f.cancel != nil {
			f.cancel()
		}
		return matrix("2", 1)
	})
	s.Turn = turnOf{f, name}
	return s
}

func (f *floor) check(t *testing.T, log string) {
	t.Helper()
	if got := strings.Join(f.log, " "); got != log {
		t.Errorf("got  %s\nwant %s", got, log)
	}
	if len(f.wrong) > 0 {
		t.Error(f.wrong)
	}
	for name, held := range f.held {
		if held {
			t.Errorf("%s stands still after the phase", name)
		}
	}
}

func TestOnlyTheSideThatIsAskedRunsAndAllRunAfterThePhase(t *testing.T) {
	for name, c := range map[string]struct {
		sides           []string
		count, inFlight int
		log             string
		turns           int
	}{
		"two sides": {[]string{"B", "C"}, 3, 1, "-C B -B +C C C -C +B B -B +C C -C +B B +B +C", 5},
		"three sides": {[]string{"B", "C", "D"}, 2, 1,
			"-C -D B -B +C C -C +D D D -D +C C -C +B B +B +C +D", 5},
		"bursts": {[]string{"B", "C"}, 16, 2, "-C" + strings.Repeat(" B", 8) + " -B +C" + strings.Repeat(" C", 16) +
			" -C +B" + strings.Repeat(" B", 8) + " +B +C", 3},
	} {
		t.Run(name, func(t *testing.T) {
			f := &floor{held: map[string]bool{}}
			var sides []Side
			for _, side := range c.sides {
				sides = append(sides, f.side(t, side, c.sides...))
			}
			job := jobOf(t, c.count, sides...)
			job.InFlight = c.inFlight
			result := run(t, job)
			f.check(t, c.log)
			if result.Turns != c.turns || result.TurnTime <= 0 {
				t.Errorf("%d turns in %v", result.Turns, result.TurnTime)
			}
		})
	}
}

func TestAPhaseThatEndsEarlyLeavesNoSideHeld(t *testing.T) {
	f := &floor{held: map[string]bool{}, fails: "B"}
	job := jobOf(t, 3, f.side(t, "B", "B", "C"), f.side(t, "C", "B", "C"))
	job.Timeout = time.Minute
	_, err := Run(context.Background(), job)
	late, ok := errors.AsType[NotHeld](err)
	if !ok || late.Error() != "B did not stand still while C was to be asked: it waits for a disk" {
		t.Errorf("%v", err)
	}
	f.check(t, "-C B +B +C")

	ctx, cancel := context.WithCancel(context.Background())
	f = &floor{held: map[string]bool{}, cancel: cancel}
	job.Sides = asking(source(t, 3), f.side(t, "B", "B", "C"), f.side(t, "C", "B", "C"))
	if _, err := Run(ctx, job); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if !slices.Equal(f.log[len(f.log)-2:], []string{"+B", "+C"}) {
		t.Errorf("%v", f.log)
	}
}

func TestASideThatCannotBeHeldRunsOn(t *testing.T) {
	result := run(t, jobOf(t, 4, steady(t, "B"), steady(t, "C")))
	if result.Turns != 0 || result.TurnTime != 0 {
		t.Errorf("%d turns in %v", result.Turns, result.TurnTime)
	}
}

// A server that dies cannot be held either: it is out, and the others go on.
func TestASideThatFailsNeedNotStandStill(t *testing.T) {
	f := &floor{held: map[string]bool{}}
	dying := saying(t, "C", func(*http.Request) string {
		f.mutex.Lock()
		f.fails = "C"
		f.mutex.Unlock()
		panic(http.ErrAbortHandler)
	})
	dying.Turn = turnOf{f, "C"}
	result := run(t, jobOf(t, 3, f.side(t, "B"), dying, f.side(t, "D")))
	if result.Sides[1].Failure == "" || result.Sides[2].Compared != 3 || result.Stopped != "" {
		t.Errorf("%+v %q", result.Sides, result.Stopped)
	}
}

func TestATurnWithALengthHasOneOperationInTheFirstRoundThenAsManyOfItsFastestAsFillIt(t *testing.T) {
	ms := int64(time.Millisecond)
	round := []Exchange{{NS: []int64{130 * ms, 90 * ms}}, {NS: []int64{12 * ms, 0}}, {NS: []int64{11 * ms, 14 * ms}},
		{NS: []int64{20 * ms, 9 * ms}}}
	for _, c := range []struct{ lasts, done, want int }{
		{40, 0, 1}, {40, 3, 1}, {40, 4, 5}, {36, 4, 4}, {9, 4, 1}, {1, 4, 1}, {1000, 4, mostInTurn},
	} {
		if got := inTurn(time.Duration(c.lasts)*time.Millisecond, round[:c.done], 4); got != c.want {
			t.Errorf("%d in a turn of %d ms after %d exchanges, want %d", got, c.lasts, c.done, c.want)
		}
	}
	result := run(t, Job{Sides: asking(source(t, 100), steady(t, "a"), steady(t, "b")), Until: Until{Count: 30},
		TurnLasts: time.Hour})
	orders, firsts := "", ""
	for k, e := range result.Exchanges {
		if orders += e.Order[:1]; e.First {
			firsts += fmt.Sprint(k, " ")
		}
	}
	if orders != "0110"+"00000000"+"11111111"+"11111111"+"00" || firsts != "4 12 20 28 " ||
		result.Sides[1].Compared != 30 {
		t.Errorf("asked first %s, first of a turn %s, %+v", orders, firsts, result.Sides)
	}
}

func TestASideThatFailsIsNotAskedTheRestOfItsTurn(t *testing.T) {
	var asked atomic.Int64
	failing := serve(t, "b", func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) == 6 {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		io.WriteString(w, matrix("2", 1))
	})
	result := run(t, Job{Sides: asking(source(t, 100), steady(t, "a"), failing), Until: Until{Count: 30},
		TurnLasts: time.Hour})
	if asked.Load() != 6 || !strings.HasPrefix(result.Sides[1].Failure, "operation 5 ") ||
		result.Exchanges[4].NS[1] == 0 || result.Exchanges[6].NS[1] != 0 {
		t.Errorf("asked %d times, %+v", asked.Load(), result.Sides[1])
	}
}

func TestReplicasTakeOperationsInTurn(t *testing.T) {
	for _, lasts := range []time.Duration{0, time.Hour} { // whatever the length of a side's turn
		var mutex sync.Mutex
		var urls [3]string
		asked := ""
		for i := range urls {
			urls[i] = saying(t, "", func(*http.Request) string {
				mutex.Lock()
				defer mutex.Unlock()
				if i < 2 {
					asked += strconv.Itoa(i)
				}
				return matrix("2", 1)
			}).URL
		}
		job := jobOf(t, 12, Side{URL: urls[0] + "," + urls[1]}, Side{URL: urls[2]})
		job.TurnLasts = lasts
		if result := run(t, job); result.Stopped != "" || result.Sides[1].Compared != 12 || asked != "010101010101" {
			t.Errorf("turn of %v: stopped %q, asked %s, %+v", lasts, result.Stopped, asked, result.Sides)
		}
	}
}

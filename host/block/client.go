package block

import (
	"cmp"
	"context"
	"errors"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"tsduel/host/proc"
	"tsduel/host/record"
)

// watchEvery is how often a client and its server are looked at: often enough to see one die, and cheap.
const watchEvery = time.Second

// client is a command of TSBS that is watched. progress is any number that changes while it works; hung says that it never
// will, which is its own fault and no database's.
type client struct {
	verb
	stdout, stderr string
	stallS         float64
	progress       func(pid int) (float64, error)
	stalled        func() error
	hung           func(quiet time.Duration) bool
}

// errHung is a client that has to be started again.
var errHung = errors.New("the client hangs")

// drive runs a client to its end, or to the fault of who does not go on.
func (f *frame) drive(ctx context.Context, v *variant, c *client) (exit proc.Exit, err error) {
	for _, out := range []struct {
		path string
		file **os.File
	}{{c.stdout, &c.verb.stdout}, {c.stderr, &c.verb.stderr}} {
		if *out.file, err = os.Create(out.path); err != nil {
			return exit, err
		}
		defer (*out.file).Close()
	}
	s := v.front()
	if c.name == "load" {
		s = v.written()
	}
	p, err := f.start(v, s, c.verb)
	if err != nil {
		return exit, err
	}
	if c.stdin != nil {
		_ = c.stdin.Close() // the client's now: with ours open the feed would not see it end
	}
	return f.watch(ctx, v, c, p, p.Pid)
}

// working is a client at work, or several.
type working interface {
	Ended() <-chan struct{}
	Wait(context.Context) (proc.Exit, error)
	Kill() error
}

// watch waits for the end of a client, or for the fault of who does not go on.
func (f *frame) watch(ctx context.Context, v *variant, c *client, p working, pid int) (exit proc.Exit, err error) {
	clock := time.NewTicker(watchEvery)
	defer clock.Stop()
	for last, moved := -1.0, time.Now(); ; {
		select {
		case <-p.Ended():
			return p.Wait(ctx)
		case <-ctx.Done():
			err = ctx.Err()
		case <-clock.C:
			if err = f.died(v); err != nil {
				break
			}
			var at float64
			if at, err = c.progress(pid); err == nil && at != last {
				last, moved = at, time.Now()
			} else if quiet := time.Since(moved); err == nil && quiet >= record.Seconds(c.stallS) {
				err = c.stalled()
			} else if err == nil && c.hung != nil && c.hung(quiet) {
				err = errHung
			}
		}
		if err != nil {
			if killed := p.Kill(); killed != nil {
				return exit, killed
			}
			return exit, err
		}
	}
}

// acknowledged is the third field of the last whole line of a loader's CSV, of all of them: samples so far.
func acknowledged(csvs ...string) (samples float64) {
	for _, csv := range csvs {
		last := 0.0
		lines(func(line string) {
			if field := strings.Split(line, ","); strings.HasSuffix(line, "\n") && len(field) > 2 {
				if n, err := strconv.ParseFloat(field[2], 64); err == nil {
					last = n
				}
			}
		}, csv)
		samples += last
	}
	return samples
}

var status = regexp.MustCompile(`HTTP status \d+`)

func httpStatus(stderr ...string) string {
	last := "nothing"
	lines(func(line string) { last = cmp.Or(status.FindString(line), last) }, stderr...)
	return last
}

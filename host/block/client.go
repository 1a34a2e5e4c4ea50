package block

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"tsduel/host/proc"
	"tsduel/host/record"
)

// watchEvery is how often a client and its server are looked at: often enough to see one die, and cheap.
const watchEvery = time.Second

// unpacked gives a file through a pipe, unpacked by us, where it is packed; wait returns what went wrong with that.
func unpacked(path string) (feed *os.File, wait func() error, err error) {
	if !strings.HasSuffix(path, ".zst") {
		return nil, func() error { return nil }, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	unpack, err := zstd.NewReader(file)
	if err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	feed, in, err := os.Pipe()
	if err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	done := make(chan error, 1)
	go func() {
		_, err := io.Copy(in, unpack)
		unpack.Close()
		_, _ = file.Close(), in.Close()
		if errors.Is(err, unix.EPIPE) {
			err = nil // the loader has ended, and says itself why
		}
		done <- err
	}()
	return feed, func() error { _ = feed.Close(); return <-done }, nil
}

// client is a command of TSBS that is watched. progress is any number that changes while it works; hung says that it never
// will, which is its own fault and no database's.
type client struct {
	verb
	stdout, stderr string
	stallS         float64
	progress       func(*proc.Process) (float64, error)
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
			if at, err = c.progress(p); err == nil && at != last {
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

// acknowledged is the third field of the last whole line of the loader's CSV: samples so far.
func acknowledged(csv string) (samples float64) {
	lines(func(line string) {
		if field := strings.Split(line, ","); strings.HasSuffix(line, "\n") && len(field) > 2 {
			if n, err := strconv.ParseFloat(field[2], 64); err == nil {
				samples = n
			}
		}
	}, csv)
	return samples
}

var status = regexp.MustCompile(`HTTP status \d+`)

func httpStatus(stderr string) string {
	last := "nothing"
	lines(func(line string) { last = cmp.Or(status.FindString(line), last) }, stderr)
	return last
}

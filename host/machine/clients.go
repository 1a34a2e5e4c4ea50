package machine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"tsduel/host/openloop"
	"tsduel/host/proc"
	"tsduel/host/record"
)

// unpacked unpacks FILE.zst into a pipe; wait closes it and returns the error. For other files feed is nil.
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
	go record.Caught(func() {
		_, err := io.Copy(in, unpack)
		unpack.Close()
		_, _ = file.Close(), in.Close()
		if errors.Is(err, unix.EPIPE) {
			err = nil // the loader has ended, and its output says why
		} else if err != nil {
			err = fmt.Errorf("unpack %s: %w", path, err)
		}
		done <- err
	})()
	return feed, func() error { _ = feed.Close(); return <-done }, nil
}

// mostAhead is how long a client waits for its instant, which lies 0.2 s ahead.
const mostAhead = 10 * time.Second

// time is the instant by this machine's clock, also if the clock is set afterwards.
func (i Instant) time() (time.Time, error) {
	ahead := time.Until(time.Unix(0, i.At))
	if ahead > mostAhead {
		return time.Time{}, record.FailedError("the clock of a host was set by about %.0f s while clients agreed when to "+
			"begin: have it stand still (chrony, ntpd); the same command with RUN= goes on", ahead.Seconds())
	}
	return time.Now().Add(ahead), nil
}

// process is a process of this machine. Only one that is held has began and fed.
type process struct {
	*proc.Process
	began chan time.Time // gets the time of its first output; closed when all of its output is in its file
	fed   func() error
}

func (h *clients) Hold(c Held, pid *int) error {
	if err := os.MkdirAll(filepath.Dir(c.Out), 0o777); err != nil {
		return err
	}
	out, err := os.Create(c.Out)
	complaints, noComplaints := os.Create(c.Complaints)
	output, stdout, noPipe := os.Pipe()
	feed, fed, noFeed := unpacked(c.Feed)
	defer func() { _, _, _ = complaints.Close(), stdout.Close(), feed.Close() }() // the command has its own
	if err := errors.Join(err, noComplaints, noPipe, noFeed); err != nil {
		_, _ = out.Close(), output.Close()
		return err
	}
	client := &process{began: make(chan time.Time, 1), fed: fed}
	go record.Caught(func() {
		defer close(client.began)
		first := make([]byte, 1<<12)
		n, _ := output.Read(first)
		client.began <- time.Now()
		_, _ = out.Write(first[:n])
		_, _ = io.Copy(out, output)
		_, _ = out.Close(), output.Close()
	})()
	name := c.Argv[0]
	c.Argv = append([]string{"-c", `kill -STOP $$; exec "$BASH" "$0" "$@"`}, c.Argv...)
	if client.Process, err = execute(c.Command, feed, stdout, complaints, c.Complaints); err != nil {
		return err
	}
	h.remember(client)
	for *pid = client.Pid; ; {
		if stat, err := proc.Stat(client.Pid); err == nil && stat.State == "T" {
			return nil
		}
		select {
		case <-client.Ended():
			return fmt.Errorf("%s ended before it was let go", name)
		case <-h.ctx.Done():
			return h.ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}

func (h *clients) LetGo(at Instant, ran *Ran) (err error) {
	client, err := h.process(at.Client)
	if err != nil || client.began == nil {
		return cmp.Or(err, fmt.Errorf("process %d is not held", at.Client))
	}
	begin, err := at.time()
	if err != nil {
		return err
	}
	if err := record.Sleep(h.ctx, time.Until(begin)); err != nil {
		return err
	}
	_ = unix.Kill(client.Pid, unix.SIGCONT) // it may have been killed meanwhile
	if ran.Exit, err = client.Wait(h.ctx); err != nil {
		return err
	}
	if err := client.Kill(); err != nil { // processes that it has left would keep its stdout open
		return err
	}
	ran.Began, ran.CPUs = (<-client.began).UnixNano(), len(proc.Allowed())
	<-client.began
	return client.fed()
}

// clients send queries and lines, each from an instant on. Those of TSBS are programs.
type clients struct {
	*programs
	workload func(context.Context) (*record.Workload, error) // nil in the driver, which makes its own files
	mutex    sync.Mutex
	primed   []*client
}

// client is ready to send from the time on that at gets.
type client struct {
	at     chan time.Time
	ended  chan struct{}
	looped Looped
	err    error
}

func (h *clients) Prime(job openloop.Job, number *int) error {
	c := &client{at: make(chan time.Time, 1), ended: make(chan struct{})}
	ready := make(chan struct{})
	job.Meet = func(ctx context.Context) (time.Time, error) {
		close(ready)
		select {
		case at := <-c.at:
			return at, nil
		case <-ctx.Done():
			return time.Time{}, ctx.Err()
		}
	}
	go record.Caught(func() {
		defer close(c.ended)
		c.looped.CPUs = len(proc.Allowed())
		c.looped.Results, c.looped.Totals, c.err = openloop.Run(h.ctx, job)
	})()
	select {
	case <-ready:
	case <-c.ended:
		return c.err
	}
	h.mutex.Lock()
	defer h.mutex.Unlock()
	*number, h.primed = len(h.primed), append(h.primed, c)
	return nil
}

func (h *clients) Loop(at Instant, looped *Looped) error {
	h.mutex.Lock()
	c := h.primed[at.Client]
	h.mutex.Unlock()
	begin, err := at.time()
	if err != nil {
		return err
	}
	c.at <- begin
	<-c.ended
	*looped = c.looped
	return c.err
}

func (h *clients) Workload(_ None, made *record.Workload) error { return set(made)(h.workload(h.ctx)) }

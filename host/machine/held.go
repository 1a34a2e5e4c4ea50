package machine

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"tsduel/host/proc"
)

// Unpacked gives a file through a pipe, unpacked by us, where it is packed; wait returns what went wrong with that.
func Unpacked(path string) (feed *os.File, wait func() error, err error) {
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
		} else if err != nil {
			err = fmt.Errorf("unpack %s: %w", path, err)
		}
		done <- err
	}()
	return feed, func() error { _ = feed.Close(); return <-done }, nil
}

// held is a command that has stopped itself before it did anything.
type held struct {
	*proc.Process
	began chan time.Time // of its first word; closed once all of them are in its file
	fed   func() error
}

// Hold is of Machine.
func (h *Here) Hold(c Held, pid *int) error {
	if err := os.MkdirAll(filepath.Dir(c.Out), 0o777); err != nil {
		return err
	}
	out, err := os.Create(c.Out)
	complaints, failed := os.Create(c.Complaints)
	words, said, piped := os.Pipe()
	feed, fed, packed := Unpacked(c.Feed)
	defer func() { _, _, _ = complaints.Close(), said.Close(), feed.Close() }() // the command's own now
	if err := errors.Join(err, failed, piped, packed); err != nil {
		_, _ = out.Close(), words.Close()
		return err
	}
	one := &held{began: make(chan time.Time, 1), fed: fed}
	go func() {
		defer close(one.began)
		first := make([]byte, 1<<12)
		n, _ := words.Read(first)
		one.began <- time.Now()
		_, _ = out.Write(first[:n])
		_, _ = io.Copy(out, words)
		_, _ = out.Close(), words.Close()
	}()
	name := c.Argv[0]
	c.Argv = append([]string{"-c", `kill -STOP $$; exec "$BASH" "$0" "$@"`}, c.Argv...)
	if one.Process, err = Execute(c.Command, feed, said, complaints); err != nil {
		return err
	}
	h.mutex.Lock()
	h.processes[one.Pid], h.held[one.Pid] = one.Process, one
	h.mutex.Unlock()
	for *pid = one.Pid; ; {
		if stat, err := proc.Stat(one.Pid); err == nil && stat.State == "T" {
			return nil
		}
		select {
		case <-one.Ended():
			return fmt.Errorf("%s ended before it was let go", name)
		case <-h.ctx.Done():
			return h.ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}

// LetGo is of Machine.
func (h *Here) LetGo(at Instant, ran *Ran) (err error) {
	h.mutex.Lock()
	one := h.held[at.Client]
	h.mutex.Unlock()
	if one == nil {
		return fmt.Errorf("process %d is not held here", at.Client)
	}
	select {
	case <-time.After(time.Until(time.Unix(0, at.At))):
	case <-h.ctx.Done():
		return h.ctx.Err()
	}
	_ = unix.Kill(one.Pid, unix.SIGCONT) // one that was killed meanwhile has an exit to tell
	if ran.Exit, err = one.Wait(h.ctx); err != nil {
		return err
	}
	if err := one.Kill(); err != nil { // what it has left would keep its words open
		return err
	}
	ran.Began, ran.CPUs = (<-one.began).UnixNano(), len(proc.Allowed())
	<-one.began
	return one.fed()
}

package proc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"tsduel/host/record"
)

// MostLog is how large the log of a process may become, in bytes. A process that writes more is killed, and its log is
// cut. Tests set less.
var MostLog int64 = 64 << 20

const (
	keptLog  = 1 << 20                // of the head and of the tail of a log that is cut
	logEvery = 250 * time.Millisecond // how often a log is looked at
	// TooMuchLog begins the last line of a log that is too large.
	TooMuchLog = "tsduel ended it for writing too much: "
)

// watchLog kills the process once its log is too large, until it has ended; then the log is cut. A look at the size of
// a file costs a microsecond and does not touch the process. Through a pipe every line of it would wait for us.
func (p *Process) watchLog(path string) (end func()) {
	if path == "" {
		return func() {}
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go record.Caught(func() {
		defer close(done)
		clock := time.NewTicker(logEvery)
		defer clock.Stop()
		for {
			select {
			case <-ended:
				_, _ = CutLog(path, MostLog)
				return
			case <-clock.C:
				if info, err := os.Stat(path); err == nil && info.Size() > MostLog {
					_ = unix.Kill(-p.Pid, unix.SIGKILL)
					if p.group != nil {
						_ = p.group.kill()
					}
				}
			}
		}
	})()
	return func() { close(ended); <-done }
}

// CutLog cuts the middle out of a log that is larger than most, and says so in the log. Nobody may write to it any
// more. It returns how large the log was; 0 if it is not cut.
func CutLog(path string, most int64) (bytes int64, err error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if bytes = info.Size(); err != nil || bytes <= max(most, 2*keptLog) {
		return 0, err
	}
	tail, err := io.ReadAll(io.NewSectionReader(file, bytes-keptLog, keptLog))
	if err != nil {
		return 0, err
	}
	if err := file.Truncate(keptLog); err != nil { // first of all: the disk may be full
		return 0, err
	}
	cut := fmt.Sprintf("\n[tsduel has cut %d bytes out of this log here]\n", bytes-2*keptLog)
	last := fmt.Sprintf("\n%sits log had %d MiB\n", TooMuchLog, bytes>>20)
	_, err = file.WriteAt([]byte(cut+string(tail)+last), keptLog)
	return bytes, err
}

package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Exit codes, as in docs/operating.md.
const (
	ExitUser        = 2
	ExitFailed      = 3
	ExitInterrupted = 130
)

// Stop is an error that ends a run with an exit code of its own, and is said as one sentence.
type Stop struct {
	Code    int
	Message string
}

func (s *Stop) Error() string { return s.Message }

// UserError is one that the user can mend.
func UserError(format string, args ...any) error {
	return &Stop{ExitUser, fmt.Sprintf(format, args...)}
}

// FailedError is one that ends the run as failed.
func FailedError(format string, args ...any) error {
	return &Stop{ExitFailed, fmt.Sprintf(format, args...)}
}

// ReadJSON reads one JSON value; a file that holds anything after it is an error.
func ReadJSON(path string, v any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	return nil
}

// WriteJSON writes v as a file that is there whole or not at all, whatever ends us: its bytes reach the disk before its name.
func WriteJSON(path string, v any) error {
	text, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return WriteFile(path, append(text, '\n'))
}

// WriteFile does the same with bytes.
func WriteFile(path string, text []byte) error {
	partial := path + ".partial"
	f, err := os.Create(partial)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(partial, path)
	}
	if err != nil {
		os.Remove(partial)
		return err
	}
	return syncDir(filepath.Dir(path))
}

// Publish gives a directory its name, once all of it is on the disk: the name says that it is whole.
func Publish(partial, final string) error {
	dir, err := os.Open(partial)
	if err != nil {
		return err
	}
	err = errors.Join(unix.Syncfs(int(dir.Fd())), dir.Close())
	if err != nil {
		return fmt.Errorf("writing %s to the disk: %w", partial, err)
	}
	if err := os.Rename(partial, final); err != nil {
		return err
	}
	return syncDir(filepath.Dir(final))
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// FullBytes is with how little left a disk is full: a database stops writing before the last byte (VictoriaMetrics: 10 MB).
const FullBytes = 16 << 20

// IsFull says whether the disk of a directory is full, of bytes or of files, and how many bytes are free there.
func IsFull(dir string) (free int64, full bool) {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil {
		return 0, false
	}
	free = int64(s.Bavail) * s.Bsize
	return free, free < FullBytes || (s.Files > 0 && s.Ffree == 0)
}

// PrivateDir makes a directory, for its user alone where it is not there: nobody else reads along in a database.
func PrivateDir(path string) error {
	old := unix.Umask(0o077)
	defer unix.Umask(old)
	return os.MkdirAll(path, 0o700)
}

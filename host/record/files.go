package record

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// Exit codes, as in docs/operating.md.
const (
	ExitDefect      = 1
	ExitUser        = 2
	ExitFailed      = 3
	ExitInterrupted = 130
)

// Stop is an error in one sentence that ends a run with an exit code of its own.
type Stop struct {
	Code    int
	Message string
}

func (s *Stop) Error() string { return s.Message }

func UserError(format string, args ...any) error {
	return &Stop{ExitUser, fmt.Sprintf(format, args...)}
}

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

// IsCutShort says that a file is no whole JSON, as a power cut leaves it. Its error is no error of the disk.
func IsCutShort(err error) bool {
	_, cut := errors.AsType[*json.SyntaxError](err)
	return cut
}

// Unreadable is the error of what is finished and cannot be read now.
func Unreadable(path string, err error) error {
	if of, ok := errors.AsType[*os.PathError](err); ok {
		err = of.Err
	}
	return UserError("%s cannot be read (%v): nothing was removed; see dmesg for the disk, and `ulimit -n` for too many "+
		"open files, then the same command with RUN= goes on", path, err)
}

func WriteJSON(path string, v any) error {
	text, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return WriteFile(path, append(text, '\n'))
}

// WriteFile writes a file that is whole or absent, also after a power cut: its bytes are on the disk first.
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

// Packed is a gzip file that is written. Flush, and Close, return the first error of any write.
type Packed struct {
	*bufio.Writer
	pack *gzip.Writer
	file *os.File
}

func CreatePacked(path string) (*Packed, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	pack, err := gzip.NewWriterLevel(file, gzip.BestSpeed)
	return &Packed{bufio.NewWriterSize(pack, 1<<16), pack, file}, err
}

func (p *Packed) Close() error {
	return cmp.Or(p.Flush(), p.pack.Close(), p.file.Sync(), p.file.Close())
}

// Publish gives a file or directory its final name once it is on the disk: the name says that it is whole.
func Publish(partial, final string) error {
	if err := SyncDisk(partial); err != nil {
		return err
	}
	if err := os.Rename(partial, final); err != nil {
		return err
	}
	return syncDir(filepath.Dir(final))
}

// SyncDisk writes all dirty pages of a path's file system to its disk.
func SyncDisk(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	if err := errors.Join(unix.Syncfs(int(f.Fd())), f.Close()); err != nil {
		return fmt.Errorf("writing the disk of %s: %w", path, err)
	}
	return nil
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// With less free space a disk is full: a database stops before the last byte (VictoriaMetrics at 10 MB).
const fullBytes = 16 << 20

// IsFull returns the free bytes on the disk of a directory, and whether it is full, of bytes or of files.
func IsFull(dir string) (free int64, full bool) {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil {
		return 0, false
	}
	free = int64(s.Bavail) * s.Bsize
	return free, free < fullBytes || (s.Files > 0 && s.Ffree == 0)
}

// PrivateDir makes a directory, and those above it, for this user only: other users must not read a database.
// It refuses one that another user has put into a directory of all users, as /var/tmp or /dev/shm: that user
// could put links in the place of our files.
func PrivateDir(path string) error {
	old := unix.Umask(0o077)
	defer unix.Umask(old)
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	for dir := filepath.Clean(path); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		info, err := os.Lstat(dir)
		above, noParent := os.Stat(filepath.Dir(dir))
		if err := errors.Join(err, noParent); err != nil {
			return err
		}
		if owner := info.Sys().(*syscall.Stat_t).Uid; above.Mode()&os.ModeSticky != 0 && owner != 0 &&
			int(owner) != os.Geteuid() && above.Mode().Perm()&0o022 != 0 {
			return UserError("%s belongs to another user (uid %d), who could change our files there: "+
				"point TSDUEL_CACHE to a directory of your own", dir, owner)
		}
	}
	return nil
}

const marked = ".tsduel-data"

// WhyNotOurs says why a directory must not be wiped; "" if it may be wiped, or is absent. It is ours if the
// file NAME.tsduel-data is beside it, and if it is neither a link nor another disk: the marker says nothing
// about those.
func WhyNotOurs(dir string) string {
	const elsewhere = "; to measure another disk, point TSDUEL_CACHE to it"
	info, err := os.Lstat(dir)
	if os.IsNotExist(err) {
		return ""
	}
	if err != nil {
		return err.Error()
	}
	if info.Mode()&os.ModeSymlink != 0 {
		return dir + " is a link, and is not followed: remove it" + elsewhere
	}
	if marker, err := os.Lstat(dir + marked); err != nil || !marker.Mode().IsRegular() {
		return fmt.Sprintf("%s is not marked as ours (%s beside it), so it is not wiped: move it away",
			dir, filepath.Base(dir)+marked)
	}
	if parent, err := os.Lstat(filepath.Dir(dir)); err != nil || deviceOf(info) != deviceOf(parent) {
		return dir + " is a disk of its own, so it is not wiped: unmount it" + elsewhere
	}
	return ""
}

// Wipe empties a directory of ours, or makes and marks a new one.
func Wipe(dir string) error {
	if why := WhyNotOurs(dir); why != "" {
		return UserError("%s", why)
	}
	if err := os.WriteFile(dir+marked, nil, 0o600); err != nil {
		return err
	}
	return errors.Join(RemoveTree(dir), PrivateDir(dir))
}

// RemoveTree removes a directory and all in it, also read-only files. It does not follow links. If another
// disk is mounted in the directory, nothing is removed.
func RemoveTree(dir string) error {
	top, err := os.Lstat(dir)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	err = filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if deviceOf(info) != deviceOf(top) {
			return fmt.Errorf("%s is not removed: another disk is mounted at %s", dir, path)
		}
		// Go makes the directories of its modules read-only.
		if mode := info.Mode().Perm(); mode&0o700 != 0o700 {
			return os.Chmod(path, mode|0o700)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

func deviceOf(info os.FileInfo) uint64 { return info.Sys().(*syscall.Stat_t).Dev }

// UsedBytes returns what a file, or all in a directory, takes on the disk.
func UsedBytes(path string) (bytes int64) {
	_ = filepath.WalkDir(path, func(_ string, entry os.DirEntry, err error) error {
		if err == nil {
			if info, err := entry.Info(); err == nil {
				bytes += info.Sys().(*syscall.Stat_t).Blocks * 512
			}
		}
		return nil // a file that has just been removed takes nothing
	})
	return bytes
}

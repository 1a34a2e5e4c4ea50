package machine

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"tsduel/host/record"
)

// Directories are wiped if they are marked as ours, removed with their content, then made.
type Directories struct{ Wipe, Remove, Make []string }

func Prepare(d Directories) (err error) {
	for _, dir := range d.Wipe {
		err = errors.Join(err, record.Wipe(dir))
	}
	for _, dir := range d.Remove {
		err = errors.Join(err, record.RemoveTree(dir))
	}
	for _, dir := range d.Make {
		err = errors.Join(err, os.MkdirAll(dir, 0o777))
	}
	return err
}

// ReadOnce reads every file in a directory into the page cache, and returns their bytes.
func ReadOnce(ctx context.Context, dir string) (read int64, err error) {
	buffer := make([]byte, 1<<20)
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		defer context.AfterFunc(ctx, func() { _ = file.Close() })()
		// Hide the methods of both by which io would copy in small pieces.
		bytes, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{file}, buffer)
		read += bytes
		return cmp.Or(ctx.Err(), err)
	})
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("reading the databases' files once: %w", err)
	}
	return read, err
}

// DropCaches has the kernel drop what it keeps of all files, which needs root.
func DropCaches(dir string) error {
	if err := record.SyncDisk(dir); err != nil {
		return err
	}
	const file = "/proc/sys/vm/drop_caches"
	err := os.WriteFile(file, []byte("3"), 0o644)
	if errors.Is(err, os.ErrPermission) {
		err = exec.Command("sudo", "-n", "sh", "-c", "echo 3 >"+file).Run()
	}
	if err != nil {
		return record.UserError("host.drop_caches is set, and the page cache cannot be dropped here (%v): "+
			"run as root, or where sudo needs no password, or SET=\"host.drop_caches=false\"", err)
	}
	return nil
}

// Sums are the sha256 of those files that exist, by path.
func Sums(paths []string) (sums map[string]string, err error) {
	sums = map[string]string{}
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			continue
		}
		hash := sha256.New()
		_, err = io.Copy(hash, file)
		if err := errors.Join(err, file.Close()); err != nil {
			return sums, err
		}
		sums[path] = hex.EncodeToString(hash.Sum(nil))
	}
	return sums, nil
}

package block

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"tsduel/host/record"
)

// duplicate copies the directory of a stopped database, file by file: by a hard link, where the target says that the file is never
// changed once it is written (immutable, a pattern of paths below the directory of a component); else its bytes, which share their
// blocks where the file system can do that.
func duplicate(ctx context.Context, from, to, immutable string) (how record.CopyRecord, err error) {
	begin := time.Now()
	shared, err := regexp.Compile("^(?:" + immutable + ")$")
	if err != nil {
		return how, fmt.Errorf("the target's immutable: %w", err)
	}
	if err := record.RemoveTree(to); err != nil {
		return how, err
	}
	err = filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err = errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		name, _ := filepath.Rel(from, path)
		target := filepath.Join(to, name)
		switch mode := entry.Type(); {
		case mode.IsDir():
			return os.MkdirAll(target, 0o777)
		case mode&fs.ModeSymlink != 0:
			link, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return os.Symlink(link, target)
		case !mode.IsRegular():
			return nil // a socket or a pipe: made again by who needs it
		}
		_, below, _ := strings.Cut(name, string(filepath.Separator)) // the component's role
		return duplicateFile(path, target, shared.MatchString(below), &how)
	})
	how.Seconds = time.Since(begin).Seconds()
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("copy the database in %s: %w", from, err)
	}
	return how, err
}

func duplicateFile(path, target string, shared bool, how *record.CopyRecord) error {
	from, err := os.Open(path)
	if err != nil {
		return err
	}
	defer from.Close()
	info, err := from.Stat()
	if err != nil {
		return err
	}
	how.Bytes += info.Size()
	if shared && os.Link(path, target) == nil { // not between disks, or where links are not allowed
		how.Linked++
		return nil
	}
	to, err := os.OpenFile(target, os.O_CREATE|os.O_EXCL|os.O_WRONLY, info.Mode().Perm()|0o600)
	if err != nil {
		return err
	}
	how.Copied++
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
}

// sum is what a file is known by: its size and the CRC-32C of its bytes.
type sum struct {
	size int64
	crc  uint32
}

// sumsOf are those of all files below a directory, by path.
func sumsOf(ctx context.Context, dir string) (map[string]sum, error) {
	sums, table := map[string]sum{}, crc32.MakeTable(crc32.Castagnoli)
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err = errors.Join(err, ctx.Err()); err != nil || !entry.Type().IsRegular() {
			return err
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		hash := crc32.New(table)
		size, err := io.Copy(hash, file)
		sums[path] = sum{size, hash.Sum32()}
		return err
	})
	return sums, err
}

// unlike is the first file, by name, that is not what it was; empty if there is none.
func unlike(before, after map[string]sum) string {
	for _, path := range slices.Sorted(maps.Keys(before)) {
		if after[path] != before[path] {
			return path
		}
	}
	return ""
}

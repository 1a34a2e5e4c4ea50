package machine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"tsduel/host/record"
)

// Copying is two paths. Immutable is a pattern of paths below a component's directory: these files become hard links.
// Without a pattern none does.
type Copying struct{ From, To, Immutable string }

// Copy copies a directory of stopped databases. It takes minutes for a large one, so it ends with ctx.
func Copy(ctx context.Context, c Copying) (how record.CopyRecord, err error) {
	begin := time.Now()
	shared, err := regexp.Compile("^(?:" + c.Immutable + ")$")
	if err != nil {
		return how, fmt.Errorf("the target's immutable: %w", err)
	}
	if err := record.RemoveTree(c.To); err != nil {
		return how, err
	}
	err = filepath.WalkDir(c.From, func(path string, entry fs.DirEntry, err error) error {
		if err = cmp.Or(ctx.Err(), err); err != nil {
			return err
		}
		name, _ := filepath.Rel(c.From, path)
		target := filepath.Join(c.To, name)
		switch mode := entry.Type(); {
		case mode.IsDir():
			return os.MkdirAll(target, 0o777)
		case mode&fs.ModeSymlink != 0:
			link, err := os.Readlink(path)
			return errors.Join(err, os.Symlink(link, target))
		case !mode.IsRegular():
			return nil // the database makes its sockets and pipes again
		}
		_, below, _ := strings.Cut(name, string(filepath.Separator)) // the first part is the component's role
		return copyFile(ctx, path, target, c.Immutable != "" && shared.MatchString(below), &how)
	})
	how.Seconds = time.Since(begin).Seconds()
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("copy the database in %s: %w", c.From, err)
	}
	return how, err
}

func copyFile(ctx context.Context, path, target string, shared bool, how *record.CopyRecord) error {
	from, err := os.Open(path)
	if err != nil {
		return err
	}
	defer from.Close()
	defer context.AfterFunc(ctx, func() { _ = from.Close() })() // a file may be larger than the disk
	info, err := from.Stat()
	if err != nil {
		return err
	}
	how.Bytes += info.Size()
	if shared && os.Link(path, target) == nil { // links are not possible between disks, and not allowed everywhere
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

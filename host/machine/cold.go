package machine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"tsduel/host/record"
)

const (
	dropAttempts = 5 // the kernel may still hold a page that it has just written
	dropAgain    = 100 * time.Millisecond
	mapped       = 1 << 30 // bytes of a file that are looked at together
)

// Drop has the kernel drop the pages of all files in a directory, which needs no rights, and checks that none
// is left in memory. Else a cache cannot be cold here, which is the user's to know.
func Drop(ctx context.Context, dir string) error {
	for attempt := 1; ; attempt++ {
		left, total, worst := 0, 0, ""
		err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() {
				return err
			}
			resident, pages, err := dropFile(path)
			if left, total = left+resident, total+pages; resident > 0 {
				worst = path
			}
			return cmp.Or(ctx.Err(), err)
		})
		if err != nil {
			return fmt.Errorf("dropping the databases' files from memory: %w", err)
		}
		if left == 0 {
			return nil
		}
		if attempt == dropAttempts {
			return record.UserError("queries.cache is cold, and %d of %d pages of the databases' files stay in memory although "+
				"the kernel was asked to drop them (%s): point TSDUEL_CACHE to a disk (not tmpfs), end what has these files "+
				"open, or choose another state with SET=\"queries.cache=as-loaded\"", left, total, worst)
		}
		if err := record.Sleep(ctx, dropAgain); err != nil {
			return err
		}
	}
}

// dropFile returns how many pages of a file stay in memory, of how many. mincore is asked and not cachestat,
// which does not see the files below an overlay.
func dropFile(path string) (resident, pages int, err error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, 0, err
	}
	defer file.Close()
	fd := int(file.Fd())
	info, err := file.Stat()
	// The kernel drops only pages that are on the disk.
	err = errors.Join(err, unix.Fdatasync(fd), unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED))
	page := int64(os.Getpagesize())
	for from := int64(0); err == nil && from < info.Size(); from += mapped {
		length := min(mapped, info.Size()-from)
		at, noMap := unix.Mmap(fd, from, int(length), unix.PROT_READ, unix.MAP_SHARED)
		if noMap != nil {
			return resident, pages, noMap
		}
		in := make([]byte, (length+page-1)/page)
		_, _, wrong := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&at[0])), uintptr(length),
			uintptr(unsafe.Pointer(&in[0])))
		if err = unix.Munmap(at); wrong != 0 {
			return resident, pages, fmt.Errorf("mincore: %w", wrong)
		}
		for _, state := range in {
			resident += int(state & 1)
		}
		pages += len(in)
	}
	return resident, pages, err
}

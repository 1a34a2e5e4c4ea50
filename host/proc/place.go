package proc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"tsduel/host/record"
)

const (
	placedAs = "program"
	// ext4 of Linux 6.18 puts each piece of a write into adjacent frames: with 1 MiB 16 MiB of VictoriaMetrics
	// lay in 11 to 17 runs, with 32 KiB in 263 to 396. 2 MiB gave huge pages, and a variant that gets none by
	// chance would be at a disadvantage.
	pieceBytes = 1 << 20
)

// Place empties dir and copies a program to dir/program. A new file has new pages in memory, so each start
// has its own luck with them. Files beside the program are linked beside the copy.
func Place(program, dir string) (path string, err error) {
	path = filepath.Join(dir, placedAs)
	if err = prepare(dir); err == nil {
		err = writeAnew(program, path)
	}
	if err == nil {
		err = linkBeside(program, dir)
	}
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		err = record.UserError("there is no room in %s for a copy of %s, which is made before each start: "+
			"free some, or point TSDUEL_CACHE to a larger disk", dir, program)
	}
	return path, err
}

func prepare(dir string) error {
	if err := errors.Join(record.RemoveTree(dir), os.MkdirAll(dir, 0o777)); err != nil {
		return err
	}
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		return fmt.Errorf("look at the disk of %s: %w", dir, err)
	}
	if disk.Flags&unix.MS_NOEXEC != 0 { // ST_NOEXEC is the same bit
		return record.UserError("no program may run in %s, whose disk is mounted noexec, and what is measured is "+
			"copied there before each start: mount it without noexec, or point TSDUEL_CACHE to another disk", dir)
	}
	return nil
}

func writeAnew(program, path string) error {
	from, err := os.Open(program)
	if errors.Is(err, fs.ErrPermission) {
		return record.UserError("%s cannot be read, and a copy of it is made before each start: "+
			"make it readable for who runs this (chmod a+r)", program)
	}
	if err != nil {
		return err
	}
	defer from.Close()
	// A process that starts meanwhile would inherit the open file for a moment, and block its execution.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	to, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	// Hide copy_file_range: the copies would share blocks of the disk.
	_, err = io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, make([]byte, pieceBytes))
	return errors.Join(err, to.Chmod(0o755), to.Close())
}

func linkBeside(program, dir string) error {
	program, err := filepath.Abs(program)
	if err != nil {
		return err
	}
	home := filepath.Dir(program)
	beside, err := os.ReadDir(home)
	for _, entry := range beside {
		if name := entry.Name(); err == nil && name != filepath.Base(program) && name != placedAs {
			err = os.Symlink(filepath.Join(home, name), filepath.Join(dir, name))
		}
	}
	return err
}

// Placed counts the pages of a program that the process has touched, and the runs of adjacent page frames in
// which they lie; -1 if the kernel does not say.
func Placed(pid int, program string) (found record.Placed) {
	unknown := record.Placed{Frames: -1, Pages: -1}
	program, noPath := filepath.EvalSymlinks(program) // as the kernel names it
	p, noProcess := FS().Proc(pid)
	mappings, noMaps := p.ProcMaps()
	pagemap, noPages := os.Open(procPath(strconv.Itoa(pid) + "/pagemap"))
	if noPages != nil {
		return unknown
	}
	defer pagemap.Close()
	if errors.Join(noPath, noProcess, noMaps) != nil {
		return unknown
	}
	const present, ofFile, number = 1 << 63, 1 << 61, 1<<55 - 1 // proc_pid_pagemap(5)
	size := int64(os.Getpagesize())
	var before int64
	for _, m := range mappings {
		if m.Pathname != program {
			continue
		}
		entries := make([]byte, int64(m.EndAddr-m.StartAddr)/size*8)
		if _, err := pagemap.ReadAt(entries, int64(m.StartAddr)/size*8); err != nil {
			return unknown
		}
		for i := range int64(len(entries) / 8) {
			entry := binary.NativeEndian.Uint64(entries[8*i:])
			if entry&present == 0 || entry&ofFile == 0 { // not touched, or written to and no longer the file's
				continue
			}
			frame := int64(entry & number)
			if frame == 0 { // hidden from users who are not root
				return unknown
			}
			// This is the same within a run, even if some pages of it were not touched.
			ahead := frame - (m.Offset/size + i)
			if found.Pages == 0 || ahead != before {
				found.Frames++
			}
			before = ahead
			found.Pages++
		}
	}
	if found.Pages == 0 {
		return unknown
	}
	return found
}

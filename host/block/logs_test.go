package block

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"tsduel/host/proc"
	"tsduel/host/record"
)

// A version whose log fills the disk is blamed for that, whoever notices it first, and the disk has room again.
func TestALogThatFillsTheDisk(t *testing.T) {
	defer func(usual int64) { proc.MostLog = usual }(proc.MostLog)
	proc.MostLog = 1 << 30
	spec := fakes(t, "", "flood")
	if err := unix.Mount("tmpfs", spec.Raw, "tmpfs", 0, "size=40m"); err != nil {
		t.Skip("no disk can be mounted here: ", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(spec.Raw, unix.MNT_DETACH) })
	check(t, os.MkdirAll(spec.Dir, 0o755))
	b := run(t, spec)
	if !slices.ContainsFunc(b.Failures, func(f record.Failure) bool {
		return f.Variant == "candidate" && strings.Contains(f.Message, " was full: the logs of candidate took ")
	}) {
		t.Errorf("%+v", b.Failures)
	}
	if free, full := record.IsFull(spec.Dir); full {
		t.Errorf("%d MiB are free", free>>20)
	}
}

// What we could not write because of a variant's log is the variant's fault. Without such a log it is no fault.
func TestAnErrorOfADiskThatALogHasFilled(t *testing.T) {
	full := &os.PathError{Op: "write", Path: "values.csv", Err: unix.ENOSPC}
	for size, want := range map[int]int{20 << 20: 2, 100: 0} {
		dir := t.TempDir()
		plan := &record.Plan{Variants: []record.Variant{{Name: "candidate"}}}
		f := newFrame(record.Spec{Dir: dir, RunDir: dir, Plan: plan}, nil)
		log := filepath.Join(dir, "candidate", "upgrade", "server.log")
		f.variants["candidate"] = newVariant(f, plan.Variants[0])
		check(t, os.MkdirAll(filepath.Dir(log), 0o755), os.WriteFile(log, make([]byte, size), 0o644))
		err := f.blameLogs(full)
		if len(f.block.Failures) != want || (err == nil) != (want > 0) {
			t.Errorf("%d bytes: %v, %+v", size, err, f.block.Failures)
		}
		if want > 0 && (f.block.Failures[0].Variant != "candidate" || f.block.Failures[1].Variant != "" ||
			must(os.Stat(log)).Size() > 3<<20) {
			t.Errorf("%+v, %d bytes", f.block.Failures, must(os.Stat(log)).Size())
		}
	}
}

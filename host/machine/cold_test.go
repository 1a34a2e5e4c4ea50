package machine

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"tsduel/host/record"
)

// A cold cache has no page of the databases' files; where the kernel keeps them, it is refused in a sentence.
func TestWhatIsDroppedIsOutOfMemory(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a", "part")
	fill := func(path string) {
		t.Helper()
		must(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, make([]byte, 3<<20+1), 0o644),
			os.WriteFile(path+".empty", nil, 0o644)))
	}
	fill(path)
	must(t, Drop(t.Context(), dir)) // it fails if the test's own directory is in memory (tmpfs): set TMPDIR
	resident, pages, err := dropFile(path)
	check(t, resident == 0 && pages == (3<<20)/os.Getpagesize()+1 && err == nil, resident, pages, err)
	memory := filepath.Join(dir, "memory")
	must(t, os.Mkdir(memory, 0o755))
	if unix.Mount("tmpfs", memory, "tmpfs", 0, "size=8m") != nil {
		t.Skip("no disk can be mounted here")
	}
	t.Cleanup(func() { _ = unix.Unmount(memory, unix.MNT_DETACH) })
	fill(filepath.Join(memory, "part"))
	wantStop(t, Drop(t.Context(), memory), record.ExitUser,
		"queries.cache is cold, and 769 of 769 pages of the databases' files stay in memory")
}

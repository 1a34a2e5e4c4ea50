package proc

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"tsduel/host/record"
)

func place(t *testing.T, program, dir string) (path string, inode uint64) {
	t.Helper()
	path, err := Place(program, dir)
	must(t, err)
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o755 {
		t.Fatal(info, err)
	}
	return path, info.Sys().(*syscall.Stat_t).Ino
}

// A placed program is a new file in an emptied directory, and finds the files beside the original.
func TestAPlacedProgramIsAFileOfItsOwn(t *testing.T) {
	root := t.TempDir()
	program, dir := filepath.Join(root, "there", "tool"), filepath.Join(root, "places", "01", "01")
	write(t, root, map[string]string{"there/tool": "#!/bin/sh\n. \"${0%/*}/words\"\n", "there/words": "exit 7\n",
		"places/01/01/left": "of another"})
	must(t, os.Chmod(program, 0o700))
	first, inode := place(t, program, dir)
	// While the first copy is open its inode cannot be used again.
	open, err := os.Open(first)
	must(t, err)
	running := start(t, Command{Argv: []string{"/bin/sleep", "60"}, Stdin: open, Scratch: "/test"})
	_, err = os.Stat(filepath.Join(dir, "left"))
	failIf(t, !os.IsNotExist(err) || first != filepath.Join(dir, "program"), "%v %v", first, err)
	code := exitOf(t, start(t, Command{Argv: []string{first}, Scratch: "/test"})).Code
	failIf(t, code != 7, "it did not find what lies beside it: %v", code)
	again, other := place(t, program, dir)
	failIf(t, again != first || other == inode || !alive(running), "%v %v %v", again, other, inode)
}

// If a program cannot be placed, a sentence says why, and what to do.
func TestWhatCannotBePlacedIsSaidInASentence(t *testing.T) {
	root := t.TempDir()
	program := filepath.Join(root, "there", "tool")
	write(t, root, map[string]string{"there/tool": strings.Repeat("x", 1<<20)})
	refused := func(dir, want string) {
		t.Helper()
		var stop *record.Stop
		_, err := Place(program, dir)
		failIf(t, !errors.As(err, &stop) || stop.Code != record.ExitUser || !strings.Contains(err.Error(), want),
			"%v", err)
	}
	disk := func(name, options string, flags uintptr) string {
		dir := filepath.Join(root, name)
		if err := errors.Join(os.Mkdir(dir, 0o755), unix.Mount("tmpfs", dir, "tmpfs", flags, options)); err != nil {
			t.Skip("no disk can be mounted here: ", err)
		}
		t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
		return filepath.Join(dir, "01", "01")
	}
	if os.Getuid() != 0 { // root reads everything
		must(t, os.Chmod(program, 0o311))
		refused(filepath.Join(root, "01"), "cannot be read, and a copy of it is made before each start: make it readable")
		t.Skip("no disk can be mounted here")
	}
	refused(disk("full", "size=64k", 0), "for a copy of "+program+", which is made before each start: free some")
	refused(disk("noexec", "size=4m", unix.MS_NOEXEC), "is mounted noexec")
}

// Root can see how a placed program lies in memory.
func TestHowAProgramLiesInMemory(t *testing.T) {
	path, _ := place(t, os.Args[0], filepath.Join(t.TempDir(), "01"))
	p := start(t, Command{Argv: []string{path, "burn"}, Scratch: "/test"})
	var found record.Placed
	waitFor(t, "its pages", func() bool {
		found = Placed(p.Pid, path)
		return found.Pages > 20 || os.Getuid() != 0
	})
	if os.Getuid() != 0 && found.Frames == -1 {
		t.Skip("not to us")
	}
	failIf(t, found.Frames < 1 || found.Frames > found.Pages || found.Pages < 20, "%+v", found)
	other := Placed(p.Pid, "/bin/sh")
	failIf(t, other.Frames != -1 || other.Pages != -1, "of a program that it does not run: %+v", other)
	if gone := Placed(1<<30, path); gone != (record.Placed{Frames: -1, Pages: -1}) {
		t.Errorf("of a process that is not there: %+v", gone)
	}
}

// A process inherits the variables on a list, and gets those of its Command.
func TestTheEnvironmentIsAList(t *testing.T) {
	for name, value := range map[string]string{"GOGC": "5", "LC_ALL": "C", "HOME": "/nowhere", "http_proxy": "p",
		"FAKE_X": "x"} {
		t.Setenv(name, value)
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "said"))
	must(t, err)
	defer file.Close()
	exitOf(t, start(t, Command{Argv: []string{"/usr/bin/env"}, Env: []string{"GOMAXPROCS=3", "HOME=/mine"}, Stdout: file,
		Scratch: "/test"}))
	said := "\n" + Text(file.Name()) + "\n"
	for _, want := range []string{"LC_ALL=C", "HOME=/mine", "GOMAXPROCS=3", "FAKE_X=x", "TSDUEL_SCRATCH=/test",
		"PATH=" + os.Getenv("PATH")} {
		failIf(t, !strings.Contains(said, "\n"+want+"\n"), "no %s in %s", want, said)
	}
	if strings.Contains(said, "GOGC") || strings.Contains(said, "http_proxy") || strings.Contains(said, "/nowhere") {
		t.Error(said)
	}
}

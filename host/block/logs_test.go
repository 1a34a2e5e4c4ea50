package block

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"tsduel/host/machine"
	"tsduel/host/proc"
	"tsduel/host/record"
)

// A server's last words are the crash before its stack, else the newest complaint, else the last line.
func TestLastWords(t *testing.T) {
	const unknown = "Error parsing command line arguments: unknown long flag '--no'"
	for _, c := range [][2]string{
		{"info: x\nflag provided but not defined: -no\nUsage:\n", "flag provided but not defined: -no"},
		{"T\tinfo\tup\nT\tfatal\tmain.go:7\tno space left\nT\tinfo\tbye\n", "T fatal main.go:7 no space left"},
		{"panic: index out of range\n\ngoroutine 7 [running]:\nmain.f()\n", "panic: index out of range"},
		{"T\twarn\told\nT\twarn\ttoo many series\nT\tinfo\tfine\n", "T warn too many series"},
		{unknown + "\nusage: prometheus [<flags>]\n\n\n", unknown},
		{"level=ERROR msg=\"no storage\"\nlevel=INFO msg=bye\n", "level=ERROR msg=\"no storage\""},
		{"T\tinfo\tone\nT\tinfo\ttwo\n", "T info two"},
		{"", "it said nothing"},
		{strings.Repeat("x", 1<<20) + "\nT\tinfo\ttwo\n", "T info two"},
		{"panic: " + strings.Repeat("x", 1<<20), "panic: " + strings.Repeat("x", 393)},
	} {
		log := filepath.Join(t.TempDir(), "001.partial", "server.log")
		check(t, os.MkdirAll(filepath.Dir(log), 0o755), os.WriteFile(log, []byte(c[0]), 0o644))
		want := c[1] + " (its log: " + strings.Replace(log, ".partial", "", 1) + ")"
		if got := lastWords(&server{log: log}); got != want {
			t.Errorf("of %q: %q", c[0], got)
		}
	}
}

// Who asks for the CPU of a server that has just ended learns that it died, and no error of ours.
func TestCPUOfAServerThatHasDied(t *testing.T) {
	log := filepath.Join(t.TempDir(), "server.log")
	process := must(machine.Start(machine.Command{Argv: []string{"-c", "echo no space left"}, Log: log}))
	<-process.Ended()
	v := &variant{frame: newFrame(record.Spec{}, nil)}
	s := &server{variant: v, role: "server", process: process, pid: process.Pid, log: log}
	if _, err := (servers{s}).cpu(); err == nil || !strings.Contains(err.Error(), ") died: no space left") {
		t.Error(err)
	}
}

// The memory of a variant is not known if that of one of its components is not: a sum over the others is no small one.
func TestMemoryOfAServerThatHasDied(t *testing.T) {
	both := servers{{role: "vmauth", pid: 1 << 30}, {role: "server", pid: os.Getpid()}}
	if sum, rss := both.kernel(); sum.RSS != -1 || sum.PeakRSS != -1 || rss["vmauth"] != -1 || rss["server"] <= 0 {
		t.Errorf("%+v %v", sum, rss)
	}
}

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

// A client's words are what Go prints before its stack, or the last line that is not empty.
func TestClientWords(t *testing.T) {
	for text, want := range map[string]string{
		"panic: status 422\n\ngoroutine 1 [running]:\nmain.main()\n\t/x.go:7\n": "panic: status 422",
		"2026/11/20 dial tcp: connection refused\n\n":                           "2026/11/20 dial tcp: connection refused",
		"zstd: data.zst : Data corruption detected\nend\n":                      "zstd: data.zst : Data corruption detected",
		"": "it said nothing",
	} {
		path := filepath.Join(t.TempDir(), "err")
		check(t, os.WriteFile(path, []byte(text), 0o644))
		if got := clientWords(path, filepath.Join(t.TempDir(), "absent")); got != want {
			t.Errorf("of %q: %q", text, got)
		}
	}
}

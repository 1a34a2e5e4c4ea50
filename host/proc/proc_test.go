package proc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestMain runs the tests, or as a child of a test what its first argument says.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "parent": // starts a child as we do, says its number, and is killed
			p, err := Start(Command{Argv: []string{"/bin/sleep", "600"}, Scratch: "/test"})
			fmt.Println(p.Pid, err)
			time.Sleep(time.Minute)
			return
		case "burn":
			for begin := time.Now(); time.Since(begin) < time.Minute; {
			}
			return
		}
	}
	_ = Subreaper()
	code := m.Run()
	Leave()
	os.Exit(code)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func failIf(t *testing.T, wrong bool, format string, args ...any) {
	t.Helper()
	if wrong {
		t.Errorf(format, args...)
	}
}

// write makes files in a directory, each with an end of line.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(text+"\n"), 0o644))
	}
}

func waitFor(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for: %s", what)
		}
	}
}

func start(t *testing.T, c Command) *Process {
	t.Helper()
	p, err := Start(c)
	must(t, err)
	t.Cleanup(func() { _ = p.Kill() })
	return p
}

func alive(p *Process) bool {
	select {
	case <-p.Ended():
		return false
	default:
		return true
	}
}

func shell(t *testing.T, script string) *Process {
	t.Helper()
	return start(t, Command{Argv: []string{"/bin/sh", "-c", script}, Scratch: "/test"})
}

func exitOf(t *testing.T, p *Process) Exit {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	exit, err := p.Wait(ctx)
	must(t, err)
	return exit
}

// gone waits for the end of a process, which does not come by itself in this time.
func gone(t *testing.T, pid int) {
	t.Helper()
	waitFor(t, fmt.Sprintf("the end of process %d", pid), func() bool {
		s, err := Stat(pid)
		return err != nil || s.State == "Z"
	})
}

// escapes starts a process in a session of its own, which writes its pid to a file.
func escapes(file string) string {
	return fmt.Sprintf("setsid sh -c 'echo $$ >%[1]s.partial; mv %[1]s.partial %[1]s; exec sleep 600' & ", file)
}

// escaped waits for the process of escapes, and returns its pid.
func escaped(t *testing.T, file string) (pid int) {
	t.Helper()
	waitFor(t, "a process in another session", func() bool {
		pid, _ = strconv.Atoi(Text(file))
		return pid != 0
	})
	_ = os.Remove(file)
	return pid
}

// A process leads its own session, and has an Exit.
func TestStart(t *testing.T) {
	code := exitOf(t, shell(t, "exit 7")).Code
	failIf(t, code != 7, "%v", code)
	code = exitOf(t, shell(t, "kill -KILL $$")).Code
	failIf(t, code != 137, "%v", code)
	p := shell(t, "sleep 600")
	s, err := Stat(p.Pid)
	failIf(t, err != nil || s.Session != p.Pid || !alive(p), "%+v %v", s, err)
	_, err = Start(Command{Argv: []string{"/no/such"}})
	failIf(t, err == nil || !strings.Contains(err.Error(), "start /no/such"), "%v", err)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err = p.Wait(ctx)
	failIf(t, err == nil, "Wait did not end with its context")
}

// Processes die with the program that has started them, even if it is killed.
// A process that floods its log is killed, whether it writes itself or a child does, and so much of the log is kept
// that its begin and its end can be read. One that has ended meanwhile has its log cut, too.
func TestALogThatIsTooLarge(t *testing.T) {
	defer func(usual int64) { MostLog = usual }(MostLog)
	MostLog = 4 << 20
	for script, code := range map[string]int{"echo begin; exec yes": 137, "echo begin; yes & wait": 137,
		"echo begin; head -c 9M /dev/zero; echo end": 0, "echo begin; head -c 3M /dev/zero; echo end": 0} {
		path := filepath.Join(t.TempDir(), "log")
		log, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		must(t, err)
		p := start(t, Command{Argv: []string{"/bin/sh", "-c", script}, Stdout: log, Log: path})
		if exit := exitOf(t, p); exit.Code != code {
			t.Errorf("%s: exit code %d", script, exit.Code)
		}
		must(t, errors.Join(log.Close(), p.Kill()))
		text, err := os.ReadFile(path)
		must(t, err)
		_, last, _ := strings.Cut(string(text), TooMuchLog)
		cut := strings.Contains(string(text), "\n[tsduel has cut ") && strings.HasPrefix(last, "its log had ")
		if large := !strings.Contains(script, "3M"); cut != large || !strings.HasPrefix(string(text), "begin\n") ||
			large && len(text) > 2*keptLog+200 || code == 0 && !strings.Contains(string(text), "end\n") {
			t.Errorf("%s: cut %t, %d bytes", script, cut, len(text))
		}
	}
}

func TestDiesWithItsParent(t *testing.T) {
	parent := exec.Command(os.Args[0], "parent")
	out, err := parent.StdoutPipe()
	if err != nil || parent.Start() != nil {
		t.Fatal(err)
	}
	var child int
	if _, err := fmt.Fscan(out, &child); err != nil {
		t.Fatal(err)
	}
	_ = parent.Process.Kill()
	_ = parent.Wait()
	gone(t, child)
}

// Kill ends what a process has started: in its own session, and in another one by the group of the process,
// also after its end, or by descent where there are no groups.
func TestKillEndsWhatWasStarted(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	for how, script := range map[string]string{"session": "sleep 600 & echo $! >" + file + "; wait",
		"group": escapes(file) + "wait", "group, after its end": escapes(file) + "exit", "descent": escapes(file) + "wait"} {
		t.Run(how, func(t *testing.T) {
			p := shell(t, script)
			if how == "descent" {
				p.group = nil
			} else if p.group == nil && how != "session" {
				t.Skip("there are no control groups here")
			}
			pid := escaped(t, file)
			if how == "group, after its end" {
				exitOf(t, p)
			}
			failIf(t, unix.Kill(pid, 0) != nil, "it has ended by itself")
			must(t, p.Kill())
			gone(t, pid)
			if p.group != nil {
				_, err := os.Stat(p.group.dir)
				failIf(t, !os.IsNotExist(err), "its group is still there: %v", err)
			}
		})
	}
}

// EndAll ends what a process that has ended has left in another session.
func TestNothingEscapes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	exitOf(t, shell(t, escapes(file)+"sleep 0.1"))
	child := escaped(t, file)
	failIf(t, unix.Kill(child, 0) != nil, "it has not escaped")
	must(t, EndAll())
	gone(t, child)
}

// EndStrays ends the processes with the Mark of a scratch directory, and no others.
func TestStrays(t *testing.T) {
	ours, others := start(t, Command{Argv: []string{"/bin/sleep", "600"}, Scratch: "/test/a"}),
		start(t, Command{Argv: []string{"/bin/sleep", "600"}, Scratch: "/test/a/b"})
	count, err := EndStrays("/test/a")
	failIf(t, count != 1 || err != nil, "%v %v", count, err)
	failIf(t, exitOf(t, ours).Code != 137 || !alive(others), "not those of the scratch directory")
}

// A killed process that waits for a dead disk is an error after EndPatience.
func TestUninterruptible(t *testing.T) {
	EndPatience = 100 * time.Millisecond
	defer func() { EndPatience = 10 * time.Second }()
	root := t.TempDir()
	t.Setenv("TSDUEL_PROC", root)
	const pid = 1 << 30 // more than the kernel gives
	stat := fmt.Sprintf("%d (dd) D 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 11 0 0%s", pid, strings.Repeat(" 0", 30))
	write(t, filepath.Join(root, strconv.Itoa(pid)),
		map[string]string{"environ": "A=b\x00TSDUEL_SCRATCH=/test\x00", "stat": stat})
	_, err := EndStrays("/test")
	failIf(t, err == nil || !strings.Contains(err.Error(),
		"(dd) was killed and is still there after 100ms, waiting for a disk or the kernel (state D)"), "%v", err)
}

// The CPU clock of a process is exact, and the CPU times of servers and clients add up.
func TestCPU(t *testing.T) {
	_, before, err := UsedByUs()
	must(t, err)
	p := start(t, Command{Argv: []string{os.Args[0], "burn"}, Scratch: "/test", CPUs: Allowed()[:1]})
	var used time.Duration
	waitFor(t, "0.3 s of CPU", func() bool {
		time.Sleep(100 * time.Millisecond) // looking is work of ours
		used, err = CPU(p.Pid)
		must(t, err)
		return used >= 300*time.Millisecond
	})
	var set unix.CPUSet
	err = unix.SchedGetaffinity(p.Pid, &set)
	failIf(t, err != nil || set.Count() != 1 || !set.IsSet(Allowed()[0]), "%v %v", set, err)
	counters, err := Read(p.Pid)
	failIf(t, err != nil || counters.CPU < used || counters.RSS == 0 || counters.PeakRSS < counters.RSS,
		"%+v %v", counters, err)
	server, own, err := UsedByUs(p.Pid)
	failIf(t, err != nil || server < counters.CPU, "%v %v", server, err)
	failIf(t, Ours() != nil && own-before > server/2, "its %v were counted as ours once more: %v", server, own-before)
	must(t, p.Kill())
	_, after, _ := UsedByUs()
	failIf(t, after-before < used, "%v of one that has ended are lost: %v", used, after-before)
	_, err = CPU(p.Pid)
	failIf(t, err == nil, "a process that has ended has a clock")
}

func TestListeners(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "0.0.0.0:0", "[::1]:0"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			continue // no IPv6
		}
		defer l.Close()
		found := Listeners(os.Getpid())
		failIf(t, !slices.Contains(found, l.Addr().(*net.TCPAddr).AddrPort()), "%v is not in %v", l.Addr(), found)
	}
}

// One core cannot be split, and the kernel's lists are read with their ranges.
func TestOneCoreIsNotSplit(t *testing.T) {
	server, _, why := Split([][]int{{0, 1}})
	failIf(t, server != nil || why != "there is one core to run on (2 CPUs)", "%v %v", server, why)
	found := parseList("0-3,8, 10-11")
	failIf(t, !slices.Equal(found, []int{0, 1, 2, 3, 8, 10, 11}), "%v", found)
}

// The lowest limit of all control groups counts, in v2 and in v1.
func TestCPULimit(t *testing.T) {
	for name, c := range map[string]struct {
		mount, path string
		files       map[string]string
		want        float64
		throttled   int64
		held        time.Duration
	}{
		"v2": {"cgroup2 cgroup2 rw", "0::/a/b",
			map[string]string{"a/cpu.max": "150000 100000", "a/b/cpu.max": "max 100000",
				"a/cpu.stat": "usage_usec 5\nnr_periods 40\nnr_throttled 7\nthrottled_usec 9", "a/b/cpu.stat": "usage_usec 5"},
			1.5, 7, 9 * time.Microsecond},
		"v1": {"cgroup cgroup rw,cpu,cpuacct", "3:cpu,cpuacct:/a",
			map[string]string{"a/cpu.cfs_quota_us": "50000", "a/cpu.cfs_period_us": "100000",
				"a/cpu.stat": "nr_periods 3\nnr_throttled 2\nthrottled_time 9"}, 0.5, 2, 9},
		"none": {"cgroup cgroup rw,cpu", "3:cpu:/a",
			map[string]string{"a/cpu.cfs_quota_us": "-1", "a/cpu.cfs_period_us": "100000"}, 0, 0, 0},
		"other": {"cgroup cgroup rw,memory", "3:memory:/a",
			map[string]string{"a/cpu.cfs_quota_us": "1", "a/cpu.cfs_period_us": "2", "a/cpu.stat": "nr_throttled 3"}, 0, 0, 0},
	} {
		root, groups := t.TempDir(), t.TempDir()
		t.Setenv("TSDUEL_PROC", root)
		mount := "41 31 0:38 / " + groups + " rw,relatime - " + c.mount
		write(t, root, map[string]string{"self/mountinfo": mount, "self/cgroup": c.path})
		write(t, groups, c.files)
		found := CPULimit()
		failIf(t, found != c.want, "%s: %v", name, found)
		throttled, held := Throttled()
		failIf(t, throttled != c.throttled || held != c.held, "%s: throttled %d times, %v", name, throttled, held)
	}
}

// What the kernel does not show of a process is unknown by itself: the rest of its counters stay, and no 0
// stands for it.
func TestCountersThatTheKernelHides(t *testing.T) {
	pid := strconv.Itoa(os.Getpid())
	stat, status := Text("/proc", pid, "stat"), "Name:\ttest\nVmRSS:\t    512 kB\n" // no VmHWM
	io := "rchar: 1\nwchar: 2\nsyscr: 0\nsyscw: 0\nread_bytes: 3\nwrite_bytes: 4\ncancelled_write_bytes: 0"
	for _, shown := range []struct {
		files map[string]string
		want  []int64
	}{
		{map[string]string{"stat": stat, "status": status}, []int64{512 << 10, -1, -1, -1, -1, -1}},
		{map[string]string{"stat": stat, "io": io}, []int64{-1, -1, 1, 2, 3, 4}},
	} {
		root := t.TempDir()
		t.Setenv("TSDUEL_PROC", root)
		write(t, filepath.Join(root, pid), shown.files)
		c, err := Read(os.Getpid())
		got := []int64{c.RSS, c.PeakRSS, c.Read, c.Written, c.StorageRead, c.StorageWritten}
		failIf(t, err != nil || c.CPU == 0 || !slices.Equal(got, shown.want),
			"%v: %v, CPU %v, %v", shown.files, got, c.CPU, err)
	}
}

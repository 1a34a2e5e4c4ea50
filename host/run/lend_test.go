package run

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"tsduel/host/machine"
	"tsduel/host/record"

	"golang.org/x/sys/unix"
)

// newApart is a fixture whose server is on host2.
func newApart(t *testing.T) *fixture {
	f := newFixture(t, 1, 0)
	f.plan["topology"] = record.Topology{"host1": {"client"}, "host2": {"server"}}
	l, err := net.Listen("tcp", "127.0.0.2:0")
	must(t, err)
	must(t, l.Close())
	f.put("lent.json", record.Lent{Token: strings.Repeat("a", 64), Port: l.Addr().(*net.TCPAddr).Port,
		Hosts: map[string]string{"host1": "127.0.0.1", "host2": "127.0.0.2"}})
	f.write()
	must(t, os.MkdirAll(f.cache, 0o700))
	return f
}

// lend has host2 wait for a driver. It is like another machine: it has its own lock and, at the same path,
// a cache on a disk of 40 MiB, where `before` runs first. It is no child of the test: a run ends those.
func (f *fixture) lend(before string) {
	f.t.Helper()
	c := exec.Command("sh", "-c", `mount -t tmpfs -o size=40m,mode=700 tmpfs "$2" && cd "$2" && `+before+
		` && { "$0" detached lending "$1" "$2" host2 & }`, os.Args[0], f.dir, f.cache)
	c.Env = append(os.Environ(), "FAKE_DRIVER=1", "TSDUEL_LOCK="+filepath.Join(f.t.TempDir(), "lock"))
	c.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
	if err := c.Run(); err != nil {
		f.t.Skip("no disk can be mounted here: ", err)
	}
	f.waitFor("a host that is lent", f.exists("control/pid"))
	f.t.Cleanup(func() {
		if f.exists("control/pid")() { // the test has failed
			pid, _, _ := strings.Cut(f.read("control/pid"), " ")
			number, _ := strconv.Atoi(pid)
			_ = syscall.Kill(number, syscall.SIGKILL)
		}
	})
}

// wantGivenBack waits until host2 is not lent any more.
func (f *fixture) wantGivenBack() {
	f.t.Helper()
	f.waitFor("the end of it", func() bool { return !f.exists("control/pid")() })
}

// fills is a block that fails after it has written so many MiB to a file in the cache of host2.
func fills(mib int, path string) func(context.Context, record.Spec) (*record.Block, error) {
	return func(ctx context.Context, spec record.Spec) (*record.Block, error) {
		b := done(spec)
		if spec.Row.Block == 0 {
			return b, nil
		}
		there, _, err := machine.Borrow(ctx, spec.Lent, "host2")
		if err != nil {
			return nil, err
		}
		defer there.HangUp()
		script := fmt.Sprintf(`mkdir -p "${1%%/*}"; head -c %dM /dev/zero >"$1"`, mib)
		argv := []string{"-c", script, "fill", filepath.Join(spec.Cache, path)}
		b.Fail(record.Failure{Message: "the server died"})
		return b, there.Run(machine.Command{Argv: argv, Patience: startPatience}, &machine.Output{})
	}
}

// A full disk of another host is no variant's failure either, unless its files are larger than estimated.
func TestFullDiskOfAnotherHost(t *testing.T) {
	f := newApart(t)
	f.lend("true")
	f.block = fills(50, "theirs")
	wantIn(t, f.run(t.Context(), 2), "the disk of "+filepath.Join(f.cache, "scratch")+" on host2 is full "+
		"(0 MiB are free): free some there; no finished block is lost. To go on: make tsbs RUN=")
	f.wantThere(0)
	f.wantGivenBack()

	f.lend("true")
	f.block = fills(50, "scratch/data/baseline/x")
	wantIn(t, f.run(t.Context(), 0), "the server died; the disk of ", " on host2 is full: its files take ",
		" MiB, and 1 were expected")
	f.wantThere(0, 1)
	f.wantGivenBack()
}

// The data of an interrupted block count as free: the next block wipes them.
func TestRoomOfABlockThatWasCutOff(t *testing.T) {
	f := newApart(t)
	f.plan["estimate"] = map[string]any{"database_bytes": 30 << 20}
	f.lend("mkdir -p scratch/data && head -c 20M /dev/zero >scratch/data/x")
	f.run(t.Context(), 0)
	f.wantThere(0, 1)
	f.wantGivenBack()
	f.lend("head -c 20M /dev/zero >theirs")
	wantIn(t, f.run(t.Context(), 2), "host2: 19 MiB are free in ",
		", and the database needs about 30 MiB: free some there")
	f.wantGivenBack()

	here := newFixture(t, 1, 0)
	scratch := filepath.Join(here.cache, "scratch")
	must(t, os.MkdirAll(scratch, 0o700))
	must(t, unix.Mount("tmpfs", scratch, "tmpfs", 0, "size=40m"))
	t.Cleanup(func() { _ = unix.Unmount(scratch, unix.MNT_DETACH) })
	must(t, record.Wipe(filepath.Join(scratch, "data")))
	must(t, os.WriteFile(filepath.Join(scratch, "data", "x"), make([]byte, 20<<20), 0o600))
	here.plan["estimate"] = map[string]any{"database_bytes": 30 << 20}
	here.run(t.Context(), 0)
}

// A host that cannot be lent says why. A host that is asked twice begins once, and stops when it is told to.
func TestLend(t *testing.T) {
	t.Setenv("FAKE_DRIVER", "1")
	withSystemd(t, "/none")
	d := newApart(t).detached("host2")
	must(t, os.WriteFile(d.file("log"), []byte("tsduel: what was said yesterday\n"), 0o600))
	taken, err := lockMachine(t.Context(), "/another/run", "tsbs")
	must(t, err)
	for range 2 {
		if err := d.Lend(); err == nil || !strings.HasPrefix(err.Error(), "another run is going on on this machine: pid ") {
			t.Error(err)
		}
	}
	failIf(t, d.State() != "none", "%s", d.State())
	taken.Close()
	must(t, d.Lend())
	pid := d.pid()
	must(t, d.Lend())
	failIf(t, d.pid() != pid || pid == 0, "%d, then %d", pid, d.pid())
	said, err := d.Stop(t.Context())
	failIf(t, err != nil || said != "stopped" || d.State() != "none", "%v %v %v", said, err, d.State())
}

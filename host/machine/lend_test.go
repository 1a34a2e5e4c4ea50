package machine

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"tsduel/host/proc"
	"tsduel/host/record"
)

func TestMain(m *testing.M) {
	_ = proc.Subreaper()
	aliveEvery = 20 * time.Millisecond
	code := m.Run()
	proc.Leave()
	os.Exit(code)
}

// lending lends this machine to itself; over gets the result of Lend.
func lending(t *testing.T, patience time.Duration) (lent *record.Lent, over chan error) {
	t.Helper()
	lent = &record.Lent{Token: strings.Repeat("a", 64),
		Hosts: map[string]string{"host1": "127.0.0.1", "host2": "127.0.0.2"}}
	l, err := Listen(lent, "host2")
	if err != nil {
		t.Fatal(err)
	}
	lent.Port, over = l.Addr().(*net.TCPAddr).Port, make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go func() { over <- Lend(ctx, l, lent.Token, patience, nil) }()
	return lent, over
}

func borrow(t *testing.T, lent *record.Lent) (*There, context.Context) {
	t.Helper()
	there, ctx, err := Borrow(t.Context(), lent, "host2")
	if err != nil {
		t.Fatal(err)
	}
	return there, ctx
}

func sleeping(t *testing.T, m Machine) *Process {
	t.Helper()
	p, err := Start(m, Command{Argv: []string{"-c", "echo said; exec sleep 60"}, Scratch: "/test",
		Log: filepath.Join(t.TempDir(), "log")})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func soon(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
	}
}

func gone(pid int) bool { return unix.Kill(pid, 0) == unix.ESRCH }

// A lent machine does the same as this one.
func TestLentMachine(t *testing.T) {
	lent, over := lending(t, time.Minute)
	there, _ := borrow(t, lent)
	for name, m := range map[string]Machine{"here": NewHere(t.Context(), "127.0.0.1"), "there": there} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			log := filepath.Join(dir, "logs", "log")
			p, err := Start(m, Command{Argv: []string{"-c", `cat named; echo "$A"; exit 7`}, Env: []string{"A=b c"},
				Dir: filepath.Join(dir, "files"), Files: map[string]string{"named": "text\n"},
				Make: []string{filepath.Join(dir, "made")}, Log: log, Scratch: "/test"})
			if err != nil {
				t.Fatal(err)
			}
			<-p.Ended()
			var exit proc.Exit
			var text []byte
			if err := m.Await(p.Pid, &exit); err != nil || exit.Code != 7 || p.Alive() {
				t.Error(exit, err)
			}
			if err := m.Log(Piece{log, 5}, &text); err != nil || string(text) != "b c\n" {
				t.Errorf("%q %v", text, err)
			}
			var said Output
			if err := m.Run(Command{Argv: []string{"-c", "echo out; echo err >&2; exit 3"}, Patience: time.Minute},
				&said); err != nil || said.Code != 3 || string(said.Out)+string(said.Err) != "out\nerr\n" || said.Late {
				t.Errorf("%+v %v", said, err)
			}
			said = Output{}
			if err := m.Run(Command{Argv: []string{"-c", "sleep 60"}, Patience: 50 * time.Millisecond}, &said); err != nil ||
				!said.Late {
				t.Errorf("%+v %v", said, err)
			}
			p = sleeping(t, m)
			var used time.Duration
			var counters proc.Counters
			if err := m.CPU(p.Pid, &used); err != nil || used <= 0 {
				t.Error(used, err)
			}
			if err := m.Counters(p.Pid, &counters); err != nil || counters.RSS == 0 || counters.CPU < used {
				t.Error(counters, err)
			}
			var edge int
			n := &record.Noise{}
			if err := m.Look([]int{p.Pid}, &edge); err != nil {
				t.Error(err)
			}
			if err := m.Since(Span{edge, []int{p.Pid}}, n); err != nil || n.ForeignS == nil || n.ServerS == nil || n.CPUs == 0 {
				t.Errorf("%+v %v", n, err)
			}
			if err := p.Kill(); err != nil || !gone(p.Pid) {
				t.Error(err)
			}
			if err := m.CPU(p.Pid, &used); err == nil {
				t.Error("a process that has ended has a clock")
			}
			data, copied := filepath.Join(dir, "data", "a"), filepath.Join(dir, "copy")
			var read int64
			if err := m.Prepare(Directories{Make: []string{data}}, &None{}); err != nil {
				t.Error(err)
			}
			if err := os.WriteFile(filepath.Join(data, "file"), make([]byte, 3<<20), 0o644); err != nil {
				t.Fatal(err)
			}
			for _, c := range []struct {
				immutable string
				how       record.CopyRecord
			}{{"fil.", record.CopyRecord{Linked: 1, Bytes: 3 << 20}}, {"", record.CopyRecord{Copied: 1, Bytes: 3 << 20}}} {
				var how record.CopyRecord
				err := m.Copy(Copying{filepath.Dir(data), copied, c.immutable}, &how)
				if how.Seconds = 0; err != nil || how != c.how {
					t.Error(how, err)
				}
			}
			if err := m.ReadOnce(Reading{Dir: copied}, &read); err != nil || read != 3<<20 {
				t.Error(read, err)
			}
			var sums map[string]string
			if err := m.Sums([]string{log, "/no/such"}, &sums); err != nil || len(sums) != 1 || len(sums[log]) != 64 {
				t.Error(sums, err)
			}
			if err := m.Prepare(Directories{Remove: []string{copied}}, &None{}); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(copied); !os.IsNotExist(err) {
				t.Error(err)
			}
			var disk Disk
			if err := m.Disk(dir, &disk); err != nil || disk.Full || disk.Free < 3<<20 || disk.Data < 3<<20 {
				t.Errorf("%+v %v", disk, err)
			}
			facts := &record.Facts{}
			if err := m.Describe(dir, facts); err != nil || facts.CPUs == 0 {
				t.Error(facts, err)
			}
		})
	}
	// A port has to be free on the address of components.
	var port int
	taken, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	first := taken.Addr().(*net.TCPAddr).Port
	if err := there.FreePort(Ports{first, map[int]bool{first + 1: true}}, &port); err != nil || port < first+2 {
		t.Error(port, err)
	}
	if err := there.FreePort(Ports{70000, nil}, &port); err == nil ||
		!strings.HasPrefix(err.Error(), "host2: no port from 70000 on is free on 127.0.0.2") {
		t.Error(err)
	}
	if trip, ahead, err := there.Clock(20); err != nil || trip <= 0 || trip > 1 || ahead > trip || ahead < -trip {
		t.Error(trip, ahead, err)
	}
	there.Release()
	if err := <-over; err != nil {
		t.Error(err)
	}
}

// A held client does nothing until its instant. Its input is unpacked. If it is killed before, it has an
// Exit.
func TestHeldClient(t *testing.T) {
	lent, _ := lending(t, time.Minute)
	there, _ := borrow(t, lent)
	for name, m := range map[string]Machine{"here": NewHere(t.Context(), "127.0.0.1"), "there": there} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			verb, packed, log := filepath.Join(dir, "load"), filepath.Join(dir, "data.zst"),
				filepath.Join(dir, "logs", "load.csv")
			z, err := zstd.NewWriter(nil)
			if err != nil {
				t.Fatal(err)
			}
			script := "#!/usr/bin/env bash\necho \"$A $0\"; cat; echo late >&2; sleep 0.05; exit 3\n"
			for path, text := range map[string]string{verb: script, packed: string(z.EncodeAll([]byte("line\n"), nil))} {
				if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			c := Held{Command: Command{Argv: []string{verb}, Env: []string{"A=b c"}, Scratch: "/test"}, Feed: packed, Out: log,
				Complaints: log + ".stderr"}
			var pid, other int
			if err := errors.Join(m.Hold(c, &pid), m.Hold(c, &other)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(50 * time.Millisecond)
			if text, err := os.ReadFile(log); err != nil || len(text) != 0 {
				t.Errorf("%q %v", text, err)
			}
			// A clock that was set would have it wait for hours, and the other clients with it.
			var stop *record.Stop
			if err := m.LetGo(Instant{other, time.Now().Add(time.Hour).UnixNano()}, &Ran{}); !errors.As(err, &stop) ||
				stop.Code != record.ExitFailed || !strings.Contains(err.Error(), "the clock of a host was set by about 3600 s") {
				t.Fatal(err)
			}
			if err := m.Kill(other, &None{}); err != nil {
				t.Error(err)
			}
			at := time.Now().Add(50 * time.Millisecond)
			var ran, killed Ran
			if err := errors.Join(m.LetGo(Instant{pid, at.UnixNano()}, &ran),
				m.LetGo(Instant{other, at.UnixNano()}, &killed)); err != nil {
				t.Fatal(err)
			}
			if began := time.Unix(0, ran.Began).Sub(at); ran.Exit.Code != 3 || killed.Exit.Code != 128+9 || began < 0 ||
				ran.Exit.At.Sub(at) < began || ran.CPUs == 0 {
				t.Errorf("%v %+v %+v", began, ran, killed)
			}
			for path, want := range map[string]string{log: "b c " + verb + "\nline\n", log + ".stderr": "late\n"} {
				if text, err := os.ReadFile(path); err != nil || string(text) != want {
					t.Errorf("%q %v", text, err)
				}
			}
			if m.LetGo(Instant{1, 0}, &ran) == nil {
				t.Error("nobody is held there")
			}
		})
	}
}

// A machine listens at private addresses only.
func TestPrivateAddress(t *testing.T) {
	for _, address := range []string{"8.8.8.8", "0.0.0.0", "", "::"} {
		if _, err := Listen(&record.Lent{Hosts: map[string]string{"host2": address}}, "host2"); err == nil {
			t.Error(address)
		}
	}
}

// The processes of a driver end with its connection, and the next driver can connect.
func TestDriverGone(t *testing.T) {
	lent, _ := lending(t, time.Minute)
	there, ctx := borrow(t, lent)
	p := sleeping(t, there)
	there.HangUp()
	soon(t, "it still runs", func() bool { return gone(p.Pid) })
	if ctx.Err() == nil || there.Reach() == nil {
		t.Error("it is lost, and nobody says so")
	}
	there, _ = borrow(t, lent)
	defer there.HangUp()
	if err := sleeping(t, there).Kill(); err != nil {
		t.Error(err)
	}
}

// Borrow gives up a machine that does not answer when its ctx ends.
func TestBorrowIsGivenUp(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.2:0") // and nobody accepts
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	lent := &record.Lent{Token: "a", Port: l.Addr().(*net.TCPAddr).Port, Hosts: map[string]string{"host2": "127.0.0.2"}}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, _, err := Borrow(ctx, lent, "host2"); err == nil {
		t.Error("a machine that nobody lends was borrowed")
	}
}

// A silent driver counts as gone.
func TestDriverSilent(t *testing.T) {
	before := silence
	silence = 2 * time.Second
	defer func() { silence = before }()
	lent, over := lending(t, 5*time.Second)
	at := net.JoinHostPort("127.0.0.2", strconv.Itoa(lent.Port))
	config, err := secured(lent.Token, driver, at)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := tls.Dial("tcp", at, config)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	pid := filepath.Join(t.TempDir(), "pid")
	say := func(format string, args ...any) {
		t.Helper()
		if _, err := fmt.Fprintf(conn, format, args...); err != nil {
			t.Fatal(err)
		}
	}
	say(`{"method":"Machine.Call","params":[{"Method":"Run","Args":{"Argv":["-c","echo $$ >%s; sleep 60"],`+
		`"Patience":60000000000}}],"id":0}`, pid)
	var number int
	soon(t, "it was not started", func() bool {
		say(`{"method":"Machine.Call","params":[{"Method":"Alive","Args":{}}],"id":1}`)
		number, _ = strconv.Atoi(proc.Text(pid))
		return number > 0
	})
	soon(t, "it still runs", func() bool { return gone(number) })
	// When no driver has come for a while, the lending ends.
	select {
	case err := <-over:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("it is still lent")
	}
}

// A lost machine ends the driver's ctx with a sentence. Its processes do not count as ended.
func TestMachineLost(t *testing.T) {
	lent := &record.Lent{Token: strings.Repeat("a", 64), Hosts: map[string]string{"host2": "127.0.0.2"}}
	l, err := Listen(lent, "host2")
	if err != nil {
		t.Fatal(err)
	}
	lent.Port = l.Addr().(*net.TCPAddr).Port
	lives, dies := context.WithCancel(t.Context())
	go func() { _ = Lend(lives, l, lent.Token, time.Minute, nil) }()
	there, ctx := borrow(t, lent)
	p := sleeping(t, there)
	dies()
	<-ctx.Done()
	if cause := context.Cause(ctx).Error(); !strings.HasPrefix(cause, "host2 does not answer any more") {
		t.Error(cause)
	}
	var port int
	if err := there.FreePort(Ports{From: 20000}, &port); err == nil || !p.Alive() {
		t.Error(err, p.Alive())
	}
	soon(t, "it still runs", func() bool { return gone(p.Pid) })
}

// So does a machine that says nothing.
func TestMachineSilent(t *testing.T) {
	before := silence
	silence = 500 * time.Millisecond
	defer func() { silence = before }()
	lent := &record.Lent{Token: strings.Repeat("a", 64), Hosts: map[string]string{"host2": "127.0.0.2"}}
	l, err := Listen(lent, "host2")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	lent.Port = l.Addr().(*net.TCPAddr).Port
	config, err := secured(lent.Token, l.Addr().String(), driver)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		if conn, err := l.Accept(); err == nil && admit(tls.Server(conn, config)) {
			_, _ = io.Copy(io.Discard, conn)
			_ = conn.Close()
		}
	}()
	_, ctx := borrow(t, lent)
	<-ctx.Done()
	if cause := context.Cause(ctx).Error(); !strings.HasPrefix(cause, "host2 does not answer any more (") ||
		!strings.Contains(cause, "i/o timeout") {
		t.Error(cause)
	}
}

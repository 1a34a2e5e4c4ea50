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

	"tsduel/host/bound"
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

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func check(t *testing.T, ok bool, found ...any) {
	t.Helper()
	if !ok {
		t.Errorf("%+v", found)
	}
}

// ask calls a method of Machine, and returns its reply.
func ask[A, R any](t *testing.T, method func(A, *R) error, args A) (reply R) {
	t.Helper()
	must(t, method(args, &reply))
	return reply
}

// wantStop wants an error with an exit code, whose sentence has these parts.
func wantStop(t *testing.T, err error, code int, parts ...string) {
	t.Helper()
	stop, is := errors.AsType[*record.Stop](err)
	check(t, is && stop.Code == code, err)
	for _, part := range parts {
		check(t, is && strings.Contains(stop.Message, part), err)
	}
}

// listening listens as host2.
func listening(t *testing.T) (*record.Lent, *net.TCPListener) {
	t.Helper()
	lent := &record.Lent{Token: strings.Repeat("a", 64),
		Hosts: map[string]string{"host1": "127.0.0.1", "host2": "127.0.0.2"}}
	l, err := Listen(lent, "host2")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	lent.Port = l.Addr().(*net.TCPAddr).Port
	return lent, l
}

// lending lends this machine to itself; over gets the result of Lend.
func lending(t *testing.T, patience time.Duration) (lent *record.Lent, over chan error) {
	t.Helper()
	lent, l := listening(t)
	over = make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go func() { over <- Lend(ctx, l, lent.Token, patience, nil) }()
	return lent, over
}

// onBoth runs a test on this machine, and on one that is lent.
func onBoth(t *testing.T, there *There, test func(*testing.T, Machine)) {
	for name, m := range map[string]Machine{"here": NewHere(t.Context(), "127.0.0.1"), "there": there} {
		t.Run(name, func(t *testing.T) { test(t, m) })
	}
}

// silent sets how long a side may be silent.
func silent(t *testing.T, limit time.Duration) {
	before := silence
	silence = limit
	t.Cleanup(func() { silence = before })
}

func borrow(t *testing.T, lent *record.Lent) (*There, context.Context) {
	t.Helper()
	there, ctx, err := Borrow(t.Context(), lent, "host2")
	must(t, err)
	return there, ctx
}

func sleeping(t *testing.T, m Machine) *Process {
	t.Helper()
	p, err := Start(m, Command{Argv: []string{"-c", "echo said; exec sleep 60"}, Scratch: "/test",
		Log: filepath.Join(t.TempDir(), "log")})
	must(t, err)
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
	onBoth(t, there, func(t *testing.T, m Machine) {
		dir := t.TempDir()
		log := filepath.Join(dir, "logs", "log")
		p, err := Start(m, Command{Argv: []string{"-c", `cat named; echo "$A"; exit 7`}, Env: []string{"A=b c"},
			Dir: filepath.Join(dir, "files"), Files: map[string]string{"named": "text\n"},
			Make: []string{filepath.Join(dir, "made")}, Log: log, Scratch: "/test"})
		must(t, err)
		<-p.Ended()
		exit, text := ask(t, m.Await, p.Pid), ask(t, m.Log, Piece{log, 5})
		check(t, exit.Code == 7 && !p.Alive() && string(text) == "b c\n", exit, text)
		said := ask(t, m.Run, Command{Argv: []string{"-c", "echo out; echo err >&2; exit 3"}, Patience: time.Minute})
		check(t, said.Code == 3 && string(said.Out)+string(said.Err) == "out\nerr\n" && !said.Late, said)
		said = ask(t, m.Run, Command{Argv: []string{"-c", "sleep 60"}, Patience: 50 * time.Millisecond})
		check(t, said.Late, said)
		p = sleeping(t, m)
		used, counters := ask(t, m.CPU, p.Pid), ask(t, m.Counters, p.Pid)
		check(t, used > 0 && counters.RSS != 0 && counters.CPU >= used, used, counters)
		n := ask(t, m.Since, Span{ask(t, m.Look, []int{p.Pid}), []int{p.Pid}})
		check(t, n.ForeignS != nil && n.ServerS != nil && n.CPUs != 0, n)
		must(t, p.Kill())
		check(t, gone(p.Pid), "it still runs")
		check(t, m.CPU(p.Pid, &used) != nil, "a process that has ended has a clock")
		data, copied := filepath.Join(dir, "data", "a"), filepath.Join(dir, "copy")
		must(t, m.Prepare(Directories{Make: []string{data}}, &None{}))
		must(t, os.WriteFile(filepath.Join(data, "file"), make([]byte, 3<<20), 0o644))
		for _, c := range []struct {
			immutable string
			how       record.CopyRecord
		}{{"fil.", record.CopyRecord{Linked: 1, Bytes: 3 << 20}}, {"", record.CopyRecord{Copied: 1, Bytes: 3 << 20}}} {
			how := ask(t, m.Copy, Copying{filepath.Dir(data), copied, c.immutable})
			how.Seconds = 0
			check(t, how == c.how, how)
		}
		read, sums := ask(t, m.ReadOnce, Reading{Dir: copied}), ask(t, m.Sums, []string{log, "/no/such"})
		check(t, read == 3<<20 && len(sums) == 1 && len(sums[log]) == 64, read, sums)
		must(t, m.Prepare(Directories{Remove: []string{copied}}, &None{}))
		_, err = os.Stat(copied)
		check(t, os.IsNotExist(err), err)
		disk, facts := ask(t, m.Disk, dir), ask(t, m.Describe, dir)
		check(t, !disk.Full && disk.Free >= 3<<20 && disk.Data >= 3<<20 && facts.CPUs > 0, disk, facts)
	})
	// A port has to be free on the address of components.
	taken, err := net.Listen("tcp", "127.0.0.2:0")
	must(t, err)
	defer taken.Close()
	first := taken.Addr().(*net.TCPAddr).Port
	port := ask(t, there.FreePort, Ports{first, map[int]bool{first + 1: true}})
	check(t, port >= first+2, port)
	err = there.FreePort(Ports{70000, nil}, &port)
	check(t, err != nil && strings.HasPrefix(err.Error(), "host2: no port from 70000 on is free on 127.0.0.2"), err)
	trip, ahead, err := there.Clock(20)
	check(t, err == nil && trip > 0 && trip <= 1 && ahead <= trip && ahead >= -trip, trip, ahead, err)
	there.Release()
	must(t, <-over)
}

// A held client does nothing until its instant. Its input is unpacked. If it is killed before, it has an
// Exit.
func TestHeldClient(t *testing.T) {
	lent, _ := lending(t, time.Minute)
	there, _ := borrow(t, lent)
	onBoth(t, there, func(t *testing.T, m Machine) {
		dir := t.TempDir()
		verb, packed, log := filepath.Join(dir, "load"), filepath.Join(dir, "data.zst"),
			filepath.Join(dir, "logs", "load.csv")
		z, err := zstd.NewWriter(nil)
		must(t, err)
		script := "#!/usr/bin/env bash\necho \"$A $0\"; cat; echo late >&2; sleep 0.05; exit 3\n"
		for path, text := range map[string]string{verb: script, packed: string(z.EncodeAll([]byte("line\n"), nil))} {
			must(t, os.WriteFile(path, []byte(text), 0o755))
		}
		c := Held{Command: Command{Argv: []string{verb}, Env: []string{"A=b c"}, Scratch: "/test"}, Feed: packed, Out: log,
			Complaints: log + ".stderr"}
		pid, other := ask(t, m.Hold, c), ask(t, m.Hold, c)
		time.Sleep(50 * time.Millisecond)
		check(t, proc.Text(log) == "", "it began")
		// A clock that was set would have it wait for hours, and the other clients with it.
		wantStop(t, m.LetGo(Instant{other, time.Now().Add(time.Hour).UnixNano()}, &Ran{}), record.ExitFailed,
			"the clock of a host was set by about 3600 s", "goes on")
		must(t, m.Kill(other, &None{}))
		at := time.Now().Add(50 * time.Millisecond)
		ran, killed := ask(t, m.LetGo, Instant{pid, at.UnixNano()}), ask(t, m.LetGo, Instant{other, at.UnixNano()})
		began := time.Unix(0, ran.Began).Sub(at)
		check(t, ran.Exit.Code == 3 && killed.Exit.Code == 128+9 && began >= 0 && ran.Exit.At.Sub(at) >= began &&
			ran.CPUs != 0, began, ran, killed)
		for path, want := range map[string]string{log: "b c " + verb + "\nline", log + ".stderr": "late"} {
			check(t, proc.Text(path) == want, path, proc.Text(path))
		}
		check(t, m.LetGo(Instant{1, 0}, &ran) != nil, "nobody is held there")
	})
}

// A machine listens at private addresses only.
func TestPrivateAddress(t *testing.T) {
	for _, address := range []string{"8.8.8.8", "0.0.0.0", "", "::"} {
		_, err := Listen(&record.Lent{Hosts: map[string]string{"host2": address}}, "host2")
		check(t, err != nil, address)
	}
}

// The processes of a driver end with its connection, and the next driver can connect.
func TestDriverGone(t *testing.T) {
	lent, _ := lending(t, time.Minute)
	there, ctx := borrow(t, lent)
	p := sleeping(t, there)
	there.HangUp()
	soon(t, "it still runs", func() bool { return gone(p.Pid) })
	check(t, ctx.Err() != nil && there.Reach() != nil, "it is lost, and nobody says so")
	there, _ = borrow(t, lent)
	defer there.HangUp()
	must(t, sleeping(t, there).Kill())
}

// Borrow gives up a machine that does not answer when its ctx ends.
func TestBorrowIsGivenUp(t *testing.T) {
	lent, _ := listening(t) // and nobody accepts
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, _, err := Borrow(ctx, lent, "host2")
	check(t, err != nil, "a machine that nobody lends was borrowed")
}

// A silent driver counts as gone.
func TestDriverSilent(t *testing.T) {
	silent(t, time.Second)
	lent, over := lending(t, 2*time.Second)
	at := net.JoinHostPort("127.0.0.2", strconv.Itoa(lent.Port))
	config, err := secured(lent.Token, driver, at)
	must(t, err)
	conn, err := tls.Dial("tcp", at, config)
	must(t, err)
	defer conn.Close()
	pid := filepath.Join(t.TempDir(), "pid")
	say := func(format string, args ...any) {
		t.Helper()
		_, err := fmt.Fprintf(conn, format, args...)
		must(t, err)
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
	must(t, <-over)
}

// A lost machine ends the driver's ctx with a sentence. Its processes do not count as ended.
func TestMachineLost(t *testing.T) {
	lent, l := listening(t)
	lives, dies := context.WithCancel(t.Context())
	go func() { _ = Lend(lives, l, lent.Token, time.Minute, nil) }()
	there, ctx := borrow(t, lent)
	p := sleeping(t, there)
	dies()
	<-ctx.Done()
	wantStop(t, context.Cause(ctx), record.ExitFailed, "host2 does not answer any more")
	check(t, there.FreePort(Ports{From: 20000}, new(int)) != nil && p.Alive(), "it counts as ended")
	soon(t, "it still runs", func() bool { return gone(p.Pid) })
}

// So does a machine whose reply has no end, or that says what nobody has asked.
func TestMachineFloods(t *testing.T) {
	defer func(usual int64) { bound.Reply = usual }(bound.Reply)
	bound.Reply = 4 << 20
	for begin, reply := range map[string]string{`{"id":0,"result":{"Reply":"`: "x", " ": `{"id":99,"result":{}}`} {
		lent, l := listening(t)
		config, err := secured(lent.Token, l.Addr().String(), driver)
		must(t, err)
		go func() {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			flood := tls.Server(conn, config)
			for text, ok := begin, admit(flood); ok; ok = err == nil {
				_, err = io.WriteString(flood, text)
				text = strings.Repeat(reply, 1<<12)
			}
			_ = conn.Close()
		}()
		_, ctx := borrow(t, lent)
		<-ctx.Done()
		wantStop(t, context.Cause(ctx), record.ExitFailed, "host2 does not answer any more (a reply of more than 4 MiB")
	}
}

// A program that prints without end is ended, on any machine.
func TestRunFlood(t *testing.T) {
	defer func(usual int64) { bound.Counters = usual }(bound.Counters)
	bound.Counters = 1 << 20
	lent, _ := lending(t, time.Minute)
	there, _ := borrow(t, lent)
	defer there.HangUp()
	onBoth(t, there, func(t *testing.T, m Machine) {
		for _, prints := range []string{"yes", "yes >&2 & yes", "head -c 1100000 /dev/zero"} {
			output := ask(t, m.Run, Command{Argv: []string{"-c", prints}, Scratch: "/test", Patience: time.Minute})
			check(t, output.Flood && len(output.Out)+len(output.Err) == 0, prints, output.Flood, output.Late, len(output.Out))
		}
		output := ask(t, m.Run, Command{Argv: []string{"-c", "head -c 1000000 /dev/zero"}, Scratch: "/test",
			Patience: time.Minute})
		check(t, !output.Flood && len(output.Out) == 1_000_000, output.Flood, len(output.Out))
	})
}

// So does a machine that says nothing.
func TestMachineSilent(t *testing.T) {
	silent(t, 500*time.Millisecond)
	lent, l := listening(t)
	config, err := secured(lent.Token, l.Addr().String(), driver)
	must(t, err)
	go func() {
		if conn, err := l.Accept(); err == nil && admit(tls.Server(conn, config)) {
			_, _ = io.Copy(io.Discard, conn)
			_ = conn.Close()
		}
	}()
	_, ctx := borrow(t, lent)
	<-ctx.Done()
	wantStop(t, context.Cause(ctx), record.ExitFailed, "host2 does not answer any more (", "i/o timeout")
}

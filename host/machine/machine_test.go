package machine

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"tsduel/host/bound"
	"tsduel/host/proc"
	"tsduel/host/record"
)

func TestMain(m *testing.M) {
	_ = proc.Subreaper()
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

// wantStop wants an error with an exit code, whose sentence has these parts.
func wantStop(t *testing.T, err error, code int, parts ...string) {
	t.Helper()
	stop, is := errors.AsType[*record.Stop](err)
	check(t, is && stop.Code == code, err)
	for _, part := range parts {
		check(t, is && strings.Contains(stop.Message, part), err)
	}
}

// A component starts among its files, and its output is in its log; a verb has its output, or is too late.
func TestComponentsAndVerbs(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "logs", "log")
	p, err := Start(Command{Argv: []string{"-c", `cat named; echo "$A"; exit 7`}, Env: []string{"A=b c"},
		Dir: filepath.Join(dir, "files"), Files: map[string]string{"named": "text\n"},
		Make: []string{filepath.Join(dir, "made")}, Log: log, Scratch: "/test"})
	must(t, err)
	<-p.Ended()
	check(t, p.Exit().Code == 7 && p.HasEnded() && proc.Text(log) == "text\nb c", p.Exit(), proc.Text(log))
	said, err := Run(t.Context(), Command{Argv: []string{"-c", "echo out; echo err >&2; exit 3"}, Patience: time.Minute})
	check(t, err == nil && said.Code == 3 && string(said.Out)+string(said.Err) == "out\nerr\n" && !said.Late, said, err)
	said, err = Run(t.Context(), Command{Argv: []string{"-c", "sleep 60"}, Patience: 50 * time.Millisecond})
	check(t, err == nil && said.Late, said, err)
}

// A copy shares the files that never change, and others are written anew.
func TestCopies(t *testing.T) {
	dir := t.TempDir()
	data, copied := filepath.Join(dir, "data", "a"), filepath.Join(dir, "copy")
	must(t, Prepare(Directories{Make: []string{data}}))
	must(t, os.WriteFile(filepath.Join(data, "file"), make([]byte, 3<<20), 0o644))
	for _, c := range []struct {
		immutable string
		how       record.CopyRecord
	}{{"fil.", record.CopyRecord{Linked: 1, Bytes: 3 << 20}}, {"", record.CopyRecord{Copied: 1, Bytes: 3 << 20}}} {
		how, err := Copy(t.Context(), Copying{filepath.Dir(data), copied, c.immutable})
		how.Seconds = 0
		check(t, err == nil && how == c.how, how, err)
	}
	read, err := ReadOnce(t.Context(), copied)
	check(t, err == nil && read == 3<<20, read, err)
	sums, err := Sums([]string{filepath.Join(data, "file"), "/no/such"})
	check(t, err == nil && len(sums) == 1 && len(sums[filepath.Join(data, "file")]) == 64, sums, err)
	must(t, Prepare(Directories{Remove: []string{copied}}))
	_, err = os.Stat(copied)
	check(t, os.IsNotExist(err), err)
}

// A port is free that nobody listens at, and that is not given yet.
func TestFreePorts(t *testing.T) {
	taken, err := net.Listen("tcp", Address+":0")
	must(t, err)
	defer taken.Close()
	first := taken.Addr().(*net.TCPAddr).Port
	port, err := FreePort(first, map[int]bool{first + 1: true})
	check(t, err == nil && port >= first+2, port, err)
	_, err = FreePort(70000, nil)
	wantStop(t, err, record.ExitUser, "no port from 70000 on is free")
}

// A client's input is unpacked, its output is in files, and it has an end also if it is killed.
func TestClients(t *testing.T) {
	dir := t.TempDir()
	packed, out := filepath.Join(dir, "data.zst"), filepath.Join(dir, "load.csv")
	z, err := zstd.NewWriter(nil)
	must(t, err)
	must(t, os.WriteFile(packed, z.EncodeAll([]byte("line\n"), nil), 0o644))
	c := Command{Argv: []string{"-c", `echo "$A"; cat; echo late >&2; exit 3`}, Env: []string{"A=b c"}, Scratch: "/test"}
	client, err := StartClient(c, packed, out, out+".stderr")
	must(t, err)
	exit, err := client.Result(t.Context())
	check(t, err == nil && exit.Code == 3 && exit.At.After(client.Began), exit, err)
	for path, want := range map[string]string{out: "b c\nline", out + ".stderr": "late"} {
		check(t, proc.Text(path) == want, path, proc.Text(path))
	}
	c.Argv = []string{"-c", "exec sleep 60"}
	client, err = StartClient(c, packed, out, out+".stderr")
	must(t, err)
	must(t, client.Kill())
	exit, err = client.Result(t.Context())
	check(t, err == nil && exit.Code == 128+9, exit, err)
}

// A program that prints without end is ended.
func TestRunFlood(t *testing.T) {
	defer func(usual int64) { bound.Counters = usual }(bound.Counters)
	bound.Counters = 1 << 20
	for _, prints := range []string{"yes", "yes >&2 & yes", "head -c 1100000 /dev/zero"} {
		output, err := Run(t.Context(), Command{Argv: []string{"-c", prints}, Scratch: "/test", Patience: time.Minute})
		check(t, err == nil && output.Flood && len(output.Out)+len(output.Err) == 0, prints, output.Late, len(output.Out))
	}
	output, err := Run(t.Context(), Command{Argv: []string{"-c", "head -c 1000000 /dev/zero"}, Scratch: "/test",
		Patience: time.Minute})
	check(t, err == nil && !output.Flood && len(output.Out) == 1_000_000, output.Flood, len(output.Out))
}

package openloop

import (
	"bufio"
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/timescale/tsbs/pkg/query"
	"golang.org/x/sys/unix"

	"tsduel/host/proc"
)

const stubEnv = "OPENLOOP_STUB"

// TestMain runs the tests, or with stubEnv a server that only answers.
func TestMain(m *testing.M) {
	if os.Getenv(stubEnv) == "" {
		os.Exit(m.Run())
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(listener.Addr())
	for {
		socket, err := listener.Accept()
		if err != nil {
			panic(err)
		}
		go func() {
			asked := bufio.NewReader(socket)
			for {
				line, err := asked.ReadSlice('\n')
				if err != nil {
					return
				}
				if len(line) == 2 { // the head's end; nothing is sent behind it
					if _, err := socket.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")); err != nil {
						return
					}
				}
			}
		}()
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func stub(t testing.TB) (url string, pid int) {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	server := exec.Command(self)
	server.Env = append(os.Environ(), stubEnv+"=1")
	server.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	said, err := server.StdoutPipe()
	if err == nil {
		err = server.Start()
	}
	must(t, err)
	t.Cleanup(func() { _ = server.Process.Kill(); _ = server.Wait() })
	address, err := bufio.NewReader(said).ReadString('\n')
	must(t, err)
	return "http://" + strings.TrimSpace(address), server.Process.Pid
}

// jobOf is a stream of queries at a constant rate.
func jobOf(t testing.TB, url string, rate float64, length time.Duration, connections int) Job {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "queries"))
	must(t, err)
	defer file.Close()
	encoder := gob.NewEncoder(file)
	for range 1000 {
		must(t, encoder.Encode(&query.HTTP{Method: []byte("GET"), Path: []byte("/q")}))
	}
	return Job{LateAfter: time.Millisecond, Patience: 100 * time.Millisecond,
		Streams: []Stream{{Queries: []Queries{{Path: file.Name()}}, URL: url, Connections: connections,
			Timeout: time.Minute, Schedule: Schedule{Rate: rate, Length: length}}}}
}

func run(t testing.TB, job Job) (*Result, Totals) {
	t.Helper()
	results, totals, err := Run(t.Context(), job)
	must(t, err)
	return results[0], totals
}

func TestASeedFixesEveryStart(t *testing.T) {
	even := Schedule{Rate: 100, Length: 2 * time.Second}.Starts()
	if len(even) != 200 || even[0] != 0 || even[150] != 1500*time.Millisecond {
		t.Errorf("%d starts, the 151st at %v", len(even), even[150])
	}
	drawn := Schedule{Rate: 100, Length: 2 * time.Second, Poisson: true, Seed: 7}
	first := drawn.Starts()
	if len(first) != 200 || !slices.IsSorted(first) || first[199] >= 2*time.Second {
		t.Errorf("%d starts up to %v", len(first), first[len(first)-1])
	}
	if !slices.Equal(first, drawn.Starts()) {
		t.Error("the same seed gives other starts")
	}
	if drawn.Seed++; slices.Equal(first, drawn.Starts()) {
		t.Error("another seed gives the same starts")
	}
	// Exponential gaps have a standard deviation of their mean.
	many := Schedule{Rate: 1000, Length: 100 * time.Second, Poisson: true, Seed: 1}.Starts()
	squares := 0.0
	for i := 1; i < len(many); i++ {
		squares += math.Pow((many[i]-many[i-1]).Seconds()*1000-1, 2)
	}
	if deviation := math.Sqrt(squares / float64(len(many)-1)); math.Abs(deviation-1) > 0.02 {
		t.Errorf("gaps have a standard deviation of %.3f of their mean", deviation)
	}
}

// furthestOff is the largest error of a percentile of a histogram, in percent of that of a sorted list.
func furthestOff() (worst float64) {
	draw := rand.New(rand.NewPCG(1, 2))
	for _, spread := range []float64{0.3, 1, 3} {
		h, all := newResult().Response, make([]int64, 200_000)
		for i := range all {
			all[i] = int64(math.Exp(math.Log(1e6) + spread*draw.NormFloat64()))
			h.put(time.Duration(all[i]))
		}
		slices.Sort(all)
		for _, q := range []float64{1, 10, 50, 90, 95, 99, 99.9, 99.99, 100} {
			exact := all[int(math.Ceil(q/100*float64(len(all))-1e-6))-1]
			worst = max(worst, 100*math.Abs(float64(h.ValueAtQuantile(q))/float64(exact)-1))
		}
	}
	return worst
}

func TestHistogramsAgreeWithASortedListOfAllValues(t *testing.T) {
	if off := furthestOff(); off > 0.1 {
		t.Errorf("a percentile is off by %.3f %%", off)
	}
}

func TestCountsAreWrittenSoThatHistogramsCanBeAdded(t *testing.T) {
	h := newResult().Response
	for _, ns := range []int64{5, 5, 1_000_000, 1_000_001} {
		h.put(time.Duration(ns))
	}
	var out bytes.Buffer
	must(t, WriteCounts(&out, "a,b", h))
	if got, want := out.String(), "a,b,5,2\na,b,1000447,2\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

const pause = 200 * time.Millisecond

// paused sends 1,000 queries a second for 1.5 s to a server that is stopped for the first of them, for pause.
func paused(t testing.TB) *Result {
	t.Helper()
	url, pid := stub(t)
	job := jobOf(t, url, 1000, 1500*time.Millisecond, 16)
	job.Patience = time.Minute
	job.Ready = func() {
		_ = unix.Kill(pid, unix.SIGSTOP)
		time.AfterFunc(pause, func() { _ = unix.Kill(pid, unix.SIGCONT) })
	}
	result, _ := run(t, job)
	return result
}

func TestAPauseOfTheServerShowsAtFullLength(t *testing.T) {
	result := paused(t)
	if result.Answered != 1500 || result.Unstarted != 0 {
		t.Fatalf("%+v", result)
	}
	// The pause is a seventh of the time. Queries in it wait for its end, the first one for all of it.
	if p999 := time.Duration(result.Response.ValueAtQuantile(99.9)); p999 < pause*95/100 {
		t.Errorf("p99.9 of response times is %v, of service times %v", p999,
			time.Duration(result.Service.ValueAtQuantile(99.9)))
	}
	if late := float64(result.Response.ValueAtQuantile(90)); late < 0.1*float64(pause) {
		t.Errorf("p90 of response times is %v: who came within the pause did not wait", time.Duration(late))
	}
	// A closed loop would see 16 slow answers of 1,500, one for each connection.
	if seen := result.Service.ValueAtQuantile(98); seen > result.Response.ValueAtQuantile(98) {
		t.Errorf("p98 of service times %v is above that of response times", time.Duration(seen))
	}
	if result.Queued == 0 {
		t.Error("nothing had to wait for a connection")
	}
}

func TestWhatCouldNotBeSentIsCountedAndItsWaitToo(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		time.Sleep(time.Second) // longer than the phase: each connection sends once at most
	}))
	defer server.Close()
	result, _ := run(t, jobOf(t, server.URL, 200, 500*time.Millisecond, 2))
	if result.Planned != 100 || result.Started+result.Unstarted != 100 || result.Started > 2 ||
		result.Answered != result.Started {
		t.Errorf("planned %d, started %d, answered %d, unstarted %d", result.Planned, result.Started, result.Answered,
			result.Unstarted)
	}
	if result.Response.TotalCount() != 100 || result.Service.TotalCount() != int64(result.Answered) {
		t.Errorf("%d response and %d service times", result.Response.TotalCount(), result.Service.TotalCount())
	}
	if result.Response.ValueAtQuantile(90) < int64(200*time.Millisecond) {
		t.Errorf("p90 is %v", time.Duration(result.Response.ValueAtQuantile(90)))
	}
}

func TestErrorsAndEmptyAnswersAreCounted(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "too many", http.StatusServiceUnavailable)
	}))
	defer server.Close()
	without := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"data":{"result":[]}}`)
	}))
	defer without.Close()
	for _, c := range []struct {
		url, failure  string
		failed, empty int
	}{
		{server.URL, "HTTP 503: too many", 20, 0},
		{"http://127.0.0.1:1", "connection refused", 20, 0},
		{without.URL, "", 0, 20},
	} {
		job := jobOf(t, c.url, 100, 200*time.Millisecond, 2)
		job.Patience, job.Streams[0].Answers = time.Minute, "prometheus"
		result, _ := run(t, job)
		if result.Failed != c.failed || result.Empty != c.empty || !strings.HasSuffix(result.Failure, c.failure) ||
			result.Response.TotalCount() != int64(20-c.failed) {
			t.Errorf("%s: %+v", c.url, result.Operations)
		}
	}
}

// A file of 256 batches and of 200 more that come slowly: those that are read ahead start, and few others in time.
func TestARateThatTheClientDoesNotKeepIsSaid(t *testing.T) {
	url, _ := stub(t)
	job := jobOf(t, url, 10_000, 300*time.Millisecond, 4)
	slow := filepath.Join(t.TempDir(), "slow")
	must(t, unix.Mkfifo(slow, 0o600))
	go func() {
		lines, err := os.OpenFile(slow, os.O_WRONLY, 0)
		for ; err == nil; time.Sleep(2 * time.Millisecond) {
			_, err = io.WriteString(lines, "a line of data\n")
		}
	}()
	job.Streams[0].Lines = &Lines{File: slow, Path: "/write", Size: 1}
	if result, _ := run(t, job); result.Started+result.Unstarted != 3000 || result.Unstarted < 2000 ||
		result.Late == 0 {
		t.Errorf("%+v", result)
	}
}

func TestAnEndedContextAndABrokenSourceEndIt(t *testing.T) {
	url, _ := stub(t)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	job := jobOf(t, url, 10, time.Minute, 4)
	if _, _, err := Run(ctx, job); !errors.Is(err, context.DeadlineExceeded) { // not after its minute
		t.Error(err)
	}
	job.Streams[0].Lines = &Lines{File: os.DevNull, Size: 1}
	if _, _, err := Run(t.Context(), job); err == nil ||
		!strings.Contains(err.Error(), "no more than 0 operations, and 600 were planned") {
		t.Error(err)
	}
	job.Streams[0].Lines.File = "nowhere"
	if _, _, err := Run(t.Context(), job); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// The client's CPUs are some of ours; what comes after it may use all of them, and the next canary does.
func TestAfterwardsGoFollowsOurCPUsAgain(t *testing.T) {
	cpus := proc.Allowed()
	if len(cpus) < 2 {
		t.Skip("one CPU")
	}
	url, _ := stub(t)
	undo, err := proc.Pin(cpus[:1])
	if err != nil {
		t.Skip(err)
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	runtime.SetDefaultGOMAXPROCS() // go test has set a number of its own
	run(t, jobOf(t, url, 100, 50*time.Millisecond, 4))
	must(t, undo())
	for range 100 { // Go looks once a second
		if runtime.GOMAXPROCS(0) == len(cpus) {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Errorf("%d of %d CPUs", runtime.GOMAXPROCS(0), len(cpus))
}

// startsOnTime runs 10,000 operations a second on one CPU, against a stub on another CPU if there are two.
func startsOnTime(t testing.TB, length time.Duration) (percent float64, p999 time.Duration, cpu float64) {
	t.Helper()
	cores := slices.Concat(proc.Siblings()...)
	url, pid := stub(t)
	if len(cores) > 1 {
		var other unix.CPUSet
		other.Set(cores[1])
		tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		for _, task := range tasks {
			var tid int
			_, _ = fmt.Sscan(task.Name(), &tid)
			_ = unix.SchedSetaffinity(tid, &other)
		}
	}
	undo, err := proc.Pin(cores[:1])
	if err != nil {
		t.Skip(err)
	}
	result, totals := run(t, jobOf(t, url, 10_000, length, 64))
	must(t, undo())
	if result.Answered != result.Planned {
		t.Fatalf("%d of %d were answered: %s", result.Answered, result.Planned, result.Failure)
	}
	within := 0
	for _, bar := range result.Lateness.Distribution() {
		if bar.To <= int64(time.Millisecond) {
			within += int(bar.Count)
		}
	}
	return 100 * float64(within) / float64(result.Planned), time.Duration(result.Lateness.ValueAtQuantile(99.9)),
		totals.ClientCPU.Seconds() / totals.Elapsed.Seconds()
}

func BenchmarkOpenLoop(b *testing.B) {
	worst, late, share := 100.0, time.Duration(0), 0.0
	for b.Loop() {
		percent, p999, cpu := startsOnTime(b, 2*time.Second)
		worst, late, share = min(worst, percent), max(late, p999), max(share, cpu)
	}
	b.ReportMetric(worst, "%-in-time")
	b.ReportMetric(float64(late.Microseconds()), "us-p99.9-late")
	b.ReportMetric(100*share, "%-cpu")
}

func BenchmarkHistogram(b *testing.B) {
	for b.Loop() {
		b.ReportMetric(furthestOff(), "%-off")
	}
}

func BenchmarkPause(b *testing.B) {
	shortest := 1e9
	for b.Loop() {
		shortest = min(shortest, 100*float64(paused(b).Response.ValueAtQuantile(99.9))/float64(pause))
	}
	b.ReportMetric(shortest, "%-of-pause")
}

func TestWindowsAreTheWholeInPieces(t *testing.T) {
	url, _ := stub(t)
	sum, windows := newResult(), 0
	job := jobOf(t, url, 500, 400*time.Millisecond, 4)
	job.Patience, job.Window = 10*time.Second, 20*time.Millisecond
	job.Each = func(window []*Result) { sum, windows = add([]*Result{sum}, window)[0], windows+1 }
	whole, _ := run(t, job)
	if whole.Planned != 200 || whole.Answered != 200 || whole.Response.TotalCount() != 200 {
		t.Errorf("all windows and the rest are %+v", whole)
	}
	// The rest behind the last window is in the whole alone.
	if windows == 0 || sum.Answered == 0 || sum.Answered > whole.Answered || sum.Planned != 200 {
		t.Errorf("%d windows have %d of %d operations", windows, sum.Answered, whole.Answered)
	}
}

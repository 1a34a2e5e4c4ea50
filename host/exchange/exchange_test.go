package exchange

import (
	"context"
	"encoding/gob"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/timescale/tsbs/pkg/query"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// queryFile writes what tsbs_generate_queries writes: /q?n=0, /q?n=1 ...
func queryFile(t testing.TB, count int) string {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "queries"))
	must(t, err)
	encoder := gob.NewEncoder(file)
	for n := range count {
		q := query.HTTP{HumanLabel: []byte("type"), Method: []byte("GET"), Path: fmt.Appendf(nil, "/q?n=%d", n),
			RawQuery: []byte("n of a")}
		must(t, encoder.Encode(&q))
	}
	must(t, file.Close())
	return file.Name()
}

func source(t testing.TB, count int) Source {
	t.Helper()
	s, err := OpenQueries(queryFile(t, count), 0, "", false)
	must(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func matrix(value string, took int) string {
	return fmt.Sprintf(`{"status":"success","isPartial":false,"data":{"resultType":"matrix",`+
		`"result":[{"metric":{"host":"a"},"values":[[60,"1"],[120,%q]]}]},`+
		`"stats":{"seriesFetched": "1","executionTimeMsec":%d}}`, value, took)
}

var volatile = regexp.MustCompile(`"executionTimeMsec":\s*\d+`)

func serve(t testing.TB, name string, handler http.HandlerFunc) Side {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return Side{Name: name, URL: server.URL}
}

// saying is a server that answers a text to each request.
func saying(t testing.TB, name string, text func(r *http.Request) string) Side {
	t.Helper()
	return serve(t, name, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, text(r)) })
}

func steady(t testing.TB, name string) Side {
	var n atomic.Int64
	return saying(t, name, func(*http.Request) string { return matrix("2", int(n.Add(1))) })
}

// jobOf exchanges so many operations between sides of one database.
func jobOf(t testing.TB, count int, sides ...Side) Job {
	t.Helper()
	return Job{Sides: asking(source(t, count), sides...), Until: Until{Count: count}}
}

// asking gives sides of one database the same operations.
func asking(source Source, sides ...Side) []Side {
	for i := range sides {
		sides[i].Source, sides[i].Reading = source, Reading{Answers: "prometheus", Volatile: volatile}
	}
	return sides
}

func run(t testing.TB, job Job) *Result {
	t.Helper()
	if job.Timeout == 0 {
		job.Timeout = time.Minute
	}
	result, err := Run(context.Background(), job)
	must(t, err)
	return result
}

func TestEachOperationGoesToEverySideInBalancedOrder(t *testing.T) {
	var asked, read []string
	logged := func(name string) Side {
		side := saying(t, name, func(r *http.Request) string {
			asked = append(asked, name+r.URL.Query().Get("n")+r.URL.Query().Get("db"))
			return matrix("2", 1)
		})
		side.Used = func() (Used, error) {
			read = append(read, name)
			n := int64(len(read)) * map[string]int64{"B": 1, "C": 10}[name]
			return Used{CPU: n, Instructions: 100 * n}, nil
		}
		return side
	}
	for _, c := range []struct {
		first               []int // to be asked and read
		asked, read, orders string
	}{
		{nil, "B10x C10x C11x B11x C12x B12x B13x C13x B14x C14x", "B C B C", "01 10 10 01 01"},
		{[]int{1, 0}, "C10x B10x B11x C11x B12x C12x C13x B13x C14x B14x", "C B C B", "10 01 01 10 10"},
	} {
		file, err := OpenQueries(queryFile(t, 100), 10, "&db=x", false)
		must(t, err)
		asked, read = nil, nil
		result := run(t, Job{Sides: asking(file, logged("B"), logged("C")), Until: Until{Count: 5},
			Ask: c.first, Read: c.first})
		if strings.Join(asked, " ") != c.asked || strings.Join(read, " ") != c.read {
			t.Errorf("asked %s, read %s", asked, read)
		}
		// Each side is read two readings later again.
		if b, c := result.Sides[0].Used, result.Sides[1].Used; b != (Used{2, 200}) || c != (Used{20, 2000}) {
			t.Errorf("%+v, %+v", b, c)
		}
		var orders []string
		for k, e := range result.Exchanges {
			if orders = append(orders, e.Order); e.NS[0] <= 0 || e.NS[1] <= 0 || e.Bytes == 0 {
				t.Errorf("exchange %d is %+v", k, e)
			}
		}
		if strings.Join(orders, " ") != c.orders || result.Sides[1].Compared != 5 || result.Differences != 0 ||
			result.Stopped != "" || result.ClientCPU <= 0 {
			t.Errorf("%+v", result)
		}
	}
}

func TestOrdersAreBalanced(t *testing.T) {
	for n := 2; n <= 5; n++ {
		place, before := map[[2]int]int{}, map[[2]int]int{}
		for _, order := range Orders(inOrder(nil, n)) {
			for i, side := range order {
				place[[2]int{side, i}]++
				if i > 0 {
					before[[2]int{order[i-1], side}]++
				}
			}
		}
		for name, counts := range map[string]map[[2]int]int{"places": place, "neighbours": before} {
			want := counts[[2]int{0, 1}]
			for what, count := range counts {
				if count != want {
					t.Errorf("%d sides: %s %v come %d times and others %d", n, name, what, count, want)
				}
			}
		}
		if len(place) != n*n || len(before) != n*(n-1) {
			t.Errorf("%d sides: %d places and %d neighbours are seen", n, len(place), len(before))
		}
	}
}

// A phase in which too many answers differ stops early.
func TestAnswersThatDifferAndAnswersWithoutDataAreCountedAndTheFirstIsKeptWithBothBodies(t *testing.T) {
	changed := saying(t, "candidate", func(r *http.Request) string {
		n, _ := strconv.Atoi(r.URL.Query().Get("n"))
		switch {
		case n == 77:
			return matrix("2.00001", 7)
		case n >= 90:
			return `{"status":"success","data":{"resultType":"matrix","result": [ ]}}`
		}
		return matrix("2", 7)
	})
	job := jobOf(t, 100, steady(t, "baseline"), changed)
	job.MostDifferences = 9
	result := run(t, job)
	if candidate := result.Sides[1]; candidate.Compared != 98 || candidate.Differences != 9 || candidate.Empty != 8 ||
		result.Sides[0].Empty != 0 || result.Differences != 9 || len(result.Exchanges) != 98 || result.First == nil ||
		result.Stopped != "9 of 98 answers differ" {
		t.Fatalf("%+v, stopped: %q", result.Sides, result.Stopped)
	}
	first := result.First
	if first.K != 77 || first.Query != "GET /q?n=77" ||
		first.What != `series {host="a"}: at 120 the values are 2 and 2.00001` ||
		!strings.Contains(first.Bodies[0], `[120,"2"]`) || !strings.Contains(first.Bodies[1], `"2.00001"`) {
		t.Errorf("%+v", first)
	}
}

func TestASideThatFailsIsOutAndTheOthersGoOn(t *testing.T) {
	var n atomic.Int64
	failing := func() Side {
		n.Store(0)
		return serve(t, "failing", func(w http.ResponseWriter, _ *http.Request) {
			if n.Add(1) > 3 {
				http.Error(w, "cannot allocate\nmore", http.StatusUnprocessableEntity)
				return
			}
			io.WriteString(w, matrix("2", 1))
		})
	}
	three := run(t, jobOf(t, 10, steady(t, "baseline"), failing(), steady(t, "third")))
	if three.Sides[1].Failure != "operation 3 (/q?n=3): HTTP 422: cannot allocate" || three.Stopped != "" ||
		len(three.Exchanges) != 10 || three.Exchanges[9].NS[1] != 0 || three.Exchanges[9].NS[2] == 0 ||
		three.Sides[1].Compared != 3 || three.Sides[2].Compared != 10 {
		t.Errorf("%+v, stopped: %q", three.Sides, three.Stopped)
	}
	job := jobOf(t, 40, steady(t, "baseline"), failing(), steady(t, "third"))
	job.InFlight = 2
	bursts := run(t, job)
	for k, e := range bursts.Exchanges[8:] {
		if e.NS[1] != 0 || e.NS[2] == 0 {
			t.Errorf("exchange %d after the failure is %+v", k+8, e)
		}
	}
	two := run(t, jobOf(t, 10, steady(t, "baseline"), failing()))
	if len(two.Exchanges) != 4 || two.Sides[1].Compared != 3 ||
		!strings.HasPrefix(two.Stopped, "failing is out: operation 3") {
		t.Errorf("%+v, stopped: %q", two.Sides, two.Stopped)
	}
	first := run(t, jobOf(t, 10, failing(), steady(t, "second"), steady(t, "third")))
	if len(first.Exchanges) != 4 || !strings.HasPrefix(first.Stopped, "failing is out") {
		t.Errorf("%+v, stopped: %q", first.Sides, first.Stopped)
	}
}

// breaking is a server of raw TCP: each connection answers `answers` requests and is closed without a word.
func breaking(t *testing.T, name string, connections, answers int) Side {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	go func() {
		for range connections {
			socket, err := listener.Accept()
			if err != nil {
				return
			}
			buffer := make([]byte, 1<<16)
			for range answers {
				if _, err := socket.Read(buffer); err != nil {
					break
				}
				body := matrix("2", 1)
				fmt.Fprintf(socket, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
			}
			socket.Close()
		}
		listener.Close()
	}()
	return Side{Name: name, URL: "http://" + listener.Addr().String()}
}

func TestAServerThatDiesIsNamedAndAConnectionGivenUpIsMadeAnew(t *testing.T) {
	dead := run(t, jobOf(t, 10, steady(t, "baseline"), breaking(t, "candidate", 1, 5)))
	// Reset, if the kernel took the new connection just before the listener closed.
	f := dead.Sides[1].Failure
	refused := strings.Contains(f, "): connecting to 127.0.0.1:") && strings.HasSuffix(f, "connection refused")
	if reset := strings.HasSuffix(f, "connection reset by peer"); !refused && !reset ||
		!strings.HasPrefix(f, "operation 5 (/q?n=5): ") {
		t.Errorf("failure: %q", f)
	}
	again := run(t, jobOf(t, 10, steady(t, "baseline"), breaking(t, "candidate", 99, 2)))
	if again.Sides[1].Compared != 10 || again.Sides[1].Failure != "" {
		t.Errorf("%+v", again.Sides)
	}
}

func TestAConnectionThatTheServerClosedWhileItWasIdleIsMadeAnewForABatchToo(t *testing.T) {
	server := breaking(t, "candidate", 2, 0)
	answering := steady(t, "candidate")
	c, err := Dial(t.Context(), server.URL, time.Minute, NewRoom(1))
	must(t, err)
	defer c.Close()
	if _, err := c.socket.Read(make([]byte, 1)); err != io.EOF {
		t.Fatalf("the server has not closed the connection: %v", err)
	}
	batch := &Operation{Method: "POST", Path: "/write", Body: []byte("a b=1\n"), Lines: 1}
	if _, err := c.Do(t.Context(), batch); err == nil || c.socket != nil {
		t.Errorf("a batch was sent twice over a connection that broke: %v", err)
	}
	c.host = strings.TrimPrefix(breaking(t, "candidate", 1, 0).URL, "http://")
	must(t, c.connect(t.Context()))
	_, _ = c.socket.Read(make([]byte, 1))
	c.host = strings.TrimPrefix(answering.URL, "http://")
	if _, err := c.Do(t.Context(), batch); err != nil {
		t.Error(err)
	}
}

func TestNoAnswerInTimeIsAFailureAndAnInterruptionIsNone(t *testing.T) {
	block := make(chan struct{})
	defer close(block)
	silent := func() Side {
		return serve(t, "candidate", func(http.ResponseWriter, *http.Request) { <-block })
	}
	job := jobOf(t, 10, steady(t, "baseline"), silent())
	job.Timeout = 3 * time.Second
	late := run(t, job)
	if f := late.Sides[1].Failure; f != "operation 0 (/q?n=0): no answer within 3s" {
		t.Errorf("failure: %q", f)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err := Run(ctx, Job{Sides: asking(source(t, 10), silent(), silent()), Timeout: time.Hour})
	if err != context.DeadlineExceeded {
		t.Error(err)
	}
}

func TestBurstsGoToOneSideAtATimeByItsWorkers(t *testing.T) {
	var mutex sync.Mutex
	var busy [2]int
	var most int
	var turns []int
	side := func(i int) Side {
		return serve(t, fmt.Sprint(i), func(w http.ResponseWriter, _ *http.Request) {
			mutex.Lock()
			busy[i]++
			most = max(most, busy[i])
			if busy[1-i] > 0 {
				t.Error("both sides are asked at once")
			}
			if len(turns) == 0 || turns[len(turns)-1] != i {
				turns = append(turns, i)
			}
			for begin := time.Now(); most < 2 && time.Since(begin) < time.Minute; { // until the other worker is here, once
				mutex.Unlock()
				time.Sleep(time.Millisecond)
				mutex.Lock()
			}
			busy[i]--
			mutex.Unlock()
			io.WriteString(w, matrix("2", 1))
		})
	}
	result := run(t, Job{Sides: asking(source(t, 100), side(0), side(1)), Until: Until{Count: 42}, InFlight: 2})
	if most != 2 || fmt.Sprint(turns) != "[0 1 0 1 0 1 0 1 0]" || len(result.Exchanges) != 42 ||
		result.Sides[1].Compared != 42 {
		t.Errorf("%d at once, turns %v, %d compared", most, turns, result.Sides[1].Compared)
	}
}

func TestAPhaseLastsAsLongAsItsRuleSays(t *testing.T) {
	ms := time.Millisecond
	for _, c := range []struct {
		until   Until
		done    int
		elapsed time.Duration
		over    bool
	}{
		{Until{Count: 5}, 4, time.Hour, false},
		{Until{Count: 5}, 5, 0, true},
		{Until{Lasts: 10 * ms, Longest: 50 * ms, Least: 64, Fewest: 16}, 64, 9 * ms, false},
		{Until{Lasts: 10 * ms, Longest: 50 * ms, Least: 64, Fewest: 16}, 64, 10 * ms, true},
		{Until{Lasts: 10 * ms, Longest: 50 * ms, Least: 64, Fewest: 16}, 63, 49 * ms, false},
		{Until{Lasts: 10 * ms, Longest: 50 * ms, Least: 64, Fewest: 16}, 16, 50 * ms, true},
		{Until{Lasts: 10 * ms, Longest: 50 * ms, Least: 64, Fewest: 16}, 15, time.Hour, false},
		{Until{}, 1 << 30, time.Hour, false},
	} {
		if got := c.until.over(c.done, c.elapsed); got != c.over {
			t.Errorf("%+v: %t after %d in %s", c.until, got, c.done, c.elapsed)
		}
	}
	short := run(t, Job{Sides: asking(source(t, 7), steady(t, "a"), steady(t, "b")), Until: Until{Count: 9}})
	if short.Stopped != "there are no more than 7 operations" {
		t.Errorf("stopped: %q", short.Stopped)
	}
	_, err := OpenQueries(queryFile(t, 3), 5, "", false)
	if err == nil || !strings.Contains(err.Error(), "ends after 3 queries") {
		t.Error(err)
	}
}

func TestBatchesAreTheFileInPieces(t *testing.T) {
	var data strings.Builder
	for i := range 250 {
		fmt.Fprintf(&data, "cpu,host=h%d value=%d\n", i, i*i)
	}
	path := filepath.Join(t.TempDir(), "data")
	must(t, os.WriteFile(path, []byte(data.String()), 0o600))
	var got [2]strings.Builder
	side := func(i int) Side {
		return serve(t, fmt.Sprint(i), func(w http.ResponseWriter, r *http.Request) {
			io.Copy(&got[i], r.Body)
			w.WriteHeader(http.StatusNoContent)
		})
	}
	batches, err := OpenBatches(path, "/write", 100)
	must(t, err)
	sides := asking(batches, side(0), side(1))
	for i := range sides {
		sides[i].Answers = ""
	}
	result, err := Run(context.Background(), Job{Sides: sides, Timeout: time.Minute})
	must(t, err)
	if got[0].String() != data.String() || got[1].String() != data.String() || len(result.Exchanges) != 3 ||
		result.Exchanges[2].Lines != 50 {
		t.Errorf("%d exchanges, %d and %d bytes of %d", len(result.Exchanges), got[0].Len(), got[1].Len(), data.Len())
	}
}

func TestEachSideIsAskedInItsOwnWordsAndTheShorterFileEndsThePhase(t *testing.T) {
	candidate := saying(t, "candidate", func(r *http.Request) string {
		if r.URL.Query().Get("n") == "2" {
			return matrix("9", 1)
		}
		return matrix("2", 1)
	})
	sides := asking(source(t, 10), steady(t, "baseline"), candidate)
	other, err := OpenQueries(queryFile(t, 6), 2, "", false)
	must(t, err)
	sides[1].Source, sides[1].Level = other, Values
	result := run(t, Job{Sides: sides, Until: Until{Count: 10}})
	if len(result.Exchanges) != 4 || result.Stopped != "there are no more than 4 operations" ||
		result.Sides[1].Compared != 4 {
		t.Errorf("%+v", result)
	}
	if result.Differences != 1 || result.First.Query != "GET /q?n=0\nGET /q?n=2" {
		t.Errorf("%d differ, the first: %+v", result.Differences, result.First)
	}
}

// The driver's own cost: at most 15 us an operation above a bare net/http loop, for answers under 10 kB.
func BenchmarkOperation(b *testing.B) {
	answer := strings.Replace(matrix("2", 1), `[60,"1"],`, strings.Repeat(`[60,"1.2345"],`, 8000/14), 1)
	side := serve(b, "stub", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, answer) })
	b.Run("client=net-http", func(b *testing.B) {
		buffer := make([]byte, 1<<16)
		for b.Loop() {
			response, err := http.Get(side.URL + "/q?n=1")
			must(b, err)
			for err == nil {
				_, err = response.Body.Read(buffer)
			}
			response.Body.Close()
		}
	})
	b.Run("client=exchange", func(b *testing.B) {
		sides := []Side{side, side}
		result := run(b, jobOf(b, b.N, sides...))
		var timed int64
		for _, e := range result.Exchanges {
			timed += e.NS[0] + e.NS[1]
		}
		b.ReportMetric(float64(timed)/float64(2*b.N), "timed-ns/operation")
		b.ReportMetric(float64(result.Elapsed.Nanoseconds())/float64(2*b.N), "ns/operation")
		b.ReportMetric(float64(result.ClientCPU)/float64(2*b.N), "process-cpu-ns/operation")
	})
}

// Package hostile holds a server that lies against each of our readers of what servers send.
package hostile

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/timescale/tsbs/pkg/query"

	"tsduel/host/bound"
	"tsduel/host/exchange"
	"tsduel/host/formats"
	"tsduel/host/openloop"
	"tsduel/host/profiles"
	"tsduel/host/record"
	"tsduel/host/scrape"
)

const (
	ok     = "HTTP/1.1 200 OK\r\n"
	answer = `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[60,"1"]]}]}}`
)

var late time.Duration // the timeout of an operation

func TestMain(m *testing.M) {
	bound.Answers, bound.Counters, bound.Profile = 8<<20, 4<<20, 4<<20
	_ = packed()
	os.Exit(m.Run())
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func honest(text string) string {
	return fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", ok, len(text), text)
}

// forever writes a text until the other side hangs up.
func forever(w io.Writer, text string) {
	for many := []byte(strings.Repeat(text, 1+(64<<10)/len(text))); ; {
		if _, err := w.Write(many); err != nil {
			return
		}
	}
}

var packed = sync.OnceValue(func() []byte {
	var bomb bytes.Buffer
	pack := gzip.NewWriter(&bomb)
	for range 512 {
		_, _ = pack.Write(make([]byte, 1<<20))
	}
	_ = pack.Close()
	return bomb.Bytes()
})

var elsewhere atomic.Int64 // requests that followed a redirect

// lies are what a server sends in place of its second answer, and parts of the sentences of readers: of answers that
// are held to the end (kept), and of counters. Both may read an answer of counters as it is: "".
var lies = []struct {
	name           string
	tell           func(w net.Conn, address string)
	kept, counters string
}{
	{"30 GB are announced", says(ok + "Content-Length: 30000000000\r\n\r\n{"),
		"(it announces 30000000000 bytes) of more than 8 MiB", "an answer of more than 4 MiB"},
	{"2^62 bytes are announced", says(ok + "Content-Length: 4611686018427387904\r\n\r\n{"),
		"(it announces 4611686018427387904 bytes) of more than 8 MiB", "an answer of more than 4 MiB"},
	{"a negative length", says(ok + "Content-Length: -5\r\n\r\n{"), "bad Content-Length", "bad Content-Length"},
	{"two lengths", says(ok + "Content-Length: 5\r\nContent-Length: 6\r\n\r\n{}    "), "Content-Length", "Content-Length"},
	{"chunks without end", func(w net.Conn, _ string) {
		_, _ = io.WriteString(w, ok+"Transfer-Encoding: chunked\r\n\r\n")
		forever(w, fmt.Sprintf("1000\r\n%s\r\n", strings.Repeat("a 1\n", 1024)))
	}, "answers at once of more than 8 MiB", "an answer of more than 4 MiB"},
	{"a body without end", func(w net.Conn, _ string) {
		_, _ = io.WriteString(w, ok+"Connection: close\r\n\r\n")
		forever(w, "a 1\n")
	}, "answers at once of more than 8 MiB", "an answer of more than 4 MiB"},
	{"a chunk of 2^60 bytes", says(ok + "Transfer-Encoding: chunked\r\n\r\n1000000000000000\r\n{"),
		"breaks off", "unexpected EOF"},
	{"a trailer without end", func(w net.Conn, _ string) {
		_, _ = io.WriteString(w, ok+"Transfer-Encoding: chunked\r\nTrailer: A\r\n\r\n1\r\n{\r\n0\r\n")
		forever(w, "A: b\r\n")
	}, "breaks off", "trailer"},
	{"headers without end", func(w net.Conn, _ string) {
		_, _ = io.WriteString(w, ok)
		forever(w, "A: b\r\n")
	}, "an answer with headers of more than 1 MiB", "an answer with headers of more than 1 MiB"},
	{"one header without end", func(w net.Conn, _ string) {
		_, _ = io.WriteString(w, ok+"A: ")
		forever(w, "b")
	}, "an answer with headers of more than 1 MiB", "an answer with headers of more than 1 MiB"},
	{"a status line without end", func(w net.Conn, _ string) { forever(w, "HTTP/1.1 200 OK ") },
		"an answer with headers of more than 1 MiB", "an answer with headers of more than 1 MiB"},
	{"interim answers without end", func(w net.Conn, _ string) { forever(w, "HTTP/1.1 103 Early Hints\r\nA: b\r\n\r\n") },
		"an answer with headers of more than 1 MiB", "an answer with headers of more than 1 MiB"},
	{"another protocol", says("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"),
		"HTTP 101", "HTTP status 101"},
	{"it breaks off", says(ok + "Content-Length: 100\r\n\r\n{"), "breaks off after 1 bytes", "unexpected EOF"},
	{"no HTTP", says("ERR unknown command\r\n\r\n"), "not an HTTP answer", "malformed HTTP"},
	{"slow without end", func(w net.Conn, _ string) {
		_, err := io.WriteString(w, ok+"Content-Length: 100000\r\n\r\n")
		for ; err == nil; time.Sleep(5 * time.Millisecond) {
			_, err = io.WriteString(w, "a")
		}
	}, "no answer within 500ms", "context deadline exceeded"},
	{"two answers to one operation", says(honest(answer) + honest(answer)), `behind it stands "HTTP/1.1 200 OK`, ""},
	{"a line behind the answer", says(honest(answer) + "\r\n"), `behind it stands "\r\n"`, ""},
	{"a second answer, later", func(w net.Conn, _ string) {
		_, _ = io.WriteString(w, honest(answer))
		time.Sleep(5 * time.Millisecond)
		_, _ = io.WriteString(w, honest(answer))
	}, `behind it stands "HTTP/1.1 200 OK`, ""},
	{"a redirect", func(w net.Conn, address string) {
		_, _ = fmt.Fprintf(w, "HTTP/1.1 302 Found\r\nLocation: http://%s/elsewhere\r\nContent-Length: 0\r\n\r\n", address)
	}, "HTTP 302", "HTTP status 302"},
	{"packed, 512 MiB of it", func(w net.Conn, _ string) {
		bomb := packed()
		_, _ = fmt.Fprintf(w, "%sContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", ok, len(bomb), bomb)
	}, "no answer of Prometheus' API", ""},
	{"another schema", says(honest("<html>hello</html>")), "no answer of Prometheus' API", ""},
	{"a list in place of an object", says(honest("[1]")), "no answer of Prometheus' API", ""},
}

// ofLines are the sentences where a batch's answer is not read: any body will do.
var ofLines = map[string]string{"packed, 512 MiB of it": "", "another schema": "", "a list in place of an object": ""}

func says(text string) func(net.Conn, string) {
	return func(w net.Conn, _ string) { _, _ = io.WriteString(w, text) }
}

// server answers each request honestly but the second. It hangs up behind a lie that is no whole answer.
func server(t *testing.T, lie func(net.Conn, string)) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	var asked atomic.Int64
	address := listener.Addr().String()
	go func() {
		for {
			w, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer w.Close()
				for from := bufio.NewReader(w); ; {
					request, err := http.ReadRequest(from)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, request.Body)
					if request.URL.Path == "/elsewhere" {
						elsewhere.Add(1)
					}
					if request.Header.Get("Accept-Encoding") != "" {
						_, _ = io.WriteString(w, "HTTP/1.1 406 Not Acceptable\r\nContent-Length: 0\r\n\r\n")
					} else if asked.Add(1) != 2 {
						_, _ = io.WriteString(w, honest(answer))
					} else if lie(w, address); !whole.MatchString(t.Name()) {
						return
					}
				}
			}()
		}
	}()
	return "http://" + address
}

var whole = regexp.MustCompile(`answer|behind|redirect|packed|schema|list_in`)

func queries(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "queries")
	file, err := os.Create(path)
	must(t, err)
	encoder := gob.NewEncoder(file)
	for range 9 {
		must(t, encoder.Encode(&query.HTTP{Method: []byte("GET"), Path: []byte("/q")}))
	}
	must(t, file.Close())
	return path
}

func lines(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "lines")
	must(t, os.WriteFile(path, []byte(strings.Repeat("a b=1 1\n", 9)), 0o600))
	return path
}

// exchanged sends operations to an honest server and to one that lies, which must be out in the end.
func exchanged(answers string, open func() (exchange.Source, error)) func(*testing.T, string) string {
	return func(t *testing.T, url string) string {
		source, err := open()
		must(t, err)
		defer source.Close()
		var sides []exchange.Side
		for _, at := range []string{server(t, says(honest(answer))), url} {
			sides = append(sides, exchange.Side{Name: at, URL: at, Source: source, Reading: exchange.Reading{Answers: answers}})
		}
		sides[1].Level = exchange.Data
		result, err := exchange.Run(t.Context(), exchange.Job{Sides: sides, Timeout: late})
		must(t, err)
		if result.Sides[0].Failure != "" {
			t.Errorf("the honest side is blamed: %s", result.Sides[0].Failure)
		}
		return result.Sides[1].Failure
	}
}

func opened(stream openloop.Stream) func(*testing.T, string) string {
	return func(t *testing.T, url string) string {
		stream.URL, stream.Connections, stream.Timeout = url, 1, late
		stream.Rate, stream.Length = 50, 150*time.Millisecond
		results, _, err := openloop.Run(t.Context(), openloop.Job{Streams: []openloop.Stream{stream},
			LateAfter: time.Second, Patience: 5 * time.Second})
		must(t, err)
		if (results[0].Failed > 0) != (results[0].Failure != "") {
			t.Errorf("%d failed: %q", results[0].Failed, results[0].Failure)
		}
		return cmp.Or(results[0].Failure, results[0].Wrong)
	}
}

// readers are all that read what a server sends over HTTP. They return their sentence, "" if they took it all.
func readers(t *testing.T) map[string]func(*testing.T, string) string {
	asked, sent := queries(t), lines(t)
	get := func(t *testing.T, url string, read func([]byte) error) string {
		for range 2 {
			if body, err := scrape.Fetch(t.Context(), url+"/metrics"); err != nil {
				return err.Error()
			} else if err := read(body); err != nil {
				return err.Error()
			}
		}
		return ""
	}
	return map[string]func(*testing.T, string) string{
		"kept exchange": exchanged("prometheus", func() (exchange.Source, error) {
			return exchange.OpenQueries(asked, 0, "", false)
		}),
		"lines exchange": exchanged("", func() (exchange.Source, error) { return exchange.OpenBatches(sent, "/write", 1) }),
		"kept open loop": opened(openloop.Stream{Queries: []openloop.Queries{{Path: asked}}, Answers: "prometheus"}),
		"lines open loop": opened(openloop.Stream{
			Lines: &openloop.Lines{File: sent, Path: "/write", Size: 1}}),
		"lines own loader": func(t *testing.T, url string) string {
			load := formats.Load{File: sent, Format: "influx", URLs: []string{url}, Path: "/write", Workers: 1, Size: 1,
				Results: filepath.Join(t.TempDir(), "results"), Timeout: late}
			if err := load.Run(t.Context(), io.Discard); err != nil {
				return err.Error()
			}
			return ""
		},
		"counters scrape": func(t *testing.T, url string) string {
			return get(t, url, func(body []byte) error {
				_, _, err := scrape.Sum(scrape.OfRole("server", body), record.Counter{Name: "a"})
				return err
			})
		},
	}
}

// Each lie of a server is told by each reader as a fault of that server, within bounds of memory.
func TestAServerThatLies(t *testing.T) {
	for reader, read := range readers(t) {
		for _, lie := range lies {
			t.Run(reader+"/"+lie.name, func(t *testing.T) {
				want := lie.kept
				if strings.HasPrefix(reader, "counters") {
					want = lie.counters
				} else if other, of := ofLines[lie.name]; of && strings.HasPrefix(reader, "lines") {
					want = other
				}
				late = time.Minute
				if lie.name == "slow without end" {
					late = time.Second / 2
				}
				scrape.Timeout = late
				before := memory()
				said := read(t, server(t, lie.tell))
				if !strings.Contains(said, want) || (said == "") != (want == "") {
					t.Errorf("%q and not %q", said, want)
				}
				if grown := memory() - before; grown > 100<<20 {
					t.Errorf("the program has grown by %d MiB", grown>>20)
				}
			})
		}
	}
	if n := elsewhere.Load(); n > 0 {
		t.Errorf("%d redirects were followed", n)
	}
}

// memory is what the program has had of the machine at most, in bytes.
func memory() int64 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapSys)
}

// A profile, and the JSON of expvar, unpack to more than they have: no more than a bound is made of them.
func TestWhatBecomesMoreWhenItIsRead(t *testing.T) {
	profile := packed()
	long := strings.Repeat("k", 4000)
	many := []string{}
	for n := range 2000 {
		many = append(many, fmt.Sprintf(`"%d":1`, n))
	}
	expvar := []byte(fmt.Sprintf(`{%q:{%s}}`, long, strings.Join(many, ",")))
	inner := strings.Repeat(fmt.Sprintf(`{%q:`, long[:500]), 9000) + "1" + strings.Repeat("}", 9000)
	before := memory()
	_, wrong := scrape.Expvar(expvar)
	if _, err := scrape.Expvar([]byte(inner)); err == nil || !strings.Contains(err.Error(), "of more than 4 KiB") {
		t.Error(err)
	}
	for _, err := range []error{new(profiles.Sum).Add(profile), new(profiles.Sum).Add(make([]byte, 5<<20)), wrong} {
		if _, theirs := errors.AsType[bound.Theirs](err); !theirs || !strings.Contains(err.Error(), "of more than 4 MiB") {
			t.Error(err)
		}
	}
	if grown := memory() - before; grown > 100<<20 {
		t.Errorf("the program has grown by %d MiB", grown>>20)
	}
}

// what reads, or may read, more than a line.
var reading = regexp.MustCompile(`io\.(ReadAll|Copy)|os\.ReadFile|\.ReadFrom\(|bound\.(Read|File)\(|ReadBytes|` +
	`ReadString|NewScanner|bufio\.NewReader|json\.(NewDecoder|Unmarshal)|gob\.NewDecoder|(json)?rpc\.New|` +
	`http\.(ReadResponse|Client|Get|Transport)|net\.Dial|DialContext|(gzip|zstd|csv)\.NewReader|` +
	`ParseUncompressed|ParseData`)

const (
	trusted = "the user's own: the plan, data, what tsduel itself has written"
	kernel  = "the kernel bounds it"
	here    = "TestAServerThatLies, TestWhatBecomesMoreWhenItIsRead"
)

// read says of each file of ours how many of its lines read, and who bounds that: a test, or why none is needed.
var read = map[string]struct {
	lines int
	who   string
}{
	"logs/logs.go":           {1, "TestLastWords: lines without end"},
	"servers/servers.go":     {1, "proc.MostLog, by which a log is cut"},
	"block/starts.go":        {1, trusted},
	"bound/bound.go":         {1, here},
	"exchange/answers.go":    {5, here},
	"exchange/conn.go":       {6, here},
	"exchange/influxql.go":   {1, here},
	"exchange/operations.go": {3, trusted},
	"gobench/calibrate.go":   {1, "gobench.TestFailures: a benchmark that printed more has failed"},
	"gobench/profile.go":     {1, here},
	"machine/clients.go":     {2, trusted},
	"machine/copy.go":        {1, "from one file to another"},
	"machine/disk.go":        {2, "from one file to another"},
	"machine/machine.go":     {2, "machine.TestRunFlood"},
	"noise/describe.go":      {2, "Google's own server, and 200 bytes"},
	"proc/count.go":          {2, kernel},
	"proc/hold.go":           {1, kernel},
	"proc/log.go":            {1, "proc: from one file to another, and it is cut"},
	"proc/place.go":          {1, "from one file to another"},
	"proc/start.go":          {1, kernel},
	"profiles/profiles.go":   {4, here},
	"record/block.go":        {1, trusted},
	"record/files.go":        {2, trusted},
	"record/hidden.go":       {2, trusted},
	"record/place.go":        {2, trusted},
	"record/plan.go":         {1, trusted},
	"run/detached.go":        {3, trusted},
	"run/lock.go":            {2, trusted},
	"run/resume.go":          {3, trusted},
	"scrape/read.go":         {2, "a line of 1 MiB at most, of which sums are kept"},
	"scrape/scrape.go":       {5, here},
	"values/duel.go":         {2, trusted},
	"values/outputs.go":      {4, "TSBS, which is ours"},
	"values/solo.go":         {2, "TSBS, which is ours"},
	"workload/dump.go":       {6, trusted},
	"workload/generate.go":   {3, trusted},
	"expressions/main.go":    {1, trusted},
	"workload/own.go":        {2, trusted},
	"workload/queries.go":    {1, trusted},
	"workload/shape.go":      {1, trusted},
	"workload/job.go":        {1, trusted},
}

// Who adds a reader adds it to the lies that it is told, or says above why nobody can lie to it.
func TestEveryReaderIsKnown(t *testing.T) {
	found := map[string]int{}
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for line := range strings.Lines(string(text)) {
			if code, _, _ := strings.Cut(line, "//"); reading.MatchString(code) {
				found[strings.TrimPrefix(path, "../")]++
			}
		}
		return err
	})
	must(t, err)
	for path := range read {
		found[path] += 0
	}
	for path, n := range found {
		if n != read[path].lines {
			t.Errorf("host/%s has %d lines that read, and %d are known: say in this table who sends what they read, and which "+
				"test lies to them", path, n, read[path].lines)
		}
	}
}

// A goroutine that is not record.Caught would end the program with the exit code of a user's mistake.
func TestEveryGoroutineIsCaught(t *testing.T) {
	starts := regexp.MustCompile(`\bgo (func\b|[\w.]+\()|\.Go\(`)
	allowed := []string{"go record.Caught(", ".Go(record.Caught(", "// a start that panics could not be waited for",
		"go l.report(",
		"go endless("} // the last ends its program, which runs at home and measures nothing
	must(t, filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for line := range strings.Lines(string(text)) {
			known := slices.ContainsFunc(allowed, func(one string) bool { return strings.Contains(line, one) })
			if starts.MatchString(line) && !known && !strings.HasPrefix(strings.TrimSpace(line), "//") {
				t.Errorf("host/%s: %s", strings.TrimPrefix(path, "../"), strings.TrimSpace(line))
			}
		}
		return err
	}))
}

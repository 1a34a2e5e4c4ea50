package workload

import (
	"bufio"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/timescale/tsbs/pkg/query"

	"tsduel/host/record"
)

// TSBS's generators draw hosts first for one database and times first for another, so that the k-th queries of one seed ask
// different things. Where databases are compared with each other both are drawn here, of the seed and k alone, and put into the
// queries as TSBS has written them. Windows begin at whole minutes, so that all databases can have the same ones.

var (
	hostName = regexp.MustCompile(`\bhost_[0-9]+\b`)
	// "time >= '2025-06-10T00:00:00Z' and time < '...'", as the dialects of SQL have it, and their windows.
	timeEdge = regexp.MustCompile(`time (>=|<) '([^']+)'`)
)

// alike writes another file with the same queries, of hosts and times that are the same for every format; made is how many.
func alike(from, to string, plan *record.WorkloadPlan, seed int64) (made int64, err error) {
	return rewrite(from, to, func(k int64, q *query.HTTP) error {
		return askAlike(q, plan, rand.New(rand.NewPCG(uint64(seed), uint64(k))))
	})
}

// rewrite changes each query of a file, and returns how many there are.
func rewrite(from, to string, change func(k int64, q *query.HTTP) error) (made int64, err error) {
	in, err := os.Open(from)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	buffer := bufio.NewWriterSize(out, 1<<20)
	read, write := gob.NewDecoder(bufio.NewReaderSize(in, 1<<20)), gob.NewEncoder(buffer)
	for ; ; made++ {
		var q query.HTTP // a fresh one each time: gob leaves fields that are not in the stream as they were
		if err := read.Decode(&q); errors.Is(err, io.EOF) {
			return made, buffer.Flush()
		} else if err != nil {
			return made, fmt.Errorf("no file of TSBS's HTTP queries: %w", err)
		}
		if err := errors.Join(change(made, &q), write.Encode(&q)); err != nil {
			return made, fmt.Errorf("query %d (%s): %w", made, q.HumanDescription, err)
		}
	}
}

// askAlike draws when a query's window begins, then its hosts, as many as it names.
func askAlike(q *query.HTTP, plan *record.WorkloadPlan, draw *rand.Rand) error {
	u, err := url.Parse(string(q.Path))
	if err != nil {
		return err
	}
	arguments := u.Query()
	text := "query" // PromQL's argument, or InfluxQL's
	if arguments.Has("q") {
		text = "q"
	}
	asked := arguments.Get(text)
	begin, lasts, step, err := windowOf(arguments, asked)
	if err != nil {
		return err
	}
	first := plan.Start.Truncate(time.Minute)
	if first.Before(plan.Start) {
		first = first.Add(time.Minute)
	}
	room := plan.End.Add(-lasts).Sub(first) / time.Minute
	if room < 0 {
		return record.UserError("queries.types: a window of %s from a whole minute on does not fit between workload.start and workload.end", lasts)
	}
	start := first.Add(time.Duration(draw.Int64N(int64(room)+1)) * time.Minute)
	end := start.Add(lasts)
	switch {
	case begin.IsZero():
	case arguments.Has("start"):
		// A point stands for the window that ends with it: the first is that of the window that begins at start.
		arguments.Set("start", strconv.FormatInt(start.Add(step).Unix(), 10))
		arguments.Set("end", strconv.FormatInt(end.Unix(), 10))
	default:
		asked = timeEdge.ReplaceAllStringFunc(asked, func(edge string) string {
			at := start
			if strings.Contains(edge, "<") {
				at = end
			}
			return edge[:strings.IndexByte(edge, '\'')] + "'" + at.Format(time.RFC3339) + "'"
		})
		// Windows of an hour begin with the query, as PromQL's do, and not with the hour.
		if offset := start.Sub(start.Truncate(time.Hour)); offset > 0 {
			asked = strings.Replace(asked, "time(1h)", fmt.Sprintf("time(1h,%dm)", offset/time.Minute), 1)
		}
	}
	drawn, taken := map[string]string{}, map[int]bool{}
	asked = hostName.ReplaceAllStringFunc(asked, func(host string) string {
		if _, known := drawn[host]; !known {
			n := draw.IntN(plan.Scale)
			for taken[n] && len(taken) < plan.Scale {
				n = draw.IntN(plan.Scale)
			}
			taken[n], drawn[host] = true, fmt.Sprintf("host_%d", n)
		}
		return drawn[host]
	})
	if string(q.RawQuery) == arguments.Get(text) {
		q.RawQuery = []byte(asked)
	}
	arguments.Set(text, asked)
	q.Path = []byte(u.Path + "?" + arguments.Encode())
	q.HumanDescription = fmt.Appendf(nil, "%s: %s", q.HumanLabel, start.Format(time.RFC3339))
	return nil
}

// windowOf is when TSBS's window of a query begins, zero where it has none; how long it lasts; and the step of its points, 0 where
// points do not stand at its end.
func windowOf(arguments url.Values, asked string) (begin time.Time, lasts, step time.Duration, err error) {
	if arguments.Has("start") {
		var at [3]int64
		for i, name := range [3]string{"start", "end", "step"} {
			if at[i], err = strconv.ParseInt(arguments.Get(name), 10, 64); err != nil {
				return begin, 0, 0, fmt.Errorf("%s of %q is no number of seconds", name, asked)
			}
		}
		return time.Unix(at[0], 0).UTC(), time.Duration(at[1]-at[0]) * time.Second, time.Duration(at[2]) * time.Second, nil
	}
	var end time.Time
	for _, edge := range timeEdge.FindAllStringSubmatch(asked, -1) {
		at, err := time.Parse(time.RFC3339, edge[2])
		if err != nil {
			return begin, 0, 0, err
		}
		if edge[1] == "<" {
			end = at
		} else {
			begin = at
		}
	}
	if begin.IsZero() {
		begin = end // only an end: a window without length
	}
	return begin, end.Sub(begin), 0, nil
}

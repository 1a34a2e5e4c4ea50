package formats

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tsduel/host/exchange"
	"tsduel/host/record"
)

// Load sends a file of lines in batches, with so many in flight, and writes what TSBS's loaders write, so that it
// is watched and read like them: a CSV line a period on out, a summary, and the file of results.
type Load struct {
	File    string // - is stdin
	Format  string
	URLs    []string // each worker has one of them
	Path    string
	Workers int
	Size    int // lines of a batch
	Results string
	Timeout time.Duration
}

// LoadOf reads the variables that the verb load of an adapter gets, and LOAD_FORMAT, LOAD_PATH and LOAD_TIMEOUT_S.
func LoadOf(variable func(string) string) (l Load, err error) {
	number := func(name string) float64 {
		n, wrong := strconv.ParseFloat(variable(name), 64)
		if wrong != nil || !(n > 0) {
			err = errors.Join(err, fmt.Errorf("%s=%q is no number above 0", name, variable(name)))
		}
		return n
	}
	l = Load{File: variable("LOAD_FILE"), Format: variable("LOAD_FORMAT"), Path: variable("LOAD_PATH"),
		URLs: strings.Split(variable("DB_WRITE_URL"), ","), Results: variable("LOAD_RESULTS"),
		Workers: int(number("LOAD_WORKERS")), Size: int(number("LOAD_BATCH_SIZE")),
		Timeout: record.Seconds(number("LOAD_TIMEOUT_S"))}
	return l, err
}

const reportingPeriod = 250 * time.Millisecond

const loadHead = "time,per. metric/s,metric total,overall metric/s,per. row/s,row total,overall row/s\n"

// Run loads; the first batch that is not taken ends it.
func (l Load) Run(ctx context.Context, out io.Writer) error {
	source, err := exchange.OpenBatches(l.File, l.Path, l.Size)
	if err != nil {
		return err
	}
	defer source.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	batches := make(chan exchange.Operation, l.Workers)
	var samples, rows atomic.Int64
	var sent, workers sync.WaitGroup
	sent.Add(l.Workers)
	begin := time.Now()
	fmt.Fprint(out, loadHead)
	for n := range l.Workers {
		workers.Go(record.Caught(func() {
			if err := l.work(ctx, l.URLs[n%len(l.URLs)], batches, &samples, &rows, sync.OnceFunc(sent.Done)); err != nil {
				cancel(err)
			}
		}))
	}
	ended := make(chan struct{})
	go l.report(out, begin, &samples, &rows, ended)
	for err == nil {
		var batch exchange.Operation
		if batch, err = source.Next(); err != nil {
			break
		}
		select {
		case batches <- batch:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	close(batches)
	sent.Wait()
	took := time.Since(begin)
	ended <- struct{}{}
	workers.Wait()
	if err := cmp.Or(context.Cause(ctx), err); !errors.Is(err, io.EOF) {
		return err
	}
	return l.summary(out, took, samples.Load(), rows.Load())
}

func (l Load) work(ctx context.Context, url string, batches <-chan exchange.Operation,
	samples, rows *atomic.Int64, sent func()) error {
	defer sent()
	parse, err := Of(l.Format)
	if err != nil {
		return err
	}
	conn, err := exchange.Dial(ctx, url, l.Timeout, exchange.NewRoom(1))
	if err != nil {
		return err
	}
	defer conn.Close()
	for batch := range batches {
		if _, err := conn.Do(ctx, &batch); err != nil {
			return fmt.Errorf("the server has not taken a batch of %d lines: %w", batch.Lines, err)
		}
		var sink Sink
		for line := range bytes.Lines(batch.Body) {
			if err := parse(&sink, bytes.TrimSuffix(line, []byte{'\n'})); err != nil {
				return err
			}
		}
		samples.Add(sink.Samples)
		rows.Add(int64(batch.Lines))
	}
	sent() // what comes behind waits for as long as the slowest answer took
	return exchange.Quiet(ctx, []*exchange.Conn{conn})
}

// report writes a line a period until the load has ended.
func (l Load) report(out io.Writer, begin time.Time, samples, rows *atomic.Int64, ended <-chan struct{}) {
	ticks := time.Tick(reportingPeriod)
	var lastSamples, lastRows int64
	for {
		select {
		case <-ended:
			return
		case now := <-ticks:
			s, r, all := samples.Load(), rows.Load(), now.Sub(begin).Seconds()
			one := reportingPeriod.Seconds()
			fmt.Fprintf(out, "%d,%.2f,%d,%.2f,%.2f,%d,%.2f\n", now.Unix(), float64(s-lastSamples)/one, s, float64(s)/all,
				float64(r-lastRows)/one, r, float64(r)/all)
			lastSamples, lastRows = s, r
		}
	}
}

func (l Load) summary(out io.Writer, took time.Duration, samples, rows int64) error {
	fmt.Fprintf(out, "\nSummary:\n")
	rates := map[string]any{}
	for _, one := range []struct {
		what, rate string
		count      int64
	}{{"metrics", "metricRate", samples}, {"rows", "rowRate", rows}} {
		rate := float64(one.count) / took.Seconds()
		rates[one.rate] = rate
		fmt.Fprintf(out, "loaded %d %s in %.3fsec with %d workers (mean rate %.2f %s/sec)\n", one.count, one.what,
			took.Seconds(), l.Workers, rate, one.what)
	}
	text, err := json.Marshal(map[string]any{"DurationMillis": took.Milliseconds(), "Totals": rates,
		"RunnerConfig": map[string]any{"workers": l.Workers, "batch-size": l.Size, "reporting-period": reportingPeriod}})
	return cmp.Or(err, os.WriteFile(l.Results, text, 0o644))
}

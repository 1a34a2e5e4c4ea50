package openloop

import (
	"cmp"
	"fmt"
	"io"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"tsduel/host/record"
)

// Result is the result of a stream. Response has the waiting times of the operations that were never started.
type Result struct {
	record.Operations
	Lines int64  // of batches that were answered
	Wrong string // the first error of what came that is no overload, but the server's fault (bound.Theirs)
	// Response: from the intended start to the end of the answer. Service: from the start to the end of
	// the answer. Lateness: from the intended start, or the moment when a connection became free, to the start.
	Response, Service, Lateness Times
}

// Times is a histogram of times in ns.
type Times struct{ *hdrhistogram.Histogram }

func (t Times) put(d time.Duration) {
	_ = t.RecordValue(min(max(int64(d), 1), highest))
}

type Totals struct {
	Elapsed   time.Duration // from the begin to the last answer
	ClientCPU time.Duration // of this process, without busy waiting
}

// highest is the highest time of a histogram, in ns. Its resolution is three digits, 0.1 %.
const highest = int64(time.Hour)

func newResult() *Result {
	empty := func() Times { return Times{hdrhistogram.New(1, highest, 3)} }
	return &Result{Response: empty(), Service: empty(), Lateness: empty()}
}

// add adds up the results of windows, stream by stream.
func add(windows ...[]*Result) (sums []*Result) {
	for i := range windows[0] {
		sum := newResult()
		for _, results := range windows {
			r := results[i]
			for total, count := range map[*int]int{&sum.Planned: r.Planned, &sum.Started: r.Started, &sum.Answered: r.Answered,
				&sum.Failed: r.Failed, &sum.Unstarted: r.Unstarted, &sum.Queued: r.Queued, &sum.Late: r.Late, &sum.Empty: r.Empty} {
				*total += count
			}
			sum.Lines += r.Lines
			sum.Failure, sum.Wrong = cmp.Or(sum.Failure, r.Failure), cmp.Or(sum.Wrong, r.Wrong)
			sum.Response.Merge(r.Response.Histogram)
			sum.Service.Merge(r.Service.Histogram)
			sum.Lateness.Merge(r.Lateness.Histogram)
		}
		sums = append(sums, sum)
	}
	return sums
}

// WriteCounts writes a histogram as lines of CSV: the prefix, the highest value of a bucket in ns, and its
// count. Buckets of several histograms can be added, unlike percentiles.
func WriteCounts(w io.Writer, prefix string, h Times) error {
	for _, bar := range h.Distribution() {
		if bar.Count > 0 {
			if _, err := fmt.Fprintf(w, "%s,%d,%d\n", prefix, bar.To, bar.Count); err != nil {
				return err
			}
		}
	}
	return nil
}

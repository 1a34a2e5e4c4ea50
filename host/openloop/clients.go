package openloop

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"tsduel/host/exchange"
)

// Request is a job of several clients: this one sends every Of-th operation from Part on. Together they send
// the same operations, at the same times, as one client would.
type Request struct {
	Streams             []StreamRequest
	LateAfter, Patience time.Duration
	Part, Of            int
}

// StreamRequest is queries from several files in turn, or batches of lines, without the first Skip operations.
type StreamRequest struct {
	Schedule
	Queries     []Queries
	Lines       *Lines
	Skip        int
	URL         string
	Connections int
	Timeout     time.Duration
	Answers     string // the format of answers to queries, for exchange.Empty
}

// Queries are the arguments of exchange.Around.
type Queries struct {
	Path      string
	First     int
	Arguments string
}

// Lines are the arguments of exchange.OpenBatches.
type Lines struct {
	File, Path string
	Size       int
}

// Job returns this client's part, and a function that closes its sources.
func (a Request) Job() (job Job, closeAll func(), err error) {
	job = Job{LateAfter: a.LateAfter, Patience: a.Patience}
	closeAll = func() {
		for _, s := range job.Streams {
			_ = s.Source.Close()
		}
	}
	for _, whole := range a.Streams {
		s := Stream{URL: whole.URL, Connections: whole.Connections, Timeout: whole.Timeout, Skip: whole.Skip + a.Part,
			Step: a.Of}
		all := whole.Starts()
		for k := a.Part; k < len(all); k += a.Of {
			s.Starts = append(s.Starts, all[k])
		}
		if whole.Lines != nil {
			s.Success = func(status int) bool { return status/100 == 2 }
			s.Source, err = exchange.OpenBatches(whole.Lines.File, whole.Lines.Path, whole.Lines.Size)
		} else {
			s.Success, s.Empty = func(status int) bool { return status == http.StatusOK }, exchange.Empty(whole.Answers)
			var files []exchange.Source
			for _, q := range whole.Queries {
				source, failed := exchange.Around(q.Path, q.First, q.Arguments)
				if err = errors.Join(err, failed); failed == nil {
					files = append(files, source)
				}
			}
			s.Source = exchange.Turns(files...)
		}
		if err != nil {
			closeAll()
			return job, nil, err
		}
		job.Streams = append(job.Streams, s)
	}
	return job, closeAll, nil
}

// Add adds up the results of clients, stream by stream.
func Add(clients ...[]*Result) (sums []*Result) {
	for i := range clients[0] {
		sum := newResult()
		for _, results := range clients {
			r := results[i]
			for total, count := range map[*int]int{&sum.Planned: r.Planned, &sum.Started: r.Started, &sum.Answered: r.Answered,
				&sum.Failed: r.Failed, &sum.Unstarted: r.Unstarted, &sum.Queued: r.Queued, &sum.Late: r.Late, &sum.Empty: r.Empty} {
				*total += count
			}
			sum.Lines += r.Lines
			sum.Failure = cmp.Or(sum.Failure, r.Failure)
			sum.Response.Merge(r.Response)
			sum.Service.Merge(r.Service)
			sum.Lateness.Merge(r.Lateness)
		}
		sums = append(sums, sum)
	}
	return sums
}

type plainResult Result

// sentResult is a Result in JSON. Its histograms hide those of plainResult.
type sentResult struct {
	*plainResult
	Response, Service, Lateness *hdrhistogram.Snapshot
}

// MarshalJSON writes histograms as counts.
func (r *Result) MarshalJSON() ([]byte, error) {
	return json.Marshal(sentResult{(*plainResult)(r), r.Response.Export(), r.Service.Export(), r.Lateness.Export()})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (r *Result) UnmarshalJSON(text []byte) error {
	sent := sentResult{plainResult: (*plainResult)(r)}
	if err := json.Unmarshal(text, &sent); err != nil {
		return err
	}
	if sent.Response == nil || sent.Service == nil || sent.Lateness == nil {
		return errors.New("a client's result has no histograms")
	}
	r.Response, r.Service = hdrhistogram.Import(sent.Response), hdrhistogram.Import(sent.Service)
	r.Lateness = hdrhistogram.Import(sent.Lateness)
	return nil
}

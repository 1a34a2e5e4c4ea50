package openloop

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"tsduel/host/exchange"
)

// Asked is a job that several clients do together, each every Of-th operation from Part on: the same operations, at the
// same times, as one client would send.
type Asked struct {
	Streams             []AskedStream
	LateAfter, Patience time.Duration
	Part, Of            int
}

// AskedStream is of queries, of several files in turn, or of batches of lines, without the first Skip operations.
type AskedStream struct {
	Schedule
	Queries     []Queries
	Lines       *Lines
	Skip        int
	URL         string
	Connections int
	Timeout     time.Duration
	Answers     string // of queries, as exchange.Empty takes it
}

// Queries is what exchange.Around is given.
type Queries struct {
	Path      string
	First     int
	Arguments string
}

// Lines is what exchange.OpenBatches is given.
type Lines struct {
	File, Path string
	Size       int
}

// Job is this client's part. Its sources are open until they are closed.
func (a Asked) Job() (job Job, closeAll func(), err error) {
	job = Job{LateAfter: a.LateAfter, Patience: a.Patience}
	closeAll = func() {
		for _, s := range job.Streams {
			_ = s.Source.Close()
		}
	}
	for _, asked := range a.Streams {
		s := Stream{URL: asked.URL, Connections: asked.Connections, Timeout: asked.Timeout}
		all := asked.Starts()
		for k := a.Part; k < len(all); k += a.Of {
			s.Starts = append(s.Starts, all[k])
		}
		if asked.Lines != nil {
			s.Success = func(status int) bool { return status/100 == 2 }
			s.Source, err = exchange.OpenBatches(asked.Lines.File, asked.Lines.Path, asked.Lines.Size)
		} else {
			s.Success, s.Empty = func(status int) bool { return status == http.StatusOK }, exchange.Empty(asked.Answers)
			var of []exchange.Source
			for _, q := range asked.Queries {
				source, failed := exchange.Around(q.Path, q.First, q.Arguments)
				if err = errors.Join(err, failed); failed == nil {
					of = append(of, source)
				}
			}
			s.Source = exchange.Turns(of...)
		}
		if err != nil {
			closeAll()
			return job, nil, err
		}
		s.Source = exchange.Every(s.Source, asked.Skip+a.Part, a.Of)
		job.Streams = append(job.Streams, s)
	}
	return job, closeAll, nil
}

// Add adds up what clients gave of the same streams. Histograms are added, as percentiles cannot be.
func Add(clients ...[]*Result) (all []*Result) {
	for i := range clients[0] {
		sum := &Result{Response: newHistogram(), Service: newHistogram(), Lateness: newHistogram()}
		for _, of := range clients {
			r := of[i]
			sum.Planned, sum.Started, sum.Answered, sum.Failed = sum.Planned+r.Planned, sum.Started+r.Started, sum.Answered+r.Answered, sum.Failed+r.Failed
			sum.Unstarted, sum.Queued, sum.Late, sum.Empty = sum.Unstarted+r.Unstarted, sum.Queued+r.Queued, sum.Late+r.Late, sum.Empty+r.Empty
			sum.Lines += r.Lines
			if sum.Failure == "" {
				sum.Failure = r.Failure
			}
			sum.Response.Merge(r.Response)
			sum.Service.Merge(r.Service)
			sum.Lateness.Merge(r.Lateness)
		}
		all = append(all, sum)
	}
	return all
}

type plainResult Result

// sentResult is a Result as it travels; its own fields stand before those of plainResult.
type sentResult struct {
	*plainResult
	Response, Service, Lateness *hdrhistogram.Snapshot
}

// MarshalJSON writes histograms count by count.
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
	r.Response, r.Service, r.Lateness = hdrhistogram.Import(sent.Response), hdrhistogram.Import(sent.Service), hdrhistogram.Import(sent.Lateness)
	return nil
}

package block

import (
	"context"
	"fmt"
	"slices"
	"time"

	"tsduel/host/machine"
	"tsduel/host/openloop"
	"tsduel/host/record"
)

const (
	// leadTime is from when all clients are ready until they begin: the instant has to reach all of them.
	leadTime = 200 * time.Millisecond
	// clockQuestions are asked of each client's clock before a phase.
	clockQuestions = 20
)

// asked is a phase as several clients do it together: operations k, k+n, k+2n ... are one client's.
func (f *frame) asked(r *rates, length time.Duration, streams ...ratesStream) openloop.Asked {
	asked := openloop.Asked{LateAfter: time.Duration(r.rule.LateMS * float64(time.Millisecond)), Patience: ratesPatience, Of: 1 + len(f.clients)}
	for i, stream := range streams {
		url := r.url()
		if stream.lines != nil {
			url = r.written().writes
		}
		asked.Streams = append(asked.Streams, openloop.AskedStream{Schedule: f.schedule(r, i, stream.rate, length), Queries: stream.queries, Lines: stream.lines,
			Skip: r.sent[stream.operation], URL: url, Connections: r.rule.Connections, Timeout: record.Seconds(f.Plan.Watchdog.QueryStallS), Answers: r.target.Answers})
	}
	return asked
}

// together runs a phase with all clients, from an instant that they agree on once all are ready. ClientCPU and the totals are this
// client's; what each was and did is returned beside the sum.
func (f *frame) together(ctx context.Context, r *rates, progress func(int), streams []ratesStream) (sum []*openloop.Result, totals openloop.Totals, clients []record.Client, err error) {
	asked := f.asked(r, record.Seconds(r.rule.Seconds), streams...)
	job, closeAll, err := asked.Job()
	if err != nil {
		return nil, totals, nil, err
	}
	defer closeAll()
	type other struct {
		number int
		ahead  float64
		looped machine.Looped
		err    error
		ended  chan struct{}
	}
	others := make([]other, len(f.clients))
	for i, there := range f.clients {
		mine := asked
		mine.Part = i + 1
		others[i].ended = make(chan struct{})
		if err := there.Prime(mine, &others[i].number); err != nil {
			return nil, totals, nil, err
		}
		if _, others[i].ahead, err = there.Clock(clockQuestions); err != nil {
			return nil, totals, nil, err
		}
	}
	var agreed time.Time
	job.Progress = func(done int) { progress(done * asked.Of) }
	job.Meet = func(context.Context) (time.Time, error) {
		agreed = time.Now().Add(leadTime)
		for i, there := range f.clients {
			o := &others[i]
			at := machine.Instant{Client: o.number, At: agreed.UnixNano() + int64(o.ahead*1e9)}
			go func() {
				defer close(o.ended)
				o.err = there.Loop(at, &o.looped)
			}()
		}
		return agreed, nil
	}
	own, totals, err := openloop.Run(ctx, job)
	if err != nil {
		return nil, totals, nil, err
	}
	all := [][]*openloop.Result{own}
	clients = []record.Client{clientOf(f.Host.Host, own, totals.Began.Sub(agreed), totals.Elapsed, totals.ClientCPU, max(1, len(f.Host.Pin.Client)))}
	for i := range others {
		o := &others[i]
		<-o.ended
		if o.err != nil {
			return nil, totals, nil, o.err
		}
		began := time.Duration(o.looped.Began - agreed.UnixNano() - int64(o.ahead*1e9))
		all = append(all, o.looped.Results)
		clients = append(clients, clientOf(f.clients[i].Host, o.looped.Results, began, o.looped.Elapsed, o.looped.ClientCPU, max(1, o.looped.CPUs)))
	}
	return openloop.Add(all...), totals, clients, nil
}

func clientOf(host string, results []*openloop.Result, began, elapsed, cpu time.Duration, cpus int) record.Client {
	c := record.Client{Host: host, BeganMS: began.Seconds() * 1e3, CPUNS: int64(cpu), CPUs: cpus, Share: cpu.Seconds() / elapsed.Seconds() / float64(cpus)}
	for _, r := range results {
		c.Started, c.Lines = c.Started+r.Started, c.Lines+r.Lines
	}
	return c
}

// skew is by how much one client began before another, in ms.
func skew(clients []record.Client) float64 {
	began := func(a, b record.Client) int {
		if a.BeganMS < b.BeganMS {
			return -1
		}
		return 1
	}
	if len(clients) < 2 {
		return 0
	}
	return slices.MaxFunc(clients, began).BeganMS - slices.MinFunc(clients, began).BeganMS
}

// busiest is the client that used most of its CPUs, by name where there are several.
func busiest(clients []record.Client) (share float64, who string) {
	who = "the client"
	for _, c := range clients {
		if c.Share > share {
			share = c.Share
			if len(clients) > 1 {
				who = fmt.Sprintf("the client on %s", c.Host)
			}
		}
	}
	return share, who
}

package block

import (
	"cmp"
	"context"
	"slices"
	"time"

	"tsduel/host/machine"
	"tsduel/host/openloop"
	"tsduel/host/record"
)

const (
	// leadTime is from when all clients are ready until they begin: the instant has to reach all of them.
	leadTime = 200 * time.Millisecond
	// clockQuestions is how often each client's clock is read before a phase.
	clockQuestions = 20
)

// runClients runs a phase with all clients, from one instant on. job and totals are this client's.
func (r *rates) runClients(ctx context.Context, request openloop.Asked, job openloop.Job) (results []*openloop.Result,
	totals openloop.Totals, clients []record.Client, err error) {
	type remote struct {
		number int
		ahead  float64 // by so many seconds is its clock
		looped machine.Looped
		err    error
		ended  chan struct{}
	}
	remotes := make([]remote, len(r.clients))
	for i, on := range r.clients {
		c := &remotes[i]
		c.ended, request.Part = make(chan struct{}), 1+i
		if err = on.Prime(request, &c.number); err != nil {
			return nil, totals, nil, err
		}
		if _, c.ahead, err = on.Clock(clockQuestions); err != nil {
			return nil, totals, nil, err
		}
	}
	var agreed time.Time
	if len(remotes) > 0 {
		job.Meet = func(context.Context) (time.Time, error) {
			agreed = time.Now().Add(leadTime)
			for i, on := range r.clients {
				c := &remotes[i]
				at := machine.Instant{Client: c.number, At: agreed.UnixNano() + int64(c.ahead*1e9)}
				go func() {
					defer close(c.ended)
					c.err = on.Loop(at, &c.looped)
				}()
			}
			return agreed, nil
		}
	}
	own, totals, err := openloop.Run(ctx, job)
	if err != nil {
		return nil, totals, nil, err
	}
	all := [][]*openloop.Result{own}
	began := totals.Began.Sub(agreed)
	clients = append(clients, clientOf(r.Host.Host, began, totals.Elapsed, totals.ClientCPU, len(r.Host.Pin.Client)))
	for i := range remotes {
		c := &remotes[i]
		<-c.ended
		if c.err != nil {
			return nil, totals, nil, c.err
		}
		began := time.Duration(c.looped.Began - agreed.UnixNano() - int64(c.ahead*1e9))
		all = append(all, c.looped.Results)
		clients = append(clients, clientOf(r.clients[i].Host, began, c.looped.Elapsed, c.looped.ClientCPU, c.looped.CPUs))
	}
	for i, results := range all {
		for _, result := range results {
			clients[i].Started, clients[i].Lines = clients[i].Started+result.Started, clients[i].Lines+result.Lines
		}
	}
	return openloop.Add(all...), totals, clients, nil
}

func clientOf(host string, began, elapsed, cpu time.Duration, cpus int) record.Client {
	c := record.Client{Host: host, BeganMS: began.Seconds() * 1e3, CPUNS: int64(cpu), CPUs: max(1, cpus)}
	c.Share = cpu.Seconds() / max(1e-3, elapsed.Seconds()) / float64(c.CPUs)
	return c
}

// skew is by how much one client began before another, in ms.
func skew(clients []record.Client) float64 {
	byBegin := func(a, b record.Client) int { return cmp.Compare(a.BeganMS, b.BeganMS) }
	return slices.MaxFunc(clients, byBegin).BeganMS - slices.MinFunc(clients, byBegin).BeganMS
}

// busiest is the client that used most of its CPUs, with its host's name if there are several.
func busiest(clients []record.Client) (share float64, name string) {
	c := slices.MaxFunc(clients, func(a, b record.Client) int { return cmp.Compare(a.Share, b.Share) })
	if len(clients) == 1 {
		return c.Share, "the client"
	}
	return c.Share, "the client on " + c.Host
}

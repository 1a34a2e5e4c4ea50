package block

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"tsduel/host/checks"
	"tsduel/host/logs"
	"tsduel/host/machine"
	"tsduel/host/proc"
	"tsduel/host/record"
	"tsduel/host/scrape"
	"tsduel/host/servers"
)

const (
	// probe is enough queries to see a rate, and few enough for queries that take a second each.
	probe = 20
	// hangAfter: run_queries hangs (docs/surprises.md) if for so long neither it nor the server does anything.
	hangAfter = 5 * time.Second
	attempts  = 3
)

// queries is TSBS's closed loop, with fresh processes for the first type; for each type if the cache is cold.
func (a *alone) queries(ctx context.Context) error {
	for i, queryType := range a.in.Row.QueryTypes {
		a.Enter(record.Solo, "query", queryType)
		if i == 0 || a.in.Plan.Queries.Cache == "cold" {
			if err := a.restart(ctx); err != nil {
				return err
			}
			a.record.Restarts++
		}
		if err := a.query(ctx, queryType); err != nil {
			return err
		}
	}
	_, err := a.Shutdown(ctx)
	return err
}

func (a *alone) restart(ctx context.Context) error {
	if _, err := a.Shutdown(ctx); err != nil {
		return err
	}
	if err := a.Forget(ctx); err != nil {
		return err
	}
	if a.in.Plan.Queries.Cache == "cold" {
		if a.in.Plan.Host.DropCaches { // of other files, too
			if err := machine.DropCaches(a.in.Scratch); err != nil {
				return err
			}
		}
		if err := machine.Drop(ctx, a.Data); err != nil {
			return err
		}
	}
	_, err := a.Launch(ctx, "", nil)
	return err
}

func (a *alone) query(ctx context.Context, queryType string) error {
	file, err := a.in.Workload.QueriesFor(a.Module, queryType)
	if err != nil {
		return err
	}
	s := a.begin(record.Solo, "query", queryType)
	count, err := a.count(ctx, file)
	if err != nil {
		return err
	}
	if a.in.Plan.Queries.Cache == "warm" {
		if _, err := a.send(ctx, file, count, "warm"); err != nil {
			return err
		}
	}
	before, err := a.Snapshots.Edge(ctx, "query", "begin", queryType)
	if err != nil {
		return err
	}
	cpu, err := a.CPU()
	if err != nil {
		return err
	}
	requests := a.Module.Counters["requests"]
	begun, _, _ := scrape.Sum(before, requests)
	stopTicks := a.Snapshots.Ticks(ctx, func(kept []byte) {
		if now, found, err := scrape.Sum(kept, requests); err == nil && found {
			a.in.Events.Progress("query", int64(now-begun), int64(count))
		}
	})
	s.listen(a.Running...)
	run, err := a.send(ctx, file, count, "")
	stopTicks()
	if err != nil {
		return err
	}
	a.Snapshots.Mark("query", "end", queryType)
	s.over()
	s.Begin, s.End, s.Attempts = record.Epoch(run.began), record.Epoch(run.At), run.attempts
	s.ClientUserS, s.ClientSystemS = run.User.Seconds(), run.System.Seconds()
	if now, err := a.CPU(); err == nil {
		a.keepCPU("query:"+queryType, now.Since(cpu))
	}
	after, err := a.Snapshots.Body(ctx, true)
	if err != nil {
		return err
	}
	s.close(run.Code, int64(count))
	return a.answered(queryType, count, before, after)
}

// clientRun is how a client ended, when it began, and how many times it was started.
type clientRun struct {
	proc.Exit
	began    time.Time
	attempts int
}

// send makes TSBS send the first queries of a file. With a purpose its output is not kept. TSBS is started
// again if it hangs at its start, when it has measured nothing yet.
func (a *alone) send(ctx context.Context, file record.QueryFile, count int, purpose string) (run clientRun, err error) {
	prefix := filepath.Join(a.Dir, "query", file.Type)
	if purpose != "" {
		prefix += "." + purpose
	}
	call := servers.Verb{Name: "query", Env: []string{"QUERY_FILE=" + file.Path, fmt.Sprintf("QUERY_COUNT=%d", count),
		fmt.Sprintf("QUERY_WORKERS=%d", a.in.Plan.Queries.Workers), "QUERY_RESULTS=" + prefix + ".json"}}
	var c *machine.Client
	var used time.Duration
	var moved proc.Counters // of the servers, when the client last used CPU
	w := watch{stallS: a.in.Plan.Watchdog.QueryStallS}
	w.progress = func() (float64, error) {
		// In steps of a clock tick: a sleeping client wakes up for its garbage collector.
		if now, err := proc.CPU(c.Pid); err == nil && now-used >= 10*time.Millisecond {
			used = now
			moved, _ = a.Kernel()
		}
		return float64(used), nil // no error if the client has just ended
	}
	w.stalled = func() error {
		return checks.Faultf("no query was answered for %v s; %s", w.stallS, a.QueryServer().LastWords())
	}
	w.hung = func(quiet time.Duration) bool {
		now, _ := a.Kernel()
		return quiet >= hangAfter && now.StorageRead == moved.StorageRead && (now.CPU-moved.CPU)*10 < quiet
	}
	for run.attempts = 1; run.attempts <= attempts; run.attempts++ {
		used = 0
		moved, _ = a.Kernel()
		c, err = machine.StartClient(a.QueryServer().Command(call), "", prefix+".stdout", prefix+".stderr")
		if err != nil {
			return run, err
		}
		run.began = c.Began
		if run.Exit, err = w.untilEnd(ctx, a.variant, c); !errors.Is(err, errHung) {
			break
		}
		a.in.note(a.Name, file.Type, "run_queries hung at its start (a fault of the client): started again")
	}
	if errors.Is(err, errHung) {
		err = checks.Faultf("run_queries was started %d times for %s, and each time neither it nor the server did "+
			"anything; %s",
			attempts, file.Type, a.QueryServer().LastWords())
	}
	if err != nil {
		return run, err
	}
	if err := a.BlameServer(ctx, run.Code); err != nil {
		return run, err
	}
	if run.Code != 0 || purpose == "" {
		if err := a.Equal("query_exit", 0, int64(run.Code), "queries of %s ended with %s: %s; %s", file.Type,
			logs.ExitWords(run.Code), logs.ClientWords(prefix+".stderr", prefix+".stdout"),
			a.QueryServer().LastWords()); err != nil {
			return run, err
		}
	}
	_ = os.Remove(prefix + ".stderr")
	if purpose != "" {
		_, _ = os.Remove(prefix+".stdout"), os.Remove(prefix+".json")
	}
	return run, nil
}

// count is the number of queries as planned, as calibrated, or as a probe suggests.
func (a *alone) count(ctx context.Context, file record.QueryFile) (int, error) {
	q := a.in.Plan.Queries
	if q.Count != nil {
		return *q.Count, nil
	}
	if a.in.Calibration != nil && a.in.Calibration.SoloCounts[file.Type] > 0 {
		return a.in.Calibration.SoloCounts[file.Type], nil
	}
	run, err := a.send(ctx, file, probe, "probe")
	if err != nil {
		return 0, err
	}
	fit := probe * q.Seconds / max(run.At.Sub(run.began).Seconds(), 1e-3)
	return int(max(probe, min(fit, float64(min(q.MaxCount, file.Count))))), nil
}

var completeLine = regexp.MustCompile(`^Run complete after (\d+) queries`)

// answered checks that all queries were answered, and that the database read rows for them.
func (a *alone) answered(queryType string, count int, before, after []byte) error {
	stdout := filepath.Join(a.Dir, "query", queryType+".stdout")
	answered, _ := strconv.Atoi(logs.LastMatch(completeLine, stdout))
	if err := a.Equal("queries_answered", int64(count), int64(answered), "%d of %d queries of %s were answered", answered,
		count, queryType); err != nil {
		return err
	}
	if err := a.rowsRead(queryType, before, after); err != nil {
		return err
	}
	return a.SameProcess()
}

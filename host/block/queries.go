package block

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"tsduel/host/machine"
	"tsduel/host/proc"
	"tsduel/host/record"
	"tsduel/host/scrape"
)

const (
	// probe is enough to see a rate; few enough for queries that take a second each.
	probe = 20
	// hangAfter is for how long neither run_queries nor the server does anything before it is taken to hang at its start:
	// a race in TSBS (docs/surprises.md).
	hangAfter = 5 * time.Second
	attempts  = 3
)

// queries is TSBS's closed loop, on a fresh process without cached answers: before the first type, and where the cache is
// to be cold before each. A fresh process needs no wait for what the load has left to do.
func (f *frame) queries(ctx context.Context, v *variant, rec *record.SoloRecord) error {
	for i, queryType := range f.Row.QueryTypes {
		v.part, v.phase = record.Solo, record.Phase{Phase: "query", QueryType: queryType}
		if i == 0 || f.Plan.Queries.Cache == "cold" {
			if err := f.restart(ctx, v); err != nil {
				return err
			}
			rec.Restarts++
		}
		if err := f.query(ctx, v, queryType, rec); err != nil {
			return err
		}
	}
	_, err := f.shutdown(ctx, v)
	return err
}

func (f *frame) restart(ctx context.Context, v *variant) error {
	if len(v.servers) > 0 {
		if _, err := f.shutdown(ctx, v); err != nil {
			return err
		}
	}
	if err := f.forget(ctx, v); err != nil {
		return err
	}
	if f.Plan.Queries.Cache == "cold" && f.Plan.Host.DropCaches {
		if err := f.everywhere(v, func(m machine.Machine) error { return m.DropCaches(f.Scratch, &machine.None{}) }); err != nil {
			return err
		}
	}
	_, err := f.launch(ctx, v, "", nil)
	return err
}

func (f *frame) query(ctx context.Context, v *variant, queryType string, rec *record.SoloRecord) error {
	file, err := f.Workload.QueriesFor(v.target, queryType)
	if err != nil {
		return err
	}
	s := f.begin(v, record.Solo, "query", queryType)
	count, err := f.count(ctx, v, file)
	if err != nil {
		return err
	}
	if f.Plan.Queries.Cache == "warm" {
		if _, _, err := f.send(ctx, v, file, count, "warm"); err != nil {
			return err
		}
	}
	before, err := v.snapshots.Edge(ctx, "query", "begin", queryType)
	if err != nil {
		return err
	}
	cpu, err := v.cpuByRole()
	if err != nil {
		return err
	}
	requests := v.target.Counters["requests"]
	begun, _, _ := scrape.Sum(before, requests)
	stopTicks := v.snapshots.Ticks(ctx, func(kept []byte) {
		if now, found, err := scrape.Sum(kept, requests); err == nil && found {
			f.Events.Progress("query", int64(now-begun), int64(count))
		}
	})
	s.listen(v.servers...)
	exit, tries, err := f.send(ctx, v, file, count, "")
	stopTicks()
	if err != nil {
		return err
	}
	v.snapshots.Mark("query", "end", queryType)
	s.over()
	s.Begin, s.End = record.Epoch(exit.began), record.Epoch(exit.At)
	s.ClientUserS, s.ClientSystemS, s.Attempts = exit.User.Seconds(), exit.System.Seconds(), tries
	if now, err := v.cpuByRole(); err == nil {
		f.keepCPU(rec, "query:"+queryType, now.since(cpu))
	}
	after, err := v.snapshots.Body(ctx, true)
	if err != nil {
		return err
	}
	s.close(exit.Code, int64(count))
	return f.answered(v, queryType, count, before, after)
}

// timedExit is how a client ended, and when it began.
type timedExit struct {
	proc.Exit
	began time.Time
}

// send has TSBS send the first queries of a file; as names its files where they are not kept. It is started again where
// it hangs at its start: nothing was measured yet.
func (f *frame) send(ctx context.Context, v *variant, file record.QueryFile, count int, as string) (exit timedExit, tries int, err error) {
	prefix := filepath.Join(v.dir, "query", file.Type)
	if as != "" {
		prefix += "." + as
	}
	c := client{
		verb: verb{name: "query", env: []string{"QUERY_FILE=" + file.Path, fmt.Sprintf("QUERY_COUNT=%d", count),
			fmt.Sprintf("QUERY_WORKERS=%d", f.Plan.Queries.Workers), "QUERY_RESULTS=" + prefix + ".json"}},
		stdout: prefix + ".stdout", stderr: prefix + ".stderr", stallS: f.Plan.Watchdog.QueryStallS,
	}
	work := func() (cpu time.Duration, read uint64) {
		for _, s := range v.servers {
			if counters, err := s.kernel(); err == nil {
				cpu, read = cpu+counters.CPU, read+counters.StorageRead
			}
		}
		return cpu, read
	}
	var used, cpuThen time.Duration
	var readThen uint64
	c.progress = func(pid int) (float64, error) {
		// In steps of a clock tick: a client that sleeps wakes up for its garbage collector.
		if now, err := proc.CPU(pid); err == nil && now-used >= 10*time.Millisecond {
			used = now
			cpuThen, readThen = work()
		}
		return float64(used), nil // also of one that has just ended
	}
	c.stalled = func() error {
		return faultf("no query was answered for %v s; %s", c.stallS, lastWords(v.front()))
	}
	c.hung = func(quiet time.Duration) bool {
		cpu, read := work()
		return quiet >= hangAfter && read == readThen && (cpu-cpuThen)*10 < quiet
	}
	for tries = 1; tries <= attempts; tries++ {
		exit.began, used = time.Now(), 0
		cpuThen, readThen = work()
		exit.Exit, err = f.drive(ctx, v, &c)
		if !errors.Is(err, errHung) {
			break
		}
		f.Events.Note(f.block.Block, v.Name, file.Type, "run_queries hung at its start (a fault of the client): started again")
	}
	if errors.Is(err, errHung) {
		err = faultf("run_queries was started %d times for %s, and each time neither it nor the server did anything; %s", attempts, file.Type, lastWords(v.front()))
	}
	if err != nil {
		return exit, tries, err
	}
	if err := f.leftBy(ctx, exit.Code, v); err != nil {
		return exit, tries, err
	}
	if exit.Code != 0 || as == "" {
		if err := f.equal(v, "query_exit", 0, float64(exit.Code), fmt.Sprintf("queries of %s ended with %s: %s; %s",
			file.Type, exitWords(exit.Code), clientWords(c.stderr, c.stdout), lastWords(v.front()))); err != nil {
			return exit, tries, err
		}
	}
	_ = os.Remove(c.stderr)
	if as != "" {
		_, _ = os.Remove(c.stdout), os.Remove(prefix+".json")
	}
	return exit, tries, nil
}

// count is the number of queries as planned, as calibrated, or as a probe suggests.
func (f *frame) count(ctx context.Context, v *variant, file record.QueryFile) (int, error) {
	q := f.Plan.Queries
	if q.Count != nil {
		return *q.Count, nil
	}
	if f.Calibration != nil && f.Calibration.SoloCounts[file.Type] > 0 {
		return f.Calibration.SoloCounts[file.Type], nil
	}
	exit, _, err := f.send(ctx, v, file, probe, "probe")
	if err != nil {
		return 0, err
	}
	fit := probe * q.Seconds / max(exit.At.Sub(exit.began).Seconds(), 1e-3)
	return int(math.Max(probe, math.Min(fit, float64(min(q.MaxCount, file.Count))))), nil
}

var complete = regexp.MustCompile(`^Run complete after (\d+) queries`)

// answered checks that every query was answered, and that the database read rows for them.
func (f *frame) answered(v *variant, queryType string, count int, before, after []byte) error {
	answered := 0
	lines(func(line string) {
		if found := complete.FindStringSubmatch(line); found != nil {
			answered, _ = strconv.Atoi(found[1])
		}
	}, filepath.Join(v.dir, "query", queryType+".stdout"))
	if err := f.equal(v, "queries_answered", float64(count), float64(answered), fmt.Sprintf("%d of %d queries of %s were answered", answered, count, queryType)); err != nil {
		return err
	}
	if err := f.rowsRead(v, queryType, before, after); err != nil {
		return err
	}
	return f.sameProcess(v)
}

// rowsRead checks that the queries of a type hit data; the target may have no counter for that.
func (f *frame) rowsRead(v *variant, queryType string, before, after []byte) error {
	counter, has := v.target.Counters["rows_read"]
	if !has {
		return nil
	}
	rows, missing, err := v.moved("rows_read", counter, before, after)
	if err != nil {
		return err
	}
	wrong := cmp.Or(missing, fmt.Sprintf("the queries of %s read no data: %s did not move", cmp.Or(queryType, "all types"), counter.Name))
	return f.check(v, record.Check{Check: "rows_read", Phase: v.phase.Phase, QueryType: queryType, Expected: 1, Actual: rows, OK: rows >= 1, Message: wrong})
}

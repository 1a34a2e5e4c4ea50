package block

import (
	"context"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"tsduel/host/exchange"
	"tsduel/host/record"
	"tsduel/host/servers"
)

// profileFor is how long each side is asked in a profiled block, as far as the query files reach.
const profileFor = 15 * time.Second

// asking is the exchanges of one query type in a sitting.
type asking struct {
	*sitting
	queryType string
	first     int // query of the file
	job       exchange.Job
	result    *exchange.Result
}

// exchange is this sitting's share of the exchanges of one query type, which has that place among the types.
func (s *sitting) exchange(ctx context.Context, queryType string, place int) (err error) {
	a := &asking{sitting: s, queryType: queryType, first: s.sent[queryType]}
	times := a.plan()
	// Opened before the phase begins, since it takes time to find this block's slice.
	if err := a.open(); err != nil {
		return err
	}
	a.job.Ask = indices(a.job.Sides, s.askOrder(place))
	if s.in.Plan.Queries.Cache == "warm" {
		if err := a.warm(ctx); err != nil {
			return err
		}
	}
	// A quarter longer than the phase, so that one window of a profile is enough.
	expect := record.Seconds(1.25 * s.in.Plan.Duel.Seconds * float64(times))
	endProfile := s.in.profiler.Read(ctx, "queries", expect, endpoints(s.in.alive()...)...)
	defer endProfile(0)
	counted := counts(s, queryType) || !s.countsTogether()
	if counted && s.asked {
		if err := s.readCounters(ctx); err != nil {
			return err
		}
	}
	before := maps.Clone(s.bodies)
	phase := s.timed("exchange", queryType)
	if a.result, err = s.send(ctx, a.job); err != nil {
		return err
	}
	exchanges := len(a.result.Exchanges)
	endProfile(int64(exchanges))
	phase.close(min(1, len(a.result.Stopped)), int64(exchanges))
	if err := a.keep(); err != nil {
		return err
	}
	if counted {
		if err := s.readCounters(ctx); err != nil {
			return err
		}
	}
	return s.judge(ctx, a.job.Sides, a.result, func(v *variant, i int) error {
		err := a.check(v, i)
		if err == nil && counted {
			s.record.Types[len(s.record.Types)-1].Counters[v.Name] = workOf(v, s, before[v.Name], 1)
			err = v.rowsRead(queryType, before[v.Name], s.bodies[v.Name])
		}
		return s.wrong.keep(v, err)
	})
}

// findsData asks, before the first block's exchanges, one query of a type that has to have data. If none of them has
// any on any variant, the plan's window is wrong, and no block can be right.
func findsData(ctx context.Context, s *sitting) error {
	var silent []string
	for _, t := range s.in.Plan.Queries.Types {
		if !slices.Contains(s.types, t.Name) || t.MayBeEmpty || t.Quiet {
			continue
		}
		a := &asking{sitting: s, queryType: t.Name}
		a.plan()
		a.job.Until = exchange.Until{Count: 1}
		if err := a.open(); err != nil {
			return err
		}
		result, err := s.send(ctx, a.job)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(result.Sides, func(side exchange.Tally) bool {
			return side.Failure != "" || side.Empty == 0
		}) {
			return nil
		}
		silent = append(silent, strings.TrimSpace(t.Own+" "+t.Name))
	}
	if len(silent) == 0 {
		return nil
	}
	w := s.in.Plan.Workload
	return record.UserError("no variant has data for any query in the plan's window, %s to %s: look at the times of the "+
		"data, and at what the queries select: %s", w.Start.Format(time.RFC3339), w.End.Format(time.RFC3339),
		strings.Join(silent, "; "))
}

// plan decides how long the exchanges last. A profile repeats those of a block so many times.
func (a *asking) plan() (times int) {
	rule, n := a.in.Plan.Duel, a.record.Sittings
	share := func(whole int) int { return (whole + n - 1) / n }
	a.job = exchange.Job{InFlight: rule.InFlight, Timeout: record.Seconds(a.in.Plan.Watchdog.QueryStallS),
		MostDifferences: rule.MostDifferences, Until: exchange.Until{Lasts: record.Seconds(rule.Seconds / float64(n)),
			Longest: record.Seconds(rule.MaxSeconds / float64(n)), Least: share(rule.MinExchanges),
			Fewest: share(rule.FloorExchanges)}}
	times = 1
	if a.in.Calibration != nil && a.in.Calibration.Counts[a.queryType] > 0 {
		count := a.in.Calibration.Counts[a.queryType]
		a.first += a.in.Row.Turn * count
		times = a.repeats(count)
		a.job.Until = exchange.Until{Count: share(count) * times}
	}
	return times
}

// repeats is how often a profile repeats the exchanges of a block to fill its time, as far as the files reach.
func (a *asking) repeats(count int) int {
	if a.in.profiler == nil {
		return 1
	}
	all := profileFor.Seconds() * float64(len(a.in.Plan.Variants))
	times := int(math.Ceil(all / a.in.Plan.Duel.Seconds / float64(len(a.in.Row.QueryTypes))))
	for _, file := range a.in.Workload.Queries {
		if file.Type == a.queryType {
			times = min(times, file.Count/count)
		}
	}
	return max(1, times)
}

func (a *asking) open() (err error) {
	a.job.Sides, err = a.sides(func(target *record.Target) (exchange.Source, exchange.Reading, error) {
		return a.in.open(a.queryType, target, func(count int) int {
			if a.in.Calibration == nil { // a phase that lasts its time may reach the end of the file
				a.first = a.index * count / a.record.Sittings
			}
			return a.first
		})
	})
	return err
}

// warm sends the queries once before they count, as many as will.
func (a *asking) warm(ctx context.Context) error {
	warmed, err := a.send(ctx, a.job)
	if err != nil {
		return err
	}
	if err := a.readCounters(ctx); err != nil {
		return err
	}
	a.job.Until = exchange.Until{Count: max(1, a.job.Until.Count, len(warmed.Exchanges))}
	return a.open()
}

// check checks that the i-th side answered all planned exchanges, like the first side, with data.
func (a *asking) check(v *variant, i int) error {
	side, exchanges, difference := a.result.Sides[i], len(a.result.Exchanges), ""
	planned := max(1, a.job.Until.Count, exchanges)
	if a.result.Sides[0].Failure != "" { // it has ended the phase, and is blamed for that
		planned = side.Compared
	}
	if a.result.First != nil {
		difference = fmt.Sprintf(", first in exchange %d: %s", a.result.First.K, a.result.First.What)
	}
	if i > 0 { // the first side is compared with none
		file := filepath.Join(a.part(), a.when) + "/differences.json"
		if err := v.Equal("exchanges_same", 0, int64(side.Differences), "%d of %d answers to %s are not the same as %s's%s "+
			"(%s has both)", side.Differences, side.Compared, a.queryType, a.in.Plan.Variants[0].Name, difference,
			file); err != nil {
			return err
		}
		if err := v.Equal("exchanges_answered", int64(planned), int64(side.Compared), "%d of %d exchanges of %s were "+
			"compared: %s", side.Compared, planned, a.queryType, a.result.Stopped); err != nil {
			return err
		}
	}
	allowed := a.in.mayBeEmpty(side.Empty, exchanges, a.queryType)
	return v.Equal("exchanges_empty", int64(allowed), int64(side.Empty), "%d of %d answers to %s have no data",
		side.Empty, exchanges, a.queryType)
}

// mayBeEmpty is how many of the answers without data are right, of so many answers to these query types.
func (f *frame) mayBeEmpty(empty, answered int, types ...string) int {
	if slices.ContainsFunc(types, f.Plan.AllMayBeEmpty) ||
		empty < answered && slices.ContainsFunc(types, f.Plan.MayBeEmpty) {
		return empty
	}
	return 0
}

// open opens the queries of a type as a target is asked them. first is the first one, from the number of all. reading
// says how far the answers are compared with the baseline's.
func (f *frame) open(queryType string, target *record.Target, first func(count int) int) (source exchange.Source,
	reading exchange.Reading, err error) {
	file, err := f.Workload.QueriesFor(*target, queryType)
	if err != nil {
		return nil, reading, err
	}
	reading = exchange.Reading{Answers: target.Answers, Prefix: target.NamePrefix}
	if target.Volatile != "" {
		if reading.Volatile, err = regexp.Compile(target.Volatile); err != nil {
			return nil, reading, fmt.Errorf("the target's volatile: %w", err)
		}
	}
	for _, t := range f.Plan.Queries.Types {
		if t.Name == queryType {
			reading.Level = exchange.Level(t.Compared[target.Name].Level)
			if target.Windows == "start" {
				reading.Shift = t.WindowS
			}
		}
	}
	source, err = exchange.OpenQueries(file.Path, first(file.Count), target.QueryArguments, false)
	return source, reading, err
}

// keep writes the exchanges into the table, and adds what is known of them to the record of the duel.
func (a *asking) keep() error {
	result, sides := a.result, a.job.Sides
	prefix := fmt.Sprintf("%s,%d,", a.queryType, a.index)
	if err := a.exchanges.add(prefix, a.sent[a.queryType], sides, a.in.Plan.Variants, result.Exchanges); err != nil {
		return err
	}
	a.sent[a.queryType] += len(result.Exchanges)
	kept := record.DuelType{QueryType: a.queryType, Sitting: a.index, Exchanges: len(result.Exchanges),
		Compared: len(result.Exchanges), Differences: result.Differences, FirstQuery: a.first,
		Series: result.Series, Points: result.Points, Seconds: result.Elapsed.Seconds(),
		Turns: result.Turns, TurnS: result.TurnTime.Seconds(), CPUNS: map[string]int64{},
		ClientCPUNS: result.ClientCPU, Stopped: a.in.Hidden.Mask(result.Stopped), Counters: map[string]map[string]float64{}}
	if a.in.Host.Instructions {
		kept.Instructions = map[string]int64{}
	}
	for i, side := range result.Sides {
		name := sides[i].Name
		var used servers.Usage // nil if the variant was not asked to the end
		if marks := a.marks[name]; len(marks) > 1 &&
			(!a.in.Plan.Deployed() || len(marks[0]) == len(a.in.variants[name].Components)) {
			used = marks[len(marks)-1].Since(marks[0])
		}
		if !a.in.Plan.Deployed() || len(used) == len(a.in.variants[name].Components) { // else it is not known
			kept.CPUNS[name] = side.CPU
		}
		a.in.byRole(&kept.CPUNSByRole, name, used)
		if kept.Instructions != nil {
			kept.Instructions[name] = side.Instructions
		}
		kept.Empty += side.Empty
		if side.Failure != "" {
			kept.Errors++
		}
		if i > 0 {
			kept.Compared = min(kept.Compared, side.Compared)
		}
	}
	a.record.Types = append(a.record.Types, kept)
	if result.First != nil {
		result.First.What = a.in.Hidden.Mask(result.First.What)
		for i, body := range result.First.Bodies {
			result.First.Bodies[i] = a.in.Hidden.Mask(body)
		}
		result.First.QueryType = a.queryType
		a.differences = append(a.differences, *result.First)
	}
	share := float64(result.ClientCPU) / float64(result.Elapsed) / a.in.clientCPUs()
	if share > bottleneck {
		a.in.note("", a.queryType, fmt.Sprintf("the client used %.0f %% of its CPUs: it is the bottleneck here", 100*share))
	}
	return nil
}

// primed is how many exchanges of each type precede the first counted phase, if the work of all types is counted.
const primed = 32

// prime asks queries that no phase of this block asks, in a sitting whose work is counted.
func prime(ctx context.Context, s *sitting) error {
	for _, queryType := range s.types {
		if !counts(s, queryType) {
			return nil
		}
		a := &asking{sitting: s, queryType: queryType, first: s.sent[queryType]}
		a.plan()
		a.first += a.job.Until.Count * s.record.Sittings
		a.job.Until = exchange.Until{Count: primed}
		if err := a.open(); err != nil {
			return err
		}
		if _, err := s.send(ctx, a.job); err != nil {
			return err
		}
	}
	return s.readCounters(ctx)
}

package block

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tsduel/host/checks"
	"tsduel/host/exchange"
	"tsduel/host/logs"
	"tsduel/host/machine"
	"tsduel/host/record"
	"tsduel/host/scrape"
	"tsduel/host/servers"
)

// downgradeAsked is how many queries of each type and window the baseline is asked after a downgrade.
const downgradeAsked = 8

// upgrade starts every variant on a copy of what the baseline has loaded (design.start_from: baseline):
// alone, then all together, then all together with as much again on top.
type upgrade struct {
	in       *frame
	record   *record.UpgradeRecord
	baseline *variant
	source   string            // the baseline's data
	sums     map[string]string // of source
}

func runUpgrade(ctx context.Context, f *frame) (err error) {
	baseline := f.variants[f.Plan.Variants[0].Name]
	u := &upgrade{in: f, baseline: baseline, source: baseline.Data, record: &record.UpgradeRecord{
		Copies: map[string]record.CopyRecord{}, Start: map[string]record.UpgradeStart{},
		Ingest: map[string]record.SoloRecord{}, Sizes: map[string]map[string]int64{},
		Downgrade: map[string]record.Downgrade{}}}
	f.block.Upgrade = u.record
	if u.sums, err = u.checksums(); err != nil {
		return err
	}
	each := func(do func(context.Context, *variant) error) func() error {
		return func() error { return u.in.all(func(v *variant) error { return do(ctx, v) }) }
	}
	err = u.in.steps(
		each(u.copy),
		each(u.start),
		func() error { return runDuel(ctx, f, "before", f.Row.QueryTypes, &u.record.Before) },
		each(u.ingest),
		func() error { return u.after(ctx) },
	)
	if err != nil {
		return err
	}
	for _, v := range u.in.variants {
		if err := v.Close(true); err != nil {
			return err
		}
	}
	if err := u.downgrades(ctx); err != nil {
		return err
	}
	return u.unchanged()
}

// copy gives a variant its own directories: a copy of the data, and one for its files.
func (u *upgrade) copy(ctx context.Context, v *variant) (err error) {
	s := v.begin(record.InUpgrade, "copy", "")
	v.Data, v.Dir = u.in.layout.DataDir("copies", v.Name), filepath.Join(v.Dir, "upgrade")
	if err := os.MkdirAll(v.Dir, 0o777); err != nil {
		return err
	}
	shared := v.Module.Immutable
	if u.in.Plan.Queries.Cache == "cold" {
		shared = "" // links share the pages that one side has read
	}
	u.record.Copies[v.Name], err = machine.Copy(ctx, machine.Copying{From: u.source, To: v.Data, Immutable: shared})
	if err != nil {
		return err
	}
	s.close(0, 0)
	v.Snapshots, err = scrape.Create(filepath.Join(v.Dir, "metrics.prom.gz"), v.Module.Ticks)
	return err
}

// unchanged checks that no copy has changed a shared file: then the target's module and the block are wrong.
func (u *upgrade) unchanged() error {
	now, err := u.checksums()
	if err != nil {
		return err
	}
	for _, path := range slices.Sorted(maps.Keys(u.sums)) {
		if now[path] != u.sums[path] {
			_ = os.Remove(u.in.layout.LoadedMark()) // the data are not what was loaded any more
			return record.FailedError("%s was changed through a copy that shared it by a hard link: `immutable` of "+
				"tsduel/targets/%s.py must not name it; nothing of this block was kept", path, u.baseline.Target)
		}
	}
	return nil
}

// start starts a variant on its copy, alone, until it is quiet. A candidate that does not start is a result.
func (u *upgrade) start(ctx context.Context, v *variant) (err error) {
	s := v.begin(record.InUpgrade, "start", "")
	begin := time.Now()
	var rec record.UpgradeStart
	defer func() { u.record.Start[v.Name] = rec }()
	rec.StartS, err = v.Launch(ctx, "", nil)
	if refused, ok := errors.AsType[*checks.Fault](err); ok && refused.Unready && v != u.baseline {
		rec.Refused, v.failed = refused.Message, true
		s.close(1, 0)
		message := "it does not start on what the baseline has left: " + rec.Refused
		_ = v.Equal("upgrade_start", 1, 0, "%s", message) // the block does not fail
		u.in.note(v.Name, "", message)
		return v.Close(true)
	}
	if err != nil {
		return err
	}
	if err := v.Equal("upgrade_start", 1, 1, ""); err != nil {
		return err
	}
	launched := time.Now()
	answered, err := u.firstAnswer(ctx, v)
	if err != nil {
		return err
	}
	rec.FirstAnswerS = rec.StartS + answered.Sub(launched).Seconds()
	deadline := begin.Add(record.Seconds(u.in.Plan.Settle.TimeoutS))
	quiet, err := v.waitQuiet(ctx, v.Module.Quiet, u.in.Plan.Settle.Polls, begin, deadline)
	if err != nil {
		return err
	}
	rec.QuietS, rec.CPUNS, rec.WrittenBytes = quiet.seconds, quiet.cpu.Sum(), quiet.written
	s.close(0, 0)
	_, err = v.Shutdown(ctx)
	return err
}

// firstAnswer sends the first query of the duel that follows until its answer has data. If answers to all types
// may have none, it waits for an answer.
func (u *upgrade) firstAnswer(ctx context.Context, v *variant) (answered time.Time, err error) {
	types := u.in.Row.QueryTypes
	filled := slices.IndexFunc(types, func(t string) bool { return !u.in.Plan.MayBeEmpty(t) })
	for deadline := time.Now().Add(record.Seconds(u.in.Plan.Watchdog.QueryStallS)); ; {
		result, err := u.send(ctx, types[max(0, filled)], 1, exchange.Side{Name: v.Name, URL: v.URL()})
		if err != nil {
			return answered, err
		}
		side := result.Sides[0]
		if side.Failure == "" && (side.Empty == 0 || filled < 0) {
			return result.Ended, nil
		}
		if err := v.Died(); err != nil {
			return answered, err
		}
		if time.Now().After(deadline) {
			return answered, checks.Faultf("no query was answered with data within %v s of the start: %s; %s",
				u.in.Plan.Watchdog.QueryStallS, cmp.Or(side.Failure, "the answers have no data"), v.QueryServer().LastWords())
		}
		if err := record.Sleep(ctx, servers.ReadyEvery); err != nil {
			return answered, err
		}
	}
}

// send exchanges the first queries of this block's slice between servers of the baseline's target.
func (u *upgrade) send(ctx context.Context, queryType string, count int,
	sides ...exchange.Side) (*exchange.Result, error) {
	source, reading, err := u.in.open(queryType, &u.baseline.Module, func(int) int {
		if u.in.Calibration == nil {
			return 0
		}
		return u.in.Row.Turn * u.in.Calibration.Counts[queryType]
	})
	if err != nil {
		return nil, err
	}
	defer source.Close()
	for i := range sides {
		sides[i].Source, sides[i].Reading = source, reading
	}
	return exchange.Run(ctx, exchange.Job{Sides: sides, Timeout: record.Seconds(u.in.Plan.Watchdog.QueryStallS),
		Until: exchange.Until{Count: count}})
}

// ingest loads as much again on top of the first window, alone, until nothing is left to do.
func (u *upgrade) ingest(ctx context.Context, v *variant) (err error) {
	data := record.OfFormat(u.in.Workload.Continued, v.Module.DataFormat)
	if len(data) == 0 {
		return fmt.Errorf("raw/workload.json has no data in format %q that continue the first", v.Module.DataFormat)
	}
	rec := record.SoloRecord{Sizes: map[string]int64{}, CPUNS: map[string]int64{}}
	defer func() { u.record.Ingest[v.Name] = rec }()
	v.Enter(record.InUpgrade, "ingest", "")
	if rec.StartS, err = v.Launch(ctx, "", nil); err != nil {
		return err
	}
	a := &alone{variant: v, record: &rec}
	if err := a.load(ctx, data[0], record.InUpgrade, "ingest"); err != nil {
		return err
	}
	rec.StopS, err = v.Shutdown(ctx)
	return err
}

// after is the duel over both windows and over the new one. Which is first changes from block to block.
func (u *upgrade) after(ctx context.Context) error {
	var types []string
	windows := []string{"@half", "@new"}
	if cmp.Or(u.in.Row.Replaces, u.in.Row.Block)%2 == 1 {
		slices.Reverse(windows)
	}
	for _, queryType := range u.in.Row.QueryTypes {
		types = append(types, queryType+windows[0], queryType+windows[1])
	}
	if err := runDuel(ctx, u.in, "after", types, &u.record.After); err != nil {
		return err
	}
	return u.in.all(func(v *variant) (err error) {
		_, u.record.Sizes[v.Name], err = v.Sizes(ctx)
		return err
	})
}

// downgrades start the baseline on what each candidate has left, also one that did not start. The baseline on
// its own data runs next to it. Any outcome is a result.
func (u *upgrade) downgrades(ctx context.Context) (err error) {
	var left []*variant
	for _, name := range u.in.Row.Order {
		if v := u.in.variants[name]; v != u.baseline && (!v.failed || u.in.block.Refused(name) != "") {
			left = append(left, v)
		}
	}
	if u.baseline.failed || len(left) == 0 || u.in.block.Void != "" {
		return nil
	}
	if err := u.baseline.Forget(ctx); err != nil {
		return u.in.blame(u.baseline, err)
	}
	u.baseline.Enter(record.InUpgrade, "downgrade", "")
	if _, err := u.baseline.Launch(ctx, "downgrade-", nil); err != nil {
		return u.in.blame(u.baseline, err)
	}
	for _, v := range left {
		if err := u.downgrade(ctx, v); err != nil {
			return err
		}
	}
	return u.baseline.Close(true) // its data are not needed any more
}

func (u *upgrade) downgrade(ctx context.Context, candidate *variant) (err error) {
	s := candidate.begin(record.InUpgrade, "downgrade", "")
	var rec record.Downgrade
	defer func() { u.record.Downgrade[candidate.Name] = rec }()
	v := newVariant(u.in, u.baseline.Variant.Variant)
	v.Dir, v.Data = candidate.Dir, candidate.Data
	v.Enter(record.InUpgrade, "downgrade", "")
	defer func() { err = errors.Join(err, v.Close(true)) }()
	if err := v.Forget(ctx); err != nil {
		return u.in.blame(candidate, err)
	}
	rec.StartS, err = v.Launch(ctx, "downgrade-", nil)
	if broken, ok := errors.AsType[*checks.Fault](err); ok {
		rec.Said = broken.Message
		s.close(1, 0)
		return nil
	} else if err != nil {
		return err
	}
	rec.Starts = true
	exchanges, windows := 0, []string{"", "@half", "@new"}
	if u.in.block.Refused(candidate.Name) != "" {
		windows = windows[:1] // it has no other data
	}
	for _, window := range windows {
		answers := record.DowngradeAnswers{Window: cmp.Or(strings.TrimPrefix(window, "@"), "old")}
		for _, queryType := range u.in.Row.QueryTypes {
			result, err := u.send(ctx, queryType+window, downgradeAsked,
				exchange.Side{Name: u.baseline.Name, URL: u.baseline.URL()},
				exchange.Side{Name: "the downgraded one", URL: v.URL()})
			if err != nil {
				return err
			}
			side := result.Sides[1]
			answers.Asked += len(result.Exchanges)
			answers.Same += side.Compared - side.Differences
			answers.Empty += side.Empty
			if answers.What == "" && result.First != nil {
				answers.What = queryType + ": " + u.in.Hidden.Mask(result.First.What)
			}
			answers.What = cmp.Or(answers.What, u.in.Hidden.Mask(result.Stopped))
		}
		exchanges += answers.Asked
		rec.Answers = append(rec.Answers, answers)
	}
	for _, server := range v.Running {
		rec.Said = cmp.Or(rec.Said, logs.Complaint(server.Log))
	}
	s.close(0, int64(exchanges))
	return nil
}

// checksums are those of the files of source, by path.
func (u *upgrade) checksums() (sums map[string]string, err error) {
	var paths []string
	err = filepath.WalkDir(u.source, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			paths = append(paths, path)
		}
		return err
	})
	sums, unread := machine.Sums(paths)
	return sums, errors.Join(err, unread)
}

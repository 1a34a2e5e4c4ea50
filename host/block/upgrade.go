package block

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tsduel/host/exchange"
	"tsduel/host/record"
	"tsduel/host/scrape"
)

// downgradeAsked is how many queries of each type and window the baseline is asked on what a candidate has left.
const downgradeAsked = 8

// upgrade is the part in which every variant starts on a copy of what the baseline has left: alone, in the block's order, then all
// resident; then with as much again on top (design.start_from).
type upgrade struct {
	*frame
	record *record.UpgradeRecord
	source string // what the baseline has left
	sums   map[string]sum
}

func runUpgrade(ctx context.Context, f *frame) (err error) {
	u := &upgrade{frame: f, source: f.variants[f.Plan.Variants[0].Name].data, record: &record.UpgradeRecord{Copies: map[string]record.CopyRecord{},
		Start: map[string]record.UpgradeStart{}, Ingest: map[string]record.SoloRecord{}, Sizes: map[string]map[string]int64{}, Downgrade: map[string]record.Downgrade{}}}
	f.block.Upgrade = u.record
	if u.sums, err = sumsOf(ctx, u.source); err != nil {
		return err
	}
	each := func(do func(context.Context, *variant) error) func(context.Context) error {
		return func(ctx context.Context) error { return u.all(func(v *variant) error { return do(ctx, v) }) }
	}
	for _, step := range []func(context.Context) error{each(u.copy), each(u.start), u.before, each(u.ingest), u.after} {
		if err := step(ctx); err != nil {
			return err
		}
		if u.block.Void != "" || len(u.alive()) < 2 {
			break
		}
	}
	for _, v := range u.variants {
		if err := v.close(true); err != nil {
			return err
		}
	}
	if err := u.downgrades(ctx); err != nil {
		return err
	}
	return u.unchanged(ctx)
}

// copy gives a variant its own directories: of the data, and for its files.
func (u *upgrade) copy(ctx context.Context, v *variant) (err error) {
	s := u.begin(v, record.InUpgrade, "copy", "")
	v.data, v.dir = filepath.Join(u.Scratch, "data", "copies", v.Name), filepath.Join(v.dir, "upgrade")
	if err := os.MkdirAll(v.dir, 0o777); err != nil {
		return err
	}
	if u.record.Copies[v.Name], err = duplicate(ctx, u.source, v.data, v.target.Immutable); err != nil {
		return err
	}
	s.close(0, 0)
	v.snapshots, err = scrape.Create(filepath.Join(v.dir, "metrics.prom.gz"), v.target.Ticks)
	return err
}

// unchanged looks whether files that were shared are what they were: else the target's module is wrong, and so is all that was
// measured.
func (u *upgrade) unchanged(ctx context.Context) error {
	now, err := sumsOf(ctx, u.source)
	if err != nil {
		return err
	}
	if path := unlike(u.sums, now); path != "" {
		_ = os.Remove(u.loadedMark()) // for it is not what was loaded any more
		return record.FailedError("%s was changed through a copy that shared it by a hard link: `immutable` of tsduel/targets/%s.py must not name it; nothing of this block was kept",
			path, u.Plan.Variants[0].Target)
	}
	return nil
}

// start is the first start on the copy, alone, until nothing is left to do. A candidate that does not come up on it is a result.
func (u *upgrade) start(ctx context.Context, v *variant) (err error) {
	s := u.begin(v, record.InUpgrade, "start", "")
	begin := time.Now()
	var rec record.UpgradeStart
	defer func() { u.record.Start[v.Name] = rec }()
	rec.StartS, err = u.launch(ctx, v, "", nil)
	var refused *fault
	if errors.As(err, &refused) && refused.unready && v.Name != u.Plan.Variants[0].Name {
		rec.Refused, v.failed = refused.message, true
		s.close(1, 0)
		_ = u.equal(v, "upgrade_start", 1, 0, "it does not start on what the baseline has left: "+rec.Refused) // which is no fault of the block's
		u.Events.Note(u.block.Block, v.Name, "", "it does not start on what the baseline has left: "+rec.Refused)
		return v.close(true)
	}
	if err == nil {
		err = u.equal(v, "upgrade_start", 1, 1, "")
	}
	if err == nil {
		err = u.firstAnswer(ctx, v)
	}
	if err != nil {
		return err
	}
	rec.FirstAnswerS = time.Since(begin).Seconds()
	quiet, err := u.waitQuiet(ctx, v, v.target.Quiet, u.Plan.Settle.Polls, begin, begin.Add(record.Seconds(u.Plan.Settle.TimeoutS)))
	if err != nil {
		return err
	}
	rec.QuietS, rec.CPUNS, rec.WrittenBytes = quiet.seconds, quiet.cpu.sum(), quiet.written
	s.close(0, 0)
	_, err = u.shutdown(ctx, v)
	return err
}

// firstAnswer asks the first query of the duel that follows until there are data in its answer.
func (u *upgrade) firstAnswer(ctx context.Context, v *variant) error {
	for deadline := time.Now().Add(record.Seconds(u.Plan.Watchdog.QueryStallS)); ; {
		result, err := u.send(ctx, u.Row.QueryTypes[0], 1, exchange.Side{Name: v.Name, URL: v.url()})
		if err != nil {
			return err
		}
		side := result.Sides[0]
		if side.Failure == "" && side.Empty == 0 {
			return nil
		}
		if dead := u.died(v); dead != nil {
			return dead
		}
		if time.Now().After(deadline) {
			why := side.Failure
			if why == "" {
				why = "the answers have no data"
			}
			return faultf("no query was answered with data within %v s of the start: %s; %s", u.Plan.Watchdog.QueryStallS, why, lastWords(v.front()))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(readyEvery):
		}
	}
}

// send exchanges the first queries of this block's slice between some servers of one target.
func (u *upgrade) send(ctx context.Context, queryType string, count int, sides ...exchange.Side) (*exchange.Result, error) {
	target := u.variants[u.Plan.Variants[0].Name].target
	file, err := u.Workload.QueriesFor(target, queryType)
	if err != nil {
		return nil, err
	}
	reading, err := u.reading(queryType, &target)
	if err != nil {
		return nil, err
	}
	first := 0
	if u.Calibration != nil {
		first = u.Row.Turn * u.Calibration.Counts[queryType]
	}
	source, err := exchange.OpenQueries(file.Path, first, target.QueryArguments)
	if err != nil {
		return nil, err
	}
	defer source.Close()
	for i := range sides {
		sides[i].Source, sides[i].Reading = source, reading
	}
	return exchange.Run(ctx, exchange.Job{Sides: sides, Timeout: record.Seconds(u.Plan.Watchdog.QueryStallS), Until: exchange.Until{Count: count}})
}

func (u *upgrade) before(ctx context.Context) error {
	return newDuel(u.frame, "before", u.Row.QueryTypes, &u.record.Before).whole(ctx)
}

// ingest is as much again on top of the first window, alone, until nothing is left to do with it.
func (u *upgrade) ingest(ctx context.Context, v *variant) (err error) {
	data, ok := u.Workload.ContinuedFor(v.target.DataFormat)
	if !ok {
		return fmt.Errorf("raw/workload.json has no data in format %q that continue the first", v.target.DataFormat)
	}
	rec := record.SoloRecord{Sizes: map[string]int64{}, CPUNS: map[string]int64{}}
	defer func() { u.record.Ingest[v.Name] = rec }()
	v.part, v.phase = record.InUpgrade, record.Phase{Phase: "ingest"}
	if rec.StartS, err = u.launch(ctx, v, "", nil); err != nil {
		return err
	}
	if err := u.load(ctx, v, &rec, []record.DataFile{data}, record.InUpgrade, "ingest"); err != nil {
		return err
	}
	rec.StopS, err = u.shutdown(ctx, v)
	return err
}

// after asks over both windows and over the new one; who comes first changes from block to block.
func (u *upgrade) after(ctx context.Context) error {
	var types []string
	for _, queryType := range u.Row.QueryTypes {
		windows := []string{queryType + "@half", queryType + "@new"}
		if u.Row.Block%2 == 1 {
			slices.Reverse(windows)
		}
		types = append(types, windows...)
	}
	if err := newDuel(u.frame, "after", types, &u.record.After).whole(ctx); err != nil {
		return err
	}
	return u.all(func(v *variant) (err error) {
		u.record.Sizes[v.Name], err = u.sizes(ctx, v)
		return err
	})
}

// downgrades start the baseline on what each candidate has left, of one that did not start on it, too; beside it runs the baseline on
// its own directory. Whatever comes of that is a result.
func (u *upgrade) downgrades(ctx context.Context) (err error) {
	own, rest := u.variants[u.Plan.Variants[0].Name], []*variant{}
	for _, name := range u.Row.Order {
		if v := u.variants[name]; v != own && (!v.failed || u.block.Refused(name) != "") {
			rest = append(rest, v)
		}
	}
	if own.failed || len(rest) == 0 || u.block.Void != "" {
		return nil
	}
	if err := u.forget(ctx, own); err != nil {
		return u.blame(own, err)
	}
	own.part, own.phase = record.InUpgrade, record.Phase{Phase: "downgrade"}
	if _, err := u.launch(ctx, own, "downgrade-", nil); err != nil {
		return u.blame(own, err)
	}
	for _, v := range rest {
		if err := u.downgrade(ctx, own, v); err != nil {
			return err
		}
	}
	return own.close(true) // nobody needs what it has
}

func (u *upgrade) downgrade(ctx context.Context, own, left *variant) (err error) {
	s := u.begin(left, record.InUpgrade, "downgrade", "")
	var rec record.Downgrade
	defer func() { u.record.Downgrade[left.Name] = rec }()
	v := &variant{Variant: own.Variant, target: own.target, dir: left.dir, data: left.data, part: record.InUpgrade, phase: s.Phase}
	defer func() { err = errors.Join(err, v.close(true)) }()
	if err := u.forget(ctx, v); err != nil {
		return u.blame(left, err)
	}
	var broken *fault
	if rec.StartS, err = u.launch(ctx, v, "downgrade-", nil); errors.As(err, &broken) {
		rec.Said = broken.message
		s.close(1, 0)
		return nil
	} else if err != nil {
		return err
	}
	rec.Starts = true
	asked, windows := 0, []string{"old", "half", "new"}
	if u.block.Refused(left.Name) != "" {
		windows = windows[:1] // it has nothing else
	}
	for _, window := range windows {
		of := record.DowngradeAnswers{Window: window}
		for _, queryType := range u.Row.QueryTypes {
			if window != "old" {
				queryType += "@" + window
			}
			result, err := u.send(ctx, queryType, downgradeAsked, exchange.Side{Name: own.Name, URL: own.url()},
				exchange.Side{Name: "the downgraded one", URL: v.url()})
			if err != nil {
				return err
			}
			side := result.Sides[1]
			of.Asked += len(result.Exchanges)
			of.Same += side.Compared - side.Differences
			of.Empty += side.Empty
			if of.What == "" && result.First != nil {
				of.What = strings.TrimSuffix(queryType, "@"+window) + ": " + result.First.What
			}
			if of.What == "" {
				of.What = result.Stopped
			}
		}
		asked += of.Asked
		rec.Answers = append(rec.Answers, of)
	}
	for _, server := range v.servers {
		if rec.Said == "" {
			lines(func(line string) {
				if rec.Said == "" && (crash.MatchString(line) || complains.MatchString(line)) {
					rec.Said = scrape.OneLine(line)
				}
			}, server.log)
		}
	}
	s.close(0, int64(asked))
	return nil
}

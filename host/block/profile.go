package block

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"tsduel/host/profiles"
	"tsduel/host/record"
	"tsduel/host/scrape"
)

const (
	// profileFor is how long the exchanges of a profiled block take in all, as far as the query files reach.
	profileFor = 30 * time.Second
	// Between two windows of CPU time a tenth of a second is not seen, so that they grow; in the last one nobody asks any more.
	firstWindow, longestWindow = 5 * time.Second, 30 * time.Second
)

// profiler reads the servers' pprof endpoints while they work; nil in the blocks that are measured, in which nobody reads along.
type profiler struct {
	works   []string
	entries []*profileEntry
}

// profileEntry is one profile as it comes together. A sentence in Why ends that.
type profileEntry struct {
	record.Profile
	sum profiles.Sum
}

// Profile runs, after all blocks, one more that nobody measures, with the profiles that the plan asks for: raw/profiles, once. All
// variants do the same work, as in any block. What cannot be read is no error, and is said in profiles.json and to who watches.
func Profile(ctx context.Context, spec record.Spec) error {
	final := filepath.Join(spec.RunDir, "raw", "profiles")
	if len(spec.Plan.Profile) == 0 {
		return nil
	}
	plan, events := *spec.Plan, spec.Events
	plan.Noise, plan.Mixed, plan.Capacity, plan.Queries.Solo = nil, nil, nil, false
	spec.Plan, spec.Dir = &plan, final+".partial"
	spec.Events = record.NewEvents(spec.Dir, true) // a log of its own; who watches is told of the whole
	spec.Row = record.BlockRow{Host: spec.Host.Host, Kind: "profile"}
	for _, v := range plan.Variants {
		spec.Row.Order = append(spec.Row.Order, v.Name)
	}
	for _, t := range plan.Queries.Types {
		spec.Row.QueryTypes = append(spec.Row.QueryTypes, t.Name)
	}
	if err := errors.Join(record.RemoveTree(spec.Dir), os.Mkdir(spec.Dir, 0o755)); err != nil {
		return err
	}
	p := &profiler{}
	for work, planned := range map[string]bool{"load": plan.Design.Reload != "once", "ingestion": plan.Duel.Enabled && plan.Duel.Load, "queries": plan.Duel.Enabled} {
		if planned {
			p.works = append(p.works, work)
		}
	}
	slices.Sort(p.works)
	phase := record.Phase{Part: "servers", Phase: "profile", Begin: record.Epoch(time.Now())}
	events.Emit("phase-start", record.PhaseFields(phase))
	b, err := runBlock(ctx, spec, p)
	if err != nil {
		return err
	}
	kept, err := p.keep(&plan, spec.Dir, b)
	for _, one := range kept {
		if one.Why != "" {
			events.Emit("note", record.Fields{"variant": one.Variant, "message": fmt.Sprintf("there is no %s profile of its %s (%s): %s", one.Kind, one.Work, one.Role, one.Why)})
		}
	}
	phase.End = record.Epoch(time.Now())
	events.Emit("phase-end", record.PhaseFields(phase))
	err = errors.Join(err, record.WriteJSON(filepath.Join(spec.Dir, "block.json"), b), record.WriteJSON(filepath.Join(spec.Dir, "profiles.json"), record.Profiles{Schema: 1, Profiles: kept}))
	if err != nil {
		return err
	}
	return record.Publish(spec.Dir, final)
}

// keep writes the profiles, and returns one record for each that was planned, in the plan's order.
func (p *profiler) keep(plan *record.Plan, dir string, b *record.Block) (kept []record.Profile, err error) {
	for _, v := range plan.Variants {
		for _, work := range p.works {
			for _, c := range v.Components {
				for _, kind := range plan.Profile {
					e := p.entry(v.Name, work, c.Role, kind)
					e.judge(b)
					if e.Why == "" {
						e.File = strings.Join([]string{v.Name, work, c.Role, kind}, ".")
						failed := e.sum.Write(filepath.Join(dir, e.File))
						if errors.Is(failed, profiles.ErrEmpty) {
							e.File, e.Why, failed = "", empty[kind], nil
						}
						err = errors.Join(err, failed)
					}
					kept = append(kept, e.Profile)
				}
			}
		}
	}
	return kept, err
}

// judge says why there is no profile where its work was not done, or its variant has failed in the block.
func (e *profileEntry) judge(b *record.Block) {
	if e.Why == "" && e.Operations == 0 {
		e.Why = undone
	}
	for _, failure := range b.Failures {
		if failure.Variant == e.Variant || e.Why == undone {
			e.Why = fmt.Sprintf("%s failed in %s: %s", failure.Variant, failure.Phase, failure.Message)
		}
	}
	if e.Why == undone && b.Void != "" {
		e.Why += ": " + b.Void
	}
}

const undone = "the work was not done"

var empty = map[string]string{
	"cpu":   "it has no sample: the process used next to no CPU, which is looked at 100 times a second",
	"heap":  "it has no sample: the process allocated next to nothing, or its flags switch sampling off",
	"block": "it has no sample: this server does not record where it waits (runtime.SetBlockProfileRate)",
}

func (p *profiler) entry(variant, work, role, kind string) *profileEntry {
	key := record.Profile{Variant: variant, Work: work, Role: role, Kind: kind}
	for _, e := range p.entries {
		if e.Variant == variant && e.Work == work && e.Role == role && e.Kind == kind {
			return e
		}
	}
	p.entries = append(p.entries, &profileEntry{Profile: key})
	return p.entries[len(p.entries)-1]
}

// more is how many times the exchanges of a type are done where they are read: such that all types fill the time of a profile, as
// far as the shortest file reaches.
func (f *frame) more(queryType string, count int) int {
	if f.profiler == nil {
		return 1
	}
	times := int(math.Ceil(profileFor.Seconds() / f.Plan.Duel.Seconds / float64(len(f.Row.QueryTypes))))
	for _, file := range f.Workload.Queries {
		if file.Type == queryType {
			times = min(times, file.Count/count)
		}
	}
	return max(1, times)
}

// profile begins to read the pprof endpoints of variants that are about to work, for about as long as it expects that to take. What it
// returns ends that, and says how many operations it were; called again it does nothing, and 0 is of work that was not finished.
func (f *frame) profile(ctx context.Context, work string, expect time.Duration, of ...*variant) func(operations int64) {
	if f.profiler == nil || !slices.Contains(f.profiler.works, work) {
		return func(int64) {}
	}
	ctx, cancel := context.WithCancel(ctx)
	over := make(chan struct{})
	var begun []*profileEntry
	var reading sync.WaitGroup
	for _, v := range of {
		for _, s := range v.servers {
			at := "http://" + hostOf(cmp.Or(s.metrics, s.queries, s.writes)) + v.target.Pprof + "/"
			for _, kind := range f.Plan.Profile {
				e := f.profiler.entry(v.Name, work, s.role, kind)
				begun = append(begun, e)
				if kind == "cpu" {
					reading.Go(func() { e.windows(ctx, at+"profile", expect, over) })
					continue
				}
				before := e.fetch(ctx, at+kind+"?gc=1", 0)
				reading.Go(func() {
					<-over
					if after := e.fetch(ctx, at+kind+"?gc=1", 0); e.Why == "" {
						e.blame(e.sum.Grown(before, after))
					}
				})
			}
		}
	}
	begin := time.Now()
	return func(operations int64) {
		if begun == nil {
			return
		}
		if operations == 0 {
			cancel()
		}
		seconds := time.Since(begin).Seconds()
		close(over)
		reading.Wait()
		cancel()
		for _, e := range begun {
			if e.Operations, e.Seconds = e.Operations+operations, e.Seconds+seconds; operations == 0 {
				e.Why = undone
			}
		}
		begun = nil
	}
}

// hostOf is HOST:PORT of an address that an adapter has named.
func hostOf(address string) string {
	if u, err := url.Parse(address); err == nil {
		return u.Host
	}
	return ""
}

// windows reads one window of CPU time after the other until the work is over.
func (e *profileEntry) windows(ctx context.Context, at string, length time.Duration, over <-chan struct{}) {
	for read := time.Duration(0); ; length = min(longestWindow, read) {
		seconds := math.Ceil(length.Seconds())
		text := e.fetch(ctx, fmt.Sprintf("%s?seconds=%.0f", at, seconds), record.Seconds(seconds))
		if e.Why != "" {
			return
		}
		e.blame(e.sum.Add(text))
		read += record.Seconds(seconds)
		select {
		case <-over:
			return
		default:
		}
	}
}

// fetch reads an endpoint that takes so long for its answer, unless that has failed before.
func (e *profileEntry) fetch(ctx context.Context, at string, takes time.Duration) []byte {
	if e.Why != "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, takes+scrape.Timeout)
	defer cancel()
	text, err := scrape.Fetch(ctx, at)
	e.blame(err)
	return text
}

// blame keeps the first reason for which there is no profile.
func (e *profileEntry) blame(err error) {
	if err != nil && e.Why == "" {
		e.Why = "its pprof endpoint cannot be used: " + err.Error()
	}
}

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
	// profileFor is how long each side is asked in a profiled block, as far as the query files reach.
	profileFor = 15 * time.Second
	// Windows of CPU time grow, since a tenth of a second between two of them is not seen.
	firstWindow, longestWindow = 5 * time.Second, 30 * time.Second
)

// profiler reads the servers' pprof endpoints while they work. It is nil in measured blocks.
type profiler struct {
	kinds   []string
	works   []string
	entries map[record.Profile]*profileEntry // by variant, work, role and kind
}

// profileEntry is one profile while it is read. Why ends that.
type profileEntry struct {
	record.Profile
	sum profiles.Sum
}

// Profile runs one more block, which is not measured, and profiles its servers into raw/HOST/profiles. It is no
// error if a profile cannot be read: profiles.json and a note say why.
func Profile(ctx context.Context, spec record.Spec) error {
	final := filepath.Join(spec.Raw, "profiles")
	if len(spec.Plan.Profile) == 0 {
		return nil
	}
	plan, events := *spec.Plan, spec.Events
	plan.Noise, plan.Mixed, plan.Capacity, plan.Queries.Solo = nil, nil, nil, false
	spec.Plan, spec.Dir = &plan, final+".partial"
	// The block has its own log; the run's events show it as one phase.
	spec.Events = record.NewEvents(spec.Dir, filepath.Join(spec.Dir, "raw"), true)
	spec.Events.Hide(spec.Hidden)
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
	p := &profiler{kinds: plan.Profile, entries: map[record.Profile]*profileEntry{}}
	if plan.Duel.Enabled && plan.Duel.Load {
		p.works = append(p.works, "ingestion")
	}
	if plan.Design.Reload != "once" {
		p.works = append(p.works, "load")
	}
	if plan.Duel.Enabled {
		p.works = append(p.works, "queries")
	}
	phase := record.Phase{Part: "servers", Phase: "profile", Begin: record.Epoch(time.Now())}
	events.Emit("phase-start", record.PhaseFields(phase))
	b, err := runBlock(ctx, spec, p)
	if err != nil {
		return err
	}
	kept, err := p.keep(&plan, spec.Dir, b)
	for i := range kept {
		e := &kept[i]
		e.Why = spec.Hidden.Mask(e.Why)
		if e.Why != "" {
			events.Emit("note", record.Fields{"variant": e.Variant, "message": fmt.Sprintf(
				"there is no %s profile of its %s (%s): %s", e.Kind, e.Work, e.Role, e.Why)})
		}
	}
	phase.End = record.Epoch(time.Now())
	events.Emit("phase-end", record.PhaseFields(phase))
	index := record.Profiles{Schema: 1, Profiles: kept}
	err = errors.Join(err, record.WriteJSON(filepath.Join(spec.Dir, "block.json"), b),
		record.WriteJSON(filepath.Join(spec.Dir, "profiles.json"), index))
	if err != nil {
		return err
	}
	return record.Publish(spec.Dir, final)
}

// keep writes the profiles and returns a record of each planned one, in the plan's order.
func (p *profiler) keep(plan *record.Plan, dir string, b *record.Block) (kept []record.Profile, err error) {
	for _, v := range plan.Variants {
		for _, work := range p.works {
			for _, c := range v.Components {
				for _, kind := range p.kinds {
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

// judge says why there is no profile if the work was not done or the variant has failed in the block.
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
	if p.entries[key] == nil {
		p.entries[key] = &profileEntry{Profile: key}
	}
	return p.entries[key]
}

// read profiles variants that will work for about so long. end stops that and says how many operations were
// done, 0 if the work was not finished. Only its first call counts.
func (p *profiler) read(ctx context.Context, work string, expect time.Duration,
	variants ...*variant) (end func(operations int64)) {
	if p == nil || !slices.Contains(p.works, work) {
		return func(int64) {}
	}
	ctx, cancel := context.WithCancel(ctx)
	over := make(chan struct{})
	var entries []*profileEntry
	var reading sync.WaitGroup
	for _, v := range variants {
		for _, s := range v.servers {
			var host string
			if u, err := url.Parse(cmp.Or(s.metrics, s.queries, s.writes)); err == nil {
				host = u.Host
			}
			at := "http://" + host + v.target.Pprof + "/"
			for _, kind := range p.kinds {
				e := p.entry(v.Name, work, s.role, kind)
				entries = append(entries, e)
				if kind == "cpu" {
					reading.Go(record.Caught(func() { e.windows(ctx, at+"profile", expect, over) }))
					continue
				}
				before := e.fetch(ctx, at+kind+"?gc=1", 0)
				reading.Go(record.Caught(func() {
					<-over
					if after := e.fetch(ctx, at+kind+"?gc=1", 0); e.Why == "" {
						e.blame(e.sum.Grown(before, after))
					}
				}))
			}
		}
	}
	begin := time.Now()
	var once sync.Once
	return func(operations int64) {
		once.Do(func() {
			if operations == 0 {
				cancel()
			}
			seconds := time.Since(begin).Seconds()
			close(over)
			reading.Wait()
			cancel()
			for _, e := range entries {
				if e.Operations, e.Seconds = e.Operations+operations, e.Seconds+seconds; operations == 0 {
					e.Why = undone
				}
			}
		})
	}
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

// fetch reads an endpoint that takes so long for its answer, unless an earlier read has failed.
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

// blame keeps the first reason why there is no profile.
func (e *profileEntry) blame(err error) {
	if err != nil && e.Why == "" {
		e.Why = "its pprof endpoint cannot be used: " + err.Error()
	}
}

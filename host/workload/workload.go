// Package workload makes the data and query files that every block reads, or takes those of an earlier run.
//
// A file F is good if F.json beside it has its size, its sha256 and its number of lines or queries. F.json is
// removed before F is replaced, and written after it, so an interruption leaves a file without a record at
// worst. Every start of a run checks the sha256 of the packed file, which takes 0.1 s; unpacking would take
// seconds. The content of data is identified by the checksum at the end of a zstd frame (32 bits of XXH64),
// which is checked on unpacking and is the same for every version of zstd.
package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"tsduel/host/noise"
	"tsduel/host/proc"
	"tsduel/host/record"
)

// The size of a query, at most (single-groupby-5-8-1: 516), and that of a union (cpu-max-all-32-24: 5,251).
const queryBytes, unionBytes = 1000, 6000

// Unpacked data stays in the page cache: it takes 1/feedShare of the memory at most, and of the free disk.
const feedShare = 8

// Make returns the files of a run, writes raw/HOST/workload.json, and makes missing files. Spec needs Plan,
// Builds, the directories and Events. Errors are sentences for the user.
func Make(ctx context.Context, spec record.Spec) (*record.Workload, error) {
	if len(spec.Plan.Workload.Data) == 0 {
		return nil, record.UserError("%s/plan/experiment.json names no data in workload.data", spec.RunDir)
	}
	jobs := jobsOf(spec.Plan, spec.Cache)
	var missing []*job
	needed := int64(0)
	for _, j := range jobs {
		dir := filepath.Dir(j.path)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
		// Remove what an interrupted run has left. This run holds the lock of the cache.
		for _, path := range proc.Glob(dir, "*.new") {
			os.Remove(path)
		}
		if good, err := j.isGood(); err != nil {
			return nil, err
		} else if !good {
			missing = append(missing, j)
			needed += j.bytes
		}
	}
	dir := filepath.Join(spec.Cache, "workload")
	if free, _ := record.IsFull(dir); free < needed {
		return nil, record.UserError("too little disk for the data and query files: about %d MiB are needed and %d MiB "+
			"are free in %s: free some, point TSDUEL_CACHE to a larger disk, or make workload.scale or the window smaller",
			needed>>20+1, free>>20, dir)
	}
	if err := makeMissing(ctx, spec, missing); err != nil {
		return nil, err
	}
	room, err := roomForFeeds(spec.Scratch)
	if err != nil {
		return nil, err
	}
	made := &record.Workload{Data: []record.DataFile{}, Queries: []record.QueryFile{}}
	lists := map[string]*[]record.DataFile{"": &made.Data, "mixed": &made.Mixed,
		"continued": &made.Continued, "alone": &made.Alone}
	for _, j := range jobs {
		if j.query != nil {
			made.Queries = append(made.Queries, record.QueryFile{Format: j.format, Form: j.form,
				Type: j.query.Name, Path: j.path, SHA256: j.made.SHA256, Bytes: j.made.Bytes, Count: int(j.entries)})
			continue
		}
		// The cache removes the data first that was not used for longest, by the time of this file.
		_ = os.WriteFile(filepath.Join(filepath.Dir(j.path), ".used"), nil, 0o644)
		data := record.DataFile{Format: j.format, Path: j.path, FeedPath: j.path, SHA256: j.made.SHA256,
			ContentChecksum: j.made.ContentChecksum, Bytes: j.made.Bytes, Lines: j.lines, Samples: j.samples}
		if room >= j.made.ContentBytes {
			room -= j.made.ContentBytes
			if data.FeedPath, err = j.feed(ctx, spec.Scratch); err != nil {
				return nil, err
			}
		}
		*lists[j.behind] = append(*lists[j.behind], data)
	}
	target := filepath.Join(spec.Raw, "workload.json")
	before := &record.Workload{}
	err = record.ReadJSON(target, before)
	if err == nil && !same(before, made) {
		return nil, record.UserError("the data or the queries are not those of this run's first blocks (%s): start a new run",
			target)
	}
	return made, record.WriteJSON(target, made)
}

// jobsOf returns the files of a run.
func jobsOf(whole *record.Plan, cache string) (jobs []*job) {
	plan := whole.Workload
	add := func(key record.DataKey, name string, lines, samples int64, j job) {
		j.plan, j.format, j.path = cmp.Or(j.plan, whole), key.Format, filepath.Join(cache, "workload", key.Key, name)
		if j.lines, j.samples, j.entries = lines, samples, lines; isFramed(key.Format) {
			j.entries = samples
		}
		j.bytes = int64(float64(plan.EstimatedBytes) * float64(lines) / float64(plan.Lines))
		jobs = append(jobs, &j)
	}
	for i, key := range plan.Data {
		if !whole.Deployed() || whole.Design.Load == record.InTurn { // else nobody loads them
			add(key, "data.zst", plan.Lines, plan.Samples, job{start: plan.Start, end: plan.End})
		}
		if i == 0 {
			jobs = append(jobs, queriesOf(whole, filepath.Join(cache, "workload", key.Key, "queries"))...)
		}
	}
	if m := whole.Mixed; m != nil {
		for _, key := range m.Data {
			add(key, "data.zst", m.Lines, m.Samples, job{behind: "mixed", start: m.Start, end: m.End})
		}
	}
	if c := plan.Continued; c != nil {
		for _, key := range c.Data {
			add(key, "data.zst", c.Lines, c.Samples, job{behind: "continued", start: c.Start, end: c.End})
		}
	}
	if a := plan.Alone; a != nil {
		other, own := *whole, *plan
		own.Scale, own.Lines, own.Samples, other.Workload = a.Scale, a.Lines, a.Samples, &own
		for _, key := range a.Data {
			add(key, "data.zst", a.Lines, a.Samples, job{plan: &other, behind: "alone", start: plan.Start, end: plan.End})
		}
	}
	return jobs
}

// queriesOf returns the query files of a plan.
func queriesOf(plan *record.Plan, dir string) (jobs []*job) {
	count := int64(plan.Queries.MaxCount)
	if plan.Queries.Count != nil {
		count = max(count, int64(*plan.Queries.Count))
	}
	for _, q := range slices.Concat(plan.Queries.Types, plan.Queries.Windowed) {
		for _, name := range slices.Sorted(maps.Keys(q.Keys)) { // the same order in every session of a run
			j := &job{plan: plan, path: filepath.Join(dir, q.Keys[name]+".gob"), query: &q, start: plan.Workload.Start,
				end: plan.Workload.End, entries: count, bytes: count * queryBytes}
			if q.Start != nil && q.End != nil {
				j.start, j.end = *q.Start, *q.End
			}
			if j.format, j.form, _ = strings.Cut(name, ":"); j.form != "" {
				j.bytes = count * unionBytes
			}
			jobs = append(jobs, j)
		}
	}
	return jobs
}

func makeMissing(ctx context.Context, spec record.Spec, missing []*job) error {
	phase := func(name string, count int64, work func() error) error {
		begin := record.Epoch(time.Now())
		spec.Events.Emit("phase-start", record.Fields{"phase": name})
		if err := work(); err != nil {
			return err
		}
		end := record.Epoch(time.Now())
		done := record.Phase{Phase: name, Begin: begin, End: end, Count: count}
		spec.Events.Emit("phase-end", record.PhaseFields(done))
		return nil
	}
	var queries []*job
	for _, j := range missing {
		if j.query != nil {
			queries = append(queries, j)
			continue
		}
		if own := j.plan.Workload.OwnData; own != nil && j.behind == "" {
			return record.UserError("%s: what was read of it when the run was planned is no longer in this machine's cache "+
				"(%s): start a new run", own.Path, j.path)
		}
		spec.Events.Log("INFO", fmt.Sprintf("generating %d %s of data into %s", j.entries, unitOf(j.format), j.path))
		if err := phase("data", j.entries, func() error { return makeData(ctx, spec, j) }); err != nil {
			return err
		}
	}
	if len(queries) == 0 {
		return nil
	}
	return phase("queries", int64(len(queries)), func() error {
		for i, j := range queries {
			spec.Events.Progress("queries", int64(i), int64(len(queries)))
			if err := makeQueries(ctx, spec, j); err != nil {
				return err
			}
		}
		return nil
	})
}

// roomForFeeds removes old feeds from the scratch directory, and returns how many bytes of data may be
// unpacked there. A feed is data that is unpacked once for all blocks. Unpacking beside the loader would take
// half as much CPU as the loader, and that from the server that is measured.
func roomForFeeds(scratch string) (room int64, err error) {
	for _, path := range proc.Glob(scratch, "feed.*") {
		os.Remove(path)
	}
	facts, err := noise.Describe(scratch)
	if err != nil {
		return 0, err
	}
	return min(facts.MemoryBytes, facts.DiskFreeBytes) / feedShare, nil
}

// feed unpacks data into the scratch directory.
func (j *job) feed(ctx context.Context, scratch string) (path string, err error) {
	path = filepath.Join(scratch, "feed."+strings.TrimPrefix(j.behind+"."+j.format, "."))
	partial := path + ".partial"
	out, err := os.OpenFile(partial, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	if err := errors.Join(unpack(ctx, j.path, out), out.Close()); err != nil {
		return "", err
	}
	return path, os.Rename(partial, path)
}

// same says whether two workloads have the same content. It does not compare the sha256 of data: another
// version of zstd packs the same content into another file.
func same(a, b *record.Workload) bool {
	content := func(w *record.Workload) (all []any) {
		for _, d := range slices.Concat(w.Data, w.Mixed, w.Continued, w.Alone) {
			all = append(all, d.Format, d.ContentChecksum, d.Lines)
		}
		for _, q := range w.Queries {
			all = append(all, q.Format, q.Form, q.Type, q.SHA256)
		}
		return all
	}
	return reflect.DeepEqual(content(a), content(b))
}

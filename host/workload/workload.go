// Package workload makes the data and query files that every block reads, or takes those of an earlier run.
//
// A file F is good when F.json beside it names its size and sha256 and how many lines or queries are in it. The record goes away
// before F is replaced and comes back last, so a kill at any moment leaves a file without a record at worst. The sha256 is that
// of the file as it lies on the disk: 0.1 s to verify where the content would take seconds, so it is verified on every start of
// a run. The content of the data is identified by the 32 bits of XXH64 at the end of a zstd frame, which are compared whenever it
// is unpacked, and are the same for every zstd.
package workload

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"tsduel/host/noise"
	"tsduel/host/record"
)

// A query is at most about so long (single-groupby-5-8-1: 516), or this much where it is a union (cpu-max-all-32-24: 5,251).
const queryBytes, unionBytes = 1000, 6000

// Unpacked data stays in the page cache and leaves the database what it needs: so much of the memory, and of the free disk, at most.
const feedShare = 8

// file is what FILE.json says of a file. Content is of data only.
type file struct {
	SHA256          string `json:"sha256"`
	Bytes           int64  `json:"bytes"`
	Entries         int64  `json:"entries"` // lines or queries
	ContentChecksum string `json:"content_checksum,omitempty"`
	ContentBytes    int64  `json:"content_bytes,omitempty"`
}

// job is a file to be made, of the plan as one cell has it; cells are all that share it.
type job struct {
	plan           *record.Plan
	cells          []string
	path           string
	format, form   string
	query          *record.QueryType // nil: data
	start, end     time.Time         // of the data
	behind         string            // mixed or continued: of data behind the window that is loaded; group: one client's part of that
	part, of       int               // of a group
	samples        int64
	entries, bytes int64 // lines, or what else the format is counted in, or queries
	made           file
}

// Make returns the files of a run and writes raw/workload.json; what is missing is made. Spec needs Plan, Builds, the directories and
// Events. Errors are sentences, of the user's where he can mend it.
func Make(ctx context.Context, spec record.Spec) (*record.Workload, error) {
	if len(spec.Plan.Workload.Data) == 0 {
		return nil, record.UserError("%s/plan/experiment.json names no data in workload.data", spec.RunDir)
	}
	jobs := jobsOf(spec)
	dirs := map[string]bool{}
	for _, j := range jobs {
		dirs[filepath.Dir(j.path)] = true
	}
	for dir := range dirs {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
		// We hold the lock of the cache, so nobody else is making anything.
		left, _ := filepath.Glob(filepath.Join(dir, "*.new"))
		for _, path := range left {
			os.Remove(path)
		}
	}
	var missing []*job
	needed := int64(0)
	for _, j := range jobs {
		if good, err := j.isGood(); err != nil {
			return nil, err
		} else if !good {
			missing = append(missing, j)
			needed += j.bytes
		}
	}
	dir := filepath.Join(spec.Cache, "workload")
	if free, _ := record.IsFull(dir); free < needed {
		return nil, record.UserError("too little disk for the data and query files: about %d MiB are needed and %d MiB are free in %s: free some, point TSDUEL_CACHE to a larger disk, or make workload.scale or the window smaller",
			needed>>20+1, free>>20, dir)
	}
	if err := makeMissing(ctx, spec, missing); err != nil {
		return nil, err
	}
	made, unpacked := &record.Workload{Data: []record.DataFile{}, Queries: []record.QueryFile{}}, &feeds{}
	if err := unpacked.begin(spec.Scratch); err != nil {
		return nil, err
	}
	for _, j := range jobs {
		if j.query != nil {
			made.Queries = append(made.Queries, record.QueryFile{Cells: j.cells, Format: j.format, Form: j.form, Type: j.query.Name, Path: j.path, SHA256: j.made.SHA256, Bytes: j.made.Bytes, Count: int(j.entries)})
			continue
		}
		_ = os.WriteFile(filepath.Join(filepath.Dir(j.path), ".used"), nil, 0o644) // for its time: what was not used for longest is removed first
		feed, err := unpacked.of(ctx, spec, j)
		if err != nil {
			return nil, err
		}
		plan := j.plan.Workload
		data := record.DataFile{Cells: j.cells, Format: j.format, Path: j.path, FeedPath: feed, SHA256: j.made.SHA256, ContentChecksum: j.made.ContentChecksum,
			Bytes: j.made.Bytes, Lines: j.samples / (plan.Samples / plan.Lines), Samples: j.samples}
		switch j.behind {
		case "mixed":
			made.Mixed = append(made.Mixed, data)
		case "continued":
			made.Continued = append(made.Continued, data)
		case "group":
			data.Host = spec.Host.Host
			made.Groups = append(made.Groups, data)
		default:
			made.Data = append(made.Data, data)
		}
	}
	target := filepath.Join(spec.RunDir, "raw", "workload.json")
	before := &record.Workload{}
	err := record.ReadJSON(target, before)
	before.Groups = slices.DeleteFunc(before.Groups, func(d record.DataFile) bool { return d.Host != spec.Host.Host }) // the driver has all
	if err == nil && !same(before, made) {
		return nil, record.UserError("the data or the queries are not those of this run's first blocks (%s): start a new run", target)
	}
	return made, record.WriteJSON(target, made)
}

// jobsOf are the files of all cells, each once: those with the same key are the same.
func jobsOf(spec record.Spec) (jobs []*job) {
	known := map[string]*job{}
	for _, cell := range spec.Plan.CellNames() {
		for _, j := range jobsIn(spec.Plan.In(cell), spec.Cache, spec.Host.Host) {
			key := j.path
			if j.query != nil { // whatever data it lies beside
				key = filepath.Base(j.path)
			}
			if known[key] == nil {
				known[key], jobs = j, append(jobs, j)
			}
			if cell != "" {
				known[key].cells = append(known[key].cells, cell)
			}
		}
	}
	return jobs
}

// jobsIn are those of a cell on a host. Of several clients each makes the group that it loads, and the first one alone all of the data,
// where they are exchanged.
func jobsIn(whole *record.Plan, cache, host string) (jobs []*job) {
	plan, queries := whole.Workload, whole.Queries
	clients := whole.Topology.Clients()
	part, of := slices.Index(clients, host), len(clients)
	for i, data := range plan.Data {
		dir := filepath.Join(cache, "workload", data.Key)
		if of > 1 {
			lines := (plan.Lines - int64(part) + int64(of) - 1) / int64(of)
			samples := lines * (plan.Samples / plan.Lines)
			jobs = append(jobs, &job{plan: whole, path: filepath.Join(dir, fmt.Sprintf("data.%d-of-%d.zst", part+1, of)), format: data.Format, start: plan.Start, end: plan.End,
				behind: "group", part: part, of: of, samples: samples, entries: shapeOf(data.Format).entries(lines, samples), bytes: plan.EstimatedBytes / int64(of)})
		}
		if of <= 1 || part == 0 && whole.Duel.Enabled && whole.Duel.Load {
			jobs = append(jobs, &job{plan: whole, path: filepath.Join(dir, "data.zst"), format: data.Format, start: plan.Start, end: plan.End, samples: plan.Samples,
				entries: shapeOf(data.Format).entries(plan.Lines, plan.Samples), bytes: plan.EstimatedBytes})
		}
		if i > 0 {
			continue
		}
		count := int64(queries.MaxCount)
		if queries.Count != nil {
			count = max(count, int64(*queries.Count))
		}
		for _, q := range slices.Concat(queries.Types, queries.Windowed) {
			start, end := plan.Start, plan.End
			if q.Start != nil && q.End != nil {
				start, end = *q.Start, *q.End
			}
			for _, name := range slices.Sorted(maps.Keys(q.Keys)) { // in the order of the run's first session
				j := &job{plan: whole, path: filepath.Join(dir, "queries", q.Keys[name]+".gob"), query: &q, start: start, end: end, entries: count, bytes: count * queryBytes}
				if j.format, j.form, _ = strings.Cut(name, ":"); j.form != "" {
					j.bytes = count * unionBytes
				}
				jobs = append(jobs, j)
			}
		}
	}
	behind := func(what string, of record.Continued) {
		for _, data := range of.Data {
			jobs = append(jobs, &job{plan: whole, path: filepath.Join(cache, "workload", data.Key, "data.zst"), format: data.Format, start: of.Start, end: of.End, behind: what,
				samples: of.Samples, entries: shapeOf(data.Format).entries(of.Lines, of.Samples), bytes: of.Lines * plan.EstimatedBytes / plan.Lines})
		}
	}
	if m := whole.Mixed; m != nil {
		behind("mixed", record.Continued{Start: m.Start, End: m.End, Lines: m.Lines, Samples: m.Lines * (plan.Samples / plan.Lines), Data: m.Data})
	}
	if plan.Continued != nil {
		behind("continued", *plan.Continued)
	}
	return jobs
}

// isGood says whether a file is there and whole, with as many lines or queries as it is to have.
func (j *job) isGood() (bool, error) {
	if err := record.ReadJSON(j.path+".json", &j.made); err != nil || j.made.Entries != j.entries {
		return false, nil
	}
	sum, size, err := sumOf(j.path)
	if err != nil && !os.IsNotExist(err) {
		return false, err
	}
	return sum == j.made.SHA256 && size == j.made.Bytes, nil
}

func sumOf(path string) (sum string, size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	hash := sha256.New()
	size, err = io.Copy(hash, f)
	return hex.EncodeToString(hash.Sum(nil)), size, err
}

// publish gives a file that was made, and its record, their names.
func (j *job) publish(partial string) (err error) {
	j.made.Entries = j.entries
	if j.made.SHA256, j.made.Bytes, err = sumOf(partial); err != nil {
		return err
	}
	if err := os.Remove(j.path + ".json"); err != nil && !os.IsNotExist(err) {
		return err
	}
	if err := record.Publish(partial, j.path); err != nil {
		return err
	}
	return record.WriteJSON(j.path+".json", j.made)
}

func makeMissing(ctx context.Context, spec record.Spec, missing []*job) error {
	queries := 0
	begin := time.Now()
	tell := func(phase string, begin time.Time, count int64) {
		end := record.Epoch(time.Now())
		spec.Events.Emit("phase-end", record.PhaseFields(record.Phase{Phase: phase, Begin: record.Epoch(begin), End: end, Count: count}))
	}
	for _, j := range missing {
		if j.query == nil {
			begin := time.Now()
			spec.Events.Log("INFO", fmt.Sprintf("generating %d %s of data into %s", j.entries, shapeOf(j.format).unit, j.path))
			spec.Events.Emit("phase-start", record.Fields{"phase": "data"})
			if err := makeData(ctx, spec, j); err != nil {
				return err
			}
			tell("data", begin, j.entries)
			continue
		}
		if queries == 0 {
			begin = time.Now()
			spec.Events.Emit("phase-start", record.Fields{"phase": "queries"})
		}
		spec.Events.Progress("queries", int64(queries), int64(len(missing)))
		if err := makeQueries(ctx, spec, j); err != nil {
			return err
		}
		queries++
	}
	if queries > 0 {
		tell("queries", begin, int64(queries))
	}
	return nil
}

// feeds are what the loader reads: data unpacked once for all blocks where that is small, else the data file. Unpacking beside the
// loader takes half as much CPU as the loader itself, from the server that is measured. Left is what may still be unpacked.
type feeds struct{ left int64 }

func (f *feeds) begin(scratch string) error {
	old, _ := filepath.Glob(filepath.Join(scratch, "feed.*"))
	for _, path := range old {
		os.Remove(path)
	}
	facts, err := noise.Describe(scratch)
	if err == nil {
		f.left = min(facts.MemoryBytes, facts.DiskFreeBytes) / feedShare
	}
	return err
}

func (f *feeds) of(ctx context.Context, spec record.Spec, j *job) (string, error) {
	path := filepath.Join(spec.Scratch, "feed."+strings.TrimPrefix(j.behind+"."+j.format, "."))
	if len(j.cells) > 0 {
		path += "." + filepath.Base(filepath.Dir(j.path))
	}
	if f.left < j.made.ContentBytes {
		return j.path, nil
	}
	f.left -= j.made.ContentBytes
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

// same says whether two have the same content. Not the sha256 of the data file: another zstd makes another file of the same content.
func same(a, b *record.Workload) bool {
	content := func(w *record.Workload) (found []any) {
		for _, d := range slices.Concat(w.Data, w.Groups, w.Mixed, w.Continued) {
			found = append(found, d.Cells, d.Format, d.ContentChecksum, d.Lines)
		}
		for _, q := range w.Queries {
			found = append(found, q.Cells, q.Format, q.Form, q.Type, q.SHA256)
		}
		return found
	}
	return reflect.DeepEqual(content(a), content(b))
}

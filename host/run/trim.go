package run

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"tsduel/host/record"

	"golang.org/x/sys/unix"
)

// What may go from the cache, and what counts and stays: Go's own caches, since every build needs them.
var (
	trimmed  = []string{"workload", "tsbs", "variants", "agent", "src"}
	staying  = []string{"go", "toolchain", "bin"}
	entryRE  = regexp.MustCompile(`^[0-9a-f]{16}(\.git)?$`)
	usedMark = ".used" // an entry was last used when this file in it was touched
)

// Another run may be about to start with what was used within the hour.
const recent = time.Hour

type entry struct {
	name  string // workload/KEY
	bytes int64
	used  time.Time
}

// trim keeps the cache below its limit (host.cache_limit_gb): what was not used for longest goes first, whole entries at a time, never
// what this run uses. Whoever calls it holds the lock of the cache.
func trim(plan *record.Plan, runDir, cache string, tell func(string)) error {
	needed, coming := needs(plan, runDir, cache)
	var failed []error
	for _, dir := range append([]string{""}, trimmed...) {
		for _, pattern := range []string{"removed.*", ".removed.*"} { // what a killed removal has left
			for _, left := range matching(filepath.Join(cache, dir), pattern) {
				failed = append(failed, record.RemoveTree(left))
			}
		}
	}
	if plan.Host.CacheLimitGB == nil {
		return errors.Join(failed...)
	}
	limit := int64(*plan.Host.CacheLimitGB * 1e9)
	entries := list(cache)
	stays := int64(0)
	for _, name := range staying {
		stays += record.UsedBytes(filepath.Join(cache, name))
	}
	total := stays + coming
	for _, e := range entries {
		total += e.bytes
	}
	before := total
	var gone []string
	for _, e := range entries {
		if total <= limit || time.Since(e.used) < recent {
			break
		}
		if needed[e.name] || !evict(cache, e.name) {
			continue
		}
		total -= e.bytes
		gone = append(gone, fmt.Sprintf("%s (%s, last used %s)", e.name, record.Bytes(e.bytes), e.used.UTC().Format(time.DateOnly)))
	}
	if before > limit {
		line := fmt.Sprintf("the cache takes %s with the data of this run, and its limit is %s (CACHE_LIMIT)", record.Bytes(before), record.Bytes(limit))
		if gone != nil {
			line += ": removed what was not used for longest: " + strings.Join(gone, ", ")
		}
		if total > limit {
			line += fmt.Sprintf("; %s stay: %s are Go's own, the rest is this run's or was used within the hour; give a larger CACHE_LIMIT, or make clean-cache when nothing runs",
				record.Bytes(total), record.Bytes(stays))
		}
		tell(line)
	}
	return errors.Join(failed...)
}

// needs are the entries of this run, each used now, and the bytes that its data will take.
func needs(plan *record.Plan, runDir, cache string) (needed map[string]bool, coming int64) {
	needed = map[string]bool{}
	var tsbs struct {
		BinDir string `json:"bin_dir"`
	}
	if record.ReadJSON(filepath.Join(runDir, "build", "tsbs.json"), &tsbs) == nil {
		needed["tsbs/"+filepath.Base(tsbs.BinDir)] = true
	}
	if program, err := os.Executable(); err == nil {
		needed["agent/"+filepath.Base(filepath.Dir(program))] = true
	}
	for _, v := range plan.Variants {
		for _, c := range v.Components {
			needed["variants/"+c.BuildKey] = true
		}
	}
	for _, cell := range plan.CellNames() {
		of := plan.In(cell)
		if of.Workload == nil {
			continue
		}
		files := of.Workload.Data
		if of.Mixed != nil {
			files = slices.Concat(files, of.Mixed.Data)
		}
		if of.Workload.Continued != nil {
			files = slices.Concat(files, of.Workload.Continued.Data)
		}
		for _, data := range files {
			needed["workload/"+data.Key] = true
			if made, _ := filepath.Glob(filepath.Join(cache, "workload", data.Key, "data*.zst.json")); len(made) == 0 {
				coming = plan.Estimate.DataBytes + plan.Estimate.QueryBytes
			}
		}
	}
	for name := range needed {
		if info, err := os.Stat(filepath.Join(cache, name)); err == nil && info.IsDir() {
			_ = os.WriteFile(filepath.Join(cache, name, usedMark), nil, 0o644) // with nothing in it, for its time
		}
	}
	return needed, coming
}

// list is all entries, the least recently used first.
func list(cache string) (entries []entry) {
	for _, kind := range trimmed {
		// A link leads to what is not ours alone; what has another name is not whole, or not ours.
		if info, err := os.Lstat(filepath.Join(cache, kind)); err != nil || !info.IsDir() {
			continue
		}
		for _, dir := range matching(filepath.Join(cache, kind), "*") {
			info, err := os.Lstat(dir)
			if err != nil || !info.IsDir() || !entryRE.MatchString(filepath.Base(dir)) {
				continue
			}
			used := info.ModTime()
			if mark, err := os.Stat(filepath.Join(dir, usedMark)); err == nil {
				used = mark.ModTime()
			}
			entries = append(entries, entry{filepath.Join(kind, filepath.Base(dir)), record.UsedBytes(dir), used})
		}
	}
	slices.SortStableFunc(entries, func(a, b entry) int { return a.used.Compare(b.used) })
	return entries
}

// evict removes an entry unless somebody builds it, or from it; out of the way at once, so that a kill leaves nothing that looks whole.
func evict(cache, name string) bool {
	kind, key := filepath.Split(name)
	from, away := filepath.Join(cache, name), filepath.Join(cache, kind, ".removed."+key)
	// Held until it is gone from its place: who builds it, or takes a clone to build from it, waits for the same lock.
	var locks []string
	if kind != "workload/" {
		locks = append(locks, strings.TrimSuffix(from, ".git")+".lock")
	}
	if kind == "src/" { // a build has its work tree from the clone
		locks = append(locks, matching(filepath.Join(cache, "variants"), "*.lock")...)
	}
	for _, path := range locks {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return false
		}
		defer f.Close()
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
			return false
		}
	}
	return os.Rename(from, away) == nil && record.RemoveTree(away) == nil
}

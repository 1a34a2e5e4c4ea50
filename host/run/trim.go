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

// Directories of the cache whose entries may be removed, and Go's own caches, which every build needs.
var (
	trimmed = []string{"workload", "tsbs", "variants", "agent", "src"}
	staying = []string{"go", "toolchain", "bin"}
	// Also what a killed build, or a killed reading of a user's data, has left.
	entryRE  = regexp.MustCompile(`^([0-9a-f]{16})(\.git)?(\.partial\..+)?$|^dump\..+\.new$`)
	usedMark = ".used" // the time of this file in an entry is when the entry was last used
)

// Entries that were used more recently stay: another run may be about to start with them.
const recent = time.Hour

type entry struct {
	name  string // workload/KEY
	bytes int64
	used  time.Time
}

// trim keeps the cache below its limit (host.cache_limit_gb). It removes whole entries, the least recently
// used first, and none that this run uses. The caller has the lock of the cache.
func trim(spec record.Spec, tell func(string)) error {
	cache := spec.Cache
	needed, coming := needs(spec)
	var failed []error
	for _, dir := range append([]string{""}, trimmed...) {
		for _, pattern := range []string{"removed.*", ".removed.*"} { // of a killed clean-cache or trim
			for _, left := range matching(filepath.Join(cache, dir), pattern) {
				failed = append(failed, record.RemoveTree(left))
			}
		}
	}
	if spec.Plan.Host.CacheLimitGB == nil {
		return errors.Join(failed...)
	}
	limit := int64(*spec.Plan.Host.CacheLimitGB * 1e9)
	entries := list(cache)
	stays := int64(0)
	for _, name := range staying {
		stays += record.UsedBytes(filepath.Join(cache, name))
	}
	// What an interrupted run has left there; its next block, or another run's, wipes it.
	total := stays + coming + record.UsedBytes(filepath.Join(cache, "scratch"))
	for _, e := range entries {
		total += e.bytes
	}
	before, gone := total, []string{}
	for _, e := range entries {
		if total <= limit || time.Since(e.used) < recent {
			break
		}
		if !needed[e.name] && evict(cache, e.name) {
			total -= e.bytes
			gone = append(gone, fmt.Sprintf("%s (%s, last used %s)",
				e.name, record.Bytes(e.bytes), e.used.UTC().Format(time.DateOnly)))
		}
	}
	if before > limit {
		line := fmt.Sprintf("the cache takes %s with the data of this run, and its limit is %s (CACHE_LIMIT)",
			record.Bytes(before), record.Bytes(limit))
		if len(gone) > 0 {
			line += ": removed what was not used for longest: " + strings.Join(gone, ", ")
		}
		if total > limit {
			line += fmt.Sprintf("; %s stay: %s are Go's own, the rest is this run's or was used within the hour; "+
				"give a larger CACHE_LIMIT, or make clean-cache when nothing runs", record.Bytes(total), record.Bytes(stays))
		}
		tell(line)
	}
	return errors.Join(failed...)
}

// wipeScratch frees what a finished run needs no more: the databases' data, and unpacked data for loaders.
func (d *driver) wipeScratch() {
	data := filepath.Join(d.Scratch, "data")
	if exists(data) && record.WhyNotOurs(data) == "" {
		if err := record.Wipe(data); err != nil {
			d.note("the data of the last block stay: " + err.Error())
		}
	}
	for _, feed := range matching(d.Scratch, "feed.*") {
		_ = os.Remove(feed)
	}
}

// needs marks the entries of this run as used now. It returns them, and how many bytes its data will take.
func needs(spec record.Spec) (needed map[string]bool, coming int64) {
	needed = map[string]bool{}
	if bin := spec.Builds.TSBSBin; bin != "" { // "" for Go benchmarks
		needed["tsbs/"+filepath.Base(bin)] = true
	}
	if program, err := os.Executable(); err == nil {
		needed["agent/"+filepath.Base(filepath.Dir(program))] = true
	}
	for _, v := range spec.Plan.Variants {
		for _, c := range v.Components {
			needed["variants/"+c.BuildKey] = true
		}
	}
	if plan := spec.Plan; plan.Workload != nil {
		files := plan.Workload.Data
		if plan.Mixed != nil {
			files = slices.Concat(files, plan.Mixed.Data)
		}
		if plan.Workload.Continued != nil {
			files = slices.Concat(files, plan.Workload.Continued.Data)
		}
		if plan.Workload.Alone != nil {
			files = slices.Concat(files, plan.Workload.Alone.Data)
		}
		for _, data := range files {
			needed["workload/"+data.Key] = true
			if made, _ := filepath.Glob(filepath.Join(spec.Cache, "workload", data.Key, "data*.zst.json")); len(made) == 0 {
				coming = spec.Plan.Estimate.DataBytes + spec.Plan.Estimate.QueryBytes
			}
		}
	}
	for name := range needed {
		if info, err := os.Stat(filepath.Join(spec.Cache, name)); err == nil && info.IsDir() {
			_ = os.WriteFile(filepath.Join(spec.Cache, name, usedMark), nil, 0o644)
		}
	}
	return needed, coming
}

// list returns all entries, the least recently used first.
func list(cache string) (entries []entry) {
	for _, kind := range trimmed {
		// Not through a link: others may use what it leads to. Other names are not ours.
		if info, err := os.Lstat(filepath.Join(cache, kind)); err != nil || !info.IsDir() {
			continue
		}
		for _, dir := range matching(filepath.Join(cache, kind), "*") {
			info, err := os.Lstat(dir)
			if err != nil || info.Mode()&os.ModeSymlink != 0 || !entryRE.MatchString(filepath.Base(dir)) {
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

// evict removes an entry, unless it is being built or built from. It renames the entry first: after a kill,
// an entry that is removed in part must not look whole.
func evict(cache, name string) bool {
	kind, key := filepath.Split(name)
	from, away := filepath.Join(cache, name), filepath.Join(cache, kind, ".removed."+key)
	// A build takes the lock of the entry that it makes. Held until the entry is gone.
	var locks []string
	if kind != "workload/" {
		locks = append(locks, filepath.Join(cache, kind, entryRE.FindStringSubmatch(key)[1]+".lock"))
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

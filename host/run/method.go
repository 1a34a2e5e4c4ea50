package run

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tsduel/host/machine"
	"tsduel/host/record"
)

// checkMethod refuses to run a block with another agent, adapter or build than that of the finished blocks, since it
// could not be compared with them.
func (d *driver) checkMethod() error {
	for _, number := range slices.Sorted(maps.Keys(d.blocks)) {
		before, other := d.blocks[number].Method, []string{}
		if before.Agent != d.method.Agent {
			other = append(other, "tsduel-host")
		}
		if before.Adapters != d.method.Adapters {
			other = append(other, "adapters (scripts/targets)")
		}
		for _, name := range slices.Sorted(maps.Keys(d.method.Programs)) {
			if before.Agent != "" && before.Programs[name] != d.method.Programs[name] { // else it has no record of them
				other = append(other, name)
			}
		}
		if len(other) > 0 {
			run := filepath.Base(d.RunDir)
			return record.UserError("block %d was measured with another %s than what is there now, so new blocks cannot be "+
				"compared with it. To go on with what the run began with, while it is in the run and the cache: make %s "+
				"RUN=%s KEPT=1. To start anew: the same command without RUN=", number, strings.Join(other, ", "), d.Plan.Kind, run)
		}
	}
	return nil
}

func (d *driver) methodNow() (record.Method, error) {
	agent, err := os.Executable()
	if err != nil {
		return record.Method{}, err
	}
	programs := map[string]string{} // paths
	for name, build := range d.Builds.Variants {
		programs[name] = build.Binary
		for _, part := range build.Components {
			programs[name+"/"+part.Role] = part.Binary
		}
	}
	tsbs, _ := filepath.Glob(filepath.Join(d.Builds.TSBSBin, "tsbs_*"))
	for _, path := range tsbs {
		programs["tsbs/"+filepath.Base(path)] = path
	}
	adapters := d.adapters()
	paths := slices.Concat([]string{agent}, slices.Collect(maps.Values(programs)), adapters)
	sums, err := machine.Sums(paths)
	if err != nil {
		return record.Method{}, err
	}
	made := record.Method{Agent: sums[agent], Programs: map[string]string{}}
	for name, path := range programs {
		made.Programs[name] = sums[path]
	}
	all := sha256.New()
	for _, path := range adapters {
		name, _ := filepath.Rel(record.Project(d.RunDir), path)
		fmt.Fprintf(all, "%s  %s\n", sums[path], name)
	}
	made.Adapters = fmt.Sprintf("%x", all.Sum(nil))
	return made, nil
}

// adapters returns the files of scripts/targets and of what they share, sorted.
func (h *host) adapters() (files []string) {
	for _, part := range []string{"lib", "targets"} {
		dir := filepath.Join(record.Project(h.RunDir), "scripts", part)
		_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error { // a missing one has none
			if err == nil && entry.Type().IsRegular() {
				files = append(files, path)
			}
			return nil
		})
	}
	return files
}

package run

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"tsduel/host/record"
)

// tidyUp repairs what an interrupted run has left in raw/HOST, and reads the finished blocks.
func (d *driver) tidyUp() error {
	d.removePartials()
	if err := mendEvents(d.raw("events.jsonl"), d.note); err != nil {
		return err
	}
	// The warm-up block gives the same calibration again.
	for _, name := range []string{"calibration.json", "workload.json"} {
		var object map[string]any
		switch err := record.ReadJSON(d.raw(name), &object); {
		case record.IsCutShort(err) || err == nil && object == nil:
			d.note(d.raw(name) + " was cut short (a power cut?): it is made again")
			os.Remove(d.raw(name))
		case err != nil && !os.IsNotExist(err):
			return record.Unreadable(d.raw(name), err)
		}
	}
	if err := readBlocks(d.Raw, d.blocks, d.note); err != nil || len(d.blocks) > 0 {
		return err
	}
	// What was loaded may be that of a run of this name that is gone: no block of ours has seen it.
	data := filepath.Join(d.Scratch, "data")
	if record.WhyNotOurs(data) != "" { // it is said where it is wiped
		return nil
	}
	return record.RemoveTree(filepath.Join(data, "whole"))
}

// readBlocks reads the finished blocks. What cannot be read now, or is another tsduel's, ends the run: a finished block
// is never removed.
func readBlocks(raw string, blocks map[int]*record.Block, note func(string)) error {
	if _, err := os.ReadDir(raw); err != nil {
		return record.Unreadable(raw, err)
	}
	for _, dir := range blockDirs(raw) {
		b, path := &record.Block{}, filepath.Join(dir, "block.json")
		err := record.ReadJSON(path, b)
		_, ofAnother := errors.AsType[*json.UnmarshalTypeError](err)
		switch {
		case os.IsNotExist(err) || record.IsCutShort(err):
			// A block is published when all of it is on the disk, but some disks acknowledge too early.
			aside := dir + ".1.damaged" // no name of a block
			for n := 2; exists(aside); n++ {
				aside = fmt.Sprintf("%s.%d.damaged", dir, n)
			}
			note(fmt.Sprintf("the record of block %s was cut short (a power cut?): it is run again, and what is left of it "+
				"is in %s", filepath.Base(dir), aside))
			if err := os.Rename(dir, aside); err != nil {
				return err
			}
			continue
		case err != nil && !ofAnother:
			return record.Unreadable(path, err)
		case b.Schema != record.BlockSchema:
			return record.UserError("%s has schema %d of a block's record, and this tsduel reads schema %d: go on with the "+
				"tsduel that wrote it, or plan a new run", path, b.Schema, record.BlockSchema)
		case err != nil:
			return record.UserError("%s is not as this tsduel writes it (%v): go on with the tsduel that wrote it, or plan a "+
				"new run", path, err)
		}
		blocks[b.Block] = b
	}
	return nil
}

// removePartials removes blocks that were not published: they are run again from their start.
func (d *driver) removePartials() {
	for _, partial := range matching(d.raw(""), "*.partial") {
		if err := record.RemoveTree(partial); err != nil {
			d.note(err.Error())
		}
	}
}

// mendEvents drops the half lines and zeros of a power cut: the next event would be lost in half a line.
func mendEvents(path string, note func(string)) error {
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) || len(text) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	var whole []byte
	for line := range bytes.Lines(text) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		var object map[string]any
		if json.Unmarshal(line, &object) == nil && object != nil {
			whole = append(append(whole, line...), '\n')
		}
	}
	if bytes.Equal(whole, text) {
		return nil
	}
	if err := record.WriteFile(path, whole); err != nil {
		return err
	}
	// Negative if the last line lacks nothing but its end.
	if dropped := len(text) - len(whole); dropped >= 0 {
		note(fmt.Sprintf("%s was cut off in the middle of a line: %d bytes of it are dropped", path, dropped))
	}
	return nil
}

func blockDirs(raw string) []string { return matching(raw, "[0-9][0-9]*[0-9]") }

// matching returns the paths in a directory whose names match. Unlike in Glob, dir may have an asterisk.
func matching(dir, pattern string) (paths []string) {
	entries, _ := os.ReadDir(dir)
	for _, entry := range entries {
		if ok, _ := filepath.Match(pattern, entry.Name()); ok {
			paths = append(paths, filepath.Join(dir, entry.Name()))
		}
	}
	return paths
}

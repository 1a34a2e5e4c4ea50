package run

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"tsduel/host/record"
)

// tidyUp puts in order what a run that was cut off has left in raw/.
func (d *driver) tidyUp() error {
	d.removePartials()
	if err := mendEvents(d.raw("events.jsonl"), d.note); err != nil {
		return err
	}
	// Made again, the calibration from the warm-up block, which gives the same counts.
	for _, name := range []string{"calibration.json", "workload.json"} {
		if !isWhole(d.raw(name)) {
			d.note(d.raw(name) + " was cut short (a power cut?): it is made again")
			os.Remove(d.raw(name))
		}
	}
	// A block is published only when all of it is on the disk; but disks have been known to lie.
	for _, dir := range blockDirs(d.runDir) {
		b := &record.Block{}
		if err := record.ReadJSON(filepath.Join(dir, "block.json"), b); err != nil || b.Schema == 0 {
			d.note(fmt.Sprintf("block %s has no record that can be read (a power cut?): it is run again", filepath.Base(dir)))
			if err := record.RemoveTree(dir); err != nil {
				return err
			}
			continue
		}
		d.blocks[b.Block] = b
	}
	return nil
}

// mendEvents drops half lines and zeros, which a power cut leaves: half a line would swallow the next event.
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
	// A last line may lack nothing but its end.
	if dropped := len(text) - len(whole); dropped >= 0 {
		note(fmt.Sprintf("%s was cut off in the middle of a line: %d bytes of it are dropped", path, dropped))
	}
	return nil
}

// isWhole says whether a file is not there, or holds one JSON object.
func isWhole(path string) bool {
	var object map[string]any
	err := record.ReadJSON(path, &object)
	return os.IsNotExist(err) || (err == nil && object != nil)
}

// blockDirs are the blocks that are published.
func blockDirs(runDir string) []string {
	return matching(filepath.Join(runDir, "raw"), "[0-9][0-9]*[0-9]")
}

// matching are the entries of a directory whose names match a pattern; the directory's own name may hold anything.
func matching(dir, pattern string) (found []string) {
	entries, _ := os.ReadDir(dir) // none where there is no such directory
	for _, entry := range entries {
		if ok, _ := filepath.Match(pattern, entry.Name()); ok {
			found = append(found, filepath.Join(dir, entry.Name()))
		}
	}
	return found
}

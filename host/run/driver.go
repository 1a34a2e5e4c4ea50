package run

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	"tsduel/host/record"
)

// Kind has the functions of one kind of run. All but Block and Phases may be nil.
type Kind struct {
	Block func(context.Context, record.Spec) (*record.Block, error)
	// Phases is how many a block has, which a view shows.
	Phases    func(*record.Plan, record.BlockRow, *record.Calibration) int
	Calibrate func(plan *record.Plan, warmup string) (*record.Calibration, error) // by the warm-up block, a directory
	Profile   func(context.Context, record.Spec) error                            // after all blocks, once
	Equip     func(facts *record.Facts, wanted record.Pin) error                  // adds what is pinned and counted
}

// Share is what one host does of a run. Each host has its own warm-up block and its own counts.
type Share struct {
	Host string
	Lost []int // blocks of lost hosts: this host runs its own spare blocks in their place
}

type driver struct {
	host
	share    Share
	rows     []record.BlockRow     // of this host
	lost     []record.BlockRow     // the rows of share.Lost
	blocks   map[int]*record.Block // the published ones, by number
	report   *record.NoiseReport
	kind     Kind
	method   record.Method
	failed   int          // number of failed blocks
	stopping bool         // a stop after a block was requested
	where    atomic.Value // a string, " in block N", for a defect
	locks    []*os.File   // nil until this run has the machine and the cache; held to the end
}

// realPath follows the links in a path, so that a run has one name in locks.
func realPath(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

func (h *host) raw(name string) string { return filepath.Join(h.Raw, name) }

func (h *host) note(text string) {
	h.Events.Log("INFO", text)
	fmt.Fprintln(os.Stderr, text)
}

func (h *host) tell(text string) { h.Events.Emit("note", record.Fields{"message": text}) }

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// host is this machine in a run, with what is the same for all blocks.
type host struct{ record.Spec }

// stopFile requests a stop. A file works wherever the blocks run, and a look at it costs nothing.
func stopFile(runDir string) string { return filepath.Join(runDir, "stop-requested") }

func forgetStop(runDir string) { os.Remove(stopFile(runDir)) }

package run

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"tsduel/host/record"
)

// A run is asked to stop: after the block that is running, and when asked again, at once. The request is a file in the run's
// directory, so that it is the same wherever the blocks run, and looking costs nothing.

// Ending what a block has started takes seconds, and writing out a server's data may take a minute.
const stopPatience = 120 * time.Second

func stopFile(runDir string) string { return filepath.Join(runDir, "stop-requested") }

func stopRequested(runDir string) bool {
	_, err := os.Stat(stopFile(runDir))
	return err == nil
}

func forgetStop(runDir string) { os.Remove(stopFile(runDir)) }

// Stop asks the driver of a run to stop, or ends it, and returns what was done: `after block N`, `stopped` or `still there`.
func Stop(runDir string, pid int) (string, error) {
	ticks, running := began(pid)
	partial := matching(filepath.Join(runDir, "raw"), "[0-9][0-9]*[0-9].partial")
	if running && !stopRequested(runDir) && len(partial) > 0 {
		if err := os.WriteFile(stopFile(runDir), nil, 0o644); err != nil {
			return "", err
		}
		block, _ := strconv.Atoi(strings.TrimSuffix(filepath.Base(partial[0]), ".partial"))
		record.NewEvents(runDir, true).Emit("stop-requested", record.Fields{"block": block})
		return fmt.Sprintf("after block %d", block), nil
	}
	// Between blocks nothing is lost by ending it at once.
	_ = syscall.Kill(pid, syscall.SIGTERM)
	for deadline := time.Now().Add(stopPatience); ; time.Sleep(100 * time.Millisecond) {
		if now, there := began(pid); !there || now != ticks {
			return "stopped", nil
		}
		if time.Now().After(deadline) {
			return "still there", nil
		}
	}
}

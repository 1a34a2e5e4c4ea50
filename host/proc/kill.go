package proc

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// EndPatience bounds the wait for a killed process, which may wait for a dead disk. Tests set less.
var EndPatience = 10 * time.Second

// children are those that have not ended: pid -> *Process.
var children sync.Map

// killAll kills the processes of a list, which it reads anew until the list is empty: a killed process may
// leave orphans. It returns how many it has killed, and those that are still there after EndPatience.
func killAll(list func() []int) (killed int, left []int) {
	seen := map[int]bool{}
	for deadline := time.Now().Add(EndPatience); ; time.Sleep(5 * time.Millisecond) {
		left := list()
		for _, pid := range left {
			seen[pid] = true
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		if len(left) == 0 || time.Now().After(deadline) {
			return len(seen), left
		}
	}
}

// collected returns the processes without those that have ended; it collects orphans that are ours now.
func collected(pids []int) []int {
	return slices.DeleteFunc(pids, func(pid int) bool {
		s, err := Stat(pid)
		if _, known := children.Load(pid); err == nil && s.State == "Z" && s.PPID == os.Getpid() && !known {
			_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
			return true
		}
		return err != nil
	})
}

// stuck is the error of the first of these processes, nil if there is none.
func stuck(name string, pids ...int) error {
	if len(pids) == 0 {
		return nil
	}
	state := "?"
	if s, err := Stat(pids[0]); err == nil {
		state, name = s.State, cmp.Or(s.Comm, name)
	}
	after := fmt.Sprintf("process %d (%s) was killed and is still there after %v", pids[0], name, EndPatience)
	if state == "D" {
		return fmt.Errorf("%s, waiting for a disk or the kernel (state D): see dmesg", after)
	}
	return fmt.Errorf("%s (state %s)", after, state)
}

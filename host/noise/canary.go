package noise

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"tsduel/host/proc"
	"tsduel/host/record"
)

const (
	syncs       = 64
	syncedBytes = 32 << 10
)

// Each part takes about half a second on a slow core. Tests do less.
var spins, copiedBytes = 200_000_000, 2 << 30

// Canary times a fixed piece of work of about 1.5 s: a spin on every CPU at once, copies of more memory than
// the last-level cache holds, and small synchronous writes to dir. So a difference between blocks is the
// machine's.
func Canary(dir string) (*record.Canary, error) {
	memory, err := copyMemory()
	if err != nil {
		return nil, fmt.Errorf("the canary's memory copy: %w", err)
	}
	synced, err := writeSynced(filepath.Join(dir, "canary"))
	if err != nil {
		return nil, fmt.Errorf("the canary's writes: %w", err)
	}
	return &record.Canary{CPUS: spinAll(), MemoryS: memory, FsyncS: synced}, nil
}

func since(begin time.Time) float64 { return round(time.Since(begin).Seconds()) }

var kept atomic.Uint64 // without it a compiler could remove the spin

func spinAll() float64 {
	runtime.SetDefaultGOMAXPROCS() // by itself Go sees a second later that we may use all CPUs again
	begin := time.Now()
	var all sync.WaitGroup
	for range proc.Allowed() {
		all.Go(record.Caught(func() {
			x := uint64(88172645463325252)
			for range spins {
				x ^= x << 13
				x ^= x >> 7
				x ^= x << 17
			}
			kept.Add(x)
		}))
	}
	all.Wait()
	return since(begin)
}

func copyMemory() (float64, error) {
	size := max(64<<20, lastLevelCache()*3/4) // source and destination together are 1.5 times the cache
	// Not of Go's heap: the garbage collector could keep it for the whole block.
	const flags = unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_POPULATE
	memory, err := unix.Mmap(-1, 0, 2*size, unix.PROT_READ|unix.PROT_WRITE, flags)
	if err != nil {
		return 0, err
	}
	defer func() { _ = unix.Munmap(memory) }()
	begin := time.Now()
	for left := copiedBytes; left > 0; left -= size {
		copy(memory[size:], memory[:min(size, left)])
	}
	return since(begin), nil
}

// lastLevelCache is the size of the largest cache of CPU 0 in bytes, at most a 16th of the memory.
func lastLevelCache() (largest int) {
	for _, file := range proc.Glob(proc.SysRoot(), "devices/system/cpu/cpu0/cache/index*/size") {
		if kib, err := strconv.Atoi(strings.TrimSuffix(proc.Text(file), "K")); err == nil {
			largest = max(largest, kib<<10)
		}
	}
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		largest = min(largest, int(info.Totalram*uint64(info.Unit)/16))
	}
	return largest
}

func writeSynced(path string) (float64, error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_DSYNC, 0o600)
	if err != nil {
		return 0, err
	}
	defer os.Remove(path)
	defer file.Close()
	block := make([]byte, syncedBytes)
	begin := time.Now()
	for range syncs {
		if _, err := file.Write(block); err != nil {
			return 0, err
		}
	}
	return since(begin), nil
}

package exchange

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Instructions counts the instructions that processes retire, in all present and future threads.
type Instructions struct{ counters map[int]int } // thread -> file descriptor

// countAttempts bounds the attempts to open counters while no thread is born.
const countAttempts = 100

// CountInstructions begins to count. The error says why the kernel does not: most clouds hide the counters.
func CountInstructions(pids ...int) (*Instructions, error) {
	return countThreads(openCounter, pids...)
}

// countThreads opens a counter of each thread, anew for all if a thread was born meanwhile: nobody can tell
// whether one that was counted already is its parent, and so counts it.
func countThreads(open func(tid int) (int, error), pids ...int) (count *Instructions, err error) {
	for range countAttempts {
		count.Close()
		count = &Instructions{map[int]int{}}
		tids, err := threads(pids)
		for _, tid := range tids {
			counter, refused := open(tid)
			if errors.Is(refused, unix.ESRCH) { // this thread has ended
				continue
			}
			if err = refused; err != nil {
				err = fmt.Errorf("this machine counts no instructions: perf_event_open: %w", err)
				break
			}
			count.counters[tid] = counter
		}
		if err != nil {
			count.Close()
			return nil, err
		}
		now, err := threads(pids)
		if err != nil || !slices.ContainsFunc(now, func(tid int) bool { return !slices.Contains(tids, tid) }) {
			break // a process that has ended is found by who asks for its counts
		}
	}
	return count, nil
}

func threads(pids []int) (tids []int, err error) {
	for _, pid := range pids {
		entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		if err != nil {
			return nil, err
		}
		for _, entry := range entries {
			tid, _ := strconv.Atoi(entry.Name())
			tids = append(tids, tid)
		}
	}
	return tids, nil
}

func openCounter(tid int) (int, error) {
	attributes := unix.PerfEventAttr{
		Type: unix.PERF_TYPE_HARDWARE, Config: unix.PERF_COUNT_HW_INSTRUCTIONS,
		Size:        uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Bits:        unix.PerfBitInherit | unix.PerfBitExcludeHv,
		Read_format: unix.PERF_FORMAT_TOTAL_TIME_ENABLED | unix.PERF_FORMAT_TOTAL_TIME_RUNNING,
	}
	counter, err := unix.PerfEventOpen(&attributes, tid, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
		// With perf_event_paranoid 2 the kernel counts a process's own instructions, but not its own work for it.
		attributes.Bits |= unix.PerfBitExcludeKernel
		counter, err = unix.PerfEventOpen(&attributes, tid, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	}
	return counter, err
}

// Read returns the instructions so far, scaled up where the kernel had to share its counters.
func (c *Instructions) Read() (sum int64, err error) {
	if c == nil {
		return 0, nil
	}
	for _, counter := range c.counters {
		var value [24]byte // count, ns enabled, ns running
		if _, err := unix.Read(counter, value[:]); err != nil {
			return 0, fmt.Errorf("reading the counter of instructions: %w", err)
		}
		u64 := binary.NativeEndian.Uint64
		n, enabled, running := u64(value[:]), u64(value[8:]), u64(value[16:])
		if running > 0 && running < enabled {
			n = uint64(float64(n) * float64(enabled) / float64(running))
		}
		sum += int64(n)
	}
	return sum, nil
}

func (c *Instructions) Close() {
	if c != nil {
		for _, counter := range c.counters {
			_ = unix.Close(counter)
		}
	}
}

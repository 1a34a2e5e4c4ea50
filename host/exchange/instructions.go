package exchange

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Instructions counts the instructions that processes retire, in all present and future threads.
type Instructions struct{ counters []int }

// CountInstructions begins to count. The error says why the kernel does not: most clouds hide the counters.
func CountInstructions(pids ...int) (*Instructions, error) {
	count := &Instructions{}
	for _, pid := range pids {
		threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		if err != nil {
			count.Close()
			return nil, err
		}
		for _, thread := range threads {
			tid, _ := strconv.Atoi(thread.Name())
			counter, err := openCounter(tid)
			if errors.Is(err, unix.ESRCH) { // this thread has ended
				continue
			}
			if err != nil {
				count.Close()
				return nil, fmt.Errorf("this machine counts no instructions: perf_event_open: %w", err)
			}
			count.counters = append(count.counters, counter)
		}
	}
	return count, nil
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

// Close stops counting.
func (c *Instructions) Close() {
	if c != nil {
		for _, counter := range c.counters {
			_ = unix.Close(counter)
		}
	}
}

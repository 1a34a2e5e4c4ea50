package servers

import (
	"fmt"

	"tsduel/host/proc"
	"tsduel/host/record"
)

// KernelCounters are what the kernel counts of a server, as counters beside its own. They are bytes and calls of read
// and write, and switches of its threads (docs/work.md).
var KernelCounters = map[string]record.Counter{}

func init() {
	for _, name := range []string{"read_calls", "write_calls", "read_bytes", "written_bytes", "context_switches"} {
		KernelCounters[name] = record.Counter{Name: "tsduel_kernel_" + name}
	}
}

// ofKernel are the lines of an exposition; none for a process that has ended.
func ofKernel(pid int) (lines []byte) {
	counted, _ := proc.Work(pid)
	for name, value := range counted {
		lines = fmt.Appendf(lines, "%s %d\n", KernelCounters[name].Name, value)
	}
	return lines
}

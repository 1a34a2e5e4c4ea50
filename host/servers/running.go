package servers

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"tsduel/host/checks"
	"tsduel/host/proc"
	"tsduel/host/record"
)

// Died is the fault of a server that has ended by itself, or that floods us; nil while all run.
func (all Running) Died() error {
	for _, s := range all {
		if flood := s.flood.Load(); flood != nil {
			return flood
		}
		if !s.Deployed() && s.Process.HasEnded() {
			why := s.variant.given.OutOfMemory()
			if s.Process.LimitKills() > 0 {
				why = fmt.Sprintf("; it needed more than the %d MB of limits.memory_mb", s.variant.given.Plan.Limits.MemoryMb)
			}
			return checks.Faultf("the %s (pid %d) died: %s%s", s.Role, s.Process.Pid, s.LastWords(), why)
		}
	}
	return nil
}

// BlameServer blames a server that has died. After a client fails, it waits up to 1 s for a server to exit.
func (all Running) BlameServer(ctx context.Context, clientCode int) error {
	for _, s := range all {
		if clientCode == 0 || s.Deployed() {
			break
		}
		select {
		case <-s.ended():
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
	return all.Died()
}

// NoAnswer is the fault of servers that do not answer: that one died, else failure.
func (all Running) NoAnswer(ctx context.Context, failure string) error {
	if err := all.BlameServer(ctx, 1); err != nil {
		return err
	}
	if s := all.QueryServer(); !s.Deployed() {
		failure += "; " + s.LastWords()
	}
	return checks.Faultf("%s", failure)
}

func (all Running) AskToSettle(ctx context.Context, mode string) error {
	for _, s := range all {
		patience := record.Seconds(s.variant.given.Plan.Settle.TimeoutS)
		if _, err := s.ask(ctx, patience, "settle", "SETTLE_MODE="+mode); err != nil {
			return err
		}
	}
	return nil
}

// SameProcess checks that the processes that listen are those that were started.
func (all Running) SameProcess() error {
	for _, s := range all {
		pid := s.listener()
		if err := s.variant.Equal("same_process", int64(s.Pid), int64(pid), "the %s was process %d at the start and is %d "+
			"now: it was restarted", s.Role, s.Pid, pid); err != nil {
			return err
		}
	}
	return nil
}

// CPU is by role. A deployment that does not tell its CPU has none.
func (all Running) CPU() (Usage, error) {
	by := Usage{}
	for _, s := range all {
		if s.Deployed() {
			c, err := s.says()
			if err != nil {
				return nil, err
			}
			if c.CPU >= 0 {
				by[s.Role] = int64(c.CPU)
			}
			continue
		}
		used, err := proc.CPU(s.Pid)
		if err != nil {
			// A process that has ended has no clock.
			return nil, cmp.Or(all.BlameServer(context.Background(), 1), err)
		}
		by[s.Role] = int64(used)
	}
	return by, nil
}

// Kernel adds up what the kernel has counted of the servers; rss is the memory of each now. -1 is unknown, as of a
// server that has ended, and so is a sum with it.
func (all Running) Kernel() (sum proc.Counters, rss Usage) {
	rss = Usage{}
	for _, s := range all {
		c, err := s.Kernel()
		if err != nil {
			c.RSS, c.PeakRSS, c.StorageRead, c.StorageWritten = -1, -1, -1, -1
		}
		sum.CPU, sum.PeakRSS = sum.CPU+c.CPU, proc.Add(sum.PeakRSS, c.PeakRSS)
		sum.StorageRead = proc.Add(sum.StorageRead, c.StorageRead)
		sum.StorageWritten = proc.Add(sum.StorageWritten, c.StorageWritten)
		sum.RSS, rss[s.Role] = proc.Add(sum.RSS, c.RSS), c.RSS
	}
	return sum, rss
}

// Spent is what servers that have ended used in all, with their children.
func (all Running) Spent() Usage {
	by := Usage{}
	for _, s := range all {
		exit := s.Process.Exit()
		by[s.Role] = int64(exit.User + exit.System)
	}
	return by
}

// Usage is what each component of a variant has used, by role: ns of CPU, or bytes.
type Usage map[string]int64

func (u Usage) Sum() (sum int64) {
	for _, used := range u {
		sum += used
	}
	return sum
}

func (u Usage) Since(before Usage) Usage {
	grown := Usage{}
	for role, used := range u {
		grown[role] = used - before[role]
	}
	return grown
}

// KernelCounters are what the kernel counts of a server, as counters beside its own. They are bytes and calls of read
// and write, and switches of its threads (docs/work.md).
var KernelCounters = map[string]record.Counter{}

func init() {
	for _, name := range []string{"read_calls", "write_calls", "read_bytes", "written_bytes", "context_switches",
		"throttled_us"} {
		KernelCounters[name] = record.Counter{Name: "tsduel_kernel_" + name}
	}
}

// ofKernel are the lines of an exposition; none for a process that has ended.
func ofKernel(s *Server) (lines []byte) {
	counted, _ := proc.Work(s.Pid)
	if held, limited := s.Process.Throttled(); limited {
		lines = fmt.Appendf(lines, "%s %d\n", KernelCounters["throttled_us"].Name, held.Microseconds())
	}
	for name, value := range counted {
		lines = fmt.Appendf(lines, "%s %d\n", KernelCounters[name].Name, value)
	}
	return lines
}

func (s *Server) Kernel() (proc.Counters, error) {
	if s.Deployed() {
		return s.says()
	}
	return proc.Read(s.Pid)
}

package servers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tsduel/host/machine"
	"tsduel/host/record"
)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// Who asks for the CPU of a server that has just ended learns that it died, and no error of ours.
func TestCPUOfAServerThatHasDied(t *testing.T) {
	log := filepath.Join(t.TempDir(), "server.log")
	process := must(machine.Start(machine.Command{Argv: []string{"-c", "echo no space left"}, Log: log}))
	<-process.Ended()
	v := &Variant{given: &Given{OutOfMemory: func() string { return "" }}}
	s := &Server{variant: v, Role: "server", Process: process, Pid: process.Pid, Log: log}
	if _, err := (Running{s}).CPU(); err == nil || !strings.Contains(err.Error(), ") died: no space left") {
		t.Error(err)
	}
}

// The memory of a variant is not known if that of one of its components is not: a sum over the others is no small one.
func TestMemoryOfAServerThatHasDied(t *testing.T) {
	both := Running{{Role: "vmauth", Pid: 1 << 30}, {Role: "server", Pid: os.Getpid()}}
	if sum, rss := both.Kernel(); sum.RSS != -1 || sum.PeakRSS != -1 || rss["vmauth"] != -1 || rss["server"] <= 0 {
		t.Errorf("%+v %v", sum, rss)
	}
}

// No port is given twice, even if a component listens on its further ports late.
func TestPortsAreGivenOnce(t *testing.T) {
	l := NewLayout("", &record.Plan{Host: record.HostSettings{Port: 21000}})
	taken := l.TakeSeat()
	first := &Server{Role: "vmstorage", address: "127.0.0.1", ports: map[string]int{}}
	first.port = must(l.FreePort(taken))
	first.ports["vm-insert"] = must(l.FreePort(taken))
	if next := must(l.FreePort(l.TakeSeat())); next == first.port || next == first.ports["vm-insert"] ||
		first.port == first.ports["vm-insert"] {
		t.Error(first, next)
	}
	if at := strings.Join(first.addresses(), " "); !strings.HasPrefix(at, "DB_AT_VMSTORAGE=127.0.0.1:") ||
		!strings.Contains(at, " DB_AT_VMSTORAGE_VM_INSERT=127.0.0.1:") {
		t.Error(at)
	}
}

// The numbers of the variants are drawn for a run, and the same in all its blocks.
func TestPlacesOfDataAreDrawnForARun(t *testing.T) {
	drawn := map[string]bool{}
	for seed := range int64(20) {
		l := NewLayout("", &record.Plan{Design: record.Design{Seed: seed},
			Variants: []record.Variant{{Name: "baseline"}, {Name: "candidate"}}})
		base, other := l.number("baseline"), l.number("candidate")
		if base == other || base != l.number("baseline") {
			t.Error(base, other)
		}
		drawn[base+other] = true
	}
	if !drawn["0102"] || !drawn["0201"] {
		t.Error(drawn)
	}
}

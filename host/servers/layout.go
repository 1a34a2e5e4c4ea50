package servers

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"

	"tsduel/host/machine"
	"tsduel/host/record"
)

// Layout says where the programs, data and files of a block lie. No path names a variant.
type Layout struct {
	Scratch string
	plan    *record.Plan
	seats   map[int]*seat // those that are taken
}

// NewLayout is that of a block in which nothing runs.
func NewLayout(scratch string, plan *record.Plan) *Layout {
	return &Layout{Scratch: scratch, plan: plan, seats: map[int]*seat{}}
}

// seat is where the programs of a variant lie (places/SEAT/COMPONENT/program), with their ports.
type seat struct {
	number int
	dir    string
	ports  map[int]bool
}

// TakeSeat takes the first free seat. Files stay in a vacated seat, so that a full disk still looks full.
func (l *Layout) TakeSeat() *seat {
	s := &seat{number: 1, ports: map[int]bool{}}
	for l.seats[s.number] != nil {
		s.number++
	}
	s.dir = filepath.Join(l.PlacesDir(), twoDigits(s.number))
	l.seats[s.number] = s
	return s
}

// FreePort is the first port from host.port on that is free and that no seat has: some servers listen late.
func (l *Layout) FreePort(s *seat) (port int, err error) {
	given := map[int]bool{}
	for _, taken := range l.seats {
		maps.Copy(given, taken.ports)
	}
	port, err = machine.FreePort(l.plan.Host.Port, given)
	s.ports[port] = true
	return port, err
}

func twoDigits(n int) string { return fmt.Sprintf("%02d", n) }

func (l *Layout) PlacesDir() string { return filepath.Join(l.Scratch, "places") }

// EmptyDir is where clients run, since TSBS's commands read ./config.* as defaults.
func (l *Layout) EmptyDir() string { return filepath.Join(l.Scratch, "empty") }

// LoadedMark is a directory that exists while the data of this run are complete. It is wiped with them.
func (l *Layout) LoadedMark() string { return filepath.Join(l.Scratch, "data", "whole", l.plan.Run) }

// DataDir is a variant's directory of a kind: loaded, copies, exchanged or logs.
func (l *Layout) DataDir(kind, variant string) string {
	return filepath.Join(l.Scratch, "data", kind, l.number(variant))
}

// number stands for a variant in the paths of a run. It is drawn, independent of the plan's order.
func (l *Layout) number(variant string) string {
	drawn := rand.New(rand.NewPCG(uint64(l.plan.Design.Seed), 0)).Perm(len(l.plan.Variants))
	at := slices.IndexFunc(l.plan.Variants, func(v record.Variant) bool { return v.Name == variant })
	return twoDigits(1 + drawn[at])
}

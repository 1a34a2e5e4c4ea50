// Package block runs one block: each variant alone from an empty disk to a stopped server (solo), then all of them
// resident (duel), then each alone again at fixed rates (mixed, capacity); or all of them on what the baseline has loaded (upgrade).
package block

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"tsduel/host/machine"
	"tsduel/host/noise"
	"tsduel/host/proc"
	"tsduel/host/record"
	"tsduel/host/scrape"
)

// frame is a block that is going on.
type frame struct {
	record.Spec
	block    *record.Block
	variants map[string]*variant
	targets  string                     // scripts/targets
	hosts    map[string]machine.Machine // that components run on, by name; this one has none
	profiler *profiler
	borrowed []*machine.There
	clients  []*machine.There // of those, the clients beside this one
	oomKills float64          // of all machines so far
}

// variant is one of the versions, as it lies and runs here. Its phase is the one that a fault is put down to.
type variant struct {
	record.Variant
	target    record.Target
	dir       string // its files of this block
	data      string // its databases, one directory a role
	servers   []*server
	silent    *server // did not answer with its counters
	snapshots *scrape.Snapshots
	drained   func() // told when what a load left to do is done
	part      string
	phase     record.Phase
	failed    bool
}

// server is one component that runs. Pid is that of who listens, which is not the one that was started where a wrapper
// starts it. Queries and writes are where clients reach it; empty where they do not.
type server struct {
	role, log, logThere      string // logThere is that on its own machine, log the copy of it here
	queries, writes, metrics string
	host, address            string
	port, pid                int
	ports                    map[string]int // more of them, by name
	on                       machine.Machine
	process                  *machine.Process
	counters                 func(context.Context) ([]byte, error)
}

// fault is a sentence on why a variant has no result in this block. Any other error is not the block's own doing.
type fault struct {
	message string
	unready bool // it has not come up
}

func (f *fault) Error() string { return f.message }

func faultf(format string, args ...any) error { return &fault{message: fmt.Sprintf(format, args...)} }

// Run runs a block into Spec.Dir and returns its record, of a failed one too. An error is what is not the block's own
// failing: ctx has ended, a disk is full, a mistake of ours.
func Run(ctx context.Context, spec record.Spec) (*record.Block, error) {
	return runBlock(ctx, spec, nil)
}

func runBlock(ctx context.Context, spec record.Spec, p *profiler) (*record.Block, error) {
	f := &frame{Spec: spec, profiler: p, block: record.NewBlock(spec.Row), variants: map[string]*variant{}}
	var err error
	// On another machine each run has a copy of the project of its own.
	project := cmp.Or(os.Getenv("TSDUEL_PROJECT"), filepath.Join(spec.RunDir, "project"))
	if f.targets, err = filepath.Abs(filepath.Join(project, "scripts", "targets")); err != nil {
		return nil, err
	}
	given := ctx
	ctx, err = f.borrow(ctx)
	defer f.hangUp()
	if err != nil {
		return nil, err
	}
	f.oomKills = f.killedForMemory()
	end, looked := noise.Watch(f.block), f.look()
	err = f.run(ctx)
	if ended := proc.EndAll(); err == nil {
		err = ended
	}
	if given.Err() != nil {
		return nil, given.Err()
	}
	if ctx.Err() != nil { // a machine was lost: no variant's doing
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	end()
	_, f.block.Hosts = f.since(looked)
	for _, p := range f.block.Phases {
		if slices.Contains([]string{"load", "query", "exchange", "before", "ingest", "after", "mixed", "rung"}, p.Phase) {
			f.block.TimedS += p.End - p.Begin
		}
	}
	f.block.Finish(f.Plan.Variants)
	f.loadRatios()
	return f.block, nil
}

// borrow reaches the machines that run components; ctx ends when one of them is lost.
func (f *frame) borrow(ctx context.Context) (context.Context, error) {
	address := "127.0.0.1"
	if f.Lent != nil {
		address = f.Lent.Hosts[f.Host.Host]
	}
	for _, host := range slices.Sorted(maps.Keys(f.Plan.Topology)) {
		if host == f.Host.Host {
			continue
		}
		var there *machine.There
		var err error
		if there, ctx, err = machine.Borrow(ctx, f.Lent, host); err != nil {
			return ctx, err
		}
		f.borrowed = append(f.borrowed, there)
		if slices.Contains(f.Plan.Topology[host], "client") {
			f.clients = append(f.clients, there)
		}
	}
	f.hosts = map[string]machine.Machine{"": machine.NewHere(ctx, address)}
	for _, there := range f.borrowed {
		f.hosts[there.Host] = there
	}
	return ctx, nil
}

func (f *frame) hangUp() {
	for _, there := range f.borrowed {
		there.HangUp()
	}
}

// on is the machine of a component, by name as well; this one has none.
func (f *frame) on(role string) (machine.Machine, string) {
	host := f.Plan.Topology.On(role)
	if host == f.Host.Host {
		host = ""
	}
	return f.hosts[host], host
}

// everywhere has each machine that has a component of a variant do something, this one first.
func (f *frame) everywhere(v *variant, do func(machine.Machine) error) (err error) {
	hosts := map[string]bool{}
	for _, c := range v.Components {
		_, host := f.on(c.Role)
		hosts[host] = true
	}
	for _, host := range slices.Sorted(maps.Keys(hosts)) {
		err = errors.Join(err, do(f.hosts[host]))
	}
	return err
}

func (f *frame) killedForMemory() (sum float64) {
	for _, m := range f.hosts {
		var count float64
		_ = m.OOMKills(machine.None{}, &count)
		sum += count
	}
	return sum
}

// looked are edges of the machines' own counters, by host, and of the servers that they have then.
type looked struct {
	edges map[string]int
	pids  map[string][]int
}

func (f *frame) look(servers ...*server) looked {
	l := looked{map[string]int{}, map[string][]int{}}
	for _, s := range servers {
		l.pids[s.host] = append(l.pids[s.host], s.pid)
	}
	for host, m := range f.hosts {
		var edge int
		if m.Look(l.pids[host], &edge) == nil {
			l.edges[host] = edge
		}
	}
	return l
}

// since is what has happened here since then, and on the other machines.
func (f *frame) since(then looked) (here *record.Noise, others map[string]*record.Noise) {
	for host, edge := range then.edges {
		n := &record.Noise{}
		switch err := f.hosts[host].Since(machine.Span{Edge: edge, Pids: then.pids[host]}, n); {
		case err != nil: // it is lost, as who asks it next will find
		case host == "":
			here = n
		default:
			if others == nil {
				others = map[string]*record.Noise{}
			}
			others[host] = n
		}
	}
	return here, others
}

// loadRatios are of what each variant alone loaded, for the forecast; those of an upgrade of what came on top.
func (f *frame) loadRatios() {
	alive := f.alive()
	for metric, of := range map[string][2]string{"load_rate": {record.Solo, "load"}, "upgrade_ingest_rate": {record.InUpgrade, "ingest"}} {
		rates := map[string]float64{}
		for _, p := range f.block.Phases {
			if p.Part == of[0] && p.Phase == of[1] {
				rates[p.Variant] = float64(p.Count) / (p.End - p.Begin)
			}
		}
		for _, v := range alive[min(1, len(alive)):] {
			f.block.Ratio(v.Name, metric, math.Log(rates[v.Name]/rates[alive[0].Name]))
		}
	}
	if u := f.block.Upgrade; u != nil {
		for _, v := range alive[min(1, len(alive)):] {
			cpu := float64(u.Ingest[v.Name].CPUNS["drained"]) / float64(u.Ingest[alive[0].Name].CPUNS["drained"])
			f.block.Ratio(v.Name, "upgrade_ingest_cpu_seconds", math.Log(cpu))
		}
	}
}

func (f *frame) run(ctx context.Context) error {
	for _, v := range f.Plan.Variants {
		f.variants[v.Name] = &variant{Variant: v, target: f.Plan.Targets[v.Target], dir: filepath.Join(f.Dir, v.Name), data: filepath.Join(f.Scratch, "data", "loaded", v.Name)}
	}
	loaded, err := f.prepare()
	if err != nil {
		return err
	}
	for _, name := range f.Row.Order {
		if f.Plan.Design.StartFrom == "baseline" && name != f.Plan.Variants[0].Name {
			continue
		}
		if err := f.solo(ctx, f.variants[name], loaded); err != nil {
			if err = f.blame(f.variants[name], err); err != nil {
				return err
			}
			if len(f.alive()) < 2 {
				return nil
			}
		}
	}
	if err := f.markLoaded(loaded); err != nil {
		return err
	}
	for _, part := range parts {
		if part.planned(f.Plan) && len(f.alive()) > 1 && f.block.Void == "" {
			if err := part.run(ctx, f); err != nil {
				return err
			}
		}
	}
	return nil
}

// parts come behind the solo parts, in this order.
var parts = []struct {
	planned func(*record.Plan) bool
	run     func(context.Context, *frame) error
}{
	{func(p *record.Plan) bool { return p.Duel.Enabled && p.Design.StartFrom != "baseline" }, runDuel},
	{func(p *record.Plan) bool { return p.Design.StartFrom == "baseline" }, runUpgrade},
	{func(p *record.Plan) bool { return p.Mixed != nil }, atRates(record.InMixed, (*frame).mixed)},
	{func(p *record.Plan) bool { return p.Capacity != nil }, atRates(record.InCapacity, (*frame).ladder)},
}

// alive are the variants that can still be compared, in the plan's order: none without the baseline.
func (f *frame) alive() (alive []*variant) {
	for i, v := range f.Plan.Variants {
		if !f.variants[v.Name].failed {
			alive = append(alive, f.variants[v.Name])
		} else if i == 0 {
			return nil
		}
	}
	return alive
}

// all does something with every variant that is left, in the block's order: who is read and started first is drawn, as who
// is loaded first. A fault is that variant's own.
func (f *frame) all(do func(*variant) error) error {
	alive := f.alive()
	for _, name := range f.Row.Order {
		if v := f.variants[name]; slices.Contains(alive, v) {
			if err := do(v); err != nil {
				if err := f.blame(v, err); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// blame records a variant's fault and ends its servers; what is no fault is given back.
func (f *frame) blame(v *variant, err error) error {
	var broken *fault
	if !errors.As(err, &broken) {
		return err
	}
	for _, there := range f.borrowed {
		if err := there.Reach(); err != nil { // what has failed is the way to it
			return err
		}
	}
	v.failed = true
	f.block.Fail(record.Failure{Variant: v.Name, Part: v.part, Phase: v.phase.Phase, QueryType: v.phase.QueryType, Message: broken.message})
	return v.close(true)
}

// close ends a variant's servers (at once, what they stored is not needed any more) and its snapshots.
func (v *variant) close(kill bool) (err error) {
	for _, s := range v.servers {
		if kill && err == nil {
			err = s.process.Kill()
		}
		err = errors.Join(err, s.bringLog())
	}
	v.servers = nil
	if v.snapshots != nil {
		err = errors.Join(err, v.snapshots.Close())
		v.snapshots = nil
	}
	return err
}

// check records a check; one that fails is a fault.
func (f *frame) check(v *variant, c record.Check) error {
	c.Variant = v.Name
	if c.OK {
		c.Message = ""
	}
	f.block.Checks = append(f.block.Checks, c)
	if !c.OK {
		return faultf("%s", c.Message)
	}
	return nil
}

// equal is a check for which only one number is right; wrong says what it means if it is not that.
func (f *frame) equal(v *variant, check string, expected, actual float64, wrong string) error {
	return f.check(v, record.Check{Check: check, Phase: v.phase.Phase, QueryType: v.phase.QueryType, Expected: expected, Actual: actual, OK: expected == actual, Message: wrong})
}

// span is a phase that is going on.
type span struct {
	record.Phase
	frame *frame
	of    *variant // nil in the duel
	from  *looked
}

// begin tells of a phase; v is nil where it is all variants' together.
func (f *frame) begin(v *variant, part, phase, queryType string) *span {
	s := &span{frame: f, of: v, Phase: record.Phase{Part: part, Phase: phase, QueryType: queryType, Attempts: 1}}
	if v != nil {
		s.Variant = v.Name
		v.part, v.phase = part, s.Phase
	}
	f.Events.PhaseStart(f.block.Block, s.Phase)
	s.Begin = record.Epoch(time.Now())
	return s
}

// listen takes an edge of the host's counters just before what is timed begins; the other one is taken by over.
func (s *span) listen(servers ...*server) {
	l := s.frame.look(servers...)
	s.from = &l
	s.Begin = record.Epoch(time.Now())
}

// over is the moment when what is timed has ended.
func (s *span) over() {
	s.End = record.Epoch(time.Now())
	if s.from != nil {
		s.Noise, s.Hosts = s.frame.since(*s.from)
	}
}

func listening(servers []*server) (pids []int) {
	for _, s := range servers {
		pids = append(pids, s.pid)
	}
	return pids
}

// close records the phase, and tells of it.
func (s *span) close(exit int, count int64) {
	if s.End == 0 {
		s.End = record.Epoch(time.Now())
	}
	s.Exit, s.Count = exit, count
	s.frame.block.Phases = append(s.frame.block.Phases, s.Phase)
	s.frame.Events.PhaseEnd(s.frame.block.Block, s.Phase)
}

// usage is what each component of a variant has used, by role: ns of CPU, or bytes.
type usage map[string]int64

// cpu is what the servers of a variant have used so far.
func (v *variant) cpu() (time.Duration, error) {
	by, err := v.cpuByRole()
	return time.Duration(by.sum()), err
}

func (v *variant) cpuByRole() (usage, error) {
	by := usage{}
	for _, s := range v.servers {
		var used time.Duration
		if err := s.on.CPU(s.pid, &used); err != nil {
			return nil, err
		}
		by[s.role] = int64(used)
	}
	return by, nil
}

// storageWritten is what the servers of a variant have written to storage so far, in bytes.
func (v *variant) storageWritten() (sum int64) {
	for _, s := range v.servers {
		if c, err := s.kernel(); err == nil {
			sum += int64(c.StorageWritten)
		}
	}
	return sum
}

// kernel is what the kernel has counted of the process so far.
func (s *server) kernel() (c proc.Counters, err error) {
	err = s.on.Counters(s.pid, &c)
	return c, err
}

func (u usage) sum() (all int64) {
	for _, one := range u {
		all += one
	}
	return all
}

// since is what was used after an earlier reading.
func (u usage) since(before usage) usage {
	grown := usage{}
	for role, ns := range u {
		grown[role] = ns - before[role]
	}
	return grown
}

// byRole keeps a figure by role, in a run with a variant of several components.
func (f *frame) byRole(in *record.ByRole, of string, by map[string]int64) {
	if !slices.ContainsFunc(f.Plan.Variants, func(v record.Variant) bool { return len(v.Components) > 1 }) {
		return
	}
	if *in == nil {
		*in = record.ByRole{}
	}
	(*in)[of] = by
}

// freePort is the first on its machine's address, from host.port on, that nobody listens on and that no server of ours was given:
// those that run, and one that is about to be started.
func (f *frame) freePort(next *server) (port int, err error) {
	given := map[int]bool{}
	take := func(s *server) {
		given[s.port] = true
		for _, port := range s.ports {
			given[port] = true
		}
	}
	for _, v := range f.variants {
		for _, s := range v.servers {
			take(s)
		}
	}
	take(next)
	err = next.on.FreePort(machine.Ports{From: f.Plan.Host.Port, Given: given}, &port)
	return port, err
}

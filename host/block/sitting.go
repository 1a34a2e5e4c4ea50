package block

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"time"

	"tsduel/host/exchange"
	"tsduel/host/proc"
	"tsduel/host/record"
	"tsduel/host/scrape"
	"tsduel/host/servers"
)

// processes are all those of a variant, which stand still while another one is asked (exchange.Turn).
type processes []*proc.Process

func (all processes) Hold() error {
	for _, p := range all {
		if err := p.Hold(); err != nil {
			return err
		}
	}
	return nil
}

func (all processes) Release() (err error) {
	for _, p := range all {
		err = errors.Join(err, p.Release())
	}
	return err
}

// duel is the part of a block in which all variants are resident and every operation goes to each in turn. It
// keeps what its sittings find.
type duel struct {
	in          *frame
	record      *record.DuelRecord
	when        string   // before or after, in an upgrade
	types       []string // of queries, in this order
	sent        map[string]int
	exchanges   *table
	differences []record.Difference
	uncounted   map[string]bool // the variants of which a sitting's counters were not read
	// of /metrics, by variant, at the end of the last load
	loadedBodies map[string][]byte
}

func (d *duel) part() string {
	if d.when == "" {
		return record.InDuel
	}
	return record.InUpgrade
}

func (d *duel) path(name string) string { return filepath.Join(d.in.Dir, d.part(), d.when, name) }

// phase is the full name of a phase: an upgrade has two duels.
func (d *duel) phase(name string) string {
	switch {
	case d.when == "":
		return name
	case name == "exchange":
		return d.when
	}
	return d.when + "-" + name
}

// sittings is how many there are: as planned, or one in a warm-up block and in a profile.
func (d *duel) sittings(planned int) int {
	if d.in.Row.Kind == "warmup" || d.in.profiler != nil {
		return 1
	}
	return max(1, planned)
}

// sitting is all variants started afresh, until they are stopped.
type sitting struct {
	*duel
	index        int                        // from 0
	loading      bool                       // it loads in turn
	bodies       map[string][]byte          // of /metrics, as last read
	countersRead time.Time                  // when bodies were read
	readings     int                        // of the counters, so far
	asked        bool                       // since then
	marks        map[string][]servers.Usage // CPU at the edges of the last phase
	turns        map[string]processes       // of the variants that stand still while others are asked
	wrong        faults
}

func (d *duel) sitting(index int) *sitting {
	return &sitting{duel: d, index: index, bodies: map[string][]byte{}, marks: map[string][]servers.Usage{},
		wrong: faults{}}
}

// turned is the order of a coin, or of loading if no coin was drawn (in a profile), reversed if mirrored.
func (s *sitting) turned(coin []string, mirrored bool) []string {
	order := slices.Clone(coin)
	if len(order) == 0 {
		order = slices.Clone(s.in.Row.Order)
	}
	if mirrored {
		slices.Reverse(order)
	}
	return order
}

// readOrder is the order of reading counters, clocks and files: B C B C.
func (s *sitting) readOrder() []string { return s.turned(s.in.Row.Read, s.index%2 == 1) }

// askOrder is the order of asking the query type at a place in this sitting.
func (s *sitting) askOrder(place int) []string { return s.turned(s.in.Row.Ask, (place+s.index)%2 == 1) }

// all does something with each variant that is alive, in the order of reading.
func (s *sitting) all(do func(*variant) error) error { return s.in.inOrder(s.readOrder(), do) }

func (s *sitting) enter(phase, queryType string) *span {
	phase = s.phase(phase)
	for _, v := range s.in.alive() {
		v.Enter(s.part(), phase, queryType)
	}
	return s.in.begin("", s.part(), phase, queryType)
}

// timed begins a phase over which the machine's counters are read, too.
func (s *sitting) timed(phase, queryType string) *span {
	var running servers.Running
	for _, v := range s.in.alive() {
		running = append(running, v.Running...)
	}
	p := s.enter(phase, queryType)
	p.listen(running...)
	return p
}

// readCounters reads the /metrics of all variants, not so soon that a server would repeat its last answer.
func (s *sitting) readCounters(ctx context.Context) error {
	if err := record.Sleep(ctx, time.Until(s.countersRead.Add(scrape.CacheAge))); err != nil {
		return err
	}
	err := s.all(func(v *variant) error {
		s.bodies[v.Name] = v.Metrics(ctx)
		return nil
	})
	s.countersRead, s.asked, s.readings = time.Now(), false, s.readings+1
	return cmp.Or(ctx.Err(), err)
}

func (s *sitting) keepRSS() error {
	for _, v := range s.in.alive() {
		sum, rss := v.Kernel()
		if sum.PeakRSS >= 0 {
			s.record.RSSPeakBytes[v.Name] = sum.PeakRSS
		}
		if sum.RSS >= 0 {
			s.record.RSSBytes[v.Name] = sum.RSS
			s.in.byRole(&s.record.RSSByRole, v.Name, rss)
		}
	}
	return nil
}

func (s *sitting) idle(ctx context.Context, when string) error {
	phase := s.timed("idle", when)
	used, seconds, err := s.cpuUsed(ctx, record.Seconds(s.in.Plan.Duel.IdleS))
	phase.close(0, 0)
	if err == nil {
		s.record.Idle = append(s.record.Idle, record.DuelIdle{When: when, Seconds: seconds, CPUNS: used})
	}
	return err
}

// countsTogether says to read counters once for all types: some databases repeat an answer for a second.
func (s *sitting) countsTogether() bool { return s.in.Plan.Duel.Counters == "duel" }

// countTogether keeps the growth of the counters over all query types.
func (s *sitting) countTogether(ctx context.Context, before map[string][]byte,
	objects map[string]map[string]int64) error {
	if s.asked { // else the last type's end was read
		if err := s.readCounters(ctx); err != nil {
			return err
		}
	}
	return s.all(func(v *variant) error {
		if before[v.Name] == nil || s.bodies[v.Name] == nil {
			s.uncounted[v.Name] = true
		}
		if s.uncounted[v.Name] { // the operations of all sittings would be too many for what is known
			s.record.Counters[v.Name] = map[string]float64{}
			delete(s.record.ObjectsByRole, v.Name)
			return v.rowsRead("", before[v.Name], s.bodies[v.Name])
		}
		sum := grown(v.Module, before[v.Name], s.bodies[v.Name])
		for name, earlier := range s.record.Counters[v.Name] {
			sum[name] += earlier
		}
		s.record.Counters[v.Name] = sum
		byRole := map[string]int64{}
		for role, now := range v.Objects {
			if earlier, has := objects[v.Name][role]; has {
				byRole[role] = now - earlier + s.record.ObjectsByRole[v.Name][role]
			}
		}
		s.in.byRole(&s.record.ObjectsByRole, v.Name, byRole)
		return v.rowsRead("", before[v.Name], s.bodies[v.Name])
	})
}

func indices(sides []exchange.Side, order []string) (indices []int) {
	for _, name := range order {
		if at := slices.IndexFunc(sides, func(side exchange.Side) bool { return side.Name == name }); at >= 0 {
			indices = append(indices, at)
		}
	}
	return indices
}

// sides are the variants that are alive, each with its operations; open is called once for each target.
func (s *sitting) sides(open func(*record.Target) (exchange.Source, exchange.Reading, error)) (sides []exchange.Side,
	err error) {
	opened := map[string]exchange.Side{} // by target
	for _, v := range s.in.alive() {
		side, ok := opened[v.Target]
		if !ok {
			if side.Source, side.Reading, err = open(&v.Module); err != nil {
				closeAll(sides)
				return nil, err
			}
			opened[v.Target] = side
		}
		side.Name, side.URL = v.Name, v.URL()
		if side.Reading.Answers == "" {
			side.URL = v.WriteURL()
		}
		side.Used = func() (exchange.Used, error) {
			cpu, err := v.CPU()
			s.marks[v.Name] = append(s.marks[v.Name], cpu)
			instructions, failed := v.Instructions.Read()
			return exchange.Used{CPU: cpu.Sum(), Instructions: instructions}, errors.Join(err, failed)
		}
		// A profile is read while its server is asked: all run.
		if own, held := s.turns[v.Name]; held && s.in.profiler == nil {
			side.Turn = own
		}
		sides = append(sides, side)
	}
	return sides, nil
}

func closeAll(sides []exchange.Side) {
	for _, side := range sides {
		side.Source.Close() // sides of one target share a source; a second close does nothing
	}
}

// send exchanges the operations of a job, which belong to the phase of exchanges.
func (s *sitting) send(ctx context.Context, job exchange.Job) (*exchange.Result, error) {
	defer closeAll(job.Sides)
	clear(s.marks)
	s.asked = true
	job.Read = indices(job.Sides, s.readOrder())
	job.Progress = func(done int, elapsed time.Duration) {
		total := job.Until.Count
		if total == 0 {
			total = int(float64(done) * math.Max(1, job.Until.Lasts.Seconds()/elapsed.Seconds()))
		}
		s.in.Events.Progress(s.phase("exchange"), int64(done), int64(total))
	}
	return exchange.Run(ctx, job)
}

// judge makes the checks of a phase for each variant that took part; i is its side.
func (s *sitting) judge(ctx context.Context, sides []exchange.Side, result *exchange.Result,
	checks func(v *variant, i int) error) error {
	return s.all(func(v *variant) error {
		i := indices(sides, []string{v.Name})[0]
		if failure := result.Sides[i].Failure; failure != "" {
			return s.wrong.keepRefused(v, failure, v.NoAnswer(ctx, failure))
		}
		return checks(v, i)
	})
}

// cpuUsed is the CPU time in ns that each variant uses while no client asks.
func (s *sitting) cpuUsed(ctx context.Context, length time.Duration) (used map[string]int64, seconds float64,
	err error) {
	used = map[string]int64{}
	known := map[string]int{}
	read := func(sign int64) error {
		return s.all(func(v *variant) error {
			cpu, err := v.CPU()
			if err != nil {
				return v.NoAnswer(ctx, err.Error())
			}
			if len(cpu) == len(v.Running) { // else it is not known
				used[v.Name] += sign * cpu.Sum()
				known[v.Name]++
			}
			return nil
		})
	}
	if err := read(-1); err != nil {
		return nil, 0, err
	}
	begin := time.Now() // the counters of a deployment are read a second after others
	if err := record.Sleep(ctx, length); err != nil {
		return nil, 0, err
	}
	err = read(1)
	seconds = time.Since(begin).Seconds()
	maps.DeleteFunc(used, func(name string, _ int64) bool { return known[name] < 2 })
	return used, seconds, err
}

package block

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"tsduel/host/exchange"
	"tsduel/host/machine"
	"tsduel/host/record"
	"tsduel/host/scrape"
)

// askAgain is after how long counters may be read again; tests wait less.
var askAgain = scrape.CacheAge

// next begins a sitting, in which no variant is started yet.
func (d *duel) next(index int, loading bool) {
	d.index, d.loading, d.countersRead = index, loading, time.Time{}
	d.instructions, d.bodies = map[string]*exchange.Instructions{}, map[string][]byte{}
	d.marks = map[string][]usage{}
}

// turned is the order of a coin, or of loading if no coin was drawn (in a profile), reversed if mirrored.
func (d *duel) turned(coin []string, mirrored bool) []string {
	order := slices.Clone(coin)
	if len(order) == 0 {
		order = slices.Clone(d.Row.Order)
	}
	if mirrored {
		slices.Reverse(order)
	}
	return order
}

// readOrder is the order of reading counters, clocks and files: B C B C.
func (d *duel) readOrder() []string { return d.turned(d.Row.Read, d.index%2 == 1) }

// askOrder is the order of asking the query type at a place in this sitting.
func (d *duel) askOrder(place int) []string { return d.turned(d.Row.Ask, (place+d.index)%2 == 1) }

// all does something with each variant that is alive, in the order of reading.
func (d *duel) all(do func(*variant) error) error { return d.inOrder(d.readOrder(), do) }

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

func (d *duel) enter(phase, queryType string) *span {
	phase = d.phase(phase)
	for _, v := range d.alive() {
		v.enter(d.part, phase, queryType)
	}
	return d.begin("", d.part, phase, queryType)
}

// timed begins a phase over which the hosts' counters are read, too.
func (d *duel) timed(phase, queryType string) *span {
	var running servers
	for _, v := range d.alive() {
		running = append(running, v.servers...)
	}
	p := d.enter(phase, queryType)
	p.listen(running...)
	return p
}

func (d *duel) close() {
	for _, count := range d.instructions {
		count.Close()
	}
}

// start starts all variants equally: no kept answers, the data of all or none in the page cache, all idle.
func (d *duel) start(ctx context.Context) error {
	phase := d.enter("start", "")
	defer phase.close(0, 0)
	return d.steps(
		func() error {
			return d.all(func(v *variant) (err error) {
				side, again := d.record.Start[v.Name]
				if again {
					side.Restarts++
				}
				side.CachesDeleted, side.DataReadBytes, err = v.equalize(ctx)
				d.record.Start[v.Name] = side
				return err
			})
		},
		func() error {
			// B C C B over the sittings, so that the order cancels out within a block.
			order := d.turned(d.Row.Start, d.index%4 == 1 || d.index%4 == 2)
			return d.inOrder(order, func(v *variant) error {
				_, err := v.launch(ctx, cmp.Or(d.when, "duel")+"-", d.Host.Pin.Server)
				return err
			})
		},
		func() error { return d.sync(d.Scratch) },
		func() error { return d.startEqually(ctx) },
		d.keepPlaces,
		func() error { return d.all(d.countInstructions) },
	)
}

// answersKept checks that a server started without answers in its memory, before any query.
func (d *duel) answersKept(v *variant) error {
	counter, has := v.target.Counters["answers_kept"]
	if !has {
		return nil
	}
	body := d.bodies[v.Name]
	if len(body) == 0 {
		return faultf("equal_start could not be checked: %s", v.unread())
	}
	kept, found, err := scrape.Sum(body, counter)
	if err == nil && !found {
		v.checkStart(-1, "with how many cached answers in its memory "+v.Name+" began is not known: "+counter.Name+
			" is not in its /metrics")
	} else if err == nil {
		v.equalStart(int64(kept), "cached answers in its memory")
	}
	return err
}

// readCounters reads the /metrics of all variants, not so soon that a server would repeat its last answer.
func (d *duel) readCounters(ctx context.Context) error {
	if err := record.Sleep(ctx, time.Until(d.countersRead.Add(askAgain))); err != nil {
		return err
	}
	err := d.all(func(v *variant) error {
		d.bodies[v.Name] = v.metrics(ctx)
		return nil
	})
	d.countersRead = time.Now()
	return err
}

func (d *duel) keepPlaces() error {
	for _, v := range d.alive() {
		for _, server := range v.servers {
			p := record.DuelPlace{Sitting: d.index, Loading: d.loading, Variant: v.Name, Role: server.role}
			// After an error the machine is lost, as the next call to it will say.
			if server.on.Placed(machine.Program{Pid: server.pid, Path: server.program}, &p.Placed) == nil {
				d.record.Places = append(d.record.Places, p)
			}
		}
	}
	return nil
}

func (d *duel) countInstructions(v *variant) (err error) {
	if !d.Host.Instructions {
		return nil
	}
	d.instructions[v.Name].Close()
	var pids []int
	for _, server := range v.servers {
		pids = append(pids, server.pid)
	}
	d.instructions[v.Name], err = exchange.CountInstructions(pids...)
	return cmp.Or(v.died(), err)
}

// stop stops all variants gracefully, after a check that their processes are those that were started.
func (d *duel) stop(ctx context.Context) error {
	phase := d.enter("stop", "")
	defer phase.close(0, 0)
	return d.all(func(v *variant) error {
		if err := v.died(); err != nil {
			return err
		}
		if err := v.sameProcess(); err != nil {
			return err
		}
		_, err := v.shutdown(ctx)
		return err
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
func (d *duel) sides(open func(*record.Target) (exchange.Source, exchange.Reading, error)) (sides []exchange.Side,
	err error) {
	opened := map[string]exchange.Side{} // by target
	for _, v := range d.alive() {
		side, ok := opened[v.Target]
		if !ok {
			if side.Source, side.Reading, err = open(&v.target); err != nil {
				closeAll(sides)
				return nil, err
			}
			opened[v.Target] = side
		}
		side.Name, side.URL = v.Name, v.url()
		if side.Reading.Answers == "" {
			side.URL = v.writeURL()
		}
		side.Used = func() (exchange.Used, error) {
			cpu, err := v.cpu()
			d.marks[v.Name] = append(d.marks[v.Name], cpu)
			instructions, failed := d.instructions[v.Name].Read()
			return exchange.Used{CPU: cpu.sum(), Instructions: instructions}, errors.Join(err, failed)
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

// noAnswer is the fault of a variant that does not answer: that a server died, else failure.
func (d *duel) noAnswer(ctx context.Context, v *variant, failure string) error {
	if err := v.blameServer(ctx, 1); err != nil {
		return err
	}
	return faultf("%s; %s", failure, lastWords(v.queryServer()))
}

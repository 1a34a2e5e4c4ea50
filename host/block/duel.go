package block

import (
	"context"
	"errors"
	"maps"
	"os"

	"tsduel/host/exchange"
	"tsduel/host/pins"
	"tsduel/host/record"
	"tsduel/host/scrape"
)

// runDuel runs a duel. A variant that fails leaves it; the others go on while two are alive.
func runDuel(ctx context.Context, f *frame, when string, types []string, to **record.DuelRecord) (err error) {
	d := &duel{in: f, when: when, types: types, sent: map[string]int{}, uncounted: map[string]bool{},
		differences: []record.Difference{}}
	d.record = &record.DuelRecord{Start: map[string]record.DuelStart{}, Places: []record.DuelPlace{},
		Idle: []record.DuelIdle{}, Types: []record.DuelType{}, Load: []record.DuelLoad{},
		Counters: map[string]map[string]float64{}, RSSBytes: map[string]int64{}, RSSPeakBytes: map[string]int64{}}
	*to = d.record
	if err := os.MkdirAll(d.path(""), 0o777); err != nil {
		return err
	}
	columns := "query_type,sitting,k,order,bytes"
	if d.exchanges, err = createTable(d.path("exchanges.csv.gz"), columns, d.in.Plan.Variants...); err != nil {
		return err
	}
	err = pins.Do(d.in.Host.Pin.Client, func() error {
		var steps []func() error
		if d.loadsDeployments() || d.in.Plan.Duel.Batches && !(d.in.loadsInTurn() && d.in.loaded) {
			steps = append(steps, func() error { return d.ingest(ctx) })
		}
		if d.in.loadsInTurn() && !d.in.Plan.Deployed() {
			steps = append(steps, func() error { return d.loadAlike(ctx) }, d.in.markLoaded,
				func() error { return d.in.all(func(v *variant) error { return v.workOnCopy(ctx) }) })
		}
		return d.in.steps(append(steps, func() error { return d.ask(ctx) })...)
	})
	if late, ok := errors.AsType[exchange.NotHeld](err); ok {
		// One that is about to die does not stand still either.
		if err = d.in.all(func(v *variant) error { return v.BlameServer(ctx, 1) }); err == nil && !d.in.decided() {
			d.in.block.Void = late.Error()
		}
	}
	if err = errors.Join(err, d.exchanges.Close()); err != nil {
		return err
	}
	return record.WriteJSON(d.path("differences.json"), d.differences)
}

// ask asks all variants the queries of all types.
func (d *duel) ask(ctx context.Context) error {
	d.record.Sittings = d.sittings(d.in.Plan.Duel.Sittings)
	for index := range d.record.Sittings {
		if err := d.sitting(index).ask(ctx); err != nil || d.in.decided() {
			return err
		}
	}
	if d.when != "" || d.in.Plan.Deployed() {
		return nil
	}
	// If the duel merged or loaded the data, their size is known only now.
	return d.in.all(func(v *variant) (err error) {
		solo, has := d.in.block.Solo[v.Name]
		if has && v.mergesLater() || !has && d.in.loadsInTurn() {
			err = (&alone{variant: v, record: &solo}).keepSizes(ctx)
			d.in.block.Solo[v.Name] = solo
		}
		return err
	})
}

// loadsDeployments says that the plan loads deployments, which it does once.
func (d *duel) loadsDeployments() bool {
	return d.in.Plan.Deployed() && d.in.loadsInTurn() && d.in.Row.Turn == 0 && d.in.profiler == nil
}

// loadAttempts is how often data for all blocks are loaded, until the index lies alike on both sides.
const loadAttempts = 4

// loadAlike loads data for all blocks again while the index of one side has files that the other side's has not: a
// flush fell into one load, and its index stays in more parts, which costs 2 % of objects in every block.
func (d *duel) loadAlike(ctx context.Context) error {
	if d.in.loaded || d.in.Plan.Design.Reload != "once" {
		return nil
	}
	for attempt := 1; d.indexFilesDiffer() && !d.in.decided(); attempt++ {
		if attempt == loadAttempts {
			d.in.note("", "", "the index lies in more parts on one side than on the other, in every block")
			return nil
		}
		d.record.Load = nil
		if err := d.ingest(ctx); err != nil {
			return err
		}
	}
	return nil
}

// indexFilesDiffer says it of the ends of the loads.
func (d *duel) indexFilesDiffer() bool {
	var first *float64
	for _, v := range d.in.alive() {
		counter, has := v.Module.Counters["index_files"]
		files, found, err := scrape.Sum(d.loadedBodies[v.Name], counter)
		if !has || !found || err != nil {
			continue
		}
		if first != nil && *first != files {
			return true
		}
		first = &files
	}
	return false
}

// ingest loads in turn, each sitting into empty directories. They are removed unless the queries need them.
func (d *duel) ingest(ctx context.Context) (err error) {
	loaded := map[*variant]string{}
	for _, v := range d.in.alive() {
		if loaded[v] = v.Data; !d.in.loadsInTurn() {
			v.Data = d.in.layout.DataDir("exchanged", v.Name)
		}
	}
	file, err := createTable(d.path("load.csv.gz"), "sitting,k,order,first,lines", d.in.Plan.Variants...)
	if err != nil {
		return err
	}
	sittings := d.sittings(d.in.Plan.Duel.LoadSittings)
	if d.in.Plan.Deployed() {
		sittings = 1
	}
	for index := range sittings {
		s := d.sitting(index)
		err = s.ingest(ctx, file)
		if d.loadedBodies = s.bodies; err != nil || d.in.decided() {
			break
		}
	}
	err = errors.Join(err, file.Close())
	for v, dir := range loaded {
		if v.Data != dir {
			err = errors.Join(err, v.Empty(false))
			v.Data = dir
		}
	}
	d.record.Start = map[string]record.DuelStart{}
	return err
}

// ask starts all variants, exchanges this sitting's share of every query type, and stops all.
func (s *sitting) ask(ctx context.Context) error {
	steps := []func() error{func() error { return s.start(ctx) }}
	if s.index == 0 && s.in.Plan.Duel.IdleS > 0 {
		steps = append(steps, func() error { return s.idle(ctx, "before") })
	}
	first := s.in.Row.Kind == "warmup" || s.in.Row.Block == 1 && s.in.Calibration == nil
	if first && s.index == 0 && s.when == "" && s.in.profiler == nil {
		steps = append(steps, func() error { return findsData(ctx, s) })
	}
	counts := s.in.Plan.Duel.Work == "third" || s.in.Plan.Duel.Work == "all"
	if counts && s.index == 0 && s.in.Calibration == nil && s.when == "" {
		steps = append(steps, func() error { return findReadingCost(ctx, s) })
	}
	if s.in.Plan.Duel.Work == "all" {
		steps = append(steps, func() error { return prime(ctx, s) })
	}
	var before map[string][]byte
	objects := map[string]map[string]int64{}
	steps = append(steps, func() error {
		before = maps.Clone(s.bodies)
		for _, v := range s.in.alive() {
			objects[v.Name] = maps.Clone(v.Objects)
		}
		return nil
	})
	for place, queryType := range countedLast(s) {
		if s.in.Plan.Queries.Cache == "cold" && place > 0 {
			steps = append(steps, func() error { return s.stop(ctx) }, func() error { return s.start(ctx) })
		}
		steps = append(steps, func() error { return s.exchange(ctx, queryType, place) })
	}
	steps = append(steps, func() error { return s.all(s.wrong.of) })
	if s.countsTogether() {
		steps = append(steps, func() error { return s.countTogether(ctx, before, objects) })
	}
	if s.index == s.record.Sittings-1 {
		if s.in.Plan.Duel.IdleS > 0 {
			steps = append(steps, func() error { return s.idle(ctx, "after") })
		}
		steps = append(steps, s.keepRSS)
	}
	return s.in.steps(append(steps, func() error { return s.stop(ctx) })...)
}

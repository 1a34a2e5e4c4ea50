package run

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"tsduel/host/machine"
	"tsduel/host/proc"
	"tsduel/host/record"
	"tsduel/host/workload"
)

// With a topology the driver is on the client's host. The other hosts are lent to it, under the same locks.

const (
	// lendPatience is how long a machine waits for a driver, beyond the time in which the driver makes data.
	lendPatience = 15 * time.Minute
	// releasePatience is for giving a host back, or a look at its disk. A lost host ends by itself.
	releasePatience = 10 * time.Second
	// clockQuestions take some milliseconds each way.
	clockQuestions = 50
	apartWhy       = "components run on other hosts than the client, which does not see their instructions"
)

// Lend starts lending this machine, as a host of the run, unless it is lent already. Then a driver can come.
func (d *Detached) Lend() error {
	err := d.start("lending", func() error {
		_ = os.Remove(d.file("refused"))
		return nil
	}, func() bool { return d.pid() != 0 || exists(d.file("refused")) })
	if err != nil || d.pid() != 0 {
		return err
	}
	if why, err := os.ReadFile(d.file("refused")); err == nil {
		return record.UserError("%s", why)
	}
	return record.UserError("this machine is not lent, and no reason was recorded: "+
		"see that the disk of %s is not full, and %s", d.control, d.file("log"))
}

// Lending is the process that Lend starts. If it cannot begin, it writes why to a file for Lend.
func (d *Detached) Lending(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			_ = record.WriteFile(d.file("refused"), []byte(err.Error()))
		}
	}()
	plan, err := record.LoadPlan(d.runDir)
	if err != nil {
		return err
	}
	lent, err := record.LoadLent(d.runDir, plan)
	if err != nil {
		return err
	}
	locks, err := lockAll(ctx, d.runDir, plan.Kind, d.cache)
	if err != nil {
		return err
	}
	for _, lock := range locks {
		defer lock.Close()
	}
	spec := record.Spec{Plan: plan, RunDir: d.runDir, Scratch: filepath.Join(d.cache, "scratch"), Cache: d.cache,
		Raw: d.raw, Host: record.Facts{Host: d.share[0]}, Events: record.NewEvents(d.runDir, d.raw, true)}
	if _, err := proc.EndStrays(spec.Scratch); err != nil {
		return err
	}
	l, err := machine.Listen(lent, spec.Host.Host)
	if err != nil {
		return err
	}
	if err := d.writePid(); err != nil {
		return err
	}
	defer os.Remove(d.file("pid"))
	patience := lendPatience + 3*record.Seconds(plan.Duration.WorkloadS)
	return machine.Lend(ctx, l, lent.Token, patience, func(ctx context.Context) (files *record.Workload, err error) {
		if spec.Builds, err = record.LoadBuilds(d.runDir, plan); err != nil {
			return nil, err
		}
		return workload.Make(ctx, spec)
	})
}

// lentHosts are the hosts that run components, without the driver's own.
func (h *hosts) lentHosts() []string {
	hosts := slices.Sorted(maps.Keys(h.Plan.Topology))
	return slices.DeleteFunc(hosts, func(host string) bool { return host == h.Host.Host })
}

// borrow calls use with a lent host, and then hangs up.
func (h *hosts) borrow(ctx context.Context, host string, use func(*machine.There) error) error {
	there, _, err := machine.Borrow(ctx, h.Lent, host)
	if err != nil {
		return err
	}
	defer there.HangUp()
	return use(there)
}

// checkLent writes raw/HOST.json of the lent hosts, and refuses a run for which they are not ready.
func (h *hosts) checkLent(ctx context.Context, hasBlocks bool) error {
	programs, _ := filepath.Glob(filepath.Join(h.Builds.TSBSBin, "tsbs_*"))
	for _, build := range h.Builds.Variants {
		for _, part := range build.Components {
			programs = append(programs, part.Binary)
		}
	}
	var sums map[string]string
	programs = append(programs, h.adapters()...) // a lent host starts its components by its own copy of them
	if err := machine.NewHere(ctx, "").Sums(programs, &sums); err != nil {
		return err
	}
	for _, host := range h.lentHosts() {
		check := func(there *machine.There) error { return h.check(there, sums, hasBlocks) }
		if err := h.borrow(ctx, host, check); err != nil {
			return err
		}
	}
	return nil
}

// check compares the programs of a lent host with the sums of the client's.
func (h *hosts) check(there *machine.There, sums map[string]string, hasBlocks bool) error {
	var facts record.Facts
	var disk machine.Disk
	if err := cmp.Or(there.Describe(h.Scratch, &facts), there.Disk(h.Scratch, &disk)); err != nil {
		return err
	}
	// Data of an interrupted block are wiped by the next one.
	if free, needed := disk.Free+disk.Data, h.Plan.Estimate.DatabaseBytes; free < needed {
		return record.UserError("%s: %d MiB are free in %s, and the database needs about %d MiB: free some there",
			there.Host, free>>20, h.Scratch, needed>>20)
	}
	var sumsThere map[string]string
	if err := there.Sums(slices.Collect(maps.Keys(sums)), &sumsThere); err != nil {
		return err
	}
	generates := slices.Contains(h.Plan.Topology[there.Host], "client") // only clients need the programs of TSBS
	for path, sum := range sums {
		if sumsThere[path] != sum && (generates || filepath.Dir(path) != h.Builds.TSBSBin) {
			return record.UserError("%s has another %s than the client's host, so that build/ would not describe what "+
				"runs: give all hosts the same architecture and Go, then 'make build'", there.Host, path)
		}
	}
	roundTrip, ahead, err := there.Clock(clockQuestions)
	if err != nil {
		return err
	}
	facts.Host, facts.InstructionsWhy = there.Host, apartWhy
	facts.Pin = record.Pin{Mode: "off", Server: []int{}, Client: []int{}, Reason: facts.Pin.Reason}
	facts.Link = &record.Link{Address: h.Lent.Hosts[there.Host], RoundTripMS: roundTrip * 1e3, ClockAheadMS: ahead * 1e3}
	return h.writeFacts(&facts, hasBlocks)
}

// makeWorkload has all clients make the same files at once, but each its own group of the data.
func (h *hosts) makeWorkload(ctx context.Context) (err error) {
	others := h.Plan.Topology.Clients()
	others = others[min(1, len(others)):] // the first client is here
	made, failed := make([]record.Workload, len(others)), make([]error, len(others))
	making, end := context.WithCancel(ctx)
	defer end()
	var all sync.WaitGroup
	for i, host := range others {
		all.Go(record.Caught(func() {
			failed[i] = h.borrow(making, host, func(there *machine.There) error {
				return there.Workload(machine.None{}, &made[i])
			})
		}))
	}
	if h.Workload, err = workload.Make(ctx, h.Spec); err != nil {
		return err
	}
	if all.Wait(); len(others) == 0 {
		return nil
	}
	for i, host := range others {
		if failed[i] != nil {
			return failed[i]
		}
		queries, mixed := made[i].Queries, made[i].Mixed
		for k, q := range h.Workload.Queries {
			if k >= len(queries) || queries[k].SHA256 != q.SHA256 || queries[k].Path != q.Path {
				return record.UserError("%s has made other queries of %s than the first client: "+
					"give all hosts the same architecture", host, q.Type)
			}
		}
		for k, data := range h.Workload.Mixed {
			if k >= len(mixed) || mixed[k].ContentChecksum != data.ContentChecksum || mixed[k].FeedPath != data.FeedPath {
				return record.UserError("%s has made other data (%s) than the first client: "+
					"give all hosts the same architecture", host, data.Format)
			}
		}
		h.Workload.Groups = append(h.Workload.Groups, made[i].Groups...)
	}
	return record.WriteJSON(h.raw("workload.json"), h.Workload)
}

// machines yields this machine with "", and each lent host that answers with " on HOST" for a sentence.
func (h *hosts) machines() iter.Seq2[string, machine.Machine] {
	return func(yield func(string, machine.Machine) bool) {
		if !yield("", machine.NewHere(context.Background(), "")) || h.Lent == nil {
			return
		}
		for _, host := range h.lentHosts() {
			ctx, cancel := context.WithTimeout(context.Background(), releasePatience)
			goOn := true
			_ = h.borrow(ctx, host, func(there *machine.There) error {
				goOn = yield(" on "+host, there)
				return nil
			})
			cancel()
			if !goOn {
				return
			}
		}
	}
}

func (h *hosts) release() {
	for _, m := range h.machines() {
		if there, lent := m.(*machine.There); lent {
			there.Release()
		}
	}
}

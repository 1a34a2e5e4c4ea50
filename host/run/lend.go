package run

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"tsduel/host/machine"
	"tsduel/host/noise"
	"tsduel/host/proc"
	"tsduel/host/record"
	"tsduel/host/workload"
)

// Where components run on hosts of their own, the driver is on the client's, and the others are lent to it: each for one run, under
// the same locks as a driver's.

const (
	// lendPatience is for how long a machine is lent though no driver comes, beyond the time in which that makes its data.
	lendPatience = 15 * time.Minute
	// lendWithin is longer than the waits for two locks.
	lendWithin = 30 * time.Second
	// releasePatience bounds the good-bye to one, and a look at its disk: a machine that is gone gives itself back.
	releasePatience = 10 * time.Second
	// clockQuestions are some milliseconds each way.
	clockQuestions = 50
)

// Lend starts lending this machine, as a host of the run (who), unless it is lent already; a driver can come then.
func (d *Detached) Lend() error {
	unlock, err := d.exclusive()
	if err != nil {
		return err
	}
	defer unlock()
	if d.pid() != 0 {
		return nil
	}
	_ = os.Remove(d.file("refused"))
	if err := errors.Join(d.Collected(), d.launch("lending")); err != nil {
		return err
	}
	for deadline := time.Now().Add(lendWithin); d.pid() == 0; time.Sleep(20 * time.Millisecond) {
		if why, err := os.ReadFile(d.file("refused")); err == nil {
			return record.UserError("%s", why)
		}
		if time.Now().After(deadline) {
			return record.UserError("this machine is not lent, and nothing is said of why: see that the disk of %s is not full, and %s", d.control, d.file("log"))
		}
	}
	return nil
}

// Lending is what Lend starts. Why it does not begin is in a file, for Lend.
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
	scratch := filepath.Join(d.cache, "scratch")
	if err := record.PrivateDir(scratch); err != nil {
		return err
	}
	ours, err := lockMachine(ctx, d.runDir, plan.Kind)
	if err != nil {
		return err
	}
	defer ours.Close()
	private, err := lockCache(ctx, d.cache, d.runDir, lockPatience)
	if err != nil {
		return err
	}
	defer private.Close()
	if _, err := proc.EndStrays(scratch); err != nil {
		return err
	}
	l, err := machine.Listen(lent, append(d.who, "")[0])
	if err != nil {
		return err
	}
	ticks, _ := began(os.Getpid())
	if err := record.WriteFile(d.file("pid"), fmt.Appendf(nil, "%d %s %s\n", os.Getpid(), ticks, noise.BootID())); err != nil {
		return err
	}
	defer os.Remove(d.file("pid"))
	spec := record.Spec{Plan: plan, RunDir: d.runDir, Scratch: scratch, Cache: d.cache, Host: record.Facts{Host: append(d.who, "")[0]}, Events: record.NewEvents(d.runDir, true)}
	return machine.Lend(ctx, l, lent.Token, lendPatience+3*record.Seconds(plan.Duration.WorkloadS), func(ctx context.Context) (made *record.Workload, err error) {
		if spec.Builds, err = record.LoadBuilds(d.runDir, plan); err != nil {
			return nil, err
		}
		return workload.Make(ctx, spec)
	})
}

// others are the hosts that run components, but for the driver's own.
func (d *driver) others() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(d.plan.Topology)), func(host string) bool { return host == d.spec.Host.Host })
}

// meet writes raw/HOST.json of the hosts that run components, and looks whether blocks can run on them.
func (d *driver) meet(ctx context.Context) error {
	binaries, _ := filepath.Glob(filepath.Join(d.spec.Builds.TSBSBin, "tsbs_*"))
	for _, build := range d.spec.Builds.Variants {
		for _, part := range build.Components {
			binaries = append(binaries, part.Binary)
		}
	}
	var here map[string]string
	if err := machine.NewHere(ctx, "").Sums(binaries, &here); err != nil {
		return err
	}
	for _, host := range d.others() {
		there, _, err := machine.Borrow(ctx, d.spec.Lent, host)
		if err != nil {
			return err
		}
		err = d.meetOne(there, here)
		there.HangUp()
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *driver) meetOne(there *machine.There, here map[string]string) error {
	facts := &record.Facts{}
	if err := there.Describe(d.spec.Scratch, facts); err != nil {
		return err
	}
	var disk machine.Disk
	if err := there.Disk(d.spec.Scratch, &disk); err != nil {
		return err
	}
	// A block before may have been cut off: what it left is wiped.
	if free, needed := disk.Free+disk.Data, d.plan.Estimate.DatabaseBytes; free < needed {
		return record.UserError("%s: %d MiB are free in %s, and the database needs about %d MiB: free some there", there.Host, free>>20, d.spec.Scratch, needed>>20)
	}
	var found map[string]string
	if err := there.Sums(slices.Collect(maps.Keys(here)), &found); err != nil {
		return err
	}
	for path, sum := range here {
		ofClients := filepath.Dir(path) == d.spec.Builds.TSBSBin // each makes its part of the data, as one would
		if found[path] != sum && (!ofClients || slices.Contains(d.plan.Topology[there.Host], "client")) {
			return record.UserError("%s has another %s than the client's host, so that what build/ says would not be what runs: give all hosts the same architecture and Go, then 'make build'", there.Host, path)
		}
	}
	roundTrip, ahead, err := there.Clock(clockQuestions)
	if err != nil {
		return err
	}
	facts.Host, facts.Pin = there.Host, record.Pin{Mode: "off", Server: []int{}, Client: []int{}, Reason: "no client runs here"}
	facts.InstructionsWhy = aloneWhy
	facts.Link = &record.Link{Address: d.spec.Lent.Hosts[there.Host], RoundTripMS: roundTrip * 1e3, ClockAheadMS: ahead * 1e3}
	return record.WriteJSON(d.raw(there.Host+".json"), facts)
}

const aloneWhy = "components run on other hosts than the client, which does not see their instructions"

// makeWorkload has all clients make their files at once: the same ones, but for the group of the data that each loads.
func (d *driver) makeWorkload(ctx context.Context) (err error) {
	others := d.plan.Topology.Clients()[min(1, len(d.plan.Topology)):]
	made, failed := make([]record.Workload, len(others)), make([]error, len(others))
	making, end := context.WithCancel(ctx)
	defer end()
	var all sync.WaitGroup
	for i, host := range others {
		all.Go(func() {
			there, _, err := machine.Borrow(making, d.spec.Lent, host)
			if err == nil {
				err = there.Workload(machine.None{}, &made[i])
				there.HangUp()
			}
			failed[i] = err
		})
	}
	if d.spec.Workload, err = workload.Make(ctx, d.spec); err != nil {
		return err
	}
	if all.Wait(); len(others) == 0 {
		return nil
	}
	for i, host := range others {
		if failed[i] != nil {
			return failed[i]
		}
		for k, q := range d.spec.Workload.Queries {
			if k >= len(made[i].Queries) || made[i].Queries[k].SHA256 != q.SHA256 || made[i].Queries[k].Path != q.Path {
				return record.UserError("%s has made other queries of %s than the first client: give all hosts the same architecture", host, q.Type)
			}
		}
		for k, data := range d.spec.Workload.Mixed {
			if k >= len(made[i].Mixed) || made[i].Mixed[k].ContentChecksum != data.ContentChecksum || made[i].Mixed[k].FeedPath != data.FeedPath {
				return record.UserError("%s has made other data (%s) than the first client: give all hosts the same architecture", host, data.Format)
			}
		}
		d.spec.Workload.Groups = append(d.spec.Workload.Groups, made[i].Groups...)
	}
	return record.WriteJSON(d.raw("workload.json"), d.spec.Workload)
}

// machines are this one and, where that is to be said " on HOST", those that are lent to us, while each is looked at. One that does
// not answer is left out.
func (d *driver) machines() iter.Seq2[string, machine.Machine] {
	return func(yield func(string, machine.Machine) bool) {
		if !yield("", machine.NewHere(context.Background(), "")) || d.spec.Lent == nil {
			return
		}
		for _, host := range d.others() {
			ctx, cancel := context.WithTimeout(context.Background(), releasePatience)
			there, _, err := machine.Borrow(ctx, d.spec.Lent, host)
			goOn := err != nil || yield(" on "+host, there)
			if err == nil {
				there.HangUp()
			}
			cancel()
			if !goOn {
				return
			}
		}
	}
}

// release gives the other hosts back.
func (d *driver) release() {
	for _, m := range d.machines() {
		if there, lent := m.(*machine.There); lent {
			there.Release()
		}
	}
}

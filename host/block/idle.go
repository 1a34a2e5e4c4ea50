package block

import (
	"context"
	"fmt"
	"slices"
	"time"

	"tsduel/host/record"
	"tsduel/host/scrape"
)

const (
	idleShare = 0.01 // of a CPU: a server that uses less is idle
	steadyFor = 3    // so is a server that in so many looks in a row uses the same share,
	restShare = 0.25 // if that is less than this
	// mergeAttempts is how often all variants are asked to merge, until their data lie in as many parts.
	mergeAttempts = 4
)

// idleLook is how long one look at the use of CPU takes; tests wait less.
var idleLook = time.Second / 4

// startEqually waits until all variants are idle and their data lie in as many parts on each side. That number is
// chance, and one part or two was 20 % for queries that read much (docs/blocks.md). If the duel merges, all
// are asked again until the numbers are equal: a database ignores the request while another merge runs.
func (d *duel) startEqually(ctx context.Context) error {
	for attempt := 1; ; attempt++ {
		err := d.steps(
			func() error {
				return d.all(func(v *variant) (err error) {
					side := d.record.Start[v.Name]
					side.IdleS = 0
					d.record.Start[v.Name] = side
					if v.mergesLater() && !d.loading && (attempt > 1 || d.when != "before" && d.index == 0) {
						err = v.askToSettle(ctx, "merged")
					}
					return err
				})
			},
			func() error { return d.awaitIdle(ctx) },
			func() error {
				if attempt > 1 {
					return nil
				}
				return d.all(d.answersKept)
			},
		)
		if err != nil || d.decided() {
			return err
		}
		difference, err := d.unequalParts()
		switch {
		case err != nil || difference == "":
			return err
		case slices.ContainsFunc(d.alive(), (*variant).mergesLater) && attempt < mergeAttempts:
			continue
		case !slices.ContainsFunc(d.alive(), (*variant).merges):
			d.note("", "", difference)
		case d.Plan.Settle.Mode == "merged":
			d.block.Void = "unequal starts: " + difference + ", though they were merged"
		default:
			d.note("", "", difference+": SET=\"settle.mode=merged\" makes them alike")
		}
		return nil
	}
}

// unequalParts says in how many parts the data of one database lie, if that differs between its sides.
func (d *duel) unequalParts() (string, error) {
	first := map[string]float64{} // by target and number of replicas, each of which has parts of its own
	for _, v := range d.alive() {
		counter, has := v.target.Counters["parts"]
		parts, found, err := scrape.Sum(d.bodies[v.Name], counter)
		if err != nil {
			return "", err
		}
		if !has || !found {
			continue
		}
		alike := fmt.Sprint(v.Target, len(v.servers.replicas()))
		if before, seen := first[alike]; seen && before != parts {
			return fmt.Sprintf("the data lie in %v parts on one side and in %v on another, by chance",
				min(before, parts), max(before, parts)), nil
		}
		first[alike] = parts
	}
	return "", nil
}

// awaitIdle waits until no server merges or uses over 1 % of a CPU. Notes name servers that are never idle.
func (d *duel) awaitIdle(ctx context.Context) error {
	return d.untilRest(ctx, time.Now(), d.Plan.Watchdog.IdleTimeoutS, true, func(v *variant, r rest) {
		side := d.record.Start[v.Name]
		switch {
		case side.IdleS > 0:
			return
		case !r.rests:
			side.IdleTimeout = true
			d.note(v.Name, "", fmt.Sprintf("it was not idle within %.0f s (%.1f %% of a CPU, %.0f merges and the "+
				"like): its exchanges have that beside them", r.seconds, 100*r.share, r.left))
		case r.share >= idleShare:
			d.note(v.Name, "", fmt.Sprintf("it uses %.1f %% of a CPU when nobody asks", 100*r.share))
		}
		side.IdleS = r.seconds
		d.record.Start[v.Name] = side
	})
}

// rest is how a variant is at a look: seconds after the begin, its share of a CPU, and what is left to do.
type rest struct {
	seconds, share, left float64
	rests                bool
}

// untilRest waits until all variants rest at the same look, or for so many seconds. see is called for each that
// rests, and at the end for the others. Merges and the like count as work only if counted.
func (d *duel) untilRest(ctx context.Context, begin time.Time, patience float64, counted bool,
	see func(*variant, rest)) error {
	for seen := (looks{}); ; {
		if err := d.addLook(ctx, seen); err != nil || d.decided() {
			return err
		}
		elapsed := time.Since(begin).Seconds()
		busy := slices.ContainsFunc(d.alive(), func(v *variant) bool { return !seen.rests(v.Name) })
		if busy && elapsed < patience { // spare the counters, which may be read only once a second
			continue
		}
		if err := d.readCounters(ctx); err != nil {
			return err
		}
		waiting := false
		err := d.all(func(v *variant) (err error) {
			r := rest{seconds: elapsed, share: seen.last(v.Name)}
			if counted {
				r.left, _, err = leftToDo(v.target, d.bodies[v.Name], v.target.Quiet)
			}
			if r.rests = r.left == 0 && seen.rests(v.Name); r.rests || elapsed >= patience {
				see(v, r)
			} else {
				waiting = true
			}
			return err
		})
		if err != nil || d.decided() || !waiting {
			return err
		}
	}
}

// looks are the shares of a CPU that each variant has used, one a look.
type looks map[string][]float64

func (l looks) last(name string) float64 { return l[name][len(l[name])-1] }

// rests says that a variant used next to nothing in the last look, or the same small share in the last looks.
func (l looks) rests(name string) bool {
	shares, share := l[name][max(0, len(l[name])-steadyFor):], l.last(name)
	return share < idleShare || share < restShare && len(shares) == steadyFor &&
		slices.Max(shares)-slices.Min(shares) < idleShare
}

func (d *duel) addLook(ctx context.Context, seen looks) error {
	used, seconds, err := d.watch(ctx, idleLook)
	for _, v := range d.alive() {
		seen[v.Name] = append(seen[v.Name], float64(used[v.Name])/seconds/1e9)
	}
	return err
}

// watch is the CPU time in ns that each variant uses while no client asks.
func (d *duel) watch(ctx context.Context, length time.Duration) (used map[string]int64, seconds float64, err error) {
	used = map[string]int64{}
	begin := time.Now()
	read := func(sign int64) error {
		return d.all(func(v *variant) error {
			cpu, err := v.cpu()
			if err != nil {
				return d.noAnswer(ctx, v, err.Error())
			}
			used[v.Name] += sign * cpu.sum()
			return nil
		})
	}
	if err := read(-1); err != nil {
		return nil, 0, err
	}
	if err := record.Sleep(ctx, length); err != nil {
		return nil, 0, err
	}
	seconds = time.Since(begin).Seconds()
	return used, seconds, read(1)
}

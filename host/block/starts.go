package block

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"tsduel/host/checks"
	"tsduel/host/proc"
	"tsduel/host/record"
	"tsduel/host/scrape"
)

const (
	idleShare   = 0.01 // of a CPU: a server that uses less is idle
	steadyFor   = 3    // so is a server that in so many samples in a row uses the same share,
	steadyShare = 0.25 // if that is less than this
	// mergeAttempts is how often all variants are asked to merge, until their data lie in as many parts.
	mergeAttempts = 4
)

// idleSample is how long one sample of the use of CPU takes; tests wait less.
var idleSample = time.Second / 4

// startEqually waits until all variants are idle and their data lie in as many parts on each side. That number is
// chance, and one part or two was 20 % for queries that read much (docs/blocks.md). If the duel merges, all
// are asked again until the numbers are equal: a database ignores the request while another merge runs.
func (s *sitting) startEqually(ctx context.Context) error {
	for attempt := 1; ; attempt++ {
		err := s.in.steps(
			func() error {
				return s.all(func(v *variant) error {
					if v.mergesLater() && !s.loading && (attempt > 1 || s.when != "before" && s.index == 0) {
						return v.AskToSettle(ctx, "merged")
					}
					return nil
				})
			},
			func() error { return s.awaitIdle(ctx) },
			func() error {
				if attempt > 1 {
					return nil
				}
				return s.all(func(v *variant) error { return v.AnswersKept(s.bodies[v.Name]) })
			},
		)
		if err != nil || s.in.decided() {
			return err
		}
		difference, err := s.unequalParts()
		switch {
		case err != nil || difference == "":
			return err
		case slices.ContainsFunc(s.in.alive(), (*variant).mergesLater) && attempt < mergeAttempts:
			continue
		case !slices.ContainsFunc(s.in.alive(), (*variant).merges):
			s.in.note("", "", difference)
		case s.in.Plan.Settle.Mode == "merged":
			s.in.block.Void = "unequal starts: " + difference + ", though they were merged"
		default:
			s.in.note("", "", difference+": SET=\"settle.mode=merged\" makes them alike")
		}
		return nil
	}
}

// unequalParts says in how many parts the data of one database lie, if that differs between its sides.
func (s *sitting) unequalParts() (string, error) {
	first := map[string]float64{} // by target and number of replicas, each of which has parts of its own
	for _, v := range s.in.alive() {
		counter, has := v.Module.Counters["parts"]
		parts, found, err := scrape.Sum(s.bodies[v.Name], counter)
		if err != nil {
			return "", err
		}
		if !has || !found && s.loading { // some databases count nothing before they have data
			continue
		}
		if !found {
			unknown := fmt.Sprintf("in how many parts the data of %s lie is not known: %s is not in its /metrics", v.Name,
				counter.Name)
			if s.in.Plan.Settle.Mode == "merged" && v.merges() {
				v.EqualStart(-1, unknown)
			} else {
				s.in.note(v.Name, "", unknown)
			}
			continue
		}
		alike := fmt.Sprint(v.Target, v.Running.Replicas())
		if before, seen := first[alike]; seen && before != parts {
			return fmt.Sprintf("the data lie in %v parts on one side and in %v on another, by chance",
				min(before, parts), max(before, parts)), nil
		}
		first[alike] = parts
	}
	return "", nil
}

// awaitIdle waits until no server merges or uses over 1 % of a CPU. Notes name servers that are never idle.
func (s *sitting) awaitIdle(ctx context.Context) error {
	var reported []*variant
	// Without data nothing is merged, and some databases count nothing.
	return s.untilIdle(ctx, time.Now(), s.in.Plan.Watchdog.IdleTimeoutS, !s.loading, func(v *variant, now idleState) {
		if slices.Contains(reported, v) {
			return
		}
		reported = append(reported, v)
		side := s.record.Start[v.Name]
		if !now.idle {
			side.IdleTimeout = true
			s.in.note(v.Name, "", fmt.Sprintf("it was not idle within %.0f s (%.1f %% of a CPU, %.0f merges and the "+
				"like): its exchanges have that beside them", now.seconds, 100*now.share, now.left))
		} else if now.share >= idleShare {
			s.in.note(v.Name, "", fmt.Sprintf("it uses %.1f %% of a CPU when nobody asks", 100*now.share))
		}
		side.IdleS = now.seconds
		s.record.Start[v.Name] = side
	})
}

// idleState is how a variant is after a sample: seconds after the begin, its share of a CPU, and what is left to do.
type idleState struct {
	seconds, share, left float64
	idle                 bool
}

// untilIdle waits until all variants are idle in the same sample, or for so many seconds. tell is called for each that
// is, and at the end for the others. Merges and the like count as work only if counted.
func (s *sitting) untilIdle(ctx context.Context, begin time.Time, patience float64, counted bool,
	tell func(*variant, idleState)) error {
	for samples := (cpuSamples{}); ; {
		used, seconds, err := s.cpuUsed(ctx, idleSample)
		if err != nil || s.in.decided() {
			return err
		}
		busy := false
		for _, v := range s.in.alive() {
			samples[v.Name] = append(samples[v.Name], float64(used[v.Name])/seconds/1e9)
			busy = busy || !samples.idle(v.Name)
		}
		elapsed := time.Since(begin).Seconds()
		if busy && elapsed < patience { // spare the counters, which may be read only once a second
			continue
		}
		if err := s.readCounters(ctx); err != nil {
			return err
		}
		waiting := false
		err = s.all(func(v *variant) (err error) {
			now, body := idleState{seconds: elapsed, share: samples.last(v.Name)}, s.bodies[v.Name]
			if counted {
				now.left, _, err = v.leftToDo(body, v.Module.Quiet)
			}
			if counted && len(body) == 0 && elapsed >= patience {
				return checks.Faultf("whether it is quiet could not be checked: %s", v.Unread())
			}
			if now.idle = now.left == 0 && samples.idle(v.Name) && (!counted || len(body) > 0); now.idle || elapsed >= patience {
				tell(v, now)
			} else {
				waiting = true
			}
			return err
		})
		if err != nil || s.in.decided() || !waiting {
			return err
		}
	}
}

// cpuSamples are the shares of a CPU that each variant has used, one a sample.
type cpuSamples map[string][]float64

func (c cpuSamples) last(name string) float64 { return c[name][len(c[name])-1] }

// idle says that a variant used next to nothing in the last sample, or the same small share in the last ones.
func (c cpuSamples) idle(name string) bool {
	shares, share := c[name][max(0, len(c[name])-steadyFor):], c.last(name)
	return share < idleShare || share < steadyShare && len(shares) == steadyFor &&
		slices.Max(shares)-slices.Min(shares) < idleShare
}

// start starts all variants equally: no kept answers, the data of all or none in the page cache, all idle.
func (s *sitting) start(ctx context.Context) error {
	phase := s.enter("start", "")
	defer phase.close(0, 0)
	if s.in.Plan.Deployed() {
		return s.in.steps(
			func() error { return s.all(func(v *variant) error { return v.Connect(ctx) }) },
			func() error { return s.readCounters(ctx) },
			func() error { return takeTurns(s) },
		)
	}
	return s.in.steps(
		func() error {
			return s.all(func(v *variant) (err error) {
				side, again := s.record.Start[v.Name]
				if again {
					side.Restarts++
				}
				side.CachesDeleted, side.DataReadBytes, err = v.Equalize(ctx)
				s.record.Start[v.Name] = side
				return err
			})
		},
		func() error {
			// B C C B over the sittings, so that the order cancels out within a block.
			order := s.turned(s.in.Row.Start, s.index%4 == 1 || s.index%4 == 2)
			return s.in.inOrder(order, func(v *variant) error {
				_, err := v.Launch(ctx, cmp.Or(s.when, "duel")+"-", s.in.Host.Pin.Server)
				return err
			})
		},
		func() error { return record.SyncDisk(s.in.Scratch) },
		func() error { return s.startEqually(ctx) },
		s.keepPlaces,
		func() error { return keepGoCPUs(s) },
		func() error { return takeTurns(s) },
		func() error {
			if !s.in.Host.Instructions {
				return nil
			}
			return s.all(func(v *variant) error { return v.CountInstructions() })
		},
	)
}

// stop stops all variants gracefully, after a check that their processes are those that were started.
func (s *sitting) stop(ctx context.Context) error {
	phase := s.enter("stop", "")
	defer phase.close(0, 0)
	return s.all(func(v *variant) error {
		if s.in.Plan.Deployed() {
			defer v.Leave()
			return v.SameStart(ctx)
		}
		if err := v.Died(); err != nil {
			return err
		}
		if err := v.SameProcess(); err != nil {
			return err
		}
		_, err := v.Shutdown(ctx)
		return err
	})
}

func (s *sitting) keepPlaces() error {
	for _, v := range s.in.alive() {
		for _, server := range v.Running {
			s.record.Places = append(s.record.Places, record.DuelPlace{Sitting: s.index, Loading: s.loading, Variant: v.Name,
				Role: server.Role, Placed: proc.Placed(server.Pid, server.Program)})
		}
	}
	return nil
}

// goCPUs is how many CPUs a Go program sees, as VictoriaMetrics and Prometheus' client library tell it.
var goCPUs = record.Counter{Name: "process_cpu_cores_available|go_sched_gomaxprocs_threads"}

func keepGoCPUs(s *sitting) error {
	if s.in.Plan.Limits.Cpus == 0 {
		return nil
	}
	s.record.GoCPUs = map[string]float64{}
	for _, v := range s.in.alive() {
		if sum, found, err := scrape.Sum(s.bodies[v.Name], goCPUs); err == nil && found {
			s.record.GoCPUs[v.Name] = sum
		}
	}
	return nil
}

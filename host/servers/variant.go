// Package servers places, starts, probes, watches and stops the components of a variant, and says what they use.
package servers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"tsduel/host/checks"
	"tsduel/host/exchange"
	"tsduel/host/machine"
	"tsduel/host/proc"
	"tsduel/host/record"
	"tsduel/host/scrape"
)

// Launch places all components, starts them from the last to the first, since each needs those after it, and
// checks who can reach them. seconds are from the first start until all are ready.
func (v *Variant) Launch(ctx context.Context, logPrefix string, cpus []int) (seconds float64, err error) {
	var placed []*Server
	v.seat = v.given.Layout.TakeSeat()
	for i, c := range v.Components {
		s := v.server(c)
		to := filepath.Join(v.seat.dir, twoDigits(1+i))
		if s.Program, err = proc.Place(s.Program, to); err != nil {
			return 0, err
		}
		placed = append(placed, s)
	}
	begin := time.Now()
	for _, s := range slices.Backward(placed) {
		if err := s.start(ctx, logPrefix, cpus); err != nil {
			return 0, err
		}
	}
	seconds = time.Since(begin).Seconds()
	var sources []scrape.Source
	for _, s := range v.Running {
		s.Pid = cmp.Or(s.listener(), s.Pid) // a wrapper may have started it
		if err := s.findAddresses(ctx); err != nil {
			return 0, err
		}
		sources = append(sources,
			scrape.Source{Role: s.Role, Kernel: s.Kernel, Counters: s.counters, Slow: s.Metrics == ""})
	}
	if v.URL() == "" || v.WriteURL() == "" {
		return 0, fmt.Errorf("%s/endpoints names no address for clients of %s", v.Target, v.Name)
	}
	if v.Snapshots != nil {
		v.Snapshots.Sources = sources
	}
	return seconds, v.onlyOurs()
}

// onlyOurs checks the addresses that the servers listen at: flags of an experiment may add some.
func (v *Variant) onlyOurs() error {
	var open, unseen []string
	for _, s := range v.Running {
		all := slices.Concat(slices.Collect(maps.Values(machine.Listeners(s.Process.Pid)))...)
		for _, at := range all {
			if !at.Addr().IsLoopback() {
				open = append(open, at.String())
			}
		}
		if len(all) == 0 {
			unseen = append(unseen, s.Role)
		}
	}
	c := record.Check{Check: "listens_on_loopback", Phase: v.Phase, Actual: float64(len(open)),
		OK: len(open)+len(unseen) == 0}
	c.Message = fmt.Sprintf("%s listens for others, at %s: take the flag that says so out of the experiment", v.Name,
		strings.Join(open, " and "))
	if len(open) == 0 {
		c.Message = fmt.Sprintf("could not be checked: no process of %s's %s is seen to listen", v.Name,
			strings.Join(unseen, " and "))
	}
	return v.Check(c)
}

// Shutdown stops all components gracefully, in their order. seconds are until the last one has ended.
func (v *Variant) Shutdown(ctx context.Context) (seconds float64, err error) {
	if err := v.Died(); err != nil {
		return 0, err
	}
	patience, begin := record.Seconds(v.given.Plan.Watchdog.StopS), time.Now()
	for _, s := range v.Running {
		if _, err := s.ask(ctx, patience, "stop"); err != nil {
			return 0, err
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-s.Process.Ended():
		case <-time.After(patience - time.Since(begin)):
			if err := s.Process.Kill(); err != nil {
				return 0, err
			}
			return 0, checks.Faultf("the %s (pid %d) had to be killed: it did not stop within %v; %s", s.Role,
				s.Process.Pid, patience, s.LastWords())
		}
		if err := s.Process.Kill(); err != nil { // what it has left would use CPU beside the other variant
			return 0, err
		}
	}
	seconds = time.Since(begin).Seconds()
	for _, s := range v.Running {
		if err := errors.Join(s.maskLog(), s.quietLog()); err != nil {
			return 0, err
		}
	}
	v.Leave()
	return seconds, nil
}

// Close gives up a variant's servers and snapshots. kill: servers may run, and their data are not needed.
func (v *Variant) Close(kill bool) (err error) {
	for _, s := range v.Running {
		if kill && err == nil && !s.Deployed() {
			err = s.Process.Kill()
		}
		err = errors.Join(err, s.maskLog())
	}
	v.Leave()
	if v.Snapshots != nil {
		err = errors.Join(err, v.Snapshots.Close())
		v.Snapshots = nil
	}
	return err
}

func (v *Variant) Leave() {
	v.Running = nil
	v.Instructions.Close()
	v.Instructions = nil
	if v.seat != nil {
		delete(v.given.Layout.seats, v.seat.number)
		v.seat = nil
	}
}

// askStopped calls a verb for each component while none runs. It returns the answers by role.
func (v *Variant) askStopped(ctx context.Context, verb string) (answers map[string]string, err error) {
	answers = map[string]string{}
	for _, c := range v.Components {
		answers[c.Role], err = v.server(c).ask(ctx, record.Seconds(v.given.Plan.Watchdog.StopS), verb)
		if err != nil {
			return nil, err
		}
	}
	return answers, nil
}

// Forget deletes the answers that the stopped components keep on disk.
func (v *Variant) Forget(ctx context.Context) error {
	_, err := v.askStopped(ctx, "forget")
	return err
}

// Sizes are the bytes that the stopped components have on disk, by the size's name: by role, and in all.
func (v *Variant) Sizes(ctx context.Context) (by record.ByRole, sum map[string]int64, err error) {
	by, sum = record.ByRole{}, map[string]int64{}
	answers, err := v.askStopped(ctx, "size")
	for role, answer := range answers {
		for line := range strings.Lines(answer) {
			name, bytes, _ := strings.Cut(strings.TrimSpace(line), " ")
			n, err := strconv.ParseInt(bytes, 10, 64)
			if err != nil {
				return by, sum, checks.Faultf("%s/size printed no NAME BYTES: %s", v.Target, scrape.OneLine(line))
			}
			if by[name] == nil {
				by[name] = map[string]int64{}
			}
			by[name][role] = n
			sum[name] += n
		}
	}
	return by, sum, err
}

// Equalize makes a stopped variant start as the others do: without kept answers, which is checked, and with
// its data read once into the page cache (read, in bytes) or, for a cold cache, dropped from it.
func (v *Variant) Equalize(ctx context.Context) (noAnswers bool, read int64, err error) {
	if err := v.Forget(ctx); err != nil {
		return false, 0, err
	}
	_, sizes, err := v.Sizes(ctx)
	if err != nil {
		return false, 0, err
	}
	noAnswers = v.EqualStart(sizes["cache_bytes"], fmt.Sprintf("%s began with %d bytes of answers on disk, which an "+
		"earlier process left", v.Name, sizes["cache_bytes"]))
	if v.given.Plan.Queries.Cache == "cold" {
		return noAnswers, 0, machine.Drop(ctx, v.Data)
	}
	read, err = machine.ReadOnce(ctx, v.Data)
	return noAnswers, read, err
}

// Empty removes what a variant, or a block that was killed, has stored. anew makes its directories again.
func (v *Variant) Empty(anew bool) error {
	fresh := machine.Directories{Remove: []string{v.Data}}
	for _, c := range v.Components {
		if anew {
			fresh.Make = append(fresh.Make, filepath.Join(v.Data, c.Role))
		}
	}
	return machine.Prepare(fresh)
}

// AnswersKept checks that the servers started without answers in their memory, by their counters before any query.
func (v *Variant) AnswersKept(counters []byte) error {
	counter, has := v.Module.Counters["answers_kept"]
	if !has {
		return nil
	}
	if len(counters) == 0 {
		return checks.Faultf("equal_start could not be checked: %s", v.Unread())
	}
	kept, found, err := scrape.Sum(counters, counter)
	if err != nil {
		return err
	}
	wrong := fmt.Sprintf("%s began with %.0f cached answers in its memory, which an earlier process left", v.Name, kept)
	if !found {
		kept, wrong = -1, fmt.Sprintf("with how many cached answers in its memory %s began is not known: %s is not in its "+
			"/metrics", v.Name, counter.Name)
	}
	v.EqualStart(int64(kept), wrong)
	return nil
}

// CountInstructions lets the kernel count those of the servers.
func (v *Variant) CountInstructions() (err error) {
	var pids []int
	for _, s := range v.Running {
		pids = append(pids, s.Pid)
	}
	v.Instructions, err = exchange.CountInstructions(pids...)
	return cmp.Or(v.Died(), err)
}

// Metrics are the texts of all components; nil if one does not answer.
func (v *Variant) Metrics(ctx context.Context) (all []byte) {
	for _, s := range v.Running {
		body, err := s.counters(ctx)
		if err != nil {
			v.silent = s
			return nil
		}
		if sum, found, err := scrape.Sum(body, v.Module.Counters["objects"]); err == nil && found {
			v.Objects[s.Role] = int64(sum)
		}
		all = append(append(all, body...), '\n')
		if !s.Deployed() {
			all = append(all, ofKernel(s)...)
		}
	}
	return all
}

// Unread says where metrics got no answer.
func (v *Variant) Unread() string {
	return "its counters cannot be read at " + cmp.Or(cmp.Or(v.silent, v.QueryServer()).Metrics, v.Target+"/metrics")
}

func (s *Server) start(ctx context.Context, logPrefix string, cpus []int) (err error) {
	v := s.variant
	s.Log = filepath.Join(v.Dir, logPrefix+s.Role+".log")
	if s.hidden != nil {
		s.secretLog = filepath.Join(v.given.Layout.DataDir("logs", v.Name), filepath.Base(s.Log))
	}
	if s.port, err = v.given.Layout.FreePort(v.seat); err != nil {
		return err
	}
	for _, name := range v.Module.Ports[s.Role] {
		if s.ports[name], err = v.given.Layout.FreePort(v.seat); err != nil {
			return err
		}
	}
	call := s.Command(Verb{Name: "start", Args: s.component.Flags})
	call.Limits = proc.LimitsOf(v.given.Plan.Limits)
	call.Log, call.CPUs, call.Make = cmp.Or(s.secretLog, s.Log), cpus, []string{filepath.Join(v.Data, s.Role)}
	if s.Process, err = machine.Start(call); err != nil {
		return err
	}
	s.Pid = s.Process.Pid
	v.Running = slices.Insert(v.Running, 0, s)
	return s.waitReady(ctx)
}

func (s *Server) waitReady(ctx context.Context) error {
	begin, health := time.Now(), record.Seconds(s.variant.given.Plan.Watchdog.HealthS)
	for {
		if _, err := s.ask(ctx, health, "ready"); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.Process.Ended():
			if dead, ok := errors.AsType[*checks.Fault](s.variant.Died()); ok {
				dead.Unready = true
				return dead
			}
			return nil
		case <-time.After(ReadyEvery):
		}
		if time.Since(begin) > health {
			message := fmt.Sprintf("the %s did not become healthy within %v: %s", s.Role, health, s.LastWords())
			return &checks.Fault{Message: message, Unready: true}
		}
	}
}

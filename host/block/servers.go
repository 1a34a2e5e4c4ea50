package block

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"tsduel/host/bound"
	"tsduel/host/machine"
	"tsduel/host/proc"
	"tsduel/host/record"
	"tsduel/host/scrape"
)

const readyEvery = 50 * time.Millisecond

// server is one component that runs. pid is the process that listens, which a wrapper may have started.
// queries, writes and metrics are its URLs for clients, or empty.
type server struct {
	variant                  *variant
	component                record.Component
	role                     string
	log, secretLog           string // the log, and where it lies with secrets, or empty
	program                  string // its binary; after it is placed, the copy that runs
	queries, writes, metrics string
	address                  string
	port, pid                int
	ports                    map[string]int // its further ports, by name
	process                  *proc.Process  // nil of a deployment
	read                     time.Time      // when the counters of a deployment were last read
	began                    float64        // when the process of a deployment began, by its counters
	hidden                   *record.Hidden
	flood                    atomic.Pointer[fault] // it has sent more than is read
}

// verb is one call of a database's adapter: scripts/targets/DB/NAME, or that of the database whose adapter it takes.
type verb struct {
	name      string
	args, env []string
}

func (s *server) command(c verb) machine.Command {
	v := s.variant
	program := filepath.Join(v.targets, v.Target, c.name)
	if _, err := os.Stat(program); err != nil && v.target.Adapter != "" {
		program = filepath.Join(v.targets, v.target.Adapter, c.name)
	}
	call := machine.Command{Argv: append([]string{program}, c.args...),
		Dir: v.emptyDir(), Scratch: v.Scratch}
	var env []string
	if c.name == "start" {
		for name, value := range s.component.Env {
			env = append(env, name+"="+value)
		}
		// The component starts in a directory that holds only the files that the experiment gives it.
		if len(s.component.Files) > 0 {
			call.Dir = filepath.Join(v.Scratch, "files", v.number(v.Name), s.role)
			call.Files = s.component.Files
		}
	}
	env = append(env, "DB_ROLE="+s.role, "DB_BINARY="+s.program, "DB_DATA_DIR="+filepath.Join(v.data, s.role),
		"DB_HOST="+s.address, "DB_URL="+v.url(), "DB_WRITE_URL="+v.writeURL(), "DB_PID="+strconv.Itoa(s.pid),
		"DB_CACHE="+v.Plan.Queries.Cache, "DB_SETTLE="+v.Plan.Settle.Mode,
		"DB_TENANTS="+strconv.Itoa(v.Plan.Workload.Tenants), "TSBS_BIN="+v.Builds.TSBSBin)
	call.Env = append(append(env, s.portsAs("DB_PORT", "")...), c.env...)
	for _, running := range v.servers {
		call.Env = append(call.Env, running.addresses()...)
	}
	return call
}

// portsAs are NAME=PORT and, of further ports, NAME_FURTHER=PORT, each with an address before the port.
func (s *server) portsAs(name, address string) []string {
	env := []string{name + "=" + address + strconv.Itoa(s.port)}
	for further, port := range s.ports {
		env = append(env, name+"_"+variable(further)+"="+address+strconv.Itoa(port))
	}
	return env
}

// addresses tell the other components where this one is: DB_AT_ROLE=HOST:PORT, DB_AT_ROLE_NAME=HOST:PORT.
func (s *server) addresses() []string {
	return s.portsAs("DB_AT_"+variable(s.role), s.address+":")
}

func variable(name string) string { return strings.ToUpper(strings.ReplaceAll(name, "-", "_")) }

// ask calls a verb and returns its output. A verb that fails is a fault.
func (s *server) ask(ctx context.Context, patience time.Duration, name string, env ...string) (string, error) {
	call := s.command(verb{name, nil, env})
	call.Patience = patience
	answer, err := machine.Run(ctx, call)
	if err != nil || ctx.Err() != nil {
		return "", cmp.Or(ctx.Err(), err)
	}
	switch {
	case answer.Flood:
		return "", bound.More(bound.Counters, s.variant.Target+"/"+name+": an output")
	case answer.Late:
		return "", faultf("%s/%s did not return within %v", s.variant.Target, name, patience)
	case answer.Code != 0:
		return "", faultf("%s/%s ended with %s: %s", s.variant.Target, name, exitWords(answer.Code),
			wordsOf(answer.Err, answer.Out))
	}
	return string(answer.Out), nil
}

func (s *server) start(ctx context.Context, logPrefix string, cpus []int) (err error) {
	v := s.variant
	s.log = filepath.Join(v.dir, logPrefix+s.role+".log")
	if s.hidden != nil {
		s.secretLog = filepath.Join(v.dataDir("logs", v.Name), filepath.Base(s.log))
	}
	if s.port, err = v.freePort(v.seat); err != nil {
		return err
	}
	for _, name := range v.target.Ports[s.role] {
		if s.ports[name], err = v.freePort(v.seat); err != nil {
			return err
		}
	}
	call := s.command(verb{name: "start", args: s.component.Flags})
	call.Limits = proc.LimitsOf(v.Plan.Limits)
	call.Log, call.CPUs, call.Make = cmp.Or(s.secretLog, s.log), cpus, []string{filepath.Join(v.data, s.role)}
	if s.process, err = machine.Start(call); err != nil {
		return err
	}
	s.pid = s.process.Pid
	v.servers = slices.Insert(v.servers, 0, s)
	return s.waitReady(ctx)
}

func (s *server) waitReady(ctx context.Context) error {
	begin, health := time.Now(), record.Seconds(s.variant.Plan.Watchdog.HealthS)
	for {
		if _, err := s.ask(ctx, health, "ready"); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.process.Ended():
			if dead, ok := errors.AsType[*fault](s.variant.died()); ok {
				dead.unready = true
				return dead
			}
			return nil
		case <-time.After(readyEvery):
		}
		if time.Since(begin) > health {
			message := fmt.Sprintf("the %s did not become healthy within %v: %s", s.role, health, lastWords(s))
			return &fault{message, true}
		}
	}
}

// findAddresses asks the adapter where clients reach the server.
func (s *server) findAddresses(ctx context.Context) error {
	answer, err := s.ask(ctx, scrape.Timeout, "endpoints")
	if err != nil {
		return err
	}
	for line := range strings.Lines(answer) {
		switch purpose, url, _ := strings.Cut(strings.TrimSpace(line), " "); purpose {
		case "clients":
			s.queries, s.writes = url, url
		case "queries":
			s.queries = url
		case "writes":
			s.writes = url
		case "metrics":
			s.metrics = url
		}
	}
	return nil
}

func (s *server) kernel() (proc.Counters, error) {
	if s.deployed() {
		return s.says()
	}
	return proc.Read(s.pid)
}

// counters are the server's own: the text of /metrics, or the answer of its adapter. Of too much of it died tells.
func (s *server) counters(ctx context.Context) (text []byte, err error) {
	if s.metrics != "" {
		text, err = scrape.Fetch(ctx, s.metrics)
	} else {
		answer, failed := s.ask(ctx, scrape.Timeout, "metrics")
		text, err = []byte(answer), failed
	}
	if _, much := errors.AsType[bound.Theirs](err); much {
		s.flood.Store(&fault{message: fmt.Sprintf("the counters of the %s cannot be read: %v", s.role, err)})
	}
	if s.hidden != nil { // a server may show its flags there
		text = []byte(s.hidden.Mask(string(text)))
	}
	return scrape.OfRole(s.role, text), err
}

// listener is the process that listens at the server's port: the started one or one of its session. 0: none.
func (s *server) listener() (pid int) {
	listeners := machine.Listeners(s.process.Pid)
	for _, pid := range append([]int{s.process.Pid}, slices.Sorted(maps.Keys(listeners))...) {
		if slices.ContainsFunc(listeners[pid], func(a netip.AddrPort) bool { return int(a.Port()) == s.port }) {
			return pid
		}
	}
	return 0
}

// maskLog brings a log that may have secrets into the run without them.
func (s *server) maskLog() error {
	if s.secretLog == "" {
		return nil
	}
	file, err := os.Open(s.secretLog)
	if err != nil {
		return err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, proc.MostLog+1<<20)) // it may be cut in a moment
	if err != nil {
		return err
	}
	return os.WriteFile(s.log, []byte(s.hidden.Mask(string(text))), 0o666)
}

// servers are the components of a variant that run, those that take clients first.
type servers []*server

// url is where queries go: that of every replica, with commas between them.
func (all servers) url() string { return all.urls(func(s *server) string { return s.queries }) }

func (all servers) writeURL() string { return all.urls(func(s *server) string { return s.writes }) }

// replicas is how many are not the first of their role: vminsert-2.
func (all servers) replicas() (n int) {
	for _, s := range all {
		if replica.MatchString(s.role) {
			n++
		}
	}
	return n
}

var replica = regexp.MustCompile(`-[2-9]$`)

func (all servers) urls(address func(*server) string) string {
	var urls []string
	for _, s := range all {
		// A component of another role that takes clients, too, stands behind the first one.
		if url := address(s); url != "" && (len(urls) == 0 || replica.MatchString(s.role)) {
			urls = append(urls, url)
		}
	}
	return strings.Join(urls, ",")
}

func (all servers) queryServer() *server {
	return all.first(func(s *server) bool { return s.queries != "" })
}

func (all servers) writeServer() *server {
	return all.first(func(s *server) bool { return s.writes != "" })
}

func (all servers) first(takes func(*server) bool) *server {
	if at := slices.IndexFunc(all, takes); at >= 0 {
		return all[at]
	}
	return &server{} // none is up yet
}

// died is the fault of a server that has ended by itself, or that floods us; nil while all run.
func (all servers) died() error {
	for _, s := range all {
		if flood := s.flood.Load(); flood != nil {
			return flood
		}
		if !s.deployed() && s.process.HasEnded() {
			why := s.variant.outOfMemory()
			if s.process.LimitKills() > 0 {
				why = fmt.Sprintf("; it needed more than the %d MB of limits.memory_mb", s.variant.Plan.Limits.MemoryMb)
			}
			return faultf("the %s (pid %d) died: %s%s", s.role, s.process.Pid, lastWords(s), why)
		}
	}
	return nil
}

// blameServer blames a server that has died. After a client fails, it waits up to 1 s for a server to exit.
func (all servers) blameServer(ctx context.Context, clientCode int) error {
	for _, s := range all {
		if clientCode == 0 || s.deployed() {
			break
		}
		select {
		case <-s.ended():
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
	return all.died()
}

// noAnswer is the fault of servers that do not answer: that one died, else failure.
func (all servers) noAnswer(ctx context.Context, failure string) error {
	if err := all.blameServer(ctx, 1); err != nil {
		return err
	}
	if s := all.queryServer(); !s.deployed() {
		failure += "; " + lastWords(s)
	}
	return faultf("%s", failure)
}

func (all servers) askToSettle(ctx context.Context, mode string) error {
	for _, s := range all {
		patience := record.Seconds(s.variant.Plan.Settle.TimeoutS)
		if _, err := s.ask(ctx, patience, "settle", "SETTLE_MODE="+mode); err != nil {
			return err
		}
	}
	return nil
}

// sameProcess checks that the processes that listen are those that were started.
func (all servers) sameProcess() error {
	for _, s := range all {
		pid := s.listener()
		if err := s.variant.equal("same_process", int64(s.pid), int64(pid), "the %s was process %d at the start and is %d "+
			"now: it was restarted", s.role, s.pid, pid); err != nil {
			return err
		}
	}
	return nil
}

// cpu is by role. A deployment that does not tell its CPU has none.
func (all servers) cpu() (usage, error) {
	by := usage{}
	for _, s := range all {
		if s.deployed() {
			c, err := s.says()
			if err != nil {
				return nil, err
			}
			if c.CPU >= 0 {
				by[s.role] = int64(c.CPU)
			}
			continue
		}
		used, err := proc.CPU(s.pid)
		if err != nil {
			// A process that has ended has no clock.
			return nil, cmp.Or(all.blameServer(context.Background(), 1), err)
		}
		by[s.role] = int64(used)
	}
	return by, nil
}

// kernel adds up what the kernel has counted of the servers; rss is the memory of each now. -1 is unknown, as of a
// server that has ended, and so is a sum with it.
func (all servers) kernel() (sum proc.Counters, rss usage) {
	rss = usage{}
	for _, s := range all {
		c, err := s.kernel()
		if err != nil {
			c.RSS, c.PeakRSS, c.StorageRead, c.StorageWritten = -1, -1, -1, -1
		}
		sum.CPU, sum.PeakRSS = sum.CPU+c.CPU, proc.Add(sum.PeakRSS, c.PeakRSS)
		sum.StorageRead = proc.Add(sum.StorageRead, c.StorageRead)
		sum.StorageWritten = proc.Add(sum.StorageWritten, c.StorageWritten)
		sum.RSS, rss[s.role] = proc.Add(sum.RSS, c.RSS), c.RSS
	}
	return sum, rss
}

// spent is what servers that have ended used in all, with their children.
func (all servers) spent() usage {
	by := usage{}
	for _, s := range all {
		exit := s.process.Exit()
		by[s.role] = int64(exit.User + exit.System)
	}
	return by
}

package servers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"tsduel/host/bound"
	"tsduel/host/checks"
	"tsduel/host/logs"
	"tsduel/host/machine"
	"tsduel/host/proc"
	"tsduel/host/scrape"
)

const ReadyEvery = 50 * time.Millisecond

// Verb is one call of a database's adapter: scripts/targets/DB/NAME, or that of the database whose adapter it takes.
type Verb struct {
	Name      string
	Args, Env []string
}

func (s *Server) Command(c Verb) machine.Command {
	v := s.variant
	program := filepath.Join(v.given.Adapters, v.Target, c.Name)
	if _, err := os.Stat(program); err != nil && v.Module.Adapter != "" {
		program = filepath.Join(v.given.Adapters, v.Module.Adapter, c.Name)
	}
	call := machine.Command{Argv: append([]string{program}, c.Args...),
		Dir: v.given.Layout.EmptyDir(), Scratch: v.given.Layout.Scratch}
	var env []string
	if c.Name == "start" {
		for name, value := range s.component.Env {
			env = append(env, name+"="+value)
		}
		// The component starts in a directory that holds only the files that the experiment gives it.
		if len(s.component.Files) > 0 {
			call.Dir = filepath.Join(v.given.Layout.Scratch, "files", v.given.Layout.number(v.Name), s.Role)
			call.Files = s.component.Files
		}
	}
	env = append(env, "DB_ROLE="+s.Role, "DB_BINARY="+s.Program, "DB_DATA_DIR="+filepath.Join(v.Data, s.Role),
		"DB_HOST="+s.address, "DB_URL="+v.URL(), "DB_WRITE_URL="+v.WriteURL(), "DB_PID="+strconv.Itoa(s.Pid),
		"DB_CACHE="+v.given.Plan.Queries.Cache, "DB_SETTLE="+v.given.Plan.Settle.Mode,
		"DB_TENANTS="+strconv.Itoa(v.given.Plan.Workload.Tenants), "TSBS_BIN="+v.given.Builds.TSBSBin)
	call.Env = append(append(env, s.portsAs("DB_PORT", "")...), c.Env...)
	for _, running := range v.Running {
		call.Env = append(call.Env, running.addresses()...)
	}
	return call
}

// portsAs are NAME=PORT and, of further ports, NAME_FURTHER=PORT, each with an address before the port.
func (s *Server) portsAs(name, address string) []string {
	env := []string{name + "=" + address + strconv.Itoa(s.port)}
	for further, port := range s.ports {
		env = append(env, name+"_"+variable(further)+"="+address+strconv.Itoa(port))
	}
	return env
}

// addresses tell the other components where this one is: DB_AT_ROLE=HOST:PORT, DB_AT_ROLE_NAME=HOST:PORT.
func (s *Server) addresses() []string {
	return s.portsAs("DB_AT_"+variable(s.Role), s.address+":")
}

func variable(name string) string { return strings.ToUpper(strings.ReplaceAll(name, "-", "_")) }

// ask calls a verb and returns its output. A verb that fails is a fault.
func (s *Server) ask(ctx context.Context, patience time.Duration, name string, env ...string) (string, error) {
	call := s.Command(Verb{name, nil, env})
	call.Patience = patience
	answer, err := machine.Run(ctx, call)
	if err != nil || ctx.Err() != nil {
		return "", cmp.Or(ctx.Err(), err)
	}
	switch {
	case answer.Flood:
		return "", bound.More(bound.Counters, s.variant.Target+"/"+name+": an output")
	case answer.Late:
		return "", checks.Faultf("%s/%s did not return within %v", s.variant.Target, name, patience)
	case answer.Code != 0:
		return "", checks.Faultf("%s/%s ended with %s: %s", s.variant.Target, name, logs.ExitWords(answer.Code),
			logs.WordsOf(answer.Err, answer.Out))
	}
	return string(answer.Out), nil
}

// findAddresses asks the adapter where clients reach the server.
func (s *Server) findAddresses(ctx context.Context) error {
	answer, err := s.ask(ctx, scrape.Timeout, "endpoints")
	if err != nil {
		return err
	}
	for line := range strings.Lines(answer) {
		switch purpose, url, _ := strings.Cut(strings.TrimSpace(line), " "); purpose {
		case "clients":
			s.Queries, s.Writes = url, url
		case "queries":
			s.Queries = url
		case "writes":
			s.Writes = url
		case "metrics":
			s.Metrics = url
		}
	}
	return nil
}

// Base is where the server's own pages are: http://HOST:PORT.
func (s *Server) Base() string {
	var host string
	if u, err := url.Parse(cmp.Or(s.Metrics, s.Queries, s.Writes)); err == nil {
		host = u.Host
	}
	return "http://" + host
}

// counters are the server's own: the text of /metrics, or the answer of its adapter. Of too much of it died tells.
func (s *Server) counters(ctx context.Context) (text []byte, err error) {
	if s.Metrics != "" {
		// A limit of the whole block is none of one answer.
		ctx, cancel := context.WithTimeout(ctx, scrape.Timeout)
		defer cancel()
		text, err = scrape.Fetch(ctx, s.Metrics)
	} else {
		answer, failed := s.ask(ctx, scrape.Timeout, "metrics")
		text, err = []byte(answer), failed
	}
	if _, much := errors.AsType[bound.Theirs](err); much {
		s.flood.Store(&checks.Fault{Message: fmt.Sprintf("the counters of the %s cannot be read: %v", s.Role, err)})
	}
	if s.hidden != nil { // a server may show its flags there
		text = []byte(s.hidden.Mask(string(text)))
	}
	return scrape.OfRole(s.Role, text), err
}

// listener is the process that listens at the server's port: the started one or one of its session. 0: none.
func (s *Server) listener() (pid int) {
	listeners := machine.Listeners(s.Process.Pid)
	for _, pid := range append([]int{s.Process.Pid}, slices.Sorted(maps.Keys(listeners))...) {
		if slices.ContainsFunc(listeners[pid], func(a netip.AddrPort) bool { return int(a.Port()) == s.port }) {
			return pid
		}
	}
	return 0
}

// LastWords are those of its log that say best why it ended.
func (s *Server) LastWords() string {
	_ = s.maskLog() // without it, the log as it is here
	return logs.LastWords(s.Log)
}

// maskLog brings a log that may have secrets into the run without them.
func (s *Server) maskLog() error {
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
	return os.WriteFile(s.Log, []byte(s.hidden.Mask(string(text))), 0o666)
}

// quietLog checks that the log was not too large, and has no line that the target calls trouble.
func (s *Server) quietLog() error {
	pattern, known := "^"+proc.TooMuchLog, s.variant.Module.Trouble
	if known != "" {
		pattern += "|" + known
	}
	trouble, err := regexp.Compile(pattern)
	if err != nil {
		return fmt.Errorf("the target's trouble: %w", err)
	}
	count, worst := int64(0), ""
	logs.Lines(func(line string) {
		if trouble.MatchString(line) {
			count, worst = count+1, cmp.Or(worst, line)
		}
	}, s.Log)
	if known == "" && count == 0 {
		return nil
	}
	wrong := "the server's log has a panic or a fatal error: " + scrape.OneLine(worst)
	if words := s.LastWords(); strings.HasPrefix(words, proc.TooMuchLog) { // it ended before anybody looked
		wrong = words
	}
	return s.variant.Equal("server_log", 0, count, "%s", wrong)
}

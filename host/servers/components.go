package servers

import (
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"tsduel/host/checks"
	"tsduel/host/exchange"
	"tsduel/host/machine"
	"tsduel/host/proc"
	"tsduel/host/record"
	"tsduel/host/scrape"
)

// Given is what the variants of a block have in common.
type Given struct {
	Plan        *record.Plan
	Builds      *record.Builds
	Hidden      *record.Hidden
	Layout      *Layout
	Adapters    string                                   // scripts/targets
	Note        func(variant, queryType, message string) // emits a remark
	OutOfMemory func() string                            // what the kernel has ended for want of memory, or nothing
}

// Variant is one side of a block, with its servers while they run.
type Variant struct {
	record.Variant
	Running
	checks.List
	Module       record.Target // what the database's module says
	Dir          string        // of its files in this block
	Data         string        // its databases, one directory a role
	Snapshots    *scrape.Snapshots
	Objects      map[string]int64       // that each component has allocated, as last read
	Instructions *exchange.Instructions // nil unless they are counted
	given        *Given
	seat         *seat   // where its programs lie; nil while none runs
	silent       *Server // the last one that did not answer with its counters
}

// New is a variant of which nothing runs. Its files are in dir, and its checks go into a block.
func New(v record.Variant, given *Given, dir string, in *record.Block) *Variant {
	return &Variant{Variant: v, given: given, Module: given.Plan.Targets[v.Target], Dir: dir,
		Data: given.Layout.DataDir("loaded", v.Name), Objects: map[string]int64{},
		List: checks.List{Of: v.Name, In: in, Mask: given.Hidden.Mask}}
}

// server is a component that does not run yet.
func (v *Variant) server(c record.Component) *Server {
	build := v.given.Builds.Variants[v.Name]
	s := &Server{variant: v, component: c, Role: c.Role, Program: build.Binary, ports: map[string]int{},
		address: machine.Address, hidden: v.given.Hidden}
	for _, built := range build.Components {
		if built.Role == c.Role {
			s.Program = built.Binary
		}
	}
	return s
}

// Server is one component that runs. Pid is the process that listens, which a wrapper may have started.
// Queries, Writes and Metrics are its URLs for clients, or empty.
type Server struct {
	Role                     string
	Log                      string
	Program                  string // its binary; after it is placed, the copy that runs
	Queries, Writes, Metrics string
	Pid                      int
	Process                  *proc.Process // nil of a deployment
	secretLog                string        // where the log lies with secrets, or empty
	variant                  *Variant
	component                record.Component
	address                  string
	port                     int
	ports                    map[string]int // its further ports, by name
	read                     time.Time      // when the counters of a deployment were last read
	began                    float64        // when the process of a deployment began, by its counters
	hidden                   *record.Hidden
	flood                    atomic.Pointer[checks.Fault] // it has sent more than is read
}

// Running are the components of a variant that run, those that take clients first.
type Running []*Server

// URL is where queries go: that of every replica, with commas between them.
func (all Running) URL() string { return all.urls(func(s *Server) string { return s.Queries }) }

func (all Running) WriteURL() string { return all.urls(func(s *Server) string { return s.Writes }) }

// Replicas is how many are not the first of their role: vminsert-2.
func (all Running) Replicas() (n int) {
	for _, s := range all {
		if replica.MatchString(s.Role) {
			n++
		}
	}
	return n
}

var replica = regexp.MustCompile(`-[2-9]$`)

func (all Running) urls(address func(*Server) string) string {
	var urls []string
	for _, s := range all {
		// A component of another role that takes clients, too, stands behind the first one.
		if url := address(s); url != "" && (len(urls) == 0 || replica.MatchString(s.Role)) {
			urls = append(urls, url)
		}
	}
	return strings.Join(urls, ",")
}

func (all Running) QueryServer() *Server {
	return all.first(func(s *Server) bool { return s.Queries != "" })
}

func (all Running) WriteServer() *Server {
	return all.first(func(s *Server) bool { return s.Writes != "" })
}

func (all Running) first(takes func(*Server) bool) *Server {
	if at := slices.IndexFunc(all, takes); at >= 0 {
		return all[at]
	}
	return &Server{} // none is up yet
}

func (s *Server) Deployed() bool { return s.component.URL != "" }

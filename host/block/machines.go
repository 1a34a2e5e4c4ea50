package block

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"tsduel/host/machine"
	"tsduel/host/record"
)

// machines are the hosts of a block: this one, and those that are lent to its driver.
type machines struct {
	topology record.Topology
	this     string                     // this host's name in the topology
	lent     *record.Lent               // nil if all components are on this host
	hosts    map[string]machine.Machine // by name; this host's is ""
	borrowed []*machine.There
	clients  []*machine.There // the borrowed hosts with a client
	oomKills float64          // of all hosts, before the block
}

// borrow reaches the hosts of a block; ctx ends if one is lost. hangUp has to be called, also after an error.
func borrow(ctx context.Context, spec *record.Spec) (*machines, context.Context, error) {
	m := &machines{topology: spec.Plan.Topology, this: spec.Host.Host, lent: spec.Lent}
	for _, host := range slices.Sorted(maps.Keys(m.topology)) {
		if host == m.this {
			continue
		}
		var remote *machine.There
		var err error
		if remote, ctx, err = machine.Borrow(ctx, m.lent, host); err != nil {
			return m, ctx, err
		}
		m.borrowed = append(m.borrowed, remote)
		if slices.Contains(m.topology[host], "client") {
			m.clients = append(m.clients, remote)
		}
	}
	m.hosts = map[string]machine.Machine{"": machine.NewHere(ctx, m.address(""))}
	for _, remote := range m.borrowed {
		m.hosts[remote.Host] = remote
	}
	m.oomKills = m.countOOMKills()
	return m, ctx, nil
}

func (m *machines) hangUp() {
	for _, remote := range m.borrowed {
		remote.HangUp()
	}
}

// lost is the error of a host that cannot be reached any more.
func (m *machines) lost() error {
	for _, remote := range m.borrowed {
		if err := remote.Reach(); err != nil {
			return err
		}
	}
	return nil
}

func (m *machines) address(host string) string {
	if m.lent == nil {
		return "127.0.0.1"
	}
	return m.lent.Hosts[cmp.Or(host, m.this)]
}

// on is the machine of a component, and its name in hosts.
func (m *machines) on(role string) (machine.Machine, string) {
	host := m.topology.On(role)
	if host == m.this {
		host = ""
	}
	return m.hosts[host], host
}

func (m *machines) arrange(fresh machine.Directories) (err error) {
	for _, host := range m.hosts {
		err = errors.Join(err, host.Prepare(fresh, &machine.None{}))
	}
	return err
}

// sync writes all that is pending to the disks, so that no machine does it while something is timed.
func (m *machines) sync(scratch string) (err error) {
	for _, host := range m.hosts {
		err = errors.Join(err, host.Sync(scratch, &machine.None{}))
	}
	return err
}

func (m *machines) countOOMKills() (sum float64) {
	for _, host := range m.hosts {
		var count float64
		_ = host.OOMKills(machine.None{}, &count)
		sum += count
	}
	return sum
}

// outOfMemory says that the kernel has killed a process for want of memory in this block, else nothing.
func (m *machines) outOfMemory() string {
	if m.countOOMKills() <= m.oomKills {
		return ""
	}
	return "; the kernel has ended a process for want of memory in this block: see dmesg, and take a larger machine " +
		"or fewer hosts"
}

// look reads every machine's counters, with those of the servers that run there.
func (m *machines) look(all ...*server) map[string]machine.Span {
	spans := map[string]machine.Span{}
	for name, host := range m.hosts {
		var span machine.Span
		for _, s := range all {
			if s.host == name {
				span.Pids = append(span.Pids, s.pid)
			}
		}
		if host.Look(span.Pids, &span.Edge) == nil {
			spans[name] = span
		}
	}
	return spans
}

// since is what has happened on this machine since a look, and on the others.
func (m *machines) since(edges map[string]machine.Span) (own *record.Noise, others map[string]*record.Noise) {
	others = map[string]*record.Noise{}
	for host, span := range edges {
		n := &record.Noise{}
		switch err := m.hosts[host].Since(span, n); {
		case err != nil: // the machine is lost, as the next call to it will say
		case host == "":
			own = n
		default:
			others[host] = n
		}
	}
	return own, others
}

package block

import (
	"path/filepath"

	"tsduel/host/profiles"
	"tsduel/host/record"
	"tsduel/host/servers"
)

// variant is one side in a block.
type variant struct {
	*servers.Variant
	in      *frame
	failed  bool
	lacking []string // optional counters that it does not have
}

func newVariant(f *frame, v record.Variant) *variant {
	return &variant{Variant: servers.New(v, f.given, filepath.Join(f.Dir, v.Name), f.block), in: f}
}

func (v *variant) begin(part, phase, queryType string) *span {
	s := v.in.begin(v.Name, part, phase, queryType)
	v.Enter(part, phase, queryType)
	return s
}

// endpoints are where profiles of the servers of variants are read.
func endpoints(variants ...*variant) (all []profiles.Endpoint) {
	for _, v := range variants {
		for _, s := range v.Running {
			all = append(all, profiles.Endpoint{Variant: v.Name, Role: s.Role, URL: s.Base() + v.Module.Pprof + "/"})
		}
	}
	return all
}

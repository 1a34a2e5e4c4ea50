package record

import "path/filepath"

// Spec is what the driver gives to whoever runs a block: what is asked, and where things are.
type Spec struct {
	Plan        *Plan
	Row         BlockRow
	Dir         string // the block's own, not published yet
	RunDir      string
	Scratch     string // databases and unpacked data lie here
	Cache       string
	Workload    *Workload    // nil for Go benchmarks
	Calibration *Calibration // nil in the warm-up
	Builds      *Builds
	Events      *Events
	Host        Facts
	Lent        *Lent // nil where all components are on this host
}

// Lent is RUN/lent.json: how a driver reaches the hosts that run components for it. It is for the user's eyes alone.
type Lent struct {
	Token string            `json:"token"`
	Port  int               `json:"port"`
	Hosts map[string]string `json:"hosts"` // private addresses, by name
}

// LoadLent reads it; nil for a run whose components are all on one host.
func LoadLent(runDir string, plan *Plan) (*Lent, error) {
	if len(plan.Topology) == 0 {
		return nil, nil
	}
	lent := &Lent{}
	path := filepath.Join(runDir, "lent.json")
	if err := ReadJSON(path, lent); err != nil {
		return nil, UserError("%s, which says where the other hosts of this run are, cannot be read (%v): run 'make provision' and 'make build' with RUN=%s", path, err, filepath.Base(runDir))
	}
	return lent, nil
}

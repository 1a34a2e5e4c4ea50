package record

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
}

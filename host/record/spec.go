package record

// Spec is what the driver gives to the function that runs a block.
type Spec struct {
	Plan        *Plan
	Row         BlockRow
	Dir         string // of the block, before it is published
	RunDir      string
	Raw         string // RUN_DIR/raw/HOST, which this host alone writes
	Scratch     string // for databases and unpacked data
	Cache       string
	Workload    *Workload    // nil for Go benchmarks
	Calibration *Calibration // nil in the warm-up
	Builds      *Builds
	Events      *Events
	Host        Facts
	Hidden      *Hidden // nil if the plan has no secret values
}

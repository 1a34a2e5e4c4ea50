package record

// UpgradeRecord is what variants did on copies of the data that the baseline has left; maps are by variant.
type UpgradeRecord struct {
	Copies    map[string]CopyRecord       `json:"copies"`
	Start     map[string]UpgradeStart     `json:"start"`
	Before    *DuelRecord                 `json:"before"` // on these data
	Ingest    map[string]SoloRecord       `json:"ingest"` // of as much again on top
	After     *DuelRecord                 `json:"after"`
	Sizes     map[string]map[string]int64 `json:"sizes"`     // after all of that
	Downgrade map[string]Downgrade        `json:"downgrade"` // by candidate
}

// Refused says why a variant did not start on what the baseline has left; empty where it did, or was not asked to.
func (b *Block) Refused(variant string) string {
	if b.Upgrade == nil {
		return ""
	}
	return b.Upgrade.Start[variant].Refused
}

// CopyRecord is how a directory was copied: files by hard links, and files by their bytes.
type CopyRecord struct {
	Linked  int     `json:"linked"`
	Copied  int     `json:"copied"`
	Bytes   int64   `json:"bytes"` // of all of them
	Seconds float64 `json:"seconds"`
}

// UpgradeStart is a first start on the baseline's data. Seconds are since then; CPU and bytes written to storage, until nothing was
// left to do.
type UpgradeStart struct {
	Refused      string  `json:"refused"` // its last words, where it does not start on them
	StartS       float64 `json:"start_s"`
	FirstAnswerS float64 `json:"first_answer_s"` // with data in it
	QuietS       float64 `json:"quiet_s"`
	CPUNS        int64   `json:"cpu_ns"`
	WrittenBytes int64   `json:"written_bytes"`
}

// Downgrade is the baseline on the directory that a candidate has left.
type Downgrade struct {
	Starts  bool               `json:"starts"`
	StartS  float64            `json:"start_s"`
	Said    string             `json:"said"` // its last words where it does not start, else its first complaint
	Answers []DowngradeAnswers `json:"answers"`
}

// DowngradeAnswers are those to queries of one window, held against the baseline's on a directory of its own.
type DowngradeAnswers struct {
	Window string `json:"window"` // old, half, new
	Asked  int    `json:"asked"`
	Same   int    `json:"same"`
	Empty  int    `json:"empty"`
	What   string `json:"what"` // the first difference, or why it answered no more
}

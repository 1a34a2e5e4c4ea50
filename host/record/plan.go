// Package record has the types of the files by which the stages communicate: it reads the plan, and writes
// blocks, events and judgements. Times are seconds since the epoch and durations are seconds, unless a name
// says otherwise.
package record

import (
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Deployed says that the servers run already: nothing of them is ours.
func (p *Plan) Deployed() bool {
	runs := func(c Component) bool { return c.URL != "" }
	return slices.ContainsFunc(p.Variants, func(v Variant) bool { return slices.ContainsFunc(v.Components, runs) })
}

// TSBS returns TSBS's name of a query type, without the window.
func (q QueryType) TSBS() string {
	name, _, _ := strings.Cut(q.Name, "@")
	return name
}

// BlockRow is a line of plan/blocks.tsv. Kind is warmup, measured or spare.
type BlockRow struct {
	Block    int
	Turn     int // index among the blocks of its host
	Host     string
	Kind     string
	Replaces int // for a spare block that is run: the spoilt block
	Coins
	QueryTypes []string
}

// Coins are the orders of the variants in a block, each drawn for itself: of loading, of placing and
// starting, of reading (counters, clocks, files), of asking. A spare block has none: it takes those of the
// block that it replaces.
type Coins struct {
	Order []string `json:"order"`
	Start []string `json:"start"`
	Read  []string `json:"read"`
	Ask   []string `json:"ask"`
}

// Roles are those of all components if a variant has several, else none.
func (p *Plan) Roles() (roles []string) {
	several := false
	for _, v := range p.Variants {
		several = several || len(v.Components) > 1
		for _, c := range v.Components {
			if !slices.Contains(roles, c.Role) {
				roles = append(roles, c.Role)
			}
		}
	}
	if !several {
		return nil
	}
	return roles
}

// Called says whether a counter's samples have this name: versions differ, so there may be several, joined by |.
func (c Counter) Called(name string) bool { return slices.Contains(strings.Split(c.Name, "|"), name) }

func (r BlockRow) Name() string { return fmt.Sprintf("%03d", r.Block) }

// Project is the directory with the adapters: each run has a copy of its own, which no later change reaches.
func Project(runDir string) string {
	return cmp.Or(os.Getenv("TSDUEL_PROJECT"), filepath.Join(runDir, "project"))
}

type Builds struct {
	TSBSBin  string // directory of TSBS's commands
	Variants map[string]Build
}

// Build is build/VARIANT.json; Binary is the program of the only or first component.
type Build struct {
	Binary     string  `json:"binary"`
	Components []Built `json:"components"`
}

type Built struct {
	Role   string `json:"role"`
	Binary string `json:"binary"`
}

// Method is what made a block besides its plan, by sha256: blocks of one run are compared, so all have the same.
type Method struct {
	Agent    string            `json:"agent"`    // this program
	Adapters string            `json:"adapters"` // all files of scripts/targets and scripts/lib
	Programs map[string]string `json:"programs"` // by VARIANT, VARIANT/ROLE and tsbs/COMMAND
}

// MayBeEmpty says whether answers to a query type, over any window, may have no data.
func (p *Plan) MayBeEmpty(queryType string) bool {
	return p.has(queryType, func(t QueryType) bool { return t.MayBeEmpty })
}

// AllMayBeEmpty says whether all answers to a query type, over any window, may have no data.
func (p *Plan) AllMayBeEmpty(queryType string) bool {
	return p.has(queryType, func(t QueryType) bool { return t.Quiet })
}

func (p *Plan) has(queryType string, what func(QueryType) bool) bool {
	asked := QueryType{Name: queryType}.TSBS()
	return slices.ContainsFunc(p.Queries.Types, func(t QueryType) bool { return t.TSBS() == asked && what(t) })
}

func LoadPlan(runDir string) (*Plan, error) {
	path := filepath.Join(runDir, "plan", "experiment.json")
	plan := &Plan{}
	if err := ReadJSON(path, plan); os.IsNotExist(err) {
		return nil, UserError("%s is no run: there is no plan/experiment.json in it; 'make plan' makes one", runDir)
	} else if err != nil {
		return nil, UserError("%s cannot be read: %v; plan a new run", path, err)
	}
	if plan.PlanVersion != PlanVersion {
		return nil, UserError("%s has version %d of a plan, and this tsduel runs version %d: plan a new run",
			path, plan.PlanVersion, PlanVersion)
	}
	return plan, nil
}

// LoadRows reads the blocks of all hosts from plan/blocks.tsv, in its order.
func LoadRows(runDir string) ([]BlockRow, error) {
	path := filepath.Join(runDir, "plan", "blocks.tsv")
	file, err := os.Open(path)
	if err != nil {
		return nil, UserError("%s cannot be read: %v", path, err)
	}
	defer file.Close()
	table := csv.NewReader(file)
	table.Comma, table.FieldsPerRecord, table.LazyQuotes = '\t', 8, true
	_, noHeader := table.Read()
	lines, err := table.ReadAll()
	if err = errors.Join(noHeader, err); err != nil {
		return nil, UserError("%s cannot be read: %v; plan a new run", path, err)
	}
	var rows []BlockRow
	turns := map[string]int{}
	for _, field := range lines {
		block, err := strconv.Atoi(field[0])
		if err != nil {
			return nil, UserError("%s: %q is no number of a block; plan a new run", path, field[0])
		}
		row := BlockRow{Block: block, Turn: turns[field[1]], Host: field[1], Kind: field[2]}
		for at, list := range []*[]string{&row.Order, &row.Start, &row.Read, &row.Ask, &row.QueryTypes} {
			if text := field[3+at]; text != "" {
				*list = strings.Split(text, ",")
			}
		}
		turns[row.Host]++
		rows = append(rows, row)
	}
	return rows, nil
}

func LoadBuilds(runDir string, plan *Plan) (*Builds, error) {
	builds := &Builds{Variants: map[string]Build{}}
	for _, v := range plan.Variants {
		if plan.Deployed() {
			break
		}
		var b Build
		built := ReadJSON(filepath.Join(runDir, "build", v.Name+".json"), &b) == nil
		for _, part := range append(b.Components, Built{Binary: b.Binary}) {
			info, err := os.Stat(part.Binary)
			built = built && err == nil && info.Mode()&0o111 != 0
		}
		if !built {
			return nil, UserError("%s is not built: run 'make build RUN=%s'", v.Name, filepath.Base(runDir))
		}
		builds.Variants[v.Name] = b
	}
	if plan.Kind == "tsbs" {
		var t struct {
			BinDir string `json:"bin_dir"`
		}
		if err := ReadJSON(filepath.Join(runDir, "build", "tsbs.json"), &t); err != nil || t.BinDir == "" {
			return nil, UserError("TSBS is not built: run 'make build RUN=%s'", filepath.Base(runDir))
		}
		builds.TSBSBin = t.BinDir
	}
	return builds, nil
}

// Sleep waits for so long, unless ctx ends before.
func Sleep(ctx context.Context, length time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(length):
		return nil
	}
}

// Decimal writes a number for another program, in full and without an exponent.
func Decimal(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

func Seconds(s float64) time.Duration { return time.Duration(math.Round(s * float64(time.Second))) }

// Epoch converts a time to seconds since the epoch, to the microsecond.
func Epoch(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }

package block

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tsduel/host/checks"
	"tsduel/host/record"
)

// faults are what is wrong with queries of the user, by variant. A sitting asks all of them before it fails, so that
// all are named at once.
type faults map[string][]string

// keep keeps a fault of the query that a variant is asked, and returns any other error.
func (all faults) keep(v *variant, err error) error {
	broken, is := errors.AsType[*checks.Fault](err)
	at := slices.IndexFunc(v.in.Plan.Queries.Types, func(t record.QueryType) bool { return t.Name == v.QueryType })
	if !is || at < 0 || v.in.Plan.Queries.Types[at].Own == "" {
		return err
	}
	message := v.in.Plan.Queries.Types[at].Own + ": " + broken.Message
	if w := v.in.Plan.Workload; strings.HasSuffix(message, "have no data") { // as where times are in another unit
		message += fmt.Sprintf(" in the plan's window, %s to %s", w.Start.Format(time.RFC3339), w.End.Format(time.RFC3339))
	}
	all[v.Name] = append(all[v.Name], message)
	return nil
}

// keepRefused keeps the fault of a query that a server has refused and lived.
func (all faults) keepRefused(v *variant, failure string, err error) error {
	if strings.Contains(failure, "): HTTP 4") && v.Died() == nil {
		return all.keep(v, err)
	}
	return err
}

// of is the fault of a variant with all that was kept of it, or nil.
func (all faults) of(v *variant) error {
	if len(all[v.Name]) == 0 {
		return nil
	}
	return checks.Faultf("%s", strings.Join(all[v.Name], "\n"))
}

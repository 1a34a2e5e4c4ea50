package block

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"tsduel/host/profiles"
	"tsduel/host/record"
)

// Profile runs one more block, which is not measured, and profiles its servers into raw/HOST/profiles. It is no
// error if a profile cannot be read: profiles.json and a note say why.
func Profile(ctx context.Context, spec record.Spec) error {
	final := filepath.Join(spec.Raw, "profiles")
	if len(spec.Plan.Profile) == 0 {
		return nil
	}
	plan, events := *spec.Plan, spec.Events
	plan.Noise, plan.Mixed, plan.Capacity, plan.Queries.Solo = nil, nil, nil, false
	spec.Plan, spec.Dir = &plan, final+".partial"
	// The block has its own log; the run's events show it as one phase.
	spec.Events = record.NewEvents(spec.Dir, filepath.Join(spec.Dir, "raw"), true)
	spec.Events.Hide(spec.Hidden)
	spec.Row = record.BlockRow{Host: spec.Host.Host, Kind: "profile"}
	for _, v := range plan.Variants {
		spec.Row.Order = append(spec.Row.Order, v.Name)
	}
	for _, t := range plan.Queries.Types {
		spec.Row.QueryTypes = append(spec.Row.QueryTypes, t.Name)
	}
	if err := errors.Join(record.RemoveTree(spec.Dir), os.Mkdir(spec.Dir, 0o755)); err != nil {
		return err
	}
	var works []string
	if plan.Duel.Enabled && plan.Duel.Batches {
		works = append(works, "ingestion")
	}
	if plan.Design.Reload != "once" {
		works = append(works, "load")
	}
	if plan.Duel.Enabled {
		works = append(works, "queries")
	}
	p := profiles.NewReader(plan.Profile, works)
	phase := record.Phase{Part: "servers", Phase: "profile", Begin: record.Epoch(time.Now())}
	events.Emit("phase-start", record.PhaseFields(phase))
	b, err := runBlock(ctx, spec, p)
	if err != nil {
		return err
	}
	kept, err := p.Keep(plan.Variants, spec.Dir, b)
	for i := range kept {
		e := &kept[i]
		e.Why = spec.Hidden.Mask(e.Why)
		if e.Why != "" {
			events.Emit("note", record.Fields{"variant": e.Variant, "message": fmt.Sprintf(
				"there is no %s profile of its %s (%s): %s", e.Kind, e.Work, e.Role, e.Why)})
		}
	}
	phase.End = record.Epoch(time.Now())
	events.Emit("phase-end", record.PhaseFields(phase))
	index := record.Profiles{Schema: 1, Profiles: kept}
	err = errors.Join(err, record.WriteJSON(filepath.Join(spec.Dir, "block.json"), b),
		record.WriteJSON(filepath.Join(spec.Dir, "profiles.json"), index))
	if err != nil {
		return err
	}
	return record.Publish(spec.Dir, final)
}

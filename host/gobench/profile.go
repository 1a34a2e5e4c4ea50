package gobench

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

// Profile runs, after all blocks, the benchmarks that all variants have once more, as often as in a block, with the profiles that
// gobench.profile asks for: raw/profiles/VARIANT.KIND.pprof, once. The same work on every side, else a difference would be one of
// operations; what profiling costs touches nothing that is compared.
func Profile(ctx context.Context, spec record.Spec) error {
	final := filepath.Join(spec.RunDir, "raw", "profiles")
	if _, err := os.Stat(final); err == nil || len(spec.Plan.GoBench.Profile) == 0 {
		return nil
	}
	partial := final + ".partial"
	if err := record.RemoveTree(partial); err != nil {
		return err
	}
	var kept []record.Profile
	for _, v := range spec.Plan.Variants {
		p := record.Phase{Variant: v.Name, Part: record.Bench, Phase: "profile", Attempts: 1}
		spec.Events.Emit("phase-start", record.PhaseFields(p))
		p.Begin = record.Epoch(time.Now())
		found, err := profileVariant(ctx, &spec, v.Name, partial)
		if err != nil {
			return fmt.Errorf("profiling %s: %w", v.Name, err)
		}
		kept = append(kept, found...)
		p.End = record.Epoch(time.Now())
		spec.Events.Emit("phase-end", record.PhaseFields(p))
	}
	err := errors.Join(record.Wipe(filepath.Join(spec.Scratch, "bench")), record.WriteJSON(filepath.Join(partial, "profiles.json"), record.Profiles{Schema: 1, Profiles: kept}))
	if err != nil {
		return err
	}
	return record.Publish(partial, final)
}

func profileVariant(ctx context.Context, spec *record.Spec, variant, dir string) (kept []record.Profile, err error) {
	s, err := open(spec, variant, dir)
	if err != nil {
		return nil, err
	}
	defer s.close()
	single := filepath.Join(dir, "single")
	if err := os.MkdirAll(single, 0o755); err != nil {
		return nil, err
	}
	defer os.RemoveAll(single)
	sums := make([]profiles.Sum, len(spec.Plan.GoBench.Profile))
	for _, row := range spec.Calibration.Rows {
		if len(row.Names) < len(spec.Plan.Variants) {
			continue
		}
		name := row.Names[variant]
		// Finer than Go's own rate, since a short benchmark gives few samples, and nothing is timed here.
		flags := []string{"-test.bench=" + alone(name), fmt.Sprintf("-test.benchtime=%dx", row.Count*int64(max(1, row.Parts))), "-test.memprofilerate=32768"}
		for _, kind := range spec.Plan.GoBench.Profile {
			flags = append(flags, "-test."+kind+"profile="+filepath.Join(single, kind))
		}
		if _, err := s.bench(ctx, "the profiled "+name, flags...); err != nil {
			return nil, err
		}
		for i, kind := range spec.Plan.GoBench.Profile {
			text, err := os.ReadFile(filepath.Join(single, kind))
			if err != nil {
				return nil, err
			}
			if err := sums[i].Add(text); err != nil {
				return nil, fmt.Errorf("reading the %s profile of %s: %w", kind, name, err)
			}
		}
	}
	for i, kind := range spec.Plan.GoBench.Profile {
		one := record.Profile{Variant: variant, Kind: kind, File: variant + "." + kind}
		if err := sums[i].Write(filepath.Join(dir, one.File)); errors.Is(err, profiles.ErrEmpty) {
			one.File, one.Why = "", err.Error()+": the benchmarks are too short for it"
		} else if err != nil {
			return nil, err
		}
		kept = append(kept, one)
	}
	return kept, os.Remove(filepath.Join(dir, "outputs.tsv"))
}

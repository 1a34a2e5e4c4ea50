package gobench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"tsduel/host/bound"
	"tsduel/host/profiles"
	"tsduel/host/record"
)

// Profile profiles, after all blocks, the benchmarks that all variants have, and writes
// raw/HOST/profiles/VARIANT.KIND.pprof for each kind of gobench.profile. Every variant does as many operations as
// in a block, so profiles can be compared.
func Profile(ctx context.Context, spec record.Spec) error {
	final := filepath.Join(spec.Raw, "profiles")
	if len(spec.Plan.GoBench.Profile) == 0 {
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
		made, err := profileVariant(ctx, &spec, v.Name, partial)
		if err != nil {
			return fmt.Errorf("profiling %s: %w", v.Name, err)
		}
		kept = append(kept, made...)
		p.End = record.Epoch(time.Now())
		spec.Events.Emit("phase-end", record.PhaseFields(p))
	}
	all := record.Profiles{Schema: 1, Profiles: kept}
	if err := errors.Join(tidyUp(&spec), record.WriteJSON(filepath.Join(partial, "profiles.json"), all)); err != nil {
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
		// The memory profile is finer than Go's default, since a short benchmark has few samples.
		flags := []string{"-test.bench=" + pattern(name), "-test.memprofilerate=32768",
			fmt.Sprintf("-test.benchtime=%dx", row.Count*int64(row.Parts))}
		for _, kind := range spec.Plan.GoBench.Profile {
			flags = append(flags, "-test."+kind+"profile="+filepath.Join(single, kind))
		}
		if _, err := s.bench(ctx, "the profiled "+name, flags...); err != nil {
			return nil, err
		}
		for i, kind := range spec.Plan.GoBench.Profile {
			text, err := bound.File(filepath.Join(single, kind), bound.Profile, "a profile")
			if err != nil {
				return nil, err
			}
			if err := sums[i].Add(text); err != nil {
				return nil, fmt.Errorf("reading the %s profile of %s: %w", kind, name, err)
			}
		}
	}
	for i, kind := range spec.Plan.GoBench.Profile {
		p := record.Profile{Variant: variant, Kind: kind, File: variant + "." + kind}
		if err := sums[i].Write(filepath.Join(dir, p.File)); errors.Is(err, profiles.ErrEmpty) {
			p.File, p.Why = "", err.Error()+": the benchmarks are too short for it"
		} else if err != nil {
			return nil, err
		}
		kept = append(kept, p)
	}
	return kept, os.Remove(filepath.Join(dir, "outputs.tsv"))
}

package block

import (
	"slices"
	"testing"

	"tsduel/host/record"
	"tsduel/host/servers"
)

// counting is a sitting of a block whose plan counts a third of five query types.
func counting(block int, which string) *sitting {
	plan := &record.Plan{Variants: []record.Variant{{Name: "b"}}}
	plan.Duel.Work = which
	for _, name := range []string{"p", "q", "r", "s", "t"} {
		plan.Queries.Types = append(plan.Queries.Types, record.QueryType{Name: name})
	}
	f := &frame{Spec: record.Spec{Plan: plan, Row: record.BlockRow{Block: block}, Calibration: &record.Calibration{
		Reading: map[string]map[string]float64{"b": {"objects": 10}}}}}
	s := (&duel{in: f, types: []string{"t", "s", "r", "q", "p"}}).sitting(0)
	return s
}

// Three blocks count every type once; those that are counted come last, the others in the order that was drawn.
func TestEachBlockCountsAnotherThirdOfTheTypes(t *testing.T) {
	var counted []string
	for block := range 3 {
		s := counting(block+1, "third")
		for i, name := range countedLast(s) {
			if counts(s, name) {
				if counted = append(counted, name); i < 3 {
					t.Errorf("%s is counted in place %d", name, i)
				}
			}
		}
	}
	slices.Sort(counted)
	if !slices.Equal(counted, []string{"p", "q", "r", "s", "t"}) {
		t.Error(counted)
	}
	if s := counting(1, "off"); counts(s, "p") || !slices.Equal(countedLast(s), s.types) {
		t.Error("counted, and off")
	}
	later := counting(1, "all")
	if later.index = 1; counts(later, "p") {
		t.Error("counted in the second sitting")
	}
}

// Two readings at 10 objects each are not the work of a query; what is below them is none.
func TestWhatReadingCostsIsTakenOff(t *testing.T) {
	s := counting(1, "all")
	v := &variant{Variant: &servers.Variant{Variant: record.Variant{Name: "b"}}}
	v.Module.Counters = map[string]record.Counter{"objects": {Name: "n"}, "other": {Name: "m"}}
	s.bodies["b"] = []byte("n 130\nm 5\n")
	work := workOf(v, s, []byte("n 100\nm 0\n"), 2)
	if work["objects"] != 10 || work["other"] != 5 {
		t.Error(work)
	}
	if less := workOf(v, s, []byte("n 115\nm 0\n"), 2); less["objects"] != 0 {
		t.Error(less)
	}
}

// What one sitting has counted is not divided by the operations of all.
func TestWorkIsUnknownIfOneSittingOfSeveralHasNotCounted(t *testing.T) {
	s := counting(1, "all")
	s.in.Row.Read, s.uncounted = []string{"b"}, map[string]bool{}
	s.record = &record.DuelRecord{Counters: map[string]map[string]float64{}}
	v := &variant{Variant: &servers.Variant{Variant: record.Variant{Name: "b"}}, in: s.in}
	v.Module.Counters = map[string]record.Counter{"objects": {Name: "n"}}
	s.in.variants = map[string]*variant{"b": v}
	before := map[string][]byte{"b": []byte("n 100\n")}
	for _, sitting := range []struct {
		body  string
		known bool
	}{{"n 130\n", true}, {"", false}, {"n 130\n", false}} {
		if s.bodies["b"] = nil; sitting.body != "" {
			s.bodies["b"] = []byte(sitting.body)
		}
		if err := s.countTogether(t.Context(), before, nil); err != nil {
			t.Fatal(err)
		}
		if _, known := s.record.Counters["b"]["objects"]; known != sitting.known {
			t.Error(sitting, s.record.Counters)
		}
	}
}

// The queries that prime the caches are others than those that are counted, and what reading costs is in no figure.
func TestWhatIsCountedWasNotAskedBefore(t *testing.T) {
	f := duels(t)
	f.Plan.Duel.Work, f.Plan.Queries.Types = "all", []record.QueryType{{Name: types[0]}}
	f.Calibration.Reading = map[string]map[string]float64{"baseline": {"rows_read": 5}}
	b := fight(t, f)
	got, want := asked(t, f, "baseline"), slices.Concat(numbers("t", 120, primed), numbers("t", 80, 40))
	if !slices.Equal(got, want) {
		t.Errorf("asked %v, and not %v", got, want)
	}
	of := b.Duel.Types[0].Counters
	if of["candidate"]["rows_read"]-of["baseline"]["rows_read"] != 5 || of["candidate"]["rows_read"] < 40 {
		t.Errorf("counted %v", of)
	}
}

// A queue is looked at until it is empty, and each look reads the counters.
func TestLooksAtAQueueAreNoWorkOfIngestion(t *testing.T) {
	v := &variant{Variant: &servers.Variant{Variant: record.Variant{Name: "b"}}}
	v.Module.Counters = map[string]record.Counter{"objects": {Name: "n"}}
	for looks, want := range map[int]float64{0: 70, 2: 50} {
		i := &ingestion{sitting: counting(1, "all"), before: map[string][]byte{"b": []byte("n 100\n")}, read: 1,
			looks: map[string]int{"b": looks}}
		i.readings, i.bodies["b"] = 3, []byte("n 190\n")
		if work := i.work(v); work["objects"] != want {
			t.Errorf("%d looks: %v", looks, work)
		}
	}
}

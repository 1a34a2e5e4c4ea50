package profiles

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/google/pprof/profile"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// pprof makes a profile of pairs: a stack, innermost first, each place with its inlined functions, and its
// values.
func pprof(t *testing.T, types []string, period int64, of ...any) []byte {
	t.Helper()
	p := &profile.Profile{Period: period, PeriodType: &profile.ValueType{Type: types[0], Unit: "x"}}
	for _, name := range types {
		p.SampleType = append(p.SampleType, &profile.ValueType{Type: name, Unit: "unit of " + name})
	}
	functions := map[string]*profile.Function{}
	for i := 0; i < len(of); i += 2 {
		s := &profile.Sample{Value: of[i+1].([]int64)}
		for _, place := range of[i].([][]string) {
			at := &profile.Location{ID: uint64(len(p.Location) + 1)}
			for _, name := range place {
				if functions[name] == nil {
					functions[name] = &profile.Function{ID: uint64(len(functions) + 1), Name: name}
					p.Function = append(p.Function, functions[name])
				}
				at.Line = append(at.Line, profile.Line{Function: functions[name]})
			}
			p.Location = append(p.Location, at)
			s.Location = append(s.Location, at)
		}
		p.Sample = append(p.Sample, s)
	}
	var text bytes.Buffer
	must(t, p.Write(&text))
	return text.Bytes()
}

func written(t *testing.T, s *Sum) (found stacks) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "p")
	must(t, s.Write(path))
	file, err := os.Open(path + ".stacks.json.gz")
	must(t, err)
	defer file.Close()
	unpack, err := gzip.NewReader(file)
	must(t, err)
	must(t, json.NewDecoder(unpack).Decode(&found))
	text, err := os.ReadFile(path + ".pprof")
	must(t, err)
	_, err = profile.ParseData(text)
	must(t, err)
	return found
}

// CPU profiles add up. Stacks with the same names of functions are one, inlined functions have names, and
// stacks of pprof itself are left out.
func TestWindowsAddUp(t *testing.T) {
	var s Sum
	for range 2 {
		err := s.Add(pprof(t, []string{"samples", "cpu"}, 10,
			[][]string{{"time.Now", "pkg.slow"}, {"main.main"}}, []int64{3, 30},
			[][]string{{"time.Now", "pkg.slow"}, {"main.main"}}, []int64{1, 10},
			[][]string{{"compress/flate.(*Writer).Write"}, {"runtime/pprof.(*profileBuilder).build"}, {"main.main"}},
			[]int64{9, 90}))
		must(t, err)
	}
	want := stacks{Period: 10, Values: []string{"cpu"}, Units: []string{"unit of cpu"},
		Functions: []string{"main.main", "pkg.slow", "time.Now", "runtime/pprof.(*profileBuilder).build",
			"compress/flate.(*Writer).Write"},
		Stacks: []*stack{{Of: []int{0, 1, 2}, Values: []int64{80}}}}
	if found := written(t, &s); !reflect.DeepEqual(found, want) {
		t.Errorf("%+v %+v", found, found.Stacks[0])
	}
}

// A sample without names keeps its cost as that of an unknown function.
func TestAStackWithoutANameIsOfAnUnknownFunction(t *testing.T) {
	var s Sum
	if err := s.Add(pprof(t, []string{"cpu"}, 10, [][]string{}, []int64{20}, [][]string{{}}, []int64{30})); err != nil {
		t.Fatal(err)
	}
	found := written(t, &s)
	if want := []*stack{{Of: []int{0}, Values: []int64{50}}}; !reflect.DeepEqual(found.Stacks, want) ||
		found.Functions[0] != "[unknown]" {
		t.Errorf("%+v %+v", found, found.Stacks[0])
	}
}

// A stack that no Go program has is cut: plots/ draws it one inside the other.
func TestTheInnermostFunctionsOfADeepStackAreKept(t *testing.T) {
	stack := [][]string{{"inner"}}
	for range 2 * deepest {
		stack = append(stack, []string{"outer"})
	}
	var s Sum
	must(t, s.Add(pprof(t, []string{"cpu"}, 10, stack, []int64{20})))
	found := written(t, &s)
	if of := found.Stacks[0].Of; len(of) != deepest || found.Functions[of[deepest-1]] != "inner" {
		t.Errorf("%d functions, %v", len(of), found.Functions)
	}
}

// Counts since the start of a process are added by their differences. Memory in use is that of the last
// profile.
func TestGrowthIsOfTheWorkAlone(t *testing.T) {
	heap := func(allocated, held int64) []byte {
		return pprof(t, []string{"alloc_objects", "alloc_space", "inuse_objects", "inuse_space"}, 512, [][]string{{"pkg.f"}},
			[]int64{1, allocated, 1, held})
	}
	var s Sum
	must(t, errors.Join(s.Grown(heap(100, 70), heap(150, 20)), s.Grown(heap(1000, 5), heap(1007, 9))))
	found := written(t, &s)
	if !reflect.DeepEqual(found.Values, []string{"alloc_space", "inuse_space"}) ||
		!reflect.DeepEqual(found.Stacks[0].Values, []int64{57, 9}) {
		t.Errorf("%+v %+v", found, found.Stacks[0])
	}
}

// A profile without samples is ErrEmpty, one with less than none ErrNegative, another text is an error, and all write
// no file.
func TestNothingAndNonsense(t *testing.T) {
	var s Sum
	path := filepath.Join(t.TempDir(), "p")
	if err := s.Write(path); !errors.Is(err, ErrEmpty) {
		t.Error(err)
	}
	must(t, s.Add(pprof(t, []string{"contentions", "delay"}, 1)))
	if err := s.Write(path); !errors.Is(err, ErrEmpty) {
		t.Error(err)
	}
	var negative Sum
	must(t, negative.Add(pprof(t, []string{"cpu"}, 1, [][]string{{"f"}}, []int64{-5})))
	if err := negative.Write(path); !errors.Is(err, ErrNegative) {
		t.Error(err)
	}
	if err := s.Add([]byte("<html>no</html>")); err == nil {
		t.Error("a page was taken for a profile")
	}
	if left, _ := filepath.Glob(path + "*"); left != nil {
		t.Error(left)
	}
}

// The next window begins when the one before would have ended.
func TestAServerThatAnswersAtOnceIsNotAskedWithoutEnd(t *testing.T) {
	text, asked := pprof(t, []string{"samples", "cpu"}, 10, [][]string{{"main.main"}}, []int64{1, 10}), 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		_, _ = w.Write(text)
	}))
	defer server.Close()
	reader := NewReader([]string{"cpu"}, []string{"query"})
	end := reader.Read(t.Context(), "query", time.Second, Endpoint{"b", "server", server.URL + "/"})
	time.Sleep(300 * time.Millisecond)
	end(1)
	if e := reader.entry("b", "query", "server", "cpu"); asked != 1 || e.Why != "" {
		t.Error(asked, e.Why)
	}
}

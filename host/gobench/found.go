package gobench

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"tsduel/host/proc"
)

// outcome is what became of a benchmark in the warm-up; why is empty if it printed a result.
type outcome struct {
	name, why string
	skipped   bool
}

// found is what the warm-up of a variant found. ended says why the benchmarks that did not begin were not run,
// "" if all were; own are names in lines like results that a benchmark printed itself.
type found struct {
	outcomes []outcome
	begun    []string
	ended    string
	own      []string
}

var (
	mark   = regexp.MustCompile(`(?m)--- (FAIL|SKIP): (Benchmark\S*?)(-\d+)?(?: \(.*)?\r?$`)
	allRan = regexp.MustCompile(`(?m)(PASS|FAIL)\r?$`)
)

// outcomes reads the output of a warm-up that ended so, as in "ended with exit code 2: panic: no such shard".
func outcomes(o output, so string) (f found) {
	printed, marked := map[string]bool{}, map[string]string{}
	for _, r := range o.results {
		printed[r.name] = true
	}
	f.own = o.own
	rest := o.text // behind the last one's name: others may print PASS, too
	for _, m := range started.FindAllStringSubmatchIndex(o.text, -1) {
		f.begun, rest = append(f.begun, o.text[m[2]:m[3]]), o.text[m[1]:]
	}
	for _, m := range mark.FindAllStringSubmatch(o.text, -1) {
		name := m[2] + m[3]
		if !slices.Contains(f.begun, name) {
			name = m[2] // -GOMAXPROCS is behind it
		}
		marked[name] = m[1]
	}
	ran := allRan.MatchString(rest)
	for _, name := range f.begun {
		inside := func(other string) bool { return strings.HasPrefix(other, name+"/") }
		reason := " " + troubleIn(between(o.text, name))
		switch is := marked[name]; {
		case slices.ContainsFunc(f.outcomes, func(o outcome) bool { return o.name == name }):
		case printed[name]:
			f.outcomes = append(f.outcomes, outcome{name: name})
		case slices.ContainsFunc(f.begun, inside) && (is == "" || anyMarked(marked, inside)):
		case is == "SKIP":
			f.outcomes = append(f.outcomes, outcome{name, name + " was skipped:" + reason, true})
		case is == "FAIL":
			f.outcomes = append(f.outcomes, outcome{name: name, why: name + " failed:" + reason})
		case !ran && name == f.begun[len(f.begun)-1]:
			f.outcomes = append(f.outcomes, outcome{name: name, why: name + " " + so})
			f.ended = name + " ended the process"
		}
	}
	if !ran {
		f.ended = cmp.Or(f.ended, "the process "+so)
	}
	return f
}

func anyMarked(marked map[string]string, inside func(string) bool) bool {
	for name := range marked {
		if inside(name) {
			return true
		}
	}
	return false
}

// between returns the output of a benchmark, from its name to its mark.
func between(text, name string) string {
	_, text, _ = strings.Cut("\n"+text, "\n"+name+"\n")
	if at := regexp.MustCompile(`--- \w+: ` + regexp.QuoteMeta(name) + `\b.*`).FindStringIndex(text); at != nil {
		return text[:at[1]]
	}
	return ""
}

// never adds the benchmarks of a pattern that were not run, of those that the binary has.
func (f *found) never(listed []string, pattern string) {
	top, err := regexp.Compile(strings.Split(pattern, "/")[0])
	for _, name := range listed {
		if err == nil && top.MatchString(name) && !slices.Contains(f.begun, name) {
			f.outcomes = append(f.outcomes, outcome{name: name, why: f.notRun(name)})
		}
	}
}

func (f *found) notRun(name string) string {
	return fmt.Sprintf("%s was not run, since %s", name, f.ended)
}

// output is the output of one process: text is its stdout, the bytes from..to of bench.txt.
type output struct {
	proc.Exit
	text     string
	from, to int64
	seconds  float64 // with making its directory
	results  []result
	own      []string // names in lines like results that a benchmark printed itself
}

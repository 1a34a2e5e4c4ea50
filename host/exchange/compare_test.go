package exchange

import (
	"fmt"
	"strings"
	"testing"
	"unicode"
)

// differing compares two answers to a GET of the path.
func differing(path string, r, q Reading, a, b []byte) string {
	asked := []Operation{{Path: path}}
	return differ(&side{Side: Side{Name: "B", Reading: r}, operations: asked, bodies: [][]byte{a}},
		&side{Side: Side{Name: "C", Reading: q}, operations: asked, bodies: [][]byte{b}}, 0)
}

// matrixOf is an answer with series like "h=1,x=2 60:5 120:6; h=2 60:7": tags, then points; "-" without tags.
func matrixOf(text string) []byte {
	var all []string
	for _, series := range strings.Split(text, "; ") {
		words := strings.Fields(series)
		tags, points := []string{}, []string{}
		for _, tag := range strings.Split(words[0], ",") {
			if name, value, has := strings.Cut(tag, "="); has {
				tags = append(tags, fmt.Sprintf("%q:%q", name, value))
			}
		}
		for _, point := range words[1:] {
			seconds, value, _ := strings.Cut(point, ":")
			points = append(points, fmt.Sprintf("[%s,%q]", seconds, value))
		}
		all = append(all, fmt.Sprintf(`{"metric":{%s},"values":[%s]}`, strings.Join(tags, ","), strings.Join(points, ",")))
	}
	return []byte(`{"status":"success","data":{"resultType":"matrix","result":[` + strings.Join(all, ",") + `]}}`)
}

func TestAnswersAreTheSameUpToWhatMayDiffer(t *testing.T) {
	plain := Reading{Answers: "prometheus"}
	for _, c := range []struct{ a, b, what string }{
		{"x=1 1:0.3; - 1:NaN", "- 1:NaN; x=1 1:0.30000000000000004", ""},
		{"- 1:1", "- 1:1.00000001", `series {}: at 1 the values are 1 and 1.00000001`},
		{"- 1:+Inf", "- 1:1", `series {}: at 1 the values are +Inf and 1`},
		{"- 1:1 2:1", "- 1:1", `series {}: it has 2 points and 1 points`},
		{"- 1.5:1", "- 2:1", `series {}: point 1 is at 1.5 and at 2`},
		{"a=b 1:1", "a=c 1:1", `series {a="b"} is only in the answer of B`},
	} {
		if got := differing("", plain, plain, matrixOf(c.a), matrixOf(c.b)); got != c.what {
			t.Errorf("%q and not %q", got, c.what)
		}
	}
	for _, data := range []string{`{"resultType":"vector","result":[{"metric":{},"value":[1,"1"]}]}`,
		`{"resultType":"scalar","result":[1,"1"]}`} {
		text := `{"status":"success","data":` + data + `}`
		other := strings.Replace(text, `"1"]`, `"2"]`, 1)
		if got := differing("", plain, plain, []byte(text), []byte(other)); got != "series {}: at 1 the values are 1 and 2" {
			t.Errorf("%q", got)
		}
		// Values without quotes are none of this API, and never equal by having no points.
		bare := strings.NewReplacer(`"1"]`, `1]`, `"2"]`, `2]`)
		got := differing("", plain, plain, []byte(bare.Replace(text)), []byte(bare.Replace(other)))
		if !strings.Contains(got, "is no point of an answer") {
			t.Errorf("%q", got)
		}
	}
	histogram := `{"data":{"resultType":"matrix","result":[{"metric":{},"histograms":[[1,{"count":"2","sum":"3"}]]}]}}`
	if got := differing("", plain, plain, []byte(histogram), []byte(strings.Replace(histogram, `"3"`, `"4"`, 1))); got !=
		`series {}: at 1 the values are {"count":"2","sum":"3"} and {"count":"2","sum":"4"}` {
		t.Errorf("%q", got)
	}
	if equalBut(volatile, []byte(matrix("2", 1)+"a"), []byte(matrix("2", 22)+"b")) ||
		!equalBut(volatile, []byte(matrix("2", 1)), []byte(matrix("2", 22))) {
		t.Error("only what is volatile may differ")
	}
}

func TestHowAnswersDifferIsShortAndPrintableWhateverTheServersSay(t *testing.T) {
	plain := Reading{Answers: "prometheus"}
	for _, answer := range []string{
		`{"data":{"resultType":"\u001b[2J","result":[]}}`,
		`{"data":{"result":[{"metric":{"a\u001b[2Jb":"c"},"value":[1,"1"]}]}}`,
		`{"data":{"result":[{"metric":{"a":"` + strings.Repeat("x", 200_000) + `"},"value":[1,"1"]}]}}`,
	} {
		got := differing("", plain, plain, []byte(answer), matrixOf("h=1 1:9"))
		if got == "" || len(got) > 400 || strings.ContainsFunc(got, unicode.IsControl) {
			t.Errorf("%.80q and another answer: %.500q", answer, got)
		}
	}
}

func TestOfSeriesThatTieForAPlaceOfTopkEitherMayBeChosen(t *testing.T) {
	first := `series {h="2"} is only in the answer of B`
	for _, c := range []struct{ path, a, b, what string }{
		{"topk%282%2C+x%29", "h=1 1:9; h=2 1:8", "h=1 1:9; h=3 1:8", ""},
		{"sum%28bottomk+by+%28h%29%282%2C+x%29%29", "h=2 1:8.000000000001", "h=3 1:8", ""},
		{"topk%282%2C+x%29", "h=1 1:9 2:9; h=2 1:8", "h=1 1:9 2:9; h=3 2:8", first}, // not at the same time
		{"topk%282%2C+x%29", "h=1 1:9; h=2 1:8", "h=1 1:9; h=3 1:7", first},
		{"topk%282%2C+x%29", "h=1 1:9; h=2 1:8", "h=1 1:9", first},
		{"topk%282%2C+x%29", "h=1 1:9; h=2 1:8", "h=1 1:8; h=2 1:9", `series {h="1"}: at 1 the values are 9 and 8`},
		{"topk%282%2C+x%29", "h=1 1:8 2:9; h=2 1:9 2:8", "h=1 1:8 2:9; h=2 1:9; h=3 2:8", ""},
		{"max%28x%29", "h=1 1:9; h=2 1:8", "h=1 1:9; h=3 1:8", first},
	} {
		if got := differing("/api/v1/query?query="+c.path, Reading{Answers: "prometheus"},
			Reading{Answers: "prometheus"}, matrixOf(c.a), matrixOf(c.b)); got != c.what {
			t.Errorf("%s, %s and %s: %q and not %q", c.path, c.a, c.b, got, c.what)
		}
	}
}

func TestAnswersOfDifferentDatabasesAreComparedAsFarAsTheyAgree(t *testing.T) {
	first := Reading{Answers: "prometheus", Prefix: "cpu_"}
	for _, c := range []struct {
		level      Level
		shift      float64
		a, b, what string
	}{
		{Values, 0, "__name__=cpu_x,h=1 60:1", "__name__=x,h=1 60:1.0", ""},
		{Values, 0, "__name__=cpu_x 60:1", "- 60:1", ""},
		{Values, 0, "__name__=cpu_x 60:1", "__name__=y 60:1", `series {__name__="x"} is only in the answer of B`},
		{Values, 60, "__name__=cpu_x 60:1 120:2", "__name__=x 0:1 60:2", ""},
		{Values, 60, "__name__=cpu_x 60:1 120:2", "__name__=x 0:1 60:3",
			`series {__name__="x"}: at 120 the values are 2 and 3`},
		{Values, 0, "__name__=cpu_x 60:1; __name__=cpu_y 60:1", "- 60:1",
			`series {__name__="x"} is only in the answer of B`},
		{Points, 0, "h=1 60:1 120:2", "h=1 0:5 60:6", ""},
		{Points, 0, "h=1 60:1 120:2", "h=1 0:5", `series {h="1"}: it has 2 points and 1 points`},
		{Series, 0, "h=1 60:1 120:2", "h=1 0:5", ""},
		{Series, 0, "h=1 60:1", "h=1 60:1; h=2 60:1", `series {h="2"} is only in the answer of C`},
		{Data, 0, "h=1 60:1", "h=2 60:1", ""},
	} {
		second := Reading{Answers: "prometheus", Level: c.level, Shift: c.shift}
		if got := differing("", first, second, matrixOf(c.a), matrixOf(c.b)); got != c.what {
			t.Errorf("%s: %q and not %q", c.level, got, c.what)
		}
	}
}

// Also if its series are equal: half of the data may be missing.
func TestAPartialAnswerAnotherKindAndASeriesTwiceAreNotTheSame(t *testing.T) {
	plain, whole := Reading{Answers: "prometheus"}, string(matrixOf("h=1 60:1"))
	for other, want := range map[string]string{
		strings.Replace(whole, `"success",`, `"success","isPartial":true,`, 1): "partial: true",
		strings.Replace(whole, `"matrix"`, `"vector"`, 1):                      "the other vector",
		string(matrixOf("h=1 60:1; h=1 60:1")):                                 "series {h=\"1\"} twice",
	} {
		if got := differing("", plain, plain, []byte(whole), []byte(other)); !strings.Contains(got, want) {
			t.Errorf("%q is not %q", got, want)
		}
	}
}

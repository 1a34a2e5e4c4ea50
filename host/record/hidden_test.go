package record

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A plan's names become the values of the cache, also names within values. Texts get them back, at equal length.
func TestRevealAndMask(t *testing.T) {
	cache := t.TempDir()
	outer, inner, short := "hidden-0000000a", "hidden-0000000b", "hidden-0000000c"
	values := map[string]string{outer: "user: me\npassword: " + inner + "\n", inner: `pl4nt3d "so"`, short: "12345678"}
	if err := os.Mkdir(filepath.Join(cache, "secrets"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, value := range values {
		if err := os.WriteFile(filepath.Join(cache, "secrets", name), []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	plan := &Plan{Variants: []Variant{{Components: []Component{{Flags: []string{"-x=1", "-password=" + inner},
		Env: map[string]string{"PIN": short}, Files: map[string]string{"auth.yml": outer}}}}}}
	h, err := plan.Reveal(cache)
	if err != nil {
		t.Fatal(err)
	}
	c := plan.Variants[0].Components[0]
	got := []string{c.Flags[1], c.Env["PIN"], c.Files["auth.yml"]}
	want := []string{`-password=pl4nt3d "so"`, "12345678", "user: me\npassword: pl4nt3d \"so\"\n"}
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("revealed: %q", got)
	}
	log := filepath.Join(t.TempDir(), "log")
	text := `a pl4nt3d "so" b pl4nt3d \"so\" c 12345678 d pl4nt3d+%22so%22` // a number cannot be told from a result
	if err := os.WriteFile(log, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := h.MaskFile(log); err != nil {
		t.Fatal(err)
	}
	masked, err := os.ReadFile(log)
	if err != nil || string(masked) != `a hidden-00000 b hidden-0000000 c 12345678 d hidden-0000000b*` {
		t.Errorf("masked: %q, %v", masked, err)
	}
	if err := os.Remove(filepath.Join(cache, "secrets", short)); err != nil {
		t.Fatal(err)
	}
	again := &Plan{Variants: []Variant{{Components: []Component{{Env: map[string]string{"PIN": short}}}}}}
	if _, err := again.Reveal(cache); err == nil || !strings.Contains(err.Error(), short+" of the plan cannot be read") {
		t.Errorf("a value that is gone: %v", err)
	}
	if none, err := (&Plan{}).Reveal(cache); none != nil || err != nil || none.Mask("x") != "x" {
		t.Errorf("a plan without secrets: %v, %v", none, err)
	}
}

package logs

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A server's last words are the crash before its stack, else the newest complaint, else the last line.
func TestLastWords(t *testing.T) {
	const unknown = "Error parsing command line arguments: unknown long flag '--no'"
	for _, c := range [][2]string{
		{"info: x\nflag provided but not defined: -no\nUsage:\n", "flag provided but not defined: -no"},
		{"T\tinfo\tup\nT\tfatal\tmain.go:7\tno space left\nT\tinfo\tbye\n", "T fatal main.go:7 no space left"},
		{"panic: index out of range\n\ngoroutine 7 [running]:\nmain.f()\n", "panic: index out of range"},
		{"T\twarn\told\nT\twarn\ttoo many series\nT\tinfo\tfine\n", "T warn too many series"},
		{unknown + "\nusage: prometheus [<flags>]\n\n\n", unknown},
		{"level=ERROR msg=\"no storage\"\nlevel=INFO msg=bye\n", "level=ERROR msg=\"no storage\""},
		{"T\tinfo\tone\nT\tinfo\ttwo\n", "T info two"},
		{"", "it said nothing"},
		{strings.Repeat("x", 1<<20) + "\nT\tinfo\ttwo\n", "T info two"},
		{"panic: " + strings.Repeat("x", 1<<20), "panic: " + strings.Repeat("x", 393)},
	} {
		log := filepath.Join(t.TempDir(), "001.partial", "server.log")
		check(t, os.MkdirAll(filepath.Dir(log), 0o755), os.WriteFile(log, []byte(c[0]), 0o644))
		want := c[1] + " (its log: " + strings.Replace(log, ".partial", "", 1) + ")"
		if got := LastWords(log); got != want {
			t.Errorf("of %q: %q", c[0], got)
		}
	}
}

// A client's words are what Go prints before its stack, or the last line that is not empty.
func TestClientWords(t *testing.T) {
	for text, want := range map[string]string{
		"panic: status 422\n\ngoroutine 1 [running]:\nmain.main()\n\t/x.go:7\n": "panic: status 422",
		"2026/11/20 dial tcp: connection refused\n\n":                           "2026/11/20 dial tcp: connection refused",
		"zstd: data.zst : Data corruption detected\nend\n":                      "zstd: data.zst : Data corruption detected",
		"": "it said nothing",
	} {
		path := filepath.Join(t.TempDir(), "err")
		check(t, os.WriteFile(path, []byte(text), 0o644))
		if got := ClientWords(path, filepath.Join(t.TempDir(), "absent")); got != want {
			t.Errorf("of %q: %q", text, got)
		}
	}
}

func check(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

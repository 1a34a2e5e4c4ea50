package block

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Of a server's log a crash before its stack, else the newest complaint, else the last line; and where the log will lie.
func TestLastWords(t *testing.T) {
	for text, want := range map[string]string{
		"info: x\nflag provided but not defined: -no\nUsage:\n":                                             "flag provided but not defined: -no",
		"T\tinfo\tup\nT\tfatal\tmain.go:7\tno space left\nT\tinfo\tbye\n":                                   "T fatal main.go:7 no space left",
		"panic: index out of range\n\ngoroutine 7 [running]:\nmain.f()\n":                                   "panic: index out of range",
		"T\twarn\told\nT\twarn\ttoo many series\nT\tinfo\tfine\n":                                           "T warn too many series",
		"Error parsing command line arguments: unknown long flag '--no'\nusage: prometheus [<flags>]\n\n\n": "Error parsing command line arguments: unknown long flag '--no'",
		"level=ERROR msg=\"opening storage failed\"\nlevel=INFO msg=bye\n":                                  "level=ERROR msg=\"opening storage failed\"",
		"T\tinfo\tone\nT\tinfo\ttwo\n":                                                                      "T info two",
		"":                                                                                                  "it said nothing",
	} {
		log := filepath.Join(t.TempDir(), "001.partial", "server.log")
		if err := os.MkdirAll(filepath.Dir(log), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(log, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := lastWords(&server{log: log, logThere: log}); got != want+" (its log: "+strings.Replace(log, ".partial", "", 1)+")" {
			t.Errorf("of %q: %q", text, got)
		}
	}
}

// Of a client what Go prints before its stack, or the last line that is not empty.
func TestClientWords(t *testing.T) {
	for text, want := range map[string]string{
		"panic: status 422\n\ngoroutine 1 [running]:\nmain.main()\n\t/x.go:7\n": "panic: status 422",
		"2026/11/20 14:00:00 dial tcp: connection refused\n\n":                  "2026/11/20 14:00:00 dial tcp: connection refused",
		"zstd: data.zst : Data corruption detected\nend\n":                      "zstd: data.zst : Data corruption detected",
		"": "it said nothing",
	} {
		path := filepath.Join(t.TempDir(), "err")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := clientWords(path, filepath.Join(t.TempDir(), "absent")); got != want {
			t.Errorf("of %q: %q", text, got)
		}
	}
}

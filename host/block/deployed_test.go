package block

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tsduel/host/record"
)

// deployments are two databases that a user has started, behind what asks for a login and counts requests by path.
// A plan asks them in its first block. lacks are counters that they do not have.
func deployments(t *testing.T, lacks ...string) (spec record.Spec, asked []map[string]int) {
	t.Helper()
	spec = fakes(t)
	spec.Plan.Queries.Solo, spec.Plan.Duel.Enabled, spec.Plan.Duel.Hold = false, true, false
	spec.Plan.Design.Reload, spec.Plan.Workload.BatchSize = "once", 10
	target := spec.Plan.Targets["fake"]
	target.Counters["rows_kept"] = record.Counter{Name: "vm_rows"}
	spec.Plan.Targets["fake"] = target
	for i := range spec.Plan.Variants {
		at := databaseOnAFreePort(t, spec, lacks)
		paths, proxy := map[string]int{}, httputil.NewSingleHostReverseProxy(must(url.Parse("http://"+at)))
		login := "Basic " + base64.StdEncoding.EncodeToString([]byte("me:a secret"))
		front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != login {
				http.Error(w, "who are you?", http.StatusUnauthorized)
				return
			}
			paths[r.URL.Path]++ // one client asks at a time
			proxy.ServeHTTP(w, r)
		}))
		t.Cleanup(front.Close)
		asked = append(asked, paths)
		c := &spec.Plan.Variants[i].Components[0]
		c.URL = strings.Replace(front.URL, "http://", "http://me:a%20secret@", 1)
		delete(spec.Builds.Variants, spec.Plan.Variants[i].Name)
	}
	return spec, asked
}

// databaseOnAFreePort starts a fake database, which says where it listens.
func databaseOnAFreePort(t *testing.T, spec record.Spec, lacks []string) string {
	t.Helper()
	server := exec.Command(filepath.Join(spec.Builds.TSBSBin, "database"), "-storageDataPath="+t.TempDir(),
		"-httpListenAddr=127.0.0.1:0")
	server.Env = append(os.Environ(), "FAKE_LACKS="+strings.Join(lacks, " "))
	output := must(server.StdoutPipe())
	check(t, server.Start())
	t.Cleanup(func() { _, _ = server.Process.Kill(), server.Wait() })
	for lines := bufio.NewScanner(output); lines.Scan(); {
		if at, found := strings.CutPrefix(lines.Text(), "address "); found {
			go func() { _, _ = io.Copy(io.Discard, output) }()
			return at
		}
	}
	t.Fatal("the fake database ended")
	return ""
}

// Deployments are asked with their login, compared and counted by their own /metrics; nothing is loaded, started or
// stopped.
func TestDeploymentsAreAsked(t *testing.T) {
	t.Parallel()
	spec, asked := deployments(t)
	b := run(t, spec)
	succeeded(t, b)
	checksPassed(t, b)
	for i, name := range []string{"baseline", "candidate"} {
		if asked[i]["/api/v1/query_range"] < 8 || asked[i]["/write"]+asked[i]["/internal/force_flush"] > 0 {
			t.Errorf("%s: %v", name, asked[i])
		}
		if kept := b.Duel.Types[0]; kept.CPUNS[name] <= 0 || kept.Compared < 8 || b.Duel.RSSBytes[name] != 1<<20 {
			t.Errorf("%s: %+v", name, kept)
		}
	}
	if len(b.Duel.RSSPeakBytes)+len(b.Duel.Places)+len(b.Solo) > 0 || b.Duel.Unheld == "" {
		t.Errorf("%+v", b.Duel)
	}
	if found := calls(spec); slices.ContainsFunc(found, func(verb string) bool { return verb != "endpoints" }) {
		t.Error(found)
	}
}

// What a deployment does not tell is missing, and no zero.
func TestWhatADeploymentDoesNotTell(t *testing.T) {
	t.Parallel()
	spec, _ := deployments(t, "process_cpu_seconds_total", "process_resident_memory_bytes")
	b := run(t, spec)
	succeeded(t, b)
	if kept := b.Duel.Types[0]; len(kept.CPUNS)+len(b.Duel.RSSBytes) > 0 || kept.Exchanges == 0 {
		t.Errorf("%+v", kept)
	}
	if said := events(spec); !strings.Contains(said,
		"what its server uses is not known: process_cpu_seconds_total is not in its /metrics") {
		t.Error(said)
	}
}

// A plan that loads does so once, in its first block, and only into servers that are empty.
func TestDeploymentsAreLoadedOnceIfTheyAreEmpty(t *testing.T) {
	t.Parallel()
	spec, asked := deployments(t)
	spec.Plan.Design.Load = record.InTurn
	b := run(t, spec)
	succeeded(t, b)
	checksPassed(t, b)
	if len(b.Duel.Load) != 1 || b.Duel.Load[0].Samples != lines48*10 || b.Duel.Types[0].Exchanges == 0 {
		t.Errorf("%+v", b.Duel)
	}
	written := fmt.Sprint(asked[0]["/write"], asked[1]["/write"])
	spec.Row.Block, spec.Row.Turn = 2, 1
	check(t, os.RemoveAll(spec.Dir), os.MkdirAll(spec.Dir, 0o755))
	if b := run(t, spec); len(b.Duel.Load) > 0 {
		t.Errorf("%+v", b.Duel.Load)
	}
	spec.Row.Turn, spec.Row.Order = 0, []string{"baseline", "candidate"}
	check(t, os.RemoveAll(spec.Dir), os.MkdirAll(spec.Dir, 0o755))
	_, err := Run(t.Context(), spec)
	if err == nil || err.Error() != "baseline has 480 rows already, and nothing is written to a server that has data: "+
		"if this run had begun to write them, empty it and type the same command again; else leave out "+
		"design.load: in_turn, and ask what is there" {
		t.Error(err)
	}
	if again := fmt.Sprint(asked[0]["/write"], asked[1]["/write"]); again != written || written == "0 0" {
		t.Errorf("%s writes, then %s", written, again)
	}
}

package block

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"tsduel/host/record"
)

func TestAdHoc(t *testing.T) {
	root := os.Getenv("G2")
	if root == "" {
		t.Skip()
	}
	var spec record.Spec
	text, _ := os.ReadFile(filepath.Join(root, "spec.json"))
	var in struct {
		Plan     *record.Plan
		Builds   *record.Builds
		Workload *record.Workload
		Row      record.BlockRow
	}
	if err := json.Unmarshal(text, &in); err != nil {
		t.Fatal(err)
	}
	spec = record.Spec{Plan: in.Plan, Row: in.Row, Builds: in.Builds, Workload: in.Workload, RunDir: root, Dir: filepath.Join(root, "raw", "001.partial"), Scratch: filepath.Join(root, "scratch"), Cache: root,
		Events: record.NewEvents(root, false)}
	os.MkdirAll(spec.Scratch, 0o700)
	os.RemoveAll(spec.Dir)
	os.MkdirAll(spec.Dir, 0o700)
	b, err := Run(context.Background(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := record.WriteJSON(filepath.Join(root, "block.json"), b); err != nil {
		t.Fatal(err)
	}
}

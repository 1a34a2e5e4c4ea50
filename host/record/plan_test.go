package record

import "testing"

// Types whose answers may have no data may have none over the windows of an upgrade, too.
func TestAnswersMayBeEmptyOverEveryWindow(t *testing.T) {
	plan := &Plan{Queries: Queries{Types: []QueryType{{Name: "high-cpu-1", MayBeEmpty: true}, {Name: "lastpoint"},
		{Name: "alert", MayBeEmpty: true, Quiet: true}}}}
	for queryType, want := range map[string]bool{"alert": true, "alert@half": true, "alert@new": true,
		"high-cpu-1": false, "high-cpu-1@half": false} {
		if plan.AllMayBeEmpty(queryType) != want {
			t.Errorf("all of %s: %v", queryType, !want)
		}
	}
	for queryType, want := range map[string]bool{"high-cpu-1": true, "high-cpu-1@half": true, "high-cpu-1@new": true,
		"lastpoint": false, "lastpoint@half": false, "high-cpu-all@half": false} {
		if plan.MayBeEmpty(queryType) != want {
			t.Errorf("%s: %v", queryType, !want)
		}
	}
}

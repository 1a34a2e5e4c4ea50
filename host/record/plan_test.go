package record

import "testing"

// Types whose answers may have no data may have none over the windows of an upgrade, too.
func TestAnswersMayBeEmptyOverEveryWindow(t *testing.T) {
	plan := &Plan{Queries: Queries{Types: []QueryType{{Name: "high-cpu-1", MayBeEmpty: true}, {Name: "lastpoint"}}}}
	for queryType, want := range map[string]bool{"high-cpu-1": true, "high-cpu-1@half": true, "high-cpu-1@new": true,
		"lastpoint": false, "lastpoint@half": false, "high-cpu-all@half": false} {
		if plan.MayBeEmpty(queryType) != want {
			t.Errorf("%s: %v", queryType, !want)
		}
	}
}

package engine

import (
	"encoding/json"
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// TestForward: letters go where their workflows are, in their order, and none is lost.
func TestForward(t *testing.T) {
	var letters []letter
	for i := range 6 {
		letters = append(letters, letter{Trigger: store.TriggerKey{Workflow: dag.WorkflowID(i % 3), Name: string(rune('a' + i))}})
	}
	letters = append(letters, letter{Word: &word{Kind: wordGrant, Claim: &dag.Claim{Queue: "q"}}}) // left out, because the rows contain everything
	payload, err := json.Marshal(letters)
	if err != nil {
		t.Fatal(err)
	}
	parts, err := Forward(payload, func(w dag.WorkflowID) dag.ShardID { return dag.ShardID(w % 2) })
	if err != nil || len(parts) != 2 {
		t.Fatalf("%d parts, %v", len(parts), err)
	}
	for shard, want := range map[dag.ShardID]string{0: "acdf", 1: "be"} {
		var some []letter
		if err := json.Unmarshal(parts[shard], &some); err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, l := range some {
			got += l.Trigger.Name
		}
		if got != want {
			t.Errorf("shard %d gets %s, want %s", shard, got, want)
		}
	}
	if _, err := Forward([]byte("no letter"), nil); err == nil {
		t.Error("nonsense was forwarded")
	}
}

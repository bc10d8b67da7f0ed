package engine

import (
	"encoding/json"
	"fmt"

	"skein.dev/skein/internal/dag"
)

// Forward divides a message between shards anew, for a database in which workflows belong to
// other shards than when it was written. It gives a payload for each shard with a letter. What
// is said of claims is left out: who loads the rows finds what they ask for, and what they have.
func Forward(payload []byte, home func(dag.WorkflowID) dag.ShardID) (map[dag.ShardID][]byte, error) {
	var letters []letter
	if err := json.Unmarshal(payload, &letters); err != nil {
		return nil, fmt.Errorf("a message makes no sense: %w", err)
	}
	by := map[dag.ShardID][]letter{}
	for _, l := range letters {
		if l.Word != nil {
			continue
		}
		about := l.Trigger.Workflow
		if l.Child != nil {
			about = l.Child.Workflow
		}
		to := home(about)
		by[to] = append(by[to], l)
	}
	out := make(map[dag.ShardID][]byte, len(by))
	for to, some := range by {
		text, err := json.Marshal(some)
		if err != nil {
			return nil, err
		}
		out[to] = text
	}
	return out, nil
}

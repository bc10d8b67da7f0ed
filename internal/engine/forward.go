package engine

import (
	"encoding/json"
	"fmt"

	"skein.dev/skein/internal/dag"
)

// Forward divides the content of a message between shards again. It is for a copy of the database in which
// workflows are in other shards than when the message was written. It returns a payload for each shard that
// gets a part. It leaves out messages about claims, because the node that loads the rows finds the claims of
// the runs in them.
func Forward(payload []byte, home func(dag.WorkflowID) dag.ShardID) (map[dag.ShardID][]byte, error) {
	var letters []letter
	if err := json.Unmarshal(payload, &letters); err != nil {
		return nil, fmt.Errorf("a message is invalid: %w", err)
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

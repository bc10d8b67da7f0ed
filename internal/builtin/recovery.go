// Package builtin has the workflows of the program itself. They are in the namespace system.
package builtin

import (
	"crypto/sha256"
	"encoding/json"
	"strings"

	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/workflow"
)

// recoverySource is the workflow that sweeps. Its builtin task is known to no other file.
const recoverySource = `namespace: system
name: recovery
description: Looks at every unfinished run, and has the owners repair what stands still. It should find nothing.
queue: system.recovery
priority: highest
triggers:
  - {name: minute, every: 1m, overlap: skip, catchup: none}
tasks:
  sweep: {builtin: recovery}
`

// Recovery is that workflow as it is applied.
func Recovery() (engine.Definition, error) {
	d := engine.Definition{Namespace: engine.SystemNamespace, Name: engine.RecoveryName, Source: []byte(recoverySource), User: "skein"}
	const builtin = "{builtin: recovery}"
	ws, faults := workflow.Parse([]byte(strings.Replace(recoverySource, builtin, `{run: "true"}`, 1)), workflow.Options{})
	if len(faults) > 0 {
		return d, faults
	}
	w := ws[0]
	w.Tasks[0].Run = workflow.Run{Builtin: engine.RecoveryName}
	g, err := w.Graph(0)
	if err != nil {
		return d, err
	}
	d.Graph = g.Pack()
	d.Def, err = json.Marshal(w)
	sum := sha256.Sum256(d.Def)
	d.Digest = sum[:]
	return d, err
}

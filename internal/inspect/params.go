package inspect

import (
	"context"
	"encoding/json"
	"strings"

	"skein.dev/skein/internal/dag"
)

// storedParams returns the parameters of a run, with *** instead of the values of type secret. In the row,
// such a value is a sealed text, or a plain text that the transaction of another program has inserted.
func (d *decoding) storedParams(ctx context.Context, row *dag.RunRow) string {
	var all map[string]any
	if json.Unmarshal(row.Params, &all) != nil || len(all) == 0 {
		return string(row.Params)
	}
	var def struct {
		Params []struct {
			Name string `json:"name"`
			Type string `json:"type"`
		} `json:"params"`
	}
	if v, err := d.rd.store.Version(ctx, row.Workflow, row.Version); err == nil {
		_ = json.Unmarshal(v.Def, &def) // the part about the graph reports damage
	}
	found := false
	hide := func(name string) { all[name], found = "***", true }
	for name, value := range all {
		if text, is := value.(string); is && strings.HasPrefix(text, "sealed:") {
			hide(name)
		}
	}
	for _, p := range def.Params {
		if p.Type == "secret" && all[p.Name] != nil {
			hide(p.Name)
		}
	}
	if !found {
		return string(row.Params) // the stored bytes, unchanged
	}
	out, err := json.Marshal(all)
	if err != nil {
		return ""
	}
	return string(out)
}

package engine

import (
	"context"
	"fmt"
	"strings"

	"skein.dev/skein/internal/dag"
)

// roomReason says what for a ready task waits that some worker could run: a slot or, if it takes
// cpu or memory, that.
func (e *Engine) roomReason(ctx context.Context, v *RunView, t *TaskView) (Reason, error) {
	const what = "it is ready and waits for a slot"
	if e.reads() {
		return e.slotReason(what, t.Modified), nil
	}
	g, err := e.graphOf(&v.RunRow)
	if err != nil {
		return Reason{}, err
	}
	p := g.Policy(t.ID).Place
	need := p.Need()
	if need.IsZero() {
		return e.slotReason(what, t.Modified), nil
	}
	there, err := e.there(ctx)
	if err != nil {
		return Reason{}, err
	}
	var holders []string
	for i := range there {
		m := &there[i]
		if m.Slots == 0 || !fits(p, m) || len(holders) == holdersShown {
			continue
		}
		used := m.Traits.Used
		if m.Name == e.cfg.Node {
			_, used = e.Room()
		}
		holders = append(holders, fmt.Sprintf("%s (cpu %s of %s taken, memory %s of %s)", m.Name, dag.Cores(used.CPU), dag.Cores(m.Traits.Room.CPU),
			dag.Bytes(used.Memory), dag.Bytes(m.Traits.Room.Memory)))
	}
	return Reason{Kind: "resources", What: fmt.Sprintf("%s and %s", what, need), Holder: strings.Join(holders, ", "), Since: t.Modified,
		Unblocks: "the end of attempts there that take cpu or memory; more of it: --cpu, --memory"}, nil
}

package skein

import (
	"context"
	"encoding/json"
	"fmt"
)

// Split is a run whose tasks are to be made: what the workflow was applied as, and what the run was started
// with. P is made of the parameters of the run, which must fit it exactly.
type Split[P any] struct {
	*Task   // the attempt that splits: run, workflow, instant, token, log
	Version int
	Params  P
	// With is further input from the file (splitter: {kind: …, with: …}), as JSON. It is nil if there is none.
	With json.RawMessage
}

// splitInput is the input of a kind for splitters.
type splitInput[P any] struct {
	Params  P               `json:"params"`
	Version int             `json:"version"`
	With    json.RawMessage `json:"with"`
}

type splitOutput struct {
	Tasks []entries `json:"tasks"`
}

// HandleSplitter registers a splitter: a kind that workflows name with splitter: in place of tasks. It is
// called once per run (and attempt), with a slot of the worker. It returns the tasks of the run with their
// edges, made with [NewTask]; no tasks is a success. Returned tasks are checked like those of a file; a fault
// fails the task work of the run. A planner compares the present state with the wanted one, and returns the
// tasks that lead from one to the other. The rules of [Handle] for functions and their errors hold for it,
// too.
func HandleSplitter[P any](w *Worker, kind string, split func(ctx context.Context, s *Split[P]) ([]*TaskDef, error)) {
	Handle(w, kind, func(ctx context.Context, t *Task, in splitInput[P]) (out splitOutput, err error) {
		defs, err := split(ctx, &Split[P]{Task: t, Version: in.Version, Params: in.Params, With: in.With})
		if err != nil {
			return out, err
		}
		names := map[string]bool{}
		out.Tasks = make([]entries, len(defs))
		for i, def := range defs {
			switch {
			case def == nil:
				return out, Permanent(fmt.Errorf("task %d of the splitter %s is nil", i, kind))
			case def.w.err != nil:
				return out, Permanent(fmt.Errorf("the splitter %s: %w", kind, def.w.err))
			case names[def.name]:
				return out, Permanent(fmt.Errorf("the splitter %s returned two tasks with the name %s", kind, def.name))
			}
			names[def.name] = true
			out.Tasks[i] = append(entries{{"name", def.name}}, def.keys...)
		}
		return out, nil
	})
}

// NewTask begins a task that belongs to no workflow yet, for the result of a splitter.
func NewTask(name string) *TaskDef { return &TaskDef{w: &Workflow{name: "of a splitter"}, name: name} }

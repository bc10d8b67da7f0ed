package skein

import (
	"context"
	"encoding/json"
	"fmt"
)

// Split is the input of a splitter: the run whose tasks the splitter makes, with the applied workflow and the
// values with which the run was started. The parameters of the run are decoded into P, and must fit P
// exactly.
type Split[P any] struct {
	*Task   // the attempt of the splitter: run, workflow, instant, token, log
	Version int
	Params  P
	// With is additional input from the file (splitter: {kind: …, with: …}), as JSON. It is nil if there is
	// none.
	With json.RawMessage
}

// splitInput is the input of a task function that splits.
type splitInput[P any] struct {
	Params  P               `json:"params"`
	Version int             `json:"version"`
	With    json.RawMessage `json:"with"`
}

type splitOutput struct {
	Tasks []entries `json:"tasks"`
}

// HandleSplitter registers a splitter: a kind that workflows name with splitter: instead of tasks. The
// function is called once per attempt to split a run, and uses a slot of the worker. It returns the tasks of
// the run with their edges, made with [NewTask]. A result without tasks is a success. The server checks
// returned tasks like those of a file. A fault fails the task work of the run.
//
// For example, a planner compares the present state with the wanted one, and returns the tasks that lead
// from one to the other.
//
// The rules of [Handle] for functions and their errors also apply here.
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

// NewTask begins a task that belongs to no workflow yet. A splitter returns such tasks.
func NewTask(name string) *TaskDef { return &TaskDef{w: &Workflow{name: "of a splitter"}, name: name} }

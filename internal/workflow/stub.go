package workflow

import (
	"encoding/json"
	"errors"
	"io/fs"
	"time"

	"skein.dev/skein/internal/dag"
)

// Options says how a file is read.
type Options struct {
	File     string // the name shown in errors
	Dir      fs.FS  // the folder beside the file, to check scripts and globs; nil: not checked. Use os.Root.FS
	TasksMax int    // 0 means dag.TasksMax
}

var errStub = errors.New("not written yet")

type exprCache struct{}

func newExprCache() *exprCache { return &exprCache{} }

// Parse reads a file: one or several YAML documents, one workflow each. It reports all
// errors at once; with errors the workflows are nil.
func Parse(src []byte, opt Options) ([]*Workflow, Errors) {
	return nil, Errors{{Message: errStub.Error()}}
}

// Compiler compiles conditions; equal texts share one program. The zero value is ready.
type Compiler struct{}

// Condition is a dag.Compiler.
func (c *Compiler) Condition(source string) (dag.Condition, error) { return nil, errStub }

// CompileCondition compiles one condition from its stored text.
func CompileCondition(source string) (dag.Condition, error) { return nil, errStub }

// CheckParams gives the parameters of a run: types, defaults, required and unknown ones.
func (w *Workflow) CheckParams(given map[string]any, at time.Time) (json.RawMessage, error) {
	return nil, errStub
}

// Inputs is what expressions see when an attempt is dispatched.
type Inputs struct {
	RunID       string
	Attempt     int
	Params      json.RawMessage
	TriggerTime time.Time
	Outputs     func(task string) (json.RawMessage, dag.TaskState)
}

// Resolved is what an attempt of a task executes.
type Resolved struct {
	Run Run
	Dir string
	Env []KV // of the workflow and the task, each name once, in order
}

// Resolve evaluates what an attempt of a task needs at dispatch.
func (w *Workflow) Resolve(task int, in Inputs) (Resolved, error) { return Resolved{}, errStub }

// ReadsOutputs names the tasks whose outputs or state Resolve will ask for.
func (w *Workflow) ReadsOutputs(task int) []string { return nil }

// CheckOutputs types what a task wrote to $SKEIN_OUTPUT: strings are converted to the
// declared types, keys that are not declared stay as they are.
func (w *Workflow) CheckOutputs(task int, given map[string]any) (json.RawMessage, error) {
	return nil, errStub
}

// Schema is the JSON Schema (2020-12) of the file.
func Schema() []byte { return []byte(`{}`) }

// File is one file that travels with a version.
type File struct {
	Name string      `json:"name"` // slashes, inside the folder
	Mode fs.FileMode `json:"mode"` // permission bits
	Data []byte      `json:"data"`
}

// CollectFiles reads the files that the globs name, in the order of their names.
func CollectFiles(dir fs.FS, globs []string) ([]File, error) { return nil, errStub }

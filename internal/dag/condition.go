package dag

// Condition decides whether a task whose needs are settled runs. It is compiled by another package and must
// be pure: the same view gives the same answer, on every node, at every reload.
type Condition interface {
	// Source returns the text from which the condition was compiled. Rows store this text.
	Source() string
	// Handles reports whether the condition names failure(), always() or the status of a task. A task with
	// such a condition waits until all of its needs are terminal, failed or not. Any other condition
	// implicitly means success() && condition.
	Handles() bool
	// Reads returns the states, outputs and parameters that the condition reads. Memory keeps only these.
	Reads() Reads
	// Holds evaluates the condition. An error fails the task with cause "condition". If the view is Light
	// and the evaluation costs more than StepCostMax, the error is ErrCostly.
	Holds(View) (bool, error)
}

// Reads lists the inputs of a condition: the states and outputs of tasks, and the parameters.
type Reads struct {
	Tasks  []string
	Params bool
}

// View holds the values that a condition can read.
type View struct {
	Success bool   // no needed task failed and at least one succeeded, or no task is needed
	Failure bool   // true if a needed task failed or is upstream_failed
	Params  []byte // a JSON object; nil if the condition does not read parameters
	Light   bool   // the evaluation happens inside a step: see StepCostMax
	// Task returns the state and the outputs (a JSON object or nil) of a task that Reads named. It is called
	// only for terminal tasks.
	Task func(name string) (TaskState, []byte)
}

// Compiler makes a condition from its stored text.
type Compiler func(source string) (Condition, error)

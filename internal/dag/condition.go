package dag

// Condition decides whether a task whose needs are settled runs. It is compiled outside
// and must be pure: the same view gives the same answer, on every node, at every reload.
type Condition interface {
	// Source is the text that the condition was compiled from. The text is stored.
	Source() string
	// Handles reports whether it names failure(), always() or a task's status. Such a task waits until all of its
	// needs are terminal, failed or not. Any other condition implicitly means success() && itself.
	Handles() bool
	// Reads returns the states, outputs and parameters that the condition reads, so that nothing else is kept
	// in memory.
	Reads() Reads
	// Holds evaluates it. An error fails the task with cause "condition". If the view is Light and the evaluation
	// costs more than StepCostMax, the error is ErrCostly.
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
	Failure bool   // at least one needed task failed or is upstream_failed
	Params  []byte // a JSON object; nil if the condition does not read parameters
	Light   bool   // evaluated inside of a step: see StepCostMax
	// Task gives the state of a task that Reads named and its outputs, a JSON object or
	// nil. Only tasks that are terminal are ever asked for.
	Task func(name string) (TaskState, []byte)
}

// Compiler makes a condition from its stored text.
type Compiler func(source string) (Condition, error)

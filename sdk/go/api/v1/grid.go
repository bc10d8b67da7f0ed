package api

// Grid holds the states of a workflow's tasks in several runs, the newest run first. The cells of a run are
// in the order of the tasks of Version.
type Grid struct {
	Version int32     `json:"version"`
	Tasks   int       `json:"tasks" doc:"Tasks of the version. Instances of foreach tasks are not among them."`
	States  []string  `json:"states" nullable:"false" doc:"The states that the numbers in cells stand for."`
	Runs    []GridRun `json:"runs" nullable:"false"`
	Next    *string   `json:"next" doc:"The cursor of the page of older runs; null: there is none."`
}

// GridRun is a column of a Grid.
type GridRun struct {
	ID         string `json:"id"`
	State      string `json:"state"`
	Version    int32  `json:"version"`
	Generation int32  `json:"generation"`
	Instant    Time   `json:"instant" format:"date-time"`
	StartedAt  *Time  `json:"started_at" format:"date-time"`
	FinishedAt *Time  `json:"finished_at" format:"date-time"`
	Cells      []byte `json:"cells" doc:"Spans of equal states: a byte, which is an index into states, or 255 for a task that this run does not have, and a varint count."`
}

// Timeline shows when the attempts of a run took place. It is stored in columns: the n-th elements of Task,
// Number, Outcome, Assigned, Started, Finished and Node describe the n-th attempt. Times are milliseconds
// after T0. A time of -1 has not been reached yet.
type Timeline struct {
	Run       string   `json:"run"`
	State     string   `json:"state" doc:"Of the run."`
	T0        Time     `json:"t0" format:"date-time"`
	Now       int64    `json:"now" doc:"The end of the run, or the moment of the answer."`
	States    []string `json:"states" nullable:"false" doc:"The states that the numbers in outcome stand for."`
	Nodes     []string `json:"nodes" nullable:"false" doc:"The nodes that the numbers in node stand for."`
	Instances []string `json:"instances" nullable:"false" doc:"Names of the instances of foreach tasks. Their numbers follow those of the tasks of the version."`
	Ready     []int64  `json:"ready" nullable:"false" doc:"By task: when the last task that it needs had ended."`
	Task      []int32  `json:"task" nullable:"false"`
	Number    []int32  `json:"number" nullable:"false" doc:"Of the attempt."`
	Outcome   []int32  `json:"outcome" nullable:"false" doc:"The state of the attempt."`
	Assigned  []int64  `json:"assigned" nullable:"false"`
	Started   []int64  `json:"started" nullable:"false"`
	Finished  []int64  `json:"finished" nullable:"false"`
	Node      []int32  `json:"node" nullable:"false"`
	Path      []int32  `json:"path" nullable:"false" doc:"The critical path: the task that ended last, before it the one that it waited for, and so on; first to last."`
}

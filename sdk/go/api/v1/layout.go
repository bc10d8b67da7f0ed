package api

// Layout is a drawing of a graph. Each task is in a column to the right of all tasks that it needs.
type Layout struct {
	Columns     int          `json:"columns"`
	ColumnWidth int          `json:"column_width" doc:"Pixels from one column to the next."`
	RowHeight   int          `json:"row_height" doc:"Pixels from one task to the next of its column, at least."`
	Nodes       []LayoutNode `json:"nodes" nullable:"false"`
	Edges       [][2]int32   `json:"edges" nullable:"false" doc:"Pairs of numbers: the second task needs the first."`
	EdgeChanges []string     `json:"edge_changes,omitempty" doc:"If against asks for it: same, added or removed, for each edge."`
}

// LayoutNode is the place of a task in the drawing. Instances of a foreach task are not drawn. The foreach
// task represents them.
type LayoutNode struct {
	ID   int32   `json:"id"`
	Name string  `json:"name"`
	Kind string  `json:"kind" doc:"work, wait, approval, switch, call, dependent or foreach; of groups chain, alike or named."`
	X    int     `json:"x" doc:"Left edge, in pixels."`
	Y    float64 `json:"y" doc:"Upper edge, in pixels."`

	Tasks  []int32 `json:"tasks,omitempty" doc:"If fold or against asks for it: the numbers of the tasks that it stands for, in the drawing without them."`
	Change string  `json:"change,omitempty" doc:"If against asks for it: same, added, removed or changed."`
}

// TaskStates holds the state of every task of a run at one moment. Consecutive tasks with the same state are
// one span, in the order of the graph.
type TaskStates struct {
	Run       string         `json:"run"`
	State     string         `json:"state" doc:"Of the run."`
	Tasks     int            `json:"tasks" doc:"Instances of foreach tasks included; they come last."`
	States    []StateSpan    `json:"states" nullable:"false"`
	Instances []InstanceSpan `json:"instances" nullable:"false" doc:"Which foreach tasks the instances belong to."`
}

// StateSpan is a number of consecutive tasks that have the same state.
type StateSpan struct {
	State string `json:"state"`
	Count int    `json:"count"`
}

// InstanceSpan is a range of consecutive instances of one foreach task.
type InstanceSpan struct {
	Of    int32 `json:"of" doc:"The number of the foreach task."`
	Count int   `json:"count"`
}

package importer

// Outcome says how a line was converted.
type Outcome string

// The outcomes.
const (
	Converted    Outcome = "converted"    // the meaning is the same
	Approximated Outcome = "approximated" // the result runs, and the notes name the differences
	Dropped      Outcome = "dropped"      // no counterpart; the first note says why
)

// The kinds of lines that are reported.
const (
	KindEntry    = "entry"    // a line of a crontab with a command
	KindVariable = "variable" // a line NAME=value of a crontab
	KindDocument = "document" // a document of a YAML file
	KindTask     = "task"     // a task of a document
	KindSetting  = "setting"  // any other setting, reported only if its meaning differs
)

// Result is the result of importing a file.
type Result struct {
	File      string     `json:"file"`
	Format    string     `json:"format"`
	Because   string     `json:"format_reason"`
	Timezone  string     `json:"timezone"`
	Notes     []string   `json:"notes"` // concern the whole file
	Lines     []Line     `json:"lines"` // the lines to report, in order
	Workflows []Workflow `json:"workflows"`
}

// Line is the report on one line.
type Line struct {
	Line int    `json:"line"`
	Kind string `json:"kind"`
	// Column is the column of the fault or, if there is none, of the beginning, in characters from 1.
	Column  int     `json:"column"`
	Outcome Outcome `json:"outcome"`
	// Workflow is the resulting workflow, or "" if the line is a variable or was dropped.
	Workflow string   `json:"workflow"`
	Task     string   `json:"task,omitempty"` // the task that the line became, if any
	Notes    []string `json:"notes"`
	Text     string   `json:"text"`
}

// Workflow is one workflow file.
type Workflow struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Line      int    `json:"line"`
	Source    string `json:"source"` // YAML
}

// NewResult returns an empty result. Its lists are empty but not nil, so that JSON has [] and not null.
func NewResult(file, zone string) *Result {
	return &Result{File: file, Timezone: zone, Notes: []string{}, Lines: []Line{}, Workflows: []Workflow{}}
}

// Count returns the number of lines of a kind with an outcome.
func (r *Result) Count(kind string, o Outcome) int {
	n := 0
	for i := range r.Lines {
		if r.Lines[i].Kind == kind && r.Lines[i].Outcome == o {
			n++
		}
	}
	return n
}

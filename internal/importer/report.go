package importer

// Outcome is what became of a line.
type Outcome string

// The outcomes.
const (
	Converted    Outcome = "converted"    // it means what it meant
	Approximated Outcome = "approximated" // it runs, and the notes say what is different
	Dropped      Outcome = "dropped"      // nothing was made of it, and the first note says why
)

// The kinds of lines that are reported.
const (
	KindEntry    = "entry"    // of a crontab: it runs something, or was meant to
	KindVariable = "variable" // of a crontab: NAME=value
	KindDocument = "document" // of a YAML file: what may become a workflow
	KindTask     = "task"     // something in it that runs
	KindSetting  = "setting"  // anything else in it; reported only if it is not the same
)

// Result is what a file was turned into.
type Result struct {
	File      string     `json:"file"`
	Format    string     `json:"format"`
	Because   string     `json:"format_reason"`
	Timezone  string     `json:"timezone"`
	Notes     []string   `json:"notes"` // about the whole file
	Lines     []Line     `json:"lines"` // every line that has to be spoken of, in order
	Workflows []Workflow `json:"workflows"`
}

// Line is the report on one line.
type Line struct {
	Line     int      `json:"line"`
	Kind     string   `json:"kind"`
	Column   int      `json:"column"` // from 1, in characters: of the fault, else where it begins
	Outcome  Outcome  `json:"outcome"`
	Workflow string   `json:"workflow"`       // what it became, or became part of; "" of a variable and of what was dropped
	Task     string   `json:"task,omitempty"` // in that workflow, if it became one
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

// NewResult is an empty one, whose lists are lists in JSON too.
func NewResult(file, zone string) *Result {
	return &Result{File: file, Timezone: zone, Notes: []string{}, Lines: []Line{}, Workflows: []Workflow{}}
}

// Count is the number of lines of a kind with an outcome.
func (r *Result) Count(kind string, o Outcome) int {
	n := 0
	for i := range r.Lines {
		if r.Lines[i].Kind == kind && r.Lines[i].Outcome == o {
			n++
		}
	}
	return n
}

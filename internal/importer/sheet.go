package importer

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"

	"skein.dev/skein/internal/cron"
	"skein.dev/skein/internal/workflow"
)

// Bounds on one file.
const (
	BytesMax  = 1 << 20
	TasksMax  = 10_000   // bound on the tasks of one workflow
	outputMax = 16 << 20 // bound on the bytes of all workflows
	shownMax  = 100      // characters of a line in the report
)

// Options holds settings that the file does not contain.
type Options struct {
	Path      string // file name for messages; "" or "-" is standard input
	Zone      string // IANA name of the time zone of schedules that name none; "" is UTC
	Namespace string // the namespace of the workflows; "" is the default one
}

// Conversion converts one YAML file.
type Conversion struct {
	Options
	Result    *Result
	Documents []workflow.Document
	names     map[string]bool
	lines     []string
	output    int
}

// FileName returns the name of a file for messages.
func FileName(path string) string {
	if name := OneLine(strings.ToValidUTF8(path, "?")); name != "" && name != "-" {
		return name
	}
	return "standard input"
}

// Open reads a YAML file. It returns an error if it cannot read the file as a whole. It reports a broken
// document, and leaves it out of Documents.
func Open(src []byte, opt Options, format string) (*Conversion, error) {
	file := FileName(opt.Path)
	fail := func(message, hint string) error {
		return workflow.Errors{{File: file, Line: 1, Column: 1, Message: message, Hint: hint}}
	}
	if len(src) > BytesMax {
		return nil, fail(fmt.Sprintf("the file is larger than %d MiB", BytesMax>>20), "split it, or check that it is the right file")
	}
	if opt.Zone == "" {
		opt.Zone = "UTC"
	}
	if _, err := cron.LoadZone(opt.Zone); err != nil {
		return nil, fail(fmt.Sprintf("the time zone: %v", err), "set it with --timezone")
	}
	docs, faults := workflow.ReadYAML(src, file)
	if err := faults.Err(); err != nil {
		return nil, err
	}
	c := &Conversion{Options: opt, Result: NewResult(file, opt.Zone), names: map[string]bool{}, lines: strings.Split(string(src), "\n")}
	c.Result.Format, c.Result.Because = format, "as asked"
	for _, d := range docs {
		if d.Value != nil {
			c.Documents = append(c.Documents, d)
			continue
		}
		e := d.Errors[0]
		c.add(Line{Line: e.Line, Column: e.Column, Kind: KindDocument, Outcome: Dropped, Notes: []string{join(e.Message, e.Hint)}})
	}
	return c, nil
}

func join(reason, remedy string) string {
	if remedy == "" {
		return reason
	}
	return reason + "; " + remedy
}

// add adds a line to the report.
func (c *Conversion) add(l Line) {
	if l.Notes == nil {
		l.Notes = []string{}
	}
	if l.Line <= len(c.lines) {
		l.Text = Clip(OneLine(strings.ToValidUTF8(strings.TrimSpace(c.lines[l.Line-1]), "?")), shownMax)
	}
	c.Result.Lines = append(c.Result.Lines, l)
}

// DropDocument reports why a document was dropped.
func (c *Conversion) DropDocument(at *workflow.Value, reason, remedy string) {
	c.add(Line{Line: at.Line, Column: at.Column, Kind: KindDocument, Outcome: Dropped, Notes: []string{join(reason, remedy)}})
}

// Close sorts the report.
func (c *Conversion) Close() *Result {
	sort.SliceStable(c.Result.Lines, func(i, j int) bool {
		a, b := &c.Result.Lines[i], &c.Result.Lines[j]
		return cmp.Or(a.Line-b.Line, a.Column-b.Column) < 0
	})
	return c.Result
}

// Sheet is one document that becomes a workflow.
type Sheet struct {
	Draft
	conv     *Conversion
	at       *workflow.Value
	notes    []string // concern the whole document
	settings []Line
	names    map[string]bool // names of tasks that are taken
}

// Sheet begins the conversion of a document.
func (c *Conversion) Sheet(at *workflow.Value) *Sheet {
	return &Sheet{conv: c, at: at, names: map[string]bool{}}
}

// Task begins a task. The task keeps its name if no other task has it.
func (s *Sheet) Task(at *workflow.Value, name string) *Task {
	t := &Task{Name: free(taskName(name), taskNameMax, s.names), at: at, outcome: Converted}
	s.Tasks = append(s.Tasks, t)
	return t
}

// ListParam changes the type of a parameter from text to JSON, so that a foreach can use it.
func (s *Sheet) ListParam(name string) error {
	p := &s.Params[slices.IndexFunc(s.Params, func(p Param) bool { return p.Name == name })]
	var list []any
	if p.Default != nil && json.Unmarshal([]byte(*p.Default), &list) != nil {
		return fmt.Errorf("the default of the parameter %s is not a JSON list; write one such as [\"a\", \"b\"]", name)
	}
	p.Type, p.Enum = workflow.JSON, nil
	return nil
}

// Drop reports that a setting was dropped, and why.
func (s *Sheet) Drop(at *workflow.Value, reason, remedy string) {
	s.setting(at, Dropped, join(reason, remedy))
}

// Approximate reports that the meaning of a setting differs.
func (s *Sheet) Approximate(at *workflow.Value, note string) { s.setting(at, Approximated, note) }

func (s *Sheet) setting(at *workflow.Value, o Outcome, note string) {
	l := Line{Line: at.Line, Column: at.Column, Outcome: o, Notes: []string{note}}
	if !slices.ContainsFunc(s.settings, func(k Line) bool { return k.Line == l.Line && k.Column == l.Column && k.Notes[0] == note }) {
		s.settings = append(s.settings, l)
	}
}

// Note reports a difference that concerns the whole document.
func (s *Sheet) Note(note string) { s.notes = append(s.notes, note) }

// Leaves returns the tasks that no other task needs. It considers only the tasks at index from and after.
func (s *Sheet) Leaves(from int) []string {
	needed := map[string]bool{}
	for _, t := range s.Tasks {
		for _, n := range t.Needs {
			needed[n] = true
		}
	}
	var all []string
	for _, t := range s.Tasks[from:] {
		if !needed[t.Name] {
			all = append(all, t.Name)
		}
	}
	return all
}

// Finish writes the workflow, or reports why there is none.
func (s *Sheet) Finish(name string) error {
	c := s.conv
	s.fillParams()
	outcome, dropped := s.settle()
	s.Name = free(WorkflowName(name), workflowNameMax, c.names)
	if s.Name != strings.TrimRight(name, "-") && name != "" {
		s.notes = append(s.notes, "its name is "+s.Name+", because a name has only a-z, 0-9 and - here, and each workflow needs a name of its own")
	}
	origin := fmt.Sprintf("From %s, line %d", c.Result.File, s.at.Line)
	s.Description = strings.TrimSpace(strings.TrimSpace(s.Description) + "\n" + origin)
	var source string
	reason := ""
	switch {
	case len(s.Tasks) == 0:
		reason = "the document has no task that runs"
	case len(s.Tasks) > TasksMax:
		reason = fmt.Sprintf("the workflow would have more than %d tasks", TasksMax)
	case dropped == len(s.Tasks):
		reason = "none of its tasks can be converted; the lines below say why"
	default:
		var err error
		if source, err = s.render(head(c.Result.File, s.at.Line, outcome, s.headNotes()), c.Namespace); err != nil {
			reason = "the converted workflow would be invalid: " + err.Error() + "; write the workflow by hand"
		}
	}
	if reason != "" {
		delete(c.names, s.Name)
		s.Name, outcome = "", Dropped
		s.notes = append([]string{reason}, s.notes...)
	}
	c.add(Line{Line: s.at.Line, Column: s.at.Column, Kind: KindDocument, Outcome: outcome, Workflow: s.Name, Notes: s.notes})
	for _, t := range s.Tasks {
		o := t.outcome
		if reason != "" {
			o = Dropped
			if len(t.notes) == 0 {
				t.notes = []string{"its workflow was dropped"}
			}
		}
		l := Line{Line: t.at.Line, Column: t.at.Column, Kind: KindTask, Outcome: o, Workflow: s.Name, Notes: t.notes}
		if s.Name != "" {
			l.Task = t.Name
		}
		c.add(l)
	}
	for _, l := range s.settings {
		l.Kind, l.Workflow = KindSetting, s.Name
		c.add(l)
	}
	if reason != "" {
		return nil
	}
	if c.output += len(source); c.output > outputMax {
		return workflow.Errors{{File: c.Result.File, Line: s.at.Line, Column: 1, Message: fmt.Sprintf("the workflows are larger than %d MiB", outputMax>>20), Hint: "split the file"}}
	}
	c.Result.Workflows = append(c.Result.Workflows, Workflow{Name: s.Name, Namespace: namespace(c.Namespace), Line: s.at.Line, Source: source})
	return nil
}

// settle completes the tasks. It returns the outcome of the document, and the number of dropped tasks.
func (s *Sheet) settle() (outcome Outcome, dropped int) {
	outcome = Converted
	for _, t := range s.Tasks {
		if t.outcome == Dropped {
			t.giveUp()
			dropped++
		} else if t.capture != nil {
			t.capture.write(t)
		}
		t.needWhatIsRead(s.names)
		if note := WriteNote(t.Run.Shell, t.Dir.Template()); note != "" {
			t.notes = append(t.notes, note)
		}
		if t.outcome != Converted {
			outcome = Approximated
		}
	}
	for _, t := range s.Tasks { // a dropped task produces no files, and the tasks that need it do not run
		t.Inputs = slices.DeleteFunc(t.Inputs, func(in Input) bool {
			return slices.ContainsFunc(s.Tasks, func(of *Task) bool { return of.Name == in.Task && of.Dropped() })
		})
	}
	if len(s.settings) > 0 || len(s.notes) > 0 {
		outcome = Approximated
	}
	return outcome, dropped
}

// fillParams gives each parameter without a default one, if triggers start the runs. A trigger cannot ask for
// a value.
func (s *Sheet) fillParams() {
	if len(s.Triggers) == 0 {
		return
	}
	for i := range s.Params {
		if p := &s.Params[i]; p.Default == nil && p.Expr == nil {
			if p.Default = new(string); p.Type == workflow.JSON {
				*p.Default = "[]"
				s.Note("the parameter " + p.Name + " has no value, but triggers start runs without one; so its default is an empty list")
				continue
			}
			p.Type, p.Enum = "", nil
			s.Note("the parameter " + p.Name + " has no value, but triggers start runs without one; so its default is the empty text")
		}
	}
}

func namespace(name string) string {
	if name == "" {
		return "default"
	}
	return name
}

// headNotesMax bounds the notes in the comment at the top of a file.
const headNotesMax = 100

// headNotes returns the differences to name in the comment at the top of the file.
func (s *Sheet) headNotes() []string {
	all := slices.Clone(s.notes)
	for _, l := range s.settings {
		all = append(all, fmt.Sprintf("line %d: %s: %s", l.Line, l.Outcome, l.Notes[0]))
	}
	for _, t := range s.Tasks {
		if t.outcome != Converted || len(t.notes) > 0 {
			all = append(all, fmt.Sprintf("task %s, %s: %s", t.Name, t.outcome, strings.Join(t.notes, "; ")))
		}
	}
	if more := len(all) - headNotesMax; more > 0 {
		all = append(all[:headNotesMax], fmt.Sprintf("and %d more", more))
	}
	return all
}

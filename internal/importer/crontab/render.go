package crontab

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"skein.dev/skein/internal/importer"
	"skein.dev/skein/internal/workflow"
)

// draft is a workflow under construction.
type draft struct {
	entry        *entry
	file         string
	namespace    string
	name         string
	description  string
	when         moment
	run          execution
	env          []variable
	dir          string
	notes        []string
	approximated bool
}

// approximate notes a difference between the entry and the workflow.
func (d *draft) approximate(note string) {
	d.notes = append(d.notes, note)
	d.approximated = true
}

func (d *draft) outcome() importer.Outcome {
	if d.approximated {
		return importer.Approximated
	}
	return importer.Converted
}

// render writes the file and reads it back. It first writes texts without quotes where a person would. If the
// file then reads back differently, render puts every text into quotes.
func (d *draft) render() (string, error) {
	var why error
	for _, write := range []func(string, int) string{importer.Scalar, func(s string, _ int) string { return importer.DoubleQuoted(s) }} {
		source := d.source(write)
		if why = d.same(source); why == nil {
			return source, nil
		}
	}
	return "", why
}

// source returns the text of the file.
func (d *draft) source(write func(text string, indent int) string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s:%d, %s\n", d.file, d.entry.line.number, d.outcome())
	for _, note := range d.notes {
		b.WriteString("# - " + importer.OneLine(note) + "\n")
	}
	fmt.Fprintf(&b, "name: %s\n", importer.Word(d.name))
	if d.namespace != "" && d.namespace != "default" {
		fmt.Fprintf(&b, "namespace: %s\n", importer.Word(d.namespace))
	}
	fmt.Fprintf(&b, "description: %s\n", write(d.description, 2))
	b.WriteString("triggers:\n" + d.when.source())
	if len(d.env) > 0 {
		b.WriteString("env:\n")
		for _, v := range d.env {
			fmt.Fprintf(&b, "  %s: %s\n", importer.Word(v.name), write(importer.Literal(v.value), 4))
		}
	}
	fmt.Fprintf(&b, "tasks:\n  %s:\n", importer.Word(d.name))
	if d.run.argv == nil {
		fmt.Fprintf(&b, "    run: %s\n", write(d.run.text, 6))
	} else {
		b.WriteString("    run:\n")
		for _, arg := range d.run.argv {
			fmt.Fprintf(&b, "      - %s\n", write(arg, 8))
		}
	}
	if d.dir != "" {
		fmt.Fprintf(&b, "    dir: %s\n", write(importer.Literal(d.dir), 6))
	}
	return b.String()
}

// source returns the trigger as text. Like cron, the trigger starts a run even if the previous one is still
// active, and never makes up for missed instants.
func (m *moment) source() string {
	var b strings.Builder
	switch {
	case m.start:
		b.WriteString("  - at: start\n    overlap: allow\n")
		return b.String()
	case m.every > 0:
		fmt.Fprintf(&b, "  - every: %dd\n", m.every)
	default:
		fmt.Fprintf(&b, "  - cron: \"%s\"\n", m.expr)
	}
	fmt.Fprintf(&b, "    timezone: %s\n    overlap: allow\n    catchup: %s\n", m.zone, m.catchup)
	if m.clocks {
		b.WriteString("    dst: {gap: skip, repeat: both}\n")
	}
	return b.String()
}

// same reads the file back with Skein's own reader, and compares the result with the draft.
func (d *draft) same(source string) error {
	all, faults := workflow.Parse([]byte(source), workflow.Options{File: d.name + ".yaml"})
	if len(faults) > 0 {
		return errors.New(faults[0].Message)
	}
	if len(all) != 1 || len(all[0].Tasks) != 1 {
		return errors.New("its file would not have exactly one workflow with one task")
	}
	w := all[0]
	t := &w.Tasks[0]
	env := make([]workflow.KV, 0, len(d.env))
	for _, v := range d.env {
		env = append(env, workflow.KV{Name: v.name, Value: importer.Literal(v.value)})
	}
	switch {
	case w.Name != d.name || t.Name != d.name:
		return errors.New("its name would differ from the intended one")
	case t.Run.Shell != d.run.text || !slices.Equal(t.Run.Argv, d.run.argv):
		return errors.New("its command would differ from that of the line")
	case t.Dir != importer.Literal(d.dir) || !slices.Equal(w.Env, env):
		return errors.New("its folder or variables would differ from those of the line")
	case len(w.Triggers) != 1 || !d.when.is(&w.Triggers[0]):
		return errors.New("its trigger would differ from the schedule of the line")
	}
	return nil
}

// is reports whether a trigger that was read back equals the written one.
func (m *moment) is(t *workflow.Trigger) bool {
	if m.start {
		return t.Kind == workflow.KindStart && t.Overlap == "allow"
	}
	if m.every > 0 {
		return t.Kind == workflow.KindEvery && int64(t.Every) == int64(m.every)*24*int64(time.Hour) && t.Catchup == m.catchup
	}
	return t.Kind == workflow.KindCron && t.Cron == m.expr && t.Timezone == m.zone && t.Overlap == "allow" && t.Catchup == m.catchup &&
		(t.Repeat == "both") == m.clocks
}

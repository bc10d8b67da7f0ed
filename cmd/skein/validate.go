package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"skein.dev/skein/internal/extension"
	"skein.dev/skein/internal/workflow"
)

// faults is the output of `skein validate -o json`. Programs rely on its form, so it must not change.
type faults struct {
	Errors workflow.Errors `json:"errors"`
}

func (c *cli) validateCmd() *cobra.Command {
	return &cobra.Command{
		Use: "validate FILE…", Short: "Check workflow files, and list all faults with place and remedy",
		Long:    "Checks workflow files. Exit code: 0 no fault, 6 a file has faults, 3 a file cannot be read.",
		Example: "  skein validate workflow.yaml\n  skein validate jobs/*.yaml -o json",
		Args:    cobra.MinimumNArgs(1),
		RunE: c.do(func(_ context.Context, args []string) error {
			all := workflow.Errors{}
			var missing error
			for _, path := range args {
				if filepath.Base(path) == extension.FileName {
					all = append(all, workflow.Error{File: path, Line: 1, Column: 1, Message: "this is the manifest of an extension, not a workflow file",
						Hint: "check it with skein extension check " + filepath.Dir(path)})
					continue
				}
				_, good, err := parseFile(path, c.cfg.TasksMax, bookOf(c).Check)
				var found workflow.Errors
				switch {
				case errors.As(err, &found):
					all = append(all, found...)
				case err != nil:
					missing = errors.Join(missing, err)
					all = append(all, workflow.Error{File: path, Line: 1, Column: 1, Message: err.Error()})
				case c.format == "table":
					for _, w := range good {
						c.good(path, w)
					}
				}
			}
			if c.format == "json" || c.format == "jsonl" || c.format == "yaml" {
				if err := one(c, faults{all}, "", nil); err != nil {
					return err
				}
				if missing == nil && len(all) > 0 {
					return &errEnd{exitInvalid}
				}
				if missing != nil {
					return &errEnd{exitNotFound}
				}
				return nil
			}
			if missing != nil {
				return missing
			}
			return all.Err()
		}),
	}
}

// good describes a valid workflow. On a terminal it also lists the next fires, because schedules are easy
// to get wrong.
func (c *cli) good(path string, w *workflow.Workflow) {
	has := count(len(w.Tasks), "task")
	if len(w.Triggers) > 0 {
		has += ", " + count(len(w.Triggers), "trigger")
	}
	fmt.Fprintf(c.out, "%s: %s is good, %s\n", path, w.Name, has)
	if len(w.Classes) > 0 {
		names := make([]string, len(w.Classes))
		for i := range w.Classes {
			names[i] = w.Classes[i].Name
		}
		c.say("  what %s means is looked up when it is applied (skein class list)", strings.Join(names, ", "))
	}
	if !c.errTTY {
		return
	}
	for i := range w.Triggers {
		t := &w.Triggers[i]
		c.say("  %s: %s%s", t.Name, t.Describe(), nextWords(nextOf(t)))
	}
}

// soonMax is the number of future instants that are shown for a trigger.
const soonMax = 3

// nextOf returns the next instants of a trigger in its time zone. It returns none for a sensor, and for a
// trigger that is paused when it is declared.
func nextOf(t *workflow.Trigger) (all []time.Time) {
	schedule, err := t.Schedule()
	if err != nil || schedule == nil || t.Paused {
		return nil
	}
	for at, ok := schedule.Next(time.Now()); ok && len(all) < soonMax; at, ok = schedule.Next(at) {
		all = append(all, at)
	}
	return all
}

// nextWords returns ", next …" with the instants.
func nextWords(all []time.Time) string {
	if len(all) == 0 {
		return ""
	}
	texts := make([]string, len(all))
	for i, at := range all {
		texts[i] = at.Format("Mon 2006-01-02 15:04")
		if at.Second() != 0 {
			texts[i] = at.Format(wallForm)
		}
	}
	return "; next " + strings.Join(texts, ", ")
}

func (c *cli) schemaCmd() *cobra.Command {
	return &cobra.Command{
		Use: "schema", Short: "Print the JSON Schema of the workflow file, for editors",
		Example: "  skein schema > workflow.schema.json\n  # and as the first line of a workflow: # yaml-language-server: $schema=./workflow.schema.json",
		Args:    cobra.NoArgs,
		RunE: c.do(func(context.Context, []string) error {
			_, err := c.out.Write(workflow.Schema())
			return err
		}),
	}
}

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"skein.dev/skein/internal/workflow"
)

// faults is what `skein validate -o json` prints: a contract.
type faults struct {
	Errors workflow.Errors `json:"errors"`
}

func (c *cli) validateCmd() *cobra.Command {
	return &cobra.Command{
		Use: "validate FILE…", Short: "Check workflow files: every mistake at once, with its place and the remedy",
		Long:    "Checks workflow files. Exit code: 0 all good, 6 mistakes, 3 a file that cannot be read.",
		Example: "  skein validate workflow.yaml\n  skein validate jobs/*.yaml -o json",
		Args:    cobra.MinimumNArgs(1),
		RunE: c.do(func(_ context.Context, args []string) error {
			all := workflow.Errors{}
			var missing error
			for _, path := range args {
				_, good, err := parseFile(path, c.cfg.TasksMax)
				var found workflow.Errors
				switch {
				case errors.As(err, &found):
					all = append(all, found...)
				case err != nil:
					missing = errors.Join(missing, err)
					all = append(all, workflow.Error{File: path, Line: 1, Column: 1, Message: err.Error()})
				case c.format == "table":
					for _, w := range good {
						fmt.Fprintf(c.out, "%s: %s is good, %s\n", path, w.Name, count(len(w.Tasks), "task"))
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

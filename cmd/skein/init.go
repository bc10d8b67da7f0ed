package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"skein.dev/skein/internal/workflow"
)

//go:embed template.yaml
var template string

// schemaFile is written next to a new workflow, so that editors can complete and check it without a network.
const schemaFile = "workflow.schema.json"

func (c *cli) initCmd() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use: "init [FILE]", Short: "Write a first workflow with comments, and the schema for editors",
		Long:    "Writes a workflow with comments (default workflow.yaml), and " + schemaFile + " in the same folder. Editors use the schema\nfor completion.",
		Example: "  skein init\n  skein init jobs/report.yaml",
		Args:    cobra.MaximumNArgs(1),
		RunE: c.do(func(_ context.Context, args []string) error {
			path := "workflow.yaml"
			if len(args) > 0 {
				path = args[0]
			}
			if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
				return err
			}
			text := strings.ReplaceAll(template, "NAME", workflowName(path))
			if err := writeNew(path, []byte(text), force); err != nil {
				return err
			}
			schema := filepath.Join(filepath.Dir(path), schemaFile)
			if err := writeNew(schema, workflow.Schema(), true); err != nil {
				return err
			}
			shown := path
			if !isFile(shown) {
				shown = "./" + shown
			}
			c.say("wrote %s and %s\n  → skein run %s --follow", path, schema, shown)
			fmt.Fprintln(c.out, path)
			return nil
		}),
	}
	cmd.Flags().BoolVar(&force, "force", false, "replace a file that exists")
	return cmd
}

// workflowName makes a valid name from the name of the folder or the file.
func workflowName(path string) string {
	base := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	if base == "workflow" {
		if abs, err := filepath.Abs(path); err == nil {
			base = filepath.Base(filepath.Dir(abs))
		}
	}
	name := strings.Trim(strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, base), "-")
	if name == "" {
		return "first"
	}
	return strings.TrimRight(name[:min(len(name), 63)], "-")
}

func writeNew(path string, content []byte, replace bool) error {
	flags := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if replace {
		flags = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	file, err := os.OpenFile(path, flags, 0o666)
	if errors.Is(err, os.ErrExist) {
		return hint(&said{errConflict, path + " exists already"}, "choose another name, or replace it: --force")
	}
	if err != nil {
		return err
	}
	if _, err := file.Write(content); err != nil {
		return errors.Join(err, file.Close())
	}
	return file.Close()
}

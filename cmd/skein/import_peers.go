package main

import (
	"context"
	"path/filepath"

	"github.com/spf13/cobra"

	"skein.dev/skein/internal/importer"
	"skein.dev/skein/internal/importer/argo"
	"skein.dev/skein/internal/importer/dagu"
	"skein.dev/skein/internal/importer/dolphin"
)

// importLong is the part of the help that all commands for the import of YAML files share.
const importLong = `The workflows go to stdout, and a report goes to stderr. For each document, task and differing setting it says
whether it was converted, approximated (with the difference) or dropped (with the reason and a replacement). A
dropped task stays in the graph and fails, so that no task runs as if its work had been done.
--out writes a file for each workflow. --apply applies them at the server. Existing files and workflows are
replaced only with --force.

Exit code: 0 at least one workflow was made, 6 no workflow could be made, 5 a file or workflow exists already.`

func (c *cli) importDaguCmd() *cobra.Command {
	var f importFlags
	cmd := &cobra.Command{
		Use: "dagu FILE|-", Short: "Convert a file of Dagu to workflows, with a report of the differences",
		Long:    "Converts each DAG in a file of Dagu to a workflow. - is standard input.\n" + importLong,
		Example: "  skein import dagu etl.yaml\n  skein import dagu etl.yaml --out workflows\n  skein import dagu - --apply --dry-run < etl.yaml",
		Args:    cobra.ExactArgs(1),
		RunE: c.do(func(ctx context.Context, args []string) error {
			return c.importYAML(ctx, args[0], f, dagu.Convert)
		}),
	}
	f.add(cmd)
	return cmd
}

func (c *cli) importArgoCmd() *cobra.Command {
	var f importFlags
	cmd := &cobra.Command{
		Use: "argo FILE|-", Short: "Convert a file of Argo Workflows to workflows, with a report of the differences",
		Long: "Converts each Workflow, WorkflowTemplate and CronWorkflow in a file of Argo Workflows to a workflow. - is standard input.\n" + importLong + `

Tasks run as processes of a node, because the importer does not convert images. --containers drop (the default) drops
templates that name an image. --containers run runs their commands and scripts on the node, without the image.`,
		Example: "  skein import argo wf.yaml --containers run\n  skein import argo wf.yaml --containers run --out workflows",
		Args:    cobra.ExactArgs(1),
		RunE: c.do(func(ctx context.Context, args []string) error {
			if f.containers != "drop" && f.containers != "run" {
				return usage("--containers %s: use drop or run", f.containers)
			}
			return c.importYAML(ctx, args[0], f, func(src []byte, opt importer.Options) (*importer.Result, error) {
				return argo.Convert(src, argo.Options{Options: opt, Run: f.containers == "run"})
			})
		}),
	}
	f.add(cmd)
	cmd.Flags().StringVar(&f.containers, "containers", "drop", "commands and scripts of templates with an image: drop | run")
	return cmd
}

func importDolphinCmd(c *cli) *cobra.Command {
	var f importFlags
	cmd := &cobra.Command{
		Use: "dolphinscheduler FILE|-", Aliases: []string{"ds"}, Short: "Convert an export of DolphinScheduler to workflows, with a report of the differences",
		Long: "Converts each workflow in a JSON export of DolphinScheduler (2.x, 3.x), or in a YAML file of its Python SDK, to a\nworkflow. - is standard input.\n" +
			importLong + "\n\nOn DolphinScheduler's page, the workflow definitions have the button Export. Export workflows that call or wait for\neach other together, because an export names them only by numbers.",
		Example: "  skein import dolphinscheduler export.json\n  skein import dolphinscheduler export.json --out workflows\n  skein import dolphinscheduler flow.yaml --apply --dry-run",
		Args:    cobra.ExactArgs(1),
		RunE: c.do(func(ctx context.Context, args []string) error {
			return c.importYAML(ctx, args[0], f, dolphin.Convert)
		}),
	}
	f.add(cmd)
	return cmd
}

func (c *cli) importYAML(ctx context.Context, path string, f importFlags, make func([]byte, importer.Options) (*importer.Result, error)) error {
	if err := f.check(); err != nil {
		return err
	}
	opt := importer.Options{Path: path, Zone: f.timezone, Namespace: f.namespace}
	src, err := readImport(path, "a file", importer.BytesMax)
	if err != nil {
		return err
	}
	if path != "-" {
		if opt.Path, err = filepath.Abs(path); err != nil {
			return err
		}
	}
	result, err := make(src, opt)
	if err != nil {
		return err
	}
	return c.takeImport(ctx, result, f)
}

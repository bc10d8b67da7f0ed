package main

import (
	"context"
	"path/filepath"

	"github.com/spf13/cobra"

	"skein.dev/skein/internal/importer"
	"skein.dev/skein/internal/importer/argo"
	"skein.dev/skein/internal/importer/dagu"
)

// importLong is the part of the help that the imports of YAML files share.
const importLong = `- is stdin. The workflows go to stdout, the report to stderr: of each
document and task, and of each setting that is not the same, whether it was converted, approximated (and what is
different) or dropped (why, and a replacement). A task that was dropped stays in the graph and fails, so
that nothing which needs it runs as if it had been done.
--out writes a file for each workflow, --apply gives them to the server. Nothing that is there is replaced without
--force.

Exit code: 0 also if something was dropped, 6 if not one workflow came out, 5 if something is there already.`

func (c *cli) importDaguCmd() *cobra.Command {
	var f importFlags
	cmd := &cobra.Command{
		Use: "dagu FILE|-", Short: "Make workflows of a file of Dagu, with a report of the differences",
		Long:    "Makes a workflow of each DAG of a file of Dagu; " + importLong,
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
		Use: "argo FILE|-", Short: "Make workflows of a file of Argo Workflows, with a report of the differences",
		Long: "Makes a workflow of each Workflow, WorkflowTemplate and CronWorkflow of a file of Argo Workflows; " + importLong + `

Tasks run as processes of a node: there is no container runtime. --containers drop (the default) drops templates that
name an image; run runs their commands and scripts on the node, without the image.`,
		Example: "  skein import argo wf.yaml --containers run\n  skein import argo wf.yaml --containers run --out workflows",
		Args:    cobra.ExactArgs(1),
		RunE: c.do(func(ctx context.Context, args []string) error {
			if f.containers != "drop" && f.containers != "run" {
				return usage("--containers %s: want drop or run", f.containers)
			}
			return c.importYAML(ctx, args[0], f, func(src []byte, opt importer.Options) (*importer.Result, error) {
				return argo.Convert(src, argo.Options{Options: opt, Run: f.containers == "run"})
			})
		}),
	}
	f.add(cmd)
	cmd.Flags().StringVar(&f.containers, "containers", "drop", "drop | run: what becomes of commands and scripts of images")
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

package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"skein.dev/skein/internal/extension"
	"skein.dev/skein/internal/workflow"
	api "skein.dev/skein/sdk/api/v1"
)

func (c *cli) workflowApplyCmd() *cobra.Command {
	return &cobra.Command{
		Use: "apply FILE|FOLDER…", Short: "Create a new version of the changed workflows in files",
		Long: "Creates a new version of each workflow in the files. A workflow that has not changed gets no new version. - is standard\ninput. " +
			"All files are checked before the first is applied. If one has a fault, none is applied, and all faults are printed. Of a\n" +
			"folder, every YAML file with the key name or tasks counts, except those that a workflow names under files.",
		Example: "  skein workflow apply nightly.yaml\n  skein workflow apply workflows/",
		Args:    cobra.MinimumNArgs(1),
		RunE: c.do(func(ctx context.Context, args []string) error {
			defs, err := readEvery(args, c.cfg.TasksMax)
			if err != nil {
				return err
			}
			return c.writing(func(ctx context.Context, s *session, _ []string) error {
				if err := checkTogether(ctx, s, defs); err != nil {
					return err
				}
				return c.applyEach(ctx, s, defs)
			})(ctx, args)
		}),
	}
}

// readEvery reads the workflows of files and folders; the mistakes of all files are one error.
func readEvery(paths []string, tasksMax int) (defs []*definition, err error) {
	var faults workflow.Errors
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil && info.IsDir() && path != "-" {
			more, wrong, err := readFolder(path, tasksMax)
			if err != nil {
				return nil, err
			}
			defs, faults = append(defs, more...), append(faults, wrong...)
			continue
		}
		more, err := readDefinitions(path, tasksMax)
		var found workflow.Errors
		switch {
		case errors.As(err, &found):
			faults = append(faults, found...)
		case err != nil:
			return nil, err
		}
		defs = append(defs, more...)
	}
	return defs, faults.Err()
}

// readFolder reads the workflow files in a folder and in the folders below it. A workflow file has the key
// name or tasks, and no workflow names it under files. Names that begin with a dot are left out.
func readFolder(folder string, tasksMax int) (defs []*definition, faults workflow.Errors, err error) {
	carried := map[string]bool{}
	err = filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		switch ext := filepath.Ext(path); {
		case err != nil:
			return unreadable(path, err)
		case strings.HasPrefix(e.Name(), ".") && path != folder:
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		case e.IsDir() || ext != ".yaml" && ext != ".yml" || e.Name() == extension.FileName:
			return nil
		}
		src, err := readSource(path)
		if err != nil || !workflow.IsWorkflowFile(src) {
			return err
		}
		more, err := readDefinitions(path, tasksMax)
		var found workflow.Errors
		if err != nil && !errors.As(err, &found) {
			return err
		}
		for _, d := range more {
			for _, f := range d.request.Files {
				carried[filepath.Join(filepath.Dir(path), filepath.FromSlash(f.Name))] = true
			}
		}
		defs, faults = append(defs, more...), append(faults, found...)
		return nil
	})
	defs = slices.DeleteFunc(defs, func(d *definition) bool { return carried[filepath.Clean(d.request.File)] })
	faults = slices.DeleteFunc(faults, func(f workflow.Error) bool { return carried[filepath.Clean(f.File)] })
	if err == nil && len(defs)+len(faults) == 0 {
		err = &said{errNotFound, "the folder " + folder + " has no workflow file"}
	}
	return defs, faults, err
}

// checkTogether asks the server to check every file, before one of several workflows is applied. A single
// workflow needs no check, because a refused apply changes nothing.
func checkTogether(ctx context.Context, s *session, defs []*definition) error {
	if len(defs) < 2 {
		return nil
	}
	var faults workflow.Errors
	for len(defs) > 0 {
		n := 1
		for n < len(defs) && defs[n].request.File == defs[0].request.File {
			n++
		}
		v, err := s.Validate(ctx, together(defs[:n]))
		if err != nil {
			return err
		}
		for _, e := range v.Errors {
			faults = append(faults, workflow.Error{File: e.File, Line: e.Line, Column: e.Column, Key: e.Key, Message: e.Message, Hint: e.Hint, Snippet: e.Snippet})
		}
		defs = defs[n:]
	}
	return faults.Err()
}

// together returns a whole file with the calendars that its workflows name. It reads no other files of the
// workflows.
func together(defs []*definition) api.ApplyRequest {
	req := api.ApplyRequest{Source: string(defs[0].whole), File: defs[0].request.File, Dir: defs[0].request.Dir}
	have := map[string]bool{}
	for _, d := range defs {
		for _, f := range d.request.Files {
			if !have[f.Name] && d.reads(f.Name) {
				have[f.Name] = true
				req.Files = append(req.Files, f)
			}
		}
	}
	return req
}

// reads reports whether a trigger names a file as its calendar.
func (d *definition) reads(name string) bool {
	for i := range d.Triggers {
		if _, ok := d.Triggers[i].Calendars[name]; ok {
			return true
		}
	}
	return false
}

// applyEach applies the workflows in order. A workflow that passed the check may still be refused here. The
// message then names the ones that were applied.
func (c *cli) applyEach(ctx context.Context, s *session, defs []*definition) error {
	applied := []api.Applied{}
	for _, d := range defs {
		a, err := d.apply(ctx, s)
		if err != nil {
			for i := range applied {
				c.say("%s: version %s is applied, %s", applied[i].Workflow.Workflow, versionText(&applied[i].Workflow), changed(applied[i].Changed))
			}
			return err
		}
		applied = append(applied, a)
		c.warn(&a)
	}
	return show(c, applied, func(a api.Applied) string { return a.Workflow.Workflow }, []column[api.Applied]{
		{head: "WORKFLOW", get: func(a api.Applied) string { return a.Workflow.Workflow }},
		{head: "VERSION", get: func(a api.Applied) string { return versionText(&a.Workflow) }},
		{head: "WHAT", get: func(a api.Applied) string { return changed(a.Changed) }},
	})
}

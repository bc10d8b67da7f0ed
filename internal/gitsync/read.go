package gitsync

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"skein.dev/skein/internal/extension"
	"skein.dev/skein/internal/workflow"
	api "skein.dev/skein/sdk/api/v1"
)

// workflowsMax bounds the number of workflows of a source.
const workflowsMax = 1000

// Item is one workflow of a commit.
type Item struct {
	Def     *workflow.Workflow
	Request api.ApplyRequest // File is the path in the folder of the source
	Above   int              // lines of the file before its document
}

// read reads the workflows of a folder. They are all YAML files with the key name or tasks, except files that
// a workflow names under files, and files whose names begin with a dot.
func read(files fs.FS, opt workflow.Options) (items []Item, faults workflow.Errors) {
	fault := func(file, message, hint string) {
		faults = append(faults, workflow.Error{File: file, Line: 1, Column: 1, Message: message, Hint: hint})
	}
	carried := map[string]bool{} // files that workflows name
	total := 0                   // bytes of these files; a file counts for each workflow that names it
	err := fs.WalkDir(files, ".", func(name string, e fs.DirEntry, err error) error {
		switch ext := path.Ext(name); {
		case err != nil:
			return err
		case strings.HasPrefix(e.Name(), ".") && name != ".":
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		case ext != ".yaml" && ext != ".yml" || e.Name() == extension.FileName || e.IsDir():
			return nil
		case !e.Type().IsRegular():
			fault(name, "the file is a link", "put the file itself there")
			return nil
		case len(items) > workflowsMax:
			return errMany
		}
		more, wrong := readOne(files, name, opt, &total)
		for _, item := range more {
			for _, f := range item.Request.Files {
				carried[path.Join(path.Dir(name), f.Name)] = true
			}
		}
		items, faults = append(items, more...), append(faults, wrong...)
		if total > archiveMax {
			return fs.SkipAll
		}
		return nil
	})
	if err != nil && !errors.Is(err, errMany) {
		fault(".", err.Error(), "")
	}
	faults = slices.DeleteFunc(faults, func(f workflow.Error) bool { return carried[f.File] })
	items = slices.DeleteFunc(items, func(i Item) bool { return carried[i.Request.File] })
	if len(items) > workflowsMax {
		fault(".", fmt.Sprintf("the folder has more than %d workflows", workflowsMax), "make a git source for each of several folders")
	}
	return items, faults
}

var errMany = errors.New("too many workflows")

// readOne reads the workflows of a file with the files that they name, and adds the bytes of those files to
// total.
func readOne(files fs.FS, name string, opt workflow.Options, total *int) (items []Item, faults workflow.Errors) {
	fault := func(message string) workflow.Errors {
		return workflow.Errors{{File: name, Line: 1, Column: 1, Message: message}}
	}
	in, err := files.Open(name)
	if err != nil {
		return nil, fault(err.Error())
	}
	// If the file is longer, Parse returns a fault.
	src, err := io.ReadAll(io.LimitReader(in, workflow.FileBytesMax+1))
	if err = errors.Join(err, in.Close()); err != nil {
		return nil, fault(err.Error())
	}
	if isPointer(src) {
		return nil, workflow.Errors{pointerFault(name, name, 1)}
	}
	if !workflow.IsWorkflowFile(src) {
		return nil, nil
	}
	if opt.Dir, err = fs.Sub(files, path.Dir(name)); err != nil {
		return nil, fault(err.Error())
	}
	opt.File = name
	defs, faults := workflow.Parse(src, opt)
	if len(faults) > 0 {
		return nil, faults
	}
	texts := [][]byte{src}
	if len(defs) > 1 {
		if texts = workflow.SplitDocuments(src); len(texts) != len(defs) {
			return nil, fault("the documents of the file cannot be separated; put each workflow in a file of its own")
		}
	}
	above := max(bytes.Count(src, []byte("\n"))-bytes.Count(bytes.Join(texts, nil), []byte("\n")), 0)
	for i, def := range defs {
		item := Item{Def: def, Request: api.ApplyRequest{Source: string(texts[i]), File: name}, Above: above}
		above += bytes.Count(texts[i], []byte("\n"))
		if globs := def.Travelling(); len(globs) > 0 {
			found, err := workflow.CollectFiles(opt.Dir, globs)
			if err != nil {
				return nil, fault("files: " + err.Error())
			}
			for _, f := range found {
				if isPointer(f.Data) {
					return nil, workflow.Errors{pointerFault(name, f.Name, 1+item.Above)}
				}
				if *total += len(f.Data); *total > archiveMax {
					return nil, workflow.Errors{{File: name, Line: 1 + item.Above, Column: 1, Hint: "name fewer files under files",
						Message: fmt.Sprintf("the files that travel with the workflows have more than %d MiB together", archiveMax>>20)}}
				}
				item.Request.Files = append(item.Request.Files, api.File{Name: f.Name, Mode: uint32(f.Mode.Perm()), Data: f.Data})
			}
		}
		items = append(items, item)
	}
	return items, nil
}

// isPointer reports whether a file of a commit is a pointer of Git LFS instead of the file itself.
func isPointer(data []byte) bool {
	return len(data) <= pointerMax && bytes.HasPrefix(data, []byte("version https://git-lfs.github.com/spec/"))
}

// pointerMax bounds a pointer of Git LFS, in bytes, as its specification does.
const pointerMax = 1024

// pointerFault is the fault of a workflow file that is such a pointer, or names one under files.
func pointerFault(file, pointer string, line int) workflow.Error {
	return workflow.Error{File: file, Line: line, Column: 1, Message: fmt.Sprintf("%s is a pointer of Git LFS; a git source does not download the file behind it", pointer),
		Hint: "keep the file itself in git (git lfs migrate export --include=" + pointer + "), or let the task download it"}
}

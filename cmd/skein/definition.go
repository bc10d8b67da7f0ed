package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"skein.dev/skein/internal/workflow"
	api "skein.dev/skein/sdk/api/v1"
)

// sourceBytesMax is the size of the largest workflow file that is read, in bytes.
const sourceBytesMax = 16 << 20

// definition is a workflow file with the files that are sent with it. It is also checked here, so that errors
// can show lines of the file.
type definition struct {
	*workflow.Workflow
	request api.ApplyRequest
	above   int    // lines of the file before the document
	whole   []byte // the text of the file
}

// readSource reads a file. "-" is stdin.
func readSource(path string) ([]byte, error) {
	in := os.Stdin
	if path != "-" {
		var err error
		if in, err = os.Open(path); err != nil {
			return nil, unreadable(path, err)
		}
		defer in.Close()
		if info, err := in.Stat(); err == nil && info.IsDir() {
			return nil, &said{errNotFound, path + " is a folder, not a workflow file"}
		}
	}
	src, err := io.ReadAll(io.LimitReader(in, sourceBytesMax+1))
	if err != nil {
		return nil, unreadable(path, err)
	}
	if len(src) > sourceBytesMax {
		return nil, workflow.Errors{{File: path, Line: 1, Column: 1,
			Message: fmt.Sprintf("the file is larger than %d MiB", sourceBytesMax>>20), Hint: "put data in files of its own"}}
	}
	return src, nil
}

// unreadable returns the error for a file that is missing or cannot be read. Both have the same exit code.
func unreadable(path string, err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	unread := &said{errNotFound, fmt.Sprintf("the file %s cannot be read: %v", path, err)}
	if here, wrong := os.Getwd(); wrong == nil && !filepath.IsAbs(path) && errors.Is(err, fs.ErrNotExist) {
		return hint(unread, "check the path; it begins in the folder "+here)
	}
	return unread
}

// parseFile reads and checks a file. input is as in workflow.Options.
func parseFile(path string, tasksMax int, input func(kind string, with json.RawMessage) error) ([]byte, []*workflow.Workflow, error) {
	src, err := readSource(path)
	if err != nil {
		return nil, nil, err
	}
	opt := workflow.Options{File: path, TasksMax: tasksMax, Input: input}
	if path != "-" {
		root, err := os.OpenRoot(filepath.Dir(path))
		if err != nil {
			return nil, nil, err
		}
		defer root.Close()
		opt.Dir = root.FS()
	}
	all, faults := workflow.Parse(src, opt)
	if err := faults.Err(); err != nil {
		return nil, nil, err
	}
	return src, all, nil
}

// readDefinition reads a file that holds one workflow.
func readDefinition(path string, tasksMax int) (*definition, error) {
	all, err := readDefinitions(path, tasksMax)
	if err != nil {
		return nil, err
	}
	if len(all) != 1 {
		return nil, hint(usage("%s holds %d workflows: name one of them", path, len(all)),
			fmt.Sprintf("skein workflow apply %s && skein run %s", path, all[0].Name))
	}
	return all[0], nil
}

// readDefinitions reads every workflow of a file.
func readDefinitions(path string, tasksMax int) ([]*definition, error) {
	src, parsed, err := parseFile(path, tasksMax, nil) // nil: the node that gets the file checks the inputs of tasks with a kind
	if err != nil {
		return nil, err
	}
	folder, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	texts := [][]byte{src}
	if len(parsed) > 1 {
		if texts = workflow.SplitDocuments(src); len(texts) != len(parsed) {
			return nil, errors.New("the documents of " + path + " could not be told apart; put each workflow in a file of its own")
		}
	}
	all, above := make([]*definition, len(parsed)), 0
	if len(parsed) > 1 { // lines before the first document are ignored
		above = max(bytes.Count(src, []byte("\n"))-bytes.Count(bytes.Join(texts, nil), []byte("\n")), 0)
	}
	for i, w := range parsed {
		d := &definition{Workflow: w, request: api.ApplyRequest{Source: string(texts[i]), File: path}, above: above, whole: src}
		above += bytes.Count(texts[i], []byte("\n"))
		if path != "-" {
			d.request.Dir = folder
			if d.request.Files, err = collect(folder, w.Travelling()); err != nil {
				return nil, err
			}
		}
		all[i] = d
	}
	return all, nil
}

// collect reads the files below folder that match globs. They are sent with a version.
func collect(folder string, globs []string) ([]api.File, error) {
	if len(globs) == 0 {
		return nil, nil
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	found, err := workflow.CollectFiles(root.FS(), globs)
	if err != nil {
		return nil, &said{errInvalid, "files: " + err.Error()}
	}
	files := make([]api.File, len(found))
	for i, f := range found {
		files[i] = api.File{Name: f.Name, Mode: uint32(f.Mode.Perm()), Data: f.Data, Size: len(f.Data)}
	}
	return files, nil
}

// fullName returns NAME, or NS/NAME outside of the namespace default.
func (d *definition) fullName() string {
	if d.Namespace == "" || d.Namespace == api.NamespaceDefault {
		return d.Name
	}
	return d.Namespace + "/" + d.Name
}

func (d *definition) apply(ctx context.Context, s *session) (api.Applied, error) {
	a, err := s.Apply(ctx, d.fullName(), d.request)
	var p *api.Problem
	if d.above > 0 && errors.As(err, &p) { // the server got only the document, so its line numbers begin there
		for i := range p.Errors {
			f := &p.Errors[i]
			if f.File == "" {
				continue
			}
			at := func() string { return fmt.Sprintf("%s:%d:%d:", f.File, f.Line, f.Column) }
			was := at()
			f.Line += d.above
			p.Detail = strings.Replace(p.Detail, was, at(), 1)
		}
	}
	return a, err
}

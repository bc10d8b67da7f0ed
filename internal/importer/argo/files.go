package argo

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"skein.dev/skein/internal/importer"
	"skein.dev/skein/internal/workflow"
)

// kept identifies a stored artifact: its task, and its name.
type kept struct{ task, name string }

// noInputs says which artifacts are imported. It is the reason for dropping any other.
const noInputs = "a task gets only files that an earlier task left in its working folder, by from: \"{{tasks.NAME.outputs.artifacts.NAME}}\"; fetch other files in the script"

// inside returns the path relative to the working folder. ok is false if the path is outside of that folder.
func inside(name, dir string) (string, bool) {
	if rest, ok := strings.CutPrefix(name, strings.TrimRight(dir, "/")+"/"); ok && dir != "" {
		name = rest
	}
	if name == "" || strings.HasPrefix(name, "/") {
		return name, false
	}
	name = path.Clean(name)
	return name, importer.CheckTask(&importer.Task{Artifacts: []string{name}}) == nil
}

// artifacts returns the files to keep: the artifacts whose path is inside the working folder.
func (d *sheet) artifacts(t *importer.Task, v *workflow.Value, dir string) map[string]kept {
	all := map[string]kept{}
	if v == nil {
		return all
	}
	for _, a := range v.Vals {
		name, ok := inside(a.Get("path").Str(), dir)
		if !ok {
			d.Drop(a, "outputs.artifacts: "+importer.Clip(name, 60)+" is not in the working folder, and only files there are kept", "write the file to the working folder, and name it under artifacts")
			continue
		}
		t.Artifacts = append(t.Artifacts, name)
		all[a.Get("name").Str()] = kept{t.Name, name}
		if a.Get("name").Str() != name {
			d.Approximate(a, "outputs.artifacts: "+importer.Clip(a.Get("name").Str(), 60)+" is kept under its path, "+importer.Clip(name, 60)+"; name a folder as PATH/**")
		}
	}
	return all
}

var wholeReference = regexp.MustCompile(`^\s*\{\{\s*([^{}]*?)\s*\}\}\s*$`)

// file returns the artifact to which a from refers.
func (s *scope) file(from string) (kept, bool) {
	m := wholeReference.FindStringSubmatch(from)
	if m == nil {
		return kept{}, false
	}
	if name, ok := strings.CutPrefix(m[1], "inputs.artifacts."); ok {
		k, ok := s.files[name]
		return k, ok
	}
	p := strings.Split(m[1], ".")
	if len(p) != 5 || p[0] != "tasks" && p[0] != "steps" || p[2] != "outputs" || p[3] != "artifacts" || s.nodes[p[1]] == nil {
		return kept{}, false
	}
	k, ok := s.nodes[p[1]].files[p[4]]
	return k, ok
}

// files returns the artifacts that are arguments of a call.
func (c *call) files(in *workflow.Value) map[string]kept {
	all := map[string]kept{}
	if list := c.args.Get("artifacts"); list != nil {
		for _, a := range list.Vals {
			name := a.Get("name").Str()
			if k, ok := c.outer.file(a.Get("from").Str()); ok {
				all[name] = k
				continue
			}
			c.outer.Drop(a, "arguments.artifacts: "+importer.Clip(name, 60)+": "+noInputs, "")
			all[name] = kept{}
		}
	}
	if list := in.Get("artifacts"); list != nil {
		for _, a := range list.Vals {
			if _, given := all[a.Get("name").Str()]; !given {
				c.outer.Drop(a, "inputs.artifacts: "+importer.Clip(a.Get("name").Str(), 60)+": "+noInputs, "")
			}
		}
	}
	return all
}

// handOn returns the artifacts of a dag or steps: those of its tasks that its outputs name.
func (s *scope) handOn(list *workflow.Value) map[string]kept {
	all := map[string]kept{}
	if list == nil {
		return all
	}
	for _, a := range list.Vals {
		k, ok := s.file(a.Get("from").Str())
		if !ok {
			s.Drop(a, "outputs.artifacts: only from: \"{{tasks.NAME.outputs.artifacts.NAME}}\" of a file in a working folder is converted here", "name the file under artifacts of the task that writes it")
			continue
		}
		all[a.Get("name").Str()] = k
	}
	return all
}

// gets makes a task fetch the input artifacts of its template.
func (s *scope) gets(t *importer.Task, list *workflow.Value, dir string) {
	if list == nil {
		return
	}
	for _, a := range list.Vals {
		k := s.files[a.Get("name").Str()]
		if k.task == "" {
			continue // already reported
		}
		to, ok := inside(a.Get("path").Str(), dir)
		of := s.made(k.task)
		what := "inputs.artifacts: " + importer.Clip(a.Get("name").Str(), 60)
		switch {
		case !ok:
			s.Drop(a, what+": "+importer.Clip(to, 60)+" is not in the working folder, and files arrive only there", "read the file from the working folder, and name it under inputs")
		case of == nil || of.Each != nil:
			s.Drop(a, what+": a repeated task writes the file, so there are several", "name a folder for them under inputs")
		case !s.before(of.Name, t):
			s.Drop(a, what+": the task does not need "+importer.Clip(of.Name, 60)+", which writes the file", "add that task to dependencies")
		case slices.ContainsFunc(t.Inputs, func(in importer.Input) bool {
			return in.To == to || strings.HasPrefix(in.To, to+"/") || strings.HasPrefix(to, in.To+"/")
		}):
			s.Drop(a, what+": two files would have the path "+importer.Clip(to, 60), "give one of them another path")
		default:
			t.Inputs = append(t.Inputs, importer.Input{To: to, Task: of.Name, Name: k.name})
			if importer.IsTrue(a.Get("optional")) {
				s.Approximate(a, what+" is optional in Argo; here the task fails if a named file is missing; a pattern may match no file")
			}
		}
	}
}

func (d *sheet) made(name string) *importer.Task {
	i := slices.IndexFunc(d.Tasks, func(t *importer.Task) bool { return t.Name == name })
	if i < 0 {
		return nil
	}
	return d.Tasks[i]
}

// before reports whether the named task always ends before t begins.
func (d *sheet) before(name string, t *importer.Task) bool {
	byName := make(map[string]*importer.Task, len(d.Tasks))
	for _, t := range d.Tasks {
		byName[t.Name] = t
	}
	seen, next := map[string]bool{}, slices.Clone(t.Needs)
	for len(next) > 0 {
		need := next[len(next)-1]
		next = next[:len(next)-1]
		if need == name {
			return true
		}
		if of := byName[need]; of != nil && !seen[need] {
			seen[need] = true
			next = append(next, of.Needs...)
		}
	}
	return false
}

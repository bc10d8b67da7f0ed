package argo

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"skein.dev/skein/internal/importer"
)

func number(n int64) importer.Raw { return importer.Raw(strconv.FormatInt(n, 10)) }

var reference = regexp.MustCompile(`\{\{([^{}]*)\}\}`)

// scope holds the values that a template can read.
type scope struct {
	*sheet
	inputs map[string]importer.Text
	nodes  map[string]*node // tasks or steps of the same template
	files  map[string]kept  // artifacts of the same template
	item   map[string]string
	handle bool // the reference is in the `when` of an exit handler
	each   bool // the reference is in a foreach, so its item is known only at run time

	parallel int64 // bound on the concurrent instances of a foreach in this template
}

// node is the conversion of a task or a step: the names of its last tasks, and its outputs.
type node struct {
	ends    []string
	result  importer.Text
	params  map[string]importer.Text
	files   map[string]kept
	maySkip bool
	goesOn  bool // tasks that need it run even if it failed
}

func runValue(name string) string {
	return map[string]string{"workflow.name": "run.id", "workflow.uid": "run.id", "workflow.namespace": "run.namespace",
		"workflow.mainEntrypoint": "run.workflow", "workflow.scheduledTime": "trigger.time", "workflow.creationTimestamp": "trigger.time",
		"workflow.creationTimestamp.RFC3339": "trigger.time"}[name]
}

// lookup returns the value of a reference.
func (s *scope) lookup(name string) (importer.Text, error) {
	name = strings.TrimSpace(name)
	none := fmt.Errorf("{{%s}} has no value in Skein; pass the value in another way", importer.Clip(name, 60))
	switch {
	case strings.HasPrefix(name, "="):
		return nil, errors.New("the importer does not convert expressions {{=…}}; compute the value as an output of a task, or write it in CEL")
	case runValue(name) != "":
		return importer.Expr(runValue(name)), nil
	case name == "workflow.status" && s.handle:
		return importer.Expr(`(failure() ? "Failed" : "Succeeded")`), nil
	}
	if key, ok := strings.CutPrefix(name, "workflow.parameters."); ok {
		if p := s.params[key]; p != "" {
			return importer.Expr(importer.Member("params", p)), nil
		}
		return nil, none
	}
	if key, ok := strings.CutPrefix(name, "inputs.parameters."); ok {
		if v, ok := s.inputs[key]; ok {
			return v, nil
		}
		return nil, none
	}
	if key, ok := strings.CutPrefix(name, "item."); ok && s.each {
		return importer.Expr(importer.Member("item", key)), nil
	}
	if name == "item" && s.each {
		return importer.Expr("item"), nil
	}
	if key, ok := strings.CutPrefix(name, "item"); ok && s.item != nil {
		if v, ok := s.item[strings.TrimPrefix(key, ".")]; ok {
			return importer.Lit(v), nil
		}
		return nil, none
	}
	path := strings.Split(name, ".")
	if len(path) < 4 || path[0] != "tasks" && path[0] != "steps" || s.nodes[path[1]] == nil || path[2] != "outputs" {
		return nil, none
	}
	n := s.nodes[path[1]]
	if path[3] == "result" && len(path) == 4 && n.result != nil {
		return n.result, nil
	}
	if path[3] == "parameters" && len(path) == 5 && n.params[path[4]] != nil {
		return n.params[path[4]], nil
	}
	return nil, none
}

// value replaces the references in a text with their values.
func (s *scope) value(text string) (importer.Text, error) {
	out := importer.Text{}
	lit := func(piece string) {
		if piece == "" {
			return
		}
		if n := len(out); n > 0 && out[n-1].Expr == "" {
			out[n-1].Lit += piece
			return
		}
		out = append(out, importer.Part{Lit: piece})
	}
	last := 0
	for _, m := range reference.FindAllStringSubmatchIndex(text, -1) {
		lit(text[last:m[0]])
		last = m[1]
		v, err := s.lookup(text[m[2]:m[3]])
		if err != nil {
			return nil, err
		}
		for _, p := range v {
			if p.Expr == "" {
				lit(p.Lit)
			} else {
				out = append(out, p)
			}
		}
	}
	lit(text[last:])
	return out, nil
}

// known replaces the references whose values are in the file. It leaves the others.
func (s *scope) known(text string) (string, error) {
	var fault error
	out := reference.ReplaceAllStringFunc(text, func(ref string) string {
		v, err := s.lookup(ref[2 : len(ref)-2])
		if err != nil {
			fault = err
			return ref
		}
		if c, ok := v.Const(); ok {
			return c
		}
		return ref
	})
	return out, fault
}

// script replaces the remaining references in a script with variables of the task.
func (s *scope) script(t *importer.Task, text string) (string, error) {
	text, err := s.known(text)
	if err != nil {
		return "", err
	}
	return importer.Shell(text, func(rest string) (string, int, bool) {
		if !strings.HasPrefix(rest, "{{") {
			return "", 0, false
		}
		m := reference.FindStringSubmatchIndex(rest)
		if m == nil || m[0] != 0 {
			return "", 0, false
		}
		v, err := s.lookup(rest[m[2]:m[3]])
		if err != nil {
			return "", 0, false
		}
		return t.Bind(hint(rest[m[2]:m[3]]), v, text), m[1], false
	})
}

// hint derives a name for a task's variable from the reference that it replaces.
func hint(ref string) string {
	ref = strings.TrimSpace(ref)
	for _, cut := range []string{"inputs.parameters.", "workflow.parameters.", "tasks.", "steps."} {
		if rest, ok := strings.CutPrefix(ref, cut); ok {
			ref = rest
		}
	}
	return strings.NewReplacer(".outputs.parameters.", "_", ".outputs.result", "").Replace(ref)
}

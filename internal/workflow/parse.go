package workflow

import (
	"fmt"

	"skein.dev/skein/internal/dag"
)

// documentsMax bounds the workflows of one file.
const documentsMax = 1000

// Parse reads a file: one or several YAML documents, one workflow each. It reports all errors at once, in the
// order of the file. If there are errors, it returns no workflows.
func Parse(src []byte, opt Options) ([]*Workflow, Errors) {
	s, ok := newSource(src, opt.File)
	if !ok {
		return nil, s.errs
	}
	if s.tasksMax = opt.TasksMax; s.tasksMax <= 0 {
		s.tasksMax = dag.TasksMax
	}
	docs := s.documents()
	if len(docs) == 0 && len(s.errs) == 0 {
		s.fail(1, 1, "", "the file is empty", "a workflow has at least a name and tasks; skein init writes one")
	}
	if len(docs) > documentsMax {
		s.fail(docs[documentsMax].line, 1, "", fmt.Sprintf("the file has more than %d documents", documentsMax), "split it")
		return nil, s.errs
	}
	all := make([]*Workflow, 0, len(docs))
	lines := map[string]int{}
	for _, d := range docs {
		w := parseDocument(s, d, opt)
		if w == nil {
			continue
		}
		all = append(all, w)
		name := w.Namespace + "/" + w.Name
		if first, dup := lines[name]; dup && w.Name != "" {
			s.fail(d.line, 1, "name", fmt.Sprintf("the workflow %s is defined twice, first in line %d", name, first), "give one of them another name")
		}
		lines[name] = d.line
	}
	if len(all) == 0 && len(s.errs) == 0 {
		s.fail(docs[0].line, 1, "", "there is no workflow in the file", "a workflow has at least a name and tasks; skein init writes one")
	}
	if len(s.errs) > 0 {
		return nil, s.errs.sorted()
	}
	return all, nil
}

// parseDocument checks one document. It returns nil if the document cannot be checked any further.
func parseDocument(s *source, d *document, opt Options) *Workflow {
	before := len(s.errs)
	n := s.parse(d)
	if n == nil || s.full() {
		return nil
	}
	c := &checker{source: s, partial: d.partial || len(s.errs) > before}
	if tasks := n.get("tasks"); tasks != nil && len(tasks.keys) > s.tasksMax {
		k := tasks.keys[s.tasksMax]
		c.failNode(k, "tasks", fmt.Sprintf("the workflow has %d tasks, the limit is %d", len(tasks.keys), s.tasksMax), "split it into several workflows")
		return nil
	}
	c.check(n, grammar(), "")
	if n.kind != mapNode {
		return nil
	}
	r := &reader{checker: c, opt: opt, compiled: map[exprKey]compiled{}}
	return r.workflow(n)
}

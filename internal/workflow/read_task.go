package workflow

import (
	"fmt"
	"slices"
	"strings"
)

func (r *reader) task(k, n *node) Task {
	t := Task{Name: k.text}
	at := join("tasks", k.text)
	if n.kind != mapNode {
		return t
	}
	t.Description = n.get("description").str()
	t.Needs = texts(n.get("needs"))
	t.If = conditionText(n.get("if").str())
	t.Dir = n.get("dir").str()
	t.Env = pairs(n.get("env"))
	t.Outputs = outputsOf(n.get("outputs"))
	t.Artifacts = texts(n.get("artifacts"))
	if a := n.get("artifacts"); len(t.Artifacts) > artifactsMax {
		r.failNode(a, join(at, "artifacts"), fmt.Sprintf("%d names and patterns are more than the %d that a task may have", len(t.Artifacts), artifactsMax), "use patterns")
	}
	t.Inputs = inputsOf(n.get("inputs"))
	t.Retry = r.retry(n.get("retry"), join(at, "retry"))
	t.Timeout, t.KillGrace = durationAt(n.get("timeout")), durationAt(n.get("kill_grace"))
	t.OnTimeout, t.Priority = n.get("on_timeout").str(), n.get("priority").str()
	t.OnLost, t.StartBy = n.get("on_lost").str(), durationAt(n.get("start_deadline"))
	t.Queue, t.Patience = n.get("queue").str(), durationOf(n.get("patience"))
	t.Group, t.Node, t.Labels = n.get("group").str(), n.get("node").str(), pairs(n.get("labels"))
	t.Resources = r.resources(n.get("resources"), join(at, "resources"))
	t.Access = r.access(n.get("access"), join(at, "access"))
	t.Run = r.run(n.get("run"), join(at, "run"))
	r.release(&t, n, at)
	r.action(k, n, at)
	r.http(&t, n, at)
	r.logic(&t, n, at)
	r.kind(&t, n, at)
	r.house(&t, n, at)
	if p := n.get("patience"); p != nil && t.Kind == "" {
		r.failNode(p, join(at, "patience"), "the key patience belongs to tasks of a kind only", "use retry")
	}
	releaseTimeout(r, &t, n, at)
	r.foreach(&t, n, at)
	if d := n.get("dir"); t.Dir != "" && !hasTemplate(t.Dir) && leavesFolder(t.Dir) {
		r.failNode(d, join(at, "dir"), "dir leads out of the workflow's folder", "give a folder inside it, or an absolute path")
	}
	r.unique(n.get("outputs"), join(at, "outputs"))
	r.unique(n.get("artifacts"), join(at, "artifacts"))
	return t
}

// unique reports a name that occurs twice in a list.
func (r *reader) unique(n *node, at string) {
	if n == nil || n.kind != listNode {
		return
	}
	seen := map[string]bool{}
	for _, v := range n.vals {
		if seen[v.text] {
			r.failNode(v, at, quoteShort(v.text)+" is listed twice", "keep one of them")
		}
		seen[v.text] = true
	}
}

// action reports a task that does not have exactly one action.
func (r *reader) action(k, n *node, at string) {
	var found []string
	var second *node
	for _, key := range n.keys {
		if slices.Contains(actions(), key.text) && !slices.Contains(found, key.text) {
			if found = append(found, key.text); len(found) == 2 {
				second = key
			}
		}
	}
	with := n.get("with") != nil && !slices.Contains(found, "workflow") && !slices.Contains(found, "kind")
	switch {
	case len(found) > 1:
		r.failNode(second, at, fmt.Sprintf("task %s has several actions: %s", k.text, strings.Join(found, " and ")),
			"make a task of each, and let one need the other")
	case len(found) == 0:
		r.failNode(k, at, "task "+k.text+" has no action: it has no run", "add run, such as run: echo hello")
	case with:
		r.failNode(n.get("with"), join(at, "with"), "the key with belongs to tasks with workflow or kind only", "pass values to run through env")
	}
}

func outputsOf(n *node) []Output {
	if n == nil || n.kind == scalarNode {
		return nil
	}
	var all []Output
	if n.kind == listNode {
		for _, name := range texts(n) {
			all = append(all, Output{Name: name, Type: String})
		}
		return all
	}
	for i, k := range n.keys {
		all = append(all, Output{Name: k.text, Type: Type(n.vals[i].str())})
	}
	return all
}

func (r *reader) run(n *node, at string) Run {
	var out Run
	if n == nil {
		return out
	}
	r.noTemplates(n, at)
	switch n.kind {
	case scalarNode:
		out.Shell = n.str()
		return out
	case listNode:
		if out.Argv = texts(n); len(out.Argv) > 0 && out.Argv[0] == "" {
			r.failNode(n.vals[0], at, "the program is empty", "the first item of run is the program")
		}
		return out
	}
	for _, lang := range []string{"python", "node", "bash", "sh"} {
		if code := n.get(lang); code != nil {
			out.Lang, out.Code = lang, code.str()
		}
	}
	if file := n.get("file"); file != nil {
		out.File = file.str()
		r.script(file, join(at, "file"))
	}
	if args := n.get("args"); args != nil {
		if out.Args = texts(args); n.get("file") == nil {
			r.failNode(args, join(at, "args"), "the key args belongs to the key file only", "pass values to inline code through env")
		}
	}
	return out
}

// noTemplates reports ${{ }} in commands and code. It is not allowed there, so that no value can inject code
// into a shell.
func (r *reader) noTemplates(n *node, at string) {
	if i := strings.Index(n.text, "${{"); n.kind == scalarNode && i >= 0 {
		line, col := r.inside(n, len([]rune(n.text[:i])))
		expr := strings.TrimSpace(strings.TrimPrefix(n.text[i:], "${{"))
		if end := closing(n.text, i+3); end >= 0 {
			expr = strings.TrimSpace(n.text[i+3 : end])
		}
		if len(expr) > 80 || strings.ContainsAny(expr, "\n\"") {
			expr = "…"
		}
		r.fail(line, col, at, "${{ }} is not allowed inside run: a value could be taken for code",
			fmt.Sprintf(`pass it through env: env: {VALUE: "${{ %s }}"}, and use "$VALUE" in run`, expr))
	}
	for _, v := range n.vals {
		r.noTemplates(v, at)
	}
}

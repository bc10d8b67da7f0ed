package workflow

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/suggest"
)

// reader makes the definition from nodes that the grammar has checked. It leaves out the parts that the
// grammar has refused. It also checks the rules that concern the whole file.
type reader struct {
	*checker
	opt      Options
	declared declarations
	compiled map[exprKey]compiled // by source text, because many tasks have equal conditions
	self     string               // NAMESPACE/NAME
	head     map[string]any       // the keys that apply to all tasks, including those that are made at run time
	named    []Class              // the classes that are not built in
	own      map[string]dag.Need  // the result of Options.Classes
}

func (r *reader) workflow(n *node) *Workflow {
	w := &Workflow{
		Namespace:   firstText(n.get("namespace").str(), firstText(r.opt.Namespace, "default")),
		Name:        n.get("name").str(),
		Description: n.get("description").str(),
		Priority:    n.get("priority").str(),
		OnFailure:   n.get("on_failure").str(),
		Timeout:     durationOf(n.get("timeout")),
		Env:         pairs(n.get("env")),
		Files:       texts(n.get("files")),
		exprs:       &derived{},
	}
	r.self = w.Namespace + "/" + w.Name
	r.declared = declarations{params: map[string]*Param{}, outputs: map[string][]Output{}, foreach: map[string]bool{}}
	if d := n.get("defaults"); d != nil && d.kind == mapNode {
		w.Defaults = Defaults{Retry: r.retry(d.get("retry"), "defaults.retry"), Timeout: durationAt(d.get("timeout")),
			KillGrace: durationAt(d.get("kill_grace")), OnTimeout: d.get("on_timeout").str(), Priority: d.get("priority").str(),
			OnLost: d.get("on_lost").str(), StartBy: durationAt(d.get("start_deadline")), Resources: r.resources(d.get("resources"), "defaults.resources"),
			Access: r.access(d.get("access"), "defaults.access")}
	}
	w.Tags = r.tags(n.get("tags"), "tags")
	r.params(w, n.get("params"))
	w.MaxRuns = int32(intOf(n.get("max_concurrent_runs"), 0))
	if keep := n.get("retention"); keep != nil && keep.kind == mapNode {
		w.Retention = Retention{Age: durationOf(keep.get("age")), Runs: intOf(keep.get("runs"), 0)}
	}
	w.Queue, w.LockPolicy = n.get("queue").str(), n.get("lock_policy").str()
	w.Locks = r.locks(n.get("locks"))
	if p := n.get("lock_policy"); p != nil && len(w.Locks) == 0 {
		r.failNode(p, "lock_policy", "lock_policy has no effect without locks", "add locks, or remove it")
	}
	if offers := n.get("offers"); offers != nil {
		w.Offers = append([]string{}, texts(offers)...)
	}
	r.triggers(w, n.get("triggers"))
	r.alerts(w, n.get("alerts"))
	r.head = headOf(n)
	r.headClass(&w.Defaults)
	tasks := n.get("tasks")
	if splits(n) {
		tasks = r.split(n)
	}
	if tasks == nil || tasks.kind != mapNode {
		return w
	}
	if len(tasks.keys) == 0 && !r.partial {
		r.failNode(tasks, "tasks", "the workflow has no tasks", "add one, such as hello: {run: echo hello}")
	}
	w.Tasks = make([]Task, len(tasks.keys))
	for i, k := range tasks.keys {
		w.Tasks[i] = r.task(k, tasks.vals[i])
		r.declared.outputs[k.text] = w.Tasks[i].Outputs
		r.declared.foreach[k.text] = len(w.Tasks[i].Foreach) > 0
	}
	w.Classes = r.named
	r.files(n.get("files"))
	r.checkEnv(n.get("env"), "env", inEnv|secretsToo, nil)
	r.checkGraph(w, tasks)
	if !splits(n) { // a splitter names its tasks at run time
		checkAlertTasks(r, w, n.get("alerts"))
	}
	return w
}

func durationOf(n *node) Duration {
	d, err := ParseDuration(n.str())
	if err != nil {
		return 0
	}
	return d
}

func durationAt(n *node) *Duration {
	if n == nil {
		return nil
	}
	d := durationOf(n)
	return &d
}

// pairs reads a table of texts.
func pairs(n *node) []KV {
	if n == nil || n.kind != mapNode {
		return nil
	}
	var all []KV
	for i, k := range n.keys {
		all = append(all, KV{Name: k.text, Value: n.vals[i].str()})
	}
	return all
}

// texts reads a text or a list of texts.
func texts(n *node) []string {
	switch {
	case n == nil || n.kind == mapNode || n.isNull():
		return nil
	case n.kind == scalarNode:
		return []string{n.text}
	}
	var all []string
	for _, v := range n.vals {
		all = append(all, v.str())
	}
	return all
}

func (r *reader) retry(n *node, at string) *Retry {
	if n == nil || n.kind != mapNode {
		return nil
	}
	out := &Retry{Delay: durationOf(n.get("delay")), MaxDelay: durationOf(n.get("max_delay"))}
	if v := n.get("max"); v != nil {
		most, _ := v.int()
		out.Max = int32(most)
	}
	if v := n.get("backoff"); v != nil {
		out.Backoff, _ = v.float()
	}
	if v := n.get("jitter"); v != nil {
		out.Jitter, _ = v.float()
	}
	if v := n.get("on_exit"); v != nil {
		for _, e := range v.vals {
			code, _ := e.int()
			out.OnExit = append(out.OnExit, int32(code))
		}
	}
	if out.MaxDelay > 0 && out.MaxDelay < out.Delay {
		r.failNode(n.get("max_delay"), at+".max_delay", "max_delay is shorter than delay", "give max_delay at least "+out.Delay.String())
	}
	return out
}

func (r *reader) params(w *Workflow, n *node) {
	if n == nil || n.kind != mapNode {
		return
	}
	w.Params = make([]Param, len(n.keys))
	for i, k := range n.keys {
		w.Params[i] = r.param(k, n.vals[i])
		r.declared.params[k.text] = &w.Params[i]
	}
}

func (r *reader) param(k, n *node) Param {
	p := Param{Name: k.text, Type: String}
	typ := n
	if n.kind != scalarNode {
		typ = n.get("type")
	}
	if typ != nil {
		if !paramType().takes(typ) { // the grammar has reported this fault, and the default cannot be checked
			return Param{Name: k.text, Type: JSON}
		}
		p.Type = Type(typ.text)
	}
	if n.kind == scalarNode {
		return p
	}
	at := join("params", k.text)
	p.Format, p.Description = n.get("format").str(), n.get("description").str()
	if p.Format != "" && p.Type != String {
		r.failNode(n.get("format"), join(at, "format"), "format applies to texts only, but this parameter is "+string(p.Type), "remove format, or type")
		p.Format = ""
	}
	if p.Type == Secret {
		for _, key := range []string{"default", "enum"} {
			if v := n.get(key); v != nil && !v.isNull() {
				r.failNode(v, join(at, key), "a parameter of type secret has no "+key+": the value would be in the file", "remove "+key+", or use secrets.NAME where the value is needed")
				return p
			}
		}
	}
	if v := n.get("enum"); v != nil && v.kind == listNode {
		plain := p // without the enum
		for i, e := range v.vals {
			if raw, ok := r.literal(&plain, e, fmt.Sprintf("%s.enum[%d]", at, i)); ok {
				p.Enum = append(p.Enum, raw)
			}
		}
	}
	required := n.get("required")
	must := false
	if required != nil {
		must, _ = required.bool()
	}
	def := n.get("default")
	switch {
	case def == nil:
		p.Optional = required != nil && !must
	case def.isNull() && p.Type != JSON:
		p.Optional = true
	default:
		if must {
			r.failNode(required, join(at, "required"), "a parameter with a default is never required", "remove required or default")
		}
		p.Default = r.defaultOf(&p, def, join(at, "default"))
	}
	return p
}

// literal converts a value that is written in the file.
func (r *reader) literal(p *Param, n *node, at string) (json.RawMessage, bool) {
	v := n.value()
	if p.Type == String && n.isText() { // for a string, 5 and true are texts, too
		v = n.text
	}
	raw, err := p.convert(v, false)
	if err != nil {
		hint := ""
		if !n.plain && p.Type != String {
			hint = "write it without quotes"
		}
		r.failNode(n, at, at+" "+err.Error(), hint)
		return nil, false
	}
	return raw, true
}

func (r *reader) defaultOf(p *Param, n *node, at string) json.RawMessage {
	if n.kind != scalarNode || !hasTemplate(n.text) {
		raw, _ := r.literal(p, n, at)
		return raw
	}
	t, faults := r.declared.template(n.text, inDefault)
	r.complain(n, at, 0, faults)
	if t != nil {
		if word, ok := gives(t, p.Type); !ok {
			r.failNode(n, at, fmt.Sprintf("the value of %s has the type %s, but the parameter must be %s", at, word, p.words()), "change the type or the expression")
		}
	}
	raw, err := marshal(n.text)
	if err != nil {
		return nil
	}
	return raw
}

// gives reports whether the value of a template has a type. It also returns the type that the value has.
func gives(t *template, typ Type) (string, bool) {
	if len(t.parts) != 1 || t.parts[0].expr == nil {
		return "text", typ == String || typ == JSON
	}
	word := typeWord(t.parts[0].expr.out.TypeName())
	switch {
	case word == "dyn" || typ == JSON:
		return word, true
	case typ == String:
		return word, word == "string" || word == "instant" || word == "duration"
	case typ == Float:
		return word, word == "float" || word == "int"
	}
	return word, word == string(typ)
}

// files checks the globs under files.
func (r *reader) files(n *node) {
	if r.opt.Dir == nil || n == nil || n.kind == mapNode || r.partial {
		return
	}
	globs := n.vals
	if n.kind == scalarNode {
		globs = []*node{n}
	}
	total := int64(0)
	for _, g := range globs {
		if g.str() == "" || !isInside(g.text) {
			continue
		}
		names, err := matchFiles(r.opt.Dir, []string{g.text})
		if err != nil {
			hint := "check the pattern; it is relative to the workflow file's folder"
			var empty *emptyGlobError
			if !errors.As(err, &empty) {
				hint = ""
			}
			r.failNode(g, "files", err.Error(), hint)
			continue
		}
		for _, name := range names {
			info, err := fs.Stat(r.opt.Dir, name)
			if err != nil {
				continue // the file was removed meanwhile, and collecting the files will report that
			}
			if total += info.Size(); info.Size() > FileMax {
				r.failNode(g, "files", fmt.Sprintf("the file %s is larger than %s", name, sizeText(FileMax)), "do not list it; give its path as a parameter")
			}
		}
	}
	if total > FilesBytesMax {
		r.failNode(n, "files", fmt.Sprintf("the files are larger than %s together", sizeText(FilesBytesMax)), "name fewer files")
	}
}

// script checks that a script exists.
func (r *reader) script(n *node, at string) {
	if r.opt.Dir == nil || !n.isText() || !isInside(n.text) {
		return
	}
	name := path.Clean(n.text)
	info, err := fs.Stat(r.opt.Dir, name)
	switch {
	case err == nil && info.Mode().IsRegular():
	case err == nil:
		r.failNode(n, at, quoteShort(n.text)+" is not a file", "")
	case errors.Is(err, fs.ErrNotExist):
		r.failNode(n, at, "there is no file "+quoteShort(n.text)+" next to the workflow file", r.nearFile(name))
	default:
		r.failNode(n, at, fmt.Sprintf("the file %s cannot be read: %v", quoteShort(n.text), err), "")
	}
}

func (r *reader) nearFile(name string) string {
	entries, err := fs.ReadDir(r.opt.Dir, path.Dir(name))
	if err != nil {
		return "there is no folder " + path.Dir(name) + " either"
	}
	names := map[string]bool{}
	for _, e := range entries {
		names[e.Name()] = true
	}
	if near := suggest.Nearest(path.Base(name), slices.Values(slices.Sorted(maps.Keys(names)))); near != "" {
		return "did you mean " + path.Join(path.Dir(name), near) + "?"
	}
	return "paths are relative to the workflow file's folder"
}

// leavesFolder reports whether a relative folder is outside of the workflow's folder.
func leavesFolder(dir string) bool {
	return !path.IsAbs(dir) && !isInside(dir)
}

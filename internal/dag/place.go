package dag

import (
	"slices"
	"strings"
)

// Place is the placement of a task: the workers that may run it, and the resources that it uses there. It is
// either Anywhere, or a canonical text made by NewPlace and With. The text can name a kind of task, a node, a
// group and labels, and a worker must match all of them.
type Place string

// HousePrefix begins the names of the kinds of tasks that are part of Skein. No kind that is declared in a
// file may begin with it.
const HousePrefix = "skein:"

// Anywhere fits every worker that runs processes.
const Anywhere Place = ""

// The parts of a placement. A part is a letter for its kind, then the text, then the end mark, which no text
// contains.
const (
	placeKind   = 'k'
	placeNode   = 'n'
	placeGroup  = 'g'
	placeLabel  = 'l'
	placeCPU    = 'c'
	placeMemory = 'm'
	placeSpace  = 's' // the namespace of the task, see Space
	placeUser   = 'u' // the Unix user of the task, see Space
	placeEnd    = "\n"
)

// Traits are the properties by which tasks choose a worker, in addition to its name. A worker with kinds has
// task functions for these kinds, and gets no other tasks. A worker without kinds runs processes.
type Traits struct {
	Groups []string          `json:"groups,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	Kinds  []string          `json:"kinds,omitempty"`
	// Extensions are the kinds of tasks that the worker runs as processes, in addition to ordinary processes.
	// Of several versions of one kind, the newest comes first.
	Extensions []Extension `json:"extensions,omitempty"`
	// Refused are folders of extensions that the worker does not use. They are for people.
	Refused []Refusal `json:"refused,omitempty"`
	// Namespaces are the only namespaces whose tasks the worker runs. Empty means all. A worker with
	// namespaces gets only tasks that name the worker or its group. Their placement then names their
	// namespace, see Space.
	Namespaces []string `json:"namespaces,omitempty"`
	// Levels are the levels of isolation that the worker offers, the weakest first. If it is empty, the
	// worker offers only the level in the label LabelIsolation. Otherwise the label has the weakest level,
	// because nodes of earlier versions read only the label.
	Levels []string `json:"levels,omitempty"`
	// Users are the Unix users that namespaces may choose for their tasks on this worker.
	Users []string `json:"users,omitempty"`
	// Room is the cpu and memory of the worker for tasks. Used is the part of Room that attempts use.
	Room Need `json:"room,omitzero"`
	Used Need `json:"used,omitzero"`
	// Full reports whether the worker's disk is too full for attempts. A full worker gets none.
	Full bool `json:"full,omitzero"`
	// Quick is a promise of a node with a registry: its attempts end within three quarters of Quick, in
	// milliseconds, after its last renewal. So if the registry has also lost the node, the node counts as
	// dead after a silence of Quick. It is 0 if there is no promise. Then the node counts as dead only after
	// the lag.
	Quick int64 `json:"quick,omitzero"`
	// Proves is a promise of a node: each of its calls to another node proves its name, by a certificate or by
	// the key of the nodes.
	Proves bool `json:"proves,omitzero"`
}

// Extension is a kind of task that a worker runs as a process.
type Extension struct {
	Kind    string `json:"kind"`
	Version string `json:"version,omitempty"`
	Digest  string `json:"digest,omitempty"` // the digest of the declaration of the kind
	// Connection is the type of connection that the input of the kind names, or "" if there is none.
	Connection string `json:"connection,omitempty"`
	// Releases says that attempts may have handles, and that the kind has a command that releases them.
	Releases bool `json:"releases,omitempty"`
	// Adopts says that after an attempt was lost, the next attempt continues its work, as with Policy.Adopts.
	Adopts bool `json:"adopts,omitempty"`
}

// Refusal is a folder of extensions that a worker does not use, with the reason.
type Refusal struct {
	Folder string `json:"folder"`
	Why    string `json:"why"`
}

// Bounds of the refusals of a worker.
const (
	RefusalsMax    = 20
	refusedPathMax = 300 // bytes
	refusalWhyMax  = 500 // bytes
)

// Refuse adds a refusal in a bounded form, unless there are RefusalsMax.
func (t *Traits) Refuse(folder, why string) {
	cut := func(s string, most int) string {
		if len(s) > most {
			s = s[:most]
		}
		return strings.Map(func(r rune) rune {
			if r < ' ' || r == 0x7f {
				return ' '
			}
			return r
		}, strings.ToValidUTF8(s, ""))
	}
	if len(t.Refused) < RefusalsMax {
		t.Refused = append(t.Refused, Refusal{cut(folder, refusedPathMax), cut(why, refusalWhyMax)})
	}
}

// Extension returns the extension that runs tasks of a kind, or nil if there is none. The name of the kind
// may end with @ and a version, such as slurm@1.
func (t *Traits) Extension(kind string) *Extension {
	name, version, _ := strings.Cut(kind, "@")
	for i := range t.Extensions {
		x := &t.Extensions[i]
		if x.Kind == name && (version == "" || x.Version == version || strings.HasPrefix(x.Version, version+".")) {
			return x
		}
	}
	return nil
}

// NewPlace makes a placement. An empty argument adds no requirement.
func NewPlace(node, group string, labels map[string]string) Place {
	var b strings.Builder
	part := func(kind byte, text string) {
		b.WriteByte(kind)
		b.WriteString(strings.ReplaceAll(text, placeEnd, " "))
		b.WriteString(placeEnd)
	}
	if node != "" {
		part(placeNode, node)
	}
	if group != "" {
		part(placeGroup, group)
	}
	all := make([]string, 0, len(labels))
	for k, v := range labels {
		all = append(all, k+"="+v)
	}
	slices.Sort(all)
	for _, l := range all {
		part(placeLabel, l)
	}
	return Place(b.String())
}

// OfKind returns the placement of tasks of a kind that workers register; "" means processes.
func (p Place) OfKind(kind string) Place {
	if kind == "" {
		return p
	}
	return Place(string(placeKind)+strings.ReplaceAll(kind, placeEnd, " ")+placeEnd) + p
}

// Kind returns the kind of the tasks, or "" if they are processes.
func (p Place) Kind() (kind string) {
	p.each(func(part byte, text string) bool {
		if part == placeKind {
			kind = text
		}
		return kind == ""
	})
	return kind
}

// Group returns the group of workers that the placement requires. "" means any.
func (p Place) Group() (group string) {
	p.each(func(part byte, text string) bool {
		if part == placeGroup {
			group = text
		}
		return group == ""
	})
	return group
}

// each calls f for the parts of p, until f returns false.
func (p Place) each(f func(kind byte, text string) bool) {
	for part := range strings.SplitSeq(string(p), placeEnd) {
		if part != "" && !f(part[0], part[1:]) {
			return
		}
	}
}

// Parts returns placements with one requirement each.
func (p Place) Parts() (parts []Place) {
	for part := range strings.SplitSeq(string(p), placeEnd) {
		if part != "" {
			parts = append(parts, Place(part+placeEnd))
		}
	}
	return parts
}

// Node returns the only worker that may run the task, or "" if no worker is named.
func (p Place) Node() (name string) {
	p.each(func(kind byte, text string) bool {
		if kind == placeNode {
			name = text
		}
		return name == ""
	})
	return name
}

// Fits reports whether a worker with this name and these traits may run the task. It does not compare
// resources; the caller does.
func (p Place) Fits(name string, t *Traits) bool {
	fits, handled, named, function := true, false, false, false
	p.each(func(kind byte, text string) bool {
		switch kind {
		case placeKind:
			function = slices.Contains(t.Kinds, text)
			fits, handled = function || t.Extension(text) != nil, true
		case placeNode:
			fits, named = text == name, true
		case placeGroup:
			fits, named = slices.Contains(t.Groups, text), true
		case placeLabel:
			k, v, _ := strings.Cut(text, "=")
			has, ok := t.Labels[k]
			fits = ok && has == v || k == LabelIsolation && t.Isolates(v)
		case placeSpace:
			fits = len(t.Namespaces) == 0 || slices.Contains(t.Namespaces, text)
		case placeUser: // a task function runs as the user of its program
			fits = function || slices.Contains(t.Users, text)
		case placeCPU, placeMemory:
		default: // a requirement of a later version, which this version does not know
			fits = false
		}
		return fits
	})
	return fits && (handled || len(t.Kinds) == 0) && (named || len(t.Namespaces) == 0)
}

// LabelIsolation is the label of a worker with the lowest level at which it isolates tasks, one of
// IsolationLevels; a worker without it has the first level. A task that requires a level also fits a worker
// that offers a higher one.
const LabelIsolation = "isolation"

// IsolationLevels are the levels at which workers isolate tasks, the weakest first.
var IsolationLevels = []string{"none", "fence", "user", "box"}

// Isolates reports whether the worker may run a task that requires a level.
func (t *Traits) Isolates(want string) bool {
	least := slices.Index(IsolationLevels, want)
	has := max(slices.Index(IsolationLevels, t.Labels[LabelIsolation]), 0)
	for _, level := range t.Levels {
		has = max(has, slices.Index(IsolationLevels, level))
	}
	return least >= 0 && has >= least
}

// Isolation returns the level of isolation that the placement requires, or "" if there is none.
func (p Place) Isolation() (level string) {
	p.each(func(kind byte, text string) bool {
		if name, value, _ := strings.Cut(text, "="); kind == placeLabel && name == LabelIsolation {
			level = value
		}
		return level == ""
	})
	return level
}

// Isolated returns the placement for tasks that require a level of isolation, or a higher one that the
// placement already requires.
func (p Place) Isolated(level string) Place {
	was := p.Isolation()
	if level == IsolationLevels[0] || Stricter(was, level) == was {
		return p
	}
	part := func(level string) string { return string(rune(placeLabel)) + LabelIsolation + "=" + level + placeEnd }
	if was == "" {
		return p + Place(part(level))
	}
	return Place(strings.Replace(placeEnd+string(p), placeEnd+part(was), placeEnd+part(level), 1)[len(placeEnd):])
}

// Stricter returns the higher of two levels of isolation. An unknown level, such as "", is below all others.
func Stricter(a, b string) string {
	if slices.Index(IsolationLevels, a) > slices.Index(IsolationLevels, b) {
		return a
	}
	return b
}

// String returns the requirements of the placement for people.
func (p Place) String() string {
	if p == Anywhere {
		return "any worker"
	}
	var all []string
	p.each(func(kind byte, text string) bool {
		switch kind {
		case placeKind:
			all = append(all, "kind "+strings.TrimPrefix(text, HousePrefix))
		case placeNode:
			all = append(all, "node "+text)
		case placeGroup:
			all = append(all, "group "+text)
		case placeSpace:
			all = append(all, "namespace "+text)
		case placeUser:
			all = append(all, "user "+text)
		case placeLabel:
			if level, is := strings.CutPrefix(text, LabelIsolation+"="); is {
				all = append(all, LabelIsolation+" "+level)
			} else {
				all = append(all, "label "+text)
			}
		case placeCPU, placeMemory:
		default:
			all = append(all, text)
		}
		return true
	})
	if n := p.Need(); !n.IsZero() {
		all = append(all, n.String())
	}
	return strings.Join(all, ", ")
}

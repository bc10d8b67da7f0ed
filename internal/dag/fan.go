package dag

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// A foreach task is one node of its version's graph, with one attempt that is deferred while its instances
// run. The instances belong only to this run: they come after the tasks of the version, need no tasks, and
// have the policy of their foreach task. Either workers run the instances, or each instance is a call with
// its own child run.
//
// The graph of a run consists of the graph of its version, which runs share, and of the segments in the run's
// row, in their order. An instance keeps its position and its name for ever. If a new generation gets other
// items, an item uses the existing instance with its name, and instances are added for the other items. An
// instance that no longer has an item is retired: it stays skipped.

// Bounds of foreach.
const (
	// ItemsMax bounds the items of one foreach.
	ItemsMax = 10_000
	// ItemBytesMax bounds all items of one foreach.
	ItemBytesMax = 1 << 20
	// foreachMax bounds the foreach tasks of one graph.
	foreachMax = 1000
)

// Items are the elements of a foreach task. Each becomes one instance.
type Items struct {
	// Names are the suffixes of the instances' names, after the name of the task and a dot, such as "0" or
	// "0.3". nil means 0, 1, 2, ….
	Names  []string
	Values [][]byte // value of each instance as JSON
}

// name returns the suffix that item i adds to the name of its instance.
func (it *Items) name(i int) string {
	if it.Names == nil {
		return strconv.Itoa(i)
	}
	return it.Names[i]
}

// check returns the fault of the items of a definition.
func (it *Items) check() error {
	if len(it.Values) > ItemsMax {
		return fmt.Errorf("foreach has %d items, the limit is %d", len(it.Values), ItemsMax)
	}
	size := 0
	for _, v := range it.Values {
		size += len(v)
	}
	if size > ItemBytesMax {
		return fmt.Errorf("the items of foreach have %d bytes, the limit is %d: use short names as items, and let the task read the data", size, ItemBytesMax)
	}
	return nil
}

// fan holds the instances of one foreach task of one run. A fan never changes: a new one replaces it.
type fan struct {
	of    TaskID
	all   []TaskID          // every instance that has ever existed, in the order in which they were made
	names []string          // suffix of the name of each instance in all
	index map[string]TaskID // suffix → the instance
	order []TaskID          // the instances that have an item, in the order of the items
	place []int32           // for each instance in all, its index in order, or -1 if it is retired
	items [][]byte          // the items, in the same sequence as the field order
	stale bool              // the items must be computed again before the next use
}

// instance is a task that comes after the tasks of the version.
type instance struct {
	of  TaskID
	nth int32 // index in fan.all
}

// fixed returns the number of tasks of the version. A task with a greater number is an instance.
func (g *Graph) fixed() int { return len(g.names) }

// InstanceOf returns the foreach task of which t is an instance.
func (g *Graph) InstanceOf(t TaskID) (TaskID, bool) {
	if int(t) < g.fixed() || int(t) >= g.Len() {
		return 0, false
	}
	return g.grown[int(t)-g.fixed()].of, true
}

// Item returns the element of an instance, as JSON. It returns nil if the task is no instance, or retired.
func (g *Graph) Item(t TaskID) []byte {
	of, ok := g.InstanceOf(t)
	if !ok {
		return nil
	}
	f := g.fans[of]
	at := f.place[g.grown[int(t)-g.fixed()].nth]
	if at < 0 {
		return nil
	}
	return f.items[at]
}

// Instances lists the instances of a foreach task in the order of their items, or returns nil if the task
// was not split. The graph owns the slice.
func (g *Graph) Instances(t TaskID) []TaskID {
	if f := g.fans[t]; f != nil {
		return f.order
	}
	return nil
}

// without reports whether the instance all[i] no longer has an item. While the items have to be computed
// again, it returns false for every instance.
func (f *fan) without(i int) bool { return f.place[i] < 0 && !f.stale }

// retired reports whether an instance no longer has an item.
func (g *Graph) retired(t TaskID) bool {
	is := g.grown[int(t)-g.fixed()]
	return g.fans[is.of].place[is.nth] < 0
}

func (g *Graph) instanceName(t TaskID) string {
	is := g.grown[int(t)-g.fixed()]
	return g.names[is.of] + "." + g.fans[is.of].names[is.nth]
}

func (g *Graph) findInstance(name string) (TaskID, bool) {
	base, rest, _ := strings.Cut(name, ".")
	of, ok := g.index[base]
	if f := g.fans[of]; ok && f != nil {
		t, ok := f.index[rest]
		return t, ok
	}
	return 0, false
}

// errTooManyTasks is in the error chain that grow returns if the run would have too many tasks.
var errTooManyTasks = errors.New("the run would have too many tasks")

// grow returns the graph of a run after a foreach task was split into instances. The graph itself does not
// change. Both graphs share their common part in memory. So if grow made several graphs from one graph, only
// one of them may grow further.
func (g *Graph) grow(of TaskID, items *Items) (*Graph, error) {
	was, n := g.fans[of], len(items.Values)
	f := &fan{of: of, order: make([]TaskID, n), items: items.Values}
	if was != nil {
		f.all, f.names, f.index = slices.Clip(was.all), slices.Clip(was.names), maps.Clone(was.index)
	} else {
		f.all, f.names, f.index = make([]TaskID, 0, n), make([]string, 0, n), make(map[string]TaskID, n)
	}
	out := *g
	for i := range n {
		name := items.name(i)
		t, known := f.index[name]
		if !known {
			t = TaskID(out.Len())
			out.grown = append(out.grown, instance{of, int32(len(f.all))})
			f.all, f.names = append(f.all, t), append(f.names, name)
			f.index[name] = t
		}
		f.order[i] = t
	}
	if out.Len() > TasksMax && out.Len() > g.Len() {
		return nil, fmt.Errorf("%w: %d, the limit is %d", errTooManyTasks, out.Len(), TasksMax)
	}
	f.place = make([]int32, len(f.all))
	for i := range f.place {
		f.place[i] = -1
	}
	for i, t := range f.order {
		nth := out.grown[int(t)-g.fixed()].nth
		if f.place[nth] >= 0 {
			return nil, fmt.Errorf("foreach gives two instances the name %s", f.names[nth])
		}
		f.place[nth] = int32(i)
	}
	out.fans = maps.Clone(g.fans)
	if out.fans == nil {
		out.fans = map[TaskID]*fan{}
	}
	out.fans[of] = f
	return &out, nil
}

// wither returns a copy of the graph that marks the items of a foreach task as stale: they have to be
// computed again.
func (g *Graph) wither(of TaskID) *Graph {
	out, f := *g, *g.fans[of]
	f.stale = true
	out.fans = maps.Clone(g.fans)
	out.fans[of] = &f
	return &out
}

// The sections that a run's row adds to its version's graph. Each section has its kind, its length and its
// content.
const (
	segmentWhole = 1 // a whole graph, which replaces the version's graph
	segmentSplit = 2 // a foreach task has instances
	segmentStale = 3 // the items have to be computed again
)

func appendSegment(own []byte, kind byte, content []byte) []byte {
	w := packer{b: append(own, kind)}
	w.text(string(content))
	return w.b
}

// packSplit packs a split. It leaves out the names of the items if these names equal the numbers of the
// items.
func packSplit(of TaskID, items *Items) []byte {
	size := 16
	for _, v := range items.Values {
		size += len(v) + 8
	}
	w := packer{b: make([]byte, 0, size)}
	w.uint(uint64(of))
	w.bool(items.Names != nil)
	w.uint(uint64(len(items.Values)))
	for i, v := range items.Values {
		if items.Names != nil {
			w.text(items.Names[i])
		}
		w.text(string(v))
	}
	return w.b
}

func unpackSplit(b []byte) (of TaskID, items Items, ok bool) {
	u := unpacker{b: b}
	of = TaskID(int32(u.uint()))
	named := u.bool()
	n := u.count(1)
	items.Values = make([][]byte, n)
	if named {
		items.Names = make([]string, n)
	}
	for i := range n {
		if named {
			items.Names[i] = u.text()
		}
		items.Values[i] = u.bytes()
	}
	return of, items, !u.bad && len(u.b) == 0
}

// bytes reads a text without copying it.
func (u *unpacker) bytes() []byte {
	n := u.count(1)
	b := u.b[:n:n]
	u.b = u.b[n:]
	return b
}

// RunGraph returns the graph of a run: the graph of its version with the additions in the run's row. Every
// reader of a run uses it, on any node.
func RunGraph(version *Graph, own []byte, compile Compiler) (*Graph, error) {
	g, u := version, unpacker{b: own}
	for len(u.b) > 0 {
		kind, content := u.byte(), u.bytes()
		var err error
		switch {
		case u.bad:
		case kind == segmentWhole:
			g, err = UnpackGraph(content, compile)
		case kind == segmentSplit:
			of, items, ok := unpackSplit(content)
			if u.bad = !ok || g.Kind(of) != Foreach; !u.bad {
				g, err = g.grow(of, &items)
			}
		case kind == segmentStale:
			s := unpacker{b: content}
			of := TaskID(int32(s.uint()))
			if u.bad = s.bad || g.fans[of] == nil; !u.bad {
				g = g.wither(of)
			}
		default:
			u.bad = true
		}
		if err != nil {
			return nil, fmt.Errorf("graph of the run: %w", err)
		}
		if u.bad {
			return nil, fmt.Errorf("graph of the run: %w", errPacked)
		}
	}
	return g, nil
}

package dag

// cycles finds the cycles among the tasks that could not be ordered. The parameter left has, for each task,
// the number of its needs that were not ordered. Tasks that all reach each other form a knot, and cycles
// reports one path for each knot. The paths are in the order of the first task of each knot.
func (b *builder) cycles(left []int32) {
	k := knots{g: b.g, left: left, seen: make([]int32, len(left)), low: make([]int32, len(left)), of: make([]TaskID, len(left))}
	for t := range left {
		k.of[t] = noKnot
	}
	for t := range left {
		if left[t] > 0 && k.seen[t] == 0 {
			k.walk(TaskID(t))
		}
	}
	told := make([]bool, len(left))
	for t := range left {
		knot := k.of[t]
		if knot == noKnot || k.size[knot] < 2 || told[knot] {
			continue
		}
		if len(b.errs) >= errorsMax {
			return
		}
		told[knot] = true
		b.fail(&GraphError{Kind: Cycle, Path: k.path(TaskID(t))})
	}
}

const noKnot = TaskID(-1)

// knots finds the strongly connected components along needs, with Tarjan's algorithm but without recursion,
// because a chain may have 100,000 tasks.
type knots struct {
	g     *Graph
	left  []int32
	count int32
	seen  []int32 // task → the number of its visit; 0 if it was not visited yet
	low   []int32 // task → the lowest number of a visit that can be reached from it
	of    []TaskID
	size  map[TaskID]int
	open  []TaskID // visited tasks that are not part of a knot yet
}

// visit is a task whose needs are being examined.
type visit struct {
	task TaskID
	next int
}

func (k *knots) enter(t TaskID) visit {
	k.count++
	k.seen[t], k.low[t] = k.count, k.count
	k.open = append(k.open, t)
	return visit{task: t}
}

func (k *knots) walk(from TaskID) {
	way := []visit{k.enter(from)}
	for len(way) > 0 {
		v := &way[len(way)-1]
		t, needs := v.task, k.g.needs.of(v.task)
		if v.next < len(needs) {
			need := needs[v.next]
			v.next++
			switch {
			case k.left[need] == 0 || k.of[need] != noKnot:
			case k.seen[need] == 0:
				way = append(way, k.enter(need))
			default:
				k.low[t] = min(k.low[t], k.seen[need])
			}
			continue
		}
		if way = way[:len(way)-1]; len(way) > 0 {
			before := way[len(way)-1].task
			k.low[before] = min(k.low[before], k.low[t])
		}
		if k.low[t] == k.seen[t] {
			k.close(t)
		}
	}
}

// close makes a knot (a set of tasks that need each other) from a task and the tasks that were visited after
// it.
func (k *knots) close(t TaskID) {
	if k.size == nil {
		k.size = map[TaskID]int{}
	}
	for {
		last := k.open[len(k.open)-1]
		k.open = k.open[:len(k.open)-1]
		k.of[last] = t
		k.size[t]++
		if last == t {
			return
		}
	}
}

// path returns a shortest path from a task of a knot back to itself.
func (k *knots) path(start TaskID) []string {
	after := map[TaskID]TaskID{} // visited task → the task that needs it and comes next on the path
	queue := []TaskID{start}
	for i := 0; i < len(queue); i++ {
		at := queue[i]
		for _, need := range k.g.needs.of(at) {
			if need == start {
				return k.names(after, start, at)
			}
			if _, met := after[need]; !met && k.of[need] == k.of[start] {
				after[need] = at
				queue = append(queue, need)
			}
		}
	}
	return nil
}

// names lists the path from start to its last task, and start again.
func (k *knots) names(after map[TaskID]TaskID, start, last TaskID) []string {
	way := []string{k.g.names[start]}
	for at := last; at != start; at = after[at] {
		way = append(way, k.g.names[at])
	}
	way = append(way, k.g.names[start])
	for i, j := 0, len(way)-1; i < j; i, j = i+1, j-1 {
		way[i], way[j] = way[j], way[i]
	}
	return way
}

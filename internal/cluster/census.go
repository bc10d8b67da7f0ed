package cluster

import (
	"slices"
	"strings"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/metric"
	"skein.dev/skein/internal/store"
)

// topPlaces bounds the pairs of groups and kinds of workers that have their own label values.
const topPlaces = 200

// Show shows the slots of all workers and nodes of a cluster, and its members, on a page of metrics.
func Show(p *metric.Page, members []store.Member, shards []store.ShardRow) {
	c := countMembers(members)
	shown := metric.Largest(c.all, topPlaces)
	for of, all := range c.all {
		group, kind, _ := strings.Cut(of, "\n")
		if !slices.Contains(shown, of) {
			c.all[otherSlots] += all
			c.busy[otherSlots] += c.busy[of]
			continue
		}
		p.Set("worker_slots", float64(c.busy[of]), group, kind, "busy")
		p.Set("worker_slots", float64(all-c.busy[of]), group, kind, "free")
	}
	if len(c.all) > topPlaces {
		p.Set("worker_slots", float64(c.busy[otherSlots]), metric.Other, metric.Other, "busy")
		p.Set("worker_slots", float64(c.all[otherSlots]-c.busy[otherSlots]), metric.Other, metric.Other, "free")
	}
	for _, role := range []string{"node", "worker"} {
		for _, state := range memberStates {
			p.Set("members", float64(c.members[role+"\n"+state]), role, state)
		}
	}
	p.Set("shards_unowned", float64(unowned(members, shards)))
}

// otherSlots is the key of the slots that have no label values of their own.
const otherSlots = metric.Other + "\n" + metric.Other

// memberStates are the label values of the states of members.
var memberStates = []string{store.MemberActive, "cordoned", "stopped", store.MemberLeaving, store.MemberDrained}

// census holds the numbers of the cluster's members and slots.
type census struct {
	all, busy map[string]int64 // slots, by groups and kinds
	members   map[string]int   // members by role and state
}

func countMembers(members []store.Member) census {
	c := census{map[string]int64{}, map[string]int64{}, map[string]int{}}
	for i := range members {
		m := &members[i]
		role, state := "node", m.State
		if m.Worker {
			role = "worker"
		}
		switch {
		case m.State != store.MemberActive:
		case m.Stopped:
			state = "stopped"
		case m.Cordoned:
			state = "cordoned"
		}
		c.members[role+"\n"+state]++
		if m.Slots > 0 {
			of := labelOf(m.Traits.Groups) + "\n" + labelOf(m.Traits.Kinds)
			c.all[of] += int64(m.Slots)
			c.busy[of] += int64(min(m.Busy, m.Slots))
		}
	}
	return c
}

// labelOf returns a list of groups or kinds as one label value of bounded length.
func labelOf(names []string) string {
	const labelMax = 100 // bytes
	all := strings.Join(slices.Sorted(slices.Values(names)), ",")
	if len(all) > labelMax {
		return metric.Other
	}
	return all
}

// unowned counts the shards that no listed node owns.
func unowned(members []store.Member, shards []store.ShardRow) (none int) {
	nodes := map[dag.HandlerID]bool{}
	for i := range members {
		nodes[members[i].Handler] = !members[i].Worker
	}
	for i := range shards {
		if !nodes[shards[i].Owner] {
			none++
		}
	}
	return none
}

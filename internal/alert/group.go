package alert

import (
	"maps"
	"slices"
	"strings"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

const (
	// groupsMax bounds the groups of a rule that have an incident of their own at a time. Events of further
	// groups share one incident.
	groupsMax = 50
	// otherGroups is the name of the group of the shared incident.
	otherGroups = "further groups"
	// failedTaskMax bounds the text about a task in the name of a group, in bytes.
	failedTaskMax = 150
	// tagPrefix is before the key of a tag by which a rule groups.
	tagPrefix = "tag:"
)

// valueOf returns what an event has of a key by which a rule groups.
func (h *Happening) valueOf(key string) string {
	if tag, is := strings.CutPrefix(key, tagPrefix); is {
		return h.Tags.Value(tag)
	}
	switch {
	case key == "trigger":
		return h.Trigger
	case h.Task != "":
		return "task " + withoutIndex(h.Task)
	case h.Cause == "":
		return string(h.Event)
	case h.Cause == string(dag.CauseTask):
		return failedTask(h.Message)
	}
	return h.Cause
}

// failedTask returns the task that failed first, by the message of its run. The instances of a foreach are
// one task.
func failedTask(message string) string {
	task, _, _ := strings.Cut(message, " failed")
	task = withoutIndex(task)
	return strings.ToValidUTF8(task[:min(len(task), failedTaskMax)], "")
}

// withoutIndex returns the name of a task without the index of an instance of a foreach.
func withoutIndex(task string) string {
	if at := strings.LastIndexByte(task, '['); at > 0 && strings.HasSuffix(task, "]") {
		return task[:at]
	}
	return task
}

// groupOf names the group of an event, for people.
func (r *Rule) groupOf(h *Happening) string {
	parts := make([]string, len(r.GroupBy))
	for i, key := range r.GroupBy {
		parts[i] = strings.TrimPrefix(key, tagPrefix) + "=" + h.valueOf(key)
	}
	return strings.Join(parts, ", ")
}

// resolves reports whether a success ends the incident of a group. Each key but the cause, which a success
// does not have, must be equal.
func (r *Rule) resolves(is *Incident, h *Happening) bool {
	if is.Detail.Last.Subject == otherGroups {
		return true
	}
	return !slices.ContainsFunc(r.GroupBy, func(key string) bool {
		return key != "cause" && h.valueOf(key) != is.Detail.Last.valueOf(key)
	})
}

// Steps applies an event to a rule. open has the incidents of the workflow that are not over, by the rules of
// their rows. A rule with groups has an incident for each group. Steps does not change the incidents.
func Steps(r *Rule, open map[string]*Incident, h *Happening) (all []Change) {
	add := func(c Change) {
		if c.Incident != nil {
			all = append(all, c)
		}
	}
	switch {
	case slices.Contains(r.On, Approval):
		return r.approvals(open, h)
	case len(r.GroupBy) == 0:
		add(Step(r, open[r.Name], h))
		return all
	}
	groups := 0
	for _, key := range keysOf(open) {
		if is := open[key]; is.Detail.Of == r.Name {
			if groups++; h.Success && r.resolves(is, h) {
				add(Step(r, is, h))
			}
		}
	}
	if h.Success {
		return all
	}
	one, in := *r, *h
	one.of = r.Name
	for _, in.Subject = range []string{r.groupOf(h), otherGroups} {
		if one.Name = r.Name + " [" + in.Subject + "]"; open[one.Name] != nil || groups < groupsMax {
			break
		}
	}
	add(Step(&one, open[one.Name], &in))
	return all
}

// keysOf returns the keys of incidents in a repeatable order.
func keysOf(open map[string]*Incident) []string { return slices.Sorted(maps.Keys(open)) }

// Has reports whether a rule still has an incident: the rule has its name, and groups by the same keys.
func (r *Rule) Has(is *Incident) bool {
	if slices.Contains(r.On, Approval) != is.ofApproval() || slices.Contains(r.On, Recovered) && is.State != store.IncidentCounting {
		return false // an edit has changed what the rule watches
	}
	return r.Name == is.RuleName() && slices.Equal(r.GroupBy, is.Detail.GroupBy)
}

package workflow

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// alertTasks checks what a rule says about tasks, and the events that need a rule of their own.
func alertTasks(a *Alert, fail func(key, message, hint string)) {
	other := func(e string) bool { return !slices.Contains(alertTaskEvents, e) }
	approval := slices.Contains(a.On, "approval")
	switch i := slices.IndexFunc(a.On, other); {
	case len(a.Tasks) > alertTasksMax:
		fail("tasks", fmt.Sprintf("the alert names %d tasks, the limit is %d", len(a.Tasks), alertTasksMax), "* and ? stand for any characters")
	case len(a.Tasks) > 0 && i >= 0:
		fail("tasks", "the key tasks selects events of tasks, and "+a.On[i]+" is none", "remove it, or make two alerts; events of tasks are: "+strings.Join(alertTaskEvents, ", "))
	case approval && len(a.On) > 1:
		fail("on", "the event approval needs an alert of its own, because it ends with the approval and not with a success", "make two alerts")
	case approval && (a.After > 1 || len(a.GroupBy) > 0):
		fail("on", "each approval has an alert of its own, so the keys after and group_by have no effect", "remove them")
	case slices.Contains(a.On, "recovered") && (len(a.On) > 1 || a.Each):
		fail("on", "the event recovered needs an alert of its own: the end of an alert on other events is a message already", "make two alerts, without each")
	}
}

// checkAlertTasks checks that each name in the key tasks of an alert fits a task. It is called when the tasks
// are known.
func checkAlertTasks(r *reader, w *Workflow, n *node) {
	if n == nil || n.kind != listNode {
		return
	}
	for i, v := range n.vals {
		names := v.get("tasks")
		for _, glob := range texts(names) {
			if _, err := path.Match(glob, ""); err != nil || slices.ContainsFunc(w.Tasks, func(t Task) bool { fits, _ := path.Match(glob, t.Name); return fits }) {
				continue
			}
			r.failNode(names, fmt.Sprintf("alerts[%d].tasks", i), "no task has the name "+glob, "write the name of a task; * and ? stand for any characters")
		}
	}
}

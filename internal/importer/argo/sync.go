package argo

import (
	"strings"

	"skein.dev/skein/internal/importer"
	"skein.dev/skein/internal/workflow"
)

// locksMax bounds the locks of a workflow.
const locksMax = 16

// synchronize converts the mutexes of a workflow to locks, and its semaphore to a queue.
func (d *sheet) synchronize(v *workflow.Value) {
	if v == nil {
		return
	}
	f := importer.NewFields(v)
	list := func(one, many string) []*workflow.Value {
		var all []*workflow.Value
		if o := f.Take(one); o != nil {
			all = append(all, o)
		}
		if m := f.Take(many); m != nil {
			all = append(all, m.Vals...)
		}
		return all
	}
	var locks []string
	for _, m := range list("mutex", "mutexes") {
		name, err := (&scope{sheet: d}).value(m.Get("name").Str())
		text := name.Template()
		settings := importer.Map{{Key: "locks", Value: []string{text}}}
		if err == nil && len(locks) < locksMax && !strings.Contains(text, "run.") {
			err = importer.CheckSettings(settings, d.Params)
		}
		if err != nil || len(locks) == locksMax || strings.Contains(text, "run.") {
			d.Drop(m, "synchronization: the mutex "+importer.Clip(m.Get("name").Str(), 60)+" is not a valid name of a lock", "write locks: [NAME]")
			continue
		}
		locks = append(locks, text)
		if m.Get("namespace") != nil || m.Get("database") != nil {
			d.Approximate(m, "synchronization: the name of a lock is the same in all namespaces")
		}
	}
	if len(locks) > 0 {
		d.Settings.Add("locks", locks)
	}
	queue := ""
	for _, s := range list("semaphore", "semaphores") {
		name, limit := d.semaphore(s)
		settings := importer.Map{{Key: "queue", Value: name}}
		switch {
		case name == "" || importer.CheckSettings(settings, nil) != nil:
			d.Drop(s, "synchronization: the name of the semaphore is not a valid name of a queue", "write queue: NAME, and create it with skein queue set NAME --limit N")
		case queue != "":
			d.Drop(s, "synchronization: a run has one queue, and this run has "+queue, "move the tasks that need the other queue to a workflow with that queue, and call it with workflow: NAME")
		default:
			queue = name
			d.Settings = append(d.Settings, settings...)
			d.Approximate(s, "synchronization: the semaphore becomes the queue "+name+" of runs; create it with skein queue set "+name+" --limit "+limit)
		}
	}
	f.Rest(nil, d.drop("synchronization."))
}

// semaphore returns the name of a queue for a semaphore, and its limit if the file gives it.
func (d *sheet) semaphore(v *workflow.Value) (name, limit string) {
	ref := v.Get("configMapKeyRef")
	limit = "N"
	if ref == nil {
		return importer.WorkflowName(v.Get("database").Get("key").Str()), limit
	}
	key := ref.Get("key").Str()
	if n, ok := importer.Int(d.maps[ref.Get("name").Str()].Get(key)); ok && n > 0 {
		limit = string(number(n))
	}
	return importer.WorkflowName(key), limit
}

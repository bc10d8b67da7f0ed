package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/gitsync"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/workflow"
	api "skein.dev/skein/sdk/api/v1"
)

// gitSets checks and applies the workflows of git sources.
type gitSets struct{ s *Server }

// GitSets returns the part of the server that applies the workflows of git sources.
func GitSets(s *Server) gitsync.Applier { return gitSets{s} }

// Options implements gitsync.Applier.
func (a gitSets) Options(ctx context.Context, _ string) workflow.Options {
	return workflow.Options{TasksMax: a.s.cfg.TasksMax, Input: a.s.cfg.Input, Classes: func(namespace string) map[string]dag.Need {
		all, err := a.s.cfg.Classes.ClassList(ctx)
		if err != nil { // without the classes, a workflow that names one is refused until the next look
			return nil
		}
		return store.Needs(all, namespace)
	}}
}

// gitSet is the processing of one set.
type gitSet struct {
	s      *Server
	set    *gitsync.Set
	beside map[string]*workflow.Workflow
	out    gitsync.Outcome
	defs   []engine.Definition
	place  []int // the indexes in out.Changes of the definitions
	states []engine.StateChange
}

// ApplySet implements gitsync.Applier.
func (a gitSets) ApplySet(ctx context.Context, set *gitsync.Set) (*gitsync.Outcome, error) {
	if !a.s.engine.Owns(set.Shard) {
		return nil, &errkind.Elsewhere{Shard: set.Shard}
	}
	w := &gitSet{s: a.s, set: set, beside: map[string]*workflow.Workflow{}}
	for i := range set.Items {
		item := &set.Items[i]
		name := item.Def.Namespace + "/" + item.Def.Name
		if other := w.beside[name]; other != nil {
			w.fault(item, "name", fmt.Sprintf("the workflow %s is also in %s", item.Def.Name, other.Git.File), "give one of them another name")
		}
		w.beside[name] = item.Def
	}
	for i := range set.Items {
		if err := w.item(ctx, &set.Items[i]); err != nil {
			return nil, err
		}
	}
	if err := w.removed(ctx); err != nil {
		return nil, err
	}
	if len(w.out.Faults) > 0 || set.Plan || len(w.defs)+len(w.states) == 0 {
		return &w.out, nil
	}
	return w.apply(ctx)
}

// apply makes the changes. If they are refused, for example because a quota is used up, this is a fault of
// the set.
func (w *gitSet) apply(ctx context.Context) (*gitsync.Outcome, error) {
	done, err := engine.ApplySet(ctx, w.s.engine, w.defs, w.states)
	var over *store.QuotaError
	switch {
	case errors.As(err, &over), errors.Is(err, errkind.ErrInvalid), errors.Is(err, errkind.ErrConflict):
		return &gitsync.Outcome{Faults: workflow.Errors{{File: ".", Line: 1, Column: 1, Message: err.Error()}}}, nil
	case err != nil:
		return nil, err
	}
	for i := range done {
		w.out.Changes[w.place[i]].Version = done[i].Version
	}
	return &w.out, nil
}

// fault records a fault of the value under a key of a workflow.
func (w *gitSet) fault(item *gitsync.Item, key, message, hint string) {
	line, column := workflow.Locate([]byte(item.Request.Source), 0, key)
	w.out.Faults = append(w.out.Faults, workflow.Error{File: item.Request.File, Line: line + item.Above, Column: column, Key: key, Message: message, Hint: hint})
}

// item checks one workflow and decides how it is changed.
func (w *gitSet) item(ctx context.Context, item *gitsync.Item) error {
	def, set := item.Def, w.set
	before := len(w.out.Faults)
	if def.Namespace != set.Namespace {
		w.fault(item, "namespace", "the workflow belongs to the namespace "+def.Namespace+", and the git source to "+set.Namespace, "take the key out")
	}
	for _, name := range reaches(def) {
		other, err := w.s.callee(ctx, &candidate{}, name)
		if err != nil {
			return err
		}
		if other != nil {
			if offered, _ := other.OffersTo(def.Namespace); offered {
				continue
			}
		}
		w.fault(item, "tasks", "the workflow starts, waits for or listens to "+name+", which its namespace does not offer to this one", "add "+def.Namespace+" to the key offers of "+name+", and apply that file")
	}
	lock, err := sharedLock(ctx, w.s, def)
	if err != nil {
		return err
	}
	if lock != "" { // there is no caller whose rights could be checked
		w.fault(item, "locks", "the lock "+lock+" is shared by namespaces, and a git source names the locks of its namespace only", "take away "+workflow.GlobalLock)
	}
	if err := def.SetOrigin(""); err != nil {
		w.fault(item, "triggers", err.Error(), "")
	}
	for _, f := range unwatchable(&item.Request, def, w.s.cfg.Protected) {
		w.fault(item, "triggers", f.Message, f.Hint)
	}
	circle, err := w.s.callCycle(ctx, &candidate{req: &item.Request, def: def, beside: w.beside})
	if err != nil {
		return err
	}
	for _, f := range circle {
		w.fault(item, "tasks", f.Message, f.Hint)
	}
	if err := checkFiles(&item.Request); err != nil {
		w.fault(item, "files", err.Error(), "")
	}
	d, err := w.s.pack(&item.Request, def)
	if err != nil {
		w.fault(item, "tasks", err.Error(), "")
	}
	if len(w.out.Faults) > before {
		return nil
	}
	return w.decide(ctx, item, d)
}

// decide compares a workflow with the stored one.
func (w *gitSet) decide(ctx context.Context, item *gitsync.Item, d engine.Definition) error {
	set, change := w.set, gitsync.Change{Workflow: d.Name, File: item.Request.File, What: gitsync.Created}
	is, err := w.s.engine.Workflow(ctx, d.Namespace, d.Name)
	switch {
	case errors.Is(err, errkind.ErrNotFound):
	case err != nil:
		return err
	default:
		def, err := w.s.definition(ctx, &is, is.Latest)
		if err != nil {
			return err
		}
		own := def.Git != nil && def.Git.Source == set.Source
		switch {
		case !own && !set.Adopt:
			w.fault(item, "name", "there is a workflow "+d.Name+" already, and it does not come from this git source", "rename one of them, delete the other one, or let the source take it: skein git add … --adopt")
			return nil
		case !w.s.engine.Owns(is.Shard):
			w.fault(item, "name", fmt.Sprintf("the workflow %s belongs to shard %d, which another node owns, and the git source to shard %d", d.Name, is.Shard, set.Shard), "delete the workflow, so that the next sync makes it in the shard of the source; its runs stay")
			return nil
		}
		v, err := w.s.engine.Version(ctx, is.ID, is.Latest)
		if err != nil && !errors.Is(err, errkind.ErrNotFound) {
			return err
		}
		change.What, change.Version = gitsync.Changed, is.Latest
		if err == nil && bytes.Equal(v.Digest, d.Digest) { // the version was rolled back, and stays so until the file changes
			change.What = gitsync.Unchanged
		}
		if is.State == store.WorkflowPaused && slices.ContainsFunc(set.Before, func(b gitsync.Workflow) bool { return b.Name == d.Name && b.Paused }) {
			w.states = append(w.states, engine.StateChange{Workflow: is.ID, State: store.WorkflowActive})
			if change.What == gitsync.Unchanged {
				change.What = gitsync.Resumed
			}
		}
	}
	w.out.Changes = append(w.out.Changes, change)
	if change.What == gitsync.Created || change.What == gitsync.Changed {
		d.User, d.Beside = "git:"+set.Namespace+"/"+set.Source, &set.Shard
		w.defs, w.place = append(w.defs, d), append(w.place, len(w.out.Changes)-1)
	}
	return nil
}

// removed decides about workflows whose files were removed. It considers only those that still come from the
// source.
func (w *gitSet) removed(ctx context.Context) error {
	for _, b := range w.set.Before {
		if w.beside[w.set.Namespace+"/"+b.Name] != nil {
			continue
		}
		is, err := w.s.engine.Workflow(ctx, w.set.Namespace, b.Name)
		if errors.Is(err, errkind.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		def, err := w.s.definition(ctx, &is, is.Latest)
		if err != nil {
			return err
		}
		if def.Git == nil || def.Git.Source != w.set.Source {
			continue
		}
		change := gitsync.Change{Workflow: b.Name, What: gitsync.Kept, Version: is.Latest}
		switch {
		case w.set.Removed == gitsync.Delete:
			change.What = gitsync.Deleted
			w.states = append(w.states, engine.StateChange{Workflow: is.ID, State: store.WorkflowDeleted})
		case w.set.Removed != gitsync.Keep && !b.Gone && is.State == store.WorkflowActive:
			change.What = gitsync.Paused
			w.states = append(w.states, engine.StateChange{Workflow: is.ID, State: store.WorkflowPaused})
		}
		w.out.Changes = append(w.out.Changes, change)
	}
	return nil
}

// reaches lists the workflows of other namespaces that a workflow starts, waits for or listens to.
func reaches(def *workflow.Workflow) (all []string) {
	names := def.Calls()
	for i := range def.Tasks {
		if d := def.Tasks[i].Dependent; d != nil {
			names = append(names, def.TargetOf(d))
		}
	}
	for i := range def.Triggers {
		names = append(names, def.Triggers[i].On()...)
	}
	for _, name := range names {
		if ns, _ := cutName(name); ns != def.Namespace && !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// fromGit refuses a change by hand of a workflow that comes from a git source.
func (s *Server) fromGit(ctx context.Context, p *WorkflowPath) error {
	if s.cfg.GitSources == nil {
		return nil
	}
	w, err := s.engine.Workflow(ctx, p.Namespace, p.Name)
	if err != nil {
		return nil // the apply will report the error
	}
	def, err := s.definition(ctx, &w, w.Latest)
	if err != nil || def.Git == nil {
		return nil
	}
	switch _, err := s.cfg.GitSources.GitSourceOf(ctx, w.Namespace, def.Git.Source); {
	case errors.Is(err, store.ErrNotFound): // the source was removed
		return nil
	case err != nil:
		return unread(err)
	}
	return fmt.Errorf("%w: the workflow %s comes from the git source %s/%s (file %s): change it in the repository, or remove the source with skein git remove %s/%s, which keeps the workflows",
		errkind.ErrConflict, fullName(w.Namespace, w.Name), w.Namespace, def.Git.Source, def.Git.File, w.Namespace, def.Git.Source)
}

// gitOf returns the commit from which a workflow comes, or nil if it does not come from a git source.
func gitOf(def *workflow.Workflow) *api.GitOrigin {
	if def.Git == nil {
		return nil
	}
	return &api.GitOrigin{Source: def.Git.Source, Commit: def.Git.Commit, File: def.Git.File}
}

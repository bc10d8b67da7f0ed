package gitsync

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/workflow"
)

// Set is the content of a commit: its workflows, and the workflows that the source had before.
type Set struct {
	Namespace, Source, Commit string
	Shard                     dag.ShardID
	Items                     []Item
	Before                    []Workflow
	Removed                   string // Keep, Pause or Delete
	Adopt                     bool
	Plan                      bool // nothing is changed
}

// The effects of a commit on a workflow.
const (
	Created   = "created"
	Changed   = "changed"
	Unchanged = "unchanged"
	Resumed   = "resumed" // the file exists again
	Paused    = "paused"  // the file was removed
	Deleted   = "deleted" // the file was removed
	Kept      = "kept"    // the file was removed, and the workflow stays as it is
)

// Change is the effect of a set on one workflow.
type Change struct {
	Workflow string
	File     string // "" if the file was removed
	What     string
	Version  int32 // the newest version; 0 in a plan that makes the first version
}

// Outcome is the result of a set. If it has Faults, nothing was changed.
type Outcome struct {
	Changes []Change
	Faults  workflow.Errors
}

// Applier checks and applies sets.
type Applier interface {
	// Options returns the options for reading the workflows of a source, without File and Dir.
	Options(ctx context.Context, namespace string) workflow.Options
	// ApplySet checks a set. Unless Plan is set, it applies the set in one transaction, all or nothing. It
	// returns *errkind.Elsewhere if another node owns the shard of the source.
	ApplySet(ctx context.Context, set *Set) (*Outcome, error)
}

// how is the kind of a look.
type how int

const (
	due      how = iota // apply only a new commit
	now                 // the commit is applied, even if it was applied before
	planning            // nothing is changed
)

// again is the pause before a refused commit is tried again, because another workflow or a class that it uses
// may have changed.
const again = 10 * time.Minute

// applyMax bounds the time in which a commit is applied and recorded.
const applyMax = 20 * time.Second

// whyMax bounds the text of an error in a State, in bytes.
const whyMax = 1000

// look reads a repository once, and writes the state. Its error concerns the look itself, such as a lost
// shard. If the repository cannot be read or the commit is refused, the state contains the reason.
func (y *Syncer) look(ctx context.Context, g *store.GitSource, mode how) (State, *Outcome, error) {
	spec, err := Parse(g.Spec)
	was := ReadState(g.State)
	st := was
	st.Spec, st.LookedAt = g.Version, y.now()
	var out *Outcome
	var c *commit
	if err == nil {
		c, out, err = y.compare(ctx, g, &spec, &st, mode)
	}
	if elsewhere := (*errkind.Elsewhere)(nil); errors.As(err, &elsewhere) || ctx.Err() != nil && out == nil {
		return was, nil, err
	}
	ctx, cancel := kept(ctx)
	defer cancel()
	switch {
	case err != nil:
		st.fail(&was, "", oneLine(err.Error(), whyMax), nil)
	case out != nil && len(out.Faults) > 0:
		st.fail(&was, c.hash, "the commit has faults; the workflows of the commit before stay in force", out.Faults)
	case out != nil && mode == planning:
		st.Failing, st.Seen = nil, c.hash
	case out != nil:
		st.Failing = nil
		st.Seen, st.Applied, st.AppliedAt, st.Author, st.Subject = c.hash, c.hash, st.LookedAt, c.author, c.subject
		st.Workflows = after(was.Workflows, out.Changes)
	}
	if mode == planning {
		return st, out, nil
	}
	return st, out, y.write(ctx, g, &was, &st, out)
}

// compare reads the commit of the branch, and applies it if that is due. The outcome is nil if nothing was
// due.
func (y *Syncer) compare(ctx context.Context, g *store.GitSource, spec *Spec, st *State, mode how) (*commit, *Outcome, error) {
	r, err := openRepo(ctx, &y.cfg.Needs, g.Namespace, spec)
	if err != nil {
		return nil, nil, err
	}
	defer r.close()
	tip, err := r.tip(ctx)
	if err != nil {
		return nil, nil, err
	}
	same := st.Seen == tip && ReadState(g.State).Spec == g.Version
	st.Seen = tip
	switch refused := st.Failing; {
	case mode != due || !same:
	case refused == nil:
		return nil, nil, nil
	case refused.Commit == "" && st.Applied == tip: // the repository was away
		st.Failing = nil
		return nil, nil, nil
	case refused.Commit == tip && !y.retry(g):
		return nil, nil, nil
	}
	c, err := r.fetch(ctx)
	if err != nil {
		return c, nil, err
	}
	st.Seen = c.hash // the branch may have changed in between
	opt := y.cfg.Applier().Options(ctx, g.Namespace)
	opt.Namespace = g.Namespace
	items, faults := read(c.files, opt)
	if len(items) == 0 && len(faults) == 0 {
		faults = workflow.Errors{{File: ".", Line: 1, Column: 1, Message: "the folder has no workflow", Hint: "correct the folder of the source, or remove the source"}}
	}
	if len(faults) > 0 {
		return c, &Outcome{Faults: faults}, nil
	}
	set := &Set{Namespace: g.Namespace, Source: g.Name, Commit: c.hash, Shard: g.Shard, Items: items, Before: st.Workflows, Removed: spec.Removed, Adopt: spec.Adopt, Plan: mode == planning}
	for i := range items {
		items[i].Def.Git = &workflow.Git{Source: g.Name, Commit: c.hash, File: items[i].Request.File}
	}
	ctx, cancel := kept(ctx)
	defer cancel()
	ctx = store.WithAudit(ctx, &store.Audit{Principal: "git:" + g.Namespace + "/" + g.Name, Kind: "git", Verb: "workflow.write", Action: "apply-git-commit",
		Object: "/git-sources/" + g.Namespace + "/" + g.Name, Namespace: g.Namespace, Detail: fmt.Sprintf("commit %s by %.100s", c.hash, c.author)})
	out, err := y.cfg.Applier().ApplySet(ctx, set)
	return c, out, err
}

// kept returns a context that does not end when the caller hangs up, so that each applied commit is recorded.
// Otherwise a workflow that was paused because its file was removed would look as if a person had paused it.
func kept(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), applyMax)
}

// fail records why a look did not succeed. After several failures, the state has the time of the first one.
func (s *State) fail(was *State, commit, why string, faults workflow.Errors) {
	f := &Failing{Since: s.LookedAt, Commit: commit, Why: why}
	if was.Failing != nil {
		f.Since = was.Failing.Since
	}
	if f.More = len(faults) - faultsMax; f.More > 0 {
		faults = faults[:faultsMax]
	}
	f.More = max(f.More, 0)
	f.Faults = slices.Clone(faults)
	for i := range f.Faults {
		f.Faults[i].Snippet = ""
	}
	s.Failing = f
}

// after returns the workflows that a source has after the changes of a set.
func after(was []Workflow, changes []Change) (all []Workflow) {
	for _, c := range changes {
		w := Workflow{Name: c.Workflow, File: c.File}
		old := slices.IndexFunc(was, func(o Workflow) bool { return o.Name == c.Workflow })
		switch c.What {
		case Deleted:
			continue
		case Paused:
			w.Gone, w.Paused = true, true
		case Kept:
			w.Gone = true
			w.Paused = old >= 0 && was[old].Paused
		}
		if w.Gone && old >= 0 {
			w.File = was[old].File
		}
		all = append(all, w)
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Name < all[j].Name })
	return all
}

// write writes the state, and logs what has changed.
func (y *Syncer) write(ctx context.Context, g *store.GitSource, was, st *State, out *Outcome) error {
	data, err := json.Marshal(st)
	if err != nil {
		return err
	}
	g.State = data
	if err := y.cfg.Store.SetGitState(ctx, *g); err != nil {
		return err
	}
	log := y.cfg.Log.With("source", g.Namespace+"/"+g.Name)
	switch f := st.Failing; {
	case f != nil && (was.Failing == nil || was.Failing.Why != f.Why || was.Failing.Commit != f.Commit):
		y.failures.Add(1)
		if f.Commit != "" {
			first := ""
			if len(f.Faults) > 0 {
				first = f.Faults[0].Error()
			}
			log.Warn("a commit of a git source was refused; the earlier commit stays in force; correct the files that skein git list names", "code", "git_refused", "commit", f.Commit, "applied", st.Applied, "faults", len(f.Faults)+f.More, "first", first)
		} else {
			log.Warn("a git source cannot be read; the node tries again", "code", "git_away", "err", f.Why)
		}
	case f == nil && out != nil && st.Applied != was.Applied:
		y.applied.Add(1)
		changed := 0
		for _, c := range out.Changes {
			if c.What != Unchanged && c.What != Kept {
				changed++
			}
		}
		log.Info("a commit of a git source was applied", "code", "git_applied", "commit", st.Applied, "workflows", len(out.Changes), "changed", changed)
	case f == nil && was.Failing != nil:
		log.Info("a git source can be read again", "code", "git_back", "commit", st.Applied)
	}
	return nil
}

package server

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/workflow"
	"skein.dev/skein/sdk/api/v1"
)

// mayReach returns a refusal if a workflow uses workflows of other namespaces that do not offer themselves to
// its namespace. It uses them if it starts them or listens to them. If a used workflow has no offers at all,
// the rights of the author decide, and these are checked only here. Offers are also checked at each call and
// each look.
func mayReach(ctx context.Context, s *Server, def *workflow.Workflow) error {
	for _, name := range def.Calls() {
		if err := mayUse(ctx, s, def, name, access.RunStart, access.RunValues); err != nil {
			return err
		}
	}
	for i := range def.Tasks {
		if d := def.Tasks[i].Dependent; d != nil {
			if err := mayUse(ctx, s, def, def.TargetOf(d), access.RunRead); err != nil {
				return err
			}
		}
	}
	if err := mayShareLocks(ctx, s, def); err != nil {
		return err
	}
	for i := range def.Triggers {
		for _, name := range def.Triggers[i].On() {
			if err := mayUse(ctx, s, def, name, access.RunRead); err != nil {
				return err
			}
		}
	}
	return nil
}

// mayShareLocks returns a refusal if a workflow names a lock that several namespaces share, and its author
// could not change shared queues either. In a namespace that shares the names of all its locks, every author
// may name such a lock.
func mayShareLocks(ctx context.Context, s *Server, def *workflow.Workflow) error {
	name, err := sharedLock(ctx, s, def)
	if err != nil || name == "" || wide(ctx, access.QueueWrite) {
		return err
	}
	return fail(http.StatusForbidden, api.ProblemForbidden, "the lock %s is shared by namespaces: to name it, you need the verb queue.write in all namespaces", name)
}

// sharedLock returns the first lock of a workflow that several namespaces share, or "". In a namespace that
// shares the names of all its locks, it returns "".
func sharedLock(ctx context.Context, s *Server, def *workflow.Workflow) (string, error) {
	i := slices.IndexFunc(def.Locks, func(name string) bool { return strings.HasPrefix(name, workflow.GlobalLock) })
	if i < 0 {
		return "", nil
	}
	is, _, err := engine.NamespacesOf(s.engine).Demands(ctx, def.Namespace)
	if err != nil || is.Locks == store.LocksShared {
		return "", err
	}
	return def.Locks[i], nil
}

// withdrawn returns a warning if a new version no longer has the key offers, because other workflows then
// need no offer to use it.
func withdrawn(ctx context.Context, s *Server, def *workflow.Workflow) []string {
	if def.Offers != nil {
		return nil
	}
	before, err := s.callee(ctx, &candidate{}, def.Namespace+"/"+def.Name)
	if err != nil || before == nil || len(before.Offers) == 0 {
		return nil
	}
	return []string{"without the key offers, workflows of other namespaces that were applied before still use this workflow; to refuse them, write offers: []"}
}

// mayUse decides whether a workflow may use one other workflow. If the other one has no offers, the author
// needs the given verbs.
func mayUse(ctx context.Context, s *Server, def *workflow.Workflow, name string, verbs ...access.Verb) error {
	if namespace, _, _ := strings.Cut(name, "/"); namespace == def.Namespace {
		return nil
	}
	other, err := s.callee(ctx, &candidate{}, name)
	if err != nil {
		return err
	}
	offered, declared := false, false
	if other != nil {
		offered, declared = other.OffersTo(def.Namespace)
	}
	if offered {
		return nil
	}
	for _, v := range verbs { // this comes before the refusal, because the refusal says that the workflow exists
		if err := mayName(ctx, v, name); err != nil {
			return err
		}
	}
	if declared {
		return fail(http.StatusForbidden, api.ProblemForbidden, "%v", other.NotOffered(def.Namespace))
	}
	return nil
}

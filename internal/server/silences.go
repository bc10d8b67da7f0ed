package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
	api "skein.dev/skein/sdk/api/v1"
)

type listSilencesIn struct {
	Page
	Namespace string `query:"namespace" maxLength:"63" doc:"Only silences about this namespace, those about all included."`
	All       bool   `query:"all" doc:"Also silences that are over. They are kept for 7 days."`
}

func (a alerting) silences(ctx context.Context, in *listSilencesIn) (*jsonOut[api.List[api.Silence]], error) {
	st, err := a.store()
	if err != nil {
		return nil, err
	}
	after, err := in.after()
	if err != nil {
		return nil, err
	}
	all, err := st.Silences(ctx)
	if err != nil {
		return nil, unread(err)
	}
	now, err := a.s.engine.Clock(ctx)
	if err != nil {
		return nil, err
	}
	items, begun := []api.Silence{}, after == ""
	for i := range all {
		s := &all[i]
		if !begun { // the list is sorted, and the cursor is the last silence of the previous page
			begun = s.ID.String() == after
			continue
		}
		if in.Namespace != "" && s.Namespace != "" && s.Namespace != in.Namespace || s.Until <= now && !in.All {
			continue
		}
		if len(items) == in.Limit {
			return list(items, items[len(items)-1].ID), nil
		}
		items = append(items, silenceOf(s, now))
	}
	return list(items, ""), nil
}

func silenceOf(s *store.Silence, now dag.Micros) api.Silence {
	out := api.Silence{ID: s.ID.String(), Namespace: s.Namespace, Workflow: textOrNull(s.Workflow), Rule: textOrNull(s.Rule), State: "active",
		Until: instant(s.Until), User: s.By, Reason: textOrNull(s.Reason), CreatedAt: instant(s.Created)}
	if s.Namespace == "" {
		out.Namespace = access.Everywhere
	}
	if s.Until <= now {
		out.State = "over"
	}
	return out
}

type SilencePath struct {
	Namespace string `path:"ns" maxLength:"63" doc:"*: all namespaces."`
}

// namespace returns the namespace of the rows.
func (p *SilencePath) namespace() string {
	if p.Namespace == access.Everywhere {
		return ""
	}
	return p.Namespace
}

type addSilenceIn struct {
	SilencePath
	Body api.SilenceRequest
}

func (a alerting) addSilence(ctx context.Context, in *addSilenceIn) (*jsonOut[api.Silence], error) {
	st, err := a.store()
	if err != nil {
		return nil, err
	}
	ns := in.namespace()
	switch {
	case ns != "" && !namespaceOK.MatchString(ns):
		return nil, invalid("%.63q cannot be the name of a namespace", ns)
	case ns == "" && in.Body.Workflow != "":
		return nil, invalid("a silence about one workflow is made in its namespace")
	}
	if in.Body.Workflow != "" {
		_, err := a.s.engine.Workflow(ctx, ns, in.Body.Workflow)
		if errors.Is(err, errkind.ErrNotFound) {
			return nil, notFound("there is no workflow %s", fullName(ns, in.Body.Workflow))
		}
		if err != nil {
			return nil, err
		}
	}
	now, err := a.s.engine.Clock(ctx)
	if err != nil {
		return nil, err
	}
	s, err := st.PutSilence(ctx, store.Silence{ID: uuid.Must(uuid.NewV7()), Namespace: ns, Workflow: in.Body.Workflow, Rule: in.Body.Rule,
		Until: now + dag.Micros(in.Body.Seconds*1_000_000), By: userOf(ctx), Reason: in.Body.Reason})
	if errors.Is(err, store.ErrRefused) {
		return nil, fmt.Errorf("%w: there are already %d silences, the limit; end one", errkind.ErrConflict, store.SilencesMax)
	}
	if err != nil {
		return nil, unread(err)
	}
	return &jsonOut[api.Silence]{Body: silenceOf(&s, now)}, nil
}

type endSilenceIn struct {
	SilencePath
	ID string `path:"id" maxLength:"36"`
}

func (a alerting) endSilence(ctx context.Context, in *endSilenceIn) (*jsonOut[api.Silence], error) {
	st, err := a.store()
	if err != nil {
		return nil, err
	}
	missing := notFound("%[2]s has no silence %[1]q that is still in force", in.ID, in.Namespace)
	id, err := uuid.Parse(in.ID)
	if err != nil || len(in.ID) != 36 {
		return nil, missing
	}
	all, err := st.Silences(ctx)
	if err != nil {
		return nil, unread(err)
	}
	for i := range all {
		if all[i].ID != id || all[i].Namespace != in.namespace() {
			continue
		}
		s, err := st.EndSilence(ctx, id)
		if errors.Is(err, store.ErrNotFound) {
			return nil, missing
		}
		if err != nil {
			return nil, unread(err)
		}
		return &jsonOut[api.Silence]{Body: silenceOf(&s, s.Until)}, nil
	}
	return nil, missing
}

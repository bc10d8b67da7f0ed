package server

import (
	"context"
	"fmt"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/trigger"
	api "skein.dev/skein/sdk/api/v1"
)

type pauseIn struct {
	TriggerPath
	Idempotent
	Body *api.PauseRequest
}

func (s *Server) pauseSchedule(ctx context.Context, in *pauseIn) (*jsonOut[api.Schedule], error) {
	return s.setSchedule(ctx, in, "pause")
}

func (s *Server) resumeSchedule(ctx context.Context, in *pauseIn) (*jsonOut[api.Schedule], error) {
	return s.setSchedule(ctx, in, "resume")
}

func (s *Server) setSchedule(ctx context.Context, in *pauseIn, verb string) (*jsonOut[api.Schedule], error) {
	w, t, err := s.trigger(ctx, &in.TriggerPath)
	if err != nil {
		return nil, err
	}
	var body api.PauseRequest
	if in.Body != nil {
		body = *in.Body
	}
	p := engine.Pause{Resume: verb == "resume", Actor: userOf(ctx), Reason: body.Reason}
	if body.From != nil {
		p.From = dag.Micro(body.From.Time)
	}
	if body.Until != nil {
		p.Until = dag.Micro(body.Until.Time)
	}
	if p.From != 0 && p.Until == 0 {
		return nil, invalid("until: a planned pause of %s/%s needs an end", fullName(w.Namespace, w.Name), t.Name)
	}
	scope := fmt.Sprintf("POST /schedules/%d/%s:%s", t.Workflow, t.Name, verb)
	k := store.TriggerKey{Workflow: t.Workflow, Name: t.Name}
	err = s.keep(ctx, &in.Idempotent, scope, body, func(once *store.Request) error {
		return s.engine.PauseTrigger(ctx, k, p, once)
	})
	if err != nil {
		return nil, err
	}
	if p.Until != 0 {
		noteAudit(ctx, w.Namespace, "until "+instant(p.Until).String())
	}
	return s.readSchedule(ctx, &in.TriggerPath)
}

// withPauses adds the planned pauses of a trigger, and corrects the next instant if it is paused.
func withPauses(ctx context.Context, s *Server, t *store.Trigger, out *api.Schedule) error {
	if len(t.Data) == 0 {
		return nil
	}
	all, err := trigger.Pauses(t)
	if err != nil || len(all) == 0 {
		return err
	}
	now, err := s.engine.Clock(ctx)
	if err != nil {
		return err
	}
	for i := range all {
		if p := &all[i]; p.Until > now {
			out.PlannedPauses = append(out.PlannedPauses,
				api.PlannedPause{From: instant(p.From), Until: instant(p.Until), By: textOrNull(p.Actor), Reason: textOrNull(p.Reason)})
		}
	}
	if trigger.PauseAt(all, t.Next) == nil {
		return nil
	}
	next, err := trigger.NextOpen(t)
	out.Next = instantOrNull(next)
	return err
}

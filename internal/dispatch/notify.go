package dispatch

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"skein.dev/skein/internal/alert"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/inspect"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/workflow"
)

// The pause between two looks at the notices of a message is an eighth of its age, within these bounds.
const noticeLookMin, noticeLookMax = 200 * time.Millisecond, 15 * time.Second

// notify looks at the notices of the message that a task sends. If there are none yet, it returns the
// message. The id of the message is computed from the attempt, so one attempt has one message.
func (l logic) notify(ctx context.Context, v *version, t int, q *engine.PrepareQuery, in workflow.Inputs) (engine.Prepared, error) {
	n := v.Tasks[t].Notify
	id := uuid.NewSHA1(uuid.UUID(q.Row.ID), fmt.Appendf(nil, "notify %d %d", q.Task, q.Token))
	is := engine.Prepared{Later: noticeLookMin, Why: inspect.Reason{Kind: "notify", Code: "wait_notice",
		What: "until its message is taken by " + strings.Join(n.Channels, " and "), Unblocks: "that: skein alert get " + id.String()}}
	notices, err := l.cfg.Store.Notices(ctx, id)
	if err != nil {
		return is, ofStore(err)
	}
	if len(notices) == 0 {
		is.Tell, err = l.message(ctx, v, t, q, in)
		if is.Tell != nil {
			is.Tell.ID = id
		}
		return is, err
	}
	now, err := l.cfg.Store.Clock(ctx)
	if err != nil {
		return is, ofStore(err)
	}
	for i := range notices {
		switch one := &notices[i]; {
		case one.State == store.NoticeFailed || one.State == store.NoticeExpired:
			return is, fmt.Errorf("channel %s has not taken the message; see why with: skein alert get %s", one.Channel, id)
		case one.State == store.NoticePending && !l.cfg.Quiet:
			age := time.Duration(now-one.Created) * time.Microsecond
			is.Later = min(max(age/8, noticeLookMin), noticeLookMax)
			return is, nil
		}
	}
	is.Later = 0
	is.Leaves, err = json.Marshal(map[string]string{"incident": id.String()})
	return is, err
}

// message makes the message of a task. All its channels must exist.
func (l logic) message(ctx context.Context, v *version, t int, q *engine.PrepareQuery, in workflow.Inputs) (*alert.Told, error) {
	n := v.Tasks[t].Notify
	channels, err := l.cfg.Store.AlertChannels(ctx)
	if err != nil {
		return nil, ofStore(err)
	}
	for _, name := range n.Channels {
		if _, there := store.FindAlertChannel(channels, v.Namespace, name); !there {
			return nil, fmt.Errorf("namespace %s has no channel %s; make it with: skein alert apply FILE", v.Namespace, name)
		}
	}
	text, err := v.NotifyText(t, in)
	if err != nil {
		return nil, err
	}
	return &alert.Told{Of: alert.Subject{Shard: q.Row.Shard, Workflow: q.Row.Workflow, Namespace: v.Namespace, Name: v.Name},
		Task: q.Graph.Name(q.Task), Run: q.Row.ID.String(), Origin: q.Row.Origin, To: n.Channels, Severity: n.Severity, Text: text}, nil
}

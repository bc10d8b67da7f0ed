package peer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// submitMax bounds the time in which the owner of a shard may accept a run.
const submitMax = 5 * time.Second

// submitted is the owner's answer to a submission. An answer of another form is an error of HTTP.
type submitted struct {
	engine.Accepted
	Kind string // the kind of the refusal; "" means accepted
	Text string
	// Quota is the quota that the refusal is about. A node that knows no quotas reads that the owner is busy.
	Quota *store.QuotaError `json:",omitempty"`
}

// refusals are final on every node, because another node would refuse, too.
var refusals = []struct {
	kind string
	err  error
}{
	{"invalid", errkind.ErrInvalid},
	{"conflict", errkind.ErrConflict},
	{"not found", errkind.ErrNotFound},
	{"full", errkind.ErrFull},
	{"busy", errkind.ErrBusy},
}

// refusal is an error that another node gave.
type refusal struct {
	kind error
	text string
}

func (r *refusal) Error() string { return r.text }
func (r *refusal) Unwrap() error { return r.kind }

// Submit sends a submission to the owner of its shard. If there is no owner, or it does not answer, the run
// is deposited for the next owner. This node chooses the id of the run, so both ways lead to the same run.
func (c *Client) Submit(ctx context.Context, s dag.ShardID, sub engine.Submission) (engine.Accepted, error) {
	if sub.ID.IsZero() {
		sub.ID = engine.NewRunID()
	}
	if m, ok := c.dir.OwnerOf(s); ok && m.Handler != c.dir.Self().Handler {
		a, err := c.submitTo(ctx, m, &sub)
		var refused *refusal
		var over *store.QuotaError
		if err == nil || errors.As(err, &refused) || errors.As(err, &over) || ctx.Err() != nil {
			return a, err
		}
		c.log.Warn("the owner of a shard accepts no run now; the run is stored for it", "code", "run_deposited", "node", m.Name, "run", sub.ID.String(), "err", err)
	}
	return c.engine.Deposit(ctx, sub)
}

func (c *Client) submitTo(ctx context.Context, m store.Member, sub *engine.Submission) (engine.Accepted, error) {
	ctx, cancel := context.WithTimeout(ctx, submitMax)
	defer cancel()
	data, err := json.Marshal(sub)
	if err != nil {
		return engine.Accepted{}, fmt.Errorf("write the submission: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.Address+submitPath, bytes.NewReader(data))
	if err != nil {
		return engine.Accepted{}, fmt.Errorf("address of node %s: %w", m.Name, err)
	}
	req.Header.Set("Content-Type", "application/json")
	if err := c.authorize(req); err != nil {
		return engine.Accepted{}, fmt.Errorf("prove the caller to node %s: %w", m.Name, err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return engine.Accepted{}, fmt.Errorf("node %s: %w", m.Name, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return engine.Accepted{}, fmt.Errorf("node %s: %s", m.Name, resp.Status)
	}
	var a submitted
	if err := json.NewDecoder(http.MaxBytesReader(nil, resp.Body, BodyMax)).Decode(&a); err != nil {
		return engine.Accepted{}, fmt.Errorf("answer of node %s: %w", m.Name, err)
	}
	if a.Kind == "" {
		return a.Accepted, nil
	}
	if a.Quota != nil {
		return a.Accepted, a.Quota
	}
	for _, r := range refusals {
		if r.kind == a.Kind {
			return a.Accepted, &refusal{r.err, a.Text}
		}
	}
	return a.Accepted, fmt.Errorf("node %s refuses for a reason that this node does not know: %s", m.Name, a.Kind)
}

// takeSubmission handles a submission at the owner.
func takeSubmission(e Engine) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var sub engine.Submission
		if !read(w, r, &sub) {
			return
		}
		a, err := e.Submit(r.Context(), sub)
		out := submitted{Accepted: a}
		if a.Run == sub.ID {
			out.Existing = false // this submission has made the run, maybe through another node
		}
		if over := (*store.QuotaError)(nil); errors.As(err, &over) {
			out.Kind, out.Text, out.Quota, err = "busy", err.Error(), over, nil
		}
		for _, k := range refusals {
			if errors.Is(err, k.err) {
				out.Kind, out.Text, err = k.kind, err.Error(), nil
				break
			}
		}
		reply(w, out, err)
	}
}

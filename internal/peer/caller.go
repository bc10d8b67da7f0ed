package peer

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"skein.dev/skein/internal/store"
)

const (
	callTimeout = 10 * time.Second
	blindMax    = 2 * time.Second
)

// Caller makes calls to other nodes. It needs to know neither the members nor the engine of this node.
type Caller struct {
	http  *http.Client
	token string
	vouch Vouch // nil if calls carry no proof
}

// NewCaller returns a caller, which sends its calls by rt. Each call shows the token, if there is one, and
// the proof from vouch of the node that sends it. vouch may be nil.
func NewCaller(rt http.RoundTripper, token string, vouch Vouch) *Caller {
	return &Caller{http: &http.Client{Transport: rt, Timeout: callTimeout, CheckRedirect: never}, token: token, vouch: vouch}
}

func never(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Blind reports whether all of these members report that they are blind. It is true if there are no members.
func (c *Caller) Blind(ctx context.Context, members []store.Member) bool {
	ctx, cancel := context.WithTimeout(ctx, blindMax)
	defer cancel()
	answers := make(chan bool, len(members))
	for i := range members {
		go func() { answers <- c.post(ctx, members[i], blindPath, nil) == nil }()
	}
	all := true
	for range members {
		all = <-answers && all
	}
	return all
}

func (c *Caller) post(ctx context.Context, m store.Member, path string, body any) error {
	return c.Call(ctx, m, path, body, nil)
}

// authorize gives a call to another node the credential of this one.
func (c *Caller) authorize(r *http.Request) error {
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	if c.vouch == nil {
		return nil
	}
	var body []byte
	if r.GetBody != nil {
		from, err := r.GetBody()
		if err != nil {
			return err
		}
		if body, err = io.ReadAll(from); err != nil {
			return err
		}
	}
	return c.vouch(r, body)
}

// answerMax bounds the bytes of one answer that are read.
const answerMax = 1 << 20

// Open opens a stream from another node. The stream lasts until ctx ends, or until the other node ends it.
func (c *Caller) Open(ctx context.Context, m store.Member, path string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, m.Address+path, nil)
	if err != nil {
		return nil, fmt.Errorf("address of node %s: %w", m.Name, err)
	}
	if err := c.authorize(req); err != nil {
		return nil, err
	}
	stream := http.Client{Transport: c.http.Transport, CheckRedirect: never} // a client without the time limit of calls
	resp, err := stream.Do(req)
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", m.Name, err)
	}
	if resp.StatusCode != http.StatusOK {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("node %s: %s", m.Name, resp.Status)
	}
	return resp.Body, nil
}

// answered is the error for an unsuccessful answer of a node.
type answered struct {
	error
	status int
}

// Status returns the status of the answer.
func (r answered) Status() int { return r.status }

// Call posts a request. answer, if not nil, receives the answer.
func (c *Caller) Call(ctx context.Context, m store.Member, path string, body, answer any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("write the call: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.Address+path, bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("address of node %s: %w", m.Name, err)
	}
	req.Header.Set("Content-Type", "application/json")
	if err := c.authorize(req); err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("node %s: %w", m.Name, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, answerMax))
	if err != nil {
		return fmt.Errorf("node %s: %w", m.Name, err)
	}
	if resp.StatusCode/100 != 2 {
		return answered{fmt.Errorf("node %s: %s: %s", m.Name, resp.Status, bytes.TrimSpace(text[:min(len(text), 1<<10)])), resp.StatusCode}
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("answer of node %s: %w", m.Name, err)
	}
	return nil
}

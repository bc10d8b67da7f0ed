package dispatch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"skein.dev/skein/internal/connection"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/worker"
	"skein.dev/skein/internal/workflow"
)

// request adds to a job the request of its task. It does nothing for a task without one.
func (r *Resolver) request(ctx context.Context, res *workflow.Resolved, job *worker.Job, used *secretsOf) error {
	if res.Request == nil {
		return nil
	}
	job.HTTP = requestOf(res.Request)
	if err := r.connect(ctx, res.Request, job.HTTP, used); err != nil {
		return err
	}
	job.HTTP.Egress, job.Secrets = r.cfg.Egress(), used.values
	return nil
}

// connect completes a request that uses a connection, with the address and the headers of the connection. It
// does not change other requests.
func (r *Resolver) connect(ctx context.Context, sent *workflow.Sent, q *worker.Request, used *secretsOf) error {
	if sent.Connection == "" {
		return nil
	}
	c, err := r.connection(ctx, used.namespace, sent.Connection)
	if err != nil {
		return err
	}
	name := used.namespace + "/" + sent.Connection
	if c.HTTP == nil {
		return &notStarted{causeConnection, fmt.Errorf("connection %s has the type %s, and a request needs one of the type http", name, c.Type())}
	}
	address, headers, err := c.HTTP.Request(q.URL, used.value)
	switch {
	case used.err != nil:
		return used.hide(err)
	case err != nil:
		return &notStarted{causeConnection, fmt.Errorf("connection %s: %w", name, err)}
	}
	q.URL = address
	for _, h := range headers {
		for _, own := range q.Header {
			if strings.EqualFold(own[0], h.Name) {
				return &notStarted{causeConnection, fmt.Errorf("the task sets the header %s, which connection %s sets: remove it from the task", own[0], name)}
			}
		}
		q.Header = append(q.Header, [2]string{h.Name, h.Value})
	}
	return nil
}

// connection reads a connection. If the store does not answer, the task does not fail.
func (r *Resolver) connection(ctx context.Context, namespace, name string) (connection.Config, error) {
	row, err := r.cfg.Store.ConnectionOf(ctx, namespace, name)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return connection.Config{}, &notStarted{causeConnection,
			fmt.Errorf("there is no connection %s/%s: create it with: skein connection set %s/%s", namespace, name, namespace, name)}
	case err != nil:
		return connection.Config{}, fmt.Errorf("read the connection: %w", err)
	}
	c, err := connection.Parse(row.Data)
	if err != nil {
		return c, &notStarted{causeConnection, fmt.Errorf("connection %s/%s: %w", namespace, name, err)}
	}
	return c, nil
}

// requestOf converts a request of the definition to the form that the worker uses.
func requestOf(s *workflow.Sent) *worker.Request {
	q := &worker.Request{Method: s.Method, URL: s.URL, Body: s.Body, Timeout: time.Duration(s.Timeout), Status: s.Status,
		Contains: s.Contains, Answer: s.Answer, Keep: s.Keep}
	for _, h := range s.Headers {
		q.Header = append(q.Header, [2]string{h.Name, h.Value})
	}
	return q
}

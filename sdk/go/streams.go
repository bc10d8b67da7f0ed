package skein

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strconv"
	"strings"

	api "skein.dev/skein/sdk/api/v1"
)

// LogQuery selects bytes of the log of an attempt. Attempt 0 is the newest attempt. Offset counts from the
// start of the log, or from its end if negative. Limit 0 means no limit.
type LogQuery struct {
	Attempt int
	Offset  int64
	Limit   int64
	Follow  bool // continue until the attempt ends
}

// Log is the output of an attempt, unchanged. The caller closes it.
type Log struct {
	io.ReadCloser
	Attempt int
	Offset  int64 // the offset of the first byte
}

// Logs reads the log of an attempt of a task.
func (c *Client) Logs(ctx context.Context, run, task string, q LogQuery) (*Log, error) {
	k := newCall(http.MethodGet, nil, "runs", run, "tasks", task, "logs")
	setInt(k.query, "attempt", int64(q.Attempt))
	setInt(k.query, "offset", q.Offset)
	setInt(k.query, "limit", q.Limit)
	if q.Follow {
		k.query.Set("follow", "true")
	}
	resp, err := c.send(ctx, k)
	if err != nil {
		return nil, err
	}
	l := &Log{ReadCloser: resp.Body}
	l.Attempt, _ = strconv.Atoi(resp.Header.Get(api.HeaderAttempt))
	l.Offset, _ = strconv.ParseInt(resp.Header.Get(api.HeaderLogOffset), 10, 64)
	return l, nil
}

// WatchQuery selects the objects to watch: the named runs and workflows, or everything.
type WatchQuery struct {
	Runs      []string
	Workflows []string // NAME or NS/NAME
	After     string   // ID of the last received change; "" selects changes from now on
	System    bool     // include the runs of the built-in workflows (namespace system)
}

// Watcher receives changes as they are committed. Close it.
type Watcher struct {
	body io.ReadCloser
}

// Watch subscribes. When it returns, the subscription is active. A caller that reads the watched objects
// afterwards misses no change.
func (c *Client) Watch(ctx context.Context, q WatchQuery) (*Watcher, error) {
	k := newCall(http.MethodGet, nil, "events")
	for _, r := range q.Runs {
		k.query.Add("run", r)
	}
	for _, w := range q.Workflows {
		k.query.Add("workflow", w)
	}
	setTrue(k.query, "system", q.System)
	k.header.Set("Accept", "text/event-stream")
	if q.After != "" {
		k.header.Set("Last-Event-ID", q.After)
	}
	resp, err := c.send(ctx, k)
	if err != nil {
		return nil, err
	}
	return &Watcher{body: resp.Body}, nil
}

// Close ends the subscription.
func (w *Watcher) Close() error { return w.body.Close() }

// Changes yields the received changes. It ends with the stream. If the stream broke off or the context ended,
// the last pair has an error. If the server closed the stream normally, there is no error.
func (w *Watcher) Changes() iter.Seq2[api.Change, error] {
	return func(yield func(api.Change, error) bool) {
		lines := bufio.NewReader(w.body)
		var ev sseEvent
		for {
			line, err := lines.ReadString('\n')
			if err == io.EOF {
				return
			}
			if err != nil {
				yield(api.Change{}, unreachable("event stream", err))
				return
			}
			if !ev.line(strings.TrimRight(line, "\r\n")) {
				continue
			}
			change, ok, err := ev.change()
			if !ok && err == nil {
				continue
			}
			if !yield(change, err) || err != nil {
				return
			}
		}
	}
}

// sseEvent collects the lines of one event.
type sseEvent struct {
	id, name string
	data     strings.Builder
}

// line processes one line. It returns true when the event is complete.
func (e *sseEvent) line(s string) bool {
	if s == "" {
		return true
	}
	field, value, _ := strings.Cut(s, ":")
	value = strings.TrimPrefix(value, " ")
	switch field {
	case "id":
		e.id = value
	case "event":
		e.name = value
	case "data":
		e.data.WriteString(value)
	}
	return false
}

func (e *sseEvent) change() (c api.Change, ok bool, err error) {
	name, data := e.name, e.data.String()
	e.name = ""
	e.data.Reset()
	switch name {
	case "reset":
		return api.Change{ID: e.id, Reset: true}, true, nil
	case "change":
		if err := json.Unmarshal([]byte(data), &c); err != nil {
			return c, false, fmt.Errorf("event stream: %w", err)
		}
		c.ID = e.id
		return c, true, nil
	}
	return c, false, nil
}

package workflow

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// HTTP is a request that a task sends. URL, the values of headers and the texts of the body may contain ${{
// }}.
type HTTP struct {
	Method string `json:"method,omitempty"` // "" is GET
	// Connection names the connection of the request; URL is then a path. "" means no connection.
	Connection string          `json:"connection,omitempty"`
	URL        string          `json:"url"`
	Headers    []KV            `json:"headers,omitempty"`
	Body       json.RawMessage `json:"body,omitempty"` // a text is sent as it is; any other value is sent as JSON
	// Timeout is the timeout of the answer; 0 means the worker's default.
	Timeout  Duration `json:"timeout,omitempty"`
	Status   []int    `json:"status,omitempty"` // the statuses of a success; empty means 200 to 299
	Contains string   `json:"contains,omitempty"`
	// Answer is the form of the output body, text or json; "" if there is no such output.
	Answer string   `json:"answer,omitempty"`
	Keep   []string `json:"keep,omitempty"` // headers of the answer, in the output headers
}

// Sent is a request whose expressions have been evaluated.
type Sent struct {
	*HTTP
	Method  string
	URL     string
	Headers []KV
	Body    []byte
}

// bodyBytesMax bounds the body of a request.
const bodyBytesMax = 1 << 20

// ownHeaders are headers that the sending program sets itself.
var ownHeaders = []string{"content-length", "transfer-encoding", "connection", "trailer", "upgrade"}

// http reads a request.
func (r *reader) http(t *Task, n *node, at string) {
	h := n.get("http")
	if h == nil || h.kind != mapNode {
		return
	}
	q := &HTTP{Method: h.get("method").str(), Connection: h.get("connection").str(), URL: h.get("url").str(), Headers: pairs(h.get("headers")),
		Answer: h.get("answer").str(), Keep: texts(h.get("keep"))}
	if t.HTTP = q; q.Method == "GET" {
		q.Method = ""
	}
	q.Timeout = durationOf(h.get("timeout"))
	if e := h.get("expect"); e != nil {
		q.Contains = e.get("body").str()
		q.Status = r.statuses(e.get("status"))
	}
	here := join(at, "http")
	if err := q.checkURL(q.URL); err != nil && q.URL != "" && !hasTemplate(q.URL) {
		hint := "write an address such as http://warehouse/health"
		if q.Connection != "" {
			hint = "the connection has the address of the server: write a path such as /health"
		}
		r.failNode(h.get("url"), join(here, "url"), err.Error(), hint)
	}
	if b := h.get("body"); b != nil {
		raw, err := marshal(b.value())
		switch {
		case err != nil || len(raw) > bodyBytesMax:
			r.failNode(b, join(here, "body"), "the body is larger than "+sizeText(bodyBytesMax), "send it with run")
		case slices.Contains([]string{"", "HEAD"}, q.Method):
			r.failNode(b, join(here, "body"), "GET and HEAD send no body", "add method: POST")
		default:
			q.Body = raw
		}
	}
	if hs := h.get("headers"); hs != nil && hs.kind == mapNode {
		for i, k := range hs.keys {
			if slices.Contains(ownHeaders, strings.ToLower(k.text)) {
				r.failNode(k, join(join(here, "headers"), k.text), "the header "+k.text+" is set by the worker that sends the request", "remove it")
			} else if strings.ContainsAny(hs.vals[i].text, "\r\n") {
				r.failNode(hs.vals[i], join(join(here, "headers"), k.text), "a header must be a single line", "remove the line break")
			}
		}
	}
	r.unique(h.get("keep"), join(here, "keep"))
	t.Outputs = q.outputs()
	r.notOfRequest(n, at)
}

func (r *reader) statuses(n *node) []int {
	if n == nil {
		return nil
	}
	list := n.vals
	if n.kind == scalarNode {
		list = []*node{n}
	}
	var all []int
	for _, v := range list {
		if s, ok := v.int(); ok {
			all = append(all, int(s))
		}
	}
	return all
}

// outputs returns the outputs that every request has.
func (q *HTTP) outputs() []Output {
	out := []Output{{Name: "status", Type: Int}}
	switch q.Answer {
	case "text":
		out = append(out, Output{Name: "body", Type: String})
	case "json":
		out = append(out, Output{Name: "body", Type: JSON})
	}
	if len(q.Keep) > 0 {
		out = append(out, Output{Name: "headers", Type: JSON})
	}
	return out
}

// notOfRequest reports the keys that have no meaning for a task without a process.
func (r *reader) notOfRequest(n *node, at string) {
	for _, k := range n.keys {
		switch k.text {
		case "env", "dir", "kill_grace", "artifacts", "inputs", "access":
			r.failNode(k, join(at, k.text), k.text+" does not belong to http: a request has no process", "remove it, or use run")
		case "outputs":
			r.failNode(k, join(at, k.text), "the outputs of http are status, body and headers", "remove it; answer and keep decide the outputs")
		case "retry":
			if on := n.get("retry").get("on_exit"); on != nil {
				r.failNode(on, join(join(at, "retry"), "on_exit"), "a request has no exit code", "remove on_exit; every unexpected answer is retried")
			}
		}
	}
}

// checkURL checks an address, or the path of a request over a connection.
func (q *HTTP) checkURL(text string) error {
	if q.Connection == "" {
		_, err := parseURL(text)
		return err
	}
	u, err := url.Parse(strings.TrimSpace(text))
	if err != nil || !strings.HasPrefix(strings.TrimSpace(text), "/") || u.Fragment != "" {
		return errors.New("the url of a request over a connection is a path that begins with /")
	}
	return nil
}

func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSpace(text))
	switch {
	case err != nil:
		return nil, errors.New("this is not a valid address; write it as https://HOST/PATH")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, errors.New("an address begins with http:// or https:// and a host")
	}
	return u, nil
}

// templates calls add for each text of a request that may contain ${{ }}.
func (q *HTTP) templates(add func(text string)) {
	add(q.URL)
	for _, h := range q.Headers {
		add(h.Value)
	}
	_, _ = eachText(q.Body, func(text string) (any, error) { add(text); return nil, nil })
}

// eachText replaces every text in a JSON value, except the names of members.
func eachText(raw json.RawMessage, to func(text string) (any, error)) (any, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	var walk func(v any) (any, error)
	walk = func(v any) (any, error) {
		var err error
		switch v := v.(type) {
		case string:
			return to(v)
		case []any:
			for i := range v {
				if v[i], err = walk(v[i]); err != nil {
					return nil, err
				}
			}
		case map[string]any:
			for _, k := range sortedKeys(v) {
				if v[k], err = walk(v[k]); err != nil {
					return nil, err
				}
			}
		}
		return v, nil
	}
	v, err := decodeNumbers(raw)
	if err != nil {
		return nil, err
	}
	return walk(v)
}

// sent evaluates the expressions of a request.
func (w *Workflow) sent(t *Task, from *values) (*Sent, error) {
	q := t.HTTP
	s := &Sent{HTTP: q, Method: firstText(q.Method, "GET")}
	var err error
	if s.URL, err = w.text(q.URL, t.foreachScope(), from); err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	if s.URL = strings.TrimSpace(s.URL); hasTemplate(q.URL) {
		if err := q.checkURL(s.URL); err != nil {
			return nil, fmt.Errorf("url: %w", err) // the error must not contain the address, which may contain a secret
		}
	}
	for _, h := range q.Headers {
		if h.Value, err = w.text(h.Value, t.foreachScope()|secretsToo, from); err != nil {
			return nil, fmt.Errorf("header %s: %w", h.Name, err)
		}
		if strings.ContainsAny(h.Value, "\r\n") {
			return nil, fmt.Errorf("header %s has more than one line", h.Name)
		}
		s.Headers = append(s.Headers, h)
	}
	return s, w.sentBody(t, s, from)
}

func (w *Workflow) sentBody(t *Task, s *Sent, from *values) error {
	q := t.HTTP
	if len(q.Body) == 0 {
		return nil
	}
	kind := "application/json"
	if text, ok := jsonString(q.Body); ok {
		text, err := w.text(text, t.foreachScope()|secretsToo, from)
		if err != nil {
			return fmt.Errorf("body: %w", err)
		}
		s.Body, kind = []byte(text), "text/plain; charset=utf-8"
	} else {
		v, err := eachText(q.Body, func(text string) (any, error) {
			if !hasTemplate(text) {
				return text, nil
			}
			c, err := w.exprs.get(text, t.foreachScope()|secretsToo)
			if err != nil {
				return nil, err
			}
			return c.value(from.lookup)
		})
		if err != nil {
			return fmt.Errorf("body: %w", err)
		}
		if s.Body, err = marshal(v); err != nil {
			return fmt.Errorf("body: %w", err)
		}
	}
	if len(s.Body) > bodyBytesMax {
		return fmt.Errorf("body: it is larger than %s", sizeText(bodyBytesMax))
	}
	if !slices.ContainsFunc(s.Headers, func(h KV) bool { return strings.EqualFold(h.Name, "Content-Type") }) {
		s.Headers = append(s.Headers, KV{Name: "Content-Type", Value: kind})
	}
	return nil
}

// checkHTTP checks the references in the texts of a request.
func (c *readCheck) checkHTTP(n *node, at string, in scope, read func(n *node, at string, refs []ref)) {
	h := n.get("http")
	if h == nil || h.kind != mapNode {
		return
	}
	var walk func(v *node, key string, in scope)
	walk = func(v *node, key string, in scope) {
		if v == nil {
			return
		}
		if v.isText() && hasTemplate(v.text) {
			got := c.compile(v.text, in)
			c.complain(v, key, 0, got.faults)
			read(v, key, got.refs)
		}
		for i, inner := range v.vals {
			if name := key; v.kind == mapNode {
				walk(inner, join(name, v.keys[i].text), in)
			} else {
				walk(inner, fmt.Sprintf("%s[%d]", name, i), in)
			}
		}
	}
	walk(h.get("url"), join(join(at, "http"), "url"), in) // the address appears in logs and messages, so it must not read secrets
	for _, key := range []string{"headers", "body"} {
		walk(h.get(key), join(join(at, "http"), key), in|secretsToo)
	}
}

// decodeNumbers decodes JSON, and keeps numbers as they are written.
func decodeNumbers(raw json.RawMessage) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	err := dec.Decode(&v)
	return v, err
}

package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/google/uuid"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/dag"
	api "skein.dev/skein/sdk/api/v1"
)

// Bounds of a verb on several runs.
const (
	bulkMax       = 1000    // runs of one call
	bulkPages     = 100     // pages of one call; pages of a filter that few runs fit are short
	bulkAtOnce    = 16      // concurrent calls; runs of concurrent calls share commits
	bulksMax      = 4       // concurrent calls
	bulkAnswerMax = 1 << 20 // bytes of the answer about one run
)

// bulkPath is the prefix of the routes for several runs.
const bulkPath = api.Prefix + "/runs:"

type bulkIn[B any] struct {
	Idempotent
	Body B
}

// bulkRoutes registers the verbs on several runs.
func (s *Server) bulkRoutes(runs tag) {
	for _, v := range runVerbs {
		route(s, runs.verb("/runs:"+v.name, v.name+"-runs", strings.ToUpper(v.name[:1])+v.name[1:]+" several runs, by id or by a filter"),
			bulk(s, v.name, "active", func(b *api.BulkVerb) (*api.BulkRequest, any) { return &b.BulkRequest, &b.VerbRequest }))
	}
	route(s, runs.verb("/runs:recover", "recover-runs", "Recover several ended runs, by id or by a filter"),
		bulk(s, "recover", "failed", func(b *api.BulkRecover) (*api.BulkRequest, any) { return &b.BulkRequest, &b.RecoverRequest }))
	route(s, runs.verb("/runs:rerun", "rerun-runs", "Rerun several runs as new ones, by id or by a filter"),
		bulk(s, "rerun", "failed", func(b *api.BulkRerun) (*api.BulkRequest, any) { return &b.BulkRequest, &b.RerunRequest }))
}

// bulk applies a verb to several runs. It calls the verb's own route for each run, so that the owner of the
// run decides, on any node. Each call has its own key, so a bulk call that is repeated with its key has no
// second effect.
func bulk[B any](s *Server, verb, state string, parts func(*B) (*api.BulkRequest, any)) func(context.Context, *bulkIn[B]) (*jsonOut[api.BulkResult], error) {
	return func(ctx context.Context, in *bulkIn[B]) (*jsonOut[api.BulkResult], error) {
		choice, one := parts(&in.Body)
		if err := s.bulks.enter("calls for several runs are being carried out"); err != nil {
			return nil, err
		}
		defer s.bulks.leave()
		if choice.State == "" {
			choice.State = state
		}
		res := api.BulkResult{Verb: verb, DryRun: choice.DryRun}
		var err error
		if res.Items, res.Next, err = s.choose(ctx, choice); err != nil {
			return nil, err
		}
		res.Count = len(res.Items)
		if err := confirmed(choice, &res); err != nil || choice.DryRun {
			return &jsonOut[api.BulkResult]{Body: res}, err
		}
		body, err := json.Marshal(one)
		if err != nil {
			return nil, err
		}
		key := in.Key
		if key == "" {
			key = uuid.NewString()
		}
		s.each(ctx, verb, key, body, res.Items)
		for i := range res.Items {
			if res.Items[i].Outcome == "done" {
				res.Done++
			} else {
				res.Refused++
			}
		}
		return &jsonOut[api.BulkResult]{Body: res}, ctx.Err()
	}
}

// confirmed returns an error if the request has a filter and the caller has not agreed to the number of
// selected runs.
func confirmed(c *api.BulkRequest, res *api.BulkResult) error {
	more := ""
	if res.Next != nil {
		more = " and more"
	}
	switch {
	case c.Expect != nil && (*c.Expect != res.Count || res.Next != nil):
		return fail(http.StatusConflict, api.ProblemConflict, "%d runs%s match, but %d were expected; nothing was changed", res.Count, more, *c.Expect)
	case c.DryRun || c.Confirm || c.Expect != nil || len(c.Runs) > 0:
		return nil
	}
	return invalid("%d runs%s match: give expect: %d or confirm: true, or list them with dry_run: true", res.Count, more, res.Count)
}

// bulkFilter returns the filter of a request, and whether it narrows the runs.
func bulkFilter(c *api.BulkRequest) (f RunFilter, narrow bool) {
	f = RunFilter{Workflow: c.Workflow, Since: c.Since, Until: c.Until, Namespace: c.Namespace, Origin: c.Origin, Trigger: c.Trigger, Cause: c.Cause,
		Backfill: c.Backfill, Parent: c.Parent, Node: c.Node, Tag: c.Tag, Text: c.Text, Page: Page{Cursor: c.Cursor}, State: []string{c.State}}
	for _, text := range []string{c.Workflow, c.User, c.Since, c.Until, c.Namespace, c.Origin, c.Trigger, c.Cause, c.Parent, c.Node, c.Text} {
		narrow = narrow || text != ""
	}
	return f, narrow || c.Backfill != 0 || len(c.Tag) > 0 || c.All
}

// choose finds the runs. They come newest first, or in the order of their names.
func (s *Server) choose(ctx context.Context, c *api.BulkRequest) (items []api.BulkItem, next *string, err error) {
	items = []api.BulkItem{}
	f, narrow := bulkFilter(c)
	if len(c.Runs) > 0 {
		if narrow || c.Cursor != "" || c.Limit > 0 {
			return nil, nil, invalid("runs: give ids of runs or a filter, not both")
		}
		seen := map[dag.RunID]bool{}
		for _, text := range c.Runs {
			item := api.BulkItem{ID: text, Outcome: "would"}
			id, err := dag.ParseRunID(text)
			if err != nil {
				return nil, nil, invalid("runs: there is no run %q: %s", text, err)
			}
			if seen[id] {
				continue
			}
			seen[id] = true
			if run, err := seenRun(ctx, s, id); err == nil {
				item.Run = &run
			} else if c.DryRun {
				item.Outcome, item.Problem = "refused", &failed(err).Problem
			}
			items = append(items, item)
		}
		return items, nil, nil
	}
	if !narrow {
		return nil, nil, invalid("no runs are selected: give runs or a filter such as workflow, ns or tag, or all: true")
	}
	if err := mayChoose(ctx, c); err != nil {
		return nil, nil, err
	}
	limit := c.Limit
	if limit == 0 {
		limit = bulkMax
	}
	for pages := 1; ; pages++ {
		f.Limit = limit - len(items)
		page, err := s.runPage(ctx, &f, c.User)
		if err != nil {
			return nil, nil, err
		}
		for i := range page.Body.Items {
			run := &page.Body.Items[i]
			items = append(items, api.BulkItem{ID: run.ID, Outcome: "would", Run: run})
		}
		if next = page.Body.Next; next == nil || len(items) >= limit || pages == bulkPages {
			return items, next, nil
		}
		f.Cursor = *next
	}
}

// mayChoose returns a refusal if the caller may not read all runs that a filter can select.
func mayChoose(ctx context.Context, c *api.BulkRequest) error {
	switch {
	case wide(ctx, access.RunRead):
		return nil
	case c.Workflow != "":
		return mayName(ctx, access.RunRead, c.Workflow)
	case c.Namespace != "":
		return may(ctx, access.RunRead, c.Namespace)
	}
	return fail(http.StatusForbidden, api.ProblemForbidden, "this call needs the verb %s in all namespaces; give runs, a workflow, or ns", access.RunRead)
}

// each calls the verb of every run.
func (s *Server) each(ctx context.Context, verb, key string, body []byte, items []api.BulkItem) {
	from, _ := ctx.Value(requestKey{}).(*http.Request)
	var wg sync.WaitGroup
	work := make(chan *api.BulkItem)
	for range min(bulkAtOnce, len(items)) {
		wg.Go(func() {
			for item := range work {
				s.one(ctx, from, verb, key, body, item)
			}
		})
	}
	for i := range items {
		work <- &items[i]
	}
	close(work)
	wg.Wait()
}

// one calls the verb for one run, with the caller's rights.
func (s *Server) one(ctx context.Context, from *http.Request, verb, key string, body []byte, item *api.BulkItem) {
	refused := func(f *failure) { item.Outcome, item.Problem = "refused", &f.Problem }
	a := &innerAnswer{header: http.Header{}}
	defer func() {
		if p := recover(); p != nil { // the proxy panics if it loses the connection to another node
			s.log.Warn("a bulk call broke off at one of its runs; repeat the call with the same filter", "code", "bulk_verb_cut_off", "run", item.ID, "verb", verb, "err", p)
			refused(fail(http.StatusServiceUnavailable, api.ProblemUnavailable, "the connection to the run's node broke; send the request again with the same key"))
		}
	}()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, api.Prefix+"/runs/"+item.ID+":"+verb, bytes.NewReader(body))
	if err != nil {
		refused(failed(err))
		return
	}
	if from != nil {
		r.Host, r.RemoteAddr = from.Host, from.RemoteAddr
		for _, h := range []string{"Authorization", api.HeaderClaimedBy} {
			if v := from.Header.Get(h); v != "" {
				r.Header.Set(h, v)
			}
		}
		// all values are copied, because a request with two such headers has no trace; no handler changes the list
		r.Header["Traceparent"] = from.Header["Traceparent"]
	}
	sum := sha256.Sum256([]byte(key + "\n" + item.ID))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(api.HeaderIdempotencyKey, "bulk-"+hex.EncodeToString(sum[:]))
	s.handler.ServeHTTP(a, r)
	a.tell(item)
}

// requestKey is the key under which the context has the request of a verb on several runs.
type requestKey struct{}

// isBulk reports whether a request applies a verb to several runs.
func isBulk(r *http.Request) bool {
	return r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, bulkPath)
}

// innerAnswer is a ResponseWriter that keeps the answer.
type innerAnswer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *innerAnswer) Header() http.Header { return a.header }

func (a *innerAnswer) WriteHeader(status int) {
	if a.status == 0 && status >= 200 {
		a.status = status
	}
}

func (a *innerAnswer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	if a.body.Len()+len(b) > bulkAnswerMax {
		return 0, io.ErrShortWrite
	}
	return a.body.Write(b)
}

// tell copies the answer into the item.
func (a *innerAnswer) tell(item *api.BulkItem) {
	if a.status >= 200 && a.status < 300 {
		item.Outcome = "done"
		var run api.Run
		if json.Unmarshal(a.body.Bytes(), &run) == nil && run.ID != "" {
			item.Run = &run
		}
		return
	}
	item.Outcome = "refused"
	p := &api.Problem{}
	if json.Unmarshal(a.body.Bytes(), p) != nil || p.Type == "" {
		made := api.NewProblem(api.ProblemUnavailable, a.status, fmt.Sprintf("the node that has the run answered %d", a.status))
		p = &made
	}
	item.Problem = p
}

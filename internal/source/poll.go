package source

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"skein.dev/skein/internal/connection"
	"skein.dev/skein/internal/egress"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/workflow"
)

const (
	// answerMax bounds an answer, in bytes.
	answerMax = 8 << 20
	// itemsMax bounds the items of an answer.
	itemsMax = 10_000
	// budgetMax bounds the bytes of all answers that a node has in memory at the same time.
	budgetMax = 64 << 20
	// chunkMax is the number of bytes that a read takes from the budget at once.
	chunkMax = 256 << 10
	// readersMax bounds the answers that are evaluated at the same time.
	readersMax = 2
	// shownMax bounds the bytes of an answer that an error contains.
	shownMax = 80
)

// Poll requests a document over HTTP repeatedly. Each item that it has not seen before is an event.
type Poll struct {
	pulse
	Config *workflow.Poll
	Start  Start
	// Request returns the address and the headers of the request.
	Request func(ctx context.Context) (address string, headers []connection.Header, err error)
	// Transport makes a transport for one call. The transport reaches only the addresses that the rules of
	// egress allow.
	Transport func(ctx context.Context) (http.RoundTripper, error)
	// Shared is the budget that all polls of a node share.
	Shared *Shared
}

var _ Source = (*Poll)(nil)

// Shared limits the memory and the evaluations of all polls of a node together.
type Shared struct {
	readers chan struct{}

	mu   sync.Mutex // protects left
	left int64
}

// NewShared returns the limits of a node.
func NewShared() *Shared { return &Shared{readers: make(chan struct{}, readersMax), left: budgetMax} }

func (s *Shared) take(n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left < n {
		return false
	}
	s.left -= n
	return true
}

func (s *Shared) giveBack(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left += n
}

// errBusy means that there is no memory for an answer now. The read does not wait for memory, so a slow
// server does not delay other polls.
var errBusy = errors.New("this node reads too many answers at the same time; the request will be repeated")

// read reads an answer. done returns its bytes to the budget.
func (s *Shared) read(from io.Reader) (text []byte, done func(), err error) {
	taken := int64(0)
	done = func() { s.giveBack(taken) }
	var buf bytes.Buffer
	for {
		if !s.take(chunkMax) {
			return nil, done, errBusy
		}
		taken += chunkMax
		n, err := io.CopyN(&buf, from, chunkMax)
		switch {
		case errors.Is(err, io.EOF):
			return buf.Bytes(), done, nil
		case err != nil:
			return nil, done, err
		case n == chunkMax && buf.Len() > answerMax:
			return nil, done, fmt.Errorf("%w: the limit is %d MiB; request a smaller answer", errLarge, answerMax>>20)
		}
	}
}

// answer is the result of one request.
type answer struct {
	text []byte // nil if the document has not changed
	done func() // returns its bytes to the budget
	etag string
	date string // Last-Modified
}

// Run implements Source.
func (p *Poll) Run(ctx context.Context, from []byte, give func(context.Context, Batch) error) error {
	reader, err := p.Config.Reader()
	if err != nil {
		return err
	}
	m, known, begun, err := readMemory(from, ofPoll(p.Config))
	if err != nil {
		return err
	}
	turn := pollTurn{Poll: p, reader: reader, m: m, known: known, cursor: from, baseline: !begun && !p.Start.Beginning}
	for last := (answer{}); ; {
		is, err := p.look(ctx, &last)
		if err != nil {
			return err
		}
		found, err := turn.find(ctx, is.text)
		changed := is.text != nil
		is.text = nil
		is.done() // the bytes are returned first, because passing on the events may take long
		if err != nil {
			return err
		}
		p.answered(int64(found.left + len(found.fresh)))
		if err := turn.give(ctx, found, give); err != nil {
			return err
		}
		p.answered(int64(found.left))
		switch {
		case found.left > 0:
			last = answer{} // the rest must be read again
			continue
		case changed:
			last = is
		}
		if err := p.wait(ctx, time.Duration(p.Config.Every), nil); err != nil {
			return err
		}
	}
}

// ofPoll identifies the read data by a text. The expressions are part of it, because they determine the
// events.
func ofPoll(c *workflow.Poll) string {
	return keyOf("poll", sumOf(c.Connection, c.URL, c.Items, c.ID, c.Newer))
}

// look makes one request.
func (p *Poll) look(ctx context.Context, last *answer) (is answer, err error) {
	is.done = func() {}
	ctx, cancel := context.WithTimeout(ctx, lookMax)
	defer cancel()
	address, headers, err := p.Request(ctx)
	if err != nil {
		return is, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return is, errors.New("the address cannot be used")
	}
	req.Header.Set("Accept", "application/json")
	var named []string
	for _, h := range headers {
		req.Header.Set(h.Name, h.Value)
		named = append(named, h.Name)
	}
	for name, value := range map[string]string{"If-None-Match": last.etag, "If-Modified-Since": last.date} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	transport, err := p.Transport(ctx)
	if err != nil {
		return is, err
	}
	client := http.Client{Transport: transport, CheckRedirect: func(req *http.Request, via []*http.Request) error { return egress.Redirect(req, via, named) }}
	resp, err := client.Do(req)
	if err != nil {
		return is, fmt.Errorf("GET %s: %w", egress.PlainURL(req.URL), reasonOf(ctx, err))
	}
	defer resp.Body.Close()
	if is.text, is.done, err = p.body(resp); err != nil {
		is.done()
		return is, laterOf(resp, fmt.Errorf("GET %s: %w", egress.PlainURL(req.URL), reasonOf(ctx, err)))
	}
	is.etag, is.date = validator(resp, "ETag"), validator(resp, "Last-Modified")
	return is, nil
}

// reasonOf removes the address from an error of package http, because the query of the address may be secret.
func reasonOf(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%w within %s", errSlow, lookMax)
	}
	var of *url.Error
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}

// body reads the answer of the server. It returns nil if the document has not changed.
func (p *Poll) body(resp *http.Response) (text []byte, done func(), err error) {
	done = func() {}
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNotModified:
		return nil, done, nil
	case http.StatusNoContent:
		return []byte("[]"), done, nil
	default:
		return nil, done, fmt.Errorf("%w: %d %s", errStatus, resp.StatusCode, http.StatusText(resp.StatusCode))
	}
	if text, done, err = p.Shared.read(resp.Body); err != nil {
		return nil, done, err
	}
	if !json.Valid(text) {
		begins := strings.ToValidUTF8(string(text[:min(len(text), shownMax)]), "\uFFFD")
		return nil, done, fmt.Errorf("%w; it begins with %q", errForm, begins)
	}
	return text, done, nil
}

// laterOf adds to an error the time after which the server accepts the next request.
func laterOf(resp *http.Response, err error) error {
	text := resp.Header.Get("Retry-After")
	var after time.Duration
	if n, e := strconv.ParseInt(strings.TrimSpace(text), 10, 32); e == nil {
		after = time.Duration(n) * time.Second
	} else if at, e := http.ParseTime(text); e == nil {
		after = time.Until(at)
	}
	if after <= 0 {
		return err
	}
	return &LaterError{after, err}
}

// validatorMax bounds the bytes of a validator that a source sends back to the server.
const validatorMax = 1000

func validator(resp *http.Response, name string) string {
	if is := resp.Header.Get(name); len(is) <= validatorMax {
		return is
	}
	return ""
}

// pollTurn is the state of a poll between two requests.
type pollTurn struct {
	*Poll
	reader   *workflow.PollReader
	m        memory
	known    seen
	cursor   []byte // the cursor in the trigger's row
	baseline bool   // the items of the first answer are no events
}

// polled is an item of an answer.
type polled struct {
	raw    json.RawMessage // a part of the answer
	sum    [sha256.Size]byte
	k      mark
	at     workflow.Position
	reason string
	err    error // the reason why the item cannot be an event
}

// found is the result of one answer for a trigger.
type found struct {
	same  bool // the document has not changed
	known seen // the items of the answer that were passed on before, or count as passed on
	fresh []polled
	event []Event           // event of each fresh item, without the answer
	left  int               // new items beyond the first batch
	next  workflow.Position // position of the first of them
}

// find searches an answer for new items. It keeps one batch of them.
func (t *pollTurn) find(ctx context.Context, text []byte) (f found, err error) {
	f.known = seen{marks: map[mark]workflow.Position{}, floor: t.known.floor}
	if f.same = text == nil; f.same {
		return f, nil
	}
	items, err := t.items(ctx, text)
	if err != nil {
		return f, err
	}
	for i := range items {
		is := &items[i]
		_, marked := t.known.marks[is.k]
		switch _, twice := f.known.marks[is.k]; {
		case twice:
		case marked || t.baseline:
			f.known.marks[is.k] = is.at
		case is.err == nil && t.known.below(is.at):
		default:
			f.fresh = append(f.fresh, *is)
		}
	}
	sort.SliceStable(f.fresh, func(i, j int) bool { return f.fresh[i].at.Compare(f.fresh[j].at) < 0 })
	f.fresh = uniqueMarks(f.fresh)
	size, n := 0, 0
	for ; n < len(f.fresh) && n < engine.BatchEventsMax; n++ {
		e := f.fresh[n].asEvent()
		if size += e.Size(); size > engine.BatchBytesMax {
			break
		}
		f.event = append(f.event, e)
	}
	if f.left = len(f.fresh) - n; f.left > 0 {
		f.next = f.fresh[n].at
	}
	f.fresh = f.fresh[:n]
	return f, nil
}

func uniqueMarks(all []polled) []polled {
	had := map[mark]bool{}
	return slices.DeleteFunc(all, func(is polled) bool {
		twice := had[is.k]
		had[is.k] = true
		return twice
	})
}

// give passes on the new items, and moves the cursor behind them.
func (t *pollTurn) give(ctx context.Context, f found, give func(context.Context, Batch) error) error {
	if f.same || len(f.event) == 0 && !t.baseline {
		return nil // items that the answer no longer contains are removed from the cursor with the next event
	}
	for i := range f.fresh {
		f.known.marks[f.fresh[i].k] = f.fresh[i].at
	}
	f.known.shrink()
	if f.left > 0 {
		f.known.spare(f.next)
	}
	next, err := t.m.pack(&f.known)
	if err != nil {
		return err
	}
	if err := give(ctx, Batch{After: t.cursor, Cursor: next, Events: f.event}); err != nil {
		return err
	}
	t.cursor, t.known, t.baseline = next, f.known, false
	return nil
}

// items reads the items of an answer. At most readersMax answers are evaluated at the same time.
func (t *pollTurn) items(ctx context.Context, text []byte) ([]polled, error) {
	select {
	case t.Shared.readers <- struct{}{}:
		defer func() { <-t.Shared.readers }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	list, err := t.reader.Items(text)
	switch {
	case err != nil:
		return nil, err
	case len(list) > itemsMax:
		return nil, fmt.Errorf("%w: %d, and the limit is %d; request fewer items", errMany, len(list), itemsMax)
	case len(list) > seenMax && t.Config.Newer == "":
		return nil, fmt.Errorf("%w: %d; above %d, the source needs newer, which gives the position of an item", errMany, len(list), seenMax)
	}
	all := make([]polled, len(list))
	for i, raw := range list {
		all[i] = t.item(raw)
	}
	return all, nil
}

// item reads the fields that identify an item.
func (t *pollTurn) item(raw json.RawMessage) polled {
	is := polled{raw: raw, reason: "a new item"}
	id, named, err := t.reader.ID(raw)
	if err == nil {
		is.at, _, err = t.reader.Newer(raw)
	}
	if err == nil && len(raw) > valueMax {
		err = errTooLarge
	}
	is.err = err
	is.sum = sumOf(t.m.Of, "item", string(raw))
	if named {
		is.sum, is.reason = sumOf(t.m.Of, "id", id), "the new item "+shortened(id)
	}
	copy(is.k[:], is.sum[:])
	return is
}

func (is *polled) asEvent() Event {
	if is.err != nil {
		return Event{Key: keyOf("poll", is.sum), Reason: is.reason + " cannot be used: " + shortened(is.err.Error())}
	}
	return Event{Key: keyOf("poll", is.sum), Value: bytes.Clone(is.raw), Reason: is.reason}
}

// shortened shortens a text of another system to one readable line.
func shortened(text string) string { return inLine(text, shownMax) }

// inLine converts at most n bytes of a text to one readable line.
func inLine(text string, n int) string {
	if len(text) > n {
		text = strings.ToValidUTF8(text[:n], "") + "…"
	}
	return strings.Map(func(c rune) rune {
		if c < ' ' {
			return ' '
		}
		return c
	}, strings.ToValidUTF8(text, "\uFFFD"))
}

package trace

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/tally"
	"skein.dev/skein/sdk/shared/secretfile"
)

const (
	// callMax bounds one call of the collector.
	callMax = 10 * time.Second
	// spansPerCall is the number of collected spans at which they are sent.
	spansPerCall = 1000
	// backoffMin is the pause after the first failed call. The pause doubles with each further failure, up to
	// backoffMax.
	backoffMin, backoffMax = time.Second, time.Minute
	// brokenMax bounds the calls with the same spans that a collector answers with errBroken, which takes
	// about ten minutes. brokenAgain bounds the calls with each half of these spans, and halvesMax the time of
	// the calls with all halves.
	brokenMax, brokenAgain = 15, 2
	halvesMax              = time.Minute
	// brokenProbe is the number of these calls after which single spans are sent, to find out whether the
	// collector works.
	brokenProbe = 3
	// exhaustedMax bounds the single spans that a collector answers with errExhausted before it counts as
	// full.
	exhaustedMax = 3
	// answerMax bounds the bytes that are read of an answer.
	answerMax = 64 << 10
	// headersMax bounds the headers of the settings.
	headersMax = 32
)

func newClient(protocol string) *http.Client {
	t := &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConns: 2, MaxConnsPerHost: 2, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true}
	if protocol == ProtocolGRPC {
		t.Protocols = new(http.Protocols)
		t.Protocols.SetHTTP2(true)
		t.Protocols.SetUnencryptedHTTP2(true)
	}
	return &http.Client{
		Transport:     t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // the headers are for one server
	}
}

// batch collects spans for calls of the collector.
type batch struct {
	x     *Exporter
	spans []span
	runs  int64
}

// add adds the spans of a run that has ended. When there are enough spans for a call, add sends them.
func (b *batch) add(ctx context.Context, rec *store.RunRecord, end *tally.End) error {
	t, err := b.x.spans(ctx, rec, end)
	if err != nil {
		return err
	}
	b.x.stats.leftOut.Add(t.left)
	b.spans, b.runs = append(b.spans, t.out...), b.runs+1
	if len(b.spans) < spansPerCall {
		return nil
	}
	return b.flush(ctx)
}

// flush sends the spans. It returns when the collector has accepted or refused them, or when ctx ends.
func (b *batch) flush(ctx context.Context) error {
	outcome := outSent
	for all := b.spans; len(all) > 0; {
		n := min(spansPerCall, len(all))
		taken, err := b.x.deliver(ctx, all[:n])
		if err != nil {
			return err
		}
		if !taken {
			outcome = outRejected
		}
		all = all[n:]
	}
	b.x.stats.runs[outcome].Add(b.runs)
	b.spans, b.runs = nil, 0
	return nil
}

// deliver sends spans until the collector has accepted or refused them. taken is false if the collector
// refused some. If the collector has answered all calls of the delivery before with errBroken, one such
// answer is enough to drop the spans, so that a broken collector does not delay later runs. The same holds
// for errExhausted.
func (x *Exporter) deliver(ctx context.Context, spans []span) (taken bool, err error) {
	d := delivery{x: x, tries: brokenMax, full: x.full}
	if x.broken {
		d.tries = 1
	}
	taken, err = d.send(ctx, spans, d.tries)
	x.broken, x.full = d.broken && !d.answered, d.full
	return taken, err
}

// delivery sends the spans of one call of deliver.
type delivery struct {
	x        *Exporter
	tries    int  // calls with all spans that may be answered with errBroken
	broken   bool // the collector has answered with errBroken
	answered bool // the collector has answered in another way
	halving  bool // the spans are sent in halves, because the collector answered with errBroken
	// The time of the calls since then that the collector answered with errBroken again, with their pauses.
	halves  time.Duration
	probed  bool // single spans were sent, to find out whether the collector works
	full    bool // the collector takes no spans, however few, so one answer with errExhausted is enough
	singles int  // single spans that the collector answered with errExhausted since it last accepted spans
}

// send sends spans with a given number of tries. If the collector answers all tries with errBroken, send
// sends the spans in halves, and drops a single span. So spans that the collector cannot process do not
// delay all later spans.
func (d *delivery) send(ctx context.Context, spans []span, tries int) (taken bool, err error) {
	x := d.x
	for wait := backoffMin; ; wait = min(2*wait, backoffMax) {
		if d.halves > halvesMax {
			x.drop(spans, errBroken)
			return false, nil
		}
		began := time.Now()
		refused, err := x.post(ctx, spans)
		var again *againError
		if errors.Is(err, errBroken) {
			tries--
			d.broken = true
			if d.halving {
				d.halves += time.Since(began) + wait
			}
		} else if errors.Is(err, errExhausted) {
			if len(spans) == 1 {
				d.singles++
			}
			d.full = d.full || d.singles >= exhaustedMax
		} else if err == nil || errors.Is(err, errTooLarge) || errors.Is(err, errRefused) {
			d.answered, d.full, d.singles = true, false, 0
		}
		switch {
		case err == nil:
			x.stats.sent.Add(int64(len(spans)) - refused)
			x.stats.rejected.Add(refused)
			return refused == 0, nil
		case tries == 0 && d.tries == 1, errors.Is(err, errExhausted) && d.full:
			x.drop(spans, err)
			return false, nil
		case tries == d.tries-brokenProbe && !d.probed && len(spans) > 1:
			if left, works := d.probe(ctx, spans); works {
				return d.send(ctx, left, 1) // one more call, and then the halves
			}
		case (errors.Is(err, errTooLarge) || tries == 0) && len(spans) > 1:
			if tries == 0 {
				tries, d.halving = brokenAgain, true
			}
			one, err := d.send(ctx, spans[:len(spans)/2], tries)
			if err != nil {
				return false, err
			}
			two, err := d.send(ctx, spans[len(spans)/2:], tries)
			return one && two, err
		case errors.Is(err, errTooLarge), errors.Is(err, errRefused), tries == 0:
			x.drop(spans, err)
			return false, nil
		case errors.As(err, &again):
			wait = max(wait, min(again.after, backoffMax))
		}
		x.stats.failed.Add(1)
		x.tell(ctx, err)
		if err := x.sleep(ctx, wait); err != nil {
			return false, err
		}
	}
}

// probe sends the first span alone. If the collector fails, probe sends the last one. If the collector takes
// one of them, it works, and cannot process some of the others: probe returns these.
func (d *delivery) probe(ctx context.Context, spans []span) (left []span, works bool) {
	d.probed = true
	for _, at := range [...]int{0, len(spans) - 1} {
		refused, err := d.x.post(ctx, spans[at:at+1])
		if err == nil {
			d.answered = true
			d.x.stats.sent.Add(1 - refused)
			d.x.stats.rejected.Add(refused)
			return slices.Delete(slices.Clone(spans), at, at+1), true
		}
	}
	return nil, false
}

// drop counts spans that are not sent.
func (x *Exporter) drop(spans []span, why error) {
	x.cfg.Log.Warn("the collector refused spans; the exporter drops them", "code", "traces_rejected", "spans", len(spans), "err", why)
	x.stats.rejected.Add(int64(len(spans)))
}

// Answers that a further call with the same spans would get again.
var (
	errTooLarge = errors.New("the request is too large for the collector")
	errRefused  = errors.New("the collector cannot read the request")
	// errExhausted also means that the collector takes no more spans at present. Then OTLP forbids to repeat
	// the call.
	errExhausted = fmt.Errorf("%w, or takes no more spans", errTooLarge)
)

// errBroken is an answer such as 500. OTLP says that the call should not be repeated. But collectors also
// give this answer while a service behind them does not work.
var errBroken = errors.New("the collector failed")

// againError is an answer with the time of the next permitted call.
type againError struct {
	err   error
	after time.Duration
}

func (e *againError) Error() string { return e.err.Error() }
func (e *againError) Unwrap() error { return e.err }

// post calls the collector once. It returns the number of spans that the collector refused.
func (x *Exporter) post(ctx context.Context, spans []span) (refused int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, callMax)
	defer cancel()
	if x.rpc != nil {
		return x.call(ctx, spans)
	}
	body, err := x.encode(spans)
	if err != nil {
		return 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, x.cfg.URL, body)
	if err != nil {
		return 0, err
	}
	if err := headers(x.cfg.HeadersFile, req.Header); err != nil {
		return 0, err
	}
	form := "application/json"
	if x.cfg.Protocol == ProtocolProtobuf {
		form = "application/x-protobuf"
	}
	req.Header.Set("Content-Type", form)
	req.Header.Set("Content-Encoding", "gzip")
	req.Header.Set("User-Agent", "Skein/"+x.cfg.Version)
	resp, err := x.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, answerMax))
	said := fmt.Errorf("%s answered %s", x.cfg.URL, resp.Status)
	switch code := resp.StatusCode; {
	case code == http.StatusRequestEntityTooLarge:
		return 0, fmt.Errorf("%w: %w", errTooLarge, said)
	case code == http.StatusBadRequest, code == http.StatusUnprocessableEntity:
		return 0, fmt.Errorf("%w: %w: %s", errRefused, said, bounded(string(answer)))
	case code >= 500 && (code < http.StatusBadGateway || code > http.StatusGatewayTimeout):
		return 0, fmt.Errorf("%w: %w", errBroken, said)
	case code < 200 || code > 299:
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		return 0, &againError{said, time.Duration(max(seconds, 0)) * time.Second}
	case err != nil:
		return 0, err
	}
	if x.cfg.Protocol == ProtocolProtobuf {
		n, why := partial(answer)
		return x.refused(n, why, len(spans)), nil
	}
	var is exportResponse
	if json.Unmarshal(answer, &is) != nil { // a collector that has accepted the spans may answer in another form
		return 0, nil
	}
	n, _ := is.Partial.Rejected.Int64()
	return x.refused(n, is.Partial.Error, len(spans)), nil
}

// refused returns the number of spans, of all that were sent, that a collector has refused by its answer.
func (x *Exporter) refused(n int64, why string, all int) int64 {
	if n = min(max(n, 0), int64(all)); n > 0 {
		x.cfg.Log.Warn("the collector refused spans; the exporter drops them", "code", "traces_rejected", "spans", n, "err", bounded(why))
	}
	return n
}

// request returns the message of a call.
func (x *Exporter) request(spans []span) *exportRequest {
	var of []attribute
	set(&of, "service.name", "skein")
	set(&of, "service.version", x.cfg.Version)
	set(&of, "service.instance.id", x.cfg.Node)
	set(&of, "skein.cluster", x.cfg.Cluster)
	return &exportRequest{[]resourceSpans{{resource{of}, []scopeSpans{{scope{"skein.dev/skein", x.cfg.Version}, spans}}}}}
}

// encode returns the body of a call over HTTP.
func (x *Exporter) encode(spans []span) (out *bytes.Buffer, err error) {
	out = &bytes.Buffer{}
	zip := gzip.NewWriter(out)
	if x.cfg.Protocol == ProtocolProtobuf {
		_, err = zip.Write(x.request(spans).protobuf())
	} else {
		err = json.NewEncoder(zip).Encode(x.request(spans))
	}
	return out, errors.Join(err, zip.Close())
}

// headers adds the headers of a file. Its lines are NAME: VALUE. The file is read at each call, so that a new
// token is used without a restart.
func headers(file string, to http.Header) error {
	if file == "" {
		return nil
	}
	text, err := secretfile.Read(file)
	if err != nil {
		return fmt.Errorf("traces_headers_file: %w", err)
	}
	lines := 0
	for line := range strings.Lines(string(text)) {
		lines++
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok || name == "" || strings.ContainsAny(name, " \t\"") || lines > headersMax {
			return fmt.Errorf("%s: line %d is not NAME: VALUE, or there are more than %d lines", file, lines, headersMax)
		}
		to.Set(name, strings.TrimSpace(value))
	}
	return nil
}

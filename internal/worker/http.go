//go:build linux

package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"skein.dev/skein/internal/egress"
	"skein.dev/skein/sdk/shared/mask"
	"skein.dev/skein/sdk/shared/output"
)

// Bounds of requests.
const (
	requestTimeout = 30 * time.Second
	searchMax      = 1 << 20   // bytes of a body in which Contains is searched
	headersMax     = 256 << 10 // bytes of the headers of an answer
	excerptMax     = 4 << 10   // bytes of an unexpected body in the log
)

// send executes an attempt that is a request. Another goroutine sends the request and writes the log into a
// pipe, as a process would. So the attempt is watched, stopped and timed out like any other.
func (a *attempt) send() {
	if err := a.job.Key.check(); err != nil {
		a.result.Finished = time.Now()
		a.settle(Failed, CauseStart, err.Error())
		return
	}
	if a.want.Load() != 0 {
		a.result.Finished = time.Now()
		a.settleStop("before it began")
		return
	}
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		a.result.Finished = time.Now()
		a.settle(Failed, CauseStart, err.Error())
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	a.pipe, a.cancel, a.began = ends[0], cancel, time.Now()
	a.result.Started = a.began
	var got answer
	done := make(chan struct{})
	go func() {
		defer close(done)
		out := os.NewFile(uintptr(ends[1]), "log")
		defer out.Close() // closing the pipe ends the poll
		got = a.job.HTTP.do(ctx, a.job, a.masks, out)
	}()
	fds := [2]unix.PollFd{{Fd: int32(a.pipe), Events: unix.POLLIN}, {Fd: int32(a.slot.wake), Events: unix.POLLIN}}
	for a.pipe >= 0 {
		a.obey()
		a.tick(time.Now())
		n, err := unix.Poll(fds[:], a.patience())
		if err != nil {
			n = 0
		}
		if n > 0 && fds[0].Revents != 0 {
			a.pump(fds[0].Revents)
		}
		if n > 0 && fds[1].Revents != 0 {
			a.slot.slumber()
		}
	}
	<-done
	a.result.Finished = time.Now()
	a.judgeAnswer(&got)
	a.closeLog()
}

// judgeAnswer computes the result from an answer and from the worker's own actions.
func (a *attempt) judgeAnswer(got *answer) {
	r := &a.result
	r.TimedOut = a.timedOut && (a.job.WarnOnTimeout || a.cause == CauseTimeout)
	switch {
	case a.cause == CauseTimeout:
		a.settle(Failed, CauseTimeout, fmt.Sprintf("there was no answer within the timeout of %v", a.job.Timeout))
	case a.cause != "":
		a.settleStop("while it waited for an answer")
	case got.err != nil:
		a.settle(Failed, got.cause, got.err.Error())
	default:
		r.Outputs = got.outputs
		message := ""
		if a.timedOut {
			message = fmt.Sprintf("ran longer than its timeout of %v, which only warns", a.job.Timeout)
		}
		a.settle(Succeeded, "", message)
	}
}

// answer is the result of a request.
type answer struct {
	outputs json.RawMessage
	cause   string
	err     error // a sentence for people
}

// fault returns the answer of a failed request.
func fault(cause, format string, args ...any) answer {
	return answer{cause: cause, err: fmt.Errorf(format, args...)}
}

// do sends the request, at most once except for redirects. Its log has no header, no body and no query of
// the request, because these may be secret.
func (q *Request) do(ctx context.Context, job *Job, masks *mask.Set, log io.Writer) answer {
	limit := q.Timeout
	if limit <= 0 {
		limit = requestTimeout
	}
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	req, err := q.make(within, job)
	if err != nil {
		return fault(CauseStart, "the request cannot be made: %w", plainError(err))
	}
	rt, err := egress.Transport(q.Egress)
	if err != nil {
		return fault(CauseStart, "the request cannot be made: %w", err)
	}
	// Use a new connection. An idle connection may be dead, and then the request would be sent twice.
	rt.DisableKeepAlives, rt.MaxResponseHeaderBytes = true, headersMax
	client := &http.Client{Transport: rt, CheckRedirect: q.redirect}
	began := time.Now()
	fmt.Fprintf(log, "%s %s\n", req.Method, egress.PlainURL(req.URL))
	res, err := client.Do(req)
	var got answer
	if err == nil {
		got = q.read(res, masks, log, began)
		_ = res.Body.Close()
	} else {
		got = fault(CauseHTTP, "%s %s: %w", req.Method, egress.PlainURL(req.URL), plainError(err))
	}
	if refused, ok := egress.Refused(err); ok {
		got = fault(CauseEgress, "%s %s: %w", req.Method, egress.PlainURL(req.URL), refused)
	}
	if errors.Is(got.err, context.DeadlineExceeded) {
		got = fault(CauseTimeout, "%s %s: there was no answer within %v", req.Method, egress.PlainURL(req.URL), limit)
	}
	if got.err != nil {
		fmt.Fprintln(log, got.err)
	}
	return got
}

// make returns the request for package http.
func (q *Request) make(ctx context.Context, job *Job) (*http.Request, error) {
	var body io.Reader
	if len(q.Body) > 0 {
		body = bytes.NewReader(q.Body)
	}
	req, err := http.NewRequestWithContext(ctx, q.Method, q.URL, body)
	if err != nil {
		return nil, err
	}
	if req.URL.Scheme != "http" && req.URL.Scheme != "https" || req.URL.Host == "" {
		return nil, errors.New("the address must begin with http:// or https:// and a host")
	}
	env, _ := taskEnv(job, nil, "") // the same variables as for a process
	for _, kv := range env {
		if trace, ok := strings.CutPrefix(kv, "TRACEPARENT="); ok {
			req.Header.Set("Traceparent", trace)
		}
		if key, ok := strings.CutPrefix(kv, "SKEIN_IDEMPOTENCY_KEY="); ok && req.Method != http.MethodGet && req.Method != http.MethodHead {
			req.Header.Set("Idempotency-Key", key)
		}
	}
	req.Header.Set("User-Agent", "skein")
	for _, h := range q.Header {
		if strings.EqualFold(h[0], "Host") {
			req.Host = h[1]
			continue
		}
		req.Header.Set(h[0], h[1])
	}
	return req, nil
}

// redirect follows a few redirects, unless a redirect is the expected answer.
func (q *Request) redirect(req *http.Request, via []*http.Request) error {
	if slices.ContainsFunc(q.Status, func(s int) bool { return s >= 300 && s <= 399 }) {
		return http.ErrUseLastResponse
	}
	named := make([]string, len(q.Header))
	for i, h := range q.Header {
		named[i] = h[0]
	}
	return egress.Redirect(req, via, named)
}

// read reads an answer. It masks the part of the body for the log before it cuts that part, because a mask
// cannot find a part of a secret.
func (q *Request) read(res *http.Response, masks *mask.Set, log io.Writer, began time.Time) answer {
	sizeMax := searchMax
	if q.Answer != "" {
		sizeMax = outputsMaxDefault
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, int64(sizeMax)+1))
	if err != nil {
		return fault(CauseHTTP, "the answer broke off: %w", plainError(err))
	}
	fmt.Fprintf(log, "%s, %d bytes%s, %v\n", res.Status, len(body), map[bool]string{true: " or more"}[len(body) > sizeMax], time.Since(began).Round(time.Millisecond))
	expected := res.StatusCode >= 200 && res.StatusCode <= 299
	if len(q.Status) > 0 {
		expected = slices.Contains(q.Status, res.StatusCode)
	}
	switch {
	case !expected:
		if len(body) > 0 {
			shown := masks.Begin(body)
			fmt.Fprintf(log, "%s\n", bytes.ToValidUTF8(shown[:min(len(shown), excerptMax)], []byte("\uFFFD")))
		}
		return fault(CauseHTTP, "the answer is %s, %s was expected", res.Status, q.expects())
	case q.Contains != "" && !bytes.Contains(body, []byte(q.Contains)):
		return fault(CauseHTTP, "the answer does not contain the expected text in its first %d bytes: correct expect.body, or the server", sizeMax)
	case q.Answer != "" && len(body) > sizeMax:
		return fault(CauseOutput, "the answer is larger than %d bytes: fetch it with run, and keep it as an artifact", sizeMax)
	}
	return q.outputs(res, body)
}

func (q *Request) expects() string {
	if len(q.Status) == 0 {
		return "200 to 299"
	}
	words := make([]string, len(q.Status))
	for i, s := range q.Status {
		words[i] = strconv.Itoa(s)
	}
	return strings.Join(words, " or ")
}

// outputs returns the outputs of the task.
func (q *Request) outputs(res *http.Response, body []byte) answer {
	values := map[string]json.RawMessage{"status": json.RawMessage(strconv.Itoa(res.StatusCode))}
	var err error
	switch q.Answer {
	case AnswerText:
		if !utf8.Valid(body) || bytes.IndexByte(body, 0) >= 0 {
			return fault(CauseOutput, "the answer is not text: fetch it with run, and keep it as an artifact")
		}
		values["body"], err = output.Marshal(string(body))
	case AnswerJSON:
		if !json.Valid(body) || output.HoldsNUL(body) {
			return fault(CauseOutput, "the answer is not JSON")
		}
		values["body"] = body
	}
	if len(q.Keep) > 0 && err == nil {
		headers := make(map[string]string, len(q.Keep))
		for _, name := range q.Keep {
			if value := res.Header.Get(name); value != "" {
				headers[strings.ToLower(name)] = strings.ToValidUTF8(value, "\uFFFD")
			}
		}
		values["headers"], err = output.Marshal(headers)
	}
	if err != nil {
		return fault(CauseOutput, "the answer cannot be kept: %w", err)
	}
	raw, err := output.Marshal(values)
	if err != nil || len(raw) > outputsMaxDefault {
		return fault(CauseOutput, "the kept parts of the answer are larger than %d bytes: fetch it with run, and keep it as an artifact", outputsMaxDefault)
	}
	return answer{outputs: raw}
}

// plainError removes the address from errors of package http.
func plainError(err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}

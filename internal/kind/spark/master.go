package spark

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"skein.dev/skein/internal/egress"
	"skein.dev/skein/internal/kind"
)

// master calls the REST interface of a Spark master.
type master struct {
	http *http.Client
	url  string
}

// driver is a master's answer about an application.
type driver struct {
	Success      bool   `json:"success"`
	Message      string `json:"message"`
	SubmissionID string `json:"submissionId"`
	State        string `json:"driverState"`
	Worker       string `json:"workerHostPort"`
}

// ended reports whether the application has ended. A master that does not know the application answers
// NOT_FOUND, or gives no state.
func (d *driver) ended() bool {
	switch d.State {
	case "FINISHED", "KILLED", "FAILED", "ERROR":
		return true
	}
	return d.gone()
}

func (d *driver) gone() bool {
	return d.State == "" || d.State == "NOT_FOUND" || d.State == "UNKNOWN" && !d.Success
}

var (
	// errAway says that the master does not answer.
	errAway = errors.New("the master of Spark does not answer")
	// errUnsure says that the master may or may not have received a submission.
	errUnsure = errors.New("the master may or may not have the application: look at its web page before you try again")
)

// callMax bounds the time of a call, and answerMax the bytes of its answer.
const (
	callMax   = 30 * time.Second
	answerMax = 1 << 20
)

func newMaster(rules json.RawMessage, at string) (*master, error) {
	var r egress.Rules
	if len(rules) > 0 && json.Unmarshal(rules, &r) != nil {
		return nil, errors.New("the rules of egress cannot be read")
	}
	transport, err := egress.Transport(r)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(at)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("rest: %.100q is not a URL such as http://master:6066", at)
	}
	return &master{&http.Client{Transport: transport, Timeout: callMax}, u.Scheme + "://" + u.Host + "/v1/submissions/"}, nil
}

// call sends a request. body may be nil.
func (m *master) call(ctx context.Context, method, path string, body []byte) (d driver, err error) {
	req, err := http.NewRequestWithContext(ctx, method, m.url+path, bytes.NewReader(body))
	if err != nil {
		return d, err
	}
	req.Header.Set("Content-Type", "application/json;charset=UTF-8")
	resp, err := m.http.Do(req)
	if _, refused := egress.Refused(err); refused {
		return d, err
	}
	var op *net.OpError
	if err != nil && body != nil && !(errors.As(err, &op) && op.Op == "dial") {
		return d, fmt.Errorf("%w: %w", errUnsure, err)
	}
	if err != nil {
		return d, fmt.Errorf("%w: %w", errAway, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, answerMax))
	switch {
	case err != nil && body != nil:
		return d, fmt.Errorf("%w: %w", errUnsure, err)
	case err != nil || resp.StatusCode == http.StatusServiceUnavailable || body == nil && resp.StatusCode >= http.StatusInternalServerError:
		return d, fmt.Errorf("%w: status %d", errAway, resp.StatusCode)
	// Such an answer has no state, and would look like that of an unknown application.
	case body == nil && resp.StatusCode != http.StatusOK:
		return d, fmt.Errorf("the master refuses a query about the application: status %d: %.1000s", resp.StatusCode, text)
	case json.Unmarshal(text, &d) != nil:
		return d, fmt.Errorf("status %d: the answer is not that of a master of Spark: is the URL that of its REST interface?", resp.StatusCode)
	}
	return d, nil
}

// submit submits an application and returns its id.
func (m *master) submit(ctx context.Context, w *With, name string) (string, error) {
	properties := maps.Clone(w.Conf)
	if properties == nil {
		properties = map[string]string{}
	}
	properties["spark.app.name"] = name
	properties["spark.master"] = w.Master
	properties["spark.submit.deployMode"] = ModeCluster
	properties["spark.jars"] = strings.Join(append([]string{w.Main}, w.Jars...), ",")
	if len(w.Files) > 0 {
		properties["spark.files"] = strings.Join(w.Files, ",")
	}
	args := w.Args
	if args == nil {
		args = []string{}
	}
	body, err := json.Marshal(map[string]any{"action": "CreateSubmissionRequest", "clientSparkVersion": "skein", "appResource": w.Main, "mainClass": w.Class,
		"appArgs": args, "sparkProperties": properties, "environmentVariables": map[string]string{"SPARK_ENV_LOADED": "1"}})
	if err != nil {
		return "", err
	}
	d, err := m.call(ctx, http.MethodPost, "create", body)
	if err != nil {
		return "", err
	}
	if !d.Success || d.SubmissionID == "" {
		return "", fmt.Errorf("the master refuses the application: %.1000s", oneLine(d.Message))
	}
	return d.SubmissionID, nil
}

func (m *master) state(ctx context.Context, id string) (driver, error) {
	return m.call(ctx, http.MethodGet, "status/"+url.PathEscape(id), nil)
}

// end ends an application, and returns once the master reports that it has ended.
func (m *master) end(ctx context.Context, id string) error {
	for first := true; ; first = false {
		d, err := m.state(ctx, id)
		if err != nil || d.ended() {
			return err
		}
		if first {
			if _, err := m.call(ctx, http.MethodPost, "kill/"+url.PathEscape(id), nil); err != nil {
				return err
			}
		}
		if err := rest(ctx, askEvery); err != nil {
			return err
		}
	}
}

// askEvery is the interval between two queries about an application.
const askEvery = time.Second

func rest(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// watch waits for the end of an application. It keeps asking while the master is away.
func (m *master) watch(ctx context.Context, id string, log io.Writer) (driver, error) {
	said := ""
	for {
		d, err := m.state(ctx, id)
		now := d.State + " " + d.Worker
		switch {
		case ctx.Err() != nil:
			return d, ctx.Err()
		case errors.Is(err, errAway):
			now = fmt.Sprintf("not known: %v", err)
		case err != nil:
			return d, err
		}
		if now != said {
			fmt.Fprintf(log, "skein: the state of %s is %s\n", id, now)
			said = now
		}
		if err == nil && d.ended() {
			return d, nil
		}
		if err := rest(ctx, askEvery); err != nil {
			return d, err
		}
	}
}

// codeOf returns the exit code of an attempt that ends because a call to the master failed.
func codeOf(err error) int {
	if _, refused := egress.Refused(err); refused {
		return kind.Permanent
	}
	if errors.Is(err, errAway) {
		return kind.Away
	}
	return kind.Failed
}

// oneLine replaces each sequence of white space in a text with one blank.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// Package yarn calls the REST interface of a YARN ResourceManager. It is for kinds of tasks whose work is a
// YARN application.
//
// # One application
//
// An attempt gives its applications a tag, made from the task's key and the token of the attempt. So the
// applications of an attempt can be found without its help, even if it died before it knew their ids. The
// attempt after a lost one looks for them, and continues with them. The tag is also the handle of the
// attempt, so that everything of an attempt can be ended.
package yarn

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/user"
	"strconv"
	"strings"
	"time"

	"skein.dev/skein/internal/egress"
	"skein.dev/skein/internal/kind"
)

// tagPrefix begins the tags of tasks' applications.
const tagPrefix = "skein-"

// Tag returns the tag for the applications of an attempt.
func Tag(key string, token int64) string {
	sum := sha256.Sum256([]byte(key + "\n" + strconv.FormatInt(token, 10)))
	return tagPrefix + hex.EncodeToString(sum[:16])
}

// IsTag reports whether a handle is a tag.
func IsTag(handle string) bool { return strings.HasPrefix(handle, tagPrefix) }

// App is a YARN application.
type App struct {
	ID          string `json:"id"`
	State       string `json:"state"`
	FinalStatus string `json:"finalStatus"`
	TrackingURL string `json:"trackingUrl"`
	Diagnostics string `json:"diagnostics"`
}

// Ended reports whether the application has ended.
func (a *App) Ended() bool {
	return a.State == "FINISHED" || a.State == "FAILED" || a.State == "KILLED"
}

// Succeeded reports whether the application has ended successfully.
func (a *App) Succeeded() bool { return a.State == "FINISHED" && a.FinalStatus == "SUCCEEDED" }

// Killed reports whether the application was killed and therefore has no result.
func (a *App) Killed() bool { return a.State == "KILLED" || a.FinalStatus == "KILLED" }

// ErrAway says that no ResourceManager answers.
var ErrAway = errors.New("no ResourceManager of YARN answers")

// Client calls the active ResourceManager.
type Client struct {
	http *http.Client
	urls []string // URLs of the ResourceManagers; one of them is active
	user string
}

// callMax bounds the time of a call, and answerMax the bytes of its answer.
const (
	callMax   = 30 * time.Second
	answerMax = 8 << 20
)

// New returns a client for ResourceManagers such as http://rm:8088. One of them is active. rules are the
// egress rules, as in kind.Input.
func New(rules json.RawMessage, urls []string) (*Client, error) {
	if len(urls) == 0 {
		return nil, errors.New("the input needs resource_manager, such as http://rm:8088")
	}
	var r egress.Rules
	if len(rules) > 0 && json.Unmarshal(rules, &r) != nil {
		return nil, errors.New("the rules of egress cannot be read")
	}
	transport, err := egress.Transport(r)
	if err != nil {
		return nil, err
	}
	c := &Client{http: &http.Client{Transport: transport, Timeout: callMax}, user: os.Getenv("HADOOP_USER_NAME")}
	for _, text := range urls {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return nil, fmt.Errorf("resource_manager: %.100q is not a URL such as http://rm:8088", text)
		}
		c.urls = append(c.urls, strings.TrimRight(u.Scheme+"://"+u.Host+u.Path, "/"))
	}
	if c.user == "" {
		if me, err := user.Current(); err == nil {
			c.user = me.Username
		}
	}
	return c, nil
}

// refusedError says that YARN has refused a call.
type refusedError struct {
	status  int
	message string
}

func (e *refusedError) Error() string {
	if e.message == "" {
		return fmt.Sprintf("YARN answers with status %d", e.status)
	}
	return fmt.Sprintf("YARN answers with status %d: %s", e.status, e.message)
}

// Gone reports whether an error means that YARN does not know the application.
func Gone(err error) bool {
	var r *refusedError
	return errors.As(err, &r) && r.status == http.StatusNotFound
}

// CodeOf returns the exit code of an attempt that ends because a call to YARN failed.
func CodeOf(err error) int {
	if _, refused := egress.Refused(err); refused {
		return kind.Permanent
	}
	var r *refusedError
	switch {
	case errors.As(err, &r) && (r.status == http.StatusUnauthorized || r.status == http.StatusForbidden):
		return kind.Permanent
	case errors.Is(err, ErrAway):
		return kind.Away
	}
	return kind.Failed
}

// call sends a request to the ResourceManagers, one after the other, until one answers.
func (c *Client) call(ctx context.Context, method, path string, query url.Values, body []byte, into any) error {
	if query == nil {
		query = url.Values{}
	}
	if c.user != "" {
		query.Set("user.name", c.user)
	}
	var all []error
	for _, at := range c.urls {
		err := c.ask(ctx, method, at+"/ws/v1/cluster/"+path+"?"+query.Encode(), body, into)
		var r *refusedError
		if _, refused := egress.Refused(err); err == nil || refused || ctx.Err() != nil || errors.As(err, &r) && r.status < 500 {
			return err
		}
		all = append(all, err)
	}
	return fmt.Errorf("%w: %w", ErrAway, errors.Join(all...))
}

func (c *Client) ask(ctx context.Context, method, at string, body []byte, into any) error {
	req, err := http.NewRequestWithContext(ctx, method, at, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, answerMax+1))
	switch {
	case err != nil:
		return err
	case len(text) > answerMax:
		return fmt.Errorf("the answer has more than %d bytes", answerMax)
	case resp.StatusCode >= 300:
		var said struct {
			RemoteException struct {
				Message string `json:"message"`
			}
		}
		_ = json.Unmarshal(text, &said) // without a message, the error has only the status
		return &refusedError{resp.StatusCode, fmt.Sprintf("%.300s", said.RemoteException.Message)}
	case into == nil:
		return nil
	case json.Unmarshal(text, into) != nil:
		return errors.New("the answer is not that of a ResourceManager: is the URL that of its web interface?")
	}
	return nil
}

// Tagged returns the applications that have a tag.
func (c *Client) Tagged(ctx context.Context, tag string) ([]App, error) {
	var answer struct {
		Apps *struct {
			App []App `json:"app"`
		} `json:"apps"`
	}
	if err := c.call(ctx, http.MethodGet, "apps", url.Values{"applicationTags": {tag}}, nil, &answer); err != nil || answer.Apps == nil {
		return nil, err
	}
	return answer.Apps.App, nil
}

// App returns the application with an id.
func (c *Client) App(ctx context.Context, id string) (a App, err error) {
	var answer struct {
		App *App `json:"app"`
	}
	err = c.call(ctx, http.MethodGet, "apps/"+url.PathEscape(id), nil, nil, &answer)
	if err == nil && answer.App == nil {
		err = errors.New("the answer of YARN has no application")
	}
	if err != nil {
		return a, err
	}
	return *answer.App, nil
}

// kill makes YARN end an application. It does not wait for the end.
func (c *Client) kill(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodPut, "apps/"+url.PathEscape(id)+"/state", nil, []byte(`{"state":"KILLED"}`), nil)
}

// askEvery is the interval between two queries about an application.
const askEvery = time.Second

// EndAll ends the applications that have a tag, and returns once YARN reports that they have ended.
func (c *Client) EndAll(ctx context.Context, tag string) error {
	for {
		apps, err := c.Tagged(ctx, tag)
		if err != nil {
			return err
		}
		running := 0
		for i := range apps {
			if apps[i].Ended() {
				continue
			}
			running++
			if err := c.kill(ctx, apps[i].ID); err != nil && !Gone(err) {
				return fmt.Errorf("end %s: %w", apps[i].ID, err)
			}
		}
		if running == 0 {
			return nil
		}
		if err := rest(ctx, askEvery); err != nil {
			return err
		}
	}
}

func rest(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// Watch waits for the end of an application, and writes changes of its state to the log. It keeps asking
// while YARN is away. It returns an error if YARN does not know the application, or refuses to answer.
func (c *Client) Watch(ctx context.Context, id string, log io.Writer) (App, error) {
	last, away := App{}, false
	for {
		a, err := c.App(ctx, id)
		switch {
		case ctx.Err() != nil:
			return a, ctx.Err()
		case errors.Is(err, ErrAway):
			if !away {
				fmt.Fprintf(log, "skein: the state of %s is not known: %v\n", id, err)
			}
			away = true
		case err != nil:
			return a, err
		default:
			away = false
			if a.State != last.State {
				fmt.Fprintf(log, "skein: %s is %s %s\n", id, a.State, a.TrackingURL)
			}
			if last = a; a.Ended() {
				return a, nil
			}
		}
		if err := rest(ctx, askEvery); err != nil {
			return last, err
		}
	}
}

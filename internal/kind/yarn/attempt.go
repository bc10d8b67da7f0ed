package yarn

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"skein.dev/skein/internal/kind"
)

// Attempt is an attempt whose work is done by YARN applications.
type Attempt struct {
	*Client
	env *kind.Env
	tag string // tag of the attempt's own applications
}

// Begin returns the attempt that this process executes.
func Begin(env *kind.Env, urls []string) (*Attempt, error) {
	c, err := New(env.Input.Egress, urls)
	if err != nil {
		return nil, err
	}
	return &Attempt{c, env, Tag(env.Input.Key, env.Input.Token)}, nil
}

// Tag returns the tag that the attempt's applications must get.
func (a *Attempt) Tag() string { return a.tag }

// Find returns an application to continue with: one of a lost attempt, or one that an earlier process of this
// attempt began. It returns nil if there is none, and the attempt must then submit one. In both cases Find
// sets the handle of the attempt.
func (a *Attempt) Find(ctx context.Context) (*App, error) {
	for _, tag := range a.tags() {
		app, err := a.of(ctx, tag)
		if err != nil {
			return nil, err
		}
		if app == nil {
			continue
		}
		fmt.Fprintf(a.env.Stdout, "skein: going on with %s of an earlier process\n", app.ID)
		a.tag = tag
		return app, a.env.SetHandle(tag)
	}
	return nil, a.env.SetHandle(a.tag)
}

// tags returns the tags of the attempt and of the lost attempts before it, latest first.
func (a *Attempt) tags() []string {
	tags := []string{a.tag}
	for _, e := range a.env.Lost() {
		if e.Handle != nil && IsTag(*e.Handle) {
			tags = append(tags, *e.Handle)
		} else { // the attempt may have died before it set its handle
			tags = append(tags, Tag(a.env.Input.Key, e.Token))
		}
	}
	return tags
}

// of returns the application with a tag that has a result or will have one. A running application takes
// precedence over the last one that has ended.
func (a *Attempt) of(ctx context.Context, tag string) (last *App, err error) {
	apps, err := a.Tagged(ctx, tag)
	for i := range apps {
		switch app := &apps[i]; {
		case app.Killed():
		case !app.Ended():
			return app, err
		case last == nil || app.ID > last.ID:
			last = app
		}
	}
	return last, err
}

// appearsMax bounds the time after which YARN knows a submitted application.
const appearsMax = 30 * time.Second

// Submitted returns the application that the attempt has submitted, or nil if there is none. If waits is set,
// it waits for at most appearsMax until YARN knows the application.
func (a *Attempt) Submitted(ctx context.Context, waits bool) (*App, error) {
	for began := time.Now(); ; {
		app, err := a.of(ctx, a.tag)
		if app != nil || err != nil && !errors.Is(err, ErrAway) {
			return app, err
		}
		if err == nil && (!waits || time.Since(began) > appearsMax) {
			return nil, nil
		}
		if err := rest(ctx, askEvery); err != nil {
			return nil, err
		}
	}
}

// Finish waits for the end of an application, sets the outputs, and returns the exit code of the attempt.
func (a *Attempt) Finish(ctx context.Context, id string) int {
	app, err := a.Watch(ctx, id, a.env.Stdout)
	if ctx.Err() != nil {
		return a.Stop()
	}
	if err == nil {
		err = a.Outputs(&app)
	}
	switch {
	case err != nil:
		fmt.Fprintf(a.env.Stderr, "skein: %s: %v\n", id, err)
		return CodeOf(err)
	case !app.Succeeded():
		fmt.Fprintf(a.env.Stderr, "%s ended as %s with the status %s: %.2000s\n", app.ID, app.State, app.FinalStatus, oneLine(app.Diagnostics))
		return kind.Failed
	}
	return kind.Done
}

// Outputs sets the outputs of a task from its application.
func (a *Attempt) Outputs(app *App) error {
	return errors.Join(a.env.Set("application_id", app.ID), a.env.Set("tracking_url", app.TrackingURL), a.env.Set("final_status", app.FinalStatus))
}

// EndEarlier ends the applications of lost attempts, so that this attempt can begin again. It also sets the
// handle of this attempt.
func (a *Attempt) EndEarlier(ctx context.Context) error {
	for _, tag := range a.tags() {
		if err := a.EndAll(ctx, tag); err != nil {
			return err
		}
	}
	return a.env.SetHandle(a.tag)
}

// StopMax bounds how long an attempt that got TERM waits for the end of its applications. If that is too
// short, an errand ends them later.
const StopMax = 8 * time.Second

// Stop ends the applications of an attempt that got TERM, and returns its exit code.
func (a *Attempt) Stop() int {
	ctx, stop := context.WithTimeout(context.Background(), StopMax)
	defer stop()
	if err := a.EndAll(ctx, a.tag); err != nil {
		fmt.Fprintf(a.env.Stderr, "skein: the applications are not ended yet: %v\n", err)
	}
	return kind.Failed
}

// ReleaseMax bounds one try of an errand. Errands are repeated.
const ReleaseMax = 5 * time.Minute

// Release ends the applications that a handle names, and returns the exit code of the errand.
func Release(ctx context.Context, env *kind.Env, urls []string) int {
	ctx, stop := context.WithTimeout(ctx, ReleaseMax)
	defer stop()
	c, err := New(env.Input.Egress, urls)
	if err == nil {
		err = c.EndAll(ctx, env.Input.Handle)
	}
	if err != nil {
		fmt.Fprintf(env.Stderr, "skein: %v\n", err)
		return kind.Failed
	}
	return kind.Done
}

// oneLine returns a text on one line. The last line of a log becomes the message of the attempt, so that line
// must hold all of it.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

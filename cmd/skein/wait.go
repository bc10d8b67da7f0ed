package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

// waiter waits for the end of a run. The server may stop meanwhile and return on another port. If the server
// was found by the data folder and does not return, this process opens the data folder itself.
type waiter struct {
	c           *cli
	s           *session // nil if not connected
	hold        bool
	own         bool // Ctrl-C ends the run, and not only the waiting
	signals     chan os.Signal
	stopSignals func()
	screen      *screen
	view        *runView
	logs        *follower // nil if logs are not followed

	interrupts int
	met        bool      // a server has answered at least once
	alone      time.Time // the time since which the server does not answer; zero means it answers
	pause      time.Duration
	what       string // a sentence about the present state; "" if not known yet
	again      string // the command to type to see the run again
}

func (c *cli) newWaiter(follow bool) *waiter {
	w := &waiter{c: c, own: true, screen: newScreen(c)}
	w.signals, w.stopSignals = signals()
	w.view = newRunView(c)
	if follow {
		w.logs = newFollower(w.screen)
	}
	return w
}

// withServer calls f with a server. If no server answers, or the server is lost, it searches for one for some
// time.
func (w *waiter) withServer(ctx context.Context, f func(s *session) error) error {
	for {
		err := w.connect(ctx)
		if err == nil {
			err = f(w.s)
		}
		if err = w.late(ctx, err); err == nil || !notHere(err) {
			return err
		}
		// If a named server has never answered, its name is probably wrong, so waiting would not help. A
		// refusal counts as an answer.
		var refusal *skein.Error
		w.met = w.met || errors.As(err, &refusal)
		if !w.met && len(w.c.servers()) > 0 {
			return err
		}
		was := w.s
		w.disconnect()
		if was != nil && was.broken {
			return &errEnd{exitError} // another node on the same data folder would end with the same error
		}
		if w.alone.IsZero() {
			w.alone = time.Now()
			w.screen.print("%s", away(err))
		}
		if time.Since(w.alone) > contactWait {
			return err
		}
		select {
		case <-ctx.Done():
			return w.late(ctx, ctx.Err())
		case <-w.signals:
			return errInterrupted
		case <-time.After(w.breath(err)):
		}
	}
}

// away returns the reason why a server is tried again.
func away(err error) string {
	var e *skein.Error
	if errors.As(err, &e) {
		return notNow(e)
	}
	return "the server does not answer; looking for it …"
}

// notNow returns the message while the command waits for a server that cannot serve the request at the
// moment.
func notNow(e *skein.Error) string {
	return fmt.Sprintf("the server cannot do it now, trying again for up to %v: %s", contactWait, e.Problem.Detail)
}

// contact records that the server answers.
func (w *waiter) contact() { w.alone, w.met, w.pause = time.Time{}, true, 0 }

func (w *waiter) connect(ctx context.Context) (err error) {
	switch {
	case w.s != nil:
	case w.met && len(w.c.servers()) == 0 && !w.alone.IsZero() && time.Since(w.alone) < takeOverAfter:
		if w.s, err = w.c.holder(ctx); w.s == nil && err == nil {
			err = fmt.Errorf("%w: no server holds %s", skein.ErrUnreachable, w.c.cfg.Data)
		}
	default:
		w.s, err = w.c.forWriting(ctx, w.hold)
	}
	return err
}

func (w *waiter) disconnect() {
	if w.s != nil {
		w.s.close()
		w.s = nil
	}
}

// leave ends the waiting. A node in this process continues as long as runs of other processes need it.
func (w *waiter) leave(ctx context.Context) {
	w.screen.clear()
	if w.s == nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-w.signals:
			cancel()
		case <-ctx.Done():
		}
	}()
	w.c.linger(ctx, w.s)
}

// await waits for the end of a run and shows it. It returns the error that determines the exit code.
func (w *waiter) await(ctx context.Context, id string) error {
	w.what, w.again = "the run was accepted", "skein run watch "+id
	var run api.Run
	err := w.withServer(ctx, func(s *session) (err error) {
		run, err = w.watch(ctx, id)
		return err
	})
	if err == nil {
		w.logs.wait()
		w.screen.clear()
		w.what, w.again = "the run has "+run.State+", but the server does not tell the rest", "skein run get "+id
		err = w.late(ctx, w.c.conclude(ctx, w.s, &run))
	}
	if errors.Is(err, errTimedOut) && (w.s == nil || w.s.node != nil) {
		w.disconnect() // the caller does not ask to wait again
		return err
	}
	w.leave(ctx)
	if w.interrupts > 0 && err != nil {
		return errInterrupted
	}
	return err
}

const (
	// drawEvery is the shortest interval at which the server is asked for counts and the screen is drawn.
	drawEvery = 200 * time.Millisecond
	// drawAnyway is the interval at which the screen is drawn without an event, because it shows running
	// times.
	drawAnyway = time.Second
	// askShare bounds the time that a server spends on counting the tasks of a large run, to 1/askShare of
	// the elapsed time.
	askShare = 10
)

// watch follows a run until it ends.
func (w *waiter) watch(ctx context.Context, id string) (run api.Run, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changes, lost, err := w.subscribe(ctx, id)
	if err != nil {
		return run, err
	}
	if run, err = w.s.Run(ctx, id); err != nil {
		return run, err
	}
	w.contact()
	w.what = "the run is still " + run.State
	if err := w.catchUp(ctx, &run); err != nil {
		return run, err
	}
	tick := time.NewTicker(drawEvery)
	defer tick.Stop()
	asked, cost, news := time.Now(), time.Duration(0), false
	for !run.Ended() {
		now := false
		select {
		case ch := <-changes:
			now = w.take(ctx, id, ch)
			news = true
		case err := <-lost:
			return run, err
		case <-tick.C:
			since := time.Since(asked)
			now = since > askShare*cost && (news || since > drawAnyway)
		case <-w.signals:
			if err := w.interrupt(ctx, id); err != nil {
				return run, err
			}
		case <-ctx.Done():
			return run, ctx.Err()
		}
		if !now {
			continue
		}
		asked, news = time.Now(), false
		if run, err = w.s.Run(ctx, id); err != nil {
			return run, err
		}
		cost, w.what = time.Since(asked), "the run is still "+run.State
		w.screen.draw(w.view.lines(&run))
	}
	return run, nil
}

// subscribe delivers the changes of the run as they are committed. The last channel gets the error when the
// watch has ended.
func (w *waiter) subscribe(ctx context.Context, id string) (chan api.Change, chan error, error) {
	stream, err := w.s.Watch(ctx, skein.WatchQuery{Runs: []string{id}})
	if err != nil {
		return nil, nil, err
	}
	changes, lost := make(chan api.Change), make(chan error, 1)
	go func() {
		defer stream.Close()
		for ch, err := range stream.Changes() {
			if err != nil {
				lost <- err
				return
			}
			select {
			case changes <- ch:
			case <-ctx.Done():
				return
			}
		}
		lost <- fmt.Errorf("%w: the event stream ended", skein.ErrUnreachable)
	}()
	return changes, lost, nil
}

// catchUpMax bounds the past events of a run that are read. This many are enough for the screen.
const catchUpMax = 5000

// catchUp processes the events that came before the subscription.
func (w *waiter) catchUp(ctx context.Context, run *api.Run) error {
	// past holds the sentences about these events. For a task that has failed, failures holds the index of
	// the sentence that says so. That sentence is dropped if a later one is about the same task, or if an
	// operator has changed the result since.
	n, past, failures := 0, []string(nil), map[string]int{}
	for ev, err := range w.s.EachEvent(ctx, run.ID) {
		if err != nil {
			return err
		}
		if line := w.event(ctx, run.ID, &ev); line != "" {
			task := text(ev.Task)
			if i, failed := failures[task]; failed {
				past[i] = "" // a later event says the same again
			}
			if delete(failures, task); w.view.hasFailed(task) {
				failures[task] = len(past)
			}
			past = append(past, line)
		}
		if n++; n == catchUpMax {
			// Later events may have ended tasks that seem to be running here. The present state decides.
			clear(w.view.running)
			break
		}
	}
	for task, i := range failures {
		if !w.view.hasFailed(task) { // an operator has changed the result since
			past[i] = ""
		}
	}
	for _, line := range past {
		w.tell(line)
	}
	w.screen.draw(w.view.lines(run))
	return nil
}

// take processes a change. now reports whether the run itself has changed, so that the caller reads it at
// once.
func (w *waiter) take(ctx context.Context, id string, ch api.Change) (now bool) {
	if ch.Reset {
		return true
	}
	for i := range ch.Events {
		w.tell(w.event(ctx, id, &ch.Events[i]))
		now = now || ch.Events[i].Task == nil
	}
	return now
}

// tell prints a sentence if there is one, and if no screen shows it.
func (w *waiter) tell(line string) {
	if line != "" && !w.screen.moves {
		w.screen.print("%s", line)
	}
}

// event processes an event. It returns a sentence for the user, or "".
func (w *waiter) event(ctx context.Context, run string, ev *api.Event) string {
	w.view.message = func(task string, attempt int32) string { return w.message(ctx, run, task, attempt) }
	line := w.view.event(ev)
	if w.logs != nil && ev.Task != nil && ev.Attempt != nil && (ev.Kind == "assigned" || ev.Kind == "started") {
		w.logs.follow(ctx, w.s, logID{run, *ev.Task, int(*ev.Attempt)})
	}
	return line
}

// message returns the message about the end of an attempt, or "" if it cannot be read.
func (w *waiter) message(ctx context.Context, run, task string, attempt int32) string {
	t, err := w.s.Task(ctx, run, task)
	if err != nil {
		return ""
	}
	for i := range t.Attempts {
		if t.Attempts[i].Number == attempt {
			return text(t.Attempts[i].Message)
		}
	}
	return ""
}

// interrupt handles Ctrl-C. The first stops the run, the second kills it, and the third ends only this
// command.
func (w *waiter) interrupt(ctx context.Context, id string) error {
	w.interrupts++
	if !w.own || w.interrupts > 2 {
		return errInterrupted
	}
	verb, does := skeinStop, "stopping the run (what runs gets TERM); Ctrl-C again kills it"
	if w.interrupts == 2 {
		verb, does = skeinKill, "killing the run"
	}
	w.screen.print("%s", does)
	_, err := verb(ctx, w.s, id, "Ctrl-C")
	if errors.Is(err, skein.ErrConflict) {
		return nil // the run has ended meanwhile
	}
	return err
}

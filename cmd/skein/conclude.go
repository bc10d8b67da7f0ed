package main

import (
	"context"
	"fmt"

	api "skein.dev/skein/sdk/api/v1"
)

const (
	failedMax = 10 // the number of failed tasks that the end of the output names
	tailedMax = 3  // how many of these are shown with the end of their logs
	tailLines = 5
)

// conclude shows a run that has ended. It returns the error that determines the exit code.
func (c *cli) conclude(ctx context.Context, s *session, run *api.Run) error {
	if c.format != "table" && c.format != "name" || run.State == "failed" {
		if err := fillTasks(ctx, s, run); err != nil {
			return err
		}
	}
	if run.State == "failed" {
		c.explainFailure(ctx, s, run)
	}
	if err := one(c, run, run.ID, func() error { return c.runTable([]api.Run{*run}) }); err != nil {
		return err
	}
	return verdict(run)
}

// verdict turns a state into an exit code.
func verdict(run *api.Run) error {
	switch run.State {
	case "succeeded":
		return nil
	case "failed":
		return &errEnd{exitRunFailed}
	}
	return &errEnd{exitRunStopped}
}

// fillTasks reads all tasks of a run, page by page.
func fillTasks(ctx context.Context, s *session, run *api.Run) error {
	run.Tasks = []api.Task{}
	for t, err := range s.EachTask(ctx, run.ID) {
		if err != nil {
			return err
		}
		run.Tasks = append(run.Tasks, t)
	}
	return sayConditions(ctx, s, run.ID, run.Tasks)
}

// sayConditions adds to each task whose condition could not be evaluated the message from the history of the
// run.
func sayConditions(ctx context.Context, s *session, run string, tasks []api.Task) error {
	mute := map[string]*api.Task{}
	for i := range tasks {
		if t := &tasks[i]; t.State == "failed" && len(t.Attempts) == 0 && t.Message == nil {
			mute[t.Name] = t
		}
	}
	if len(mute) == 0 {
		return nil
	}
	n := 0
	for ev, err := range s.EachEvent(ctx, run) {
		if err != nil {
			return err
		}
		if t := mute[text(ev.Task)]; t != nil && ev.Kind == "ended" && ev.Reason != nil {
			t.Message = ev.Reason
		}
		if n++; n == catchUpMax {
			break
		}
	}
	return nil
}

// explainFailure prints which tasks failed and why, and the next command to type.
func (c *cli) explainFailure(ctx context.Context, s *session, run *api.Run) {
	if run.Message != nil && run.Counts["failed"] == 0 {
		c.say("run %s failed: %s", run.ID, *run.Message)
	}
	shown := 0
	for i := range run.Tasks {
		t := &run.Tasks[i]
		if t.State != "failed" {
			continue
		}
		if shown++; shown > failedMax {
			break
		}
		n := len(t.Attempts)
		c.say("✗ task %s failed: %s", t.Name, taskFailure(t))
		if shown <= tailedMax {
			for _, line := range tail(ctx, s, run.ID, t.Name, tailLines) {
				c.say("    │ %s", line)
			}
			if n > 0 && t.Attempts[n-1].StartedAt != nil && t.Attempts[n-1].Node != "" { // otherwise the attempt did not run and has no log
				c.say("    → skein logs %s/%s", run.ID, t.Name)
			}
		}
	}
	if more := run.Counts["failed"] - failedMax; more > 0 {
		c.say("… and %d more; all of them: skein task list %s --state failed", more, run.ID)
	}
	if n := run.Counts["upstream_failed"]; n > 0 {
		c.say("%s could not run because of that", count(n, "task"))
	}
}

// taskFailure returns the reason of a task's failure in a few words.
func taskFailure(t *api.Task) string {
	why := text(t.Cause)
	if m := text(t.Message); m != "" {
		why = m
	}
	if n := len(t.Attempts); n > 0 {
		a := &t.Attempts[n-1]
		switch {
		case a.Message != nil && *a.Message != "":
			why = *a.Message
		case a.ExitCode != nil:
			why = fmt.Sprintf("exit %d", *a.ExitCode)
		case a.Signal != nil:
			why = "ended by " + *a.Signal
		}
		if n > 1 {
			why += fmt.Sprintf(" (%d attempts)", n)
		}
	}
	return why
}

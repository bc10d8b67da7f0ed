package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	skein "skein.dev/skein/sdk"
)

// runRefHelp is part of every help text that takes RUN.
const runRefHelp = `RUN is an id or the beginning of one, NAME@latest for the newest run of a workflow, or NAME@-1 for the run before it.`

// refScanMax bounds the newest runs that are searched for an id with a given beginning.
const refScanMax = 10_000

// findRun finds the run that a person means.
func findRun(ctx context.Context, s *session, ref string) (string, error) {
	name, which, named := strings.Cut(ref, "@")
	switch {
	case isRunID(ref):
		return ref, nil
	case ref == "", name == "" && named: // the newest of all runs may belong to another user
		return "", usage("%q names no run: give an id, the beginning of an id, or NAME@latest", ref)
	case named:
		return newestOf(ctx, s, name, which)
	}
	id, err := byPrefix(ctx, s, ref)
	if id == "" && err == nil {
		return "", hint(&said{errNotFound, fmt.Sprintf("there is no run whose id begins with %q", ref)},
			"list runs: skein run list; the newest run of a workflow: "+ref+"@latest")
	}
	return id, err
}

func newestOf(ctx context.Context, s *session, workflow, which string) (string, error) {
	back, err := placesBack(workflow, which)
	if err != nil {
		return "", err
	}
	for run, err := range s.EachRun(ctx, skein.RunsQuery{Workflow: workflow, Limit: back + 1}) {
		if errors.Is(err, skein.ErrNotFound) {
			return "", hint(err, "list workflows: skein workflow list")
		}
		if err != nil {
			return "", err
		}
		if back--; back < 0 {
			return run.ID, nil
		}
	}
	return "", hint(&said{errNotFound, fmt.Sprintf("workflow %s has no run %s", workflow, which)},
		"list its runs: skein run list --workflow "+workflow)
}

// placesBack returns how many runs before the newest one the text after the @ refers to.
func placesBack(workflow, which string) (int, error) {
	if which == "latest" {
		return 0, nil
	}
	n, err := strconv.Atoi(which)
	if err != nil || n > 0 || n < -999 {
		return 0, usage("%s@%s: use latest after the @, or -1, -2, … for earlier runs", workflow, which)
	}
	return -n, nil
}

func byPrefix(ctx context.Context, s *session, prefix string) (string, error) {
	prefix = strings.ToLower(prefix)
	if strings.Trim(prefix, "0123456789abcdef-") != "" {
		return "", nil
	}
	found, seen := "", 0
	for run, err := range s.EachRun(ctx, skein.RunsQuery{Limit: 1000}) {
		if err != nil {
			return "", err
		}
		if strings.HasPrefix(run.ID, prefix) {
			if found != "" {
				return "", hint(&said{errConflict, fmt.Sprintf("several runs begin with %s: %s, %s, …", prefix, found, run.ID)}, "give more of the id")
			}
			found = run.ID
		}
		if seen++; seen == refScanMax {
			break
		}
	}
	return found, nil
}

// splitRef splits RUN[/TASK] into its parts. In NS/NAME@latest, the first slash is part of RUN.
func splitRef(ref string) (run, task string) {
	at := strings.IndexByte(ref, '@')
	if at < 0 {
		at = 0
	}
	if i := strings.IndexByte(ref[at:], '/'); i >= 0 {
		return ref[:at+i], ref[at+i+1:]
	}
	return ref, ""
}

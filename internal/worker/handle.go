//go:build linux

package worker

import (
	"bytes"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"skein.dev/skein/internal/dag"
)

// The variables of an attempt that may start work outside of its process. SKEIN_HANDLE names the file into
// which the attempt writes one line, the handle of that work. SKEIN_EARLIER names a file about the earlier
// attempts of the task. SKEIN_INPUT names a file with the input of an errand. The last two variables are only
// set if their file exists.
const (
	handleVar  = "SKEIN_HANDLE"
	earlierVar = "SKEIN_EARLIER"
	givenVar   = "SKEIN_INPUT"
)

// handleEvery is the interval at which the file of a handle is read until it contains a line.
const handleEvery = 200 * time.Millisecond

// handleOf is the state of the handle of an attempt. The zero value is that of an attempt that may have none.
type handleOf struct {
	path string    // file of the handle; "" if the attempt may have none, or its handle is known
	next time.Time // time of the next look at the file
}

// outsideFiles writes the files about work outside of the process, and returns their variables.
func (s *slot) outsideFiles(job *Job, stem string) (env []string, err error) {
	if job.Handle {
		env = append(env, handleVar+"="+s.folder+"/"+stem+".handle")
	}
	for _, f := range [...]struct {
		name, end string
		data      []byte
	}{{earlierVar, ".earlier.json", job.Earlier}, {givenVar, ".input.json", job.Input}} {
		if f.data == nil {
			continue
		}
		root, err := os.OpenRoot(s.folder)
		if err != nil {
			return nil, err
		}
		err = writeNew(root, stem+f.end, 0o600, f.data)
		_ = root.Close()
		if err != nil {
			return nil, err
		}
		env = append(env, f.name+"="+s.folder+"/"+stem+f.end)
	}
	return env, nil
}

// seeHandle reads whether the attempt has named its handle. The line must be complete, except at the end of
// the attempt. Lines after the first one have no effect.
func (a *attempt) seeHandle(now time.Time, ended bool) {
	h := &a.outside
	if h.path == "" || !ended && now.Before(h.next) {
		return
	}
	h.next = now.Add(handleEvery)
	data, err := readRegular(h.path, 2*dag.HandleMax)
	line, _, whole := bytes.Cut(data, []byte("\n"))
	if err == nil && !whole && !ended {
		return
	}
	text := strings.TrimSpace(string(line))
	if err == nil && text == "" && !whole {
		return // there is no file yet, or it is empty
	}
	path := h.path
	h.path = ""
	if why := badHandle(text); err != nil || why != "" || a.masks.String(text) != text {
		if err != nil {
			why = err.Error()
		}
		if why == "" {
			why = "it holds a secret"
		}
		a.w.cfg.Log.Warn("the handle of an attempt cannot be used, so the work that it names is not released", a.attrs("code", "handle_invalid", "file", path, "why", why)...)
		return
	}
	a.result.Handle, a.result.Adopts = text, a.job.Adopts
	if a.w.cfg.Started != nil && !ended {
		a.w.cfg.Started(a.job.Key, a.result.Started, text, a.result.Adopts)
	}
}

// badHandle returns the reason why a text cannot be a handle, or "".
func badHandle(text string) string {
	switch {
	case text == "":
		return "the line is empty"
	case len(text) > dag.HandleMax:
		return "it is longer than 4 KiB"
	case !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl):
		return "it is not UTF-8, or has control characters"
	}
	return ""
}

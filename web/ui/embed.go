// Package ui holds the web page as it was built, or a page that says how to build it.
package ui

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
)

// The placeholder is tracked, so the pattern always matches. The build empties only static/app.
//
//go:embed static
var static embed.FS

// sources is the stamp of the page's sources when the program was built. make build sets it; other builds do
// not.
var sources string

// State says how the page relates to the sources that the program was built with.
type State string

// The states of the page.
const (
	StateAbsent  State = "absent"  // the program has no page
	StateCurrent State = "current" // the page was built from these sources
	StateStale   State = "stale"   // the page was built from other sources
	StateUnknown State = "unknown" // the build did not record the sources
)

// Current returns the state of the page in this program. A stamp that cannot be read is an error.
func Current() (State, error) {
	built, err := Built()
	return stateOf(built, err, sources)
}

func stateOf(built Stamp, err error, now string) (State, error) {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return StateAbsent, nil
	case err != nil:
		return "", err
	case now == "":
		return StateUnknown, nil
	case now != built.Sources:
		return StateStale, nil
	}
	return StateCurrent, nil
}

// Stamp is what the build writes into static/app/build.json.
type Stamp struct {
	// Sources is the SHA-256 of the files that the page was built from, as tools/stamp.mjs computes it.
	Sources string `json:"sources"`
}

// Files returns the built page, or nil if this program was built without it.
func Files() fs.FS {
	if _, err := fs.Stat(static, "static/app/index.html"); err != nil {
		return nil
	}
	sub, err := fs.Sub(static, "static/app")
	if err != nil {
		return nil
	}
	return sub
}

// Placeholder returns the page that takes the place of one that is not built.
func Placeholder() ([]byte, error) {
	b, err := static.ReadFile("static/placeholder.html")
	if err != nil {
		return nil, fmt.Errorf("placeholder page: %w", err)
	}
	return b, nil
}

// Built returns the stamp of the built page. Without one it returns fs.ErrNotExist.
func Built() (Stamp, error) {
	var s Stamp
	b, err := static.ReadFile("static/app/build.json")
	if errors.Is(err, fs.ErrNotExist) {
		return s, fs.ErrNotExist
	}
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if err != nil {
		return s, fmt.Errorf("stamp of the page: %w", err)
	}
	return s, nil
}

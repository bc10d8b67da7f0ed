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

package main

import (
	"strings"

	udiff "github.com/rogpeppe/go-internal/diff"
)

// labelled is one side of a comparison: the name of a file, a description of this side, and its text.
type labelled struct{ name, what, text string }

// header is the line of a side above the hunks. The tab ends the file name for patch, even if the name has
// spaces.
func (l labelled) header() string { return l.name + "\t" + l.what }

// diff compares line by line: a patch in the unified form, as lines; nothing if the texts are the same.
func diff(from, to labelled) []string {
	patch := string(udiff.Diff(from.header(), []byte(from.text), to.header(), []byte(to.text)))
	_, patch, _ = strings.Cut(patch, "\n") // the first line would be a diff command, and no such command was run
	if patch == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(patch, "\n"), "\n")
}

package main

import (
	"strings"

	udiff "github.com/rogpeppe/go-internal/diff"
)

// labelled is one side of a comparison: the name of a file, a description, and the text.
type labelled struct{ name, what, text string }

// header returns the line of this side above the hunks. The tab marks the end of the file name for patch,
// even if the name has spaces.
func (l labelled) header() string { return l.name + "\t" + l.what }

// diff compares two texts line by line. It returns the lines of a patch in the unified form, or none if the
// texts are equal.
func diff(from, to labelled) []string {
	patch := string(udiff.Diff(from.header(), []byte(from.text), to.header(), []byte(to.text)))
	_, patch, _ = strings.Cut(patch, "\n") // the first line names a diff command, but no such command was run
	if patch == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(patch, "\n"), "\n")
}

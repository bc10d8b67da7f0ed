package workflow

import (
	"fmt"
	"sort"
	"strings"
)

// errorsMax bounds the errors that an invalid file can cause.
const errorsMax = 100

// Error is one mistake in a file, with its position and the remedy.
type Error struct {
	File    string `json:"file"`
	Line    int    `json:"line"`   // from 1; 1:1 means the whole file
	Column  int    `json:"column"` // from 1, in characters
	Key     string `json:"key"`    // dotted path: tasks.load.retry.max
	Message string `json:"message"`
	Hint    string `json:"hint"` // the remedy; may be empty
	Snippet string `json:"-"`    // the faulty line with a caret below the column
}

// Error is the one-line form: file:line:column: message.
func (e *Error) Error() string {
	where := e.File
	if where == "" {
		where = "workflow"
	}
	return fmt.Sprintf("%s:%d:%d: %s", where, e.Line, e.Column, e.Message)
}

// Text returns the error in full: the line of Error, the snippet and the hint.
func (e *Error) Text() string {
	text := e.Error() + "\n"
	if e.Snippet != "" {
		text += e.Snippet + "\n"
	}
	if e.Hint != "" {
		text += "  → " + e.Hint + "\n"
	}
	return text
}

// Errors is a list of faults, in the order of the file. An empty list is no error.
type Errors []Error

// Error returns every fault in full.
func (es Errors) Error() string {
	var b strings.Builder
	for i := range es {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(es[i].Text())
	}
	return b.String()
}

// Err returns es as an error, or nil if it is empty.
func (es Errors) Err() error {
	if len(es) == 0 {
		return nil
	}
	return es
}

func (es Errors) sorted() Errors {
	sort.SliceStable(es, func(i, j int) bool {
		if es[i].Line != es[j].Line {
			return es[i].Line < es[j].Line
		}
		return es[i].Column < es[j].Column
	})
	return es
}

package importer

import (
	"fmt"
	"strings"
)

// Bounds on names in a workflow file.
const (
	workflowNameMax = 63
	taskNameMax     = 100
)

// mapped keeps the allowed characters, and replaces each sequence of other characters with sep.
func mapped(text string, sep byte, allowed func(r rune) bool) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case allowed(r):
			b.WriteRune(r)
		case b.Len() > 0 && b.String()[b.Len()-1] != sep:
			b.WriteByte(sep)
		}
	}
	return b.String()
}

func lowerOrDigit(r rune) bool { return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' }

func asciiLetterOrDigit(r rune) bool { return lowerOrDigit(r) || r >= 'A' && r <= 'Z' }

// WorkflowName derives a valid name for a workflow from a text.
func WorkflowName(text string) string {
	name := mapped(strings.ToLower(text), '-', lowerOrDigit)
	name = strings.Trim(name[:min(len(name), workflowNameMax)], "-")
	if name == "" {
		return "workflow"
	}
	return name
}

// taskName derives a valid name for a task from a text.
func taskName(text string) string {
	name := mapped(text, '-', func(r rune) bool { return asciiLetterOrDigit(r) || r == '_' || r == '-' })
	name = strings.TrimRight(name[:min(len(name), taskNameMax)], "-")
	if name == "" {
		return "task"
	}
	return name
}

// KeyName derives a valid name for a parameter or an output from a text.
func KeyName(text string) string {
	name := mapped(text, '_', func(r rune) bool { return asciiLetterOrDigit(r) || r == '_' })
	if name == "" || name[0] >= '0' && name[0] <= '9' {
		name = "p" + name
	}
	return name[:min(len(name), taskNameMax)]
}

// free returns a name that is not taken yet, and marks it as taken. It adds a number to the name if it must.
func free(name string, most int, taken map[string]bool) string {
	chosen := name
	for n := 2; taken[chosen]; n++ {
		end := fmt.Sprintf("-%d", n)
		chosen = name[:min(len(name), most-len(end))] + end
	}
	taken[chosen] = true
	return chosen
}

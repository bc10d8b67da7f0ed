package importer

import (
	"fmt"
	"strings"
)

// Bounds of names in a workflow file.
const (
	workflowNameMax = 63
	taskNameMax     = 100
)

// mapped keeps the allowed characters, and replaces each run of other characters with sep.
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

// WorkflowName makes a name for a workflow.
func WorkflowName(text string) string {
	name := mapped(strings.ToLower(text), '-', lowerOrDigit)
	name = strings.Trim(name[:min(len(name), workflowNameMax)], "-")
	if name == "" {
		return "workflow"
	}
	return name
}

// taskName makes a name for a task.
func taskName(text string) string {
	name := mapped(text, '-', func(r rune) bool { return asciiLetterOrDigit(r) || r == '_' || r == '-' })
	name = strings.TrimRight(name[:min(len(name), taskNameMax)], "-")
	if name == "" {
		return "task"
	}
	return name
}

// KeyName makes a name for a parameter or an output.
func KeyName(text string) string {
	name := mapped(text, '_', func(r rune) bool { return asciiLetterOrDigit(r) || r == '_' })
	if name == "" || name[0] >= '0' && name[0] <= '9' {
		name = "p" + name
	}
	return name[:min(len(name), taskNameMax)]
}

// free returns a name that is not taken, and marks it as taken.
func free(name string, most int, taken map[string]bool) string {
	chosen := name
	for n := 2; taken[chosen]; n++ {
		end := fmt.Sprintf("-%d", n)
		chosen = name[:min(len(name), most-len(end))] + end
	}
	taken[chosen] = true
	return chosen
}

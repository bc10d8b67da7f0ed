//go:build linux

package worker

import (
	"strings"
	"testing"
)

func TestLastLine(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "",
		"a\nb\n":                  "b",
		"a\nb":                    "b",
		"a\n\n \n":                "a",
		"a\x00\x1b[1mb\xff\n":     "a  [1mb?",
		strings.Repeat("x", 5000): strings.Repeat("x", lineMax),
		"long " + strings.Repeat("y", 5000) + "\nend\n": "end",
	} {
		for _, step := range []int{1, 3, 6000} {
			l := &logFile{lines: &lastLine{}}
			for rest := text; rest != ""; {
				n := min(step, len(rest))
				l.lines.see([]byte(rest[:n]))
				rest = rest[n:]
			}
			if is := l.lastLine(); is != want {
				t.Errorf("%.30q in steps of %d: %.30q", text, step, is)
			}
		}
	}
	var none *lastLine
	none.see([]byte("x"))
	if is := (&logFile{}).lastLine(); is != "" {
		t.Error(is)
	}
}

package workflow

import (
	"fmt"
	"strings"
	"testing"
)

// TestAlertChannelsTogether: the rules of a workflow name a bounded number of channels, because one run may
// notify all of them in one transaction.
func TestAlertChannelsTogether(t *testing.T) {
	of := func(last string) string {
		src := "name: x\nalerts:\n"
		for i := range 3 {
			src += fmt.Sprintf("  - {name: n%d, on: failed, to: [a, b, c, d, e, f, g, h, i, j]}\n", i)
		}
		return src + "  - {on: failed, to: [" + last + "]}\ntasks: {a: {run: x}}\n"
	}
	if _, errs := Parse([]byte(of("a, b, c, d, e, f, g, h, i, j")), Options{File: "f.yaml"}); len(errs) > 0 {
		t.Errorf("40 channels: %v", errs)
	}
	src := strings.Replace(of("a, b, c, d, e, f, g, h, i, j"), "tasks:", "  - {on: missed, to: k}\ntasks:", 1)
	_, errs := Parse([]byte(src), Options{File: "f.yaml"})
	if len(errs) != 1 || !strings.Contains(errs.Error(), "the alerts of the workflow name 41 channels together, the limit is 40") {
		t.Errorf("41 channels: %v", errs)
	}
}

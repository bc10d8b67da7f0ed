package main

import (
	"bytes"
	"io"
	"strings"
	"testing"
)

// TestRunHelp: the help of skein run has its own flags first, and those of a node apart from them, each once.
func TestRunHelp(t *testing.T) {
	var b bytes.Buffer
	root := (&cli{out: &b, err: io.Discard}).root()
	root.SetArgs([]string{"run", "--help"})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	own, nodes, found := strings.Cut(b.String(), "Flags of the node that this process starts")
	if !found {
		t.Fatalf("the flags of a node are not apart:\n%s", b.String())
	}
	for _, flag := range []string{"--param ", "--follow ", "--version ", "--server "} {
		if !strings.Contains(own, flag) || strings.Contains(nodes, flag) {
			t.Errorf("%s is not with the own flags:\n%s", flag, b.String())
		}
	}
	for _, flag := range []string{"--slots ", "--listen ", "--tls-cert "} {
		if strings.Contains(own, flag) || !strings.Contains(nodes, flag) {
			t.Errorf("%s is not with the flags of a node:\n%s", flag, b.String())
		}
	}
	root.SetArgs([]string{"run", "list", "--help"})
	b.Reset()
	if err := root.Execute(); err != nil || strings.Contains(b.String(), "Flags of the node") {
		t.Errorf("a verb has the flags of a node, %v:\n%s", err, b.String())
	}
}

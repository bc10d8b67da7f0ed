package workflow

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// TestBad checks the errors of bad files, with their positions: testdata/bad.txt.
func TestBad(t *testing.T) {
	const file = "testdata/bad.txt"
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, section := range strings.Split("\n"+string(src), "\n== ")[1:] {
		name, rest, _ := strings.Cut(section, "\n")
		in, want, ok := strings.Cut(rest, "----\n")
		if !ok {
			in, want, _ = strings.Cut(rest, "----")
		}
		_, errs := Parse([]byte(in), Options{File: "f.yaml"})
		said := strings.TrimSuffix(errs.Error(), "\n")
		if len(errs) == 0 {
			t.Errorf("%s: accepted", name)
		}
		if strings.TrimSpace(want) != strings.TrimSpace(said) && !*rewrite {
			t.Errorf("%s:\n--- got\n%s\n--- want\n%s", name, said, want)
		}
		fmt.Fprintf(&got, "== %s\n%s----\n%s\n\n", name, in, said)
	}
	if *rewrite {
		if err := os.WriteFile(file, []byte(strings.TrimSuffix(got.String(), "\n")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

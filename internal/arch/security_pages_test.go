package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// namedTests returns a page of docs/internal, and checks that the tests that it names exist.
func namedTests(t *testing.T, page string) (text string, named int) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(repoRoot(t), "docs", "internal", page))
	if err != nil {
		t.Fatal(err)
	}
	tests := testNames(t)
	for _, name := range regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark)[A-Z]\w*`).FindAllString(string(b), -1) {
		if named++; !tests[name] {
			t.Errorf("%s: there is no test %s", page, name)
		}
	}
	for _, file := range regexp.MustCompile(`web/test/[a-z0-9/]+\.test\.ts`).FindAllString(string(b), -1) {
		if _, err := os.Stat(filepath.Join(repoRoot(t), file)); err != nil {
			t.Errorf("%s: there is no test %s", page, file)
		}
	}
	return string(b), named
}

// asvsRows are the requirements of levels 1 and 2 of ASVS 5.0.0 by chapter. Those of level 3 are not on the
// page, so the numbers of a section have gaps.
var asvsRows = [...]int{27, 11, 19, 10, 9, 35, 18, 7, 7, 29, 14, 9, 13, 9, 13, 16, 7}

// TestASVSPage checks that docs/internal/asvs.md has each requirement once, in order, with a state, and that
// a requirement is met by something: a test that exists, or a reason.
func TestASVSPage(t *testing.T) {
	text, _ := namedTests(t, "asvs.md")
	states := map[string]int{}
	var got [len(asvsRows)]int
	var last []int
	for _, line := range strings.Split(text, "\n") {
		cells := strings.Split(line, " | ")
		is := regexp.MustCompile(`^\| (\d+)\.(\d+)\.(\d+)$`).FindStringSubmatch(cells[0])
		if is == nil {
			continue
		}
		var id []int
		for _, n := range is[1:] {
			id = append(id, atoi(t, n))
		}
		if last != nil && slices.Compare(last, id) >= 0 {
			t.Errorf("%v stands after %v", id, last)
		}
		last = id
		got[id[0]-1]++
		if len(cells) != 5 || len(strings.Trim(cells[4], " |")) < 6 {
			t.Errorf("%v has no reason and no test: %q", id, line)
			continue
		}
		states[cells[3]]++
	}
	if got != asvsRows {
		t.Errorf("the chapters have %v requirements, want %v", got, asvsRows)
	}
	for state, n := range states {
		if !slices.Contains([]string{"met", "partly", "not met", "n/a"}, state) {
			t.Errorf("%d requirements are %q", n, state)
		} else if row := regexp.MustCompile(`(?m)^\| ` + state + ` \| (\d+) \|$`).FindStringSubmatch(text); row == nil || atoi(t, row[1]) != n {
			t.Errorf("%d requirements are %q, and the sum at the top differs: %q", n, state, row)
		}
	}
}

func atoi(t *testing.T, text string) (n int) {
	t.Helper()
	for _, c := range text {
		n = 10*n + int(c-'0')
	}
	return n
}

// TestThreatsPage checks that each attack, class and boundary of docs/internal/threats.md has a test that
// exists.
func TestThreatsPage(t *testing.T) {
	text, named := namedTests(t, "threats.md")
	if named < 100 {
		t.Errorf("the page names %d tests: it has another form by now", named)
	}
	for _, letter := range []struct {
		name string
		n    int
	}{{"H", 7}, {"M", 9}, {"L", 9}} {
		for i := range letter.n {
			attack := letter.name + string(rune('1'+i))
			row := regexp.MustCompile(`(?m)^\| ` + attack + ` [^|]*\| ([^|]*)\|`).FindStringSubmatch(text)
			if row == nil || !strings.Contains(row[1], "Test") {
				t.Errorf("the attack %s has no test", attack)
			}
		}
	}
	tables := 0
	for _, section := range strings.Split(text, "\n## ")[1:] {
		if !strings.Contains(section, "| tests |") {
			continue
		}
		tables++
		rows := strings.Split(section, "\n|---")
		for _, line := range strings.Split(rows[1], "\n")[1:] {
			if strings.HasPrefix(line, "|") && !regexp.MustCompile(`(Test|Fuzz)[A-Z]`).MatchString(line) {
				t.Errorf("no test is named: %.100s", line)
			}
		}
	}
	if tables != 3 {
		t.Errorf("%d tables name tests, want 3", tables)
	}
}

package logscan

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"skein.dev/skein/internal/logindex"
)

// randomLog returns a log with lines of all levels and lengths. Some lines cross the ends of blocks.
func randomLog(rnd *rand.Rand) string {
	var b strings.Builder
	for size := rnd.IntN(block + block/2); b.Len() < size; {
		switch rnd.IntN(12) {
		case 0:
			fmt.Fprintf(&b, "an Error of table%d\n", rnd.IntN(10))
		case 1:
			fmt.Fprintf(&b, "a warning about TABLE%d\r\n", rnd.IntN(10))
		case 2:
			b.WriteString(strings.Repeat("\n", rnd.IntN(9)))
		case 3:
			b.WriteString("error of table1 " + strings.Repeat("x", rnd.IntN(4*lineMax)) + "\n")
		case 4: // a word across the end of a block of the index
			b.WriteString(strings.Repeat("y", max(0, logindex.Block-b.Len()%logindex.Block-rnd.IntN(9))) + " fatal of table7\n")
		case 5: // a word across the end of a block of the search
			b.WriteString(strings.Repeat("y", max(0, block-b.Len()%block-rnd.IntN(9))) + " table3\n")
		default:
			for range rnd.IntN(300) {
				b.WriteString("all is well\n")
			}
		}
	}
	if rnd.IntN(2) == 0 {
		b.WriteString("the last error of table2 has no end")
	}
	return b.String()
}

// TestSearchByLines compares searches by level, expression and text with an examination of each line: with
// and without an index, in one piece, and interrupted and continued.
func TestSearchByLines(t *testing.T) {
	found := 0
	for seed := range uint64(16) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		text := randomLog(rnd)
		q := Query{Level: logindex.Level(rnd.IntN(3)), Case: rnd.IntN(2) == 0}
		expr := []string{"", "table[1-3]", "(table|x)\\d", "^a.*7$", "[0-9]", "^$", "l{2}$", "TABLE[0-9]+"}[rnd.IntN(8)]
		if expr == "" {
			q.Text = []byte("TABLE")
		} else {
			var err error
			if q.Pattern, err = NewPattern(expr, q.Case); err != nil {
				t.Fatal(err)
			}
		}
		want := ""
		full := expr
		if expr == "" {
			full = "TABLE"
		}
		if !q.Case {
			full = "(?i)" + full
		}
		re := regexp.MustCompile(full)
		at, n, line := 0, 0, int64(1)
		for l := range strings.Lines(text) {
			head := strings.TrimSuffix(l, "\n")
			if expr != "" || q.Level > 0 {
				head = head[:min(len(head), lineMax)]
			}
			if expr != "" {
				head = strings.TrimSuffix(head, "\r")
			}
			if m := re.FindStringIndex(head); m != nil && logindex.LevelOf([]byte(head)) >= q.Level {
				want += fmt.Sprintln(line, at, head[m[0]:min(m[1], m[0]+8)])
				n++
			}
			at, line = at+len(l), line+1
		}
		found += n
		var x logindex.Index
		x.Add([]byte(text), 0)
		got := ""
		s := Searching{Query: q, Progress: func(int64) error { return nil }, Hit: func(h *Hit) error {
			got += fmt.Sprintln(h.Line, h.Offset, string(h.Text[h.At:h.At+min(h.Length, 8)]))
			return nil
		}}
		if rnd.IntN(3) > 0 {
			s.Blocks = x.Entries()
		}
		step := rnd.IntN(2) == 0
		s.Enough = func(int64) bool { return step }
		for s.From < int64(len(text)) {
			done, err := s.Search(t.Context(), logOf(text), int64(len(text)))
			if err != nil {
				t.Fatal(err)
			}
			if done.Next <= s.From {
				t.Fatalf("seed %d: the search does not go on from %d", seed, s.From)
			}
			if !step && done.Lines != 0 && done.Lines != line-1 {
				t.Fatalf("seed %d: %d lines, want %d", seed, done.Lines, line-1)
			}
			s.From = done.Next
			s.Line = int64(bytes.Count([]byte(text[:s.From]), newline)) + 1
		}
		if got != want {
			t.Fatalf("seed %d, %q, level %d, case %v, index %v, step %v:\n%s\nwant\n%s", seed, full, q.Level, q.Case, s.Blocks != nil, step, got, want)
		}
	}
	if found < 50 {
		t.Fatalf("%d hits", found)
	}
}

// TestSearchReadsFewBlocks checks that a search for errors with an index reads only the blocks that have
// errors.
func TestSearchReadsFewBlocks(t *testing.T) {
	text := strings.Repeat("all is well\n", 1<<20) + "an error\n" + strings.Repeat("all is well\n", 1<<20)
	var x logindex.Index
	x.Add([]byte(text), 0)
	read, n := int64(0), 0
	s := Searching{Query: Query{Level: logindex.Error}, Blocks: x.Entries(), Progress: func(int64) error { return nil },
		Enough: func(n int64) bool { read = n; return false },
		Hit: func(h *Hit) error {
			if n++; h.Line != 1<<20+1 {
				t.Errorf("line %d", h.Line)
			}
			return nil
		}}
	if _, err := s.Search(t.Context(), logOf(text), int64(len(text))); err != nil || n != 1 || read > 2*(logindex.Block+lineMax) {
		t.Errorf("%d hits by reading %d bytes: %v", n, read, err)
	}
}

// TestPatterns checks which text is found that each match of an expression contains, and the errors about
// wrong expressions.
func TestPatterns(t *testing.T) {
	for expr, want := range map[string]string{"relation .* does not exist": " does not exist", "(ERROR)+ x": "error", "a|b": "", "(?:abc)?de": "de", "x{2,}yz": "yz", "straße": ""} {
		p, err := NewPattern(expr, false)
		if err != nil || strings.ToLower(string(p.need)) != want {
			t.Errorf("%s: %q, want %q (%v)", expr, p.need, want, err)
		}
	}
	if p, err := NewPattern("straße", true); err != nil || string(p.need) != "straße" {
		t.Errorf("%v", err)
	}
	for _, wrong := range []string{"a(b", "a)|(?:b"} {
		_, want := regexp.Compile(wrong)
		if _, err := NewPattern(wrong, false); err == nil || "error parsing regexp: "+strings.Replace(err.Error(), wrong, "`"+wrong+"`", 1) != want.Error() {
			t.Errorf("%s: %v, want %v", wrong, err, want)
		}
	}
	for _, large := range []string{"(" + strings.Repeat(".?", 110) + "){1000}", ".{1000}x"} {
		if _, err := NewPattern(large, false); !errors.Is(err, errTooLarge) {
			t.Errorf("%.20s: %v", large, err)
		}
	}
	if _, err := NewPattern(`^.{0,200}(\d{1,3}\.){3}\d+ \p{L}+ .*(\w+\s*){5,20}$`, false); err != nil {
		t.Error(err)
	}
}

// TestPatternEnds checks that a search by an expression can end within a block and continue there, because an
// expression can be slow.
func TestPatternEnds(t *testing.T) {
	text := strings.Repeat(strings.Repeat("a", 99)+"\n", block/100)
	p, err := NewPattern("(a|b)+$", true)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	s := Searching{Query: Query{Pattern: p}, Enough: func(int64) bool { return true },
		Hit: func(*Hit) error { n++; return nil }}
	done, err := s.Search(ctx, logOf(text), int64(len(text)))
	if err != nil || done.Next > 2*lineMax || done.Next != int64(n)*100 {
		t.Errorf("the search ends at %d after %d lines: %v", done.Next, n, err)
	}
	s.Enough, s.Hit = nil, func(*Hit) error {
		if n++; n == 1000 {
			cancel()
		}
		return nil
	}
	if _, err = s.Search(ctx, logOf(text), int64(len(text))); !errors.Is(err, context.Canceled) || n > 2000 {
		t.Errorf("%d lines after the caller has left: %v", n, err)
	}
}

func BenchmarkPattern(b *testing.B) {
	text := strings.Repeat("2026-11-24T02:58:01Z INFO  batch 8812 rows=1204 took 12 ms in the Warehouse\n", 1<<18)
	log := logOf(text)
	for _, expr := range []string{"relation .* missing", "rows=9[0-9]+", "[a-z]+:[0-9]"} {
		b.Run(expr, func(b *testing.B) {
			p, err := NewPattern(expr, false)
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				s := Searching{Query: Query{Pattern: p}, Progress: func(int64) error { return nil }, Hit: func(*Hit) error { return nil }}
				if _, err := s.Search(b.Context(), log, int64(len(text))); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

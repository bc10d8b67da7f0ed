package logscan

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"strings"
	"testing"
)

// memoryLog is a log in memory whose first bytes are not kept.
type memoryLog struct {
	*bytes.Reader
	first int64
}

func logOf(text string) *memoryLog { return &memoryLog{Reader: bytes.NewReader([]byte(text))} }

func (m *memoryLog) First(at int64) int64 { return max(at, m.first) }
func (m *memoryLog) ReadAt(p []byte, at int64) (int, error) {
	if at < m.first {
		return 0, fs.ErrNotExist
	}
	return m.Reader.ReadAt(p, at)
}

func hits(t *testing.T, r *memoryLog, text string, matters bool) (found []Hit, lines int64) {
	t.Helper()
	s := Searching{Query: Query{Text: []byte(text), Case: matters}, Progress: func(int64) error { return nil },
		Hit: func(h *Hit) error {
			one := *h
			one.Text = bytes.Clone(h.Text)
			found = append(found, one)
			return nil
		}}
	done, err := s.Search(t.Context(), r, r.Reader.Size())
	if err != nil || done.Next != r.Reader.Size() {
		t.Fatal(done, err)
	}
	return found, done.Lines
}

// TestSearch compares searches through random logs with a search that splits the whole text. Some lines end
// at or near the ends of blocks.
func TestSearch(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for round := range 4 {
		var b strings.Builder
		for b.Len() < 2*block+block/2 {
			switch rnd.IntN(40) {
			case 0:
				b.WriteString("an Error here\n")
			case 1:
				fmt.Fprintf(&b, "error, and error again %d\n", rnd.IntN(9))
			case 2:
				b.WriteString("\n")
			case 3: // up to a few bytes from the end of a block
				left := block - b.Len()%block
				b.WriteString(strings.Repeat("x", max(0, left-rnd.IntN(8))) + "eRRor after it\n")
			default:
				b.WriteString(strings.Repeat("y", rnd.IntN(20000)) + "\n")
			}
		}
		if round%2 == 0 {
			b.WriteString("the last error has no end")
		}
		text := b.String()
		for _, matters := range []bool{false, true} {
			found, lines := hits(t, logOf(text), "error", matters)
			at, offset, all := 0, int64(0), strings.SplitAfter(text, "\n")
			if all[len(all)-1] == "" {
				all = all[:len(all)-1]
			}
			if lines != int64(len(all)) {
				t.Fatalf("%d lines of %d", lines, len(all))
			}
			for i, line := range all {
				has := line
				if !matters {
					has = strings.ToLower(line)
				}
				if strings.Contains(has, "error") {
					if at == len(found) || found[at].Line != int64(i+1) || found[at].Offset != offset ||
						!strings.EqualFold(string(found[at].Text[found[at].At:][:5]), "error") {
						t.Fatalf("line %d at %d: hit %d is %+v", i+1, offset, at, found[min(at, len(found)-1)])
					}
					at++
				}
				offset += int64(len(line))
			}
			if at != len(found) {
				t.Fatalf("%d hits of %d", len(found), at)
			}
		}
	}
}

// TestSearchLongLine checks that a line of many blocks has one hit, also if the match crosses the end of a
// block.
func TestSearchLongLine(t *testing.T) {
	long := strings.Repeat("z", 3*block-3) + "needle" + strings.Repeat("z", 2*block) + "needle\nnext needle"
	found, lines := hits(t, logOf("a\n"+long), "NEEDLE", false)
	if len(found) != 2 || lines != 3 || found[0].Line != 2 || found[0].Offset != 2 || found[1].Line != 3 {
		t.Fatalf("%d lines, %+v", lines, found)
	}
	if h := found[0]; len(h.Text) > hitTextMax || string(h.Text[h.At:][:6]) != "needle" {
		t.Errorf("the text of the hit: %d bytes, at %d", len(h.Text), h.At)
	}
}

// TestSearchKept checks that if the beginning of a log is not kept, the rest is searched, and lines have no
// numbers.
func TestSearchKept(t *testing.T) {
	r := logOf("gone needle\nrest needle\n")
	r.first = 12
	found, lines := hits(t, r, "needle", true)
	if len(found) != 1 || found[0].Line != 0 || found[0].Offset != 12 || lines != 0 {
		t.Errorf("%d lines, %+v", lines, found)
	}
}

// TestSearchEnds checks that a search ends when Enough says so, and that it finds no missing text.
func TestSearchEnds(t *testing.T) {
	enough := errors.New("enough")
	s := Searching{Query: Query{Text: []byte("a")}, Hit: func(*Hit) error { return enough }}
	if _, err := s.Search(t.Context(), logOf("b\na\n"), 4); !errors.Is(err, enough) {
		t.Errorf("it went on: %v", err)
	}
	for text, want := range map[string]int64{"": 0, "\n": 1, "a": 1, "a\n": 1, "a\nb": 2, "\n\n": 2} {
		if _, lines := hits(t, logOf(text), "q", false); lines != want {
			t.Errorf("%q has %d lines, not %d", text, want, lines)
		}
	}
}

// TestFolded checks each byte at each place of a word. Only A to Z may change.
func TestFolded(t *testing.T) {
	all := make([]byte, 256+5)
	for i := range all {
		all[i] = byte(i)
	}
	for shift := range 8 {
		for i, b := range folded(bytes.Clone(all[shift:])) {
			want := all[shift+i]
			if 'A' <= want && want <= 'Z' {
				want += 'a' - 'A'
			}
			if b != want {
				t.Fatalf("%#x became %#x", all[shift+i], b)
			}
		}
	}
}

func BenchmarkSearch(b *testing.B) {
	text := strings.Repeat("2026-11-24T02:58:01Z INFO  batch 8812 rows=1204 took 12 ms in the Warehouse\n", 1<<20)
	log := logOf(text)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		s := Searching{Query: Query{Text: []byte("relation")}, Progress: func(int64) error { return nil }}
		if _, err := s.Search(b.Context(), log, int64(len(text))); err != nil {
			b.Fatal(err)
		}
	}
}

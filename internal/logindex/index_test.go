package logindex

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"testing"
)

// TestLevels compares the levels with those of the web page, whose test reads the same file.
func TestLevels(t *testing.T) {
	data, err := os.ReadFile("../../web/test/unit/levels.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases [][2]string
	if err := json.Unmarshal(data, &cases); err != nil || len(cases) < 20 {
		t.Fatal(len(cases), err)
	}
	names := map[string]Level{"": Plain, "warning": Warning, "error": Error}
	for _, c := range cases {
		if got := LevelOf([]byte(c[0])); got != names[c[1]] {
			t.Errorf("%q: level %d, want %q", c[0], got, c[1])
		}
	}
	late := strings.Repeat(" ", HeadMax-3) + "error"
	if LevelOf([]byte(late)) != Plain || LevelOf([]byte(late[1:][:HeadMax])) != Plain || LevelOf([]byte(late[2:])) != Error {
		t.Error("a word after the head of a line counts, or one in it does not")
	}
}

// random returns a log with lines of all levels and lengths, some of which go over the ends of blocks.
func random(rnd *rand.Rand, size int) []byte {
	var b bytes.Buffer
	for b.Len() < size {
		switch rnd.IntN(8) {
		case 0:
			fmt.Fprintf(&b, "%d an Error here\n", rnd.IntN(100))
		case 1:
			b.WriteString("a warning\n")
		case 2:
			b.WriteString(strings.Repeat("\n", rnd.IntN(9)))
		case 3:
			b.WriteString("error " + strings.Repeat("x", rnd.IntN(3*Block)) + "\n")
		case 4: // a word around the end of a block
			b.WriteString(strings.Repeat("y", max(0, Block-b.Len()%Block-rnd.IntN(9))) + " fatal\n")
		default:
			b.WriteString(strings.Repeat("erro fata ", rnd.IntN(400)) + "\n")
		}
	}
	if rnd.IntN(2) == 0 {
		b.WriteString("the last error has no end")
	}
	return b.Bytes()
}

// by makes the index of a log from its whole text.
func by(log []byte) (entries []Entry, t Totals) {
	entries = make([]Entry, (len(log)+Block-1)/Block)
	at := 0
	for line := range bytes.Lines(log) {
		l := LevelOf(bytes.TrimSuffix(line, newline))
		entries[at/Block].count(l)
		t.Lines++
		switch l {
		case Error:
			t.Errors++
		case Warning:
			t.Warnings++
		}
		if at += len(line); line[len(line)-1] == '\n' {
			entries[(at-1)/Block].Breaks++
		}
	}
	return entries, t
}

// TestIndex writes random logs in pieces of any size, cuts and damages the records, and continues from what
// is valid. The index is always that of the whole text.
func TestIndex(t *testing.T) {
	for seed := range uint64(30) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		log := random(rnd, rnd.IntN(12*Block))
		want, totals := by(log)
		var w Index
		var records []byte
		for rest := log; len(rest) > 0; {
			n := min(len(rest), 1+rnd.IntN([]int{40, 5000, 3 * Block}[rnd.IntN(3)]))
			w.Add(rest[:n], 0)
			if rest = rest[n:]; rnd.IntN(3) == 0 {
				first, r := w.Take()
				if int(first)*RecordSize != len(records) {
					t.Fatalf("seed %d: records of block %d after %d bytes of records", seed, first, len(records))
				}
				records = append(records, r...)
			}
		}
		_, r := w.Take()
		records = append(records, r...)
		switch rnd.IntN(3) {
		case 0:
			records = records[:rnd.IntN(len(records)+1)]
		case 1:
			if len(records) > 0 {
				records[rnd.IntN(len(records))] ^= 1 << rnd.IntN(8)
			}
		}
		x, err := Read(records, int64(len(log)), bytes.NewReader(log))
		if err != nil {
			t.Fatal(err)
		}
		for x.Size() < int64(len(log)) {
			if err := x.Extend(t.Context(), bytes.NewReader(log), x.Size()+min(int64(1+rnd.IntN(2*Block)), int64(len(log))-x.Size())); err != nil {
				t.Fatal(err)
			}
		}
		if got := x.Entries(); !reflect.DeepEqual(got, want) && len(want) > 0 || x.Totals() != totals {
			t.Fatalf("seed %d: %v, want %v\n%v\n%v", seed, x.Totals(), totals, got, want)
		}
		line := int64(1)
		for at, text := range lines(log) {
			from, breaks, ok := x.LineAt(line)
			for i := int64(0); ok && i < breaks; i++ {
				from += int64(bytes.IndexByte(log[from:], '\n')) + 1
			}
			if !ok || from != int64(at) {
				t.Fatalf("seed %d: line %d begins at %d (%v), want %d: %.20q", seed, line, from, ok, at, text)
			}
			line++
		}
		if _, _, ok := x.LineAt(line); ok {
			t.Fatalf("seed %d: there is a line %d", seed, line)
		}
	}
}

// lines returns the lines of a text by their offsets, without the order.
func lines(log []byte) func(func(int, []byte) bool) {
	return func(yield func(int, []byte) bool) {
		at := 0
		for line := range bytes.Lines(log) {
			if !yield(at, line) {
				return
			}
			at += len(line)
		}
	}
}

// TestTimes finds the last block that had begun at an instant.
func TestTimes(t *testing.T) {
	var x Index
	if _, ok := x.Since(5); ok {
		t.Error("an empty log has times")
	}
	for at := range int64(4) {
		x.Add(make([]byte, Block), 10+10*at)
	}
	for at, want := range map[int64]int64{5: 0, 10: 0, 19: 0, 20: Block, 39: 2 * Block, 1000: 3 * Block} {
		if got, ok := x.Since(at); !ok || got != want {
			t.Errorf("at %d: offset %d, want %d", at, got, want)
		}
	}
	y, err := Read(x.Records(), 10*Block, bytes.NewReader(make([]byte, 10*Block)))
	if err != nil || !reflect.DeepEqual(y.Entries(), x.Entries()[:y.Size()/Block]) || y.Size() < 3*Block {
		t.Errorf("%v of %v: %v", y.Entries(), x.Entries(), err)
	}
}

func BenchmarkAdd(b *testing.B) {
	for name, line := range map[string]string{
		"usual":  "2026-11-27T18:00:00Z INFO loaded 1000 rows of table customers in 12 ms, all is well\n",
		"errors": "2026-11-27T18:00:00Z ERROR loaded 1000 rows of table customers in 12 ms, not well\n",
	} {
		b.Run(name, func(b *testing.B) {
			p := bytes.Repeat([]byte(line), Block/len(line))
			b.SetBytes(int64(len(p)))
			var x Index
			for b.Loop() {
				x.Add(p, 1)
				x.Take()
			}
		})
	}
}

//go:build linux

package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
)

// sequences maps texts of other people to the text that remains. The comments name their effect on a
// terminal.
var sequences = map[string]string{
	"plain\ttext ✓\n":                          "plain\ttext ✓\n",
	"\x1b]52;c;ZXZpbA==\x07a":                  "a", // writes to the clipboard
	"\x1b]0;title\x1b\\a":                      "a",
	"\x1b]8;;http://evil\x1b\\a\x1b]8;;\x1b\\": "a",
	"\x1b[2J\x1b[Ha":                           "a",
	"\x1b[3Aa":                                 "a",
	"\x1b[6na":                                 "a", // asks for an answer
	"\x1b[?1049ha":                             "a",
	"\x1bca":                                   "a", // resets the terminal
	"\x1b(0a":                                  "a",
	"\x1bP+q544e\x1b\\a":                       "a",
	"\x1b_a\x1b\\b":                            "b",
	"\u009b2Ja\u009d52;c;x\u009cb\u0085":       "ab",
	"\u009b31ma":                               "a",
	"\x07\x08\x7f\x0b\x0c\x0e\x00a":            "a",
	"\x9b2Ja":                                  "\uFFFD2Ja", // the byte is not a character
	"one\rtwo\r\nthree":                        "one\ntwo\nthree",
	"\x1b[31mred\x1b[0m":                       "\x1b[31mred\x1b[0m",
	"\x1b[1;38;5;9mred\x1b[m":                  "red", // a colour, of logs only
	"\x1b[8mhidden":                            "hidden",
	"\x1b[3\x1b[31ma":                          "\x1b[31ma",
	"\x1b]52;c;never ended\nnext":              "\nnext",
	"\x1b\x1b]0;x\x07a":                        "a",
	"\x1b]0;\x1b[31ma":                         "\x1b[31ma",
	"\x1b[" + strings.Repeat("1;", 99) + "ma":  "a",
	"\x1b\na":                                  "\na",
}

// TestTerminal writes sequences text whole, and cut in two at every byte.
func TestTerminal(t *testing.T) {
	for text, want := range sequences {
		for at := range len(text) {
			var to bytes.Buffer
			w := &shown{to: &to, sgr: ownColours}
			for _, piece := range []string{text[:at], text[at:]} {
				if n, err := w.Write([]byte(piece)); n != len(piece) || err != nil {
					t.Fatal(n, err)
				}
			}
			if to.String() != want {
				t.Errorf("%q cut at %d: %q, want %q", text, at, to.String(), want)
			}
		}
	}
	var to bytes.Buffer
	w := &shown{to: &to, sgr: allColours}
	const log = "\x1b[1;38;5;9mred\x1b[m \x1b[4:3mx"
	if _, err := w.Write([]byte(log + "\x1b[2J")); err != nil || to.String() != log {
		t.Errorf("the colours of a log: %q, %v", to.String(), err)
	}
}

// onlyText is what may reach a terminal.
var onlyText = regexp.MustCompile(`^(?:[^\x00-\x08\x0b-\x1f\x7f\x{80}-\x{9f}]|\x1b\[[0-9;:]*m)*$`)

func FuzzTerminal(f *testing.F) {
	for text := range sequences {
		f.Add([]byte(text), 3)
	}
	f.Fuzz(func(t *testing.T, text []byte, at int) {
		var whole, pieces bytes.Buffer
		_, _ = (&shown{to: &whole, sgr: allColours}).Write(text)
		w := &shown{to: &pieces, sgr: allColours}
		at = min(max(at, 0), len(text))
		_, _ = w.Write(text[:at])
		_, _ = w.Write(text[at:])
		if !bytes.Equal(whole.Bytes(), pieces.Bytes()) || !onlyText.Match(whole.Bytes()) {
			t.Fatalf("%q is written as %q, in pieces as %q", text, whole.Bytes(), pieces.Bytes())
		}
	})
}

package mask

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// naive masks a whole text in the simplest way: it marks every byte of every form.
func naive(values []string, text []byte) []byte {
	in := make([]bool, len(text))
	for _, v := range values {
		seen := map[Form]bool{}
		for _, form := range Forms(v) {
			if seen[form] {
				continue
			}
			seen[form] = true
			for i := 0; len(form.Text) >= FormMin && i < len(text); i++ {
				for k := range slowly(form, text[i:]) {
					in[i+k] = true
				}
			}
		}
	}
	var out []byte
	for i, b := range text {
		switch {
		case !in[i]:
			out = append(out, b)
		case i == 0 || !in[i-1]:
			out = append(out, Mark...)
		}
	}
	return out
}

// slowly returns the length of a form at the beginning of a text. It tries each length.
func slowly(form Form, text []byte) int {
	for n := len(form.Text); n <= len(text) && text[0] == form.Text[0]; n++ {
		plain := string(text[:n])
		if plain == form.Text {
			return n
		}
		if form.Breaks == 0 || text[n-1] == '\n' || text[n-1] == '\r' || !strings.HasPrefix(plain, form.Text[:form.Breaks]) || long(plain) {
			break
		}
		if strings.NewReplacer("\r", "", "\n", "").Replace(plain) == form.Text {
			return n
		}
	}
	return 0
}

// long reports whether a text contains a sequence of line-end bytes that is longer than one line end.
func long(text string) bool {
	ends := strings.NewReplacer("\r", "\n").Replace(text)
	return strings.Contains(ends, "\n\n\n")
}

// stream masks a text in chunks. The seed decides where the chunks end.
func stream(s *Set, text []byte, seed uint64) (out []byte) {
	if s == nil {
		return text
	}
	w, r := s.NewWriter(), rand.New(rand.NewPCG(seed, 1))
	for len(text) > 0 {
		n := min(len(text), 1+r.IntN(9))
		out = append(out, w.Mask(text[:n])...)
		text = text[n:]
	}
	return append(out, w.End()...)
}

var seeds = []string{"hunter2", "it's a \"secret\" & more/+%", "line one is here\nshort\r\nline three too\n", "aaaaaaaaab", "aaaaaa", "üñïçødé-geheim", strings.Repeat("0123456789abcdef", 9)}

// shown returns the ways in which tasks print a value.
func shown(v string) []string {
	text, _ := json.Marshal(v)
	all := []string{v, hex.EncodeToString([]byte(v)), string(text), url.QueryEscape(v), url.PathEscape(v), "+ echo '" + strings.ReplaceAll(v, "'", `'\''`) + "'"}
	for _, more := range jsonEscapes {
		all = append(all, jsonEscaped(v, more, "%04X", true), strings.ReplaceAll(jsonEscaped(v, more, "%04x", false), "/", `\/`))
	}
	for _, before := range []string{"", "x", "xy", "user:"} {
		all = append(all, base64.StdEncoding.EncodeToString([]byte(before+v+"tail")), base64.URLEncoding.EncodeToString([]byte(before+v)))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func TestForms(t *testing.T) {
	for _, v := range seeds {
		s := NewSet([]string{v})
		for _, text := range shown(v) {
			got := s.String("before " + text + " behind")
			if !strings.HasPrefix(got, "before ") || !strings.HasSuffix(got, " behind") || !strings.Contains(got, Mark) {
				t.Errorf("%q was masked as %q", text, got)
			}
			for _, form := range Forms(v) {
				if len(form.Text) >= FormMin && strings.Contains(got, form.Text) {
					t.Errorf("%q still holds %q", got, form.Text)
				}
			}
		}
		for before := range 80 { // base64(1) of the value, with text before it and a line end after it
			text := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", before) + v + "\n"))
			// open is the number of bytes that do not depend on the value alone.
			open := len(text) - (8*(before+len(v))/6 - (8*before+5)/6)
			for _, end := range []string{"\n", "\r\n"} {
				wrapped := text
				for at := 76; at < len(wrapped); at += 76 + len(end) {
					wrapped = wrapped[:at] + end + wrapped[at:]
				}
				got := strings.NewReplacer("\r", "", "\n", "", Mark, "").Replace(s.String(wrapped))
				if len(got) > open+2 {
					t.Errorf("%d bytes before %q leave %q, %d characters more than they must", before, v, got, len(got)-open)
				}
			}
		}
	}
	if NewSet(nil) != nil || NewSet([]string{"short"}) != nil {
		t.Error("a set of nothing is not nil")
	}
}

// TestEscapes checks the escapes of Python, PHP, .NET and Gson.
func TestEscapes(t *testing.T) {
	s := NewSet([]string{"héllo/+wörld'=\U0001f600", "  within-space \n        \n"})
	for _, text := range []string{`h\u00e9llo/+w\u00f6rld'=\ud83d\ude00`, `h\u00e9llo\/+w\u00f6rld'=\ud83d\ude00`,
		`h\u00E9llo/\u002Bw\u00F6rld\u0027=\uD83D\uDE00`, "héllo/+wörld\\u0027\\u003d\U0001f600", "within-space"} {
		if got := s.String("a " + text + " b"); got != "a "+Mark+" b" {
			t.Errorf("%s was masked as %s", text, got)
		}
	}
	if got := s.String("          "); got != "          " {
		t.Errorf("a blank line is masked: %q", got)
	}
}

// TestOutputs checks that secrets are found in outputs after the decoding that readers of the outputs use.
func TestOutputs(t *testing.T) {
	s := NewSet([]string{"pässword/1"})
	for text, want := range map[string]bool{
		`{"a":"p\u00e4ssw\u006frd/1"}`: true, `{"a":{"p\u00E4ssword\/\u0031":1}}`: true, "b=1\na=[\"p\u00e4ssw\\u006frd/1\"]\n": true,
		`{"a":"{\"b\":\"p\\u00e4ssw\\u006frd/1\"}"}`: true, `["x", "p\u00e4ssw\u006frd/1", `: true, `{"a":"p\u00e4ssw\u006frd/2"}`: false,
		"a=b\nc": false, "": false, "a=pässword/1": true,
	} {
		if got := s.HoldsOutputs([]byte(text)); got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
	if s = nil; s.HoldsOutputs([]byte("x")) || s.HoldsJSON([]byte("x")) {
		t.Error("a nil set holds something")
	}
}

// TestEverySplit cuts a text with every form at every position.
func TestEverySplit(t *testing.T) {
	for _, v := range seeds[:6] {
		s := NewSet([]string{v, "another-one"})
		text := []byte(strings.Join(shown(v), " | "))
		want := naive([]string{v, "another-one"}, text)
		for cut := range text {
			w := s.NewWriter()
			got := append([]byte(nil), w.Mask(text[:cut])...)
			got = append(got, w.Mask(text[cut:])...)
			if got = append(got, w.End()...); !bytes.Equal(got, want) {
				t.Fatalf("cut at %d:\n%q\n%q", cut, got, want)
			}
		}
	}
}

// TestNoDelay checks that text that is not the beginning of a form is written at once.
func TestNoDelay(t *testing.T) {
	w := NewSet([]string{"zebra-zebra"}).NewWriter()
	if got := string(w.Mask([]byte("progress 10 %... z"))); got != "progress 10 %... " {
		t.Errorf("%q", got)
	}
	if got := string(w.Mask([]byte("oo"))); got != "zoo" {
		t.Errorf("%q", got)
	}
}

func FuzzMask(f *testing.F) {
	for i, v := range seeds {
		f.Add(v, seeds[(i+1)%len(seeds)], []byte(strings.Join(shown(v), v)), uint64(i))
		f.Add(v, v[:len(v)/2]+v, []byte(v[1:]+v+v[:len(v)-1]+v), uint64(i))
	}
	f.Add("ababababa", "bababab", []byte("ababababababab"), uint64(3))
	f.Add("aaaaaaaaab", "aaaaaa", []byte("aaaaaaaaaaaaaaaabaaaaa"), uint64(4))
	f.Fuzz(func(t *testing.T, a, b string, text []byte, seed uint64) {
		if len(a)+len(b) > 1<<10 || len(text) > 1<<12 {
			return
		}
		values := []string{a, b}
		got, want := stream(NewSet(values), text, seed), naive(values, text)
		if !bytes.Equal(got, want) {
			t.Errorf("secrets %q, text %q:\n%q\n%q", values, text, got, want)
		}
	})
}

func BenchmarkMask(b *testing.B) {
	text := bytes.Repeat([]byte("2026-11-25T17:00:00Z INFO rows copied table=orders rows=12345 took=12ms\n"), 900)
	values := make([]string, 10)
	for i := range values {
		values[i] = strings.Repeat(string(rune('a'+i))+"K7-x", 8)
	}
	w := NewSet(values).NewWriter()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		w.Mask(text)
	}
}

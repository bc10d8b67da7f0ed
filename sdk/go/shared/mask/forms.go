package mask

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Form is a way in which programs print a value.
type Form struct {
	Text   string
	Breaks int // if > 0, the form is base64, and line ends may follow after this number of bytes
}

const (
	// breakFrom is the least number of bytes of a form before a line end. So the end of a line is held back
	// only if it holds this number of bytes of a form, which is rare. If a line end comes earlier, the rest
	// of the form is still found, unless the rest is too short.
	breakFrom = 3
	// breakMax bounds the bytes of one line end.
	breakMax = 2
	// escapedMax is a size in bytes. A value of up to this size is masked however JSON escapes it. A larger
	// value is masked only if it is escaped in one of the two usual ways.
	escapedMax = 4 << 10
)

// match returns the length of the form at the beginning of a text. It returns 0 if the text does not begin
// with the form. It also reports whether the whole text is a prefix of the form.
func (f Form) match(text []byte) (n int, more bool) {
	if f.Breaks == 0 {
		if len(f.Text) <= len(text) {
			if string(text[:len(f.Text)]) == f.Text {
				n = len(f.Text)
			}
			return n, false
		}
		return 0, f.Text[:len(text)] == string(text)
	}
	for i := range len(f.Text) {
		if i >= f.Breaks {
			n += lineEnd(text[n:])
		}
		if n == len(text) {
			return 0, true
		}
		if text[n] != f.Text[i] {
			return 0, false
		}
		n++
	}
	return n, false
}

// lineEnd returns the number of bytes of a line end at the beginning of a text.
func lineEnd(text []byte) (n int) {
	for n < min(len(text), breakMax) && (text[n] == '\n' || text[n] == '\r') {
		n++
	}
	return n
}

// unbroken returns the first FormMin bytes of a text, without the line ends that a form can have there. n is
// the number of returned bytes. It is less than FormMin if the text is shorter. at is the position of the
// first line end, or 0 if these bytes have none.
func unbroken(text []byte) (key [FormMin]byte, n, at int) {
	if at = bytes.IndexAny(text[:min(len(text), FormMin)], "\r\n"); at < 1 {
		return key, 0, 0
	}
	for i := 0; n < FormMin; n++ {
		i += lineEnd(text[i:])
		if i == len(text) {
			break
		}
		key[n] = text[i]
		i++
	}
	return key, n, at
}

// base64Lines holds the line lengths of base64(1) and of PEM. Each line is a form by itself, because programs
// may indent lines.
var base64Lines = [...]int{76, 64}

// Forms returns a value and the forms in which programs print it. The forms are the lines of the value, value
// and lines without surrounding space, and all of these in base64 at each offset, in hex, percent-encoded,
// escaped as in JSON, and quoted as by a shell. Forms of fewer than FormMin bytes are not masked. A blank
// line is no form, because every text would contain it.
func Forms(value string) (all []Form) {
	parts := []string{value, strings.TrimSpace(value)}
	if strings.ContainsAny(value, "\r\n") {
		for line := range strings.Lines(value) {
			parts = append(parts, strings.Trim(line, "\r\n"), strings.TrimSpace(line))
		}
	}
	known := map[string]bool{}
	for _, part := range parts {
		if len(part) < FormMin || known[part] || strings.TrimSpace(part) == "" {
			continue
		}
		known[part] = true
		for _, text := range texts(part) {
			all = append(all, Form{Text: text})
		}
		for offset := range 3 {
			for _, enc := range [...]*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
				text := base64Form(enc, part, offset)
				if len(text) < FormMin+breakFrom {
					all = append(all, Form{text, 1})
					continue
				}
				for first := range breakFrom {
					all = append(all, Form{text[first:], breakFrom})
				}
			}
		}
		whole := base64Form(base64.RawStdEncoding, part, 0)
		for _, n := range base64Lines {
			for rest := whole; len(whole) > n && rest != ""; {
				line := rest[:min(n, len(rest))]
				all, rest = append(all, Form{Text: line}), rest[len(line):]
			}
		}
	}
	return all
}

// texts returns a value and the forms that contain the whole value.
func texts(value string) []string {
	all := []string{value, hex.EncodeToString([]byte(value)), strings.ToUpper(hex.EncodeToString([]byte(value)))}
	for _, escaped := range []string{url.QueryEscape(value), url.PathEscape(value), percent(value)} {
		all = append(all, escaped, lowerPercent(escaped))
	}
	all = append(all, jsonForm(value, true), jsonForm(value, false), strings.ReplaceAll(value, "'", `'\''`), shellWords(value))
	if len(value) > escapedMax {
		return all
	}
	for _, more := range jsonEscapes {
		for _, ascii := range [...]bool{false, true} {
			for _, digits := range [...]string{"%04x", "%04X"} {
				text := jsonEscaped(value, more, digits, ascii)
				all = append(all, text, strings.ReplaceAll(text, "/", `\/`))
			}
		}
	}
	return all
}

// jsonEscapes holds sets of characters that some programs escape as \uXXXX although JSON does not require it.
// The programs are Python, PHP, Go, Gson and .NET.
var jsonEscapes = [...]string{"", "<>&", "<>&='", "<>&'+\"`"}

// jsonEscaped returns a value as the inside of a JSON string. more are further characters to be escaped.
// ascii reports whether all characters outside of ASCII are escaped.
func jsonEscaped(value, more, digits string, ascii bool) string {
	var b strings.Builder
	for _, r := range value {
		short := strings.IndexRune("\"\\\n\r\t\b\f", r)
		switch {
		case strings.ContainsRune(more, r), short < 0 && r < ' ', ascii && r >= utf8.RuneSelf-1:
			for _, unit := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&b, `\u`+digits, unit)
			}
		case short >= 0:
			b.WriteByte('\\')
			b.WriteByte(`"\nrtbf`[short])
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// base64Form returns the part of an encoding that depends on the value alone, if offset bytes of a group of
// three precede the value.
func base64Form(enc *base64.Encoding, value string, offset int) string {
	text := enc.EncodeToString(append(make([]byte, offset), value...))
	return text[(8*offset+5)/6 : 8*(offset+len(value))/6]
}

// percent encodes all characters but letters, digits and -._~, as RFC 3986 requires.
func percent(value string) string {
	return strings.ReplaceAll(url.QueryEscape(value), "+", "%20")
}

// lowerPercent returns a percent-encoding with lower-case digits.
func lowerPercent(text string) string {
	out := []byte(text)
	for i := 0; i+2 < len(out); i++ {
		if out[i] == '%' {
			copy(out[i+1:i+3], bytes.ToLower(out[i+1:i+3]))
		}
	}
	return string(out)
}

// jsonForm returns a value as the inside of a JSON string.
func jsonForm(value string, html bool) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(html)
	_ = enc.Encode(value) // the encoding of a string never fails
	text := strings.TrimSuffix(b.String(), "\n")
	return text[1 : len(text)-1]
}

// shellWords returns a value as a shell escapes it with backslashes.
func shellWords(value string) string {
	var b strings.Builder
	for i := range len(value) {
		if strings.IndexByte(" \t\n\"'\\$`!&;|<>()*?[]#~={}", value[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(value[i])
	}
	return b.String()
}

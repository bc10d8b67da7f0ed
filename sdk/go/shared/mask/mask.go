// Package mask masks secrets in texts. It finds the values of the secrets, and the forms in which programs
// print them.
//
// A Set holds the secrets of one attempt. A Writer of the Set masks a stream of chunks. It holds back the end
// of a chunk only if that end is a prefix of a form, so a text without secrets is not delayed. Every byte
// that belongs to a form is masked, even if forms overlap. Each sequence of such bytes becomes one Mark.
//
// Programs break base64 into lines, at a column that depends on the text before the value. So base64 is also
// found across line ends.
package mask

import "fmt"

// Mark replaces each masked part.
const Mark = "***"

// FormMin is the least length of a form in bytes. Shorter forms are not masked, because they would be found
// in every text. Values have at least this length.
const FormMin = 6

// Set holds the forms of some secrets. It does not change, so several goroutines may use it.
type Set struct {
	forms  map[[FormMin]byte][]Form // by the first bytes of a form
	begins map[string]bool          // the first 1 to FormMin-1 bytes of each form
	// The first 1 to FormMin-1 bytes of each form with line ends → the least Breaks.
	broken map[string]int
	pairs  [1 << 16 / 64]uint64 // set of the first two bytes of all forms
}

// NewSet makes the Set of some values. If there are no values, it returns nil. A nil Set masks nothing.
func NewSet(values []string) *Set {
	s := &Set{forms: map[[FormMin]byte][]Form{}, begins: map[string]bool{}, broken: map[string]int{}}
	for _, value := range values {
		for _, form := range Forms(value) {
			s.add(form)
		}
	}
	if len(s.forms) == 0 {
		return nil
	}
	return s
}

func (s *Set) add(form Form) {
	text := form.Text
	if len(text) < FormMin {
		return
	}
	key := [FormMin]byte([]byte(text[:FormMin]))
	for _, known := range s.forms[key] {
		if known == form {
			return
		}
	}
	s.forms[key] = append(s.forms[key], form)
	for n := 1; n < FormMin; n++ {
		s.begins[text[:n]] = true
		if is := s.broken[text[:n]]; form.Breaks > 0 && (is == 0 || form.Breaks < is) {
			s.broken[text[:n]] = form.Breaks
		}
	}
	seconds := text[1:2]
	if form.Breaks == 1 {
		seconds += "\r\n"
	}
	for _, second := range []byte(seconds) {
		pair := uint(text[0])<<8 | uint(second)
		s.pairs[pair/64] |= 1 << (pair % 64)
	}
}

// String masks a whole text. A nil Set returns the text unchanged.
func (s *Set) String(text string) string {
	if s == nil {
		return text
	}
	w := Writer{set: s}
	return string(append(w.Mask([]byte(text)), w.End()...))
}

// Begin masks the beginning of a longer text. It leaves out an end that may belong to a form.
func (s *Set) Begin(text []byte) []byte {
	if s == nil {
		return text
	}
	return s.NewWriter().Mask(text)
}

// Holds reports whether a text contains a form.
func (s *Set) Holds(text []byte) bool {
	if s == nil {
		return false
	}
	for i := range text {
		if n, _ := s.match(text[i:]); n > 0 {
			return true
		}
	}
	return false
}

// match returns the length of the longest form at the beginning of a text. It also reports whether the whole
// text is a prefix of a longer form.
func (s *Set) match(text []byte) (longest int, more bool) {
	if len(text) > 1 {
		pair := uint(text[0])<<8 | uint(text[1])
		if s.pairs[pair/64]&(1<<(pair%64)) == 0 {
			return 0, false
		}
	}
	if len(text) < FormMin {
		more = s.begins[string(text)]
	} else {
		for _, form := range s.forms[[FormMin]byte(text)] {
			n, on := form.match(text)
			longest, more = max(longest, n), more || on
		}
	}
	key, n, at := unbroken(text)
	switch {
	case at == 0:
	case n < FormMin:
		least := s.broken[string(key[:n])]
		more = more || least > 0 && at >= least
	default:
		for _, form := range s.forms[key] {
			if n, on := form.match(text); form.Breaks > 0 {
				longest, more = max(longest, n), more || on
			}
		}
	}
	return longest, more
}

// Writer masks a stream. It holds back at most the longest form.
type Writer struct {
	set  *Set
	held []byte
	over int  // the number of bytes at the beginning of held that belong to a form
	run  bool // the previous byte was masked
}

// NewWriter returns a Writer. A nil Set has a nil Writer.
func (s *Set) NewWriter() *Writer {
	if s == nil {
		return nil
	}
	return &Writer{set: s}
}

// Mask takes a chunk, and returns the bytes that can be written by now. The result is valid until the next
// call.
func (w *Writer) Mask(chunk []byte) []byte { return w.pass(chunk, false) }

// End returns the part that was held back.
func (w *Writer) End() []byte { return w.pass(nil, true) }

func (w *Writer) pass(chunk []byte, end bool) []byte {
	text := chunk
	if len(w.held) > 0 {
		text = append(w.held, chunk...)
	}
	out := make([]byte, 0, len(text)+len(Mark))
	i, over := 0, w.over
	for ; i < len(text); i++ {
		n, more := w.set.match(text[i:])
		if more && !end {
			break
		}
		if n > 0 {
			over = max(over, i+n)
		}
		switch {
		case i >= over:
			out, w.run = append(out, text[i]), false
		case !w.run:
			out, w.run = append(out, Mark...), true
		}
	}
	w.held, w.over = append([]byte(nil), text[i:]...), max(0, over-i)
	return out
}

// Format keeps fmt from printing the forms.
func (s *Set) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(Mark)) }

package engine

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

const (
	// textMax bounds names that callers choose, in bytes.
	textMax = 4 << 10
	// messageMax bounds the message of a run or an attempt, in bytes.
	messageMax = 1 << 10
	// outputsMax bounds the outputs of a task that conditions read and a reload restores, in bytes.
	outputsMax = 64 << 10
)

// clean returns the text in a form that every store can hold: UTF-8 without NULs, of bounded length.
func clean(s string) string {
	if len(s) > messageMax {
		s = s[:messageMax]
		for len(s) > 0 && !utf8.RuneStart(s[len(s)-1]) { // do not cut a character in two
			s = s[:len(s)-1]
		}
		if r, n := utf8.DecodeLastRuneInString(s); r == utf8.RuneError && n == 1 {
			s = s[:len(s)-1]
		}
		s += "…"
	}
	if strings.IndexByte(s, 0) >= 0 {
		s = strings.ReplaceAll(s, "\x00", "\uFFFD")
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// cleanReason does the same for the reason of a ledger line. A long reason loses its codes.
func cleanReason(r store.Reason) store.Reason {
	if len(r) > messageMax {
		return store.Reason(clean(r.String()))
	}
	return store.Reason(clean(string(r)))
}

// cleanHandle returns a handle that every store can hold. It returns "" for an invalid handle, which is not
// expected because the worker has already checked it.
func cleanHandle(s string) string {
	if len(s) > dag.HandleMax || !utf8.ValidString(s) || strings.ContainsAny(s, "\x00\n") {
		return ""
	}
	return s
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return clean(s)
}

// checkTexts returns an error if a store may be unable to hold a text of a caller. The arguments are pairs of
// a name and a text.
func checkTexts(pairs ...string) error {
	for i := 0; i < len(pairs); i += 2 {
		what, s := pairs[i], pairs[i+1]
		switch {
		case len(s) > textMax:
			return fmt.Errorf("%w: the %s has %d bytes; it may have at most %d", errkind.ErrInvalid, what, len(s), textMax)
		case strings.IndexByte(s, 0) >= 0 || !utf8.ValidString(s):
			return fmt.Errorf("%w: the %s must be UTF-8 without NUL characters", errkind.ErrInvalid, what)
		}
	}
	return nil
}

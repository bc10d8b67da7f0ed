package access

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// nameMax bounds the name of a principal or a role, in bytes, before and after it is normalized.
const nameMax = 100

// Name normalizes the name of a principal or a role: NFKC, case-folded. It returns an error if text is not a
// valid name. A name that Name has returned stays the same if it is normalized again.
func Name(text string) (string, error) {
	if text == "" || len(text) > nameMax || !utf8.ValidString(text) {
		return "", fmt.Errorf("%.60q is not a name: a name has 1 to %d bytes of text", text, nameMax)
	}
	name := fold(text)
	if len(name) > nameMax || fold(name) != name {
		return "", fmt.Errorf("%.60q is not a name: its normal form in Unicode has more than %d bytes or is not final; choose a shorter name", text, nameMax)
	}
	for i, c := range name {
		if nameRune(c) && (i > 0 || unicode.IsLetter(c) || unicode.IsDigit(c)) {
			continue
		}
		return "", fmt.Errorf("%.60q is not a name: %q is not allowed there; names begin with a letter or a digit and have letters, "+
			"digits and -_.@+ only", text, c)
	}
	return name, nil
}

// fold applies NFKC and case folding, each twice, because either of the two can undo the other's normal form.
func fold(text string) string {
	for range 2 {
		text = norm.NFKC.String(cases.Fold().String(norm.NFKC.String(text)))
	}
	return text
}

// nameRune reports whether a character may be in a name. Characters without a visible form may not.
func nameRune(c rune) bool {
	if unicode.Is(unicode.Other_Default_Ignorable_Code_Point, c) || unicode.Is(unicode.Variation_Selector, c) {
		return false
	}
	return unicode.IsLetter(c) || unicode.IsMark(c) || unicode.IsDigit(c) || strings.ContainsRune("-_.@+", c)
}

// namespacePattern matches namespaces, as in workflow files.
var namespacePattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// CheckNamespace returns an error if a text is neither the name of a namespace nor Everywhere.
func CheckNamespace(ns string) error {
	if ns == Everywhere || namespacePattern.MatchString(ns) {
		return nil
	}
	return fmt.Errorf("%.70q names no namespace: use a name of a-z, 0-9 and -, at most 63 characters, or %s for all",
		ns, Everywhere)
}

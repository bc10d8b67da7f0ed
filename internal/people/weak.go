package people

import (
	"compress/gzip"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

//go:embed worst.txt.gz
var worstText string

// worst returns the most frequent passwords, sorted.
var worst = sync.OnceValue(func() []string {
	in, err := gzip.NewReader(strings.NewReader(worstText))
	if err == nil {
		var text []byte
		if text, err = io.ReadAll(in); err == nil {
			return strings.Fields(string(text))
		}
	}
	panic("people: the embedded list of frequent passwords is damaged: " + err.Error())
})

// The bounds of a password. The upper bound keeps the body of a request small.
const (
	charactersMin = 12
	bytesMax      = 1024
)

// ErrWeak is the error of a refused new password. Its text has the reason, and never the password.
var ErrWeak = errors.New("the password is refused")

// Check refuses a new password that attackers guess first: a short one, one of the most frequent ones, or one
// made of the name, a repetition or a sequence. It requires no particular characters.
func Check(name, password string) error {
	why := ""
	switch text := strings.ToLower(password); {
	case !utf8.ValidString(password) || len(password) > bytesMax:
		why = fmt.Sprintf("it is longer than %d bytes, or is not UTF-8", bytesMax)
	case utf8.RuneCountInString(password) < charactersMin:
		why = fmt.Sprintf("it has fewer than %d characters; a few words that do not belong together are long and easy to remember", charactersMin)
	case known(text):
		why = "it is one of the most frequent passwords, or one of them with digits or signs around it"
	case named(text, strings.ToLower(name)):
		why = "it is hardly more than the name"
	case repeats(text):
		why = "it repeats a few characters"
	case runs(text) <= runsMin:
		why = "it is a sequence of letters, digits or keys"
	default:
		return nil
	}
	return fmt.Errorf("%w: %s; choose another one", ErrWeak, why)
}

// leet replaces digits and signs by the letters that people write them for.
var leet = strings.NewReplacer("0", "o", "1", "l", "3", "e", "4", "a", "@", "a", "5", "s", "$", "s", "7", "t", "!", "i")

// known reports whether a text is a frequent password. It also reports true if other characters surround the
// letters of such a password.
func known(text string) bool {
	for _, one := range [...]string{text, letters(text), letters(leet.Replace(letters(text)))} {
		if _, found := slices.BinarySearch(worst(), one); found && one != "" {
			return true
		}
	}
	// In "passw0rd1234", the digits at the end are removed, but the 0 inside counts as a letter.
	tail := strings.TrimRightFunc(text, func(c rune) bool { return !unicode.IsLetter(c) })
	_, found := slices.BinarySearch(worst(), leet.Replace(tail))
	return found && tail != ""
}

// letters removes the characters at both ends of a text that are not letters.
func letters(text string) string {
	return strings.TrimFunc(text, func(c rune) bool { return !unicode.IsLetter(c) })
}

// namedRest is the number of characters that a password needs in addition to the name and the name of the
// program.
const namedRest = 6

// named reports whether a text consists almost only of a name.
func named(text, name string) bool {
	rest := text
	for _, word := range [...]string{name, "skein", "password"} {
		if len(word) > 2 {
			rest = strings.ReplaceAll(rest, word, "")
		}
	}
	return rest != text && utf8.RuneCountInString(rest) < namedRest
}

// repeats reports whether a text has few different characters, or repeats a short piece.
func repeats(text string) bool {
	const piece = 5
	all := []rune(text)
	for period := 1; period <= piece && period < len(all); period++ {
		if slices.Equal(all[period:], all[:len(all)-period]) {
			return true
		}
	}
	slices.Sort(all)
	return len(slices.Compact(all)) < piece
}

// runsMin is the number of sequences up to which a password is refused.
const runsMin = 3

var keyRows = [...]string{"qwertyuiop", "qwertzuiop", "azertyuiop", "asdfghjkl", "zxcvbnm", "yxcvbnm", "1234567890"}

// runs returns the number of sequences in a text. A character that does not continue a sequence begins a new
// one.
func runs(text string) int {
	n, last := 0, rune(-1)
	for _, c := range text {
		if last < 0 || !follows(last, c) {
			n++
		}
		last = c
	}
	return n
}

// follows reports whether two characters are equal or adjacent.
func follows(a, b rune) bool {
	if d := a - b; d >= -1 && d <= 1 {
		return true
	}
	for _, row := range keyRows {
		i, j := strings.IndexRune(row, a), strings.IndexRune(row, b)
		if i >= 0 && j >= 0 && (i-j == 1 || j-i == 1) {
			return true
		}
	}
	return false
}

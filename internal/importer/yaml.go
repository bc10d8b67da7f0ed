package importer

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// printable reports whether a character is visible, and YAML can hold it without an escape.
func printable(r rune) bool {
	return r == '\t' || unicode.IsPrint(r) && r != '\ufeff' && r != utf8.RuneError
}

// PrintableText reports whether a text of one line can be written without escapes.
func PrintableText(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return !printable(r) }) < 0
}

func PrintableLines(s string) bool { return PrintableText(strings.ReplaceAll(s, "\n", "")) }

// Scalar returns a text as YAML. It leaves out the quotes if the text stays unambiguous. It writes a block if
// the text has several lines, or if quotes would need escapes. Otherwise it uses quotes. indent is the
// indentation of further lines.
func Scalar(text string, indent int) string {
	switch {
	case plain(text):
		return text
	case !strings.Contains(text, "\n") && !strings.ContainsAny(text, "\t'") && PrintableText(text):
		return "'" + text + "'"
	case block(text):
		return "|-\n" + indented(text, indent)
	}
	return DoubleQuoted(text)
}

func indented(text string, indent int) string {
	pad := strings.Repeat(" ", indent)
	var b strings.Builder
	for i, line := range strings.Split(text, "\n") {
		if i > 0 {
			b.WriteByte('\n')
		}
		if line != "" {
			b.WriteString(pad + line)
		}
	}
	return b.String()
}

// plain reports whether a text needs no quotes. Its rules are stricter than those of YAML.
func plain(s string) bool {
	flag := len(s) > 1 && s[0] == '-' && isLetter(s[1])
	if s == "" || !(isLetter(s[0]) || s[0] == '/' || s[0] == '_' || flag) || s[len(s)-1] == ' ' || s[len(s)-1] == ':' {
		return false
	}
	switch strings.ToLower(s) {
	case "true", "false", "null", "yes", "no", "on", "off", "y", "n":
		return false
	}
	if strings.Contains(s, ": ") || strings.Contains(s, " #") {
		return false
	}
	return strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) < 0
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// block reports whether a text can be a literal block without an indentation indicator.
func block(s string) bool {
	if s == "" || strings.HasSuffix(s, "\n") || s[0] == ' ' || s[0] == '\t' || s[0] == '\n' || !PrintableLines(s) {
		return false
	}
	for line := range strings.SplitSeq(s, "\n") {
		if strings.TrimLeft(line, " \t") == "" && line != "" {
			return false
		}
	}
	return true
}

// DoubleQuoted returns a text in double quotes. Any text can be written like this.
func DoubleQuoted(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r != '\t' && printable(r):
			b.WriteRune(r)
		case r < 0x100:
			b.WriteString(`\x` + hex(r, 2))
		case r < 0x10000:
			b.WriteString(`\u` + hex(r, 4))
		default:
			b.WriteString(`\U` + hex(r, 8))
		}
	}
	b.WriteByte('"')
	return b.String()
}

func hex(r rune, digits int) string {
	s := strconv.FormatInt(int64(r), 16)
	return strings.Repeat("0", digits-len(s)) + s
}

// Word returns a name, and quotes it if YAML could read it as a number or a boolean.
func Word(s string) string {
	if plain(s) {
		return s
	}
	return `"` + s + `"`
}

// OneLine returns the text without invisible characters.
func OneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if !printable(r) || r == '\t' {
			return ' '
		}
		return r
	}, s)
}

// Literal escapes a text for a field in which ${{ }} is evaluated, so that the result of the evaluation is
// the text itself.
func Literal(text string) string { return strings.ReplaceAll(text, "${{", `${{ "${{" }}`) }

// Clip shortens a text to n characters.
func Clip(s string, n int) string {
	if len(s) <= n || utf8.RuneCountInString(s) <= n {
		return s
	}
	for i := range s {
		if n--; n == 0 {
			return s[:i] + "…"
		}
	}
	return s
}

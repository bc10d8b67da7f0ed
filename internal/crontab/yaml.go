package crontab

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// printable reports whether YAML may hold a character as it is, and a person sees it.
func printable(r rune) bool {
	return r == '\t' || unicode.IsPrint(r) && r != '\ufeff' && r != utf8.RuneError
}

// printableText reports whether a text of one line can be written as it is.
func printableText(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return !printable(r) }) < 0
}

func printableLines(s string) bool { return printableText(strings.ReplaceAll(s, "\n", "")) }

// scalar writes a text as YAML, at an indentation for its further lines: bare if that is
// unmistakable, as a block if it has lines or quotes that would have to be escaped, else in
// quotes.
func scalar(text string, indent int) string {
	switch {
	case plain(text):
		return text
	case !strings.Contains(text, "\n") && !strings.ContainsAny(text, "\t'") && printableText(text):
		return "'" + text + "'"
	case block(text):
		return "|-\n" + indented(text, indent)
	}
	return doubleQuoted(text)
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

// plain reports whether a text can stand without quotes. It is stricter than YAML.
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

// block reports whether a text can be a literal block without marks of its indentation.
func block(s string) bool {
	if s == "" || strings.HasSuffix(s, "\n") || space(s[0]) || s[0] == '\n' || !printableLines(s) {
		return false
	}
	for line := range strings.SplitSeq(s, "\n") {
		if strings.TrimLeft(line, " \t") == "" && line != "" {
			return false
		}
	}
	return true
}

// doubleQuoted can say every text.
func doubleQuoted(s string) string {
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

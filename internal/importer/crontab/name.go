package crontab

import (
	"fmt"
	"strings"

	"skein.dev/skein/internal/importer"
)

// nameOf returns a name for a workflow, derived from its command. It uses the program that does the work, and
// skips a test, a cd or a nice before that program.
func nameOf(command string, line int) string {
	text, _, _ := percent(command)
	if name := slug(worker(text, 0)); name != "" {
		return name
	}
	return fmt.Sprintf("cron-line-%d", line)
}

// depthMax bounds the nesting of the shells that are examined.
const depthMax = 5

// worker returns the words that describe the purpose of a command.
func worker(command string, depth int) string {
	if depth > depthMax {
		return ""
	}
	all, whole := segments(command)
	if !whole {
		all = []segment{{0, len(command), ""}}
	}
	first := ""
	for _, s := range all {
		text := strings.TrimSpace(command[s.from:s.to])
		name, setup := telling(text, depth)
		if first == "" {
			first = name
		}
		if name != "" && !setup && !isGuard(text) {
			return name
		}
	}
	return first
}

// telling returns the name that one command of a line suggests. setup is true if the command only prepares
// another one.
func telling(text string, depth int) (name string, setup bool) {
	inner := text
	switch {
	case strings.HasPrefix(text, "if "), strings.HasPrefix(text, "while "), strings.HasPrefix(text, "for "):
		for _, key := range []string{"then ", "do "} {
			if _, after, ok := strings.Cut(inner, key); ok {
				inner = after
				break
			}
		}
		inner = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSpace(inner), "fi"), "done")
	case strings.HasPrefix(text, "{"):
		inner = strings.TrimSuffix(text[1:], "}")
	case strings.HasPrefix(text, "("):
		inner = strings.TrimSuffix(text[1:], ")")
	}
	if inner != text {
		return worker(strings.TrimRight(strings.TrimSpace(inner), "; "), depth+1), false
	}
	words := shellWords(text)
	for {
		n := skipWrapper(words)
		if n == 0 {
			break
		}
		words = words[n:]
	}
	if len(words) == 0 {
		return "", true
	}
	return program(words, depth)
}

// shellWords splits a command at blanks, up to the first redirection or pipe. Quotes keep words together
// and are removed.
func shellWords(text string) []string {
	var words []string
	var word strings.Builder
	var open byte
	begun := false
	end := func() {
		if begun {
			words = append(words, word.String())
		}
		word.Reset()
		begun = false
	}
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '\\' && open != '\'' && i+1 < len(text):
			i++
			word.WriteByte(text[i])
			begun = true
		case open != 0 && c == open:
			open = 0
		case open == 0 && (c == '\'' || c == '"'):
			open, begun = c, true
		case open == 0 && space(c):
			end()
		case open == 0 && (c == '|' || c == '<' || c == '>'):
			if w := word.String(); begun && len(w) == 1 && w[0] >= '0' && w[0] <= '9' {
				begun = false // 2> is not a word
			}
			end()
			return words
		default:
			word.WriteByte(c)
			begun = true
		}
	}
	end()
	return words
}

// skipWrapper returns the number of leading words that only say how to run the program, such as nice -n 10.
func skipWrapper(words []string) int {
	if len(words) < 2 {
		return 0
	}
	if isAssignment(words[0]) {
		return 1
	}
	if base(words[0]) == "bundle" && words[1] == "exec" {
		return 2
	}
	flags := "" // the flags that take an argument
	operands := 0
	switch base(words[0]) {
	case "exec", "time", "nohup", "setsid", "chronic", "eval", "command", "env", "builtin", "!":
	case "nice":
		flags = "n"
	case "ionice":
		flags = "cn"
	case "sudo", "doas":
		flags = "ugC"
	case "flock":
		flags, operands = "wE", 1
	case "timeout":
		flags, operands = "ks", 1
	case "stdbuf":
		flags = "ioe"
	case "systemd-cat", "cronic", "logger":
		flags = "tp"
	default:
		return 0
	}
	n := 1
	for n < len(words) && strings.HasPrefix(words[n], "-") && len(words[n]) > 1 {
		if w := words[n]; len(w) == 2 && strings.IndexByte(flags, w[1]) >= 0 {
			n++
		}
		n++
	}
	if n += operands; n >= len(words) {
		return 0
	}
	return n
}

// program returns a name for the program that the first word runs.
func program(words []string, depth int) (name string, setup bool) {
	name, rest := base(words[0]), words[1:]
	switch name {
	case "cd", "sleep", "export", ".", "source", "umask", "set", "ulimit", "true", ":", "echo", "date", "unset":
		setup = true
	case "run-parts":
		if len(rest) > 0 {
			return name + " " + base(rest[len(rest)-1]), false
		}
		return name, false
	case "su", "runuser":
		for i, w := range rest {
			if w == "-c" && i+1 < len(rest) {
				return worker(rest[i+1], depth+1), false
			}
		}
		return name, false
	}
	if isInterpreter(name) {
		return interpreted(name, rest, depth)
	}
	return name + subcommand(rest), setup
}

func isInterpreter(name string) bool {
	for _, p := range []string{"sh", "bash", "dash", "zsh", "ksh", "perl", "ruby", "php", "node", "java", "Rscript"} {
		if name == p {
			return true
		}
	}
	return strings.HasPrefix(name, "python") || strings.HasPrefix(name, "php") && len(name) < 8
}

// interpreted returns the name of the script that an interpreter runs.
func interpreted(name string, words []string, depth int) (string, bool) {
	for i, w := range words {
		next := ""
		if i+1 < len(words) {
			next = words[i+1]
		}
		switch {
		case w == "-c" && isPosix(name) && next != "":
			return worker(next, depth+1), false
		case w == "-m" && next != "" || w == "-jar" && next != "":
			return base(next), false
		case w == "-c" || w == "-e" || w == "-r":
			return name, true // code on the command line suggests no name
		case !strings.HasPrefix(w, "-"):
			return base(w) + subcommand(words[i+1:]), false
		}
	}
	return name, false
}

// subcommand returns the first argument if it is a subcommand, such as renew or schedule:run.
func subcommand(words []string) string {
	for _, w := range words {
		if strings.HasPrefix(w, "-") {
			continue
		}
		if len(w) < 2 || len(w) > 24 || w[0] < 'a' || w[0] > 'z' {
			return ""
		}
		for _, r := range w {
			if !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == ':') {
				return ""
			}
		}
		return " " + w
	}
	return ""
}

// base returns the last part of a path, without the extension of a script.
func base(path string) string {
	path = strings.TrimRight(path, "/")
	name := path[strings.LastIndexByte(path, '/')+1:]
	for _, ending := range []string{".sh", ".bash", ".py", ".pl", ".rb", ".php", ".js", ".jar", ".cron"} {
		if short, ok := strings.CutSuffix(name, ending); ok && short != "" {
			return short
		}
	}
	return name
}

// slugMax bounds the length of a slug. It leaves room for a number after the name.
const slugMax = 50

// slug makes a valid name from words. It returns "" if no character remains.
func slug(text string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(text) {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
		if b.Len() >= slugMax {
			break
		}
	}
	name := strings.Trim(b.String(), "-")
	// A workflow cannot have the name of a verb of "skein run".
	if contains(strings.Fields("list ls get watch stop kill pause resume recover rerun events open help"), name) {
		return "cron-" + name
	}
	return name
}

// unique returns a name that no workflow of this file has.
func (c *converter) unique(name string) string {
	n, taken := c.names[name]
	if !taken {
		return name
	}
	for ; ; n++ {
		if numbered := fmt.Sprintf("%s-%d", name, n); c.names[numbered] == 0 {
			c.names[name] = n + 1
			return numbered
		}
	}
}

// prose returns the comment above an entry if it is a short text for people. It returns "" for drawings and
// for entries that are commented out.
func prose(comment []string) string {
	const most = 400
	var kept []string
	for _, text := range comment {
		letters := strings.IndexFunc(text, func(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r > 127 }) >= 0
		if text == "" || !letters || strings.ContainsAny(text[:1], "*|.0123456789@") || strings.Contains(text, "---") {
			kept = nil
			continue
		}
		kept = append(kept, text)
	}
	text := strings.Join(kept, "\n")
	if len(text) > most || !importer.PrintableLines(text) {
		return ""
	}
	return text
}

package crontab

import (
	"strings"

	"skein.dev/skein/internal/importer"
)

// percent splits the text of a line into the command and its standard input as cron does. The first % without
// a backslash before it ends the command, each later one is a line end, and \% is a %. All other backslashes
// stay.
func percent(text string) (command, input string, has bool) {
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\\' && i+1 < len(text):
			i++
			if text[i] != '%' {
				out.WriteByte('\\')
			}
			out.WriteByte(text[i])
		case text[i] == '%':
			return out.String(), inputOf(text[i+1:]), true
		default:
			out.WriteByte(text[i])
		}
	}
	return out.String(), "", false
}

// inputOf converts the text after the first % to lines. Here \\ before % also escapes it, because cron
// reads the two parts by different rules.
func inputOf(text string) string {
	var out strings.Builder
	escaped := false
	for i := 0; i < len(text); i++ {
		ch := text[i]
		switch {
		case escaped && ch != '%':
			out.WriteByte('\\')
		case !escaped && ch == '%':
			ch = '\n'
		}
		if escaped = ch == '\\'; !escaped {
			out.WriteByte(ch)
		}
	}
	if escaped {
		out.WriteByte('\\')
	}
	return out.String()
}

// execution is what the task executes: a text for sh, or a program with arguments.
type execution struct {
	text string
	argv []string
}

// commandVar names the variable for a command that a workflow file cannot contain literally.
const commandVar = "CRON_COMMAND"

// command converts the command of the entry.
func (c *converter) command(d *draft) *fault {
	e := d.entry
	command, input, has := percent(e.command)
	command = trimRight(command)
	if command == "" {
		return &fault{e.begin, "the command is empty, because the % ends it", `write \% for a percent sign`}
	}
	if strings.Contains(command, `\\`) {
		d.approximate(`\\ in the command stays as it is; cron of Debian makes one \ of it`)
	}
	d.env = c.environment(d)
	shell := c.vars.value("SHELL", "/bin/sh")
	script := command
	if isPosix(shell) {
		script = d.unguard(command)
	}
	if has {
		c.noteInput(d, command)
	}
	if input != "" && isPosix(shell) {
		script = d.withInput(script, input)
	}
	switch {
	case input != "" && !isPosix(shell):
		d.run.text = d.withInput("exec "+importer.QuoteShell(shell)+" -c "+importer.QuoteShell(script), input)
	case isSh(shell) && c.findsSh():
		d.run.text = script
	default:
		d.run.argv = []string{shell, "-c", script}
	}
	if note := importer.WriteNote(command, ""); note != "" && isPosix(shell) {
		d.notes = append(d.notes, note)
	}
	d.escape()
	return nil
}

// noteInput adds a note if a % probably was not meant to end the command.
func (c *converter) noteInput(d *draft, command string) {
	if _, whole := segments(command); !whole || strings.HasSuffix(command, "+") {
		d.approximate(`cron ends the command at a % without \, so it probably never ran as intended; for a percent sign, correct run`)
		return
	}
	d.notes = append(d.notes, "the text after the first % is the standard input of the command")
}

// inputVar names the variable for an input that no here-document can hold.
const inputVar = "CRON_INPUT"

// withInput gives a script its standard input. An exec at its beginning redirects the input of the shell
// itself, so all commands of the script get it.
func (d *draft) withInput(script, input string) string {
	input = strings.TrimSuffix(input, "\n")
	lines := strings.Split(input, "\n")
	for _, end := range []string{"INPUT", "END", "DATA", "TEXT", "LINES", "OVER", "STDIN", "Q", "X", "Z"} {
		if !clashes(lines, end) {
			return "exec <<'" + end + "'\n" + input + "\n" + end + "\n" + script
		}
	}
	d.env = append(d.env, variable{inputVar, input})
	return "exec <<INPUT\n$" + inputVar + "\nINPUT\n" + script
}

// clashes reports whether a line would end a here-document. It also reports a line that begins like the end
// word and continues with a byte above ASCII, because dash loses a byte there.
func clashes(lines []string, end string) bool {
	for _, line := range lines {
		n := 0
		for n < len(line) && n < len(end) && line[n] == end[n] {
			n++
		}
		if n == len(end) || n > 0 && n < len(line) && line[n] >= 0x80 {
			return true
		}
	}
	return false
}

// escape moves a command that contains ${{ into a variable. A run field must not contain ${{, because a value
// could become code there, and ${{ cannot be escaped.
func (d *draft) escape() {
	const open = "${{"
	text := d.run.text
	if d.run.argv != nil {
		text = d.run.argv[2]
	}
	if !strings.Contains(text, open) {
		return
	}
	d.env = append(d.env, variable{commandVar, text})
	d.notes = append(d.notes, "the command contains ${{, which run does not allow, so it is in the variable "+commandVar)
	if d.run.argv != nil {
		d.run = execution{text: "exec " + importer.QuoteShell(d.run.argv[0]) + ` -c "$` + commandVar + `"`}
		return
	}
	d.run.text = `eval "$` + commandVar + `"`
}

// user converts the entry's user and working folder.
func (c *converter) user(d *draft) {
	d.dir = c.vars.value("HOME", c.opt.Home)
	name, _, _ := strings.Cut(d.entry.user, ":") // FreeBSD: user:group
	if name != "" && name != c.opt.User {
		d.approximate("cron ran the command as " + importer.Clip(name, 40) + "; a workflow cannot name a user, so the command runs as the user of the node")
	}
}

// trimRight removes trailing blanks that have no meaning for a shell.
func trimRight(command string) string {
	trimmed := strings.TrimRight(command, " \t")
	if strings.HasSuffix(trimmed, `\`) && trimmed != command {
		return command[:len(trimmed)+1]
	}
	return trimmed
}

// unguard changes "test -x PROGRAM && PROGRAM" so that a failed test ends with success. Cron ignores exit
// codes, but in Skein the run would fail because a program is not installed.
func (d *draft) unguard(command string) string {
	all, whole := segments(command)
	if !whole {
		return command
	}
	n := 0
	for n < len(all) && all[n].op == "&&" && isGuard(command[all[n].from:all[n].to]) {
		n++
	}
	if n == 0 {
		return command
	}
	for _, s := range all[n:] {
		if s.op != "&&" && s.op != "" {
			d.notes = append(d.notes, "if the test before the command fails, the run may fail; cron ignored that")
			return command
		}
	}
	guard := strings.TrimSpace(command[all[0].from:all[n-1].to])
	rest := strings.TrimLeft(command[all[n].from:], " \t")
	d.notes = append(d.notes, "if the test before the command fails, the run succeeds; cron ignored exit codes")
	return guard + " || exit 0\n" + rest
}

// isGuard reports whether a command only checks that something exists.
func isGuard(segment string) bool {
	words := strings.Fields(segment)
	if len(words) > 0 && words[0] == "!" {
		words = words[1:]
	}
	if len(words) < 2 || strings.ContainsAny(segment, "|") {
		return false
	}
	switch words[0] {
	case "test", "which", "type", "hash":
		return true
	case "[", "[[":
		return true
	case "command":
		return words[1] == "-v"
	}
	return false
}

// findsSh reports whether a node finds sh in the PATH of the crontab. Cron does not search PATH for sh.
func (c *converter) findsSh() bool {
	folders := strings.Split(c.vars.value("PATH", "/bin"), ":")
	return contains(folders, "/bin") || contains(folders, "/usr/bin")
}

func isSh(shell string) bool { return shell == "/bin/sh" || shell == "/usr/bin/sh" }

// isPosix reports whether a shell understands the syntax of sh.
func isPosix(shell string) bool {
	return contains([]string{"sh", "bash", "dash", "ash", "ksh", "mksh", "zsh"}, shell[strings.LastIndexByte(shell, '/')+1:])
}

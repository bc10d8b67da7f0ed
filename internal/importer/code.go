package importer

import (
	"regexp"
	"slices"
	"strings"
)

// FileOutput is an output that a program writes to a file.
type FileOutput struct {
	Name, Path string
	Default    string
	Optional   bool // if the file is missing, the output is Default
}

// jsonFunction defines a shell function that writes a text as a JSON string. It uses only standard tools.
const jsonFunction = `json() {
  printf '%s\n' "$1" | tr -d '\000-\010\013-\037' | sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e "s/$(printf '\t')/\\\\t/g" |
    awk 'BEGIN {printf "\""} NR > 1 {printf "%s", "\\n"} {printf "%s", $0} END {print "\""}'
}
`

// capture says which outputs a task takes from its standard output and from files.
type capture struct {
	stdout string // name of the output, or "" for none
	files  []FileOutput
	lists  map[string]string // output that a task reads as a list → the output that holds this list
}

// Capture makes a task produce outputs. stdout names the output that receives the task's standard output.
// files are read after the program ends. The standard output still goes to the log, at the end of the task.
func (t *Task) Capture(stdout string, files []FileOutput) {
	if stdout == "" && len(files) == 0 {
		return
	}
	t.capture = &capture{stdout: stdout, files: files, lists: map[string]string{}}
	if stdout != "" {
		t.Outputs = append(t.Outputs, stdout)
	}
	for _, f := range files {
		t.Outputs = append(t.Outputs, f.Name)
	}
}

// AsList returns the name of the output that holds the text of the given output as JSON. A captured output
// has both forms. If a program writes its outputs itself, it writes JSON.
func (t *Task) AsList(output string) string {
	name := output
	if t.capture != nil && (t.capture.stdout == output || slices.ContainsFunc(t.capture.files, func(f FileOutput) bool { return f.Name == output })) {
		if name = t.capture.lists[output]; name == "" {
			for name = output + "_list"; slices.Contains(t.Outputs, name); {
				name += "_"
			}
			t.capture.lists[output] = name
			t.Outputs = append(t.Outputs, name)
		}
	}
	if t.lists == nil {
		t.lists = map[string]bool{}
	}
	t.lists[name] = true
	return name
}

// write wraps the task's script in the script that captures its outputs.
func (c *capture) write(t *Task) {
	script := strings.TrimRight(t.shellText(), "\n")
	var b strings.Builder
	b.WriteString(jsonFunction)
	if c.stdout != "" {
		b.WriteString("out=$(\n" + script + "\n)\ncode=$?\nprintf '%s\\n' \"$out\"\n")
	} else {
		b.WriteString("(\n" + script + "\n)\ncode=$?\n")
	}
	b.WriteString("[ $code -eq 0 ] || exit $code\n{\n")
	sep := "{"
	add := func(output, text string) {
		b.WriteString("  printf '" + sep + "\"" + output + "\":%s' \"$(json " + text + ")\"\n")
		sep = ","
		if list := c.lists[output]; list != "" {
			b.WriteString("  printf ',\"" + list + "\":%s' " + text + "\n")
		}
	}
	if c.stdout != "" {
		add(c.stdout, `"$out"`)
	}
	for _, f := range c.files {
		read := `"$(cat ` + QuoteShell(f.Path) + `)"`
		if f.Optional {
			read = `"$(cat ` + QuoteShell(f.Path) + ` 2>/dev/null || printf '%s' ` + QuoteShell(f.Default) + `)"`
		}
		add(f.Name, read)
	}
	b.WriteString("  echo '}'\n} > \"$SKEIN_OUTPUT\"\n")
	t.Run = Run{Shell: b.String()}
}

// shellText returns the task's command as a text for sh.
func (t *Task) shellText() string {
	switch {
	case t.Run.Argv != nil:
		words := make([]string, len(t.Run.Argv))
		for i, w := range t.Run.Argv {
			words[i] = QuoteShell(w)
		}
		return strings.Join(words, " ")
	case t.Run.Lang == "sh":
		return t.Run.Code
	case t.Run.Lang != "":
		return WithSource(interpreters[t.Run.Lang], t.Run.Code)
	}
	return t.Run.Shell
}

// interpreters maps the languages of a workflow file to their programs.
var interpreters = map[string][]string{"python": {"python3"}, "node": {"node"}, "bash": {"bash"}, "sh": {"sh"}}

// WithSource returns a text for sh that runs a program. The program reads its source from a descriptor, so
// its standard input stays free.
func WithSource(program []string, source string) string {
	words := make([]string, len(program))
	for i, w := range program {
		words[i] = QuoteShell(w)
	}
	word := "SOURCE"
	for strings.Contains("\n"+source+"\n", "\n"+word+"\n") {
		word += "_"
	}
	return strings.Join(words, " ") + " /dev/fd/3 3<<'" + word + "'\n" + strings.TrimSuffix(source, "\n") + "\n" + word + "\n"
}

var pythonName = regexp.MustCompile(`^python([23](\.[0-9]+)?)?$`)

// Source returns a command that makes a program, such as bash or [python, -u], run a source text.
func Source(program []string, source string) Run {
	if len(program) == 0 {
		return Run{Shell: source}
	}
	name := program[0][strings.LastIndexByte(program[0], '/')+1:]
	if len(program) == 1 {
		switch {
		case name == "sh":
			return Run{Shell: source}
		case name == "bash", name == "node":
			return Run{Lang: name, Code: source}
		case pythonName.MatchString(name):
			return Run{Lang: "python", Code: source}
		}
	}
	return Run{Shell: WithSource(program, source)}
}

// Shells reports whether a program understands the syntax of sh.
func Shells(program string) bool {
	switch program[strings.LastIndexByte(program, '/')+1:] {
	case "sh", "bash", "dash", "ash", "ksh", "zsh":
		return true
	}
	return false
}

package crontab

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"skein.dev/skein/internal/cron"
	"skein.dev/skein/internal/importer"
	"skein.dev/skein/internal/workflow"
)

// Bounds of one crontab.
const (
	BytesMax   = 1 << 20
	EntriesMax = 10_000
	outputMax  = 16 << 20 // bound on the bytes of all workflows; each workflow repeats the variables above its line
)

// Options holds settings that a crontab does not contain.
type Options struct {
	Path      string // file name for messages; its folder decides the format; "" or "-" is standard input
	Format    Format // Auto, or the format to use
	Zone      string // IANA name of cron's time zone; "" is UTC
	Namespace string // the namespace of the workflows; "" is the default one
	User      string // the user who will run the workflows; "" is unknown
	Home      string // absolute path of the folder in which cron starts commands of User; "" is unknown
	// IsUser reports whether the machine has a user. With this the formats are distinguished. If it is nil, only
	// the accounts of every system are known.
	IsUser func(name string) bool
}

// Convert reads a crontab. Lines that cannot be converted are in the report and do not stop the others.
// Errors concern the file as a whole: it is too large, it is not text, or its time zone does not exist.
func Convert(src []byte, opt Options) (*importer.Result, error) {
	c := &converter{opt: opt, file: importer.FileName(opt.Path), vars: &variables{}, names: map[string]int{}}
	text, err := c.check(src)
	if err != nil {
		return nil, err
	}
	if c.opt.Zone == "" {
		c.opt.Zone = "UTC"
	}
	if _, err := cron.LoadZone(c.opt.Zone); err != nil {
		return nil, c.fail(1, fmt.Sprintf("the time zone of cron: %v", err), "set it with --timezone")
	}
	c.result = importer.NewResult(c.file, c.opt.Zone)
	lines := cutLines(text)
	if err := c.bound(lines); err != nil {
		return nil, err
	}
	format, because, err := c.format(lines)
	if err != nil {
		return nil, err
	}
	c.opt.Format, c.result.Format, c.result.Because = format, string(format), because
	c.remark(text)
	for i := range lines {
		if err := c.line(&lines[i]); err != nil {
			return nil, err
		}
	}
	return c.result, nil
}

func (c *converter) bound(lines []line) error {
	entries := 0
	for i := range lines {
		if k, _ := lines[i].kind(); k == entryLine {
			entries++
		}
		if entries > EntriesMax {
			return c.fail(lines[i].number, fmt.Sprintf("the crontab has more than %d entries", EntriesMax), "split it")
		}
	}
	return nil
}

// remark adds a note about the whole file.
func (c *converter) remark(text string) {
	note := func(s string) { c.result.Notes = append(c.result.Notes, s) }
	if strings.Contains(text, "\r\n") {
		note("the file has Windows line ends, which cron would pass to the commands; the import removes them")
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		note("the last line has no line end, so cron would ignore it; the import converts it")
	}
	if f, _ := formatOfPath(c.opt.Path); f == System {
		name := c.opt.Path[strings.LastIndexByte(c.opt.Path, '/')+1:]
		if strings.IndexFunc(name, func(r rune) bool { return !isName("_"+string(r)) && r != '-' }) >= 0 {
			note("cron of Debian does not read files with such a name; the import converts the file")
		}
	}
}

// converter converts one crontab.
type converter struct {
	opt    Options
	file   string
	vars   *variables
	names  map[string]int // name of a workflow → the next suffix to try
	above  []string       // the comment lines directly above the current line
	output int            // number of bytes of YAML so far
	result *importer.Result
}

func (c *converter) fail(line int, message, hint string) error {
	return workflow.Errors{{File: c.file, Line: line, Column: 1, Message: message, Hint: hint}}
}

// check returns an error if the file is too large or not text.
func (c *converter) check(src []byte) (string, error) {
	if len(src) > BytesMax {
		return "", c.fail(1, fmt.Sprintf("the crontab is larger than %d MiB", BytesMax>>20), "split it, or check that it is the right file")
	}
	text := strings.TrimPrefix(string(src), "\ufeff")
	if i := strings.IndexByte(text, 0); i >= 0 {
		return "", c.fail(strings.Count(text[:i], "\n")+1, "the file is not a crontab: it contains bytes that are not text", "check that it is the right file; crontab -l prints your own crontab")
	}
	if strings.HasPrefix(text, "\xff\xfe") || strings.HasPrefix(text, "\xfe\xff") {
		return "", c.fail(1, "the file is UTF-16", "convert it: iconv -f utf-16 -t utf-8")
	}
	if bad := invalidBytes(text); bad > 16 && bad*10 > len(text) {
		return "", c.fail(1, "the file is not a crontab: it contains bytes that are not text", "check that it is the right file; crontab -l prints your own crontab")
	}
	return text, nil
}

// invalidBytes counts the bytes that are not part of a character.
func invalidBytes(text string) int {
	n := 0
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		if r == utf8.RuneError && size == 1 {
			n++
		}
		i += size
	}
	return n
}

// line converts one line.
func (c *converter) line(l *line) error {
	kind, v := l.kind()
	if kind == commentLine {
		c.above = append(c.above, strings.TrimSpace(strings.TrimLeft(l.text, "# \t")))
		return nil
	}
	above := c.above
	c.above = nil
	switch {
	case kind == blankLine:
	case !utf8.ValidString(l.text):
		c.drop(l, fault{0, "the line is not UTF-8, so it is unclear what it says", "convert the file: iconv -f latin1 -t utf-8"})
	case kind == variableLine:
		c.variable(l, v)
	default:
		return c.entry(l, above)
	}
	return nil
}

func (c *converter) report(l *line, o importer.Outcome, name string, notes []string) {
	if notes == nil {
		notes = []string{}
	}
	kind := importer.KindEntry
	if k, _ := l.kind(); k == variableLine {
		kind = importer.KindVariable
	}
	c.result.Lines = append(c.result.Lines, importer.Line{Line: l.number, Column: l.column(l.begin()), Kind: kind, Outcome: o, Workflow: name,
		Notes: notes, Text: l.shown()})
}

// fault is an error in a line: its offset, the reason and the remedy.
type fault struct {
	at     int
	reason string
	hint   string
}

func (f fault) String() string {
	if f.hint == "" {
		return f.reason
	}
	return f.reason + "; " + f.hint
}

func (c *converter) drop(l *line, f fault) {
	c.report(l, importer.Dropped, "", []string{f.String()})
	c.result.Lines[len(c.result.Lines)-1].Column = l.column(max(f.at, l.begin()))
}

// entry converts a line that runs a command.
func (c *converter) entry(l *line, above []string) error {
	e, f := c.parseEntry(l)
	if f == nil {
		e.above = above
		f = c.convert(e)
	}
	if f != nil {
		c.drop(l, *f)
		return nil
	}
	if c.output > outputMax {
		return c.fail(l.number, fmt.Sprintf("the workflows are larger than %d MiB, because each contains the variables above its line", outputMax>>20),
			"split the crontab, or move large variables into a script")
	}
	return nil
}

// convert converts an entry to a workflow.
func (c *converter) convert(e *entry) *fault {
	d := &draft{entry: e, namespace: c.opt.Namespace, file: c.file}
	if f := c.trigger(d); f != nil {
		return f
	}
	if f := c.command(d); f != nil {
		return f
	}
	c.user(d)
	d.description = c.describe(e)
	base := nameOf(e.command, e.line.number)
	if e.id != "" {
		base = slug(e.id)
	}
	d.name = c.unique(base)
	source, err := d.render()
	if err != nil {
		return &fault{e.line.begin(), "the converted workflow would have another meaning: " + err.Error(), "write the workflow by hand"}
	}
	c.names[d.name] = 2
	c.output += len(source)
	c.report(e.line, d.outcome(), d.name, d.notes)
	c.result.Workflows = append(c.result.Workflows, importer.Workflow{Name: d.name, Namespace: c.namespace(), Line: e.line.number, Source: source})
	return nil
}

func (c *converter) namespace() string {
	if c.opt.Namespace == "" {
		return "default"
	}
	return c.opt.Namespace
}

// describe returns the description of the workflow: the line itself, and the comment above the line if that
// is prose.
func (c *converter) describe(e *entry) string {
	origin := fmt.Sprintf("From %s, line %d: %s", c.file, e.line.number, e.line.shown())
	if comment := prose(e.above); comment != "" {
		return comment + "\n" + origin
	}
	return origin
}

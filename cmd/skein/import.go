package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"skein.dev/skein/internal/cron"
	"skein.dev/skein/internal/importer"
	"skein.dev/skein/internal/importer/crontab"
	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

func (c *cli) importCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "import", Short: "Convert files of other schedulers to workflows",
		Example: "  crontab -l | skein import crontab - --out workflows\n  skein import crontab /etc/crontab",
	}
	needsVerb(cmd)
	cmd.AddCommand(c.importCrontabCmd(), c.importDaguCmd(), c.importArgoCmd(), importDolphinCmd(c))
	return cmd
}

// importFlags holds the flags of an import.
type importFlags struct {
	out, namespace, timezone, format, containers string
	apply, dryRun, force                         bool
}

// imported is the output of `skein import … -o json`. Programs rely on its form, so it must not change.
type imported struct {
	*importer.Result
	Written []string      `json:"written"`
	Applied []api.Applied `json:"applied"`
	done    []string      // the result for each workflow, for people
}

func (c *cli) importCrontabCmd() *cobra.Command {
	var f importFlags
	cmd := &cobra.Command{
		Use: "crontab FILE|-", Short: "Convert the lines of a crontab to workflows, with a report of the differences",
		Long: `Converts each line of a crontab that runs a command to a workflow. - is standard input. The workflows go to
stdout, and a report goes to stderr. For each line it says whether the line was converted, approximated (with
the difference) or dropped (with the reason).
--out writes a file for each workflow. --apply applies them at the server. Existing files and workflows are
replaced only with --force.

Formats: user is the output of crontab -l. system has a column with the user after the times (/etc/crontab,
/etc/cron.d). anacron is the format of /etc/anacrontab. auto chooses by the path; for another path it chooses
system if every line has such a column.

Exit code: 0 at least one line was converted, 6 no line could be converted, 5 a file or workflow exists already.`,
		Example: "  crontab -l | skein import crontab -\n  skein import crontab /etc/cron.d/backup --out workflows\n  crontab -l | skein import crontab - --apply --dry-run",
		Args:    cobra.ExactArgs(1),
		RunE: c.do(func(ctx context.Context, args []string) error {
			return c.importCrontab(ctx, args[0], f)
		}),
	}
	f.add(cmd)
	cmd.Flags().StringVar(&f.format, "format", string(crontab.Auto), strings.Join(crontab.Formats(), " | "))
	return cmd
}

// add adds the flags of every import to a command.
func (f *importFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.out, "out", "", "folder for one file per workflow")
	fl.BoolVar(&f.apply, "apply", false, "apply the workflows at the server")
	fl.BoolVar(&f.dryRun, "dry-run", false, "with --out or --apply: only show the changes")
	fl.BoolVar(&f.force, "force", false, "replace files or workflows of the same name")
	fl.StringVar(&f.namespace, "namespace", api.NamespaceDefault, "namespace of the workflows")
	fl.StringVar(&f.timezone, "timezone", "", "time zone of the times in the file (default: that of the machine)")
}

func (c *cli) importCrontab(ctx context.Context, path string, f importFlags) error {
	opt, err := importOptions(path, f)
	if err != nil {
		return err
	}
	src, err := readImport(path, "a crontab", crontab.BytesMax)
	if err != nil {
		return err
	}
	result, err := crontab.Convert(src, opt)
	if err != nil {
		return err
	}
	return c.takeImport(ctx, result, f)
}

// takeImport writes or applies the workflows as requested, and reports.
func (c *cli) takeImport(ctx context.Context, result *importer.Result, f importFlags) error {
	var err error
	i := &imported{Result: result, Written: []string{}, Applied: []api.Applied{}, done: make([]string, len(result.Workflows))}
	if len(i.Workflows) == 0 {
		return errors.Join(c.showImported(i, f), nothingConverted(i.Result))
	}
	switch {
	case f.out != "":
		err = i.write(f)
	case f.apply && f.dryRun:
		err = c.wouldApply(ctx, i, f)
	case f.apply:
		err = c.writing(func(ctx context.Context, s *session, _ []string) error { return i.apply(ctx, s, f) })(ctx, nil)
	}
	if err != nil {
		return err
	}
	return c.showImported(i, f)
}

func nothingConverted(r *importer.Result) error {
	kind, what := importer.KindEntry, "line"
	if isDocuments(r) {
		kind, what = importer.KindDocument, "document"
	}
	if r.Count(kind, importer.Dropped) == 0 {
		return &said{errInvalid, "there is nothing to convert: no " + what + " of " + r.File + " runs anything"}
	}
	return &said{errInvalid, "no " + what + " of " + r.File + " could be converted"}
}

// isDocuments reports whether a file contained documents, and not lines.
func isDocuments(r *importer.Result) bool {
	return r.Format == "dagu" || r.Format == "argo" || r.Format == "dolphinscheduler"
}

// namespacePattern is the pattern of a namespace in a workflow file.
const namespacePattern = `^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`

// check checks the flags that all imports share, and completes them.
func (f *importFlags) check() error {
	switch {
	case f.out != "" && f.apply:
		return usage("--out and --apply exclude each other: write the files, look at them, and then skein workflow apply them")
	case !regexp.MustCompile(namespacePattern).MatchString(f.namespace):
		return usage("--namespace %q: a name has a-z, 0-9 and -, at most 63 characters", f.namespace)
	}
	if f.timezone == "" {
		f.timezone = localZone()
	} else if _, err := cron.LoadZone(f.timezone); err != nil {
		return usage("--timezone: %v", err)
	}
	return nil
}

func importOptions(path string, f importFlags) (opt crontab.Options, err error) {
	if err := f.check(); err != nil {
		return opt, err
	}
	known := false
	for _, name := range crontab.Formats() {
		known = known || f.format == name
	}
	if !known {
		return opt, usage("--format %s: use one of %s", f.format, strings.Join(crontab.Formats(), ", "))
	}
	opt = crontab.Options{Path: path, Format: crontab.Format(f.format), Zone: f.timezone, Namespace: f.namespace, IsUser: isUser}
	if path != "-" {
		if opt.Path, err = filepath.Abs(path); err != nil {
			return opt, err
		}
	}
	opt.User = me()
	if u, err := user.Current(); err == nil && filepath.IsAbs(u.HomeDir) {
		opt.Home = u.HomeDir
	}
	return opt, nil
}

func isUser(name string) bool {
	_, err := user.Lookup(name)
	return err == nil
}

// localZone returns the time zone of this machine, in which its cron works. It uses TZ last, because TZ
// belongs to the person at the terminal, and cron does not see it.
func localZone() string {
	var names []string
	if link, err := filepath.EvalSymlinks("/etc/localtime"); err == nil {
		if _, name, ok := strings.Cut(link, "/zoneinfo/"); ok {
			names = append(names, name)
		}
	}
	if text, err := os.ReadFile("/etc/timezone"); err == nil {
		names = append(names, strings.TrimSpace(string(text)))
	}
	for _, name := range append(names, strings.TrimPrefix(os.Getenv("TZ"), ":")) {
		if _, err := cron.LoadZone(name); err == nil && name != "" && !filepath.IsAbs(name) {
			return name
		}
	}
	return "UTC"
}

// readImport reads a file; "-" is stdin. It stops at most bytes, the largest length that an import accepts.
func readImport(path, what string, most int64) ([]byte, error) {
	in := os.Stdin
	if path != "-" {
		info, err := os.Stat(path)
		if err != nil {
			return nil, unreadable(path, err)
		}
		if info.IsDir() {
			return nil, hint(&said{errNotFound, path + " is a folder, not " + what}, "give its files one by one")
		}
		if in, err = os.Open(path); err != nil {
			return nil, unreadable(path, err)
		}
		defer in.Close()
	}
	src, err := io.ReadAll(io.LimitReader(in, most+1))
	if err != nil {
		return nil, unreadable(path, err)
	}
	return src, nil
}

// write writes one file per workflow. If one of the files already exists, it writes none.
func (i *imported) write(f importFlags) error {
	paths := make([]string, len(i.Workflows))
	for n, w := range i.Workflows {
		paths[n] = filepath.Join(f.out, w.Name+".yaml")
		old, err := os.ReadFile(paths[n])
		switch {
		case errors.Is(err, os.ErrNotExist):
			i.done[n] = "new"
		case err != nil && !f.force:
			return err
		case bytes.Equal(old, []byte(w.Source)):
			i.done[n] = "unchanged"
		case !f.force:
			return hint(&said{errConflict, paths[n] + " exists already; nothing was written"}, "choose another folder, or replace it: --force")
		default:
			i.done[n] = "replaced"
		}
	}
	i.Written = paths
	if f.dryRun {
		i.Written = []string{}
		return nil
	}
	if err := os.MkdirAll(f.out, 0o777); err != nil {
		return err
	}
	for n, w := range i.Workflows {
		if i.done[n] == "unchanged" {
			continue
		}
		if err := writeNew(paths[n], []byte(w.Source), f.force); err != nil {
			return err
		}
	}
	return nil
}

// compare finds out for each workflow whether the server has it. Without --force it refuses to replace a
// different workflow of the same name, because that may be the work of another person.
func (i *imported) compare(ctx context.Context, s *session, f importFlags) error {
	for n, w := range i.Workflows {
		there, err := s.Workflow(ctx, w.Namespace+"/"+w.Name)
		switch {
		case errors.Is(err, skein.ErrNotFound):
			i.done[n] = "new"
		case err != nil:
			return err
		case text(there.Source) == w.Source:
			i.done[n] = "unchanged"
		case !f.force:
			return hint(&said{errConflict, fmt.Sprintf("the workflow %s/%s exists already with other content; nothing was applied", w.Namespace, w.Name)},
				"choose another --namespace, or make this a new version of it: --force")
		default:
			i.done[n] = "changed"
		}
	}
	return nil
}

func (i *imported) apply(ctx context.Context, s *session, f importFlags) error {
	if err := i.compare(ctx, s, f); err != nil {
		return err
	}
	for _, w := range i.Workflows {
		a, err := s.Apply(ctx, w.Namespace+"/"+w.Name, api.ApplyRequest{Source: w.Source, File: w.Name + ".yaml"})
		if err != nil {
			return fmt.Errorf("apply %s (line %d), after %d others: %w", w.Name, w.Line, len(i.Applied), err)
		}
		i.Applied = append(i.Applied, a)
	}
	return nil
}

// wouldApply only compares. If there is no data folder, every workflow is new.
func (c *cli) wouldApply(ctx context.Context, i *imported, f importFlags) error {
	err := c.reading(func(ctx context.Context, s *session, _ []string) error { return i.compare(ctx, s, f) })(ctx, nil)
	if !isNoData(err) {
		return err
	}
	for n := range i.done {
		i.done[n] = "new"
	}
	return nil
}

// showImported writes the result. For people it prints the workflows on stdout and the report on stderr. With
// --out and --apply it prints only the report, on stdout.
func (c *cli) showImported(i *imported, f importFlags) error {
	switch c.format {
	case "table":
	case "name":
		for _, w := range i.Workflows {
			fmt.Fprintln(c.out, refOf(w))
		}
		return nil
	default:
		return one(c, i, "", nil)
	}
	if isDocuments(i.Result) {
		c.say("%s: times in %s", i.File, i.Timezone)
	} else {
		c.say("%s: %s format, because %s; times in %s", i.File, i.Format, i.Because, i.Timezone)
	}
	for _, note := range i.Notes {
		c.say("  %s", note)
	}
	if f.out == "" && !f.apply {
		for n, w := range i.Workflows {
			if n > 0 {
				fmt.Fprintln(c.out, "---")
			}
			if _, err := io.WriteString(c.out, w.Source); err != nil {
				return err
			}
		}
		for _, l := range i.Lines {
			c.say("  %s", reportLine(l))
		}
	} else if err := c.importTable(i, f); err != nil {
		return err
	}
	c.say("%s", i.summary())
	c.nextStep(i, f)
	return nil
}

// summary counts the results of the import.
func (i *imported) summary() string {
	of := func(kind, one, more string) string {
		n, what := i.Count(kind, importer.Converted), more
		if n == 1 {
			what = one
		}
		return fmt.Sprintf("%d %s converted, %d approximated, %d dropped", n, what, i.Count(kind, importer.Approximated), i.Count(kind, importer.Dropped))
	}
	if isDocuments(i.Result) {
		return of(importer.KindDocument, "workflow", "workflows") + "; " + of(importer.KindTask, "task", "tasks") + "; " +
			count(i.Count(importer.KindSetting, importer.Dropped), "setting") + " dropped"
	}
	return of(importer.KindEntry, "entry", "entries") + "; " + count(i.Count(importer.KindVariable, importer.Dropped), "variable") + " dropped"
}

func reportLine(l importer.Line) string {
	where := fmt.Sprintf("line %d", l.Line)
	if l.Outcome == importer.Dropped || l.Kind == importer.KindTask || l.Kind == importer.KindSetting {
		where += fmt.Sprintf(":%d", l.Column)
	}
	what := string(l.Outcome)
	if l.Task != "" {
		what += ", task " + l.Task
	} else if l.Workflow != "" && l.Kind != importer.KindSetting {
		what += ", " + l.Workflow
	} else if name, _, ok := strings.Cut(l.Text, "="); ok && l.Kind == importer.KindVariable {
		what += ", " + strings.TrimSpace(name)
	}
	return strings.Join(append([]string{where + ": " + what}, l.Notes...), "\n      ")
}

// documentsMax bounds the workflows of one file.
const documentsMax = 1000

// nextStep suggests the command to type after the review.
func (c *cli) nextStep(i *imported, f importFlags) {
	switch {
	case len(i.Workflows) == 0:
	case f.out == "" && !f.apply && len(i.Workflows) > documentsMax:
		c.say("  → a workflow file holds at most %d of them: write one for each with --out DIR", documentsMax)
	case f.dryRun && (f.out != "" || f.apply):
		c.say("nothing was done: --dry-run")
	case f.out != "":
		c.say("  → look at them, then: skein workflow apply %s", filepath.Join(f.out, "*.yaml"))
	case f.apply && isDocuments(i.Result):
		c.say("  → they fire while a server runs (skein server); take them out of %s, or they run twice", i.Format)
	case f.apply:
		c.say("  → they fire while a server runs (skein server); take the lines out of the crontab, or they run twice")
	}
}

func refOf(w importer.Workflow) string {
	if w.Namespace == api.NamespaceDefault {
		return w.Name
	}
	return w.Namespace + "/" + w.Name
}

// importRow is one line of the report, with the result for its workflow.
type importRow struct {
	importer.Line
	where, done string
}

func (c *cli) importTable(i *imported, f importFlags) error {
	rows := make([]importRow, len(i.Lines))
	at := map[string]int{}
	for n, w := range i.Workflows {
		at[w.Name] = n
	}
	for n, l := range i.Lines {
		rows[n] = importRow{Line: l, where: "-", done: "-"}
		if l.Workflow == "" {
			continue
		}
		w := i.Workflows[at[l.Workflow]]
		if rows[n].where = refOf(w); f.out != "" {
			rows[n].where = filepath.Join(f.out, w.Name+".yaml")
		}
		if l.Task != "" {
			rows[n].where += "/" + l.Task
		} else if l.Kind != importer.KindSetting {
			rows[n].done = i.done[at[l.Workflow]]
		}
	}
	return show(c, rows, nil, []column[importRow]{
		{head: "LINE", get: func(r importRow) string { return fmt.Sprint(r.Line.Line) }},
		{head: "OUTCOME", get: func(r importRow) string { return string(r.Outcome) }},
		{head: "WORKFLOW", get: func(r importRow) string { return r.where }},
		{head: "WHAT", get: func(r importRow) string { return r.done }},
		{head: "NOTES", get: func(r importRow) string { return strings.Join(r.Notes, "; ") }},
	})
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

// runFlags are the flags of `skein run FILE|NAME`.
type runFlags struct {
	params   []string
	files    []string // files with params
	detach   bool
	follow   bool
	priority string
	key      string
	version  int32
	timeout  time.Duration
	from     string
	batch    string
	tags     map[string]string
}

func (c *cli) runCmd() *cobra.Command {
	f := &runFlags{}
	var cmd *cobra.Command
	cmd = &cobra.Command{
		Use:   "run FILE|NAME",
		Short: "Run a workflow and wait for its end; show and control runs",
		Long: `Runs a workflow and waits for its end.

The argument is a FILE if it contains a / or ends in .yaml, .yml or .json. - is standard input. Any other
argument is the NAME of an applied workflow. Outside the namespace default, write NS/NAME; it counts as a file
only if that file exists. After -- the argument is always a name, also a name that equals a subcommand: skein
run -- list.

The run executes at --server, else at the server that uses the data folder, else in this process.

Exit code: 0 succeeded, 10 failed, 11 stopped or skipped. The first Ctrl-C stops the run (130), the second kills it.`,
		Example: `  skein run workflow.yaml --follow
  skein run nightly-orders -p day=2026-11-20
  skein run shop/nightly-orders --tag customer=acme
  skein run report.yaml --detach && skein run watch report@latest
  skein run report.yaml -o json | jq .state
  skein run report --batch days.jsonl -o jsonl > verdicts.jsonl`,
		Args: cobra.ExactArgs(1),
		RunE: c.do(func(ctx context.Context, args []string) error {
			named := isName(cmd, args[0])
			switch {
			case f.batch != "" && !named:
				return usage("--batch needs the NAME of a workflow; apply the file first: skein workflow apply %s", args[0])
			case f.batch != "":
				return c.startBatch(ctx, args[0], f)
			}
			return c.start(ctx, args[0], named, f)
		}),
	}
	fl := cmd.Flags()
	fl.StringArrayVarP(&f.params, "param", "p", nil, "parameter, as name=value; may be repeated")
	fl.StringArrayVar(&f.files, "param-file", nil, "parameter, as name=FILE, for parameters of type secret; the value is the text of the file (-: standard input) without its last line end")
	fl.BoolVarP(&f.detach, "detach", "d", false, "return as soon as the run is accepted")
	fl.BoolVarP(&f.follow, "follow", "f", false, "show the output of the tasks on stderr")
	fl.StringVar(&f.priority, "priority", "", "highest | high | medium | low | lowest (default: that of the workflow)")
	fl.StringVar(&f.key, "key", "", "idempotency key: the same key starts only one run")
	tagFlag(fl, &f.tags, "tag of the run, as KEY=VALUE, in addition to those of the workflow; may be repeated")
	fl.StringVar(&f.from, "from", "", "begin at this task; tasks that do not depend on it count as skipped")
	fl.StringVar(&f.batch, "batch", "", "start one run per line of this file (-: standard input) without waiting; a line is {\"params\": {…}, \"idempotency_key\": \"…\"}")
	fl.Int32Var(&f.version, "version", 0, "version of the workflow (default: the current one)")
	fl.DurationVar(&f.timeout, "timeout", 0, "stop waiting after this time (exit 8); the run continues")
	apart(cmd, namesOf(cmd), "Flags of the node that this process starts if there is no server")
	listenFlag(cmd)
	nodeFlags(cmd)
	cmd.AddCommand(c.runListCmd(), c.runGetCmd(), c.runWatchCmd(), c.runEventsCmd(),
		c.verbCmd("stop", "Stop a run: no attempt starts, and running ones get TERM, then KILL after kill_grace", skeinStop),
		c.verbCmd("kill", "Kill a run: its processes get KILL at once", skeinKill),
		c.verbCmd("pause", "Pause a run: running attempts finish, and no new ones start", skeinPause),
		c.verbCmd("resume", "Resume a paused run", skeinResume), c.recoverCmd(), c.rerunCmd(), c.runOpenCmd())
	return cmd
}

// runOpenCmd reserves "skein run open", which will open the web page of a run. Otherwise a script could use
// it to start a workflow named open.
func (c *cli) runOpenCmd() *cobra.Command {
	return &cobra.Command{
		Use: "open RUN", Short: "Reserved for the web page of a run", Hidden: true, DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error {
			c.entered = true
			return hint(usage("skein run open does nothing yet: the word is reserved for the web page of a run"),
				"open the page: skein open; look at a run here: skein run watch RUN; start a workflow that is called open: skein run -- open; or a file: skein run ./open")
		},
	}
}

// isFile reports whether an argument names a file: it is "-", has a slash, or ends like a workflow file.
func isFile(arg string) bool {
	if arg == "-" || strings.Contains(arg, "/") {
		return true
	}
	for _, end := range []string{".yaml", ".yml", ".json"} {
		if strings.HasSuffix(arg, end) {
			return true
		}
	}
	return false
}

// namespaced matches NS/NAME, which looks like a path without an extension.
var namespaced = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?/[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// isName reports whether the first argument of FILE|NAME is a name. It always is after --. NS/NAME is a name
// if there is no such file.
func isName(cmd *cobra.Command, arg string) bool {
	if cmd.ArgsLenAtDash() == 0 || !isFile(arg) {
		return true
	}
	return namespaced.MatchString(arg) && absent(arg)
}

func absent(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// noSuchName adds to the error about a missing workflow the name that the user may have meant.
func noSuchName(err error, arg string) error {
	switch {
	case !errors.Is(err, skein.ErrNotFound):
		return err
	case isFile(arg) && absent(arg):
		return hint(&said{errNotFound, fmt.Sprintf("%v; there is no file %s either", err, arg)}, "list workflows: skein workflow list")
	case isFile(arg):
		return hint(err, "list workflows: skein workflow list; to run the file of that name: skein run "+arg)
	}
	return hint(err, "list workflows: skein workflow list; a file is named with its folder or its .yaml: ./"+arg+".yaml")
}

// start implements `skein run FILE|NAME`.
func (c *cli) start(ctx context.Context, arg string, named bool, f *runFlags) error {
	if f.detach && f.follow {
		return usage("--detach and --follow exclude each other")
	}
	given, err := f.given()
	if err != nil {
		return err
	}
	var def *definition
	if !named {
		if def, err = readDefinition(arg, c.cfg.TasksMax); err != nil {
			return err
		}
	}
	w := c.newWaiter(f.follow)
	defer w.stopSignals()
	w.hold = f.detach
	ctx, stop := w.within(ctx, f.timeout)
	defer stop()
	if f.key == "" {
		f.key = api.KeyOnce + uuid.NewString() // so that a request whose answer was lost can be sent again
	}
	var run api.Run
	err = w.withServer(ctx, func(s *session) error {
		req := api.RunRequest{Workflow: arg, Version: f.version, Priority: f.priority, IdempotencyKey: f.key, Origin: "manual", From: f.from, Tags: f.tags}
		var types []api.Param
		if def != nil {
			applied, err := def.apply(ctx, s)
			if err != nil {
				return err
			}
			c.warn(&applied)
			req.Workflow, types = applied.Workflow.Workflow, applied.Params
			if req.Version == 0 {
				req.Version = applied.Version
			}
		} else if len(given) > 0 {
			if known, err := s.Workflow(ctx, arg); err == nil {
				types = known.Params
			}
		}
		req.Params = typed(given, types)
		var err error
		run, _, err = s.Start(ctx, req)
		if err == nil {
			w.contact()
		}
		if f.version != 0 && errors.Is(err, skein.ErrNotFound) {
			return hint(err, "list workflows: skein workflow list; versions of one: skein workflow versions "+req.Workflow)
		}
		if def == nil && f.from == "" {
			return noSuchName(err, arg)
		}
		return err
	})
	if err != nil {
		w.leave(ctx)
		return err
	}
	if f.detach {
		return c.detached(ctx, w, &run)
	}
	if !w.screen.moves {
		c.say("run %s of %s", run.ID, run.Workflow)
	}
	return w.await(ctx, run.ID)
}

// detached shows a run after it was accepted, and does not wait for its end. The run is durable.
func (c *cli) detached(ctx context.Context, w *waiter, run *api.Run) error {
	if w.s.node != nil {
		c.say("accepted, but no server holds %s: the run continues when one starts (skein server)", c.cfg.Data)
	} else {
		c.say("accepted; watch it: skein run watch %s", run.ID)
	}
	w.s.close()
	return one(c, run, run.ID, func() error {
		_, err := fmt.Fprintln(c.out, run.ID)
		return err
	})
}

// pairShown bounds the part of an argument that an error repeats.
const pairShown = 80

// splitPairs splits the values of a flag that may be repeated, each of the form name=value.
func splitPairs(flag string, pairs []string) (map[string]string, error) {
	given := make(map[string]string, len(pairs))
	for _, p := range pairs {
		name, value, ok := strings.Cut(p, "=")
		if !ok || name == "" {
			return nil, usage("%s %s: use name=value", flag, clip(p, pairShown))
		}
		given[name] = value
	}
	return given, nil
}

// given returns the parameters that the flags set.
func (f *runFlags) given() (map[string]string, error) {
	given, err := splitPairs("-p", f.params)
	if err != nil {
		return nil, err
	}
	files, err := splitPairs("--param-file", f.files)
	if err != nil {
		return nil, err
	}
	for name, path := range files {
		if _, both := given[name]; both {
			return nil, usage("--param-file %s: the parameter is given twice", name)
		}
		text, err := paramText(path)
		if err != nil {
			return nil, err
		}
		given[name] = text
	}
	return given, nil
}

// paramFileMax bounds the file of a parameter, in bytes.
const paramFileMax = 256 << 10

// paramText reads the value of a parameter from a file, or from standard input (-).
func paramText(path string) (string, error) {
	from := io.Reader(os.Stdin)
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return "", usage("--param-file: %v", err)
		}
		defer file.Close()
		from = file
	}
	text, err := io.ReadAll(io.LimitReader(from, paramFileMax+1))
	switch {
	case err != nil:
		return "", usage("--param-file %s: %v", path, err)
	case len(text) > paramFileMax:
		return "", usage("--param-file %s: the file is larger than %d KiB", path, paramFileMax>>10)
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r"), nil
}

// typed converts texts to the declared types of the parameters. It leaves a value that cannot be converted as
// a text, so that the server reports the error.
func typed(given map[string]string, declared []api.Param) map[string]any {
	all := make(map[string]any, len(given))
	for name, value := range given {
		all[name] = value
		for _, p := range declared {
			if p.Name != name {
				continue
			}
			if v, ok := parseAs(p.Type, value); ok {
				all[name] = v
			}
		}
	}
	return all
}

func parseAs(kind, value string) (any, bool) {
	switch kind {
	case "int":
		n, err := strconv.ParseInt(value, 10, 64)
		return n, err == nil
	case "float":
		n, err := strconv.ParseFloat(value, 64)
		return n, err == nil
	case "bool":
		b, err := strconv.ParseBool(value)
		return b, err == nil
	case "json":
		if json.Valid([]byte(value)) {
			return json.RawMessage(value), true
		}
	}
	return nil, false
}

// The following functions are the verbs with the signature that commands need.
func skeinStop(ctx context.Context, s *session, id, why string) (api.Run, error) {
	return s.StopRun(ctx, id, why)
}

func skeinKill(ctx context.Context, s *session, id, why string) (api.Run, error) {
	return s.KillRun(ctx, id, why)
}

func skeinPause(ctx context.Context, s *session, id, why string) (api.Run, error) {
	return s.PauseRun(ctx, id, why)
}

func skeinResume(ctx context.Context, s *session, id, why string) (api.Run, error) {
	return s.ResumeRun(ctx, id, why)
}

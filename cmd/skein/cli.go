package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/workflow"
	api "skein.dev/skein/sdk/api/v1"
)

// cli is one execution of the program.
type cli struct {
	in       *os.File
	out, err io.Writer // on a terminal, a filter removes control sequences from other people's text
	// rawOut and rawErr write bytes unchanged. They are for the live part of the screen, and for output that
	// was requested as bytes.
	rawOut, rawErr io.Writer
	outTTY         bool // stdout is a terminal
	errTTY         bool // stderr is a terminal, so progress may be redrawn
	colour         bool // whether colours are shown on stdout
	entered        bool // the command line was valid
	patient        bool // repeats a request for a while if the server cannot answer now

	// The following are the flags that every command has.
	configFile string
	format     string
	noInput    bool
	flags      *pflag.FlagSet // the flags of the command, set when the command begins

	cfg *config.Config // set when a command begins
	// load reads the settings again, with the flags of this call.
	load func() (*config.Config, error)
}

func newCLI(in, out, errs *os.File) *cli {
	c := &cli{in: in, out: out, err: errs, rawOut: out, rawErr: errs}
	if c.outTTY = term.IsTerminal(int(out.Fd())); c.outTTY {
		c.out = &shown{to: out, sgr: ownColours}
	}
	if term.IsTerminal(int(errs.Fd())) {
		c.err = &shown{to: errs, sgr: ownColours}
	}
	c.errTTY = term.IsTerminal(int(errs.Fd())) && os.Getenv("TERM") != "dumb" && !set("CI")
	c.colour = c.outTTY && !set("NO_COLOR") && os.Getenv("TERM") != "dumb"
	return c
}

// set reports whether an environment variable is set to a true value.
func set(name string) bool {
	v := os.Getenv(name)
	return v != "" && v != "0" && v != "false"
}

// root returns the tree of commands. Each noun has a constructor.
func (c *cli) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "skein",
		Short: "Run graphs of tasks in order, durably, with an explanation of every wait",
		Long: `Skein runs workflows: graphs of tasks described in YAML, where a task is a command in any language.

Without a server, a command runs a workflow file:       skein run hello.yaml
With a server, other people can watch and start runs:   skein dev`,
		Example: `  skein init                        write a first workflow.yaml
  skein run workflow.yaml --follow  run it and see what it prints
  skein dev                         a server with the examples loaded`,
		SilenceErrors: true, SilenceUsage: true,
	}
	f := root.PersistentFlags()
	f.StringVar(&c.configFile, "config", "", "config file (default $XDG_CONFIG_HOME/skein/config.yaml)")
	f.StringVarP(&c.format, "output", "o", "table", "table | json | jsonl | yaml | name")
	f.BoolVar(&c.noInput, "no-input", false, "never ask")
	f.String("data", "", "data folder (default $XDG_DATA_HOME/skein)")
	f.String("db", "", "database: sqlite:PATH or postgres://user@host:port/database?schema=NAME (default: SQLite in the data folder)")
	f.String("db-file", "", "file that contains the value of --db, for an address with a password; other users must not be able to read the file")
	f.String("ca-cert", "", "PEM file of a further authority for the certificates of servers, in addition to those of the system")
	f.String("token-file", "", "file with the token for calls to servers and other nodes (or SKEIN_API_TOKEN); other users must not be able to read the file")
	f.Bool("insecure-plaintext", false, "send tokens to other machines over http://, and as a server accept them without TLS: everything can be read on the way")
	f.String("server", "", "URL of the server (default: the server that uses the data folder)")
	root.AddGroup(
		&cobra.Group{ID: "start", Title: "Start here:"},
		&cobra.Group{ID: "look", Title: "Look and understand:"},
		&cobra.Group{ID: "manage", Title: "Manage:"},
		&cobra.Group{ID: "tools", Title: "Tools:"},
	)
	add := func(group string, cmds ...*cobra.Command) {
		for _, cmd := range cmds {
			cmd.GroupID = group
			root.AddCommand(cmd)
		}
	}
	add("start", c.devCmd(), c.initCmd(), c.runCmd(), c.validateCmd())
	add("look", openCmd(c), c.statusCmd(), c.topCmd(), c.logsCmd(), c.explainCmd())
	add("manage", c.workflowCmd(), c.taskCmd(), c.serverCmd(), c.workerCmd(), c.workerGroupCmd(), c.nodeCmd(), c.tokenCmd(), userCmd(c), roleCmd(c), loginCmd(c), logoutCmd(c), whoamiCmd(c), c.accessCmd(), c.configCmd(), c.importCmd(), c.dbCmd())
	add("manage", c.scheduleCmd(), c.backfillCmd(), c.queueCmd(), c.lockCmd(), c.classCmd(), alertCmd(c), namespaceCmd(c), secretCmd(c), keyCmd(c), caCmd(c), connectionCmd(c), gitCmd(c), bundleCmd(c), eventCmd(c), extensionCmd(c), auditCmd(c))
	add("tools", c.apiCmd(), c.schemaCmd(), c.doctorCmd(), c.verifyCmd(), c.benchCmd(), c.versionCmd())
	root.InitDefaultHelpCmd()
	root.SetHelpCommandGroupID("tools")
	c.knownTopics(root)
	root.SetCompletionCommandGroupID("tools")
	c.completions(root)
	sayArguments(root)
	root.SetFlagErrorFunc(flagError)
	root.SetOut(c.out)
	root.SetErr(c.err)
	return root
}

// knownTopics makes the help command fail for an unknown command. Without it, help would print an error and
// exit with 0.
func (c *cli) knownTopics(root *cobra.Command) {
	help, _, err := root.Find([]string{"help"})
	if err != nil {
		panic(err) // the line above has made the command
	}
	show := help.Run
	help.Run = nil
	help.RunE = func(cmd *cobra.Command, args []string) error {
		c.entered = true
		if of, rest, err := root.Find(args); err != nil || len(rest) > 0 && of.HasSubCommands() {
			return hint(usage("unknown command %q", strings.Join(args, " ")), "for a list of commands: skein help")
		}
		show(cmd, args)
		return nil
	}
}

// do makes the function RunE of a command: it records that the command line is valid, reads the settings, and
// calls f.
func (c *cli) do(f func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c.entered = true
		if err := checkFormat(c.format); err != nil {
			return err
		}
		c.flags = cmd.Flags()
		// 0 means no limit; without this check, a negative time would have passed at once
		if d, err := c.flags.GetDuration("timeout"); err == nil && d < 0 {
			return usage("--timeout %v: use a length of time such as 30s", d)
		}
		if i := slices.Index(args, ""); i >= 0 { // an empty argument probably comes from an unset variable
			return hint(usage("%s: argument %d is empty", words(cmd), i+1), "see: "+cmd.CommandPath()+" --help")
		}
		if set("CI") {
			c.noInput = true
		}
		flags := changedFlags(cmd)
		c.load = config.Loader(flags, c.configFile)
		var err error
		if c.cfg, err = c.load(); err != nil {
			return err
		}
		return f(cmd.Context(), args)
	}
}

// words returns the usage of a command with its arguments, without flags.
func words(cmd *cobra.Command) string {
	if cmd.HasParent() {
		return cmd.Parent().CommandPath() + " " + cmd.Use
	}
	return cmd.Use
}

// changedFlags returns the flags that were given and that are also settings.
func changedFlags(cmd *cobra.Command) map[string]string {
	flags := map[string]string{}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Annotations[noSetting] == nil {
			flags[f.Name] = f.Value.String()
		}
	})
	return flags
}

// noSetting marks a flag that has the name of a setting but another meaning.
const noSetting = "no-setting"

func notSettings(f *pflag.FlagSet, names ...string) {
	for _, name := range names {
		_ = f.SetAnnotation(name, noSetting, []string{}) // the flag exists, so there is no error
	}
}

// nodeFlags adds the settings of commands that can become a node.
func nodeFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.String("name", "", "stable name of this node (default: the name of the host)")
	f.String("slots", "", "number of attempts that run at the same time (default: two per core)")
	f.String("cpu", "", "cores for tasks with resources (default: all that this process may use)")
	f.String("memory", "", "memory for tasks with resources, such as 4Gi (default: all that this process may use)")
	f.String("pass-env", "", "environment variables of this process that tasks get in addition, as A,B,…")
	kindFlags(cmd)
	isolationFlags(f)
	f.String("logs", "", "folder for the output of tasks that all nodes share, or s3://BUCKET/PREFIX?endpoint=URL (default: the database of a cluster keeps the last MiB of each log)")
	f.String("artifacts", "", "folder for the artifacts of tasks that all nodes share, or s3://BUCKET/PREFIX?endpoint=URL (default: each node keeps the artifacts of its own attempts)")
	f.String("loopback", "", "callers that a node on loopback answers: token (callers with a token) or open (every user of the machine; the next version has no open) (default token)")
	f.String("egress", "", "addresses that http tasks may call: any, public, or networks, as public,10.0.0.0/8 (default any on loopback, else public)")
	f.String("egress-proxy", "", "proxy for http tasks: a URL, or the word environment to use http_proxy and https_proxy (default none)")
	f.String("source-memory", "", "memory of the process of a source of a broker or of an extension, as 1Gi; one that takes more is ended and started again (default 512Mi)")
	f.String("alert-commands", "", "true: alert channels may run programs on this node, as its user (default false)")
	f.String("watchdog-file", "", "file with a URL that the node calls each minute while its scheduler works")
	f.String("smtp-url", "", "server for alert mail: smtp+starttls://USER@HOST:587, smtps://USER@HOST, or smtp://HOST")
	f.String("smtp-from", "", "sender of alert mail, such as skein@example.org")
	f.String("traces", "", "collector to which ended runs are exported as traces (OTLP over HTTP), such as http://collector:4318")
	f.String("traces-headers-file", "", "file with headers for the collector, one a line, such as Authorization: Bearer TOKEN")
	f.String("traces-mode", "", "run (default): one trace for each run; linked: a trace for each attempt, with a link to its run")
	f.String("traces-protocol", "", "how spans are sent: http/json (default), http/protobuf or grpc")
	f.String("traces-sample", "", "part of the runs without a caller's trace that is exported, from 0 to 1 (default 1)")
	f.String("lease", "", "time for which running tasks outlive a server that has died or is frozen (default 15s)")
	f.String("drain", "", "time for which a shutdown waits for running attempts (default 1m)")
	f.String("retention-age", "", "time for which finished runs are kept, unless their workflow sets another; 0: for ever (default 90d)")
	f.String("retention-runs", "", "number of finished runs that are kept for each workflow, the newest ones (default 1000)")
	f.String("tls-cert", "", "PEM file of the node's certificate; a node that listens beyond loopback needs a certificate and a token")
	f.String("tls-key", "", "PEM file of the certificate's key")
	f.String("secret-key-file", "", "file with the key that encrypts secrets, the same on every node; other users must not be able to read the file (default on SQLite: a key in the data folder)")
	f.String("connections-per-address", "", "largest number of connections from one address that have not shown a token yet (default 64)")
	f.Bool("no-ui", false, "serve no web page")
	f.String("base-path", "", "path under which browsers reach the server, such as /skein behind a proxy")
	f.String("roles", "", "roles of this node: api,scheduler,worker (default), or api,scheduler if only other workers run tasks")
	f.String("group", "", "groups of this worker, as A,B,…")
	f.String("label", "", "labels of this worker, as NAME=VALUE,…")
	f.String("workers-max", "", "in a cluster: largest number of workers (default 10000)")
	f.String("worker-slots-max", "", "in a cluster: largest number of slots of a worker (default 10000)")
	f.String("dispatch", "", "choice between several free workers: least-loaded | round-robin | random")
	f.String("advertise", "", "in a cluster: URL by which the other nodes reach this one (default: the address of --listen; with port 0, the port that the node got)")
	f.String("heartbeat", "", "in a cluster: time between two heartbeats (default 5s)")
	f.String("lag", "", "in a cluster: silence after which a node counts as dead (default 20s)")
	f.String("registry", "", "in a cluster: etcd or ZooKeeper, which lets the cluster notice dead nodes sooner: etcd://HOST:PORT,…/PATH or zookeeper://…, with TLS etcds:// or zookeepers:// (default none)")
	f.String("registry-away", "", "in a cluster, action of a node whose registry has not answered for --lag: database (the database alone tells which nodes are dead) | stop (default database)")
	f.String("registry-password-file", "", "file with the password of the registry's user; other users must not be able to read the file")
	f.String("on-lease-loss", "", "in a cluster, action of a node that the others declared dead: rejoin | exit (default rejoin)")
	f.String("log-level", "", "debug | info | warn | error")
	f.String("log-format", "", "text | json")
}

func listenFlag(cmd *cobra.Command) {
	cmd.Flags().String("listen", "", "HOST:PORT (default "+config.ListenDefault+", or the next free port)")
}

// say writes a line for people, such as progress or a hint.
func (c *cli) say(format string, args ...any) { fmt.Fprintf(c.err, format+"\n", args...) }

// complain shows an error: the fault, its place, the reason, and the next command to type.
func (c *cli) complain(err error) {
	var end *errEnd
	if err == nil || errors.As(err, &end) {
		return
	}
	if errors.Is(err, errInterrupted) || errors.Is(err, context.Canceled) {
		c.say("interrupted")
		return
	}
	var faults workflow.Errors
	var problem *api.Problem
	switch {
	case errors.As(err, &faults):
		fmt.Fprint(c.err, faults.Error())
		c.say("%s", count(len(faults), "error"))
	case errors.As(err, &problem) && len(problem.Errors) > 0:
		c.say("skein: %s", c.asTyped(err.Error()))
		for _, e := range problem.Errors {
			switch said := strings.Contains(err.Error(), e.Message); {
			case !said:
				c.say("  %s", faultLine(e))
			case e.Hint != "" && !strings.Contains(err.Error(), e.Hint):
				c.say("  → %s", e.Hint)
			}
		}
	default:
		c.say("skein: %s", c.asTyped(err.Error()))
	}
	var h *hinted
	if errors.As(err, &h) {
		c.say("  → %s", h.hint)
	}
}

// asTyped replaces the name of a field, in an error of the API, by the name of the flag that the user has
// typed.
func (c *cli) asTyped(text string) string {
	if c.flags != nil {
		c.flags.Visit(func(f *pflag.Flag) {
			for _, part := range []string{"body.", "query."} {
				text = strings.ReplaceAll(text, part+f.Name+": ", fmt.Sprintf("--%s %s: ", f.Name, f.Value))
				if list, ok := f.Value.(pflag.SliceValue); ok {
					for i, value := range list.GetSlice() {
						text = strings.ReplaceAll(text, fmt.Sprintf("%s%s[%d]: ", part, f.Name, i), fmt.Sprintf("--%s %s: ", f.Name, value))
					}
				}
			}
		})
	}
	return text
}

func faultLine(e api.FileError) string {
	text := e.Message
	switch {
	case e.File != "":
		text = fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, text)
	case e.Key != "":
		text = e.Key + ": " + text
	}
	if e.Hint != "" {
		text += " (" + e.Hint + ")"
	}
	return text
}

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// me returns the user for whom requests are made: the user of the operating system.
func me() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return os.Getenv("USER")
}

// usage returns an error about the command line that the parser could not find.
func usage(format string, args ...any) error { return &said{errUsage, fmt.Sprintf(format, args...)} }

// confirm asks the user before a change that is hard to undo.
func (c *cli) confirm(yes bool, question string) error {
	if yes {
		return nil
	}
	if c.noInput || !c.errTTY || !term.IsTerminal(int(c.in.Fd())) {
		return usage("%s: add --yes to confirm", question)
	}
	fmt.Fprintf(c.err, "%s? [y/N] ", question)
	var answer string
	_, _ = fmt.Fscanln(c.in, &answer)
	if answer = strings.ToLower(answer); answer != "y" && answer != "yes" {
		return &said{errInterrupted, "nothing was done"}
	}
	return nil
}

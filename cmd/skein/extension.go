package main

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"skein.dev/skein/internal/app"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/datadir"
	"skein.dev/skein/internal/extension"
	"skein.dev/skein/internal/kind"
	"skein.dev/skein/internal/kind/house"
	skein "skein.dev/skein/sdk"
	"skein.dev/skein/sdk/shared/output"
)

// extensionTemplate is what init writes.
//
//go:embed extension
var extensionTemplate embed.FS

func extensionCmd(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "extension", Short: "Make, check, try and list extensions: folders of this machine that add kinds of tasks",
		Long: `An extension is a folder with a file extension.yaml, which names kinds of tasks and the programs that run them. Nodes and workers read
the folders of the setting extensions when they start, and on reload.`,
		Example: "  skein extension init mail\n  skein extension test ./mail mail --with '{\"to\": \"ada@example.org\"}'\n  skein extension list",
	}
	needsVerb(cmd)
	cmd.AddCommand(extensionInitCmd(c), extensionCheckCmd(c), extensionListCmd(c), extensionTestCmd(c), extensionReloadCmd(c))
	return cmd
}

// bookOf reads the extensions of this machine.
func bookOf(c *cli) *extension.Book {
	b, _ := house.Book(c.cfg, app.Version())
	return b
}

// kindRow is a kind in a list.
type kindRow struct {
	Kind       string   `json:"kind"`
	Source     bool     `json:"source"` // the kind is a source of events
	Version    string   `json:"version"`
	Extension  string   `json:"extension"` // "" if the kind is a part of Skein
	Folder     string   `json:"folder"`
	Connection []string `json:"connection"`
	Digest     string   `json:"digest"`
	Refused    *string  `json:"refused"`
}

// typesOf lists types of connections, or "" if there is none.
func typesOf(text string) []string {
	if text == "" {
		return []string{}
	}
	return strings.Split(text, ",")
}

func kindRows(b *extension.Book) (rows []kindRow) {
	for _, x := range b.Extensions() {
		row := kindRow{Kind: strings.TrimPrefix(x.Kind, dag.HousePrefix), Version: x.Version, Digest: x.Digest, Connection: typesOf(x.Connection)}
		for _, f := range b.Found() {
			if f.Err == nil && f.Digest == x.Digest && f.Version == x.Version {
				row.Extension, row.Folder = f.Name, f.Folder
			}
		}
		rows = append(rows, row)
	}
	for _, f := range b.Found() {
		if f.Err == nil {
			for _, name := range slices.Sorted(maps.Keys(f.Sources)) {
				rows = append(rows, kindRow{Kind: name, Source: true, Version: f.Version, Extension: f.Name, Folder: f.Folder, Digest: f.Digest, Connection: typesOf(f.Sources[name].Connection)})
			}
		}
		if f.Err != nil {
			why := f.Err.Error()
			rows = append(rows, kindRow{Extension: filepath.Base(f.Folder), Folder: f.Folder, Connection: []string{}, Refused: &why})
		}
	}
	return rows
}

// clusterRow is a kind of the cluster, or a refused folder of extensions.
type clusterRow struct {
	Kind    string   `json:"kind"`
	Origin  string   `json:"origin"`
	Version string   `json:"version"`
	Folder  string   `json:"folder"`
	Members []string `json:"members"`
	Total   int      `json:"total"`
	Refused *string  `json:"refused"`
}

// listCluster lists what nodes and workers of the server have, and what they refuse.
func listCluster(ctx context.Context, c *cli, s *session) error {
	kinds, err := skein.NewKinds(s.Client).List(ctx)
	if err != nil {
		return err
	}
	refused, err := skein.NewKinds(s.Client).Refused(ctx)
	if err != nil {
		return err
	}
	var rows []clusterRow
	for _, k := range kinds {
		rows = append(rows, clusterRow{Kind: k.Kind, Origin: k.Origin, Version: text(k.Version), Members: k.Members, Total: k.Total})
	}
	for _, r := range refused {
		rows = append(rows, clusterRow{Origin: "extension", Folder: r.Folder, Members: r.Members, Total: r.Total, Refused: &r.Why})
	}
	return show(c, rows, func(r clusterRow) string { return r.Kind + r.Folder }, []column[clusterRow]{
		{head: "KIND", get: func(r clusterRow) string { return r.Kind }},
		{head: "FROM", get: func(r clusterRow) string { return r.Origin }},
		{head: "VERSION", get: func(r clusterRow) string { return r.Version }},
		{head: "FOLDER", get: func(r clusterRow) string { return r.Folder }},
		{head: "MEMBERS", get: func(r clusterRow) string {
			if more := r.Total - len(r.Members); more > 0 {
				return fmt.Sprintf("%s and %d more", strings.Join(r.Members, " "), more)
			}
			return strings.Join(r.Members, " ")
		}},
		{head: "STATE", get: func(r clusterRow) string { return refusedText(r.Refused) }},
	})
}

func refusedText(why *string) string {
	if why == nil {
		return ""
	}
	return "refused: " + *why
}

func extensionListCmd(c *cli) *cobra.Command {
	var cluster bool
	cmd := &cobra.Command{
		Use: "list", Short: "List the kinds and sources that nodes and workers of this machine can run, and the extensions that are refused",
		Long: "Lists the kinds of tasks that a node or worker with these settings runs as processes. It reads the folders; a node that runs may have read them before a change.\n" +
			"With --cluster it asks the server instead: for the kinds of all nodes and workers, and the folders that they refuse.",
		Example: "  skein extension list\n  skein extension list --cluster -o json",
		Args:    cobra.NoArgs,
		RunE: c.do(func(ctx context.Context, args []string) error {
			if cluster {
				return c.reading(func(ctx context.Context, s *session, _ []string) error { return listCluster(ctx, c, s) })(ctx, args)
			}
			return show(c, kindRows(bookOf(c)), func(r kindRow) string { return r.Kind }, []column[kindRow]{
				{head: "KIND", get: func(r kindRow) string {
					if r.Source {
						return r.Kind + " (source)"
					}
					return r.Kind
				}},
				{head: "VERSION", get: func(r kindRow) string { return r.Version }},
				{head: "EXTENSION", get: func(r kindRow) string { return r.Extension }},
				{head: "FOLDER", get: func(r kindRow) string { return r.Folder }},
				{head: "STATE", get: func(r kindRow) string { return refusedText(r.Refused) }},
			})
		}),
	}
	extensionsFlag(cmd)
	cmd.Flags().BoolVar(&cluster, "cluster", false, "of all nodes and workers, as the server knows them")
	notSettings(cmd.Flags(), "cluster")
	return cmd
}

// extensionsFlag adds the setting of commands that read extensions.
func extensionsFlag(cmd *cobra.Command) {
	cmd.Flags().String("extensions", "", "folders of extensions, separated by colons, or none (default DATA/extensions:/etc/skein/extensions)")
}

// kindFlags adds the settings of commands that run tasks, for kinds that run as processes.
func kindFlags(cmd *cobra.Command) {
	extensionsFlag(cmd)
	f := cmd.Flags()
	f.String("container-engine", "", "engine for containers: auto (podman, or Docker if podman is missing), podman, docker, unix:///PATH (a socket with Docker's API), or none (default auto)")
	f.String("container-mounts", "", "folders of this machine that containers may mount, as NAME=PATH,… (NAME=PATH:rw: tasks may write there; NAMESPACE/NAME=PATH: for one namespace)")
	f.String("python-environments", "", "room for the environments of Python of one namespace on this machine, as 8Gi (default 4Gi)")
}

// isolationFlags adds the flags for the isolation of tasks.
func isolationFlags(f *pflag.FlagSet) {
	f.String("isolation", "", "isolation of tasks: auto (fence on a new database, none on one of an earlier version) | none (tasks have all rights of the worker's user) | fence (files and processes) | user (also a user for each namespace) | box (also namespaces and a filter of system calls); or several of them, as fence,box: a task gets the lowest one that it may have (default auto)")
	f.String("box-network", "", "network of tasks at the isolation level box: host (the network of the machine) | none (default host)")
	f.String("task-users", "", "users of the machine, with commas, as which namespaces may run their tasks at the isolation levels user and box (skein namespace set NS --run-as USER)")
	f.String("task-uids", "", "user IDs of tasks at the isolation levels user and box, which no user of the machine has (default 1900000000-1900065535)")
}

func extensionCheckCmd(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "check FOLDER…", Short: "Check extensions: the file, its schemas, the programs, owners and modes",
		Long:    "Reads extensions as a node does. Exit code: 0 all good, 6 a fault.",
		Example: "  skein extension check ./mail",
		Args:    cobra.MinimumNArgs(1),
		RunE: c.do(func(_ context.Context, args []string) error {
			var faults error
			for _, folder := range args {
				m, err := checkExtension(folder)
				if err != nil {
					faults = errors.Join(faults, err)
					continue
				}
				fmt.Fprintf(c.out, "%s: %s %s is good, %s\n", folder, m.Name, m.Version, count(len(m.Kinds), "kind"))
			}
			if faults != nil {
				return &said{errInvalid, faults.Error()}
			}
			return nil
		}),
	}
}

// checkExtension reads an extension, and looks for its programs.
func checkExtension(folder string) (*extension.Manifest, error) {
	at, err := filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	m, err := extension.Read(at)
	if err != nil {
		return nil, err
	}
	for name, k := range m.Kinds {
		path := extension.ProgramAt(at, k.Run[0])
		if !strings.Contains(path, "/") {
			continue
		}
		info, err := os.Stat(path)
		switch {
		case err != nil:
			return nil, fmt.Errorf("kind %s: the program cannot be found: %w", name, err)
		case !info.Mode().IsRegular():
			return nil, fmt.Errorf("kind %s: %s is not a file, so it cannot be a program; correct run in %s", name, path, extension.FileName)
		case info.Mode().Perm()&0o111 == 0:
			return nil, fmt.Errorf("kind %s: %s is not a program: chmod +x %s", name, path, path)
		}
	}
	return m, nil
}

func extensionInitCmd(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "init NAME", Short: "Write a first extension: a folder NAME with extension.yaml and a program in Python",
		Example: "  skein extension init mail",
		Args:    cobra.ExactArgs(1),
		RunE: c.do(func(_ context.Context, args []string) error {
			folder := args[0]
			name := filepath.Base(filepath.Clean(folder))
			if err := os.MkdirAll(filepath.Dir(folder), 0o755); err != nil {
				return err
			}
			if err := os.Mkdir(folder, 0o755); errors.Is(err, fs.ErrExist) {
				return &said{errConflict, folder + " exists already: choose another name"}
			} else if err != nil {
				return err
			}
			for _, file := range []string{extension.FileName, "run.py"} {
				text, err := extensionTemplate.ReadFile("extension/" + file)
				if err != nil {
					return err
				}
				mode := fs.FileMode(0o644)
				if file == "run.py" {
					mode = 0o755
				}
				at := filepath.Join(folder, file)
				if err := os.WriteFile(at, []byte(strings.ReplaceAll(string(text), "NAME", name)), mode); err != nil {
					return err
				}
				if err := os.Chmod(at, mode); err != nil { // with a umask such as 002, a group could write the file
					return err
				}
			}
			if err := os.Chmod(folder, 0o755); err != nil {
				return err
			}
			if _, err := checkExtension(folder); err != nil {
				return err
			}
			c.say("wrote %s\n  → skein extension test %s %s --with '{\"text\": \"hello\"}'\n  → move it to a folder of the setting extensions: %s", folder, folder, name, strings.Join(c.cfg.ExtensionFolders(), ", "))
			fmt.Fprintln(c.out, folder)
			return nil
		}),
	}
}

func extensionTestCmd(c *cli) *cobra.Command {
	var with, connection string
	cmd := &cobra.Command{
		Use: "test FOLDER KIND", Short: "Run a kind of an extension once, here and without a node, and show its outputs",
		Long: `Runs the program of a kind with the files and variables that an attempt gives it, in an empty working folder. The log goes to standard
error, the outputs to standard output. Exit code: 0 succeeded, 10 failed.`,
		Example: "  skein extension test ./mail mail --with '{\"to\": \"ada@example.org\"}'",
		Args:    cobra.ExactArgs(2),
		RunE: c.do(func(ctx context.Context, args []string) error {
			t := kindTest{folder: args[0], kind: args[1], with: with, connection: connection}
			return t.run(ctx, c)
		}),
	}
	cmd.Flags().StringVar(&with, "with", "{}", "the input: a JSON object")
	cmd.Flags().StringVar(&connection, "connection", "", "the connection, with the values of its secrets: a JSON object")
	notSettings(cmd.Flags(), "with", "connection")
	return cmd
}

// errKindFailed says that the test of a kind has failed.
var errKindFailed = errors.New("the kind failed")

// kindTest is one run of a kind without a node.
type kindTest struct{ folder, kind, with, connection string }

func (t *kindTest) run(ctx context.Context, c *cli) error {
	m, err := checkExtension(t.folder)
	if err != nil {
		return &said{errInvalid, err.Error()}
	}
	k, ok := m.Kinds[t.kind]
	if !ok {
		return &said{errNotFound, fmt.Sprintf("extension %s has no kind %s", m.Name, t.kind)}
	}
	if err := k.Input.Check(json.RawMessage(t.with), "with", nil); err != nil {
		return &said{errInvalid, err.Error()}
	}
	work, err := os.MkdirTemp("", "skein-extension-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	in := kind.Input{Kind: t.kind, With: json.RawMessage(t.with), Instant: time.Now().UTC().Truncate(time.Second), Namespace: "default", Workflow: "test",
		Run: "test", Task: "test", Token: 1, Key: "test/test"}
	if t.connection != "" {
		in.Connection = json.RawMessage(t.connection)
	}
	raw, err := json.Marshal(&in)
	if err != nil {
		return usage("--with and --connection must be JSON: %v", err)
	}
	at := func(name string) string { return filepath.Join(work, name) }
	if err := errors.Join(os.WriteFile(at("input"), raw, 0o600), os.Mkdir(at("dir"), 0o700)); err != nil {
		return err
	}
	folder, err := filepath.Abs(t.folder) // the process has another working folder
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, extension.ProgramAt(folder, k.Run[0]), k.Run[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = at("dir"), c.err, c.err
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Env = append(os.Environ(), kind.InputVar+"="+at("input"), kind.OutputVar+"="+at("output"),
		"SKEIN_RUN_ID=test", "SKEIN_TASK=test", "SKEIN_ATTEMPT=1", "SKEIN_TOKEN=1", "SKEIN_IDEMPOTENCY_KEY=test/test", "SKEIN_WORKFLOW=test", "SKEIN_NAMESPACE=default")
	return t.ended(c, cmd.Run(), at, k.Outputs)
}

// ended prints how the process ended, and shows its outputs.
func (t *kindTest) ended(c *cli, err error, at func(string) string, types map[string]string) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() != kind.Kept {
		what := map[int]string{kind.Away: ": the other side is away; a node would start it again", kind.Permanent: ": a retry cannot help"}[exit.ExitCode()]
		return &said{errKindFailed, fmt.Sprintf("kind %s failed: %v%s", t.kind, exit, what)}
	}
	if err != nil && exit == nil {
		return err
	}
	data, err := os.ReadFile(at("output"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	all, err := givenOutputs(data, types)
	if err != nil {
		return &said{errKindFailed, err.Error()}
	}
	if all == nil {
		all = json.RawMessage("{}")
	}
	fmt.Fprintln(c.out, string(all))
	return nil
}

// givenOutputs reads outputs by the types in a manifest. These types are only for people: a task itself
// declares which outputs are required.
func givenOutputs(data []byte, types map[string]string) (json.RawMessage, error) {
	all, err := output.Parse(data, nil)
	if err != nil || all == nil {
		return nil, err
	}
	given := map[string]json.RawMessage{}
	if err := json.Unmarshal(all, &given); err != nil {
		return nil, err
	}
	of := map[string]string{}
	for name, is := range types {
		if _, ok := given[name]; ok {
			of[name] = is
		}
	}
	return output.Parse(data, of)
}

// isDev reports whether the arguments of a process are those of skein dev. HUP would end such a process.
func isDev(cmdline []byte) bool {
	for arg := range bytes.SplitSeq(cmdline, []byte{0}) {
		switch string(arg) {
		case "server", "worker":
			return false
		case "dev":
			return true
		}
	}
	return false
}

func extensionReloadCmd(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "reload", Short: "Make the node or worker of the data folder read its extensions again",
		Long:    "Sends HUP to the process that holds the data folder, which also reads its settings again. skein dev is refused: start it again instead. The log of the process says which extensions it uses and which it refuses.",
		Example: "  skein extension reload\n  skein extension reload --data /var/lib/skein",
		Args:    cobra.NoArgs,
		RunE: c.do(func(context.Context, []string) error {
			held, err := datadir.Look(c.cfg.Data)
			if err != nil {
				return err
			}
			if held == nil || held.PID <= 0 {
				return &said{errNotFound, "no node or worker holds the data folder " + c.cfg.Data + ": name another with --data DIR; a node reads its extensions when it starts"}
			}
			if args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", held.PID)); err == nil && isDev(args) {
				return &said{errConflict, fmt.Sprintf("process %d is skein dev, which reads extensions only when it starts: end it with Ctrl-C, and start it again", held.PID)}
			}
			process, err := os.FindProcess(held.PID)
			if err == nil {
				err = process.Signal(syscall.SIGHUP)
			}
			if err != nil {
				return fmt.Errorf("process %d, which holds the data folder %s, cannot be signalled: %w", held.PID, c.cfg.Data, err)
			}
			c.say("process %d reads its extensions again", held.PID)
			return nil
		}),
	}
}

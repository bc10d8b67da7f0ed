package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"skein.dev/skein/examples"
	"skein.dev/skein/internal/app"
	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/datadir"
	"skein.dev/skein/internal/importer"
	skein "skein.dev/skein/sdk"
)

func (c *cli) devCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "dev", Short: "Start a server with the examples loaded",
		Long: `Starts a server with a worker, and loads the examples. The server stores its state in the data folder and can be
reached from this machine only. If another server uses the data folder, the command names it and ends (exit 5).
The server ends when you close its terminal, unless you start it with nohup.`,
		Example: "  skein dev\n  skein dev --data /tmp/try --listen 127.0.0.1:9000",
		Args:    cobra.NoArgs,
		RunE:    c.do(func(ctx context.Context, _ []string) error { return c.serve(ctx, c.welcome) }),
	}
	listenFlag(cmd)
	nodeFlags(cmd)
	return cmd
}

// serve runs the node until a signal arrives. The first signal lets running attempts finish, the second kills
// them, and the third ends the process at once.
func (c *cli) serve(ctx context.Context, ready func(context.Context, *app.Node) error) error {
	cfg := *c.cfg
	if ready != nil { // a person reads this terminal, so only the important lines are shown
		for _, v := range cfg.Values {
			if v.Name == "log_level" && v.Origin == "default" {
				cfg.LogLevel = "warn"
			}
		}
	}
	sig, hup, stopSignals := serverSignals(ready != nil)
	defer stopSignals()
	opening, giveUp := context.WithCancel(ctx)
	defer giveUp()
	node, err := c.openNode(opening, giveUp, &cfg, sig)
	var locked *datadir.LockedError
	if errors.As(err, &locked) {
		return c.alreadyHeld(ctx, locked)
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- node.Run(ctx) }()
	begun := node.Ready()
	for n := 0; ; {
		select {
		case <-begun:
			begun = nil
			settle()
			if ready != nil {
				if err := ready(ctx, node); err != nil {
					c.say("skein: the examples could not be loaded: %v", err)
				}
			}
		case err := <-ended:
			return err
		case <-hup:
			node.Reload(c.load)
		case <-sig:
			switch n++; n {
			case 1:
				if ready != nil {
					c.say("stopping; what runs may finish (at most %s); Ctrl-C again ends it now", cfg.Drain)
				}
				cancel()
			case 2:
				node.Hurry()
			default:
				return errInterrupted
			}
		}
	}
}

// serverSignals returns the signals that end a server, and the signals that make it read its settings
// again. HUP ends skein dev, because it means that the terminal was closed.
func serverSignals(dev bool) (end, reload <-chan os.Signal, stop func()) {
	if dev {
		end, stop = signals(closedTerminal()...)
		return end, nil, stop
	}
	end, stopEnd := signals()
	reload, stopReload := hangups()
	return end, reload, func() {
		stopEnd()
		stopReload()
	}
}

// openMax bounds how long a signal waits until a node that is opening gives up.
const openMax = 10 * time.Second

// openNode opens a node, unless a signal arrives first. Opening may wait for a database.
func (c *cli) openNode(ctx context.Context, giveUp func(), cfg *config.Config, sig <-chan os.Signal) (*app.Node, error) {
	type outcome struct {
		node *app.Node
		err  error
	}
	paceHeap()
	opened := make(chan outcome, 1) // the channel has room for one value, so that a late goroutine can end
	go func() {
		node, err := app.Open(ctx, cfg, config.NewLog(cfg, c.err))
		opened <- outcome{node, err}
	}()
	select {
	case o := <-opened:
		return o.node, o.err
	case <-sig:
	}
	giveUp()
	select {
	case o := <-opened:
		if o.err == nil {
			_ = o.node.Run(ctx) // a call with an ended ctx ends the node
		}
	case <-time.After(openMax):
	}
	return nil, errInterrupted
}

// alreadyHeld names the process that holds the data folder, with its address.
func (c *cli) alreadyHeld(ctx context.Context, locked *datadir.LockedError) error {
	if h, err := datadir.Find(ctx, locked.Data); err == nil && h != nil {
		locked = h
	}
	next := "take another data folder: --data DIR"
	switch {
	case locked.Address != "":
		next = "use it: skein status" + c.dataFlag(locked.Data) + "; or " + next
	case !locked.Worker:
		next = "wait for it, or " + next
	}
	return hint(locked, next)
}

// dataFlag returns the flag by which a command finds the server of a data folder. It returns "" if no flag is
// needed.
func (c *cli) dataFlag(data string) string {
	if c.cfg.Default("data") && data == c.cfg.Data && len(c.cfg.Server) == 0 {
		return ""
	}
	return " --data " + importer.QuoteShell(data)
}

// welcome loads the examples and suggests first commands.
func (c *cli) welcome(ctx context.Context, node *app.Node) error {
	fmt.Fprintf(c.out, "skein %s\n  address  %s\n  data     %s\n", app.Version(), node.URL(), c.cfg.Data)
	if page := app.FirstAddress(node); page != "" {
		fmt.Fprintf(c.out, "  page     %s   (signed in, once; then: %s open)\n", page, program())
	}
	fmt.Fprintf(c.out, "  API docs %s/api/docs   (in a browser that is signed in)\n", node.URL())
	k, err := c.newClient(node.URL(), skein.WithHandler(node.Handler()))
	if err != nil {
		return err
	}
	names, err := c.loadExamples(ctx, &session{Client: k})
	if len(names) > 0 {
		fmt.Fprintf(c.out, "  examples %s\n", strings.Join(names, ", "))
	}
	me := program()
	fmt.Fprintf(c.out, `
Try, in another terminal:
  %[1]s run hello --follow            the smallest one
  %[1]s run job-center -p fail=t4     one task fails; the tasks that need it fail, too, and the others continue
  %[1]s run timezones                 a real report, as CSV and as a page
  %[1]s schedule next                 what starts by itself, and when
  %[1]s status                        and: %[1]s run list, %[1]s logs hello@latest, %[1]s explain RUN
Ctrl-C ends the server; accepted runs continue at the next start.
`, me)
	return err
}

// program returns the command that starts this program: "skein" if PATH finds this program under that name,
// and otherwise the path with which it was started.
func program() string {
	if found, err := exec.LookPath("skein"); err == nil {
		self, _ := os.Executable()
		if a, b := real(found), real(self); a == b {
			return "skein"
		}
	}
	return os.Args[0]
}

func real(path string) string {
	if p, err := filepath.EvalSymlinks(path); err == nil {
		return p
	}
	return path
}

// loadExamples applies every example. It reads them from the checkout in the working folder. If there is no
// checkout, it uses the copies in this program, and unpacks them next to the data folder, which isolated
// tasks cannot reach.
func (c *cli) loadExamples(ctx context.Context, s *session) (names []string, err error) {
	folder := "examples"
	if _, err := os.Stat(filepath.Join(folder, "hello", "workflow.yaml")); err != nil {
		folder = c.cfg.Data + "-examples"
		if err := unpack(examples.FS(), folder); err != nil {
			return nil, err
		}
	}
	files, err := filepath.Glob(filepath.Join(folder, "*", "workflow.yaml"))
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, path := range files {
		d, err := readDefinition(path, c.cfg.TasksMax)
		if err == nil {
			_, err = d.apply(ctx, s)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		names = append(names, d.fullName())
	}
	return names, errors.Join(errs...)
}

// unpack writes the files that are missing or belong to another version. It does not change the files that
// runs have written there.
func unpack(from fs.FS, folder string) error {
	return fs.WalkDir(from, ".", func(path string, entry fs.DirEntry, err error) error {
		to := filepath.Join(folder, path)
		if err != nil || entry.IsDir() {
			return errors.Join(err, os.MkdirAll(to, 0o700))
		}
		content, err := fs.ReadFile(from, path)
		if err != nil {
			return err
		}
		if old, err := os.ReadFile(to); err == nil && bytes.Equal(old, content) {
			return nil
		}
		return os.WriteFile(to, content, 0o600)
	})
}

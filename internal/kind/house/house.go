// Package house lists and runs the kinds of tasks that are built into this program.
package house

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/extension"
	"skein.dev/skein/internal/kind"
	"skein.dev/skein/internal/kind/container"
	"skein.dev/skein/internal/kind/hadoop"
	"skein.dev/skein/internal/kind/python"
	"skein.dev/skein/internal/kind/spark"
	"skein.dev/skein/internal/kind/sql"
	"skein.dev/skein/internal/kind/ssh"
)

// Kinds lists the kinds that are built into this program.
var Kinds = []kind.Kind{container.Kind{}, hadoop.Kind{}, python.Kind{}, spark.Kind{}, sql.Kind{}, ssh.Kind{}}

// Extensions returns the built-in kinds that this machine can run, and why it cannot run the others. settings
// holds the settings of this machine by kind.
func Extensions(settings map[string]json.RawMessage) (all []extension.House, missing map[string]error) {
	missing = map[string]error{}
	for _, k := range Kinds {
		h := extension.House{Kind: dag.HousePrefix + k.Name(), Settings: settings[k.Name()]}
		_, h.Boxed = k.(kind.Boxed)
		_, h.Prepares = k.(kind.Preparer)
		if r, ok := k.(kind.Releaser); ok {
			h.Releases, h.Adopts = true, r.Adopts()
		}
		if c, ok := k.(kind.Connector); ok {
			h.Connection = strings.Join(c.Connections(), ",")
		}
		if n, ok := k.(kind.Needy); ok {
			if err := n.Missing(h.Settings); err != nil {
				missing[k.Name()] = err
				continue
			}
		}
		all = append(all, h)
	}
	return all, missing
}

// Of returns the kind with a name, or nil if there is none.
func Of(name string) kind.Kind {
	for _, k := range Kinds {
		if k.Name() == name {
			return k
		}
	}
	return nil
}

// Main runs `skein kind NAME`. People do not call this command: attempts do. A second argument makes the
// process do something other than the work of a task, such as a release.
func Main(args []string) int {
	if len(args) != 1 && len(args) != 2 {
		fmt.Fprintln(os.Stderr, "skein kind: the command is started by the attempt of a task, with the name of a kind")
		return kind.Permanent
	}
	k := Of(args[0])
	if k == nil {
		fmt.Fprintf(os.Stderr, "skein kind: this program has no kind %.100q\n", args[0])
		return kind.Permanent
	}
	if len(args) == 2 && args[0] == container.Name && args[1] == container.InsideArg {
		return container.Inside()
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if len(args) == 1 {
		return kind.Run(ctx, k)
	}
	if p, ok := k.(kind.Preparer); ok && args[1] == "prepare" {
		return kind.RunPrepare(ctx, p)
	}
	if r, ok := k.(kind.Releaser); ok && args[1] == extension.ReleaseArg {
		return kind.RunRelease(ctx, r)
	}
	fmt.Fprintf(os.Stderr, "skein kind: the kind %s does not know %.100q\n", args[0], args[1])
	return kind.Permanent
}

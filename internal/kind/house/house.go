// Package house lists the kinds of tasks that are part of this program, and runs them.
package house

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"skein.dev/skein/internal/kind"
	"skein.dev/skein/internal/kind/container"
	"skein.dev/skein/internal/kind/sql"
)

// Kinds are the kinds of this program.
var Kinds = []kind.Kind{container.Kind{}, sql.Kind{}}

// Of returns the kind of a name; nil: there is none.
func Of(name string) kind.Kind {
	for _, k := range Kinds {
		if k.Name() == name {
			return k
		}
	}
	return nil
}

// Main runs `skein kind NAME`, which is no command for people: attempts start it.
func Main(args []string) int {
	if len(args) != 1 {
		fmt.Fprintln(os.Stderr, "skein kind: the command is started by the attempt of a task, with the name of a kind")
		return kind.Permanent
	}
	k := Of(args[0])
	if k == nil {
		fmt.Fprintf(os.Stderr, "skein kind: this program has no kind %.100q\n", args[0])
		return kind.Permanent
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	return kind.Run(ctx, k)
}

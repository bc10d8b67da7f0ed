// Command skein-plus has the sources of events whose clients are large. A node finds it next to its own
// program, and starts it once for each trigger: skein-plus source NAME.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"skein.dev/skein/internal/feed"
	"skein.dev/skein/internal/stamp"
	"skein.dev/skein/plus/kafka"
)

// sources are the sources of this program.
var sources = map[string]func(context.Context, *feed.Feed) error{
	"kafka": kafka.Main,
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code := feed.Away
		var e *feed.Error
		if errors.As(err, &e) {
			code = e.Code
		}
		os.Exit(code)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 1 && args[0] == "version":
		fmt.Println(stamp.Build())
		return nil
	case len(args) == 2 && args[0] == "source" && sources[args[1]] != nil:
		return source(args[1])
	}
	return &feed.Error{Code: feed.Permanent, Err: errors.New("a node of Skein starts this program: skein-plus source kafka; skein-plus version prints its version")}
}

func source(name string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	f, ctx, err := feed.Open(ctx, os.Stdin, os.Stdout)
	if err != nil {
		return &feed.Error{Code: feed.Permanent, Err: err}
	}
	if is := stamp.Build(); f.Start.Version != is {
		return &feed.Error{Code: feed.Permanent, Err: fmt.Errorf("skein-plus %s is next to skein %.60q: install both programs of one release", is, f.Start.Version)}
	}
	return sources[name](ctx, f)
}

// Package clients runs the clients of brokers: in the program skein-plus, or in skein if it was built with
// the tag plus.
package clients

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"skein.dev/skein/internal/feed"
	"skein.dev/skein/internal/stamp"
	"skein.dev/skein/plus/amqp"
	"skein.dev/skein/plus/kafka"
	"skein.dev/skein/plus/mqtt"
	"skein.dev/skein/plus/nats"
	"skein.dev/skein/plus/redis"
	"skein.dev/skein/plus/sqs"
)

// client is the client of a broker.
type client struct {
	source func(context.Context, *feed.Feed) error
	// test uses a connection once, and returns a description of the broker.
	test func(context.Context, *feed.Start) (string, error)
}

// clients maps the names of sources, which are also the types of connections, to their clients.
var clients = map[string]client{
	"kafka": {kafka.Main, kafka.Test},
	"nats":  {nats.Main, nats.Test},
	"redis": {redis.Main, redis.Test},
	"mqtt":  {mqtt.Main, mqtt.Test},
	"amqp":  {amqp.Main, amqp.Test},
	"sqs":   {sqs.Main, sqs.Test},
}

// Main runs one client: source NAME, or test TYPE. It returns the exit code.
func Main(args []string) int {
	err := run(args)
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, err)
	var e *feed.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return feed.Away
}

func run(args []string) error {
	switch {
	case len(args) == 1 && args[0] == "version":
		fmt.Println(stamp.Build())
		return nil
	case len(args) == 2 && (args[0] == "source" || args[0] == "test"):
		if is, ok := clients[args[1]]; ok {
			return is.run(args[0] == "test")
		}
	}
	return &feed.Error{Code: feed.Permanent, Err: errors.New("a node of Skein starts this program: skein-plus source kafka; skein-plus version prints its version")}
}

func (c client) run(test bool) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	f, fed, err := feed.Open(ctx, os.Stdin, os.Stdout)
	if err != nil {
		return &feed.Error{Code: feed.Permanent, Err: err}
	}
	if is := stamp.Build(); f.Start.Version != is {
		return &feed.Error{Code: feed.Permanent, Err: fmt.Errorf("skein-plus %s is next to skein %.60q: install both programs of one release", is, f.Start.Version)}
	}
	if !test {
		return c.source(fed, f)
	}
	found, err := c.test(ctx, &f.Start)
	if err == nil {
		fmt.Println(found)
	}
	return err
}

package skein_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

// Apply a workflow, run it to its end, and show what its tasks wrote.
func Example() {
	ctx := context.Background()
	c, err := skein.New("http://127.0.0.1:8080")
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	src := "name: hello\ntasks:\n  greet: {run: echo hello}\n"
	if _, err := c.Apply(ctx, "hello", api.ApplyRequest{Source: src}); err != nil {
		log.Fatal(err)
	}
	run, _, err := c.Start(ctx, api.RunRequest{Workflow: "hello"}, skein.Key("order-4711"), skein.Wait(time.Minute))
	var refused *skein.Error
	if errors.As(err, &refused) {
		for _, e := range refused.Problem.Errors {
			fmt.Println(e.Key, e.Message)
		}
	}
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.ID, run.State)
	for task, err := range c.EachTask(ctx, run.ID) {
		if err != nil {
			log.Fatal(err)
		}
		l, err := c.Logs(ctx, run.ID, task.Name, skein.LogQuery{})
		if errors.Is(err, skein.ErrNotFound) {
			continue // the attempt never started
		}
		if err != nil {
			log.Fatal(err)
		}
		_, _ = io.Copy(os.Stdout, l)
		l.Close()
	}
}

// Ship an order: either both the order and the run that ships it exist, or neither. With pgx, use EnqueueTx
// instead. The rest is the same.
func ExampleEnqueueSQL() {
	ship := func(ctx context.Context, db *sql.DB, order int) (string, error) {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return "", err
		}
		defer tx.Rollback()
		if _, err := tx.ExecContext(ctx, "INSERT INTO orders (id) VALUES ($1)", order); err != nil {
			return "", err
		}
		run, err := skein.EnqueueSQL(ctx, tx, skein.Enqueue{Workflow: "ship-order",
			Params: map[string]any{"order": order}, Key: fmt.Sprintf("order-%d", order)})
		if err != nil {
			return "", err
		}
		return run, tx.Commit()
	}
	_ = ship // the program calls it for each order
}

// Watch a run: subscribe first and read afterwards, so that no change is missed.
func ExampleClient_Watch() {
	ctx := context.Background()
	c, err := skein.New("http://127.0.0.1:8080")
	if err != nil {
		log.Fatal(err)
	}
	w, err := c.Watch(ctx, skein.WatchQuery{Workflows: []string{"hello"}})
	if err != nil {
		log.Fatal(err)
	}
	defer w.Close()
	for change, err := range w.Changes() {
		if err != nil {
			log.Fatal(err)
		}
		if change.Reset {
			continue // changes may be missing: read again what you show
		}
		for _, e := range change.Events {
			fmt.Println(change.Workflow, change.Run, e.Kind)
		}
	}
}

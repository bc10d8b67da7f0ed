// Command sdk is a worker and its client in one program: it runs tasks of two kinds, builds a workflow of
// them, runs it and reads the outputs. See README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"strings"
	"time"

	skein "skein.dev/skein/sdk"
)

// Order is the input of the kind orders.price, and Price is its result.
type (
	Order struct {
		Item  string `json:"item"`
		Count int    `json:"count"`
	}
	Price struct {
		Cents int    `json:"cents"`
		Text  string `json:"text"`
	}
	Invoice struct {
		Lines []string `json:"lines"`
		Cents []int    `json:"cents"`
	}
	Total struct {
		Cents int `json:"cents"`
	}
)

var prices = map[string]int{"bread": 320, "butter": 275}

func price(_ context.Context, t *skein.Task, o Order) (Price, error) {
	each, ok := prices[o.Item]
	if !ok {
		return Price{}, skein.Permanent(fmt.Errorf("%s is not for sale", o.Item)) // a retry would not find it either
	}
	t.Logger().Info("priced", "item", o.Item, "attempt", t.Attempt, "key", t.IdempotencyKey)
	return Price{each * o.Count, fmt.Sprintf("%d × %s", o.Count, o.Item)}, nil
}

func invoice(_ context.Context, t *skein.Task, in Invoice) (Total, error) {
	var sum Total
	for i, cents := range in.Cents {
		if err := t.Progress(int64(i+1), int64(len(in.Cents)), in.Lines[i]); err != nil {
			return sum, err // the attempt must end
		}
		sum.Cents += cents
	}
	return sum, nil
}

// shop returns the workflow. It computes two prices at the same time, and then their sum.
func shop() *skein.Workflow {
	return skein.NewWorkflow("shop").
		Param("count", "int", 2).
		Task("bread").Kind("orders.price", map[string]any{"item": "bread", "count": "${{ params.count }}"}).Outputs(Price{}).Retry(3, time.Second).
		Task("butter").Kind("orders.price", Order{"butter", 1}).Outputs(Price{}).
		Task("invoice").Needs("bread", "butter").Timeout(time.Minute).Outputs(Total{}).
		Kind("orders.invoice", map[string]any{
			"lines": []string{"${{ tasks.bread.outputs.text }}", "${{ tasks.butter.outputs.text }}"},
			"cents": []string{"${{ tasks.bread.outputs.cents }}", "${{ tasks.butter.outputs.cents }}"},
		}).Workflow()
}

// register gives a worker the task functions. The tests call it, too.
func register(w *skein.Worker) {
	skein.Handle(w, "orders.price", price)
	skein.Handle(w, "orders.invoice", invoice)
}

func run(ctx context.Context, server, token string, out io.Writer) error {
	w := skein.NewWorker(server, skein.WorkerOptions{Token: token})
	register(w)
	working, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(working) }()

	err := order(ctx, server, token, out)
	stop() // the worker drains, and leaves the cluster
	return errors.Join(err, <-ended)
}

func order(ctx context.Context, server, token string, out io.Writer) error {
	first, _, _ := strings.Cut(server, ",")
	c, err := skein.New(first, skein.WithToken(token))
	if err != nil {
		return err
	}
	defer c.Close()
	wf := shop()
	if _, err := wf.Apply(ctx, c); err != nil {
		return err
	}
	r, err := wf.Start(ctx, c, map[string]any{"count": 3})
	if err != nil {
		return err
	}
	if r, err = c.WaitRun(ctx, r.ID); err != nil {
		return err
	}
	total, err := skein.Outputs[Total](ctx, c, r.ID, "invoice")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "run %s: %d cents\n", r.State, total.Cents)
	return err
}

func main() {
	server := flag.String("server", "http://127.0.0.1:8080", "nodes, with commas between")
	token := flag.String("token", os.Getenv("SKEIN_API_TOKEN"), "where the nodes ask for one")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *server, *token, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

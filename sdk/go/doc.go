// Package skein is a client and a worker for Skein, a distributed scheduler of DAGs.
//
//	c, err := skein.New("http://127.0.0.1:8080")
//	run, started, err := c.Start(ctx, api.RunRequest{Workflow: "nightly-orders"}, skein.Wait(30*time.Second))
//
// A program can also do the work. A [Worker] runs typed task functions for a cluster.
//
//	w := skein.NewWorker("http://node-1:8080,http://node-2:8080", skein.WorkerOptions{})
//	skein.Handle(w, "vm.create", func(ctx context.Context, t *skein.Task, in VM) (Created, error) { … })
//	err := w.Run(ctx)
//
// With a [Client], a program can do everything that a person can do on the command line. Package api/v1 has
// the types on the wire.
package skein

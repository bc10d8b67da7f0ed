// Package skein is a client and a worker for Skein, a distributed scheduler of DAGs.
//
//	c, err := skein.New("http://127.0.0.1:8080")
//	run, started, err := c.Start(ctx, api.RunRequest{Workflow: "nightly-orders"}, skein.Wait(30*time.Second))
//
// A program can also do the work: a [Worker] runs handlers of typed tasks for a cluster.
//
//	w := skein.NewWorker("http://node-1:8080,http://node-2:8080", skein.WorkerOptions{})
//	skein.Handle(w, "vm.create", func(ctx context.Context, t *skein.Task, in VM) (Created, error) { … })
//	err := w.Run(ctx)
//
// Everything that a person can do with the command line, a program can do with a [Client]. The types on the
// wire are those of the package api/v1.
package skein

// Package skein talks to a Skein server, a distributed DAG job scheduler.
//
//	c, err := skein.New("http://127.0.0.1:8080")
//	run, started, err := c.Start(ctx, api.RunRequest{Workflow: "nightly-orders"}, skein.Wait(30*time.Second))
//
// Everything that a person can do with the command line, a program can do with a [Client].
// The types on the wire are those of the package api/v1.
package skein

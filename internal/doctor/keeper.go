package doctor

import (
	"context"
	"log/slog"

	"skein.dev/skein/internal/worker"
)

// checkKeeper runs a task in the given folder with a keeper of its own. It does not use the node's keeper,
// which may be busy.
func checkKeeper(ctx context.Context, dir string) (containment, keeper Check) {
	containment, keeper = Check{Name: "containment", State: Good}, Check{Name: "keeper", State: Good}
	ended := make(chan worker.Result, 1)
	l, _, err := worker.Connect(ctx, worker.LinkConfig{Config: worker.Config{DataDir: dir, Slots: 1, Log: slog.New(slog.DiscardHandler),
		Report: func(rs ...worker.Result) { ended <- rs[0] }}})
	if err != nil {
		keeper.State, keeper.Found = Bad, err.Error()
		keeper.Remedy = "a server needs to start a second process of this program, and a data folder on a file system with sockets"
		containment.State, containment.Found = Warning, "not known without a keeper"
		return containment, keeper
	}
	defer l.End()
	containment.Found = l.Containment()
	l.Begin()
	l.Start(worker.Job{Key: worker.Key{Namespace: "skein", Workflow: "doctor", RunID: "doctor", Task: "true", Attempt: 1}, Argv: []string{"true"}})
	r := <-ended
	keeper.Found = "it runs tasks, and outlives the server"
	if r.State != worker.Succeeded {
		keeper.State, keeper.Found = Bad, "the program `true` "+r.State+": "+r.Message
	}
	return containment, keeper
}

// Command skein runs graphs of tasks: see `skein help`.
package main

import (
	"fmt"
	"os"
	"runtime"

	"skein.dev/skein/internal/app"
	"skein.dev/skein/internal/threads"
)

func main() {
	_ = threads.Calm()                              // if that may not be, all works as well, and skein doctor says what it costs
	if len(os.Args) > 1 && os.Args[1] == "keeper" { // no command for people: a server starts it
		os.Exit(app.KeeperMain(os.Args[2:]))
	}
	// A fork holds one of the runtime's processors without using it, until the child has called exec. With
	// one per core, whatever else has to be done waits for that.
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(2 * runtime.NumCPU())
	}
	args, err := app.HideSecrets(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "skein:", err)
	}
	os.Exit(run(args))
}

// Command skein runs graphs of tasks: see `skein help`.
package main

import (
	"fmt"
	"os"
	"runtime"

	"skein.dev/skein/internal/app"
	"skein.dev/skein/internal/box"
	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/kind/house"
	programs "skein.dev/skein/internal/stamp"
	"skein.dev/skein/internal/threads"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "kind" { // people do not use this command: the attempt of a task starts it
		os.Exit(house.Main(os.Args[2:]))
	}
	if len(os.Args) == 2 && os.Args[1] == box.Name { // people do not use this command: a keeper starts the init of a box
		os.Exit(box.Main())
	}
	if plusMain != nil && len(os.Args) > 1 && os.Args[1] == programs.PlusCommand { // people do not use this command: a node starts it
		os.Exit(plusMain(os.Args[2:]))
	}
	_ = threads.Calm() // if the kernel refuses this, short tasks cost more, and skein doctor says how much
	args, err := config.HideSecrets(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "skein:", err)
	}
	if len(args) > 0 && args[0] == "keeper" { // people do not use this command: a server starts the keeper
		os.Exit(app.KeeperMain(args[1:]))
	}
	// A fork occupies one of the runtime's processors without using it, until the child has called exec. If there
	// were only one for each core, all other work would wait for the forks.
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(2 * runtime.NumCPU())
	}
	os.Exit(run(args))
}

// Command skein runs graphs of tasks: see `skein help`.
package main

import (
	"os"
	"runtime"
)

func main() {
	// A fork holds one of the runtime's processors without using it, until the child has called exec. With
	// one per core, whatever else has to be done waits for that.
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(2 * runtime.NumCPU())
	}
	os.Exit(run(os.Args[1:]))
}

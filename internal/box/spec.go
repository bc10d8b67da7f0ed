//go:build linux

package box

import "skein.dev/skein/internal/fence"

// Spec describes a box. Paths are absolute.
type Spec struct {
	Fence fence.Spec // the files that the task reaches; they are at their own paths
	Tmp   string     // the folder that is /tmp
	// Net gives the task the network of the machine; otherwise it has only a loopback interface of its own.
	Net bool
	// UID is the user ID of the task, and GID the ID of its only group.
	UID, GID uint32

	Path string
	Argv []string
	Env  []string
	Dir  string

	Given bool // the task gets the file of the descriptor fence.Given; Start sets it
	// Bounds are the limits of the task. Start sets them.
	Bounds [3]fence.Bound
}

// answer is a line that the init writes.
type answer struct {
	Started bool   `json:",omitempty"`
	Status  uint32 `json:",omitempty"` // wait status of the ended task
	Ended   bool   `json:",omitempty"`
	Error   string `json:",omitempty"` // why the task was not started
	Errno   int    `json:",omitempty"` // error number of the exec; 0 if the box could not be made
}

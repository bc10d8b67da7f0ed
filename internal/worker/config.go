package worker

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"skein.dev/skein/internal/artifact"
)

// Config is what a Worker needs. Only DataDir and Report are required.
type Config struct {
	DataDir string   // logs and work folders lie here; locked by the caller for the life of the Worker
	Slots   int      // attempts at once; 0 = two per core
	PassEnv []string // further names of the node's environment that tasks get
	LogMax  int64    // bytes of log kept per attempt; 0 = 1 GiB
	Log     *slog.Logger

	// Report is called once per attempt that was given to Start, from the attempt's goroutine, after
	// everything of it has gone and its slot is free: it may call Start. A Link gives together what it
	// hears together.
	Report func(...Result)
	// Started is called at most once per attempt, when it has run for 1 s. It must not block: the attempt
	// is not watched meanwhile.
	Started func(Key, time.Time)

	// Room, if not nil, is called by a Link with the reason when the data folder has no room for attempts any
	// more, and with "" when it has room again. A Link calls it before it reports an attempt that met a full disk
	// with CauseRoom.
	Room func(why string)

	// Store is where artifacts are kept that belong into a folder; nil: files in that folder.
	Store func(folder string) artifact.Store

	// Isolation is the level at which processes run: IsolationNone ("" is the same) or IsolationFence.
	Isolation string
	// Protected are absolute paths that no task may reach at the level fence, besides DataDir.
	Protected []string

	// GroupsOnly never uses cgroups.
	GroupsOnly bool
}

// Levels of isolation, of Config.Isolation.
const (
	IsolationNone  = "none"  // a task may do what the worker's user may
	IsolationFence = "fence" // and reaches only the files that package fence leaves it
)

// realPath is a data folder absolute and without links, so that every life writes it alike.
func realPath(dir string) (string, error) {
	data, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("find the data folder: %w", err)
	}
	if data, err = filepath.EvalSymlinks(data); err != nil {
		return "", fmt.Errorf("find the data folder: %w", err)
	}
	return data, nil
}

// Files of a keeper in <data>/work.
const (
	keeperFiles   = "keeper." // begins the names of all
	keeperSocket  = "keeper.sock"
	keeperLock    = "keeper.lock" // held as long as the keeper lives; its pid is in it
	keeperJournal = "keeper.journal"
	keeperLog     = "keeper.log" // its log lines while no worker is connected
)

// LeaseDefault is how long attempts outlive the last renewal.
const LeaseDefault = 15 * time.Second

const (
	// greetMax is how long the other side of a connection may take for its first words.
	greetMax = 10 * time.Second
	// endLimit bounds the wait for killed processes. Only one that hangs inside the kernel takes longer.
	endLimit = 10 * time.Second
)

// Mode says how an attempt is stopped. A higher one replaces a lower one.
type Mode int

// Modes.
const (
	ModeTerm  Mode = 1 + iota // TERM to the tree, after KillGrace KILL
	ModeKill                  // KILL at once
	modeClose                 // KILL at once, because the worker closes
	modeLease                 // KILL at once, because the lease was not renewed
)

package worker

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"skein.dev/skein/internal/artifact"
)

// Config holds the settings of a Worker. Only DataDir and Report are required.
type Config struct {
	// Folder of logs and work folders; the caller must hold its lock as long as the Worker exists.
	DataDir string
	Slots   int      // concurrent attempts; 0 means two per core
	PassEnv []string // names of further variables of the node's environment that tasks get
	LogMax  int64    // bytes of log kept per attempt; 0 means 1 GiB
	Log     *slog.Logger

	// Report is called once for each attempt that was given to Start, from the attempt's goroutine. By then
	// the attempt has no processes or files and its slot is free, so Report may call Start. If a Link
	// receives several results together, it passes them in one call.
	Report func(...Result)
	// Started is called for each attempt after 1 s, and when the attempt has named its handle. handle is ""
	// until then. Started must not block, because the attempt is not watched during the call.
	Started func(k Key, at time.Time, handle string, adopts bool)

	// Room, if not nil, is called by a Link with the reason when the data folder is too full for attempts,
	// and with "" when it has space again. A Link calls it before it reports an attempt that ended with
	// CauseRoom.
	Room func(why string)

	// Store returns the store for the artifacts of a folder. If it is nil, they are stored as files in that
	// folder.
	Store func(folder string) artifact.Store

	// Isolation is the least level at which processes run, one of Levels. "" means IsolationNone.
	Isolation string
	// Levels lists all levels at which processes can run, if there are several. See Job.Isolation.
	Levels []string
	// IsolationAuto makes an attempt run at Job.IsolationDefault, or at a higher level that it requires.
	// Levels are then IsolationNone and, if this machine can isolate tasks, IsolationFence.
	IsolationAuto bool
	// Users are the users of the machine that a job may name, see Job.User.
	Users []string
	// UIDs holds the user IDs for tasks at the level user and above.
	UIDs UIDRange
	// ClosedBoxes gives tasks at the level box no network but a loopback interface of their own.
	ClosedBoxes bool
	// Protected lists absolute paths that no task may reach at the level fence and above. DataDir is always
	// protected.
	Protected []string

	// GroupsOnly never uses cgroups.
	GroupsOnly bool
}

// realPath returns the absolute path of a data folder without links, so that every process uses the same
// path.
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

// Names of a keeper's files in <data>/work.
const (
	keeperFiles   = "keeper." // prefix of the names of all files of the keeper
	keeperSocket  = "keeper.sock"
	keeperLock    = "keeper.lock" // locked by the keeper; contains its pid
	keeperJournal = "keeper.journal"
	keeperLog     = "keeper.log" // the keeper's log lines while no worker is connected
)

// LeaseDefault is the time for which attempts outlive the last renewal.
const LeaseDefault = 15 * time.Second

const (
	// greetMax bounds the time until the first message on a connection.
	greetMax = 10 * time.Second
	// endLimit bounds the wait for killed processes. Only a process that hangs inside of the kernel takes
	// longer.
	endLimit = 10 * time.Second
)

// Mode is the way in which an attempt is stopped. A higher mode replaces a lower one.
type Mode int

// Modes of Worker.Stop.
const (
	ModeTerm  Mode = 1 + iota // TERM to the tree, and KILL after KillGrace
	ModeKill                  // KILL at once
	modeClose                 // KILL at once, because the worker closes
	modeLease                 // KILL at once, because the lease was not renewed
)

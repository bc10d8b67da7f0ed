//go:build !linux

package worker

import (
	"context"
	"fmt"
	"math"
	"net"
	"os"
	"runtime"
	"time"
)

// ErrSystem means that attempts cannot run on this system.
var ErrSystem = fmt.Errorf("this system (%s) runs no tasks yet: servers and workers need Linux; "+
	"use skein as a client here, with --server URL", runtime.GOOS)

// Supported returns an error if this system cannot run attempts.
func Supported() error { return ErrSystem }

// wire is a connection to a keeper. This system has no keepers.
type wire struct{ *net.UnixConn }

// peer is a keeper as its worker sees it. This system has no keepers.
type peer struct {
	*stream
	pid  int
	gone chan struct{}
}

func (p *peer) kill()                  {}
func (p *peer) farewell(time.Duration) {}

// complete refuses every configuration.
func (cfg *Config) complete() error { return ErrSystem }

func (l *Link) find(context.Context) (*peer, *welcome, error) { return nil, nil, ErrSystem }

func crowded(string, bool) string { return "" }

// KeeperMain refuses to hold attempts.
func KeeperMain([]string) int {
	fmt.Fprintln(os.Stderr, "skein keeper:", ErrSystem)
	return 1
}

var started = time.Now()

// Boot returns the time since this process started.
func Boot() time.Duration { return time.Since(started) }

// Fences returns an error, because this system cannot isolate tasks.
func Fences() (string, error) { return "", ErrSystem }

// Offers returns an error for each level but none.
func Offers(level, _ string, _ UIDRange) error {
	if level == IsolationNone || level == "" {
		return nil
	}
	return ErrSystem
}

// OffersUsers returns nil, because Offers refuses the levels that have users.
func OffersUsers([]string, []string, UIDRange) error { return nil }

// ProbeBox returns an error, because this system cannot isolate tasks.
func ProbeBox(UIDRange) error { return ErrSystem }

// Cores returns 0: the number of cores for tasks is unknown.
func Cores() int64 { return 0 }

// Memory returns 0: the memory for tasks is unknown.
func Memory() int64 { return 0 }

// MemoryLimit returns no limit.
func MemoryLimit() int64 { return math.MaxInt64 }

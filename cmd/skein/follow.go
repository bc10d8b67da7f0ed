package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	skein "skein.dev/skein/sdk"
)

type logID struct {
	run, task string
	attempt   int
}

const (
	followMax    = 64      // the number of logs that are read at once; other logs wait
	followedLine = 4 << 10 // longer lines are shown in pieces
)

// follower shows the logs of attempts as they grow, line by line, each with the name of its task.
type follower struct {
	screen *screen
	out    io.Writer     // nil if the lines are shown on the screen
	turns  chan struct{} // cap followMax
	wg     sync.WaitGroup

	mu   sync.Mutex // protects following fields
	seen map[logID]bool
	wide int // the width of the longest name so far
}

func newFollower(s *screen) *follower {
	return &follower{screen: s, turns: make(chan struct{}, followMax), seen: map[logID]bool{}}
}

// follow shows a log until its attempt ends. It shows each log only once.
func (f *follower) follow(ctx context.Context, s *session, id logID) {
	f.mu.Lock()
	known := f.seen[id]
	f.seen[id] = true
	f.wide = min(max(f.wide, len(id.task)), 24)
	f.mu.Unlock()
	if known {
		return
	}
	f.wg.Go(func() {
		f.turns <- struct{}{}
		defer func() { <-f.turns }()
		f.copy(context.WithoutCancel(ctx), s, id)
	})
}

func (f *follower) copy(ctx context.Context, s *session, id logID) {
	log, err := s.Logs(ctx, id.run, id.task, skein.LogQuery{Attempt: id.attempt, Follow: true})
	if err != nil {
		if !errors.Is(err, skein.ErrNotFound) && !notHere(err) {
			f.screen.print("log of %s: %v", id.task, err)
		}
		return
	}
	defer log.Close()
	lines := bufio.NewReaderSize(log, followedLine)
	for {
		line, err := lines.ReadSlice('\n')
		if len(line) > 0 {
			f.print(id.task, printable(string(line)))
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return // the log or the server has ended, which the watch reports
		}
	}
}

func (f *follower) print(task, line string) {
	f.mu.Lock()
	pad := strings.Repeat(" ", max(0, f.wide-len(task)))
	f.mu.Unlock()
	if f.out == nil {
		f.screen.print("%s%s │ %s", task, pad, line)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	fmt.Fprintf(f.out, "%s%s │ %s\n", task, pad, line)
}

// printable replaces characters that could move the cursor out of the line.
func printable(s string) string {
	s = strings.TrimRight(s, "\r\n")
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' && r != '\x1b' || r == 0x7f {
			return '·'
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// wait returns when every log has been shown.
func (f *follower) wait() {
	if f != nil {
		f.wg.Wait()
	}
}

// tail reads the last lines of an attempt's log.
func tail(ctx context.Context, s *session, run, task string, lines int) []string {
	const bytesMax = 4 << 10
	log, err := s.Logs(ctx, run, task, skein.LogQuery{Offset: -bytesMax})
	if err != nil {
		return nil
	}
	defer log.Close()
	b, err := io.ReadAll(io.LimitReader(log, bytesMax))
	if err != nil || len(b) == 0 {
		return nil
	}
	all := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
	if log.Offset > 0 && len(all) > 1 {
		all = all[1:] // the text begins in the middle of a line
	}
	all = all[max(0, len(all)-lines):]
	for i := range all {
		all[i] = printable(all[i])
	}
	return all
}

//go:build linux

package worker

import "time"

// tell sends the news as long as a connection is the worker's connection.
func (k *keeper) tell(s *stream) {
	var last time.Time // the time of the last message
	gather := false
	patience := time.NewTimer(0)
	defer patience.Stop()
	for {
		k.mu.Lock()
		mine, out := k.conn == s, k.out
		since := time.Since(last)
		gather = mine && (since < denseMax || gather && since < gatherMax) && k.gathers()
		k.gathering = gather
		if mine && !gather {
			k.out = news{}
		}
		k.mu.Unlock()
		switch {
		case !mine:
			k.rouseNext()
			return
		case gather:
			patience.Reset(gatherMax - since)
		case out.said():
			if err := s.write(&out); err != nil {
				_ = s.conn.Close() // the reader notices
			}
			last = time.Now()
			continue
		}
		select {
		case <-k.wake:
		case <-patience.C:
		case <-k.over:
			return
		}
	}
}

// gatherMax bounds how long an end waits after the last message, so that further ends can share its message.
// An end waits only if it came within denseMax of the last message, because then further ends are likely to
// follow at once. The ends of a chain of tasks, or of long tasks, are further apart.
const (
	gatherMax = 5 * time.Millisecond
	denseMax  = 2 * time.Millisecond
)

// gathers reports whether news may wait for more news. Each message causes a transaction of the worker, which
// costs about as much as a short attempt. Only ends may wait, and only while at least as many attempts are
// still running as ends wait. Those attempts keep the machine busy.
func (k *keeper) gathers() bool {
	n := len(k.out.Results)
	return n > 0 && n <= len(k.running) && k.out.Welcome == nil && k.out.Pong == 0 && len(k.out.Started)+len(k.out.Lines) == 0
}

// rouseNext passes a wake-up on to a newer connection.
func (k *keeper) rouseNext() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.conn != nil {
		k.rouse()
	}
}

func (n *news) said() bool {
	return n.Welcome != nil || n.Pong != 0 || len(n.Started)+len(n.Results)+len(n.Lines) > 0
}

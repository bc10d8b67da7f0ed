package server

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"skein.dev/skein/internal/dag"
)

// Neighbours gives a stream of events access to the other nodes of a cluster. A node gets the commits of
// other nodes only by requests.
type Neighbours interface {
	// Others lists the present other nodes.
	Others() []dag.HandlerID
	// Events opens the stream of another node's own commits. When it returns, the stream has begun.
	Events(ctx context.Context, node dag.HandlerID, query url.Values) (io.ReadCloser, error)
}

const (
	// relayLook is the interval at which the members are read.
	relayLook = 500 * time.Millisecond
	// relayOpen bounds how long a stream waits for another node when it begins.
	relayOpen = 2 * time.Second
	// framesMax bounds the changes of other nodes that wait for a client. At this number, the goroutines that
	// read from the other nodes wait, too.
	framesMax = 64
	// frameBytesMax bounds one change.
	frameBytesMax = 16 << 20
)

var errFrame = errors.New("a change of another node is too large")

// relay adds the commits of other nodes to a stream.
type relay struct {
	of     Neighbours
	query  url.Values
	frames chan []byte // in the order of arrival; nil if the client must read the state again

	late atomic.Bool // the stream has begun without some nodes: commits of a node that answers only now may be missing

	wg   sync.WaitGroup
	mu   sync.Mutex // protects following fields
	open map[dag.HandlerID]context.CancelFunc
}

// relayed makes a relay that begins with all nodes that answer within relayOpen. It misses the commits that
// other nodes make before they answer. The stream then tells the client that changes may be missing.
func relayed(ctx context.Context, of Neighbours, query url.Values) *relay {
	r := &relay{of: of, query: query, frames: make(chan []byte, framesMax), open: map[dag.HandlerID]context.CancelFunc{}}
	var begun sync.WaitGroup
	for _, h := range of.Others() {
		begun.Add(1)
		r.follow(ctx, h, sync.OnceFunc(begun.Done))
	}
	all := make(chan struct{})
	go func() {
		begun.Wait()
		close(all)
	}()
	select {
	case <-all:
	case <-time.After(relayOpen):
	case <-ctx.Done():
	}
	r.late.Store(true)
	r.wg.Go(func() { r.look(ctx) })
	return r
}

// push passes a frame on. ctx is the context of the stream.
func (r *relay) push(ctx context.Context, frame []byte) {
	select {
	case r.frames <- frame:
	case <-ctx.Done():
	}
}

// look opens the streams of new members. It closes the streams of members that are gone, because a frozen
// node does not close its own stream.
func (r *relay) look(ctx context.Context) {
	tick := time.NewTicker(relayLook)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		there := map[dag.HandlerID]bool{}
		for _, h := range r.of.Others() {
			there[h] = true
			r.mu.Lock()
			followed := r.open[h] != nil
			r.mu.Unlock()
			if !followed {
				r.follow(ctx, h, func() {})
			}
		}
		r.mu.Lock()
		for h, leave := range r.open {
			if !there[h] {
				leave()
			}
		}
		r.mu.Unlock()
	}
}

// follow reads the stream of a node. It calls begun when the stream has begun, or cannot begin.
func (r *relay) follow(ctx context.Context, h dag.HandlerID, begun func()) {
	there, leave := context.WithCancel(ctx)
	r.mu.Lock()
	r.open[h] = leave
	r.mu.Unlock()
	r.wg.Go(func() {
		defer begun()
		body, err := r.of.Events(there, h, r.query)
		if err == nil {
			if r.late.Load() { // the node may have committed something before it answered
				r.push(ctx, nil)
			}
			begun()
			r.read(ctx, body)
			_ = body.Close()
		}
		leave()
		r.mu.Lock()
		delete(r.open, h)
		r.mu.Unlock()
	})
}

// read passes on the commits of a node until its stream ends. Commits after that are missed.
func (r *relay) read(ctx context.Context, body io.Reader) {
	lines := bufio.NewReader(body)
	for {
		frame, err := nextFrame(lines)
		switch {
		case err != nil:
			r.push(ctx, nil)
			return
		case bytes.HasPrefix(frame, []byte(":")): // a heartbeat
		case bytes.HasPrefix(frame, []byte("event: reset")):
			r.push(ctx, nil)
		default:
			r.push(ctx, frame)
		}
	}
}

// nextFrame reads up to and including an empty line.
func nextFrame(lines *bufio.Reader) (frame []byte, err error) {
	for {
		line, err := lines.ReadSlice('\n')
		if frame = append(frame, line...); len(frame) > frameBytesMax {
			return nil, errFrame
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case err != nil:
			return nil, err
		case len(line) == 1 && (len(frame) == 1 || frame[len(frame)-2] == '\n'):
			return frame, nil
		}
	}
}

package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"skein.dev/skein/internal/store"
)

const (
	// connectMax bounds how long making a connection may take, if the address names one server. See hostMax.
	connectMax = 5 * time.Second
	// trustMax is the time for which an idle connection is assumed to work.
	trustMax = time.Second
	// idleMax bounds the time for which an idle connection is kept.
	idleMax = 5 * time.Minute
	// ageMax bounds the age of a connection, because its server process grows with use.
	ageMax = time.Hour
)

// pool is a bounded number of connections. It lends the connection that was used last. It replaces a failed
// connection when a caller needs one, so the pool works again as soon as the database answers.
type pool struct {
	open   func(ctx context.Context) (*conn, error)
	places chan struct{} // capacity: one for each connection that is lent or being opened
	closed chan struct{}
	load   load

	mu   sync.Mutex // protects following fields
	idle []*conn    // the most recently used connection is at the end
	// the time at which a connection last failed; connections that have been idle since then may have failed,
	// too
	lost time.Time
	done bool
}

func newPool(size int, open func(ctx context.Context) (*conn, error)) *pool {
	return &pool{open: open, places: make(chan struct{}, size), closed: make(chan struct{})}
}

// take lends a connection that most likely works. The caller returns it with give.
func (p *pool) take(ctx context.Context) (*conn, error) {
	if p.shut() {
		return nil, notOpen()
	}
	select {
	case p.places <- struct{}{}:
		return p.enter(ctx)
	default:
	}
	p.load.waiting.Add(1)
	defer p.load.waiting.Add(-1)
	select {
	case p.places <- struct{}{}:
	case <-p.closed:
		return nil, notOpen()
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for one of %d connections: %w: %w", cap(p.places), store.ErrUnavailable, ctx.Err())
	}
	return p.enter(ctx)
}

// try does the same as take, but does not wait for a free connection.
func (p *pool) try(ctx context.Context) (*conn, error) {
	if p.shut() {
		return nil, notOpen()
	}
	select {
	case p.places <- struct{}{}:
		return p.enter(ctx)
	default:
		return nil, fmt.Errorf("all %d connections are in use: %w", cap(p.places), store.ErrUnavailable)
	}
}

// shut reports whether the pool is closed.
func (p *pool) shut() bool {
	select {
	case <-p.closed:
		return true
	default:
		return false
	}
}

// enter returns a connection to a caller that has taken a slot of p.places.
func (p *pool) enter(ctx context.Context) (*conn, error) {
	c, err := p.find(ctx)
	if err != nil {
		<-p.places
		return nil, err
	}
	return c, nil
}

func (p *pool) find(ctx context.Context) (*conn, error) {
	for {
		c, lost := p.pop()
		if c == nil {
			return p.open(ctx)
		}
		now := time.Now()
		trusted := now.Sub(c.idle) < trustMax && c.idle.After(lost)
		young := now.Sub(c.made) < ageMax
		if young && (trusted || c.Ping(ctx) == nil) {
			return c, nil
		}
		if young {
			p.load.failed.Add(1)
		}
		hangUp(c)
	}
}

func (p *pool) pop() (c *conn, lost time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.idle); n > 0 {
		c = p.idle[n-1]
		p.idle = p.idle[:n-1]
	}
	return c, p.lost
}

// give returns a connection to the pool.
func (p *pool) give(c *conn) {
	c.idle = time.Now()
	var drop []*conn
	p.mu.Lock()
	if c.IsClosed() {
		p.load.failed.Add(1)
		p.lost = c.idle
	}
	if p.done || !c.usable() {
		drop = append(drop, c)
	} else {
		p.idle = append(p.idle, c)
	}
	for len(p.idle) > 0 && c.idle.Sub(p.idle[0].idle) > idleMax {
		drop = append(drop, p.idle[0])
		p.idle = p.idle[1:]
	}
	p.mu.Unlock()
	for _, c := range drop {
		hangUp(c)
	}
	<-p.places
}

func hangUp(c *conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.Close(ctx)
}

// close refuses further callers, waits for the borrowers of connections, and closes every connection.
func (p *pool) close() {
	p.mu.Lock()
	if p.done {
		p.mu.Unlock()
		return
	}
	p.done = true
	close(p.closed)
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	for _, c := range idle {
		hangUp(c)
	}
	for range cap(p.places) {
		p.places <- struct{}{}
	}
}

// dial makes one connection.
func (h *hosts) dial(ctx context.Context, sql map[string]string) (*conn, error) {
	made, err := h.connect(ctx)
	if err != nil {
		return nil, connectError(h.all[0], err)
	}
	return &conn{PgConn: made, sql: sql, prepared: map[string]*pgconn.StatementDescription{}, rows: map[string]*rows{}, made: time.Now()}, nil
}

func connectError(config *pgconn.Config, err error) error {
	doing := fmt.Sprintf("connect to %s as %s", place(config), config.User)
	var answer *pgconn.PgError
	if errors.As(err, &answer) {
		return fmt.Errorf("%s: %w: %w", doing, store.ErrUnavailable, &answered{answer.Code, sentence(answer)})
	}
	return fmt.Errorf("%s: %w: %w", doing, store.ErrUnavailable, &inOneLine{err})
}

// inOneLine is an error of the driver with its text in one line. The driver writes a line for each address
// that it tried, even if the lines are equal.
type inOneLine struct{ error }

func (e *inOneLine) Error() string {
	var lines []string
	for line := range strings.Lines(e.error.Error()) {
		if line = strings.TrimSpace(line); line != "" && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, " ")
}

func (e *inOneLine) Unwrap() error { return e.error }

// place returns the address of a database for people, without the password.
func place(config *pgconn.Config) string {
	if len(config.Host) > 0 && config.Host[0] == '/' {
		return fmt.Sprintf("%s in %s (port %d)", config.Database, config.Host, config.Port)
	}
	return fmt.Sprintf("%s at %s:%d", config.Database, config.Host, config.Port)
}

package postgres

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// hostMax bounds the time to connect to one of several servers. If the machine of a server is gone, the
// server does not answer, and after this time the next server is tried.
const hostMax = 2 * time.Second

// hosts are the servers of an address, in its order. The driver would use one time limit for all servers
// together, so one silent server could use up all of it.
type hosts struct {
	all  []*pgconn.Config // one per server
	last atomic.Int32     // index of the server that took the last connection: it is tried first
}

func newHosts(config *pgconn.Config) *hosts {
	h := &hosts{}
	ways := append([]*pgconn.FallbackConfig{{Host: config.Host, Port: config.Port, TLSConfig: config.TLSConfig}}, config.Fallbacks...)
	for i, w := range ways {
		if i > 0 && w.Host == ways[i-1].Host && w.Port == ways[i-1].Port { // the same server, this time without TLS or with it
			one := h.all[len(h.all)-1]
			one.Fallbacks = append(one.Fallbacks, w)
			continue
		}
		one := config.Copy()
		one.Host, one.Port, one.TLSConfig, one.Fallbacks = w.Host, w.Port, w.TLSConfig, nil
		h.all = append(h.all, one)
	}
	return h
}

// connect makes a connection to the first server that fits. It begins with the server that took the last
// connection.
func (h *hosts) connect(ctx context.Context) (*pgconn.PgConn, error) {
	most := hostMax
	if len(h.all) == 1 {
		most = connectMax
	}
	var errs []error
	first := int(h.last.Load())
	for i := range h.all {
		k := (first + i) % len(h.all)
		made, err := connectWithin(ctx, most, h.all[k])
		if err == nil {
			h.last.Store(int32(k))
			return made, nil
		}
		errs = append(errs, err)
		if refuses(err) {
			break
		}
	}
	return nil, errors.Join(errs...)
}

func connectWithin(ctx context.Context, most time.Duration, config *pgconn.Config) (*pgconn.PgConn, error) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	return pgconn.ConnectConfig(ctx, config)
}

// refuses reports whether every other server would refuse for the same reason: a wrong password, no such
// database, no right to connect.
func refuses(err error) bool {
	var answer *pgconn.PgError
	if !errors.As(err, &answer) {
		return false
	}
	switch answer.Code {
	case "28P01", "3D000", "42501":
		return true
	}
	return false
}

package connection

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"net"
	"strconv"
	"sync/atomic"

	"github.com/go-sql-driver/mysql"
)

const mysqlPort = 3306

// quiet discards the log of the driver, which also returns its errors.
type quiet struct{}

func (quiet) Print(...any) {}

// metered bounds the bytes that a server sends before the caller takes a row. So neither a huge row nor a
// wrong length can use up all memory.
type metered struct {
	net.Conn
	left *atomic.Int64
}

func (m metered) Read(p []byte) (int, error) {
	n, err := m.Conn.Read(p)
	if m.left.Add(int64(-n)) < 0 {
		_ = m.Conn.Close()
		return 0, fmt.Errorf("the server sent a message of more than %d bytes", messageMax)
	}
	return n, err
}

// MySQLSession is a session of MySQL or MariaDB.
type MySQLSession struct {
	*sql.Conn
	db   *sql.DB
	left *atomic.Int64
	ID   int64 // the number of the session in the server
}

// Took reports that the caller has taken a row, so that the server may send more.
func (s *MySQLSession) Took() { s.left.Store(meterMax) }

// Cut breaks the connection at its next read.
func (s *MySQLSession) Cut() { s.left.Store(math.MinInt64 / 2) }

// Overflowed reports whether the session was ended because of a message that is too large.
func (s *MySQLSession) Overflowed() bool { return s.left.Load() < 0 }

// meterMax bounds the bytes of a row, together with the bytes that the driver has read ahead.
const meterMax = 2 * messageMax

// Close ends the session.
func (s *MySQLSession) Close() error { return errors.Join(s.Conn.Close(), s.db.Close()) }

// Open opens a session. The end of ctx during a call on it closes the session, and does not end the
// statement in the server: KILL does, from another session.
func (m *MySQL) Open(ctx context.Context, password string, dial Dial) (*MySQLSession, error) {
	port := m.Port
	if port == 0 {
		port = mysqlPort
	}
	left := &atomic.Int64{}
	left.Store(meterMax)
	cfg := mysql.NewConfig()
	cfg.User, cfg.Passwd, cfg.DBName = m.User, password, m.Database
	cfg.Net, cfg.Addr = "tcp", net.JoinHostPort(m.Host, strconv.Itoa(port))
	cfg.Logger, cfg.MaxAllowedPacket = quiet{}, messageMax
	cfg.TLS = tlsOf(m.Host, m.TLS, m.CA)
	cfg.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return metered{c, left}, nil
	}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	within, cancel := context.WithTimeout(ctx, openMax)
	defer cancel()
	s := &MySQLSession{db: sql.OpenDB(connector), left: left}
	s.db.SetMaxOpenConns(1)
	if s.Conn, err = s.db.Conn(within); err == nil {
		err = s.QueryRowContext(within, "SELECT CONNECTION_ID()").Scan(&s.ID)
		if err != nil {
			_ = s.Conn.Close()
		}
	}
	if err == nil {
		return s, nil
	}
	_ = s.db.Close()
	if within.Err() != nil && ctx.Err() == nil {
		return nil, silent(m.Host)
	}
	return nil, err
}

func (m *MySQL) use(ctx context.Context, means *Means) (string, error) {
	password, err := means.text(ctx, m.Password)
	if err != nil {
		return "", err
	}
	s, err := m.Open(ctx, password, means.Dial)
	if err != nil {
		return "", err
	}
	defer func() { _ = s.Close() }()
	var version, user string
	var database *string
	if err := s.QueryRowContext(ctx, "SELECT VERSION(), CURRENT_USER(), DATABASE()").Scan(&version, &user, &database); err != nil {
		return "", err
	}
	if database == nil {
		return fmt.Sprintf("%s, user %s", version, user), nil
	}
	return fmt.Sprintf("%s, user %s, database %s", version, user, *database), nil
}

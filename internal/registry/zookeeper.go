package registry

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"
)

// zooKeeper is a registry in ZooKeeper, 3.5 or later. A life is an ephemeral node. The package sends the few
// necessary requests itself, because contexts must bound them and the caller's goroutine must wait for each
// answer.
type zooKeeper struct {
	of   Settings
	host atomic.Int64 // index of the server that answered last
}

var _ Registry = (*zooKeeper)(nil)

// zooSession is a session. It outlives its connections: a call without a connection makes one, perhaps to
// another server.
type zooSession struct {
	z        *zooKeeper
	password string // the password of the user

	conn    net.Conn // nil if there is no connection
	xid     int32
	id      int64 // 0 if there is no session yet
	secret  []byte
	zxid    int64 // the newest state that a server has reported
	granted time.Duration
	heard   time.Time // the time at which the last answered call was sent
}

// Announce implements Registry.
func (z *zooKeeper) Announce(ctx context.Context, life Life) (Session, error) {
	s, err := z.session()
	if err != nil {
		return nil, err
	}
	at := ""
	for part := range strings.SplitSeq(strings.TrimPrefix(s.members(), "/"), "/") {
		if at += "/" + part; err == nil {
			err = s.create(ctx, at, nil, false)
		}
		if errors.Is(err, errNodeExists) {
			err = nil
		}
	}
	if err == nil {
		err = s.create(ctx, s.members()+"/"+life.UUID, []byte(life.Name), true)
	}
	if err != nil {
		s.drop()
		return nil, err
	}
	return s, nil
}

// Probe implements Registry.
func (z *zooKeeper) Probe(ctx context.Context) (int, error) {
	s, err := z.session()
	if err != nil {
		return 0, err
	}
	lives, err := s.List(ctx)
	if errors.Is(err, errNoNode) { // the path does not exist yet
		lives, err = nil, nil
	}
	_ = s.Leave(ctx) // an error means that the session ends by itself
	return len(lives), err
}

func (z *zooKeeper) session() (*zooSession, error) {
	password, err := z.of.password()
	return &zooSession{z: z, password: password, secret: make([]byte, zooSecretLen), heard: time.Now()}, err
}

// members returns the path of the node that is the parent of all lives.
func (s *zooSession) members() string { return s.z.of.Path + "/members" }

// Renew implements Session.
func (s *zooSession) Renew(ctx context.Context) error {
	_, err := s.call(ctx, zooPing, nil)
	return err
}

// List implements Session. The sync ensures that the answer is not older than the call.
func (s *zooSession) List(ctx context.Context) ([]string, error) {
	_, err := s.call(ctx, zooSync, zooText(nil, s.members()))
	if err != nil {
		return nil, err
	}
	answer, err := s.call(ctx, zooChildren, append(zooText(nil, s.members()), 0))
	if err != nil {
		return nil, err
	}
	return zooTexts(answer)
}

// Leave implements Session. The end of the session also removes the entry.
func (s *zooSession) Leave(ctx context.Context) error {
	defer s.drop()
	if s.id == 0 {
		return nil
	}
	_, err := s.call(ctx, zooClose, nil)
	return err
}

// create makes a node. Only the user of the settings may access the node. Without a user, every caller may.
func (s *zooSession) create(ctx context.Context, path string, data []byte, ephemeral bool) error {
	scheme, id := "world", "anyone"
	if s.z.of.User != "" {
		scheme, id = "auth", ""
	}
	body := zooBytes(zooText(nil, path), data)
	body = binary.BigEndian.AppendUint32(body, 1) // entries of the access list
	body = binary.BigEndian.AppendUint32(body, zooAll)
	body = zooText(zooText(body, scheme), id)
	flags := uint32(0)
	if ephemeral {
		flags = zooEphemeral
	}
	_, err := s.call(ctx, zooCreate, binary.BigEndian.AppendUint32(body, flags))
	return err
}

// call sends a request and returns the body of its answer.
func (s *zooSession) call(ctx context.Context, what zooRequest, body []byte) ([]byte, error) {
	if s.id != 0 && time.Since(s.heard) > s.granted { // the session has ended, or will end before a server continues it
		s.drop()
		return nil, ErrEnded
	}
	at := s.z.host.Load()
	server := s.z.of.Hosts[int(at)%len(s.z.of.Hosts)]
	answer, err := s.ask(ctx, server, what, body)
	var refused zooError
	if err != nil && !errors.As(err, &refused) { // the connection cannot be used any more
		s.drop()
		s.z.host.CompareAndSwap(at, at+1)
	}
	switch {
	case errors.Is(err, errExpired):
		return nil, ErrEnded
	case err != nil:
		return nil, fmt.Errorf("ZooKeeper at %s, %v: %w", server, what, err)
	}
	return answer, nil
}

func (s *zooSession) ask(ctx context.Context, server string, what zooRequest, body []byte) ([]byte, error) {
	if s.conn == nil {
		if err := s.connect(ctx, server); err != nil {
			return nil, err
		}
	}
	sent := time.Now()
	answer, err := s.exchange(ctx, what, body)
	if err == nil {
		s.heard = sent
	}
	return answer, err
}

// connect begins the session, or continues it on another connection.
func (s *zooSession) connect(ctx context.Context, server string) error {
	secure, err := s.z.of.tlsConfig()
	if err != nil {
		return err
	}
	if s.conn, err = dial(ctx, server, secure); err != nil {
		return err
	}
	body := binary.BigEndian.AppendUint32(nil, 0) // version of the protocol
	body = binary.BigEndian.AppendUint64(body, uint64(s.zxid))
	body = binary.BigEndian.AppendUint32(body, uint32(s.z.of.TTL.Milliseconds()))
	body = zooBytes(binary.BigEndian.AppendUint64(body, uint64(s.id)), s.secret)
	sent := time.Now()
	answer, err := s.frame(ctx, body)
	if err != nil {
		return err
	}
	const fixed = 4 + 4 + 8 // version, time to live, id
	if len(answer) < fixed+4+zooSecretLen {
		return errShort
	}
	granted, id := binary.BigEndian.Uint32(answer[4:]), int64(binary.BigEndian.Uint64(answer[8:]))
	if id == 0 || granted == 0 || s.id != 0 && id != s.id {
		return errExpired
	}
	s.id, s.granted, s.heard = id, time.Duration(granted)*time.Millisecond, sent
	s.secret = append([]byte(nil), answer[fixed+4:fixed+4+zooSecretLen]...)
	if s.z.of.User == "" {
		return nil
	}
	auth := zooText(binary.BigEndian.AppendUint32(nil, 0), "digest")
	_, err = s.exchange(ctx, zooAuth, zooBytes(auth, []byte(s.z.of.User+":"+s.password)))
	return err
}

// exchange sends a request over the connection, and waits for its answer.
func (s *zooSession) exchange(ctx context.Context, what zooRequest, body []byte) ([]byte, error) {
	xid := zooXids[what]
	if xid == 0 {
		s.xid = s.xid%zooXidMax + 1
		xid = s.xid
	}
	head := binary.BigEndian.AppendUint32(nil, uint32(xid))
	head = binary.BigEndian.AppendUint32(head, uint32(what))
	answer, err := s.frame(ctx, append(head, body...))
	if err != nil {
		return nil, err
	}
	const fixed = 4 + 8 + 4 // request, state, error
	if len(answer) < fixed {
		return nil, errShort
	}
	if got := int32(binary.BigEndian.Uint32(answer)); got != xid {
		return nil, fmt.Errorf("it answers request %d, this was %d", got, xid)
	}
	if zxid := int64(binary.BigEndian.Uint64(answer[4:])); zxid > 0 {
		s.zxid = zxid
	}
	if code := zooError(binary.BigEndian.Uint32(answer[12:])); code != 0 {
		return nil, code
	}
	return answer[fixed:], nil
}

// frame sends a frame and reads one.
func (s *zooSession) frame(ctx context.Context, body []byte) ([]byte, error) {
	end, bounded := ctx.Deadline()
	if !bounded {
		end = time.Now().Add(s.z.of.TTL)
	}
	_ = s.conn.SetDeadline(end) // an error means that the connection is gone
	defer context.AfterFunc(ctx, s.cut(s.conn))()
	if _, err := s.conn.Write(zooBytes(nil, body)); err != nil {
		return nil, err
	}
	return readFrame(s.conn)
}

// cut makes the end of a context end the waits of a connection. It returns the function that does so.
func (s *zooSession) cut(conn net.Conn) func() {
	return func() { _ = conn.SetDeadline(time.Now()) } // an error means that the connection is gone
}

// drop ends the connection. The session lasts until it ends by itself.
func (s *zooSession) drop() {
	if s.conn != nil {
		_ = s.conn.Close()
		s.conn = nil
	}
}

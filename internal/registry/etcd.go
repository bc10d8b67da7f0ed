package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// etcd is a registry on the JSON gateway of etcd's API, version 3 (etcd 3.4 and later). It needs no library.
type etcd struct {
	of   Settings
	host atomic.Int64 // index of the server that answered last
}

var _ Registry = (*etcd)(nil)

// etcdSession is a lease with its entry.
type etcdSession struct {
	*etcdClient
	lease int64
}

// etcdClient is the connections of one session.
type etcdClient struct {
	e     *etcd
	http  *http.Client
	token string // the token of the user; "" if there is none
}

// Announce implements Registry.
func (e *etcd) Announce(ctx context.Context, life Life) (Session, error) {
	c, err := e.client(ctx)
	if err != nil {
		return nil, err
	}
	value, _ := json.Marshal(map[string]string{"name": life.Name}) // a text has a form in JSON
	var lease struct {
		ID int64 `json:"ID,string"`
	}
	err = c.call(ctx, "lease/grant", map[string]any{"TTL": int64((e.of.TTL + time.Second - 1) / time.Second)}, &lease)
	if err == nil && lease.ID == 0 {
		err = errors.New("etcd has granted no lease")
	}
	if err == nil {
		err = c.call(ctx, "kv/put", map[string]any{"key": []byte(e.members() + life.UUID), "value": value, "lease": lease.ID}, nil)
	}
	if err != nil {
		c.http.CloseIdleConnections()
		return nil, err
	}
	return &etcdSession{c, lease.ID}, nil
}

// Probe implements Registry.
func (e *etcd) Probe(ctx context.Context) (int, error) {
	c, err := e.client(ctx)
	if err != nil {
		return 0, err
	}
	defer c.http.CloseIdleConnections()
	lives, err := (&etcdSession{c, 0}).List(ctx)
	return len(lives), err
}

// members returns the prefix of the keys of all lives.
func (e *etcd) members() string { return e.of.Path + "/members/" }

// client makes the connections of a session, and signs in.
func (e *etcd) client(ctx context.Context) (*etcdClient, error) {
	secure, err := e.of.tlsConfig()
	if err != nil {
		return nil, err
	}
	password, err := e.of.password()
	if err != nil {
		return nil, err
	}
	c := &etcdClient{e: e, http: &http.Client{
		Transport:     &http.Transport{TLSClientConfig: secure, MaxConnsPerHost: connectionsMax, MaxResponseHeaderBytes: headerMax},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if e.of.User == "" {
		return c, nil
	}
	var signed struct{ Token string }
	err = c.call(ctx, "auth/authenticate", map[string]string{"name": e.of.User, "password": password}, &signed)
	if err != nil {
		c.http.CloseIdleConnections()
		return nil, fmt.Errorf("sign in as %s: %w", e.of.User, err)
	}
	c.token = signed.Token
	return c, nil
}

// Renew implements Session.
func (s *etcdSession) Renew(ctx context.Context) error {
	var kept struct {
		Result struct {
			TTL int64 `json:"TTL,string"`
		}
	}
	err := s.call(ctx, "lease/keepalive", map[string]int64{"ID": s.lease}, &kept)
	if err == nil && kept.Result.TTL <= 0 { // etcd also answers without an error for an unknown lease
		return ErrEnded
	}
	return err
}

// List implements Session. The read is linearizable, so a server without a quorum does not answer.
func (s *etcdSession) List(ctx context.Context) ([]string, error) {
	first := s.e.members()
	last := []byte(first)
	last[len(last)-1]++ // the first key behind the prefix
	var page struct {
		KVs []struct{ Key []byte }
	}
	err := s.call(ctx, "kv/range", map[string]any{"key": []byte(first), "range_end": last, "keys_only": true, "limit": livesMax + 1}, &page)
	if err != nil {
		return nil, err
	}
	lives := make([]string, len(page.KVs))
	for i, kv := range page.KVs {
		lives[i] = strings.TrimPrefix(string(kv.Key), first)
	}
	return lives, nil
}

// Leave implements Session.
func (s *etcdSession) Leave(ctx context.Context) error {
	defer s.http.CloseIdleConnections()
	return s.call(ctx, "lease/revoke", map[string]int64{"ID": s.lease}, nil)
}

// Bounds of the calls.
const (
	connectionsMax = 4
	headerMax      = 64 << 10
	answerMax      = 8 << 20
	reasonMax      = 300
)

// call calls one server. After a failure the next call goes to the next server.
func (c *etcdClient) call(ctx context.Context, what string, in, out any) error {
	at := c.e.host.Load()
	server := c.e.of.Hosts[int(at)%len(c.e.of.Hosts)]
	err := c.ask(ctx, server, what, in, out)
	if err != nil {
		c.e.host.CompareAndSwap(at, at+1)
		return fmt.Errorf("etcd at %s, %s: %w", server, what, err)
	}
	return nil
}

func (c *etcdClient) ask(ctx context.Context, server, what string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	scheme := "http"
	if c.e.of.TLS {
		scheme = "https"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, scheme+"://"+server+"/v3/"+what, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if c.token != "" {
		req.Header.Set("Authorization", c.token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, answerMax))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("it answered %s: %.*s", resp.Status, reasonMax, reason(text))
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("its answer is not JSON of this call; is this the address of etcd's clients? %w", err)
	}
	return nil
}

// reason returns the error text in an answer of the gateway.
func reason(text []byte) string {
	var told struct{ Message, Error string }
	if json.Unmarshal(text, &told) == nil && told.Message+told.Error != "" {
		if told.Message != "" {
			return told.Message
		}
		return told.Error
	}
	return strings.TrimSpace(string(text))
}

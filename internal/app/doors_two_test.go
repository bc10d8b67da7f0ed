package app

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"skein.dev/skein/internal/store"
)

// Types and flags of frames, from RFC 9113.
const (
	frameHeaders  = 1
	frameSettings = 4
	frameGoAway   = 7
	endOfAll      = 0x1 | 0x4 // END_STREAM and END_HEADERS
	statusOK      = 0x88      // encodes ":status: 200"
)

// two is a connection of HTTP/2 whose frames the test reads and writes.
type two struct {
	t    *testing.T
	conn *tls.Conn
	from *bufio.Reader
}

func (o *openNode) dialTwo(t *testing.T) *two {
	t.Helper()
	config := o.config.Clone()
	config.NextProtos = []string{"h2"}
	dialed, err := (&tls.Dialer{Config: config}).DialContext(t.Context(), "tcp", o.host)
	if err != nil {
		t.Fatal(err)
	}
	c := &two{t, dialed.(*tls.Conn), bufio.NewReader(dialed)}
	t.Cleanup(func() { _ = dialed.Close() })
	_ = dialed.SetDeadline(time.Now().Add(patience))
	if is := c.conn.ConnectionState().NegotiatedProtocol; is != "h2" {
		t.Fatalf("the protocol is %q", is)
	}
	if _, err := io.WriteString(dialed, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	c.write(frameSettings, 0, 0, nil)
	return c
}

func (c *two) write(kind, flags byte, stream uint32, body []byte) {
	c.t.Helper()
	head := []byte{0, byte(len(body) >> 8), byte(len(body)), kind, flags}
	if _, err := c.conn.Write(append(binary.BigEndian.AppendUint32(head, stream), body...)); err != nil {
		c.t.Fatal(err)
	}
}

// get sends GET /version on a stream.
func (c *two) get(stream uint32, token string) {
	c.t.Helper()
	text := func(s string) string { return string(rune(len(s))) + s } // shorter than 127 bytes
	headers := "\x82\x87\x04" + text("/version") + "\x01" + text("localhost")
	if token != "" {
		headers += "\x0f\x08" + text("Bearer "+token) // authorization
	}
	c.write(frameHeaders, endOfAll, stream, []byte(headers))
}

// read returns the next frame.
func (c *two) read() (kind byte, stream uint32, body []byte, err error) {
	head := make([]byte, 9)
	if _, err = io.ReadFull(c.from, head); err != nil {
		return 0, 0, nil, err
	}
	body = make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
	_, err = io.ReadFull(c.from, body)
	return head[3], binary.BigEndian.Uint32(head[5:]), body, err
}

// TestRefusalsEndHTTP2 checks that the node ends a connection of HTTP/2 after a call without a valid token.
// After a call with a valid token, the connection continues.
func TestRefusalsEndHTTP2(t *testing.T) {
	o := newOpenNode(t, map[string]string{}, true)
	for name, token := range map[string]string{"no token": "", "a wrong token": "nonsense"} {
		t.Run(name, func(t *testing.T) {
			c := o.dialTwo(t)
			c.get(1, token)
			answered, told := false, false
			for {
				kind, stream, body, err := c.read()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatalf("the connection goes on: %v; answered %v, told %v", err, answered, told)
				}
				if kind == frameHeaders && stream == 1 {
					if answered = true; body[0] == statusOK {
						t.Error("the call is accepted")
					}
				}
				told = told || kind == frameGoAway
			}
			if !answered || !told {
				t.Errorf("answered %v, told that the connection ends %v", answered, told)
			}
		})
	}
	t.Run("a right token", func(t *testing.T) {
		c := o.dialTwo(t)
		for _, call := range []uint32{1, 3, 5} {
			c.get(call, o.tokens[store.TokenAPI])
			for {
				kind, stream, body, err := c.read()
				if err != nil || kind == frameGoAway {
					t.Fatalf("the connection ends: frame %d, %v", kind, err)
				}
				if kind == frameHeaders && stream == call {
					if body[0] != statusOK {
						t.Errorf("the answer begins with %#x", body[0])
					}
					break
				}
			}
		}
	})
	t.Run("headers over TLS", func(t *testing.T) {
		for host, want := range map[string]string{"skein.example": "max-age=31536000", "localhost": ""} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, o.url("/livez"), nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Host = host
			resp, err := o.web.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if is := resp.Header.Get("Strict-Transport-Security"); is != want || resp.StatusCode != http.StatusOK {
				t.Errorf("%s: %s, Strict-Transport-Security %q, want %q", host, resp.Status, is, want)
			}
		}
	})
}

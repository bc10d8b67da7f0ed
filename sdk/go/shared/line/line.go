package line

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	// Protocol is the value of the header Upgrade that requests a line. Path is the end of the address of such a
	// request.
	Protocol = "skein-line"
	Path     = "Line"
)

const (
	// lifeMax is the time for which a line is served. It ends a line whose client has gone without closing
	// the connection.
	lifeMax = time.Minute
	// useMax is the time for which calls may begin on a line. A call that begins in this time arrives before the
	// line ends.
	useMax = 50 * time.Second
	// CallMax bounds the bytes of a call, and ReplyMax the bytes of a reply.
	CallMax  = 1 << 20
	ReplyMax = 64 << 20
	// replyTime bounds the time to make a reply, and the time to write it.
	replyTime = 10 * time.Second
)

// Refused is a reply that reports an error: a number and a text of the server.
type Refused struct {
	Code uint32
	Text string
}

func (e *Refused) Error() string { return e.Text }

// Unauthenticated is the code of Refused for a caller whose credential is not valid any more. gRPC uses the
// same number.
const Unauthenticated = 16

type checkKey struct{}

// Checked adds a check to the context of the request that opens a line. Every call on the line must pass the
// check, because the rights of the client may end before the line does.
func Checked(ctx context.Context, check func() error) context.Context {
	return context.WithValue(ctx, checkKey{}, check)
}

// Check runs the check that Checked has added. It returns nil if the context has none.
func Check(ctx context.Context) error {
	if check, is := ctx.Value(checkKey{}).(func() error); is {
		return check()
	}
	return nil
}

// headBytes is the size of the head of a reply. The head holds the length of the reply and the code of
// Refused, or 0 if the reply is not refused. The head of a call holds only the length.
const headBytes = 8

// Lines holds the lines of a server.
type Lines struct {
	mu    sync.Mutex // protects following fields
	open  map[net.Conn]struct{}
	over  bool
	busy  sync.WaitGroup
	ended context.Context
	end   context.CancelFunc
	life  time.Duration
}

// NewLines returns Lines that accept lines until Close.
func NewLines() *Lines {
	l := &Lines{open: map[net.Conn]struct{}{}, life: lifeMax}
	l.ended, l.end = context.WithCancel(context.Background())
	return l
}

// Close ends all lines and waits until all calls under way are answered.
func (l *Lines) Close() {
	l.mu.Lock()
	l.over = true
	for c := range l.open {
		_ = c.Close()
	}
	l.mu.Unlock()
	l.end()
	l.busy.Wait()
}

// Serve opens a line on a request and answers the calls on it, until the line ends. answer owns the bytes of
// a call until it returns.
func (l *Lines) Serve(w http.ResponseWriter, r *http.Request, answer func(ctx context.Context, call []byte) ([]byte, error)) {
	if !strings.EqualFold(r.Header.Get("Upgrade"), Protocol) {
		w.Header().Set("Upgrade", Protocol)
		http.Error(w, "this is where a line begins: ask for the protocol "+Protocol, http.StatusUpgradeRequired)
		return
	}
	conn, buf, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, "a line needs HTTP/1.1", http.StatusHTTPVersionNotSupported)
		return
	}
	defer conn.Close()
	if !l.add(conn) {
		return
	}
	defer l.remove(conn)
	// Close the line if the caller loses its right to further calls.
	defer context.AfterFunc(r.Context(), func() { _ = conn.Close() })()
	now := time.Now()
	if errors.Join(conn.SetReadDeadline(now.Add(l.life)), conn.SetWriteDeadline(now.Add(l.life+2*replyTime))) != nil {
		return
	}
	if _, err := io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+Protocol+"\r\n\r\n"); err != nil {
		return
	}
	var call, reply []byte
	for err == nil {
		if call, err = read(buf.Reader, call); err != nil {
			return
		}
		var out []byte
		refused := Check(r.Context())
		if refused == nil {
			out, refused = l.answer(call, answer)
		}
		reply = framed(reply[:0], out, refused)
		_, err = conn.Write(reply)
	}
}

func (l *Lines) answer(call []byte, answer func(ctx context.Context, call []byte) ([]byte, error)) ([]byte, error) {
	ctx, cancel := context.WithTimeout(l.ended, replyTime)
	defer cancel()
	return answer(ctx, call)
}

func (l *Lines) add(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return false
	}
	l.open[c] = struct{}{}
	l.busy.Add(1)
	return true
}

func (l *Lines) remove(c net.Conn) {
	l.mu.Lock()
	delete(l.open, c)
	l.mu.Unlock()
	l.busy.Done()
}

// read reads a call. It reuses the buffer of the previous call.
func read(from *bufio.Reader, room []byte) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > CallMax {
		return nil, fmt.Errorf("a call has %d bytes; at most %d are allowed", n, CallMax)
	}
	if int(n) > cap(room) {
		room = make([]byte, n)
	}
	_, err := io.ReadFull(from, room[:n])
	return room[:n], err
}

// framed appends a reply to b.
func framed(b, out []byte, err error) []byte {
	code := uint32(0)
	if err != nil {
		var is *Refused
		if !errors.As(err, &is) || is.Code == 0 {
			is = &Refused{1, err.Error()}
		}
		code, out = is.Code, []byte(is.Text)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(len(out)))
	b = binary.BigEndian.AppendUint32(b, code)
	return append(b, out...)
}

// Line is the client's side of a line. It carries one call at a time.
type Line struct {
	conn io.ReadWriteCloser
	from *bufio.Reader
	end  time.Time // time after which no call begins
	call []byte
}

// ErrNone means that the server at this address serves no lines.
var ErrNone = errors.New("this server does not support lines")

// Open requests a line at a URL. The transport must use HTTP/1.1. If Open returns ErrNone, do not try again.
func Open(ctx context.Context, t http.RoundTripper, url string, header http.Header) (*Line, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("open a line to %s: %w", url, err)
	}
	for name, values := range header {
		r.Header[name] = values
	}
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", Protocol)
	asked := time.Now()
	res, err := t.RoundTrip(r)
	if err != nil {
		return nil, fmt.Errorf("open a line to %s: %w", url, err)
	}
	conn, is := res.Body.(io.ReadWriteCloser)
	if res.StatusCode != http.StatusSwitchingProtocols || !is {
		_ = res.Body.Close()
		if res.StatusCode >= http.StatusInternalServerError && res.StatusCode != http.StatusHTTPVersionNotSupported {
			return nil, fmt.Errorf("open a line to %s: %s", url, res.Status)
		}
		return nil, fmt.Errorf("open a line to %s: %w: %s", url, ErrNone, res.Status)
	}
	return &Line{conn: conn, from: bufio.NewReader(conn), end: asked.Add(useMax)}, nil
}

// Fresh reports whether a call may begin.
func (l *Line) Fresh() bool { return time.Now().Before(l.end) }

// Close ends the line.
func (l *Line) Close() error { return l.conn.Close() }

// Call makes one call. It returns a Refused if the server rejected the call. After any other error, including
// an error of ctx, the line is broken and the outcome of the call is unknown.
func (l *Line) Call(ctx context.Context, call []byte) ([]byte, error) {
	if len(call) > CallMax {
		return nil, fmt.Errorf("a call has %d bytes; at most %d are allowed", len(call), CallMax)
	}
	stop := context.AfterFunc(ctx, func() { _ = l.conn.Close() })
	defer stop()
	l.call = append(binary.BigEndian.AppendUint32(l.call[:0], uint32(len(call))), call...)
	if _, err := l.conn.Write(l.call); err != nil {
		return nil, fmt.Errorf("the line is broken: %w", errors.Join(err, ctx.Err()))
	}
	var head [headBytes]byte
	if _, err := io.ReadFull(l.from, head[:]); err != nil {
		return nil, fmt.Errorf("the line is broken: %w", errors.Join(err, ctx.Err()))
	}
	n, code := binary.BigEndian.Uint32(head[:]), binary.BigEndian.Uint32(head[4:])
	if n > ReplyMax {
		return nil, fmt.Errorf("the line is broken: a reply of %d bytes, at most %d", n, ReplyMax)
	}
	reply := make([]byte, n)
	if _, err := io.ReadFull(l.from, reply); err != nil {
		return nil, fmt.Errorf("the line is broken: %w", errors.Join(err, ctx.Err()))
	}
	if code != 0 {
		return nil, &Refused{code, string(reply)}
	}
	return reply, nil
}

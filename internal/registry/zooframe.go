package registry

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"unicode/utf8"
)

// zooRequest is the type of a request to ZooKeeper.
type zooRequest int32

// The requests.
const (
	zooCreate   zooRequest = 1
	zooChildren zooRequest = 8
	zooSync     zooRequest = 9
	zooPing     zooRequest = 11
	zooAuth     zooRequest = 100
	zooClose    zooRequest = -11
)

// String returns the name of a request, for errors.
func (r zooRequest) String() string {
	return map[zooRequest]string{zooCreate: "create", zooChildren: "list", zooSync: "sync", zooPing: "ping", zooAuth: "sign in", zooClose: "close"}[r]
}

// zooXids are the fixed numbers of some requests.
var zooXids = map[zooRequest]int32{zooPing: -2, zooAuth: -4}

const (
	zooXidMax    = 1 << 30
	zooEphemeral = 1
	zooAll       = 31 // permissions: all
	zooSecretLen = 16
	// frameMax bounds the bytes of an answer. The longest answer is a list of livesMax names.
	frameMax = 1 << 20
)

// zooError is an error code in the answer of a server.
type zooError int32

// These codes are the errors that this package distinguishes. errExpired is also the answer of a server that
// does not know the session.
const (
	errNoNode     zooError = -101
	errNoAuth     zooError = -102
	errNodeExists zooError = -110
	errExpired    zooError = -112
	errAuthFailed zooError = -115
	errMoved      zooError = -118
)

// Error implements error.
func (e zooError) Error() string {
	if text, is := map[zooError]string{errNoNode: "there is no such node", errNoAuth: "the user may not do this", errNodeExists: "the node exists",
		errExpired: "the session has ended", errAuthFailed: "the user or the password is wrong", errMoved: "the session is at another server"}[e]; is {
		return text
	}
	return fmt.Sprintf("it answers with error %d", int32(e))
}

var errShort = errors.New("an answer is shorter than it says; is this the address of ZooKeeper's clients?")

// zooBytes appends bytes with their length.
func zooBytes(to, data []byte) []byte {
	return append(binary.BigEndian.AppendUint32(to, uint32(len(data))), data...)
}

// zooText appends a text with its length.
func zooText(to []byte, text string) []byte { return zooBytes(to, []byte(text)) }

// zooTexts reads a list of texts.
func zooTexts(from []byte) ([]string, error) {
	if len(from) < 4 {
		return nil, errShort
	}
	n, from := binary.BigEndian.Uint32(from), from[4:]
	if int64(n)*4 > int64(len(from)) {
		return nil, errShort
	}
	list := make([]string, 0, n)
	for range n {
		if len(from) < 4 {
			return nil, errShort
		}
		size := int64(binary.BigEndian.Uint32(from))
		if from = from[4:]; size > int64(len(from)) {
			return nil, errShort
		}
		if !utf8.Valid(from[:size]) {
			return nil, errors.New("a name in the list is not text")
		}
		list = append(list, string(from[:size]))
		from = from[size:]
	}
	return list, nil
}

// readFrame reads a frame, which is a length and that number of bytes.
func readFrame(from io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > frameMax {
		return nil, fmt.Errorf("an answer of %d bytes is longer than %d; is this the address of ZooKeeper's clients?", size, frameMax)
	}
	frame := make([]byte, size)
	_, err := io.ReadFull(from, frame)
	return frame, err
}

// dial connects in plain text, or by TLS.
func dial(ctx context.Context, server string, secure *tls.Config) (net.Conn, error) {
	d := &net.Dialer{}
	if secure == nil {
		return d.DialContext(ctx, "tcp", server)
	}
	return (&tls.Dialer{NetDialer: d, Config: secure}).DialContext(ctx, "tcp", server)
}

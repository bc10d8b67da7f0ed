package server

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"mime"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"skein.dev/skein/internal/layout"
	api "skein.dev/skein/sdk/api/v1"
)

// zipLeast is the smallest answer, in bytes, that is compressed.
const zipLeast = 1 << 10

// zips bounds the answers that are compressed at the same time to half of the processors, so that other work
// gets processor time. Further answers are sent uncompressed.
func zips() places { return make(places, max(1, runtime.GOMAXPROCS(0)/2)) }

var zipWriters = sync.Pool{New: func() any {
	w, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level is valid, so there is no error
	return w
}}

// zipTypes are the media types that are worth compressing.
var zipTypes = []string{"application/json", "application/problem+json", "application/schema+json", "application/vnd.oai.openapi+json",
	layout.MediaType, statesType}

// zipped compresses an answer if it is large and is JSON, a packed drawing or packed states. Streams have
// other types.
type zipped struct {
	http.ResponseWriter
	places places
	status int // the status that the handler has set; 0 if not set yet
	sent   bool
	gz     *gzip.Writer // nil if the answer is sent uncompressed
	buf    bytes.Buffer // the compressed bytes
}

// zipping compresses an answer if the client asks for that. It does so only for reads, and for checks of a
// file in the request. The answer to a change may contain a new secret. The length of a compressed answer
// would show how similar the secret is to a part of the request.
func (s *Server) zipping(w http.ResponseWriter, r *http.Request) *zipped {
	z := &zipped{ResponseWriter: w}
	checks := r.Method == http.MethodPost && (r.URL.Path == api.Prefix+"/validate" || r.URL.Path == api.Prefix+"/schedules:simulate")
	if (r.Method == http.MethodGet || checks) && acceptsGzip(r.Header.Get("Accept-Encoding")) {
		z.places = s.zips
	}
	return z
}

// WriteHeader implements http.ResponseWriter. The header is sent together with the first bytes, because their
// number decides whether the answer is compressed.
func (z *zipped) WriteHeader(status int) {
	switch {
	case status < http.StatusOK:
		z.ResponseWriter.WriteHeader(status)
	case z.status == 0:
		z.status = status
	}
}

// begin sends the header. n is the number of the first bytes.
func (z *zipped) begin(n int) {
	z.sent = true
	h := z.Header()
	kind, _, _ := mime.ParseMediaType(h.Get("Content-Type")) // an invalid media type is not compressed
	if slices.Contains(zipTypes, kind) {
		h.Add("Vary", "Accept-Encoding")
		bodied := z.status != http.StatusNoContent && z.status != http.StatusPartialContent && z.status != http.StatusNotModified
		if n >= zipLeast && bodied && h.Get("Content-Encoding") == "" && len(z.places) < cap(z.places) {
			h.Set("Content-Encoding", "gzip")
			h.Del("Content-Length")
			z.gz = zipWriters.Get().(*gzip.Writer)
			z.gz.Reset(&z.buf)
		}
	}
	z.ResponseWriter.WriteHeader(z.status)
}

// Write implements io.Writer.
func (z *zipped) Write(p []byte) (int, error) {
	if z.status == 0 {
		z.status = http.StatusOK
	}
	if !z.sent {
		z.begin(len(p))
	}
	if z.gz == nil {
		return z.ResponseWriter.Write(p)
	}
	return len(p), z.compress(func() error {
		_, err := z.gz.Write(p)
		return err
	})
}

// compress counts as a running compression only while f runs, and not while the client reads the bytes.
func (z *zipped) compress(f func() error) error {
	z.places <- struct{}{}
	err := f()
	<-z.places
	if err != nil {
		return err
	}
	_, err = z.ResponseWriter.Write(z.buf.Bytes())
	z.buf.Reset()
	return err
}

// FlushError is called by http.ResponseController. It also sends the bytes that were compressed so far.
func (z *zipped) FlushError() error {
	if z.status == 0 {
		z.status = http.StatusOK
	}
	if !z.sent {
		z.begin(0)
	}
	if z.gz != nil {
		if err := z.compress(z.gz.Flush); err != nil {
			return err
		}
	}
	return http.NewResponseController(z.ResponseWriter).Flush()
}

// Unwrap lets http.ResponseController reach deadlines.
func (z *zipped) Unwrap() http.ResponseWriter { return z.ResponseWriter }

// end sends the rest of an answer.
func (z *zipped) end() {
	if z.status != 0 && !z.sent {
		z.begin(0)
	}
	if z.gz != nil {
		_ = z.compress(z.gz.Close) // the client is gone
		z.gz.Reset(io.Discard)     // the pool must not keep the answer in memory
		zipWriters.Put(z.gz)
		z.gz = nil
	}
}

// tagOf returns the ETag for content with a hash.
func tagOf(hash [sha256.Size]byte) string { return strconv.Quote(hex.EncodeToString(hash[:12])) }

// holds reports whether the client already has an answer, according to the ETags in its request.
func holds(ifNoneMatch, tag string) bool {
	for one := range strings.SplitSeq(ifNoneMatch, ",") {
		if one = strings.TrimSpace(one); strings.TrimPrefix(one, "W/") == tag {
			return true
		}
	}
	return false
}

// How long a client may keep an answer.
const (
	// cacheAsk lets a client keep the answer, but the client must ask whether it is still valid.
	cacheAsk = "no-cache"
	// cacheMinute is for the content of a version that a request names. It never changes, but the name of a
	// deleted workflow can be given to another one, so clients ask again after a minute.
	cacheMinute = "private, max-age=60"
)

// notModified returns the answer to a client that already has the content.
func notModified(tag, cache string) *failure {
	f := fail(http.StatusNotModified, "", "not modified")
	f.header.Set("ETag", tag)
	f.header.Set("Cache-Control", cache)
	return f
}

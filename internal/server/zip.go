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
	w, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level is valid
	return w
}}

// zipTypes are the media types that are worth compressing.
var zipTypes = []string{"application/json", "application/problem+json", "application/schema+json", "application/vnd.oai.openapi+json",
	layout.MediaType, statesType}

// zipped is an answer that is compressed if it is large JSON, or a packed drawing or packed states. Streams
// have other types.
type zipped struct {
	http.ResponseWriter
	places places
	status int // the status that the handler has set; 0: not set yet
	sent   bool
	gz     *gzip.Writer // nil: the answer is sent as it is
	buf    bytes.Buffer // the compressed bytes
}

// zipping returns an answer that is compressed if its client asks for it. Only the answers of reads, and of
// checks of a file in the request, are compressed. The answer to a change may hold a new secret. Its
// compressed length would show how much of the secret equals a part of the request.
func (s *Server) zipping(w http.ResponseWriter, r *http.Request) *zipped {
	z := &zipped{ResponseWriter: w}
	checks := r.Method == http.MethodPost && (r.URL.Path == api.Prefix+"/validate" || r.URL.Path == api.Prefix+"/schedules:simulate")
	if (r.Method == http.MethodGet || checks) && acceptsGzip(r.Header.Get("Accept-Encoding")) {
		z.places = s.zips
	}
	return z
}

// WriteHeader implements http.ResponseWriter. The header is sent with the first bytes, whose number decides.
func (z *zipped) WriteHeader(status int) {
	switch {
	case status < http.StatusOK:
		z.ResponseWriter.WriteHeader(status)
	case z.status == 0:
		z.status = status
	}
}

// begin sends the header; n is the number of the first bytes.
func (z *zipped) begin(n int) {
	z.sent = true
	h := z.Header()
	kind, _, _ := mime.ParseMediaType(h.Get("Content-Type")) // a type that is no media type is not compressed
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

// compress counts as a compression while f runs, and no longer when the client reads the bytes.
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

// FlushError is the method that http.ResponseController calls. It also sends the bytes that are compressed so
// far.
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
		z.gz.Reset(io.Discard)     // the pool must not keep the answer
		zipWriters.Put(z.gz)
		z.gz = nil
	}
}

// tagOf returns the ETag of content with a hash.
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
	// cacheAsk lets it keep the answer and ask whether it is still the same.
	cacheAsk = "no-cache"
	// cacheMinute is for the content of a version that a request names. It never changes, but the name of a
	// deleted workflow can be given to another one, so clients ask again after a minute.
	cacheMinute = "private, max-age=60"
)

// notModified is the answer to a client that has the content already.
func notModified(tag, cache string) *failure {
	f := fail(http.StatusNotModified, "", "not modified")
	f.header.Set("ETag", tag)
	f.header.Set("Cache-Control", cache)
	return f
}

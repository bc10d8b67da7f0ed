package blob

import (
	"context"
	"crypto/md5"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"skein.dev/skein/internal/egress"
)

// S3 stores objects in a bucket. It implements only the necessary part of the protocol.
type S3 struct {
	at     Location
	http   *http.Client
	inPath bool // the bucket is a part of the path, and not of the host name
	named  bool // the settings name the region
	chain  *chain

	mu     sync.Mutex // protects region
	region string     // "" means regionDefault, until an answer has another region
}

var _ Store = (*S3)(nil)

// Options are the parts of the node that a store uses.
type Options struct {
	Roots *x509.CertPool // the trusted roots; nil means those of the machine
	// Proxy is the proxy for calls. If it is "", calls are direct.
	Proxy string
	// Egress are the rules for a location that a user chooses. It is nil if an operator has chosen the
	// location.
	Egress *egress.Rules
	// Secret returns the value of a secret. It is nil if there are no secrets.
	Secret func(ctx context.Context, namespace, name string) ([]byte, error)
}

// idleMax bounds the kept connections.
const idleMax = 16

// Open returns the store of a location. It makes no request; see Probe.
func Open(at *Location, o Options) (*S3, error) {
	s := &S3{at: *at, region: at.Region}
	var err error
	if s.chain, err = newChain(&s.at, o.Secret); err != nil {
		return nil, err
	}
	// For a location of an operator, only the addresses at which clouds give credentials are refused.
	rules := egress.Rules{Policies: []string{egress.Any}, Proxy: o.Proxy}
	if o.Egress != nil {
		rules = *o.Egress
	}
	transport, err := egress.Transport(rules)
	if err != nil {
		return nil, err
	}
	transport.TLSClientConfig = &tls.Config{RootCAs: o.Roots, MinVersion: tls.VersionTLS12}
	transport.ResponseHeaderTimeout, transport.IdleConnTimeout = callMax/2, callMax
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = idleMax, idleMax
	transport.DisableCompression = true // objects are stored without compression by the transport
	transport.ForceAttemptHTTP2 = false // one stalled connection must not block the other requests
	s.http = &http.Client{Transport: transport,
		// a request to another host needs another signature
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	if s.region == "" {
		s.region = os.Getenv("AWS_REGION")
	}
	if s.region == "" {
		s.region = os.Getenv("AWS_DEFAULT_REGION")
	}
	s.named = s.region != ""
	// If the name of a bucket has a dot, the certificate does not match the host name with the bucket.
	s.inPath = at.PathStyle == "true" || at.PathStyle == "" && (at.Endpoint != "" || strings.Contains(at.Bucket, "."))
	return s, nil
}

// encryption returns the header for the encryption of an object.
func (s *S3) encryption() map[string]string {
	h := map[string]string{}
	key, kms := strings.CutPrefix(s.at.Encryption, "kms:")
	switch {
	case kms:
		h["X-Amz-Server-Side-Encryption"], h["X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id"] = "aws:kms", key
	case s.at.Encryption != "":
		h["X-Amz-Server-Side-Encryption"] = s.at.Encryption
	}
	return h
}

// Name implements Store.
func (s *S3) Name() string { return s.at.String() }

// key returns the key in the bucket.
func (s *S3) key(key string) (string, error) {
	whole := s.at.Prefix + key
	// Servers list keys in XML, which cannot represent the last two characters.
	control := func(r rune) bool { return r < ' ' || r == 0x7f || r == '\ufffe' || r == '\uffff' }
	if len(whole) > KeyMax || !utf8.ValidString(whole) || strings.ContainsFunc(whole, control) {
		return "", fmt.Errorf("%.200q: %w: use at most %d bytes of UTF-8 without control characters", whole, ErrKey, KeyMax)
	}
	return whole, nil
}

// Put implements Store.
func (s *S3) Put(ctx context.Context, key string, content io.ReaderAt, size int64, options PutOptions) error {
	at, err := s.key(key)
	if err != nil {
		return err
	}
	if size > PartSize {
		if options.IfAbsent {
			return fmt.Errorf("object %s: %d bytes are too many for one request", key, size)
		}
		return s.putParts(ctx, at, content, size, options)
	}
	sum, err := sumOf(content, 0, size)
	if err == nil && options.SHA256 != "" && sum != options.SHA256 {
		err = ErrCorrupt
	}
	if err != nil {
		return fmt.Errorf("object %s: %w", key, err)
	}
	c := call{method: http.MethodPut, key: at, header: s.encryption(), body: content, size: size, sum: sum}
	if options.IfAbsent {
		c.header["If-None-Match"] = "*"
	}
	return s.try(ctx, "write to", key, size, func(ctx context.Context) error {
		_, err := s.do(ctx, &c, nil)
		return err
	})
}

// sumOf returns the hexadecimal digest of a part of a content. It also writes the part to each writer in
// also.
func sumOf(content io.ReaderAt, offset, size int64, also ...io.Writer) (string, error) {
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(append(also, sum)...), io.NewSectionReader(content, offset, size))
	if err == nil && n != size {
		err = ErrCorrupt
	}
	return hex.EncodeToString(sum.Sum(nil)), err
}

// part is one part of an object that is written in parts.
type part struct {
	XMLName xml.Name `xml:"Part"`
	Number  int      `xml:"PartNumber"`
	ETag    string
}

// abortMax bounds the time for ending a failed upload.
const abortMax = 10 * time.Second

// putParts writes a large object.
func (s *S3) putParts(ctx context.Context, at string, content io.ReaderAt, size int64, options PutOptions) (err error) {
	var upload struct {
		ID string `xml:"UploadId"`
	}
	begin := call{method: http.MethodPost, key: at, query: map[string]string{"uploads": ""}, header: s.encryption()}
	err = s.try(ctx, "write to", at, 0, func(ctx context.Context) error { _, err := s.do(ctx, &begin, &upload); return err })
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			within, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortMax)
			defer cancel()
			_ = s.abort(within, at, upload.ID) // Abort ends the upload later
		}
	}()
	whole, parts := sha256.New(), []part(nil)
	for offset := int64(0); offset < size; offset += PartSize {
		n, number := min(PartSize, size-offset), len(parts)+1
		sum, err := sumOf(content, offset, n, whole)
		if err != nil {
			return fmt.Errorf("object %s: %w", at, err)
		}
		c := call{method: http.MethodPut, key: at, query: map[string]string{"uploadId": upload.ID, "partNumber": strconv.Itoa(number)},
			body: io.NewSectionReader(content, offset, n), size: n, sum: sum}
		var header http.Header
		err = s.try(ctx, "write to", at, n, func(ctx context.Context) (err error) { header, err = s.do(ctx, &c, nil); return err })
		if err != nil {
			return err
		}
		parts = append(parts, part{Number: number, ETag: header.Get("ETag")})
	}
	if options.SHA256 != "" && hex.EncodeToString(whole.Sum(nil)) != options.SHA256 {
		return fmt.Errorf("object %s: %w", at, ErrCorrupt)
	}
	return s.finish(ctx, at, upload.ID, parts, size)
}

// finish makes an object from its parts.
func (s *S3) finish(ctx context.Context, at, id string, parts []part, size int64) error {
	text, err := xml.Marshal(struct {
		XMLName xml.Name `xml:"CompleteMultipartUpload"`
		Parts   []part
	}{Parts: parts})
	if err != nil {
		return err
	}
	c := call{method: http.MethodPost, key: at, query: map[string]string{"uploadId": id}}
	c.text(string(text))
	return s.try(ctx, "write to", at, 0, func(ctx context.Context) error {
		_, err := s.do(ctx, &c, new(struct{}))
		if is(err, "NoSuchUpload") && s.has(ctx, at, size) {
			return nil // an earlier request has made the object, and its answer was lost
		}
		return err
	})
}

// has reports whether an object with this size exists.
func (s *S3) has(ctx context.Context, at string, size int64) bool {
	var answer *http.Response
	err := s.try(ctx, "look at", at, 0, func(ctx context.Context) (err error) {
		if answer, err = s.send(ctx, &call{method: http.MethodHead, key: at}); err == nil {
			err = answer.Body.Close()
		}
		return err
	})
	return err == nil && answer.ContentLength == size
}

func (s *S3) abort(ctx context.Context, at, id string) error {
	_, err := s.do(ctx, &call{method: http.MethodDelete, key: at, query: map[string]string{"uploadId": id}}, nil)
	if is(err, "NoSuchUpload") {
		return nil
	}
	return err
}

// Open implements Store.
func (s *S3) Open(ctx context.Context, key string, offset, n int64) (io.ReadCloser, error) {
	at, err := s.key(key)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	if n == 0 {
		return io.NopCloser(strings.NewReader("")), nil
	}
	c := call{method: http.MethodGet, key: at}
	switch {
	case n > 0:
		c.header = map[string]string{"Range": fmt.Sprintf("bytes=%d-%d", offset, offset+n-1)}
	case offset > 0:
		c.header = map[string]string{"Range": fmt.Sprintf("bytes=%d-", offset)}
	}
	var body io.ReadCloser
	// The context must last as long as the body, so each request has its own, which Close ends.
	err = s.try(ctx, "read from", key, 0, func(within context.Context) error {
		life, cancel := context.WithCancel(ctx)
		stop := context.AfterFunc(within, cancel)
		answer, err := s.send(life, &c)
		stop()
		var e *apiError
		if errors.As(err, &e) && e.Status == http.StatusRequestedRangeNotSatisfiable { // the object is shorter
			body, err = io.NopCloser(strings.NewReader("")), nil
			cancel()
			return err
		}
		if err != nil {
			cancel()
			return err
		}
		if c.header != nil && offset > 0 && answer.StatusCode != http.StatusPartialContent {
			_ = answer.Body.Close()
			cancel()
			return errors.New("the server ignores ranges")
		}
		body = newSteady(answer.Body, cancel)
		return nil
	})
	return body, err
}

// listMax bounds the number of keys in one answer.
const listMax = 1000

// List implements Store.
func (s *S3) List(ctx context.Context, prefix, after string, limit int) (all []Info, err error) {
	q := map[string]string{"list-type": "2", "prefix": s.at.Prefix + prefix}
	if after != "" {
		q["start-after"] = s.at.Prefix + after
	}
	for {
		var page struct {
			Contents []struct {
				Key          string
				Size         int64
				LastModified time.Time
				ETag         string
			}
			IsTruncated           bool
			NextContinuationToken string
		}
		q["max-keys"] = strconv.Itoa(min(limit-len(all), listMax))
		c := call{method: http.MethodGet, query: q}
		err := s.try(ctx, "list", prefix, 0, func(ctx context.Context) error {
			page.Contents = nil
			_, err := s.do(ctx, &c, &page)
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, is := range page.Contents {
			all = append(all, Info{Key: strings.TrimPrefix(is.Key, s.at.Prefix), Size: is.Size, Modified: is.LastModified, ETag: strings.Trim(is.ETag, `"`)})
		}
		if !page.IsTruncated || page.NextContinuationToken == "" || len(all) >= limit {
			return all[:min(len(all), limit)], nil
		}
		q["continuation-token"] = page.NextContinuationToken
	}
}

// Delete implements Store.
func (s *S3) Delete(ctx context.Context, keys ...string) error {
	for len(keys) > 1 {
		n := min(len(keys), listMax)
		err := s.try(ctx, "delete from", "", 0, func(ctx context.Context) error { return s.deleteTogether(ctx, keys[:n]) })
		var e *apiError
		if err != nil && !errors.As(err, &e) {
			return err
		}
		if err != nil {
			break // this server cannot delete several objects in one request
		}
		keys = keys[n:]
	}
	for _, key := range keys {
		c := call{method: http.MethodDelete, key: s.at.Prefix + key}
		err := s.try(ctx, "delete from", key, 0, func(ctx context.Context) error { _, err := s.do(ctx, &c, nil); return err })
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (s *S3) deleteTogether(ctx context.Context, keys []string) error {
	type object struct{ Key string }
	names := struct {
		XMLName xml.Name `xml:"Delete"`
		Quiet   bool
		Object  []object
	}{Quiet: true}
	for _, key := range keys {
		names.Object = append(names.Object, object{s.at.Prefix + key})
	}
	text, err := xml.Marshal(&names)
	if err != nil {
		return err
	}
	sum := md5.Sum(text) // the protocol requires it
	c := call{method: http.MethodPost, query: map[string]string{"delete": ""}, header: map[string]string{"Content-Md5": base64.StdEncoding.EncodeToString(sum[:])}}
	c.text(string(text))
	var out struct {
		Error []apiError
	}
	if _, err := s.do(ctx, &c, &out); err != nil {
		return err
	}
	if len(out.Error) > 0 {
		return &out.Error[0]
	}
	return nil
}

// Abort implements Store.
func (s *S3) Abort(ctx context.Context, prefix string, before time.Time) error {
	q := map[string]string{"uploads": "", "prefix": s.at.Prefix + prefix, "max-uploads": strconv.Itoa(listMax)}
	for {
		var page struct {
			Upload []struct {
				Key       string
				ID        string `xml:"UploadId"`
				Initiated time.Time
			}
			IsTruncated        bool
			NextKeyMarker      string
			NextUploadIDMarker string `xml:"NextUploadIdMarker"`
		}
		c := call{method: http.MethodGet, query: q}
		err := s.try(ctx, "list the uploads of", prefix, 0, func(ctx context.Context) error {
			page.Upload = nil
			_, err := s.do(ctx, &c, &page)
			return err
		})
		if err != nil {
			return err
		}
		for _, u := range page.Upload {
			if !u.Initiated.Before(before) {
				continue
			}
			if err := s.try(ctx, "abort an upload of", u.Key, 0, func(ctx context.Context) error { return s.abort(ctx, u.Key, u.ID) }); err != nil {
				return err
			}
		}
		if !page.IsTruncated || len(page.Upload) == 0 {
			return nil
		}
		q["key-marker"], q["upload-id-marker"] = page.NextKeyMarker, page.NextUploadIDMarker
	}
}

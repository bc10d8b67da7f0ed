package blob

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	// answerMax bounds an answer that is no object, in bytes.
	answerMax = 8 << 20
	// regionDefault is the region of a server that has none.
	regionDefault = "us-east-1"
)

// call is one request to the server.
type call struct {
	method string
	key    string // the key with the prefix; "" means the bucket
	query  map[string]string
	header map[string]string
	body   io.ReaderAt // nil if there is none
	size   int64
	sum    string // digest of the body; "" means no body
}

// text sets the body of a call.
func (c *call) text(body string) {
	sum := sha256.Sum256([]byte(body))
	c.body, c.size, c.sum = strings.NewReader(body), int64(len(body)), hex.EncodeToString(sum[:])
}

// apiError is an error in the answer of the server.
type apiError struct {
	Status  int    `xml:"-"`
	Code    string // code of the server, such as NoSuchKey
	Message string
	Region  string // the region of the bucket, if the request was for another region and must be repeated
}

// errorMax bounds the bytes of the server's code and of its message in an error, because errors are stored in
// rows and logs.
const errorMax = 300

func (e *apiError) Error() string {
	part := func(text string) string { return strings.ToValidUTF8(text[:min(len(text), errorMax)], "") }
	return strings.TrimSpace(fmt.Sprintf("%d %s %s", e.Status, part(e.Code), part(e.Message)))
}

// is reports whether an error is an answer with a given code.
func is(err error, code string) bool {
	var e *apiError
	return errors.As(err, &e) && e.Code == code
}

// emptySum is the digest of no bytes.
const emptySum = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// send makes a call. The caller closes the body of the answer. If the answer is no success, send returns an
// *apiError.
func (s *S3) send(ctx context.Context, c *call) (*http.Response, error) {
	k, err := s.chain.keys(ctx)
	if err != nil {
		return nil, err
	}
	region := s.inRegion()
	u := s.address(region)
	path := "/"
	if s.inPath {
		path += s.at.Bucket
		if c.key != "" {
			path += "/"
		}
	}
	u.Path, u.RawPath, u.RawQuery = path+c.key, escape(path+c.key, "/"), query(c.query)
	var body io.Reader = http.NoBody
	if c.size > 0 {
		body = io.NewSectionReader(c.body, 0, c.size)
	}
	r, err := http.NewRequestWithContext(ctx, c.method, u.String(), body)
	if err != nil {
		return nil, err
	}
	r.URL.RawPath = u.RawPath
	if r.ContentLength = c.size; c.size > 0 {
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(io.NewSectionReader(c.body, 0, c.size)), nil }
	}
	for name, value := range c.header {
		r.Header.Set(name, value)
	}
	r.Header.Set(headerSum, cmp.Or(c.sum, emptySum))
	sign(r, k, region, time.Now())
	answer, err := s.http.Do(r)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode/100 == 2 {
		return answer, nil
	}
	return nil, s.failure(answer, region)
}

// failure converts an answer that is no success to an error. region is the region for which the request was
// signed. failure records the region of the bucket.
func (s *S3) failure(answer *http.Response, region string) error {
	defer answer.Body.Close()
	e := new(apiError)
	text, _ := io.ReadAll(io.LimitReader(answer.Body, answerMax)) // without the text, the status is enough
	_ = xml.Unmarshal(text, e)
	e.Status, e.Region = answer.StatusCode, cmp.Or(e.Region, answer.Header.Get("X-Amz-Bucket-Region"))
	if s.named || e.Region == region {
		e.Region = ""
	}
	s.learn(e.Region)
	return e
}

// do makes a call with an XML answer, and decodes the answer into out unless out is nil.
func (s *S3) do(ctx context.Context, c *call, out any) (http.Header, error) {
	answer, err := s.send(ctx, c)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, answerMax))
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	if out == nil {
		return answer.Header, nil
	}
	var root struct{ XMLName xml.Name }
	if err := xml.Unmarshal(text, &root); err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	if root.XMLName.Local == "Error" { // some calls fail after the server has sent the status 200
		e := new(apiError)
		if err := xml.Unmarshal(text, e); err != nil {
			return nil, fmt.Errorf("read the answer: %w", err)
		}
		e.Status = answer.StatusCode
		return nil, e
	}
	if err := xml.Unmarshal(text, out); err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	return answer.Header, nil
}

// inRegion returns the region for which requests are signed.
func (s *S3) inRegion() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return cmp.Or(s.region, regionDefault)
}

// learn records the region of the bucket. "" means that it was correct.
func (s *S3) learn(region string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.region = cmp.Or(region, s.region)
}

// address returns the address of the server.
func (s *S3) address(region string) *url.URL {
	u := &url.URL{Scheme: "https", Host: s.at.Endpoint}
	if s.at.Plain {
		u.Scheme = "http"
	}
	if u.Host == "" {
		u.Host = "s3." + region + ".amazonaws.com"
		if strings.HasPrefix(region, "cn-") {
			u.Host += ".cn"
		}
	}
	if !s.inPath {
		u.Host = s.at.Bucket + "." + u.Host
	}
	return u
}

package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"time"
)

const (
	// triesMax bounds the requests for one call. Pauses grow from pauseMin to pauseMax.
	triesMax = 4
	pauseMin = 200 * time.Millisecond
	pauseMax = 2 * time.Second
	// callMax bounds one request without its content. rateMin is the least speed of content, in bytes a
	// second.
	callMax = time.Minute
	rateMin = 64 << 10
	// stallMax bounds the time without further bytes of an object.
	stallMax = 30 * time.Second
)

// try makes a request, and repeats it until it succeeds or a repetition would be useless. Each request has
// its own context. size is the number of content bytes in the request.
func (s *S3) try(ctx context.Context, what, key string, size int64, request func(context.Context) error) error {
	for i, pause := 1, pauseMin; ; i, pause = i+1, min(2*pause, pauseMax) {
		within, cancel := context.WithTimeout(ctx, callMax+time.Duration(size/rateMin)*time.Second)
		err := s.wrong(what, key, request(within))
		cancel()
		if err == nil || i == triesMax || ctx.Err() != nil || Final(err) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrRefused) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// refusals are the codes of S3 for calls that fail until the settings are changed.
var refusals = map[string]bool{
	"AccessDenied": true, "AllAccessDisabled": true, "AuthorizationHeaderMalformed": true, "IllegalLocationConstraintException": true, "InvalidAccessKeyId": true,
	"InvalidBucketName": true, "InvalidRegion": true, "InvalidToken": true, "NoSuchBucket": true, "NotImplemented": true, "PermanentRedirect": true,
	"RequestTimeTooSkewed": true, "SignatureDoesNotMatch": true,
}

// wrong converts the error of a call. The result names the location.
func (s *S3) wrong(what, key string, err error) error {
	var e *apiError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errNoCredentials):
		return fmt.Errorf("%s %s: %w: %w", what, s.Name(), ErrRefused, err)
	case !errors.As(err, &e):
		return fmt.Errorf("%s %s: %w", what, s.Name(), err)
	case e.Region != "": // the next request goes to that region
		return fmt.Errorf("%s %s: %w; the bucket is in the region %s", what, s.Name(), err, e.Region)
	case e.Code == "NoSuchKey", e.Status == http.StatusNotFound && e.Code == "":
		return fmt.Errorf("object %s of %s: %w", key, s.Name(), fs.ErrNotExist)
	case e.Status == http.StatusPreconditionFailed:
		return fmt.Errorf("object %s of %s: %w", key, s.Name(), ErrExists)
	case refusals[e.Code], e.Status == http.StatusForbidden, e.Status == http.StatusUnauthorized, e.Status == http.StatusNotFound && e.Code != "NoSuchUpload":
		return fmt.Errorf("%s %s: %w: %w; the credentials are from %s", what, s.Name(), ErrRefused, err, s.chain.origin())
	}
	return fmt.Errorf("%s %s: %w", what, s.Name(), err)
}

// steady reads the content of an object. It ends the read if no byte arrives for stallMax.
type steady struct {
	io.ReadCloser
	cancel context.CancelFunc
	timer  *time.Timer
}

func newSteady(body io.ReadCloser, cancel context.CancelFunc) *steady {
	return &steady{body, cancel, time.AfterFunc(stallMax, cancel)}
}

// Read implements io.Reader.
func (r *steady) Read(p []byte) (int, error) {
	r.timer.Reset(stallMax)
	return r.ReadCloser.Read(p)
}

// Close implements io.Closer.
func (r *steady) Close() error {
	r.timer.Stop()
	r.cancel()
	return r.ReadCloser.Close()
}

package blob_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"skein.dev/skein/internal/blob"
	"skein.dev/skein/internal/blob/blobtest"
)

func TestFolder(t *testing.T) {
	blobtest.Run(t, func(t *testing.T) blob.Store { return blobtest.Folder{Path: t.TempDir()} })
}

func TestS3(t *testing.T) {
	s := blobtest.Serve(t)
	blobtest.Run(t, func(t *testing.T) blob.Store { return s.Open(t, blobtest.Prefix(t), "") })
}

// TestThroughFaults: an answer that comes late, twice, in part or not at all changes no outcome.
func TestThroughFaults(t *testing.T) {
	s := blobtest.Serve(t)
	p := blobtest.NewProxy(t, s, nil)
	store := s.Open(t, blobtest.Prefix(t), p.Address)
	p.Choose(blobtest.Some())
	content := blobtest.Random(2*blob.PartSize + 7)
	if err := store.Put(t.Context(), "large", bytes.NewReader(content), int64(len(content)), blob.PutOptions{SHA256: blobtest.Sum(content)}); err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		key := "small/" + string(rune('a'+i))
		if err := store.Put(t.Context(), key, strings.NewReader(key), int64(len(key)), blob.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if got := blobtest.Keys(t, store, "small/"); len(got) != 6 {
		t.Errorf("%q", got)
	}
	text := "manifest"
	err := store.Put(t.Context(), "once", strings.NewReader(text), int64(len(text)), blob.PutOptions{IfAbsent: true})
	if err != nil && !errors.Is(err, blob.ErrExists) { // an answer was lost
		t.Error(err)
	}
	if err := store.Delete(t.Context(), "small/a", "small/b"); err != nil {
		t.Error(err)
	}
	p.Choose(nil)
	if got := blobtest.Get(t, store, "large", 0, -1); got != string(content) {
		t.Error("the large object has other bytes")
	}
	if got := blobtest.Get(t, store, "once", 0, -1); got != text {
		t.Errorf("%q", got)
	}
	if got := blobtest.Keys(t, store, ""); len(got) != 6 {
		t.Errorf("%q", got)
	}
}

// TestAway: temporary errors are distinguished from permanent ones.
func TestAway(t *testing.T) {
	s := blobtest.Serve(t)
	p := blobtest.NewProxy(t, s, func(int, *http.Request) blobtest.Fault { return blobtest.Refuse })
	store := s.Open(t, blobtest.Prefix(t), p.Address)
	_, err := store.Open(t.Context(), "x", 0, -1)
	if err == nil || errors.Is(err, blob.ErrRefused) || blob.Final(err) || !strings.Contains(err.Error(), "SlowDown") {
		t.Errorf("%v", err)
	}
	p.Choose(func(int, *http.Request) blobtest.Fault { return blobtest.Cut })
	if err := store.Delete(t.Context(), "x"); err == nil || errors.Is(err, blob.ErrRefused) {
		t.Errorf("%v", err)
	}
}

// TestRefused: wrong credentials, a missing bucket and a server without conditional writes are named.
func TestRefused(t *testing.T) {
	s := blobtest.Serve(t)
	open := func(text, secret string) error {
		at, err := blob.ParseLocation(text)
		if err != nil {
			t.Fatal(err)
		}
		store, err := blob.Open(&at, blob.Options{Secret: func(context.Context, string, string) ([]byte, error) { return []byte(secret), nil }})
		if err != nil {
			t.Fatal(err)
		}
		return blob.Probe(t.Context(), store)
	}
	own := s.URL("p", "") + "&secret=test/s3"
	if err := open(own, "other:"+blobtest.SecretKey); !errors.Is(err, blob.ErrRefused) || !strings.Contains(err.Error(), "test/s3") {
		t.Errorf("key: %v", err)
	}
	if err := open(own, blobtest.AccessKey+":other"); !errors.Is(err, blob.ErrRefused) || !strings.Contains(err.Error(), "SignatureDoesNotMatch") {
		t.Errorf("signature: %v", err)
	}
	if err := open(own, "nothing"); !errors.Is(err, blob.ErrRefused) || !strings.Contains(err.Error(), "ACCESS_KEY_ID:SECRET_ACCESS_KEY") {
		t.Errorf("form: %v", err)
	}
	missing := strings.Replace(own, "s3://skein/", "s3://missing/", 1)
	if err := open(missing, blobtest.AccessKey+":"+blobtest.SecretKey); !errors.Is(err, blob.ErrRefused) || !strings.Contains(err.Error(), "NoSuchBucket") {
		t.Errorf("bucket: %v", err)
	}
	if err := blob.Probe(t.Context(), forgetful{blobtest.Folder{Path: t.TempDir()}}); !errors.Is(err, blob.ErrRefused) || !strings.Contains(err.Error(), "If-None-Match") {
		t.Errorf("conditional writes: %v", err)
	}
}

// forgetful ignores the condition of a Put.
type forgetful struct{ blobtest.Folder }

func (f forgetful) Put(ctx context.Context, key string, content io.ReaderAt, size int64, _ blob.PutOptions) error {
	return f.Folder.Put(ctx, key, content, size, blob.PutOptions{})
}

func TestParseLocation(t *testing.T) {
	l, err := blob.ParseLocation("s3://bucket/a/c/?endpoint=http://h:9000&region=eu-1&path_style=true&secret=ops/s3&encryption=kms:k")
	want := blob.Location{Bucket: "bucket", Prefix: "a/c/", Endpoint: "h:9000", Plain: true, Region: "eu-1", PathStyle: "true", Secret: "ops/s3", Encryption: "kms:k"}
	if err != nil || l != want {
		t.Errorf("%+v %v", l, err)
	}
	if l, err = blob.ParseLocation("s3://bucket"); err != nil || l != (blob.Location{Bucket: "bucket"}) {
		t.Errorf("%+v %v", l, err)
	}
	for _, bad := range []string{"s3:///p", "s3://b/p", "s3://Bucket/p", "s3://", "https://bucket/p", "s3://u:p@bucket/p", "s3://bucket:80/p", "s3://bucket/p?bucket=x", "s3://bucket/p?region=a&region=b", "s3://bucket/../c",
		"s3://bucket/p?endpoint=h:9000", "s3://bucket/p?endpoint=https://h/x", "s3://bucket/p?path_style=1", "s3://bucket/p?secret=s3", "s3://bucket/p?encryption=x", "s3://bucket/p?encryption=kms:"} {
		if _, err := blob.ParseLocation(bad); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}

// TestSources: without credentials, the error names the sources that were searched.
func TestSources(t *testing.T) {
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_ACCESS_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_SECRET_KEY", "AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", t.TempDir()+"/none")
	t.Setenv("AWS_CONFIG_FILE", t.TempDir()+"/none")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:1/") // nothing listens there
	at, err := blob.ParseLocation("s3://bucket/p?endpoint=http://127.0.0.1:1&path_style=true")
	if err != nil {
		t.Fatal(err)
	}
	store, err := blob.Open(&at, blob.Options{})
	if err != nil {
		t.Fatal(err)
	}
	err = store.Delete(t.Context(), "x")
	if !errors.Is(err, blob.ErrRefused) || !strings.Contains(err.Error(), "AWS_ACCESS_KEY_ID") || !strings.Contains(err.Error(), "profile") || !strings.Contains(err.Error(), "role") {
		t.Errorf("%v", err)
	}
}

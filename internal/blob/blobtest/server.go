package blobtest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/blob"
	"skein.dev/skein/internal/cluster/nettest"
)

// Credentials of the server.
const (
	AccessKey = "skein-test"
	SecretKey = "skein-test-secret"
)

const (
	bucket    = "skein"
	serverMax = 20 * time.Second // bounds the start of the server
)

// Program returns the path of the S3 server that "make tools" builds into the cache. The name of the file
// contains a digest of the server's modules. Program returns "" if there is no such file.
func Program() string {
	dir, err := os.Getwd() // the folder of the package that is tested
	if err != nil {
		return ""
	}
	var sums []byte
	for sums == nil {
		if sums, err = os.ReadFile(filepath.Join(dir, "tools", "s3server", "go.sum")); err != nil && dir == filepath.Dir(dir) {
			return ""
		}
		dir = filepath.Dir(dir)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(sums)
	program := filepath.Join(cache, "skein", "s3server-"+hex.EncodeToString(sum[:])[:12])
	if _, err := os.Stat(program); err != nil {
		return ""
	}
	return program
}

// Server is a running S3 server with an empty bucket.
type Server struct {
	Address string // host:port
	Data    string // the folder with its objects
}

// Serve starts an S3 server that ends with the test. If there is no program, Serve skips the test. With
// CI=true it fails the test instead.
func Serve(t testing.TB) *Server {
	t.Helper()
	program := Program()
	if program == "" {
		const why = "there is no S3 server in the cache: run make tools"
		if os.Getenv("CI") == "true" {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	dir := t.TempDir()
	s := &Server{Address: freePort(t), Data: filepath.Join(dir, "data")}
	for _, d := range []string{filepath.Join(s.Data, bucket), filepath.Join(dir, "meta")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	out, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "--quiet", "--port", s.Address, "posix", "--sidecar", filepath.Join(dir, "meta"), s.Data)
	cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY_ID="+AccessKey, "ROOT_SECRET_ACCESS_KEY="+SecretKey)
	cmd.Stdout, cmd.Stderr = out, out
	tie(cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // the process was killed
		_ = out.Close()
	})
	ctx, cancel := context.WithTimeout(t.Context(), serverMax)
	defer cancel()
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.Address)
		if err == nil {
			_ = conn.Close()
			return s
		}
		if ctx.Err() != nil {
			text, _ := os.ReadFile(out.Name())
			t.Fatalf("the S3 server does not listen: %v\n%s", err, text)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func freePort(t testing.TB) string {
	port, err := nettest.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", port)
}

// URL returns the setting for a prefix, by way of an address: "" is the server's own.
func (s *Server) URL(prefix, address string) string {
	if address == "" {
		address = s.Address
	}
	return fmt.Sprintf("s3://%s/%s?endpoint=%s&path_style=true", bucket, prefix, url.QueryEscape("http://"+address))
}

// Open opens a store under a prefix, by way of an address.
func (s *Server) Open(t testing.TB, prefix, address string) *blob.S3 {
	t.Helper()
	at, err := blob.ParseLocation(s.URL(prefix, address) + "&secret=test/s3")
	if err != nil {
		t.Fatal(err)
	}
	store, err := blob.Open(&at, blob.Options{Secret: func(context.Context, string, string) ([]byte, error) {
		return []byte(AccessKey + ":" + SecretKey), nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// Prefix returns a prefix for the objects of a test.
func Prefix(t testing.TB) string {
	return strings.NewReplacer("/", "-", " ", "-").Replace(t.Name())
}

package blob

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestSign compares signatures with those of the examples in the documentation of Amazon S3.
func TestSign(t *testing.T) {
	k := &keys{id: "AKIAIOSFODNN7EXAMPLE", secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"}
	at := time.Date(2013, 5, 24, 0, 0, 0, 0, time.UTC)
	for query, want := range map[string]string{
		query(map[string]string{"lifecycle": ""}):                "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
		query(map[string]string{"prefix": "J", "max-keys": "2"}): "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://examplebucket.s3.amazonaws.com/?"+query, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(headerSum, emptySum)
		sign(r, k, regionDefault, at)
		if got := r.Header.Get("Authorization"); !strings.HasSuffix(got, "Signature="+want) {
			t.Errorf("%s: %s", query, got)
		}
	}
	if got, want := escape("a b/é~+%", "/"), "a%20b/%C3%A9~%2B%25"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestAddress: the bucket is a part of the host name at Amazon, and of the path elsewhere.
func TestAddress(t *testing.T) {
	t.Setenv("AWS_REGION", "")
	t.Setenv("AWS_DEFAULT_REGION", "")
	for text, want := range map[string]string{
		"s3://bucket/p":                                          "https://bucket.s3.us-east-1.amazonaws.com",
		"s3://bucket/p?region=cn-north-1":                        "https://bucket.s3.cn-north-1.amazonaws.com.cn",
		"s3://bu.cket/p?region=eu-1":                             "https://s3.eu-1.amazonaws.com",
		"s3://bucket/p?endpoint=http://h:9000":                   "http://h:9000",
		"s3://bucket/p?endpoint=https://h:9000&path_style=false": "https://bucket.h:9000",
	} {
		l, err := ParseLocation(text)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Open(&l, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := s.address(s.inRegion()).String(); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// TestRegion: a bucket in another region is found, unless the settings name the region.
func TestRegion(t *testing.T) {
	t.Setenv("AWS_REGION", "")
	t.Setenv("AWS_DEFAULT_REGION", "")
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "key")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get("Authorization"), "/eu-9/s3/") {
			w.Header().Set("X-Amz-Bucket-Region", "eu-9")
			w.WriteHeader(http.StatusMovedPermanently)
			_, _ = io.WriteString(w, "<Error><Code>PermanentRedirect</Code></Error>")
		}
	}))
	defer server.Close()
	for region, fails := range map[string]bool{"": false, "&region=eu-1": true} {
		l, err := ParseLocation("s3://bucket/p?endpoint=" + server.URL + region)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Open(&l, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Delete(t.Context(), "x"); (err != nil) != fails {
			t.Errorf("%q: %v", region, err)
		}
	}
}

// TestCloud: the services of a cloud give credentials.
func TestCloud(t *testing.T) {
	ends := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	given := fmt.Sprintf(`{"AccessKeyId":"id","SecretAccessKey":"key","Token":"session","Expiration":%q}`, ends.Format(time.RFC3339))
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /latest/api/token", func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "token") })
	guarded := func(header, value, answer string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get(header) != value {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			_, _ = io.WriteString(w, answer)
		}
	}
	const metadata = "X-Aws-Ec2-Metadata-Token"
	mux.HandleFunc("GET /latest/meta-data/iam/security-credentials/", guarded(metadata, "token", "role\n"))
	mux.HandleFunc("GET /latest/meta-data/iam/security-credentials/role", guarded(metadata, "token", given))
	mux.HandleFunc("GET /container", guarded("Authorization", "secret", given))
	mux.HandleFunc("POST /{$}", func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("WebIdentityToken") != "secret" || r.FormValue("RoleArn") != "arn:role" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		_, _ = fmt.Fprintf(w, "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>id</AccessKeyId>"+
			"<SecretAccessKey>key</SecretAccessKey><SessionToken>session</SessionToken><Expiration>%s</Expiration></Credentials>"+
			"</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>", ends.Format(time.RFC3339))
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"AWS_EC2_METADATA_SERVICE_ENDPOINT": server.URL, "AWS_EC2_METADATA_DISABLED": "",
		"AWS_CONTAINER_CREDENTIALS_FULL_URI": server.URL + "/container", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": token,
		"AWS_WEB_IDENTITY_TOKEN_FILE": token, "AWS_ROLE_ARN": "arn:role", "AWS_ENDPOINT_URL_STS": server.URL} {
		t.Setenv(name, value)
	}
	c := newCloud("")
	for name, get := range map[string]func(context.Context) (keys, error){"machine": c.ofMachine, "container": c.ofContainer, "identity": c.ofIdentity} {
		if k, err := get(t.Context()); err != nil || k != (keys{"id", "key", "session", ends}) {
			t.Errorf("%s: %+v %v", name, k, err)
		}
	}
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://192.0.2.1/x")
	if _, err := c.ofContainer(t.Context()); err == nil {
		t.Error("credentials are asked for at any address, without TLS")
	}
}

// TestChain: the first source with credentials decides; changed ones are read again, and the last ones stay
// in use.
func TestChain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "credentials")
	if err := os.WriteFile(file, []byte("[default]\naws_access_key_id = other\n\n[ops]\n# a comment\naws_access_key_id=id\naws_secret_access_key = key=\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", file)
	t.Setenv("AWS_PROFILE", "ops")
	c, err := newChain(&Location{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := func(id, from string) {
		t.Helper()
		k, err := c.keys(t.Context())
		if err != nil || k.id != id || !strings.Contains(c.origin(), from) {
			t.Errorf("%+v %v from %s", k, err, c.origin())
		}
	}
	want("id", "ops")
	t.Setenv("AWS_ACCESS_KEY_ID", "new")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "key")
	want("id", "ops")
	c.until = time.Now().Add(-time.Second)
	want("new", "environment")
	c.until, c.sources = time.Now().Add(-time.Second), nil
	want("new", "environment")
	c.until, c.is.ends = time.Now().Add(-time.Second), time.Now().Add(-time.Second)
	if k, err := c.keys(t.Context()); err == nil {
		t.Errorf("ended credentials are in use: %+v", k)
	}
}

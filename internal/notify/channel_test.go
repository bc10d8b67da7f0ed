package notify_test

import (
	"bufio"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	netmail "net/mail"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"skein.dev/skein/internal/certificate/certtest"
	"skein.dev/skein/internal/notify"
	"skein.dev/skein/internal/store"
)

// through sends a test message through a channel, as skein alert test does.
func through(t *testing.T, config string, change ...func(*notify.Options)) error {
	t.Helper()
	o := notify.Options{Transport: func(context.Context, string) (http.RoundTripper, error) { return http.DefaultTransport, nil },
		Secret: func(_ context.Context, ns, name string) ([]byte, error) {
			if ns != "shop" || !strings.HasPrefix(name, "s") {
				return nil, fmt.Errorf("there is no secret %s/%s", ns, name)
			}
			return []byte("whsec_" + base64.StdEncoding.EncodeToString([]byte("key of "+name)) + "\n"), nil
		}, Commands: true, Log: slog.New(slog.DiscardHandler)}
	for _, c := range change {
		c(&o)
	}
	return notify.New(o).Test(t.Context(), &store.AlertChannel{Namespace: "shop", Name: "ops", Data: []byte(config)}, "ann")
}

// TestParse reads configurations, and checks the errors about wrong ones.
func TestParse(t *testing.T) {
	for config, want := range map[string]string{
		`{"log":{}}`: "",
		`{"webhook":{"url":"https://x.example/a","secret":{"secret":"hook"}}}`: "",
		`{"webhook":{"url":{"secret":"hook"},"keys":[{"secret":"a"}]}}`:        "",
		`{"slack":{"url":{"secret":"slack"}}}`:                                 "",
		`{"email":{"to":["ops@x.example","Ann <ann@x.example>"]}}`:             "",
		`{"command":{"run":["/bin/page","ops"]}}`:                              "",
		`{}`: "has a kind",
		`{"log":{},"slack":{"url":{"secret":"a"}}}`: "has one kind",
		`{"pager":{}}`:                                      "unknown field",
		`{"log":{}} x`:                                      "after the end",
		`{"webhook":{"url":"ftp://x"}}`:                     "not an http or https address",
		`{"webhook":{"url":{"secret":""}}}`:                 "write a text, or {secret: NAME}",
		`{"webhook":{"url":"https://x","secret":"plain"}}`:  "not kept in a configuration",
		`{"slack":{"url":"https://hooks.slack.example/x"}}`: "slack.url must be {secret: NAME}",
		`{"email":{"to":[]}}`:                               "1 to 50 addresses",
		`{"email":{"to":["nobody"]}}`:                       "not a mail address",
		`{"email":{"to":["a@b.c"],"password":"x"}}`:         "email.password must be",
		`{"command":{"run":[]}}`:                            "command.run must be",
	} {
		_, err := notify.Parse([]byte(config))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", config, err, want)
		}
	}
}

// TestWebhook checks that a receiver can verify the message with its key. If there are several keys, each of
// them verifies the message.
func TestWebhook(t *testing.T) {
	var header http.Header
	var body []byte
	code := http.StatusOK
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header = r.Header
		body, _ = io.ReadAll(r.Body)
		w.WriteHeader(code)
		fmt.Fprint(w, "out of order")
	}))
	defer s.Close()
	config := fmt.Sprintf(`{"webhook":{"url":%q,"secret":{"secret":"s1"},"keys":[{"secret":"s2"}]}}`, s.URL)
	if err := through(t, config); err != nil {
		t.Fatal(err)
	}
	id, at := header.Get("webhook-id"), header.Get("webhook-timestamp")
	signed := strings.Fields(header.Get("webhook-signature"))
	if len(signed) != 2 || !strings.HasPrefix(id, "msg_") || strings.Contains(id, ".") || at == "" {
		t.Fatalf("headers %v", header)
	}
	for i, key := range []string{"key of s1", "key of s2"} {
		h := hmac.New(sha256.New, []byte(key))
		fmt.Fprintf(h, "%s.%s.%s", id, at, body)
		if want := "v1," + base64.StdEncoding.EncodeToString(h.Sum(nil)); signed[i] != want {
			t.Errorf("signature %s, want %s", signed[i], want)
		}
	}
	var msg notify.Message
	if err := json.Unmarshal(body, &msg); err != nil || msg.Type != "test" || msg.Data.Text != "ann tests the channel shop/ops" || msg.Data.ID != id {
		t.Errorf("body %s, %v", body, err)
	}
	code = http.StatusGone
	var final *notify.PermanentError
	if err := through(t, config); !errors.As(err, &final) || !strings.Contains(err.Error(), "410 Gone: out of order") {
		t.Errorf("410: %v", err)
	}
	code = http.StatusTooManyRequests
	var again *notify.AgainError
	if err := through(t, config); !errors.As(err, &again) {
		t.Errorf("429: %v", err)
	}
	if err := through(t, `{"webhook":{"url":{"secret":"none"}}}`); err == nil || !strings.Contains(err.Error(), "there is no secret shop/none") {
		t.Errorf("without a secret: %v", err)
	}
	s.Close()
	if err := through(t, config); err == nil || strings.Contains(err.Error(), s.URL) {
		t.Errorf("an error names the address, which may be a secret: %v", err)
	}
}

// TestSlack checks the body that Slack gets for an incident.
func TestSlack(t *testing.T) {
	var body map[string]string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _ = json.NewDecoder(r.Body).Decode(&body) }))
	defer s.Close()
	err := through(t, `{"slack":{"url":{"secret":"s"}}}`, func(o *notify.Options) {
		o.Secret = func(context.Context, string, string) ([]byte, error) { return []byte(s.URL + "\n"), nil }
	})
	if err != nil || body["text"] != "*[info] ann tests the channel shop/ops*" {
		t.Errorf("%q, %v", body, err)
	}
}

// TestSecretAddress: no error shows a part of a secret address, even if the receiver repeats it.
func TestSecretAddress(t *testing.T) {
	const key, token = "K3yOfTheHook", "t0ken=of/the+query"
	code := http.StatusNotFound
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(code)
		fmt.Fprintf(w, "Cannot POST %s, %s, key %s, token %s, %s", r.URL.Path, r.RequestURI, strings.Split(r.URL.Path, "/")[2], r.URL.Query().Get("t"), strings.Repeat("x", 90))
		fmt.Fprint(w, r.URL.Path) // more bytes than an error shows
	}))
	defer s.Close()
	address := s.URL + "/hooks/" + key + "?t=" + url.QueryEscape(token)
	secret := func(o *notify.Options) {
		o.Secret = func(context.Context, string, string) ([]byte, error) { return []byte(address), nil }
	}
	for _, config := range []string{`{"slack":{"url":{"secret":"s"}}}`, `{"webhook":{"url":{"secret":"s"}}}`} {
		for _, code = range []int{http.StatusNotFound, http.StatusInternalServerError} {
			err := through(t, config, secret)
			if err == nil || !strings.Contains(err.Error(), "Cannot POST ***") {
				t.Fatalf("%d: %v", code, err)
			}
			for _, part := range []string{key, token, url.QueryEscape(token), "K3yOf"} {
				if strings.Contains(err.Error(), part) {
					t.Errorf("%d: the error shows %q of the address: %v", code, part, err)
				}
			}
		}
	}
	address = "http://hooks-of-a-secret.invalid/" + key
	failing := func(o *notify.Options) {
		o.Transport = func(context.Context, string) (http.RoundTripper, error) {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				return nil, fmt.Errorf("dial tcp: lookup %s: no such host", r.URL.Hostname())
			}), nil
		}
	}
	if err := through(t, `{"slack":{"url":{"secret":"s"}}}`, secret, failing); err == nil || err.Error() != "dial tcp: lookup ***: no such host" {
		t.Errorf("an unknown host: %v", err)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestCommand: a program gets the message. If its exit code is not 0, the call has failed.
func TestCommand(t *testing.T) {
	t.Setenv("SKEIN_API_TOKEN", "canary")
	out := filepath.Join(t.TempDir(), "out")
	run := func(script string) error {
		argv, _ := json.Marshal([]string{"/bin/sh", "-c", script, "page", out})
		return through(t, `{"command":{"run":`+string(argv)+`}}`)
	}
	if err := run(`cat > "$1"; env >> "$1"`); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(out)
	if err != nil || !strings.Contains(string(text), `"text":"ann tests the channel shop/ops"`) || !strings.Contains(string(text), "SKEIN_ALERT_NAMESPACE=shop") ||
		strings.Contains(string(text), "canary") {
		t.Errorf("%s, %v", text, err)
	}
	var final *notify.PermanentError
	if err := run("echo no such team; exit 78"); !errors.As(err, &final) || !strings.Contains(err.Error(), "no such team") {
		t.Errorf("78: %v", err)
	}
	if err := run("sleep 60 & exit 0"); err != nil {
		t.Errorf("a program that leaves a process behind: %v", err)
	}
	if err := run("sleep 60 & exit 75"); err == nil || !strings.Contains(err.Error(), "exit status 75") {
		t.Errorf("a program that fails and leaves a process behind: %v", err)
	}
	if err := run("echo later >&2; exit 75"); err == nil || errors.As(err, &final) || !strings.Contains(err.Error(), "exit status 75: later") {
		t.Errorf("75: %v", err)
	}
	marked := filepath.Join(t.TempDir(), "marked")
	off := func(o *notify.Options) { o.Commands = false }
	if err := through(t, fmt.Sprintf(`{"command":{"run":["/bin/sh","-c",%q]}}`, "touch "+marked), off); err == nil || errors.As(err, &final) ||
		!strings.Contains(err.Error(), "alert_commands") {
		t.Errorf("a node that permits no programs: %v", err)
	}
	if _, err := os.Stat(marked); err == nil {
		t.Error("a node that permits no programs ran one")
	}
	if err := through(t, `{"command":{"run":["/none"]}}`); err == nil || errors.As(err, &final) {
		t.Errorf("no program: %v", err)
	}
}

// postbox is an SMTP server that keeps the mails that it gets.
type postbox struct {
	mu     sync.Mutex // protects following fields
	mails  []string
	users  []string
	refuse error
	// refuseTo holds the answers to single recipients. got holds the recipients of each mail.
	refuseTo map[string]error
	got      []string
}

// answers sets the answers to single recipients from now on.
func (p *postbox) answers(to map[string]error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuseTo, p.got = to, nil
}

// whoGot lists the recipients of the mails since answers.
func (p *postbox) whoGot() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.got, ", ")
}

func (p *postbox) NewSession(*smtp.Conn) (smtp.Session, error) { return &posting{p: p}, nil }

type posting struct {
	p  *postbox
	to []string
}

func (s *posting) AuthMechanisms() []string { return []string{sasl.Plain} }

func (s *posting) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		s.p.mu.Lock()
		defer s.p.mu.Unlock()
		s.p.users = append(s.p.users, user+":"+password)
		return nil
	}), nil
}

func (s *posting) Mail(string, *smtp.MailOptions) error { return nil }

func (s *posting) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	if err := s.p.refuseTo[to]; err != nil {
		return err
	}
	s.to = append(s.to, to)
	return s.p.refuse
}

func (s *posting) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	s.p.mails, s.p.got = append(s.p.mails, string(text)), append(s.p.got, strings.Join(s.to, " "))
	return err
}

func (*posting) Reset()        {}
func (*posting) Logout() error { return nil }

// certificate returns a certificate for a test, and a pool that trusts it.
func certificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	cert, key := certtest.SelfSigned(t)
	pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(cert)) {
		t.Fatal("the certificate cannot be trusted")
	}
	return pair, pool
}

// TestEmail sends to a real SMTP server with STARTTLS and a password.
func TestEmail(t *testing.T) {
	cert, pool := certificate(t)
	box := &postbox{}
	srv := smtp.NewServer(box)
	srv.Domain, srv.TLSConfig = "mail.example", &tls.Config{Certificates: []tls.Certificate{cert}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = srv.Serve(l) })
	defer serving.Wait()
	defer srv.Close()
	settings := func(o *notify.Options) {
		o.Mail = notify.Mail{URL: "smtp+starttls://skein@" + l.Addr().String(), From: "Skein <skein@x.example>", TLS: &tls.Config{RootCAs: pool, ServerName: "127.0.0.1"}}
		o.Secret = func(_ context.Context, ns, name string) ([]byte, error) {
			return []byte("password of " + ns + "/" + name), nil
		}
	}
	const config = `{"email":{"to":["ops@x.example"]}}`
	if err := through(t, config, settings); err != nil {
		t.Fatal(err)
	}
	box.mu.Lock()
	if len(box.mails) != 1 || len(box.users) != 1 || box.users[0] != "skein:password of shop/smtp" {
		t.Fatalf("mails %q of %q", box.mails, box.users)
	}
	letter, err := netmail.ReadMessage(strings.NewReader(box.mails[0]))
	if err != nil {
		t.Fatal(err)
	}
	if s := letter.Header.Get("Subject"); s != "[info] ann tests the channel shop/ops" {
		t.Errorf("subject %q", s)
	}
	if id := letter.Header.Get("Message-ID"); !strings.HasPrefix(id, "<msg_") || !strings.HasSuffix(id, "_1@x.example>") || letter.Header.Get("Auto-Submitted") != "auto-generated" {
		t.Errorf("headers %v", letter.Header)
	}
	box.refuse = &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "no such user"}
	box.mu.Unlock()
	var final *notify.PermanentError
	if err := through(t, config, settings); !errors.As(err, &final) {
		t.Errorf("550: %v", err)
	}
	box.mu.Lock()
	box.refuse = &smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 3, 0}, Message: "later"}
	box.mu.Unlock()
	if err := through(t, config, settings); err == nil || errors.As(err, &final) {
		t.Errorf("451: %v", err)
	}
	if err := through(t, config); err == nil || !strings.Contains(err.Error(), "smtp_url") {
		t.Errorf("without a server: %v", err)
	}
	untrusted := func(o *notify.Options) { settings(o); o.Mail.TLS = nil }
	if err := through(t, config, untrusted); err == nil {
		t.Error("a server was trusted that nobody vouches for")
	}
}

// serve runs an SMTP server until the test ends, and returns its address. If config is not nil, the server
// uses TLS from the first byte.
func serve(t *testing.T, box *postbox, config *tls.Config) string {
	srv := smtp.NewServer(box)
	srv.Domain = "mail.example"
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if config != nil {
		l = tls.NewListener(l, config)
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = srv.Serve(l) })
	t.Cleanup(func() {
		_ = srv.Close()
		serving.Wait()
	})
	return address
}

// TestEmailOverTLS sends to a server that speaks TLS from the first byte.
func TestEmailOverTLS(t *testing.T) {
	cert, pool := certificate(t)
	box := &postbox{}
	address := serve(t, box, &tls.Config{Certificates: []tls.Certificate{cert}})
	settings := func(o *notify.Options) {
		o.Mail = notify.Mail{URL: "smtps://skein@" + address, From: "skein@x.example", TLS: &tls.Config{RootCAs: pool, ServerName: "127.0.0.1"}}
		o.Secret = func(context.Context, string, string) ([]byte, error) { return []byte("password"), nil }
	}
	const config = `{"email":{"to":["ops@x.example"]}}`
	if err := through(t, config, func(o *notify.Options) { settings(o); o.Mail.TLS = nil }); err == nil {
		t.Error("a server was trusted that nobody vouches for")
	}
	if err := through(t, config, settings); err != nil {
		t.Fatal(err)
	}
	box.mu.Lock()
	defer box.mu.Unlock()
	if len(box.mails) != 1 || len(box.users) != 1 || box.users[0] != "skein:password" {
		t.Errorf("mails %q of %q", box.mails, box.users)
	}
}

// TestEmailRecipients: if the server refuses a recipient, the other recipients get the mail, and no recipient
// gets it twice.
func TestEmailRecipients(t *testing.T) {
	never := &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "no such user"}
	later := &smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 3, 0}, Message: "later"}
	box := &postbox{}
	address := serve(t, box, nil)
	o := notify.Options{Mail: notify.Mail{URL: "smtp://" + address, From: "skein@x.example"}, Log: slog.New(slog.DiscardHandler)}
	for _, c := range []struct {
		name     string
		refuse   map[string]error
		got      string
		final    bool
		has      string
		nextGot  string
		nextCall bool
	}{
		{name: "all taken", got: "a@x.example b@x.example c@x.example"},
		{name: "one never", refuse: map[string]error{"b@x.example": never}, got: "a@x.example c@x.example"},
		{name: "none", refuse: map[string]error{"a@x.example": never, "b@x.example": never, "c@x.example": never}, final: true, has: "no such user"},
		{name: "none now", refuse: map[string]error{"a@x.example": never, "b@x.example": later, "c@x.example": never}, has: "b@x.example"},
		{name: "one later", refuse: map[string]error{"a@x.example": never, "b@x.example": later}, got: "c@x.example", has: "b@x.example", nextCall: true, nextGot: "b@x.example"},
	} {
		box.answers(c.refuse)
		s := notify.New(o)
		call := notify.Call(s, &store.AlertChannel{Namespace: "shop", Name: "ops", Data: []byte(`{"email":{"to":["a@x.example","b@x.example","c@x.example"]}}`)})
		err := call(t.Context())
		var final *notify.PermanentError
		if got := box.whoGot(); got != c.got || (err != nil) != (c.has != "") || errors.As(err, &final) != c.final {
			t.Errorf("%s: %q have the mail, %v", c.name, got, err)
		}
		if err != nil && !strings.Contains(err.Error(), c.has) {
			t.Errorf("%s: %v", c.name, err)
		}
		if !c.nextCall {
			continue
		}
		box.answers(map[string]error{"a@x.example": never})
		if err := call(t.Context()); err != nil || box.whoGot() != c.nextGot {
			t.Errorf("%s, the next call: %q have the mail, %v", c.name, box.whoGot(), err)
		}
	}
}

// TestSilentMailServer: the end of the context closes the connection to a server that says nothing more.
func TestSilentMailServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var serving sync.WaitGroup
	defer serving.Wait()
	serving.Go(func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		fmt.Fprint(conn, "220 mail.example\r\n")
		from := bufio.NewReader(conn)
		if line, err := from.ReadString('\n'); err != nil || !strings.HasPrefix(line, "EHLO") {
			t.Errorf("%q, %v", line, err)
		}
		cancel()
		_, _ = io.Copy(io.Discard, from) // until it is closed
	})
	o := notify.Options{Mail: notify.Mail{URL: "smtp://" + l.Addr().String(), From: "skein@x.example"}, Log: slog.New(slog.DiscardHandler)}
	row := &store.AlertChannel{Namespace: "shop", Name: "ops", Data: []byte(`{"email":{"to":["ops@x.example"]}}`)}
	if err := notify.New(o).Test(ctx, row, "ann"); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the call ended with %v", err)
	}
}

// TestCheckSMTP refuses addresses that would send a password in the clear, or hold one.
func TestCheckSMTP(t *testing.T) {
	for text, want := range map[string]string{
		"smtp+starttls://user@mail.example:587": "", "smtps://user@mail.example": "", "smtp://localhost": "", "smtp+starttls://mail.example": "",
		"mail.example:25": "not an address", "smtp://user@mail.example": "unencrypted", "smtps://user:secret@mail.example": "has a password",
		"http://mail.example": "its scheme", "smtp://mail.example/x": "not an address", "smtp://mail.example:99999": "not a port",
	} {
		err := notify.CheckSMTP(text)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

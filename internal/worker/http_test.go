package worker

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/egress"
)

// answers starts a server for requests. Each path answers in its own way.
func answers(t *testing.T) *httptest.Server {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "other: %q %q", r.Header.Get("X-Key"), r.Header.Get("Authorization"))
	}))
	t.Cleanup(other.Close)
	mux := http.NewServeMux()
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("ETag", `"v1"`)
		fmt.Fprintf(w, "%s %s host=%s key=%s idem=%s agent=%s trace=%d %s", r.Method, r.URL.RawQuery, r.Host, r.Header.Get("X-Key"),
			r.Header.Get("Idempotency-Key"), r.Header.Get("User-Agent"), len(r.Header.Get("Traceparent")), body)
	})
	mux.HandleFunc("/json", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"rows": [1, 2], "ok": true}`) })
	mux.HandleFunc("/bad", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "the warehouse is closed", http.StatusServiceUnavailable)
	})
	mux.HandleFunc("/large", func(w http.ResponseWriter, _ *http.Request) {
		for range 3 << 10 {
			if _, err := io.WriteString(w, strings.Repeat("x", 1<<10)); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/binary", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte{0xff, 0x00}) })
	mux.HandleFunc("/nul", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `"\u0000"`) })
	mux.HandleFunc("/loop", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/loop", http.StatusFound) })
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/json", http.StatusMovedPermanently)
	})
	mux.HandleFunc("/away", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL+"/?a=b", http.StatusTemporaryRedirect)
	})
	mux.HandleFunc("/broken", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "part")
	})
	mux.HandleFunc("/hang", func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

// redirected returns the HOST:PORT to which an address redirects.
func redirected(t *testing.T, url string) string {
	t.Helper()
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	to, err := res.Location()
	if err != nil {
		t.Fatal(err)
	}
	return to.Host
}

// anywhere allows every address except those of cloud metadata.
var anywhere = egress.Rules{Policies: []string{egress.Any}}

func TestHTTP(t *testing.T) {
	r, s := newRig(t), answers(t)
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := "http://" + gone.Addr().String()
	_ = gone.Close()
	for _, c := range []struct {
		name    string
		q       Request
		state   string
		cause   string
		outputs string // expected outputs, or expected message
	}{
		{"plain", Request{URL: "/json"}, Succeeded, "", `{"status":200}`},
		{"json", Request{URL: "/json", Answer: AnswerJSON}, Succeeded, "", `{"body":{"rows":[1,2],"ok":true},"status":200}`},
		{"text and headers", Request{Method: "POST", URL: "/echo?a=1", Answer: AnswerText, Body: []byte("hello"), Keep: []string{"ETag", "X-No"},
			Header: [][2]string{{"X-Key", "k1"}, {"Host", "warehouse"}}}, Succeeded, "",
			`{"body":"POST a=1 host=warehouse key=k1 idem=IDEM agent=skein trace=55 hello","headers":{"etag":"\"v1\""},"status":200}`},
		{"own agent", Request{URL: "/echo", Answer: AnswerText, Header: [][2]string{{"user-agent", "me"}, {"Host", "h"}}}, Succeeded, "",
			`{"body":"GET  host=h key= idem= agent=me trace=55 ","status":200}`},
		{"status", Request{URL: "/bad", Status: []int{200, 503}}, Succeeded, "", `{"status":503}`},
		{"bad", Request{URL: "/bad"}, Failed, CauseHTTP, "the answer is 503 Service Unavailable, 200 to 299 was expected"},
		{"bad of two", Request{URL: "/json", Status: []int{201, 204}}, Failed, CauseHTTP, "the answer is 200 OK, 201 or 204 was expected"},
		{"holds", Request{URL: "/json", Contains: `"ok": true`}, Succeeded, "", `{"status":200}`},
		{"holds not", Request{URL: "/json", Contains: "no"}, Failed, CauseHTTP, "the answer does not contain the expected text"},
		{"large", Request{URL: "/large"}, Succeeded, "", `{"status":200}`},
		{"large text", Request{URL: "/large", Answer: AnswerText}, Failed, CauseOutput, "the answer is larger than 65536 bytes"},
		{"binary", Request{URL: "/binary", Answer: AnswerText}, Failed, CauseOutput, "the answer is not text"},
		{"no JSON", Request{URL: "/echo", Answer: AnswerJSON}, Failed, CauseOutput, "the answer is not JSON"},
		{"NUL", Request{URL: "/nul", Answer: AnswerJSON}, Failed, CauseOutput, "the answer is not JSON"},
		{"moved", Request{URL: "/moved", Answer: AnswerJSON}, Succeeded, "", `{"body":{"rows":[1,2],"ok":true},"status":200}`},
		{"moved, expected", Request{URL: "/moved", Status: []int{301}, Keep: []string{"Location"}}, Succeeded, "", `{"headers":{"location":"/json"},"status":301}`},
		{"loop", Request{URL: "/loop"}, Failed, CauseHTTP, "more than 5 redirects"},
		{"away", Request{URL: "/away", Answer: AnswerText, Header: [][2]string{{"X-Key", "k1"}, {"Authorization", "k2"}}}, Succeeded, "", `{"body":"other: \"\" \"\"","status":200}`},
		{"away with a body", Request{Method: "POST", URL: "/away", Body: []byte("k3")}, Failed, CauseHTTP, "which would get the body of the request"},
		{"broken", Request{URL: "/broken"}, Failed, CauseHTTP, "the answer broke off: unexpected EOF"},
		{"nobody", Request{URL: nobody + "/p?token=k4"}, Failed, CauseHTTP, "GET " + nobody + "/p?…: dial tcp"},
		{"slow", Request{URL: "/hang", Timeout: 50 * time.Millisecond}, Failed, CauseTimeout, "there was no answer within 50ms"},
		{"refused", Request{URL: "/json?token=k4", Egress: egress.Rules{Policies: []string{egress.Public}}}, Failed, CauseEgress,
			"(egress_policy): the setting egress"},
		{"refused metadata", Request{URL: "http://169.254.169.254/latest?token=k4"}, Failed, CauseEgress, "gives credentials to a machine"},
		{"refused redirect", Request{URL: "/away", Egress: egress.Rules{Policies: []string{egress.Any}, Own: []egress.Own{{What: "node", Address: redirected(t, s.URL+"/away")}}}},
			Failed, CauseEgress, "a node of Skein"},
		{"no address", Request{URL: "ftp://x/"}, Failed, CauseStart, "must begin with http:// or https://"},
		{"bad header", Request{URL: "/json", Header: [][2]string{{"X-Key", "a\nk5"}}}, Failed, CauseHTTP, "invalid header field value"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if strings.HasPrefix(c.q.URL, "/") {
				c.q.URL = strings.Replace(s.URL, "http://", "http://user:k6@", 1) + c.q.URL
			}
			if c.q.Method == "" {
				c.q.Method = http.MethodGet
			}
			if len(c.q.Egress.Policies) == 0 {
				c.q.Egress = anywhere
			}
			job := Job{Key: r.key(), HTTP: &c.q}
			res := r.run(job)
			log := r.log(job.Key)
			if c.state == Succeeded {
				want(t, res, c.state, c.cause, "")
				if expected := strings.ReplaceAll(c.outputs, "IDEM", job.Key.RunID+"/"+job.Key.Task); string(res.Outputs) != expected {
					t.Errorf("outputs %s, want %s", res.Outputs, expected)
				}
			} else {
				want(t, res, c.state, c.cause, c.outputs)
			}
			for _, secret := range []string{"k1", "k2", "k3", "k4", "k5", "k6", "a=1"} {
				if strings.Contains(log, secret) || strings.Contains(res.Message, secret) {
					t.Errorf("it tells %s: %q, %q", secret, log, res.Message)
				}
			}
			if c.cause != CauseStart && (res.Started.IsZero() || res.LogBytes == 0 || res.Finished.Before(res.Started)) {
				t.Errorf("%+v", res)
			}
		})
	}
}

// TestHTTPEnds checks that a stop, a kill and the timeout end a waiting request, and that a request that was
// stopped before is not sent.
func TestHTTPEnds(t *testing.T) {
	r, s := newRig(t), answers(t)
	hang := func(timeout time.Duration) Job {
		return Job{Key: r.key(), HTTP: &Request{Method: "POST", URL: s.URL + "/hang", Body: []byte("x"), Egress: anywhere}, Timeout: timeout}
	}
	want(t, r.run(hang(50*time.Millisecond)), Failed, CauseTimeout, "there was no answer within the timeout of 50ms")
	for _, c := range []struct {
		mode  Mode
		cause string
	}{{ModeTerm, CauseStopped}, {ModeKill, CauseKilled}} {
		job := hang(0)
		r.Start(job)
		if c.mode == ModeTerm {
			for r.log(job.Key) == "" { // wait until the request is sent
				time.Sleep(time.Millisecond)
			}
		}
		r.Stop(job.Key, c.mode)
		want(t, r.wait(), Stopped, c.cause, "on request")
	}
}

// TestProxyOfTheEnvironment sends requests through a keeper that is a process of its own, with each variable
// that names a proxy. A host of NO_PROXY is called directly. The host is 0.0.0.0, because no proxy is used
// for loopback addresses.
func TestProxyOfTheEnvironment(t *testing.T) {
	said := func(what string) *httptest.Server {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodConnect {
				http.Error(w, "a tunnel", http.StatusTeapot)
				return
			}
			_, _ = io.WriteString(w, what)
		}))
		t.Cleanup(s.Close)
		return s
	}
	proxy, site := said("the proxy"), said("the site")
	to := "://0.0.0.0" + site.URL[strings.LastIndex(site.URL, ":"):]
	for _, c := range []struct {
		name, url string
		env       []string
		outputs   string // expected outputs, or expected message
	}{
		{"capitals", "http" + to, []string{"HTTP_PROXY"}, `{"body":"the proxy","status":200}`},
		{"small letters", "http" + to, []string{"http_proxy"}, `{"body":"the proxy","status":200}`},
		{"https", "https" + to, []string{"HTTPS_PROXY"}, "I'm a teapot"},
		{"https, small letters", "https" + to, []string{"https_proxy"}, "I'm a teapot"},
		{"exempt", "http" + to, []string{"HTTP_PROXY", "NO_PROXY"}, `{"body":"the site","status":200}`},
		{"exempt, small letters", "http" + to, []string{"http_proxy", "no_proxy"}, `{"body":"the site","status":200}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"} {
				t.Setenv(name, "")
			}
			for _, name := range c.env {
				if t.Setenv(name, proxy.URL); strings.EqualFold(name, "NO_PROXY") {
					t.Setenv(name, "0.0.0.0")
				}
			}
			b := newBond(t, t.TempDir(), time.Minute)
			b.Link.Start(Job{Key: Key{Namespace: "default", Workflow: "w", RunID: "r1", Task: "ask", Attempt: 1}, HTTP: &Request{Method: http.MethodGet, URL: c.url, Answer: AnswerText,
				Egress: egress.Rules{Policies: []string{egress.Any}, Proxy: egress.Environment}}})
			r := b.result()
			if got := string(r.Outputs) + r.Message; !strings.Contains(got, c.outputs) {
				t.Errorf("%s, %s, want %s", r.State, got, c.outputs)
			}
		})
	}
}

// TestSecretAtTheCut checks that the log shows no part of a secret. It shows only the beginning of an
// unexpected body, and here the cut is in the middle of a secret.
func TestSecretAtTheCut(t *testing.T) {
	const token = "0123456789abcdefghij"
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadGateway)
		_, _ = io.WriteString(w, strings.Repeat("x", excerptMax-10)+token+strings.Repeat(token, 8<<10)+token[:10])
	}))
	defer s.Close()
	r := newRig(t)
	job := Job{Key: r.key(), HTTP: &Request{Method: http.MethodGet, URL: s.URL, Answer: AnswerText, Egress: anywhere}, Secrets: []string{token}}
	want(t, r.run(job), Failed, CauseHTTP, "502 Bad Gateway")
	if log := r.log(job.Key); strings.Contains(log, token[:6]) || !strings.Contains(log, "xx***") {
		t.Errorf("the log ends with %q", log[max(0, len(log)-200):])
	}
}

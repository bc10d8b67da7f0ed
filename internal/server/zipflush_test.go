package server

import (
	"bufio"
	"compress/gzip"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestFlushOfACompressedAnswer: after a flush the client can read everything that was written so far, also
// through the compressor.
func TestFlushOfACompressedAnswer(t *testing.T) {
	s, line, read := &Server{zips: zips()}, strings.Repeat("x", zipLeast)+"\n", make(chan struct{})
	there := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		z := s.zipping(w, r)
		defer z.end()
		z.Header().Set("Content-Type", "application/json")
		_, err := z.Write([]byte(line))
		if flushed := http.NewResponseController(z).Flush(); err != nil || flushed != nil {
			t.Errorf("%v %v", err, flushed)
		}
		select {
		case <-read:
		case <-r.Context().Done():
		}
	}))
	defer there.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, there.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept-Encoding", "gzip")
	resp, err := there.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.Header.Get("Content-Encoding") != "gzip" {
		t.Fatal("the answer is not compressed")
	}
	zr, err := gzip.NewReader(resp.Body) // reads up to the flush
	if err != nil {
		t.Fatal(err)
	}
	got, err := bufio.NewReader(zr).ReadString('\n')
	close(read)
	if err != nil || got != line {
		t.Errorf("%d bytes of %d: %v", len(got), len(line), err)
	}
}

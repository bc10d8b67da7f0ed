package server_test

import (
	"bytes"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/server"
)

// viewer is an open stream of events.
type viewer struct {
	conn net.Conn
	text []byte // the newest part
}

// view opens a stream of events on a connection of its own. When it returns, the stream has begun.
func (b *bed) view(query string) (*viewer, error) {
	conn, err := net.Dial("tcp", strings.TrimPrefix(b.http.URL, "http://"))
	if err != nil {
		return nil, err
	}
	v := &viewer{conn: conn}
	if _, err = fmt.Fprintf(conn, "GET /api/v1/events%s HTTP/1.1\r\nHost: %s\r\n\r\n", query, conn.RemoteAddr()); err == nil {
		err = v.until(": skein\n\n")
	}
	return v, err
}

// until reads until a text comes.
func (v *viewer) until(text string) error {
	part := make([]byte, 4<<10)
	for {
		if at := bytes.Index(v.text, []byte(text)); at >= 0 {
			v.text = v.text[at+len(text):]
			return nil
		}
		v.text = slices.Clone(v.text[max(0, len(v.text)-len(text)):])
		n, err := v.conn.Read(part)
		if v.text = append(v.text, part[:n]...); err != nil {
			return fmt.Errorf("%q did not come: %w", text, err)
		}
	}
}

// TestManyViewers: 1,000 streams of one node all see the end of a run. They share the work for a change. If
// more changes than their share come at once, each stream gets the request to read again.
func TestManyViewers(t *testing.T) {
	const viewers = 1000
	b := newBed(t, false)
	b.apply("w")
	run := b.run("w")
	first := <-b.exec.got
	queries := []string{"", "?workflow=w", "?topics=run:" + run.ID}
	all := make([]*viewer, viewers)
	defer func() {
		for _, v := range all {
			if v != nil {
				_ = v.conn.Close()
			}
		}
	}()
	each := func(do func(i int) error) {
		t.Helper()
		var wg sync.WaitGroup
		failed := make(chan error, viewers)
		for i := range all {
			wg.Go(func() {
				if err := do(i); err != nil {
					failed <- err
				}
			})
		}
		wg.Wait()
		if len(failed) > 0 {
			t.Fatalf("%d viewers failed, one of them: %v", len(failed), <-failed)
		}
	}
	each(func(i int) (err error) {
		all[i], err = b.view(queries[i%len(queries)])
		return err
	})
	if n := server.Fans(b.srv); n != 2 {
		t.Errorf("the streams need %d encodings, want one for all runs and one for the run", n)
	}
	b.exec.end(first, succeeded())
	for range 3 {
		b.exec.end(<-b.exec.got, succeeded())
	}
	each(func(i int) error { return all[i].until(`"state":"succeeded"`) })

	wf := must(b.engine.Workflow(t.Context(), "default", "w"))
	subs := make([]engine.Submission, 300)
	for i := range subs {
		subs[i] = engine.Submission{Workflow: wf, Version: wf.Version, User: "u"}
	}
	if _, err := b.engine.SubmitAll(t.Context(), subs); err != nil {
		t.Fatal(err)
	}
	each(func(i int) error {
		if i%len(queries) == 2 { // these runs do not concern it
			return nil
		}
		return all[i].until("event: reset\n")
	})
	each(func(i int) error { return all[i].conn.Close() })
	b.stop()
	if n := server.Fans(b.srv); n != 0 {
		t.Errorf("%d fans are open after the last stream", n)
	}
	b.start()
}

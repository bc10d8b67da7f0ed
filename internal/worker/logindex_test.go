//go:build linux

package worker

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/logindex"
)

// TestLogIndex checks that a log of a certain size or more has an index next to it, with the lines, the
// levels and the times of all its blocks, also if the log was cut in the middle.
func TestLogIndex(t *testing.T) {
	began := time.Now()
	r := newRig(t, func(c *Config) { c.LogMax = 5 << 20 })
	small := r.sh("yes | head -c 1000000")
	want(t, r.run(small), Succeeded, "", "")
	if exists(LogPath(r.data, small.Key) + logindex.Suffix) {
		t.Error("a small log has an index")
	}
	for _, command := range []string{
		"yes 'all is well' | head -c 1500000; echo an ERROR; echo a warning; yes 'all is well' | head -c 1500000",
		"yes 'an error' | head -c 9000000",
		"i=0; while [ $i -lt 20 ]; do head -c 70000 /dev/zero; echo; i=$((i+1)); done",
	} {
		job := r.sh(command)
		r.run(job)
		log := r.log(job.Key)
		records, err := os.ReadFile(LogPath(r.data, job.Key) + logindex.Suffix)
		if err != nil {
			t.Fatal(err)
		}
		x, err := logindex.Read(records, int64(len(log)), strings.NewReader(log))
		if err != nil || x.Size() != int64(len(records)/logindex.RecordSize)*logindex.Block || x.Size() < int64(len(log))-2*logindex.Block-200 {
			t.Fatalf("%s: an index of %d bytes describes %d of %d: %v", command, len(records), x.Size(), len(log), err)
		}
		for i, e := range x.Entries() {
			if at := time.UnixMicro(e.At); at.Before(began) || at.After(time.Now()) {
				t.Errorf("%s: block %d began at %v", command, i, at)
			}
		}
		if err := x.Extend(context.Background(), strings.NewReader(log), int64(len(log))); err != nil {
			t.Fatal(err)
		}
		want := logindex.Totals{Lines: int64(bytes.Count([]byte(log), []byte{'\n'}))}
		want.Errors, want.Warnings = int64(strings.Count(strings.ToLower(log), "error")), int64(strings.Count(log, "warning"))
		if got := x.Totals(); got != want {
			t.Errorf("%s: %+v, want %+v", command, got, want)
		}
	}
}

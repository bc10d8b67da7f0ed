package logs

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/logindex"
)

// TestIndexInFolder: when a log has ended, its index is copied to the shared folder. A log without an index
// gets the one that a reader has made.
func TestIndexInFolder(t *testing.T) {
	local, shared := Folder{t.TempDir()}, Folder{t.TempDir()}
	s := NewShipper(shared, local.Path, slog.New(slog.DiscardHandler))
	records := bytes.Repeat([]byte("record"), 100)
	for token, indexed := range map[dag.Token]bool{1: true, 2: false} {
		ref := Ref{Namespace: "default", Workflow: "w", Run: dag.RunID{1}, Name: "a", Token: token}
		path := local.path(&ref)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, make([]byte, 2*logindex.From), 0o600); err != nil {
			t.Fatal(err)
		}
		if indexed {
			if err := os.WriteFile(path+logindex.Suffix, records, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s.Begin(ref)
		if err := s.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		r, err := shared.Open(t.Context(), ref)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.(Indexed).Index(); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the log grows, and has an index: %v", err)
		}
		s.End(ref, 2*logindex.From)
		if err := s.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		got, err := r.(Indexed).Index()
		if indexed && !bytes.Equal(got, records) || !indexed && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("indexed %v: %d bytes, %v", indexed, len(got), err)
		}
		if err := r.(Indexed).PutIndex(records[6:]); err != nil {
			t.Fatal(err)
		}
		if got, err := r.(Indexed).Index(); !bytes.Equal(got, records[6:]) {
			t.Errorf("indexed %v: what a reader stored: %d bytes, %v", indexed, len(got), err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestIndexOfAWorker: the index of a log that only a worker has comes in pieces. A worker of an earlier
// version gives pieces of the log instead, which end the reading.
func TestIndexOfAWorker(t *testing.T) {
	var x logindex.Index
	x.Add(make([]byte, 2*logindex.Block), 1)
	records := append(x.Records(), make([]byte, 2*PieceMax)...) // only the first record is checked here
	asked := 0
	for name, from := range map[string][]byte{"index": records, "log": bytes.Repeat([]byte("line\n"), len(records))} {
		asked = 0
		r := Whole(t.Context(), &cut{text: []byte("0123456789"), first: 5}, func(_ context.Context, p Piece) ([]byte, error) {
			if asked++; !p.Index {
				t.Error("a piece of the log was asked for")
			}
			return from[min(p.Offset, int64(len(from))):min(int64(len(from)), p.Offset+PieceMax)], nil
		})
		got, err := r.(Indexed).Index()
		if err != nil || name == "index" && !bytes.Equal(got, records) || name == "log" && asked != 1 {
			t.Errorf("%s: %d bytes after %d questions: %v", name, len(got), asked, err)
		}
	}
}

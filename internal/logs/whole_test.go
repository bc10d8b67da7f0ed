package logs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"
)

// cut is a log of which only the bytes from an offset on are kept.
type cut struct {
	text  []byte
	first int64
	goes  int64 // the value of first from the next read on
}

func (c *cut) First(at int64) int64 { return max(at, c.first) }
func (c *cut) Size() (int64, error) { return int64(len(c.text)), nil }
func (c *cut) Close() error         { return nil }

func (c *cut) ReadAt(p []byte, off int64) (int, error) {
	if c.first = max(c.first, c.goes); off < c.first {
		return 0, notKept(off, c.first)
	}
	return bytes.NewReader(c.text).ReadAt(p, off)
}

// TestWhole reads a log from several offsets. Whole reads the kept bytes where they are kept, and requests
// the others from give. If kept bytes are deleted during the reading, it requests these, too.
func TestWhole(t *testing.T) {
	text := []byte(strings.Repeat("0123456789", PieceMax/4))
	size := int64(len(text))
	asked := 0
	give := func(_ context.Context, p Piece) ([]byte, error) {
		asked++
		return text[p.Offset:min(size, p.Offset+PieceMax)], nil
	}
	for name, kept := range map[string]*cut{
		"the end is kept":               {text: text, first: size - 100},
		"it goes while it is read":      {text: text, first: 100, goes: size - 7},
		"it goes before it can be read": {text: text, goes: size},
	} {
		for _, offset := range []int64{0, 1, PieceMax - 1, size - 101, size - 100, size - 1} {
			from := *kept
			r := Whole(t.Context(), &from, give)
			if first := r.First(offset); first != offset {
				t.Errorf("%s: from %d: begins at %d", name, offset, first)
			}
			got, err := io.ReadAll(io.NewSectionReader(r, offset, size-offset))
			if err != nil || !bytes.Equal(got, text[offset:]) {
				t.Errorf("%s: from %d: %d bytes, %v", name, offset, len(got), err)
			}
		}
	}
	asked = 0
	r := Whole(t.Context(), &cut{text: text, first: 100}, give)
	if got, err := io.ReadAll(io.NewSectionReader(r, 100, size)); err != nil || int64(len(got)) != size-100 || asked > 0 {
		t.Errorf("%d bytes, %v; what is kept was asked for %d times", len(got), err, asked)
	}
}

// TestWholeInVain: bytes that no node gives count as not kept, and are requested once. Bytes that the store
// loses later are requested, too.
func TestWholeInVain(t *testing.T) {
	for name, no := range map[string]Giver{
		"not there": func(context.Context, Piece) ([]byte, error) { return nil, nil },
		"frozen":    func(context.Context, Piece) ([]byte, error) { return nil, errors.New("no answer") },
	} {
		asked := 0
		kept := &cut{text: []byte("0123456789"), first: 5}
		r := Whole(t.Context(), kept, func(ctx context.Context, p Piece) ([]byte, error) { asked++; return no(ctx, p) })
		for _, at := range []int64{0, 4} {
			if first := r.First(at); first != 5 {
				t.Errorf("%s: from %d: begins at %d", name, at, first)
			}
		}
		if _, err := r.ReadAt(make([]byte, 3), 1); !errors.Is(err, fs.ErrNotExist) || asked != 1 {
			t.Errorf("%s: %v, after %d questions", name, err, asked)
		}
		if kept.first = 8; r.First(6) != 8 || asked != 2 {
			t.Errorf("%s: begins at %d, after %d questions", name, r.First(6), asked)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	r := Whole(ctx, &cut{text: []byte("0123456789"), first: 5}, func(context.Context, Piece) ([]byte, error) {
		cancel()
		return nil, fmt.Errorf("the reader has gone: %w", ctx.Err())
	})
	if _, err := r.ReadAt(make([]byte, 3), 1); !errors.Is(err, context.Canceled) {
		t.Errorf("a reader that has gone: %v", err)
	}
}

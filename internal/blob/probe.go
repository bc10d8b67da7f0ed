package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// probeKey is the object that Probe writes. It is not deleted, so that several nodes may probe at the same
// time.
const probeKey = "skein-probe"

// Probe checks that a store can be used. The credentials must permit writing, reading and listing. The store
// must not overwrite an existing object if a call requires a new one.
func Probe(ctx context.Context, s Store) error {
	content := strings.NewReader("This object belongs to Skein. It shows that the store can be written.\n")
	for range 2 {
		err := s.Put(ctx, probeKey, content, content.Size(), PutOptions{IfAbsent: true})
		if err != nil && !errors.Is(err, ErrExists) {
			return err
		}
		if errors.Is(err, ErrExists) {
			return probeReads(ctx, s)
		}
	}
	return fmt.Errorf("%s: %w: the server ignores If-None-Match, so it would overwrite final artifacts; use a server that supports conditional writes", s.Name(), ErrRefused)
}

func probeReads(ctx context.Context, s Store) error {
	r, err := s.Open(ctx, probeKey, 0, -1)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, io.LimitReader(r, PartSize))
	if err := errors.Join(err, r.Close()); err != nil {
		return fmt.Errorf("read from %s: %w", s.Name(), err)
	}
	_, err = s.List(ctx, probeKey, "", 1)
	return err
}

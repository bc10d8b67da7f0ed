package sealed

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"skein.dev/skein/internal/secret"
	"skein.dev/skein/internal/store"
)

// rotateStep bounds the secrets that one call of Rotate seals again.
const rotateStep = 200

// Rotation is the state of a change of keys.
type Rotation struct {
	Key    string // the id of the present key
	Sealed int    // secrets that this call has sealed again
	Left   bool   // more secrets are left, so call again
}

// Rotate changes the key of the secrets in steps. The first call makes another key the present one: a new key
// if the node makes its keys itself, and otherwise the last key of the file. Every call seals some secrets
// again with the present key. Both keys are needed until Left is false. If begin is true, the call may start
// a change. Otherwise it only continues a change, which may also be one that was interrupted before the new
// key in the file became the present one.
func (b *Book) Rotate(ctx context.Context, begin bool) (Rotation, error) {
	b.rotating.Lock()
	defer b.rotating.Unlock()
	is, err := b.Check(ctx)
	if err != nil {
		return Rotation{}, err
	}
	if is.ID == "" {
		return Rotation{}, refuse("there is no secret yet, and no key to change")
	}
	keys, err := b.keys()
	if err != nil {
		return Rotation{}, err
	}
	pending := keys[len(keys)-1].ID() != is.ID
	if pending && !begin && !b.Own {
		return Rotation{}, refuse("no change of keys has begun, because the last key of %s is not the present key: run the command without --continue", b.File)
	}
	if begin || pending {
		if keys, err = b.next(ctx, keys, is.ID); err != nil {
			return Rotation{}, err
		}
	}
	r, err := b.reseal(ctx, keys)
	if err == nil && !r.Left && b.Own {
		err = b.forget(r.Key)
	}
	return r, err
}

// next makes the last key of the file the present one.
func (b *Book) next(ctx context.Context, keys []secret.Key, present string) ([]secret.Key, error) {
	last := keys[len(keys)-1]
	switch {
	case last.ID() != present: // a person has added the key, or an earlier change was interrupted at this point
	case !b.Own:
		return nil, refuse("the last key of %s is the present one: add a new one as the last line of the file, on every node, with: "+
			"openssl rand -base64 32", b.File)
	case len(keys) > 1: // an earlier change is not complete, so it must be completed first
		return keys, nil
	default:
		text, err := secret.File(b.File)
		if err != nil {
			return nil, err
		}
		if err := b.replace(strings.TrimSpace(string(text)) + "\n" + secret.NewKey() + "\n"); err != nil {
			return nil, err
		}
		if keys, err = b.keys(); err != nil {
			return nil, err
		}
		last = keys[len(keys)-1]
	}
	err := b.Store.SetSecretKey(ctx, last.ID(), present)
	if errors.Is(err, store.ErrFenced) {
		err = fmt.Errorf("the key of the secrets: %w: try again", ErrBusy)
	}
	return keys, err
}

// reseal seals again those secrets that are sealed with an earlier key.
func (b *Book) reseal(ctx context.Context, keys []secret.Key) (r Rotation, err error) {
	is, err := b.Store.SecretKey(ctx)
	if err != nil {
		return r, err
	}
	with, err := b.find(keys, is.ID)
	if err != nil {
		return r, err
	}
	r.Key = is.ID
	for namespace, name := "", ""; ; {
		some, err := b.Store.SecretList(ctx, namespace, name, rotateStep)
		if err != nil || len(some) == 0 {
			return r, err
		}
		for i := range some {
			s := &some[i]
			if namespace, name = s.Namespace, s.Name; s.Key == is.ID {
				continue
			}
			if r.Sealed == rotateStep {
				r.Left = true
				return r, nil
			}
			if err := b.rewrap(ctx, keys, s, with); err != nil {
				return r, err
			}
			r.Sealed++
		}
	}
}

func (b *Book) rewrap(ctx context.Context, keys []secret.Key, s *store.Secret, with secret.Key) error {
	from, err := b.find(keys, s.Key)
	if err != nil {
		return fmt.Errorf("secret %s/%s: %w", s.Namespace, s.Name, err)
	}
	next := *s
	if next.Wrapped, err = from.Rewrap(sealName(s), s.Wrapped, with); err != nil {
		return fmt.Errorf("secret %s/%s: %w: set it again, or delete it", s.Namespace, s.Name, err)
	}
	next.Key = with.ID()
	err = b.Store.RewrapSecret(ctx, next, s.Key)
	if errors.Is(err, store.ErrFenced) { // the secret was set or deleted in the meantime: a new value uses the present key
		return nil
	}
	return err
}

// forget removes all other keys from a file that the node makes itself.
func (b *Book) forget(present string) error {
	text, err := secret.File(b.File)
	if err != nil {
		return err
	}
	kept := ""
	for line := range strings.Lines(string(text)) {
		if keys, err := secret.ParseKeys([]byte(line)); err == nil && keys[0].ID() == present {
			kept = strings.TrimSpace(line) + "\n"
		}
	}
	if kept == "" {
		return fmt.Errorf("%w: %s changed meanwhile", ErrKey, b.File)
	}
	return b.replace(kept)
}

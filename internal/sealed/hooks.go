package sealed

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"skein.dev/skein/internal/store"
)

// The secret that signs the calls of a webhook is itself a secret of the trigger's namespace. People can
// neither read nor set it. Skein makes it, and shows it once.

const (
	// hookPrefix is the prefix of the names of these secrets. A name that people choose has no slash.
	hookPrefix = "__hook/"
	// hookText is the prefix of a secret in the form of Standard Webhooks.
	hookText = "whsec_"
	// hookBytes is the number of random bytes of a secret.
	hookBytes = 32
	// hooksLooked bounds the number of secrets that one call of DropHooks reads.
	hooksLooked = 1000
)

// HookKeysMax bounds the valid secrets of one webhook: the present one, and those that it has replaced.
const HookKeysMax = 3

// Hook identifies a webhook.
type Hook struct {
	Namespace string
	Workflow  int64
	Trigger   string
}

// Name returns the name of the secret in its namespace.
func (h Hook) Name() string { return hookPrefix + strconv.FormatInt(h.Workflow, 10) + "/" + h.Trigger }

// HookKey is a secret with which calls of a webhook may be signed.
type HookKey struct {
	Secret string `json:"secret"`
	Until  int64  `json:"until,omitempty"` // microseconds of UNIX time; 0 means no end
}

// HookKeys returns the secrets of a webhook that are valid at a time, the newest first. It returns
// ErrNotFound if Skein has made none.
func (b *Book) HookKeys(ctx context.Context, h Hook, now int64) ([]HookKey, error) {
	value, _, err := b.value(ctx, Name{h.Namespace, h.Name()})
	if errors.Is(err, ErrNotFound) {
		return nil, fmt.Errorf("%w: Skein has made none for this webhook", ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	return validHookKeys(value, now)
}

// manyKeys is an ErrBusy that means that too many earlier secrets of the webhook are still valid.
type manyKeys struct{ earlier int }

func (m *manyKeys) Error() string {
	return fmt.Sprintf("%d earlier secrets of this webhook are still valid: wait until one has ended, or end all of them with --grace 0s", m.earlier)
}

func (m *manyKeys) Unwrap() error { return ErrBusy }

func validHookKeys(value []byte, now int64) (keys []HookKey, err error) {
	if value == nil {
		return nil, nil
	}
	if err := json.Unmarshal(value, &keys); err != nil {
		return nil, fmt.Errorf("the secret of the webhook cannot be read: make another one: %w", err)
	}
	return slices.DeleteFunc(keys, func(k HookKey) bool { return k.Until != 0 && k.Until <= now }), nil
}

// RotateHook makes a new secret for a webhook, and returns it with the earlier secrets that stay valid. The
// previous secret stays valid until the given time. If that time is not later than now, all earlier secrets
// end. RotateHook returns ErrBusy if too many earlier secrets are still valid.
func (b *Book) RotateHook(ctx context.Context, h Hook, by string, now, until int64) (keys []HookKey, err error) {
	random := make([]byte, hookBytes)
	_, _ = rand.Read(random)
	made := HookKey{Secret: hookText + base64.StdEncoding.EncodeToString(random)}
	_, err = b.change(ctx, Name{h.Namespace, h.Name()}, by, func(old []byte) ([]byte, error) {
		keys = []HookKey{made}
		if until > now {
			was, err := validHookKeys(old, now)
			if err != nil {
				return nil, err
			}
			if len(was) > 0 {
				was[0].Until = until
			}
			keys = append(keys, was...)
		}
		if n := len(keys); n > HookKeysMax {
			return nil, &manyKeys{n - 2}
		}
		return json.Marshal(keys)
	})
	if err != nil {
		return nil, err
	}
	return keys, nil
}

// DropHooks deletes the secrets of webhooks in a namespace for whose workflow gone returns true. One call
// reads at most hooksLooked secrets.
func (b *Book) DropHooks(ctx context.Context, namespace string, gone func(workflow int64) (bool, error)) error {
	all, err := b.Store.SecretList(ctx, namespace, hookPrefix, hooksLooked)
	if err != nil {
		return err
	}
	for i := range all {
		rest, is := strings.CutPrefix(all[i].Name, hookPrefix)
		if !is || all[i].Namespace != namespace {
			return nil
		}
		number, _, _ := strings.Cut(rest, "/")
		id, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			continue
		}
		drop, err := gone(id)
		if err == nil && drop {
			err = b.Store.DropSecret(store.WithAudit(ctx, nil), namespace, all[i].Name)
		}
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
	return nil
}

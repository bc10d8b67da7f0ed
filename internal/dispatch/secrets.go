package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"skein.dev/skein/internal/provider"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/sdk/shared/mask"
)

// Secrets returns the values of secrets. provider.Chain implements it.
type Secrets interface {
	Value(ctx context.Context, namespace, name string, quick bool) ([]byte, error)
}

// Params opens parameters of type secret. sealed.Book implements it.
type Params interface {
	OpenParam(ctx context.Context, namespace, workflow, name, text string) ([]byte, error)
}

// secretsAway bounds the time for which an attempt waits for a provider of secrets that does not answer.
const secretsAway = 2 * time.Minute

// secretsOf reads the secrets that an attempt uses, and records them for masking.
type secretsOf struct {
	ctx       context.Context
	from      Secrets // nil if the node has no secrets
	params    Params  // nil if parameters of type secret cannot be opened
	namespace string
	workflow  string
	quick     bool     // calls to a provider are not allowed
	values    []string // each once
	err       error    // the reason why a secret or parameter cannot be read
}

func (s *secretsOf) value(name string) (string, error) {
	if s.from == nil {
		s.err = errors.New("this process has no secrets")
		return "", s.err
	}
	value, err := s.from.Value(s.ctx, s.namespace, name, s.quick)
	if err != nil {
		s.err = err
		return "", err
	}
	return s.hidden(value), nil
}

// hidden records a value that must be masked.
func (s *secretsOf) hidden(value []byte) string {
	text := string(value)
	if !slices.Contains(s.values, text) {
		s.values = append(s.values, text)
	}
	return text
}

// param opens a parameter of type secret.
func (s *secretsOf) param(name, sealed string) (string, error) {
	if s.params == nil {
		s.err = errors.New("this process cannot open parameters of type secret; run the task on a node of the cluster")
		return "", s.err
	}
	value, err := s.params.OpenParam(s.ctx, s.namespace, s.workflow, name, sealed)
	if err != nil {
		s.err = err
		return "", err
	}
	return s.hidden(value), nil
}

// hide returns the reason why an attempt is not started, without the values of secrets. The error of an
// expression may contain a part or a changed form of a value, which a mask cannot find. So for such an error,
// hide keeps only the position of the expression. If the store or a provider does not answer, the task does
// not fail.
func (s *secretsOf) hide(err error) error {
	switch {
	case s.err != nil && (errors.Is(s.err, store.ErrUnavailable) || errors.Is(s.err, provider.ErrSlow) || s.ctx.Err() != nil):
		return s.err
	case s.err != nil: // an error such as an unavailable provider, for which surely waits
		return &notStarted{causeSecret, s.err}
	case len(s.values) > 0:
		place, _, _ := strings.Cut(err.Error(), ": ")
		place = mask.NewSet(s.values).String(place)
		err = fmt.Errorf("%s: the expression cannot be evaluated; the reason is not shown, because it may quote a secret", place)
	}
	return &notStarted{causeExpression, err}
}

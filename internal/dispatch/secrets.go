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

// Secrets gives the values of secrets, as provider.Chain does.
type Secrets interface {
	Value(ctx context.Context, namespace, name string, quick bool) ([]byte, error)
}

// Params opens parameters of type secret, as sealed.Book does.
type Params interface {
	OpenParam(ctx context.Context, namespace, workflow, name, text string) ([]byte, error)
}

// secretsAway bounds how long an attempt waits for a provider of secrets that does not answer.
const secretsAway = 2 * time.Minute

// secretsOf reads the secrets that an attempt uses, and remembers them so that they are masked.
type secretsOf struct {
	ctx       context.Context
	from      Secrets // nil: there are none
	params    Params  // nil: there are none
	namespace string
	workflow  string
	quick     bool     // true: a call to a provider is not allowed
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

// hidden records a value that is to be masked.
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

// hide returns the reason for which an attempt is not started, without the values of secrets. An error of an
// expression may quote a part or a changed form of a value, which no mask finds. So hide keeps only the
// position of the expression. An outage of the store or of a provider is no fault of the task.
func (s *secretsOf) hide(err error) error {
	switch {
	case s.err != nil && (errors.Is(s.err, store.ErrUnavailable) || errors.Is(s.err, provider.ErrSlow) || s.ctx.Err() != nil):
		return s.err
	case s.err != nil: // for example an unavailable provider, for which the function surely waits
		return &notStarted{causeSecret, s.err}
	case len(s.values) > 0:
		place, _, _ := strings.Cut(err.Error(), ": ")
		place = mask.NewSet(s.values).String(place)
		err = fmt.Errorf("%s: the expression cannot be evaluated; the reason is not shown, because it may quote a secret", place)
	}
	return &notStarted{causeExpression, err}
}

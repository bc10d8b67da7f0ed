//go:build linux

package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"skein.dev/skein/internal/connection"
	"skein.dev/skein/internal/egress"
	"skein.dev/skein/sdk/shared/mask"
	"skein.dev/skein/sdk/shared/output"
)

// query executes a statement. Its log has neither the text of the statement nor its parameters. The outputs
// are made before the commit, so that no result is refused whose effect is durable.
func (q *Request) query(ctx context.Context, a *attempt, log io.Writer) (got answer) {
	defer func() {
		if p := recover(); p != nil { // the driver parses messages of a foreign server, and may panic
			got = fault(CauseSQL, "the driver of the database panicked: %v", p)
		}
		if got.err != nil {
			fmt.Fprintln(log, got.err)
		}
	}()
	dial, err := egress.Dialer(q.Egress)
	if err != nil {
		return fault(CauseStart, "the statement cannot be executed: %w", err)
	}
	of := q.SQL
	var kept answer
	s := connection.Statement{Text: of.Text, Params: of.Params, Result: of.Result, Isolation: of.Isolation, Max: outputsMaxDefault,
		Keep: func(done *connection.Done) error {
			kept = of.outputs(done, a.masks)
			return kept.err
		}, Wanted: a.w.holds}
	if of.Once {
		if s.Once = a.job.Key.IdempotencyKey; s.Once == "" {
			return fault(CauseStart, "the statement has once, and the attempt has no key for it")
		}
	}
	fmt.Fprintf(log, "session of %s at %s\n", of.To.User, of.To.Host)
	_, err = of.To.Run(ctx, of.Password, dial, &s, log)
	if refused, ok := egress.Refused(err); ok {
		return fault(CauseEgress, "%w", refused)
	}
	switch {
	case err == nil:
		return kept
	case kept.err != nil:
		return kept
	case errors.Is(err, connection.ErrUnknown):
		_, why, _ := strings.Cut(err.Error(), connection.ErrUnknown.Error())
		return fault(CauseSQL, "%w%s", connection.ErrUnknown, a.masks.String(why))
	}
	return answer{cause: CauseSQL, err: errors.New(a.masks.String(err.Error()))}
}

// outputs returns the outputs of the task, or the reason why they cannot be kept.
func (of *Query) outputs(done *connection.Done, masks *mask.Set) answer {
	values := map[string]json.RawMessage{"rows_affected": json.RawMessage(strconv.FormatInt(done.Affected, 10))}
	switch of.Result {
	case connection.ResultFirst:
		values["row"] = done.Rows
	case connection.ResultRows:
		values["rows"] = done.Rows
	}
	raw, err := output.Marshal(values)
	switch {
	case err != nil:
		return fault(CauseOutput, "the result cannot be kept: %w", err)
	case len(raw) > outputsMaxDefault:
		return fault(CauseOutput, "the result is larger than %d bytes: select less, or write it into a table", outputsMaxDefault)
	case output.HoldsNUL(raw):
		return fault(CauseOutput, "the result holds a NUL, which no output can")
	case masks.HoldsJSON(raw):
		return answer{cause: CauseSecret, err: errHoldsSecret}
	}
	return answer{outputs: raw}
}

//go:build linux

package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"skein.dev/skein/internal/connection"
	"skein.dev/skein/internal/egress"
	"skein.dev/skein/internal/mask"
	"skein.dev/skein/internal/output"
)

// query executes a statement. Its log has neither the text of the statement nor its parameters.
func (q *Request) query(ctx context.Context, job *Job, masks *mask.Set, log io.Writer) (got answer) {
	defer func() {
		if p := recover(); p != nil { // the driver reads what a foreign server says
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
	s := connection.Statement{Text: of.Text, Params: of.Params, Result: of.Result, Isolation: of.Isolation, Max: outputsMaxDefault}
	if of.Once {
		s.Once = job.Key.IdempotencyKey
	}
	fmt.Fprintf(log, "session of %s at %s\n", of.To.User, of.To.Host)
	done, err := of.To.Run(ctx, of.Password, dial, &s, log)
	if refused, ok := egress.Refused(err); ok {
		return fault(CauseEgress, "%w", refused)
	}
	if err != nil {
		return answer{cause: CauseSQL, err: errors.New(masks.String(err.Error()))}
	}
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
	}
	return answer{outputs: raw}
}

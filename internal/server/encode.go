package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strconv"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"skein.dev/skein/internal/dag"
	api "skein.dev/skein/sdk/api/v1"
)

// Runs are encoded field by field. The usual encoder inspects their types each time, sorts the states of
// every run, and parses each instant after it has written it. That took a third of the time for a list of
// runs. The output is the same, byte for byte.

// encoded is a pool of buffers for answers. A buffer of more than encodedKept bytes is not put back.
var encoded = sync.Pool{New: func() any { return new([]byte) }}

const encodedKept = 256 << 10

// marshal writes an answer as JSON.
func marshal(w io.Writer, v any) error {
	switch v.(type) {
	case api.Run, *api.Run, api.List[api.Run]:
	default:
		return huma.DefaultJSONFormat.Marshal(w, v)
	}
	buf := encoded.Get().(*[]byte)
	b, err := (*buf)[:0], error(nil)
	switch v := v.(type) {
	case api.Run:
		b, err = appendRun(b, &v, new(countsAt))
	case *api.Run:
		b, err = appendRun(b, v, new(countsAt))
	case api.List[api.Run]:
		b, err = appendRuns(b, &v)
	}
	if err != nil {
		return err
	}
	b = append(b, '\n')
	_, err = w.Write(b)
	if cap(b) <= encodedKept {
		*buf = b
		encoded.Put(buf)
	}
	return err
}

func appendRuns(b []byte, l *api.List[api.Run]) (_ []byte, err error) {
	if l.Items == nil {
		b = append(b, `{"items":null`...)
	} else {
		b = append(b, `{"items":[`...)
		last := new(countsAt)
		for i := range l.Items {
			if i > 0 {
				b = append(b, ',')
			}
			if b, err = appendRun(b, &l.Items[i], last); err != nil {
				return b, err
			}
		}
		b = append(b, ']')
	}
	b = appendTextOrNull(append(b, `,"next":`...), l.Next)
	if l.Total != nil {
		if b, err = appendAny(append(b, `,"total":`...), l.Total); err != nil {
			return b, err
		}
	}
	return append(b, '}'), nil
}

func appendRun(b []byte, r *api.Run, last *countsAt) (_ []byte, err error) {
	b = appendText(append(b, `{"id":`...), r.ID)
	b = appendText(append(b, `,"workflow":`...), r.Workflow)
	b = appendText(append(b, `,"namespace":`...), r.Namespace)
	b = strconv.AppendInt(append(b, `,"version":`...), int64(r.Version), 10)
	b = appendText(append(b, `,"state":`...), r.State)
	b = appendText(append(b, `,"intent":`...), r.Intent)
	b = appendTextOrNull(append(b, `,"cause":`...), r.Cause)
	b = appendTextOrNull(append(b, `,"message":`...), r.Message)
	b = strconv.AppendInt(append(b, `,"generation":`...), int64(r.Generation), 10)
	b = appendTime(append(b, `,"created_at":`...), &r.CreatedAt)
	b = appendTime(append(b, `,"started_at":`...), r.StartedAt)
	b = appendTime(append(b, `,"finished_at":`...), r.FinishedAt)
	if b, err = appendFloat(append(b, `,"duration":`...), r.Duration); err != nil {
		return b, fmt.Errorf("duration: %w", err)
	}
	b = appendText(append(b, `,"user":`...), r.User)
	b = appendTextOrNull(append(b, `,"claimed_by":`...), r.ClaimedBy)
	b = appendText(append(b, `,"origin":`...), r.Origin)
	b = appendTextOrNull(append(b, `,"trigger":`...), r.Trigger)
	b = appendTime(append(b, `,"instant":`...), &r.Instant)
	if b = append(b, `,"backfill":`...); r.Backfill != nil {
		b = strconv.AppendInt(b, *r.Backfill, 10)
	} else {
		b = append(b, "null"...)
	}
	b = appendTextOrNull(append(b, `,"rerun_of":`...), r.RerunOf)
	b = appendTextOrNull(append(b, `,"from":`...), r.From)
	b = appendTextOrNull(append(b, `,"parent":`...), r.Parent)
	b = appendTextOrNull(append(b, `,"parent_task":`...), r.ParentTask)
	if len(r.Tags) > 0 {
		if b, err = appendAny(append(b, `,"tags":`...), r.Tags); err != nil {
			return b, err
		}
	}
	b = appendText(append(b, `,"priority":`...), r.Priority)
	return appendRest(b, r, last)
}

// appendRest appends the fields of a run from its position on.
func appendRest(b []byte, r *api.Run, last *countsAt) (_ []byte, err error) {
	if b, err = appendSome(append(b, `,"position":`...), r.Position, r.Position != nil); err != nil {
		return b, err
	}
	b = appendTextOrNull(append(b, `,"idempotency_key":`...), r.Key)
	if b = append(b, `,"params":`...); r.Params != nil && len(r.Params) == 0 {
		b = append(b, "{}"...)
	} else if b, err = appendSome(b, r.Params, r.Params != nil); err != nil {
		return b, err
	}
	b = appendTime(append(b, `,"split_at":`...), r.SplitAt)
	b = appendTime(append(b, `,"modified_at":`...), &r.ModifiedAt)
	b = appendTextOrNull(append(b, `,"leader":{"handler":`...), r.Leader.Handler)
	b = appendTextOrNull(append(b, `,"node":`...), r.Leader.Node)
	b = appendTime(append(b, `,"assigned_at":`...), r.Leader.AssignedAt)
	if b, err = last.append(append(b, `},"counts":`...), r.Counts); err != nil {
		return b, err
	}
	if b = append(b, `,"failed_tasks":`...); r.FailedTasks == nil {
		b = append(b, "null"...)
	} else {
		b = append(b, '[')
		for i, t := range r.FailedTasks {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendText(b, t)
		}
		b = append(b, ']')
	}
	if b, err = appendSome(append(b, `,"tasks":`...), r.Tasks, r.Tasks != nil); err != nil {
		return b, err
	}
	return append(b, '}'), nil
}

// appendText appends a string. It uses the usual encoder for text with characters that JSON escapes, or that
// may not be UTF-8.
func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x80 || c == '"' || c == '\\' {
			b, _ = appendAny(b, s) // a string can always be encoded
			return b
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

func appendTextOrNull(b []byte, s *string) []byte {
	if s == nil {
		return append(b, "null"...)
	}
	return appendText(b, *s)
}

func appendTime(b []byte, t *api.Time) []byte {
	if t == nil {
		return append(b, "null"...)
	}
	b, _ = t.AppendText(append(b, '"')) // an instant can always be encoded
	return append(b, '"')
}

func appendFloat(b []byte, f *float64) ([]byte, error) {
	if f == nil {
		return append(b, "null"...), nil
	}
	if a := math.Abs(*f); a != 0 && !(a >= 1e-6 && a < 1e21) { // the value is not a number, or is written with an exponent
		return appendAny(b, *f)
	}
	return strconv.AppendFloat(b, *f, 'f', -1, 64), nil
}

// namesInOrder are the names of the states of tasks in the order of an encoded map.
var namesInOrder = func() (names []string) {
	for _, s := range dag.TaskStates() {
		names = append(names, s.String())
	}
	slices.Sort(names)
	return names
}()

// countsAt says where the counts of the previous run were written. Runs of a page with equal counts share a
// map, so most counts are copied.
type countsAt struct {
	of       uintptr // the address of the map; 0 means no map
	from, to int
}

func (c *countsAt) append(b []byte, counts map[string]int) (_ []byte, err error) {
	of := reflect.ValueOf(counts).Pointer()
	if of != 0 && of == c.of {
		return append(b, b[c.from:c.to]...), nil
	}
	from := len(b)
	if b, err = appendCounts(b, counts); err == nil {
		*c = countsAt{of, from, len(b)}
	}
	return b, err
}

func appendCounts(b []byte, counts map[string]int) ([]byte, error) {
	from, found := len(b), 0
	b = append(b, '{')
	for _, name := range namesInOrder {
		n, there := counts[name]
		if !there {
			continue
		}
		if found++; found > 1 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(append(append(append(b, '"'), name...), `":`...), int64(n), 10)
	}
	if counts == nil || found < len(counts) {
		return appendAny(b[:from], counts)
	}
	return append(b, '}'), nil
}

func appendSome(b []byte, v any, there bool) ([]byte, error) {
	if !there {
		return append(b, "null"...), nil
	}
	return appendAny(b, v)
}

// appendAny appends a value as the usual encoder writes it.
func appendAny(b []byte, v any) ([]byte, error) {
	w := bytes.NewBuffer(b)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(w.Bytes(), []byte{'\n'}), err
}

package skein

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"time"

	"github.com/google/uuid"

	api "skein.dev/skein/sdk/api/v1"
)

const (
	// manyStarts and manyBytes bound one call of StartMany.
	manyStarts = 1000
	manyBytes  = 8 << 20
	// manyPause is the pause before StartMany repeats starts that the server has temporarily refused.
	manyPause = time.Second
)

// StartBatch starts up to [api.StartsMax] runs with one call and returns a verdict on each, in their order.
// When it returns, every accepted run is durable. A start without an idempotency key gets one. After an
// error, call it again with the same keys. A start that was accepted before then has the verdict existing.
func (c *Client) StartBatch(ctx context.Context, starts []api.RunRequest, opts ...CallOption) (res api.BatchResult, err error) {
	raw := make([]json.RawMessage, len(starts))
	for i := range starts {
		if raw[i], err = startOf(starts[i]); err != nil {
			return res, err
		}
	}
	return startBatch(ctx, c, raw, opts)
}

// startOf encodes a start, with a key.
func startOf(s api.RunRequest) (json.RawMessage, error) {
	if s.IdempotencyKey == "" {
		s.IdempotencyKey = api.KeyOnce + uuid.NewString()
	}
	b, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("%w: encode the start: %w", ErrInvalid, err)
	}
	return b, nil
}

func startBatch(ctx context.Context, c *Client, starts []json.RawMessage, opts []CallOption) (res api.BatchResult, err error) {
	k := newCall(http.MethodPost, opts, "runs")
	k.verb = "batch"
	k.body = map[string]any{"runs": starts}
	if _, err = c.do(ctx, k, &res); err == nil && len(res.Items) != len(starts) {
		err = fmt.Errorf("%w: %s answered %d verdicts for %d starts", ErrUnavailable, c.base, len(res.Items), len(starts))
	}
	return res, err
}

// StartMany starts all runs of the sequence, up to 1,000 with one call. It yields a verdict on each, in
// their order. A start without an idempotency key gets one. A refused start is a verdict and not an error.
// An error is the last pair, and ends the sequence. If the server temporarily refuses starts (429, 503),
// they are repeated within [WithPatience].
func (c *Client) StartMany(ctx context.Context, starts iter.Seq[api.RunRequest], opts ...CallOption) iter.Seq2[api.StartVerdict, error] {
	return func(yield func(api.StartVerdict, error) bool) {
		var chunk []json.RawMessage
		size := 0
		send := func() bool {
			verdicts, err := startPatiently(ctx, c, chunk, opts)
			for _, v := range verdicts {
				if !yield(v, nil) {
					return false
				}
			}
			if err != nil {
				yield(api.StartVerdict{}, err)
			}
			chunk, size = chunk[:0], 0
			return err == nil
		}
		for s := range starts {
			b, err := startOf(s)
			if err != nil {
				if len(chunk) == 0 || send() {
					yield(api.StartVerdict{}, err)
				}
				return
			}
			if len(chunk) == manyStarts || len(chunk) > 0 && size+len(b) > manyBytes {
				if !send() {
					return
				}
			}
			chunk, size = append(chunk, b), size+len(b)
		}
		if len(chunk) > 0 {
			send()
		}
	}
}

// startPatiently repeats starts that the server has temporarily refused.
func startPatiently(ctx context.Context, c *Client, starts []json.RawMessage, opts []CallOption) ([]api.StartVerdict, error) {
	res, err := startBatch(ctx, c, starts, opts)
	if err != nil {
		return nil, err
	}
	for until := time.Now().Add(c.patience); time.Now().Before(until); {
		var again []json.RawMessage
		var at []int
		for i, v := range res.Items {
			if p := v.Problem; p != nil && (p.Status == http.StatusTooManyRequests || p.Status == http.StatusServiceUnavailable) {
				again, at = append(again, starts[i]), append(at, i)
			}
		}
		if len(again) == 0 {
			break
		}
		select {
		case <-ctx.Done():
			return res.Items, ctx.Err()
		case <-time.After(manyPause):
		}
		more, err := startBatch(ctx, c, again, opts)
		if err != nil {
			return nil, err
		}
		for n, i := range at {
			res.Items[i] = more.Items[n]
		}
	}
	return res.Items, nil
}

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/google/uuid"

	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

const (
	// batchStarts and batchBytes bound the starts of one call.
	batchStarts = 1000
	batchBytes  = 4 << 20
	// batchLineMax bounds a line of the file, in bytes.
	batchLineMax = 1 << 20
	// batchSaid is the number of starts between two lines about the progress.
	batchSaid = 10_000
)

// batchLine is a line of the file: the body of POST /runs, without the workflow.
type batchLine struct {
	Params         api.Params `json:"params"`
	Tags           api.Tags   `json:"tags"`
	IdempotencyKey string     `json:"idempotency_key"`
	Priority       string     `json:"priority"`
	Version        int32      `json:"version"`
	From           string     `json:"from"`
}

// lineVerdict is the result for a line, in the form in which it is printed.
type lineVerdict struct {
	Line int `json:"line"`
	api.StartVerdict
}

// batchRun is `skein run NAME --batch FILE`.
type batchRun struct {
	c     *cli
	w     *waiter
	f     *runFlags
	name  string
	given map[string]string // the parameters of -p, for lines that do not set them
	types []api.Param
	known bool // whether types was read

	lines  *bufio.Scanner
	line   int // the number of the last line that was read
	starts []api.RunRequest
	at     []int // line numbers of the starts
	size   int

	accepted, existing, refused int
	first                       error // the error of the first refused start
}

// startBatch starts a run for each line of a file. Each start has a key, so a start without an answer can be
// sent again.
func (c *cli) startBatch(ctx context.Context, name string, f *runFlags) (err error) {
	if f.follow || f.timeout != 0 {
		return usage("--batch starts runs and does not wait for them: leave out --follow and --timeout")
	}
	given, err := splitPairs("-p", f.params)
	if err != nil {
		return err
	}
	in := c.in
	if f.batch != "-" {
		file, err := os.Open(f.batch)
		if err != nil {
			return usage("--batch: %v", err)
		}
		defer file.Close()
		in = file
	}
	if f.key == "" {
		f.key = api.KeyOnce + uuid.NewString()
	}
	b := &batchRun{c: c, w: c.newWaiter(false), f: f, name: name, given: given, lines: bufio.NewScanner(in)}
	defer b.w.stopSignals()
	b.w.hold = true
	b.lines.Buffer(make([]byte, 0, 64<<10), batchLineMax)
	for more := true; more && err == nil; {
		if more, err = b.read(); len(b.starts) > 0 { // the starts before an invalid line are sent
			err = errors.Join(b.send(ctx), err)
		}
	}
	if b.w.s != nil {
		b.w.s.close()
	}
	if b.accepted+b.existing+b.refused > 0 || err == nil {
		c.say("%d accepted, %d existing, %d refused", b.accepted, b.existing, b.refused)
	}
	if err == nil && b.refused > 0 {
		err = fmt.Errorf("%d of %d starts were refused; the first: %w", b.refused, b.accepted+b.existing+b.refused, b.first)
	}
	return err
}

// read collects the starts of the next call. It returns false after the last line.
func (b *batchRun) read() (more bool, err error) {
	b.starts, b.at, b.size = b.starts[:0], b.at[:0], 0
	for len(b.starts) < batchStarts && b.size < batchBytes {
		if !b.lines.Scan() {
			switch err := b.lines.Err(); {
			case errors.Is(err, bufio.ErrTooLong):
				return false, usage("--batch: line %d has more than %d bytes", b.line+1, batchLineMax)
			case err != nil:
				return false, fmt.Errorf("--batch: %w", err)
			}
			return false, nil
		}
		b.line++
		text := bytes.TrimSpace(b.lines.Bytes())
		if len(text) == 0 {
			continue
		}
		var l batchLine
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		if err := d.Decode(&l); err != nil {
			return false, usage(`--batch: line %d: %v; use an object such as {"params": {"day": "2026-11-20"}, "idempotency_key": "day-20"}`, b.line, err)
		}
		if _, err := d.Token(); !errors.Is(err, io.EOF) {
			return false, usage("--batch: line %d: there is text after the object; use one object on each line", b.line)
		}
		b.starts, b.at, b.size = append(b.starts, b.request(&l)), append(b.at, b.line), b.size+len(text)
	}
	return true, nil
}

// request returns the start of a line. The flags set the fields that are not in the line.
func (b *batchRun) request(l *batchLine) api.RunRequest {
	r := api.RunRequest{Workflow: b.name, Version: l.Version, Params: l.Params, Priority: l.Priority, From: l.From, IdempotencyKey: l.IdempotencyKey, Origin: "manual", Tags: l.Tags}
	if r.Tags == nil {
		r.Tags = b.f.tags
	}
	if r.Version == 0 {
		r.Version = b.f.version
	}
	if r.Priority == "" {
		r.Priority = b.f.priority
	}
	if r.From == "" {
		r.From = b.f.from
	}
	if r.IdempotencyKey == "" {
		r.IdempotencyKey = b.f.key + "/" + strconv.Itoa(b.line)
	}
	return r
}

// send starts the runs that were read, and prints the verdicts. If there is no answer, it sends the starts
// again.
func (b *batchRun) send(ctx context.Context) error {
	var res api.BatchResult
	err := b.w.withServer(ctx, func(s *session) (err error) {
		if len(b.given) > 0 && !b.known {
			w, err := s.Workflow(ctx, b.name)
			if err != nil {
				return err
			}
			b.types, b.known = w.Params, true
		}
		for i := range b.starts {
			for name, value := range typed(b.given, b.types) {
				if b.starts[i].Params == nil {
					b.starts[i].Params = api.Params{}
				}
				if _, said := b.starts[i].Params[name]; !said {
					b.starts[i].Params[name] = value
				}
			}
		}
		if res, err = s.StartBatch(ctx, b.starts); err == nil {
			b.w.contact()
		}
		return err
	})
	if err != nil {
		return err
	}
	before := b.accepted + b.existing + b.refused
	for i, v := range res.Items {
		if err := b.show(&lineVerdict{Line: b.at[i], StartVerdict: v}); err != nil {
			return err
		}
	}
	if n := b.accepted + b.existing + b.refused; n/batchSaid > before/batchSaid {
		b.c.say("%d starts …", n)
	}
	return nil
}

func (b *batchRun) show(v *lineVerdict) error {
	switch v.Verdict {
	case api.VerdictAccepted:
		b.accepted++
	case api.VerdictExisting:
		b.existing++
	default:
		if b.refused++; b.first == nil && v.Problem != nil {
			b.first = fmt.Errorf("line %d: %w", v.Line, &skein.Error{Problem: *v.Problem})
		}
	}
	var err error
	switch {
	case b.c.format == "json", b.c.format == "jsonl":
		err = newEncoder(b.c.out).Encode(v)
	case v.Run != nil:
		_, err = fmt.Fprintln(b.c.out, *v.Run)
	case v.Problem != nil:
		b.c.say("line %d: %s", v.Line, v.Problem.Detail)
	}
	return err
}

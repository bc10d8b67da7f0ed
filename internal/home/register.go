package home

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"connectrpc.com/connect"
	"github.com/google/uuid"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
	workerv1 "skein.dev/skein/sdk/api/worker/v1"
)

// Register implements the protocol.
func (d *desk) Register(ctx context.Context, in *workerv1.RegisterRequest) (*workerv1.RegisterResponse, error) {
	h := d.h
	if err := checkRegister(in); err != nil {
		return nil, h.malformed("%v", err)
	}
	m := store.Member{Handler: dag.HandlerID(in.Handler), UUID: in.Uuid, Name: in.Name, Worker: true, Version: in.Version, Format: h.cfg.Format,
		State: store.MemberActive, Slots: in.Slots, Busy: int32(len(in.Running)), Home: h.self(), Lease: 1,
		Traits: store.Traits{Groups: in.Groups, Labels: in.Labels, Kinds: in.Kinds, Levels: in.Levels, Users: in.Users, Extensions: extensionsOf(in.Extensions), Room: dag.Need{CPU: in.CpuMillis, Memory: in.MemoryBytes}}}
	for _, x := range in.Refused {
		m.Traits.Refuse(x.Folder, x.Why)
	}
	proven, err := within(ctx, h, &m)
	if err != nil {
		return nil, err
	}
	leave, err := h.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	sent := h.cfg.Boot()
	err = h.attach(ctx, &m)
	if err != nil {
		return nil, err
	}
	w := newWorker(m)
	w.sure, w.proven = sent, proven
	w.draining, w.full, w.deposits, w.fetches, w.reader, w.masks, w.handles = in.Draining, in.Full, in.Artifacts, in.Inputs, in.GivesLogs, in.Masks, in.Handles
	out := &workerv1.RegisterResponse{Handler: int64(m.Handler), Lease: m.Lease, PollMillis: h.cfg.Beat.Milliseconds(),
		LagMillis: h.cfg.Lag.Milliseconds(), Nodes: h.there().addresses, Logs: h.cfg.Logs != nil}
	if out.Logs {
		out.LogsKeep = h.cfg.Logs.Keep()
	}
	if out.Revoked, err = h.claimed(ctx, w, in.Running); err != nil {
		return nil, err
	}
	if err := h.welcome(ctx, w); err != nil {
		return nil, err
	}
	h.Stats.Registered.Add(1)
	h.log.Info("a worker has attached", "code", "worker_attached", "worker", m.Name, "slots", m.Slots, "lease", m.Lease, "running", len(in.Running))
	h.wakeSoon()
	h.poke()
	return out, nil
}

// extensionsOf converts the extensions of a registration.
func extensionsOf(in []*workerv1.Extension) (all []dag.Extension) {
	for _, x := range in {
		all = append(all, dag.Extension{Kind: x.Kind, Version: x.Version, Digest: x.Digest, Connection: x.Connection, Releases: x.Releases, Adopts: x.Adopts})
	}
	return all
}

const (
	// registersMax bounds the concurrent registrations. Each one writes rows and reads the members. More at
	// the same time would only make each one slower, until their callers give up and register again.
	registersMax = 16
	// enterMax bounds how long a registration waits for its turn. It is shorter than the time for which the
	// caller waits for the answer.
	enterMax = time.Second
	// comeAgain is how long the answer asks a refused worker to wait. Workers wait half to one and a half
	// times as long.
	comeAgain = 2 * time.Second
)

// enter waits for the turn of a registration. The caller must call leave when the registration has ended. If
// the node is too busy, enter returns an error that says when to register again.
func (h *Home) enter(ctx context.Context) (leave func(), err error) {
	over := time.NewTimer(enterMax)
	defer over.Stop()
	select {
	case h.registering <- struct{}{}:
		return func() { <-h.registering }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-over.C:
	}
	err = h.no(connect.CodeUnavailable, Busy, "more than %d workers register at this node now; come again in %v, or ask another node", registersMax, comeAgain)
	if is := new(connect.Error); errors.As(err, &is) {
		is.Meta().Set("Retry-After", strconv.Itoa(int(comeAgain.Seconds())))
	}
	return nil, err
}

// welcome adds a worker whose row names this node as its home.
func (h *Home) welcome(ctx context.Context, w *worker) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := ctx.Err(); err != nil { // the caller has gone, and the worker will register again under another lease
		return err
	}
	if old := h.workers[w.member.Handler]; old != nil {
		h.detach(old)
	}
	// When the row of this worker was written, the row of an older worker with the same name was removed. The
	// older worker is detached now, so that it learns this and ends its attempts.
	for _, old := range slices.Clone(h.lenders.named[w.member.Name]) {
		if !old.local && old.member.Handler < w.member.Handler {
			h.detach(old)
		}
	}
	h.admit(w)
	h.orders.give(w)
	h.offer(w)
	return nil
}

// claimed adds the attempts that a worker says it runs. The rows decide: the worker keeps the attempts that
// are its own, and the others are revoked. If a row cannot be read, the attempt keeps a slot, and every call
// about it reads the rows again.
func (h *Home) claimed(ctx context.Context, w *worker, all []*workerv1.Attempt) (revoked []*workerv1.Attempt, err error) {
	for _, a := range all {
		k, _ := keyOfWire(a) // the names were already checked
		x := &holding{Assignment: engine.Assignment{Place: placeOf(a)}, affirmed: time.Now(), confirmed: true}
		holds, err := h.eng.Holds(ctx, w.member.Handler, k.run, k.task, k.token)
		switch {
		case err != nil && ctx.Err() != nil:
			return nil, err
		case err == nil && !holds, err != nil && missing(err):
			revoked = append(revoked, a)
			continue
		case err != nil:
			x.affirmed = time.Time{}
		}
		if w.running[k] == nil {
			w.running[k] = x
			h.hold(w, x.Place.Need())
		}
	}
	return revoked, nil
}

// placeOf returns a placement with the resources that an attempt takes.
func placeOf(a *workerv1.Attempt) dag.Place {
	return dag.Anywhere.With(dag.Need{CPU: a.GetCpuMillis(), Memory: a.GetMemoryBytes()})
}

// attach writes a new row for a worker, or makes this node the home in its existing row. A name belongs to
// the listed worker until that worker leaves or its lease ends (record 046). A worker whose answer was lost
// registers again with the uuid of its row.
func (h *Home) attach(ctx context.Context, m *store.Member) error {
	if int(m.Slots) > h.cfg.SlotsMax {
		return h.no(connect.CodeResourceExhausted, TooMany, "worker %s has %d slots, and the nodes allow %d (worker_slots_max); start it with --slots %d, or the nodes with a higher --worker-slots-max",
			m.Name, m.Slots, h.cfg.SlotsMax, h.cfg.SlotsMax)
	}
	if m.Handler != 0 {
		return h.attachAgain(ctx, m)
	}
	members, err := h.listed(ctx)
	if err != nil {
		return connect.NewError(connect.CodeUnavailable, err)
	}
	workers := 0
	for i := range members {
		o := &members[i]
		if o.Worker {
			workers++
		}
		switch {
		case o.Name != m.Name:
		case !o.Worker:
			return h.no(connect.CodeAlreadyExists, NameTaken, "a node has the name %s; give the worker another: --name", m.Name)
		case o.UUID == m.UUID:
			m.Handler = o.Handler
			return h.attachAgain(ctx, m)
		default:
			return h.held(m.Name)
		}
	}
	if workers >= h.cfg.WorkersMax {
		return h.no(connect.CodeResourceExhausted, TooMany, "%d workers are listed, and the nodes allow %d (workers_max); start the nodes with a higher --workers-max, or end workers",
			workers, h.cfg.WorkersMax)
	}
	reg, err := h.cfg.Register(ctx, m.UUID, m.Name)
	if errors.Is(err, store.ErrRefused) { // an earlier registration wrote this handler and then failed, or the worker was deposed
		return h.no(connect.CodeFailedPrecondition, Fenced, "the uuid %s was registered before and is not listed; register under a new one", m.UUID)
	}
	if err == nil {
		m.Handler = reg.ID
		err = h.cfg.Store.Join(ctx, *m)
	}
	switch {
	case errors.Is(err, store.ErrNameHeld): // another worker has got the name meanwhile
		return h.held(m.Name)
	case err != nil:
		return connect.NewError(connect.CodeUnavailable, err)
	}
	return nil
}

// attachAgain makes this node the home in the row of a worker that is already listed under its handler.
func (h *Home) attachAgain(ctx context.Context, m *store.Member) error {
	lease, err := h.cfg.Store.Attach(ctx, *m)
	switch {
	case err != nil:
		return connect.NewError(connect.CodeUnavailable, err)
	case lease == 0:
		members, err := h.listed(ctx)
		if err != nil {
			return connect.NewError(connect.CodeUnavailable, err)
		}
		for i := range members {
			if o := &members[i]; o.Name == m.Name && o.Worker && o.Handler != m.Handler {
				return h.no(connect.CodeAlreadyExists, NameTaken, "handler %d was declared dead, and another worker has the name %s since; give one of them another: --name", m.Handler, m.Name)
			}
		}
		return h.no(connect.CodeFailedPrecondition, Fenced, "handler %d is listed no more: what it had was given to others", m.Handler)
	}
	m.Lease = lease
	return nil
}

// held returns the error about the name of a listed worker.
func (h *Home) held(name string) error {
	return h.no(connect.CodeAlreadyExists, NameHeld, "a worker with the name %s is listed; the name is free when that one has left, or %v after it was last heard of; if both are to run, give one another name: --name", name, h.cfg.Lag)
}

// Plain reports whether s can be the name of a worker, a group or a kind, or a part of a label.
func Plain(s string) bool {
	return s != "" && len(s) <= nameMax && utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || !unicode.IsPrint(r) })
}

func checkRegister(in *workerv1.RegisterRequest) error {
	bad := fmt.Errorf
	switch _, err := uuid.Parse(in.Uuid); {
	case err != nil:
		return bad("uuid %q is not a UUID", in.Uuid)
	case !Plain(in.Name):
		return bad("the name %q is invalid: use 1 to %d printable characters without spaces", in.Name, nameMax)
	case in.Slots < 1 || in.Slots > slotsMax:
		return bad("the number of slots, %d, is invalid: use 1 to %d", in.Slots, slotsMax)
	case len(in.Groups) > TraitsMax || len(in.Labels) > TraitsMax || len(in.Kinds) > TraitsMax || len(in.Extensions) > TraitsMax || len(in.Levels) > TraitsMax || len(in.Users) > TraitsMax:
		return bad("the worker has more than %d groups, labels, kinds, isolation levels, users or extensions", TraitsMax)
	case len(in.Running) > attemptsMax || len(in.Ended) > attemptsMax:
		return bad("the worker reports more than %d attempts", attemptsMax)
	case in.CpuMillis < 0 || in.MemoryBytes < 0:
		return bad("cpu %d or memory %d is negative", in.CpuMillis, in.MemoryBytes)
	case len(in.Version) > nameMax || !utf8.ValidString(in.Version):
		return bad("the version is invalid: use at most %d bytes of UTF-8", nameMax)
	}
	for _, list := range [][]*workerv1.Attempt{in.Running, in.Ended} {
		for _, a := range list {
			if _, err := keyOfWire(a); err != nil {
				return err
			}
		}
	}
	for _, g := range in.Groups {
		if !Plain(g) {
			return bad("the group %q is invalid: use 1 to %d printable characters without spaces", g, nameMax)
		}
	}
	for _, u := range in.Users {
		if !Plain(u) {
			return bad("the user %q is invalid: use 1 to %d printable characters without spaces", u, nameMax)
		}
	}
	for _, k := range in.Kinds {
		if !Plain(k) {
			return bad("the kind %q is invalid: use 1 to %d printable characters without spaces", k, nameMax)
		}
	}
	for _, x := range in.Extensions {
		if !Plain(x.Kind) || x.Version != "" && !Plain(x.Version) || x.Digest != "" && !Plain(x.Digest) || x.Connection != "" && !Plain(x.Connection) {
			return bad("the extension %q %q is invalid: use 1 to %d printable characters without spaces for each name", x.Kind, x.Version, nameMax)
		}
	}
	if unknown := slices.IndexFunc(in.Levels, func(level string) bool { return !slices.Contains(dag.IsolationLevels, level) }); unknown >= 0 {
		return bad("the isolation level %q does not exist: use %s", in.Levels[unknown], strings.Join(dag.IsolationLevels, ", "))
	}
	for k, v := range in.Labels {
		if !Plain(k) || v != "" && !Plain(v) || strings.Contains(k, "=") {
			return bad("the label %q is invalid: use NAME=VALUE of printable characters without spaces", k+"="+v)
		}
	}
	return nil
}

package notify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/metric"
	"skein.dev/skein/internal/store"
)

const (
	// callMax bounds one call of a channel.
	callMax = 10 * time.Second
	// callsMax bounds the calls of one channel at a time.
	callsMax = 4
	// backoffMin is the pause after the first failed call. The pause doubles with each further failure, up to
	// backoffMax. It varies randomly by a fifth.
	backoffMin, backoffMax = 5 * time.Second, 15 * time.Minute
	// lookMax bounds the time between two reads of due notices. New notices of an owned shard wake the
	// sender.
	lookMax = time.Minute
	// lookMin is the least time between two reads if the first one led to no call.
	lookMin = time.Second
	// duePage is the number of notices that one read returns at most, in addition to those that are being
	// sent.
	duePage = 500
	// errorMax bounds the bytes of an error in a row.
	errorMax = 500
	// noteMax bounds the pause before a failed record of a result is tried again.
	noteMax = 30 * time.Second
)

// Store is the part of the store that a sender uses.
type Store interface {
	store.Alerts
	Clock(ctx context.Context) (dag.Micros, error)
}

// Options are the dependencies of a sender.
type Options struct {
	Store  Store
	Shards func() []dag.ShardID // the shards that this node owns now
	Secret func(ctx context.Context, namespace, name string) ([]byte, error)
	// Transport returns the transport for a call of a channel of a namespace.
	Transport func(ctx context.Context, namespace string) (http.RoundTripper, error)
	Commands  bool // channels of kind command may run programs
	Mail      Mail
	Jitter    func(time.Duration) time.Duration // returns a random duration below its argument
	Log       *slog.Logger
}

// Sender sends the notices of the owned shards.
type Sender struct {
	o    Options
	wake chan struct{} // cap 1
	wg   sync.WaitGroup
	// taken lists the recipients that already have a mail that the server refused for other recipients.
	taken taken

	mu    sync.Mutex // protects following fields
	calls map[store.ChannelKey]int
	going map[noticeKey]bool
	// ended contains the notices whose calls have ended since the last read of due notices began. The rows of
	// that read may be older than the ends.
	ended map[noticeKey]bool
	paced map[store.ChannelKey]time.Time // the time until which a channel pauses after a bundle

	ends [len(outcomeNames)]atomic.Int64 // counts of notices by the result of their calls
}

// The results of a call for a notice, with their names in the metric.
const (
	outSent = iota
	outAgain
	outFailed
	outExpired
)

var outcomeNames = [...]string{"sent", "again", "failed", "expired"}

// Show writes the metrics of the sender.
func (s *Sender) Show(p *metric.Page) {
	for i, name := range outcomeNames {
		p.Set("alert_notices_total", float64(s.ends[i].Load()), name)
	}
}

type noticeKey struct {
	incident uuid.UUID
	seq      int32
	channel  string
}

func keyOf(n *store.Notice) noticeKey { return noticeKey{n.Incident, n.Seq, n.Channel} }

func channelOf(n *store.Notice) store.ChannelKey {
	return store.ChannelKey{Namespace: n.Namespace, Name: n.Channel}
}

// New makes a sender. It sends nothing until Run.
func New(o Options) *Sender {
	return &Sender{o: o, wake: make(chan struct{}, 1), calls: map[store.ChannelKey]int{}, going: map[noticeKey]bool{}, ended: map[noticeKey]bool{}, paced: map[store.ChannelKey]time.Time{}}
}

// Wake makes the sender read the due notices again. It does not block.
func (s *Sender) Wake() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Run sends notices until ctx ends. It returns when its calls have ended.
func (s *Sender) Run(ctx context.Context) {
	defer s.wg.Wait()
	for ctx.Err() == nil {
		began, err := s.look(ctx)
		wait := lookMax
		if err == nil {
			wait, err = s.next(ctx)
		}
		if err != nil && ctx.Err() == nil {
			s.o.Log.Warn("the notices of alerts cannot be read; the sender tries again", "code", "notices_unread", "err", err)
			wait = noteMax
		}
		if !began {
			wait = max(wait, lookMin)
		}
		select {
		case <-ctx.Done():
		case <-s.wake:
		case <-time.After(wait):
		}
	}
}

// next returns the time until the next notice is due.
func (s *Sender) next(ctx context.Context) (time.Duration, error) {
	shards := s.o.Shards()
	if len(shards) == 0 {
		return lookMax, nil
	}
	at, err := s.o.Store.NextNotice(ctx, shards)
	if errors.Is(err, store.ErrNotFound) {
		return lookMax, nil
	}
	if err != nil {
		return 0, err
	}
	now, err := s.o.Store.Clock(ctx)
	return min(max(time.Duration(at-now)*time.Microsecond, 0), lookMax), err
}

// look begins the calls for due notices, as far as their channels accept calls. began reports whether it
// began any.
func (s *Sender) look(ctx context.Context) (began bool, err error) {
	shards := s.o.Shards()
	if len(shards) == 0 {
		return false, nil
	}
	for {
		now, err := s.o.Store.Clock(ctx)
		if err != nil {
			return began, err
		}
		full, going := s.busy()
		due, err := s.o.Store.DueNotices(ctx, store.NoticeQuery{Shards: shards, Now: now, Not: full, Limit: duePage + going})
		if err != nil || len(due) == 0 {
			return began, err
		}
		// the channels are read each time, because a read of notices can take long and an address may have
		// changed
		channels, err := s.o.Store.AlertChannels(ctx)
		if err != nil {
			return began, err
		}
		some := false
		for _, all := range bundles(channels, due) {
			if all = s.take(all); len(all) > 0 {
				some = true
				s.wg.Go(func() { s.call(ctx, channels, all, now) })
			}
		}
		if began = began || some; !some {
			return began, nil
		}
	}
}

// busy lists the channels that accept no more calls, and returns the number of notices in calls. It is called
// before a read of due notices.
func (s *Sender) busy() (full []store.ChannelKey, going int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.ended)
	for k, until := range s.paced {
		if time.Now().Before(until) {
			full = append(full, k)
		} else {
			delete(s.paced, k)
		}
	}
	for k, n := range s.calls {
		if n >= callsMax {
			full = append(full, k)
		}
	}
	return full, len(s.going)
}

// take reserves one call for notices of one channel. It returns the notices that are not already being sent.
func (s *Sender) take(all []store.Notice) (taken []store.Notice) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := channelOf(&all[0])
	if s.calls[k] >= callsMax {
		return nil
	}
	for i := range all {
		if key := keyOf(&all[i]); !s.going[key] && !s.ended[key] {
			s.going[key] = true
			taken = append(taken, all[i])
		}
	}
	if len(taken) > 0 {
		s.calls[k]++
	}
	if len(taken) > 1 {
		s.paced[k] = time.Now().Add(bundlePause)
	}
	return taken
}

func (s *Sender) give(all []store.Notice) {
	s.mu.Lock()
	k := channelOf(&all[0])
	for i := range all {
		delete(s.going, keyOf(&all[i]))
		s.ended[keyOf(&all[i])] = true
	}
	if s.calls[k]--; s.calls[k] == 0 {
		delete(s.calls, k)
	}
	s.mu.Unlock()
	s.Wake()
}

// call sends one notice, or a bundle of several, and records the result.
func (s *Sender) call(ctx context.Context, channels []store.AlertChannel, all []store.Notice, now dag.Micros) {
	defer s.give(all)
	err := error(nil)
	expired := func(n *store.Notice) bool { return now >= n.Created+dag.Micros(store.NoticeExpiry.Microseconds()) }
	late := make([]bool, len(all))
	var live []store.Notice
	for i := range all {
		if late[i] = expired(&all[i]); !late[i] {
			live = append(live, all[i])
		}
	}
	if len(live) > 0 {
		err = s.send(ctx, channels, live)
		if ctx.Err() != nil {
			return // the node is ending, and the next owner sends the notice
		}
		if at, failed := s.o.Store.Clock(ctx); failed == nil {
			now = at
		}
	}
	for i := range all {
		n := all[i]
		n.Tries++
		if late[i] {
			s.judge(&n, nil, true, now)
		} else {
			s.judge(&n, err, false, now)
		}
		s.record(ctx, n)
	}
}

// judge computes the next state of a notice from the result of its call.
func (s *Sender) judge(n *store.Notice, err error, expired bool, now dag.Micros) {
	var final *PermanentError
	switch {
	case expired:
		s.ends[outExpired].Add(1)
		n.State, n.Ended = store.NoticeExpired, now
	case err == nil:
		s.ends[outSent].Add(1)
		n.State, n.Ended, n.Error = store.NoticeSent, now, ""
	case errors.As(err, &final):
		s.ends[outFailed].Add(1)
		n.State, n.Ended = store.NoticeFailed, now
	default:
		s.ends[outAgain].Add(1)
		n.Due = min(now+dag.Micros(s.backoff(n.Tries, err).Microseconds()), n.Created+dag.Micros(store.NoticeExpiry.Microseconds()))
	}
	if err != nil {
		n.Error = shortened(err.Error())
	}
	if n.State == store.NoticeFailed || n.State == store.NoticeExpired {
		s.o.Log.Error("a notice of an alert was not delivered; repair its channel, and try it with skein alert test", "code", "notice_lost", "namespace", n.Namespace, "channel", n.Channel,
			"incident", n.Incident.String(), "state", n.State, "tries", n.Tries, "err", n.Error)
	}
}

// backoff returns the pause after a number of failed calls.
func (s *Sender) backoff(tries int32, err error) time.Duration {
	wait := backoffMax
	if tries < 16 {
		wait = min(backoffMin<<(tries-1), backoffMax)
	}
	wait += s.o.Jitter(wait*2/5) - wait/5
	var again *AgainError
	if errors.As(err, &again) {
		wait = max(wait, again.After)
	}
	return wait
}

func shortened(text string) string {
	text = strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), "")
	if len(text) > errorMax {
		text = strings.ToValidUTF8(text[:errorMax], "")
	}
	return text
}

// record writes the result of a call to the store. Until the write succeeds, the notice counts as being in a
// call, so that it is not sent repeatedly.
func (s *Sender) record(ctx context.Context, n store.Notice) {
	for wait := time.Second; ; wait = min(2*wait, noteMax) {
		err := s.o.Store.NoteNotice(ctx, n)
		switch {
		case err == nil, ctx.Err() != nil:
			return
		case errors.Is(err, store.ErrFenced): // another node owns the shard and has recorded a call
			return
		}
		s.o.Log.Warn("the result of a notice cannot be recorded yet; the node tries again", "code", "notice_unrecorded", "incident", n.Incident.String(), "err", err)
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// send calls the channel of a notice, or of a bundle.
func (s *Sender) send(ctx context.Context, channels []store.AlertChannel, all []store.Notice) error {
	n := &all[0]
	row, there := store.FindAlertChannel(channels, n.Namespace, n.Channel)
	if !there {
		return fmt.Errorf("namespace %s has no channel %s: make it with: skein alert apply FILE", n.Namespace, n.Channel)
	}
	msg, err := messageOf(n)
	if len(all) > 1 {
		msg, err = bundleOf(all)
	}
	if err != nil {
		return err
	}
	return s.through(ctx, &row, msg)
}

func (s *Sender) through(ctx context.Context, row *store.AlertChannel, msg *Message) error {
	c, err := Parse(row.Data)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callMax)
	defer cancel()
	transport := func() (http.RoundTripper, error) { return s.o.Transport(ctx, row.Namespace) }
	m := means{transport: transport, commands: s.o.Commands, mail: s.o.Mail, taken: &s.taken, now: time.Now,
		secret: func(ctx context.Context, name string) (string, error) {
			value, err := s.o.Secret(ctx, row.Namespace, name)
			return string(value), err
		},
		refused: func(why string) {
			s.o.Log.Warn("an SMTP server refused some recipients of an alert's mail; correct their addresses in the channel", "code", "recipient_refused",
				"namespace", row.Namespace, "channel", row.Name, "incident", msg.Data.Incident, "err", why)
		},
		log: func(msg Message) {
			s.o.Log.Warn("alert: "+msg.Data.Text, "code", "alert", "type", msg.Type, "namespace", row.Namespace, "channel", row.Name, "severity", msg.Data.Severity,
				"incident", msg.Data.Incident, "run", msg.Data.Run)
		}}
	err = s.guarded(row, func() error { return c.send(ctx, &m, msg) })
	if err != nil && ctx.Err() == context.DeadlineExceeded {
		return fmt.Errorf("the channel did not answer within %s", callMax)
	}
	return err
}

// guarded converts a panic in a call to an error. For example, a library that parses the answers of a foreign
// server may panic.
func (s *Sender) guarded(row *store.AlertChannel, call func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the call panicked: %v", p)
			s.o.Log.Error("the call of a channel panicked; it is made again later; report this bug with the log", "code", "channel_panicked", "namespace", row.Namespace, "channel", row.Name,
				"err", err, "stack", string(debug.Stack()))
		}
	}()
	return call()
}

// Test sends a test message through a channel, once.
func (s *Sender) Test(ctx context.Context, row *store.AlertChannel, by string) error {
	return s.through(ctx, row, testMessage(row.Namespace, row.Name, by, uuid.NewString(), time.Now()))
}

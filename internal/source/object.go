package source

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"sort"
	"strings"
	"time"

	"skein.dev/skein/internal/blob"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/workflow"
)

// objectsMax bounds the number of objects in one list; see errObjects.
const objectsMax = 100_000

// Lister lists objects.
type Lister interface {
	// Each passes the objects whose keys begin with prefix and are greater than after to see, in the order of
	// their keys and in parts. It stops at the first error of see.
	Each(ctx context.Context, prefix, after string, see func([]blob.Info) error) error
	// Name returns the name of the place for people.
	Name() string
}

// Bucket lists the objects of a store.
type Bucket struct{ blob.Store }

// Each implements Lister. One part may take as long as one look.
func (b Bucket) Each(ctx context.Context, prefix, after string, see func([]blob.Info) error) error {
	for {
		page, err := within(ctx, func(ctx context.Context) ([]blob.Info, error) { return b.List(ctx, prefix, after, blob.PageMax) })
		if err == nil && len(page) == blob.PageMax { // the next page begins after its last key
			err = ascends(page, after)
		}
		if err == nil && len(page) > 0 {
			err = see(page)
		}
		if err != nil || len(page) < blob.PageMax {
			return err
		}
		after = page[len(page)-1].Key
	}
}

// errOrder means that a store does not list keys in the order of the protocol, so that a list would never
// end.
var errOrder = errors.New("the store does not list the keys in order after the last one")

// ascends checks that the keys of a page are in order, and after another key.
func ascends(page []blob.Info, after string) error {
	for i := range page {
		if page[i].Key <= after {
			return fmt.Errorf("%w: it lists %q after %q; set a narrower prefix, and leave ordered out", errOrder, shortened(page[i].Key), shortened(after))
		}
		after = page[i].Key
	}
	return nil
}

// Objects lists a place repeatedly. Each object that it has not listed before is an event. If the content of
// an object changes, it counts as another object.
type Objects struct {
	pulse
	Config *workflow.Objects
	Start  Start
	In     Lister
}

var _ Source = (*Objects)(nil)

// Run implements Source.
func (o *Objects) Run(ctx context.Context, from []byte, give func(context.Context, Batch) error) error {
	look := o.inOrder
	if !o.Config.Ordered {
		m, known, begun, err := readMemory(from, keyOf("object", sumOf(o.Config.URL, o.Config.Prefix, o.Config.Pattern)))
		if err != nil {
			return err
		}
		turn := objectTurn{Objects: o, m: m, known: known, baseline: !begun && !o.Start.Beginning}
		look = turn.look
	}
	for cursor := from; ; {
		next, err := look(ctx, cursor, give)
		if err != nil {
			return err
		}
		cursor = next
		o.answered(0)
		if err := o.wait(ctx, time.Duration(o.Config.Every), nil); err != nil {
			return err
		}
	}
}

// wanted reports whether an object can be an event. Programs write an empty object such as in/ for a folder.
func (o *Objects) wanted(is *blob.Info) bool {
	if strings.HasSuffix(is.Key, "/") && is.Size == 0 {
		return false
	}
	if o.Config.Pattern == "" {
		return true
	}
	ok, err := path.Match(o.Config.Pattern, strings.TrimPrefix(is.Key, o.Config.Prefix))
	return ok && err == nil
}

// early reports whether an object is older than the trigger. Stores round times to seconds.
func (o *Objects) early(is *blob.Info) bool {
	return !o.Start.Beginning && is.Modified.Before(o.Start.Since.Truncate(time.Second))
}

func (o *Objects) event(is *blob.Info) Event {
	place, _, _ := strings.Cut(o.Config.URL, "?")
	value, err := json.Marshal(struct {
		URL      string `json:"url"`
		Key      string `json:"key"`
		Name     string `json:"name"`
		Size     int64  `json:"size"`
		Modified string `json:"modified"`
		ETag     string `json:"etag"`
	}{strings.TrimRight(place, "/") + "/" + is.Key, is.Key, path.Base(is.Key), is.Size, is.Modified.UTC().Format(time.RFC3339Nano), is.ETag})
	e := Event{Key: keyOf("object", sumOf(place, is.Key, is.ETag)), Value: value, Reason: "the object " + shortened(is.Key)}
	if err == nil && len(value) > valueMax {
		err = errTooLarge
	}
	if err != nil {
		e.Value, e.Reason = nil, e.Reason+" cannot be used: "+err.Error()
	}
	return e
}

// inOrder passes on the objects after the last known one. The cursor is the key of that object.
func (o *Objects) inOrder(ctx context.Context, cursor []byte, give func(context.Context, Batch) error) ([]byte, error) {
	if cursor == nil && !o.Start.Beginning {
		last := ""
		err := o.In.Each(ctx, o.Config.Prefix, "", func(page []blob.Info) error {
			o.answered(0)
			for i := range page {
				if o.early(&page[i]) {
					last = page[i].Key
				}
			}
			return nil
		})
		if err != nil {
			return cursor, err
		}
		if last != "" {
			if err := give(ctx, Batch{Cursor: []byte(last)}); err != nil {
				return cursor, err
			}
			cursor = []byte(last)
		}
	}
	err := o.In.Each(ctx, o.Config.Prefix, string(cursor), func(page []blob.Info) error {
		if err := ascends(page, string(cursor)); err != nil {
			return err
		}
		for len(page) > 0 {
			b, n, size := Batch{After: cursor}, 0, 0
			for ; n < len(page) && n < engine.BatchEventsMax; n++ {
				if !o.wanted(&page[n]) {
					continue
				}
				e := o.event(&page[n])
				if size += e.Size(); size > engine.BatchBytesMax {
					break
				}
				b.Events = append(b.Events, e)
			}
			b.Cursor, page = []byte(page[n-1].Key), page[n:]
			o.answered(int64(len(b.Events)))
			if err := give(ctx, b); err != nil {
				return err
			}
			cursor = b.Cursor
		}
		return nil
	})
	return cursor, err
}

// objectTurn is the state of a list without an order between two looks.
type objectTurn struct {
	*Objects
	m        memory
	known    seen
	baseline bool // objects that are older than the trigger are no events
}

type listed struct {
	is blob.Info
	k  mark
	at workflow.Position
}

// look lists all objects, and passes on the new ones, the oldest first.
func (t *objectTurn) look(ctx context.Context, cursor []byte, give func(context.Context, Batch) error) ([]byte, error) {
	now := seen{marks: map[mark]workflow.Position{}, floor: t.known.floor}
	var fresh []listed
	count := 0
	err := t.In.Each(ctx, t.Config.Prefix, "", func(page []blob.Info) error {
		t.answered(int64(len(fresh)))
		if count += len(page); count > objectsMax {
			return errObjects
		}
		for i := range page {
			is := &page[i]
			if !t.wanted(is) {
				continue
			}
			sum := sumOf(is.Key, is.ETag)
			k, at := mark(sum[:len(mark{})]), workflow.Position{Number: float64(is.Modified.UnixMicro()), Int: is.Modified.UnixMicro()}
			switch _, marked := t.known.marks[k]; {
			case marked, t.baseline && t.early(is):
				now.marks[k] = at
			case t.known.below(at):
			default:
				fresh = append(fresh, listed{*is, k, at})
			}
		}
		return nil
	})
	if err != nil {
		return cursor, err
	}
	sort.Slice(fresh, func(i, j int) bool {
		a, b := &fresh[i], &fresh[j]
		return cmp.Or(a.at.Compare(b.at), strings.Compare(a.is.Key, b.is.Key)) < 0
	})
	return t.giveAll(ctx, cursor, &now, fresh, give)
}

func (t *objectTurn) giveAll(ctx context.Context, cursor []byte, now *seen, fresh []listed, give func(context.Context, Batch) error) ([]byte, error) {
	for begin := 0; begin < len(fresh) || t.baseline; {
		part := fresh[begin:min(begin+engine.BatchEventsMax, len(fresh))]
		b := Batch{After: cursor}
		for i, size := 0, 0; i < len(part); i++ {
			e := t.event(&part[i].is)
			if size += e.Size(); size > engine.BatchBytesMax {
				part = part[:i]
				break
			}
			b.Events = append(b.Events, e)
			now.marks[part[i].k] = part[i].at
		}
		now.shrink()
		packed := *now
		if rest := begin + len(part); rest < len(fresh) {
			packed.spare(fresh[rest].at)
		}
		var err error
		if b.Cursor, err = t.m.pack(&packed); err != nil {
			return cursor, err
		}
		t.answered(int64(len(fresh) - begin))
		if err := give(ctx, b); err != nil {
			return cursor, err
		}
		cursor, begin, t.baseline = b.Cursor, begin+len(part), false
		t.known = *now
	}
	return cursor, nil
}

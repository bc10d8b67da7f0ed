package workflow

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Claims is the part of a definition that names queues and locks, which all runs of a cluster share.
type Claims struct {
	Queue      string   `json:"queue,omitempty"`
	Locks      []string `json:"locks,omitempty"`       // may contain ${{ }} over params and trigger.time
	LockPolicy string   `json:"lock_policy,omitempty"` // wait | fail; "" is wait
	Triggers   []struct {
		Name  string `json:"name"`
		Queue string `json:"queue,omitempty"`
	} `json:"triggers,omitempty"`
}

// DecodeClaims reads the queues and locks of a definition. It returns nil if there are none.
func DecodeClaims(def []byte) (*Claims, error) {
	c := &Claims{}
	if err := json.Unmarshal(def, c); err != nil {
		return nil, fmt.Errorf("decode the queues and locks of a workflow: %w", err)
	}
	named := c.Queue != "" || len(c.Locks) > 0
	for i := range c.Triggers {
		named = named || c.Triggers[i].Queue != ""
	}
	if !named {
		return nil, nil
	}
	return c, nil
}

// QueueOf returns the queue of a run that a trigger has started, and the definition that names the queue.
// trigger is "" for a run without a trigger.
func (c *Claims) QueueOf(trigger string) (queue, by string) {
	for i := range c.Triggers {
		if t := &c.Triggers[i]; trigger != "" && t.Name == trigger && t.Queue != "" {
			return t.Queue, "trigger " + trigger
		}
	}
	return c.Queue, "its workflow"
}

// GlobalLock begins the name of a lock that several namespaces share. Only the text in the file counts, and
// not the value of an expression, so a start cannot choose a shared lock.
const GlobalLock = "global/"

// LocksOf evaluates the names of the locks of a run. The names in global are those without GlobalLock.
func (c *Claims) LocksOf(params json.RawMessage, at time.Time) (names, global []string, err error) {
	from := values{params: params, at: at}
	for _, text := range c.Locks {
		text, isGlobal := strings.CutPrefix(text, GlobalLock)
		if hasTemplate(text) {
			t, faults := (*declarations)(nil).template(text, inClaim)
			if len(faults) > 0 {
				return nil, nil, fmt.Errorf("%s: %w", quoteShort(text), faults[0])
			}
			name, err := t.render(from.lookup)
			if err != nil {
				return nil, nil, fmt.Errorf("%s: %w", quoteShort(text), err)
			}
			text = name
		}
		list := &names
		if isGlobal {
			list = &global
		}
		if !slices.Contains(*list, text) {
			*list = append(*list, text)
		}
	}
	return names, global, nil
}

// KeyExpr is the per_key of a queue: CEL over params and trigger.time.
type KeyExpr struct{ x *expression }

// CompileKey compiles the per_key of a queue. It does not check the names of parameters, which are known only
// for each run.
func CompileKey(expr string) (*KeyExpr, error) {
	x, faults := (*declarations)(nil).compile(expr, inClaim)
	if len(faults) > 0 {
		return nil, fmt.Errorf("%s: %w", quoteShort(expr), faults[0])
	}
	return &KeyExpr{x}, nil
}

// CheckKey returns an error for a per_key that does not compile, or that certainly costs more than the writer
// of a shard may spend.
func CheckKey(expr string) error {
	k, err := CompileKey(expr)
	if err != nil || k.x.path != nil {
		return err
	}
	if fault := k.x.tooCostly(); fault != nil {
		return fmt.Errorf("%s: %w", quoteShort(expr), *fault)
	}
	return nil
}

// Key returns the key of a run: the value of the expression as a text.
func (k *KeyExpr) Key(params json.RawMessage, at time.Time) (string, error) {
	from := values{params: params, at: at}
	v, err := k.x.run(from.lookup)
	if err != nil {
		return "", err
	}
	return render(v)
}

// locks reads the names of locks and checks their expressions.
func (r *reader) locks(n *node) []string {
	if n == nil || n.kind != listNode {
		return nil
	}
	var names []string
	for i, v := range n.vals {
		at := fmt.Sprintf("locks[%d]", i)
		if i == locksMax {
			r.failNode(v, at, fmt.Sprintf("the workflow names %d locks, the limit is %d", len(n.vals), locksMax), "let one lock protect several things")
			return names
		}
		if !v.isText() {
			continue
		}
		if hasTemplate(v.text) {
			r.complain(v, at, 0, r.compile(v.text, inClaim).faults)
		} else if len(v.text) > lockBytesMax {
			r.failNode(v, at, fmt.Sprintf("the name of a lock has %d bytes, at most %d", len(v.text), lockBytesMax), "give it a shorter name")
		}
		names = append(names, v.text)
	}
	return names
}

// Bounds of locks, equal to those of package dag.
const (
	locksMax     = 16
	lockBytesMax = 200
)

package workflow

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	celref "github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// The pauses between two looks of a source, if the trigger does not name one.
const (
	PollEveryDefault   = Duration(60e9)
	QueryEveryDefault  = Duration(10e9)
	ObjectEveryDefault = Duration(30e9)
	QuerySettleDefault = Duration(10e9)
)

// Poll reads a document over HTTP repeatedly. Its items are events.
type Poll struct {
	// Connection names the connection that has the address of the server; URL is then a path. It is "" if
	// there is none.
	Connection string   `json:"connection,omitempty"`
	URL        string   `json:"url"`
	Every      Duration `json:"every"`
	// Items is CEL over answer that returns the list; "" if answer itself is the list.
	Items string `json:"items,omitempty"`
	ID    string `json:"id,omitempty"` // CEL over item; "" means the whole item identifies it
	// Newer is CEL over item that returns the item's position, which grows. It is "" if items have no position.
	Newer string `json:"newer,omitempty"`
}

// Query reads rows of a database. Each row is one event.
type Query struct {
	Connection string   `json:"connection"`
	Query      string   `json:"query"`  // :cursor stands for the position
	Cursor     string   `json:"cursor"` // the column whose last value is the next :cursor
	Every      Duration `json:"every"`
	// Listen is the channel of NOTIFY that wakes the source; "" if there is none.
	Listen string   `json:"listen,omitempty"`
	Settle Duration `json:"settle"` // the longest time to wait for transactions that began earlier
}

// Objects lists a store or a folder. Each object is an event.
type Objects struct {
	URL     string   `json:"url"`              // s3://BUCKET/… or file:///FOLDER
	Secret  string   `json:"secret,omitempty"` // the name of the secret with the credentials
	Prefix  string   `json:"prefix,omitempty"`
	Pattern string   `json:"pattern,omitempty"` // glob of the key after the prefix; "" means every key
	Every   Duration `json:"every"`
	Ordered bool     `json:"ordered,omitempty"` // keys grow, so a key that sorts before the last key is already known
}

// sourceKeys returns the keys of sensors that read from another system.
func sourceKeys() []key {
	connection := connectionName()
	every := func(otherwise Duration) key {
		return key{name: "every", doc: "Time between two looks, at least 1s; default: " + otherwise.String() + ".", shape: duration(false)}
	}
	return []key{
		{name: "poll", doc: "Items of a document that is read over HTTP again and again.", shape: fedObject("a mapping such as {url: https://shop.example.com/orders, items: answer.orders, id: item.id}", "event, an item",
			key{name: "url", must: true, doc: "Address of the document, or with connection a path.", shape: text("an address")},
			key{name: "connection", doc: "Name of a connection of type http, which has the address of the server and its credentials.", shape: connection},
			every(PollEveryDefault),
			key{name: "items", doc: "CEL over answer that gives the list of items; default: answer is the list.", shape: text("an expression such as answer.orders")},
			key{name: "id", doc: "CEL over item that identifies it; default: its whole content.", shape: text("an expression such as item.id")},
			key{name: "newer", doc: "CEL over item that gives its position: a number, a text or an instant that grows.", shape: text("an expression such as item.updated")})},
		{name: "query", doc: "Rows of a database.", shape: fedObject("a mapping such as {connection: shop, query: SELECT …, cursor: id}", "event, a row",
			key{name: "connection", must: true, doc: "Name of a connection to the database.", shape: connection},
			key{name: "query", must: true, doc: "SELECT with :cursor, ORDER BY and LIMIT.", shape: text("a statement such as SELECT * FROM orders WHERE id > :cursor ORDER BY id LIMIT 500")},
			key{name: "cursor", must: true, doc: "Column by which the rows are ordered. :cursor is its value in the last row.", shape: text("the name of a column")},
			every(QueryEveryDefault),
			key{name: "listen", doc: "PostgreSQL: channel of NOTIFY that makes the source look at once.", shape: pattern("the name of a channel", `^[A-Za-z_][A-Za-z0-9_$]{0,62}$`)},
			key{name: "settle", doc: "Longest time to wait for transactions that may still write rows before the ones that were read; default: " + QuerySettleDefault.String() + ".", shape: duration(true)})},
		{name: "object", doc: "Objects of a store of the S3 protocol, or files below a folder.", shape: fedObject("a mapping such as {url: s3://orders, secret: s3, pattern: \"*.csv\"}", "event.key, event.name, event.size, event.modified, event.etag and event.url",
			key{name: "url", must: true, doc: "s3://BUCKET/PREFIX?endpoint=https://HOST, or file:///FOLDER.", shape: text("an address such as s3://orders/in")},
			key{name: "secret", doc: "Name of the secret with ACCESS_KEY_ID:SECRET_ACCESS_KEY; a bucket needs one.", shape: pattern("the name of a secret", `^[A-Za-z0-9_-]{1,100}$`)},
			key{name: "prefix", doc: "How the keys begin.", shape: text("a prefix such as in/")},
			key{name: "pattern", doc: "Glob of the key after the prefix, in which * does not match /; default: every key.", shape: text("a glob such as *.csv")},
			every(ObjectEveryDefault),
			key{name: "ordered", doc: "Whether new keys sort after all earlier ones, so that only keys after the last one are listed; default: false.", shape: boolean()})},
	}
}

// fedObject returns the shape of the mapping of a source, with the keys that all sources have.
func fedObject(is, over string, keys ...key) *shape {
	return object(is, append(keys, intakeKeys(over)...)...)
}

// sourceOf reads a trigger of one of sourceKeys.
func (r *triggerReader) sourceOf(v *node, at string) {
	switch r.t.Kind {
	case KindPoll:
		r.t.Poll = r.poll(v, at)
	case KindQuery:
		r.t.Query = r.query(v, at)
	case KindObject:
		r.t.Object = r.objects(v, at)
	default:
		if !IsOutside(r.t.Kind) {
			return
		}
		r.outsideOf(v, at)
	}
	r.intake(v, at)
}

func (r *triggerReader) everyOf(v *node, at string, otherwise Duration) Duration {
	n := v.get("every")
	if n == nil {
		return otherwise
	}
	d := durationOf(n)
	if d < Duration(1e9) {
		r.failNode(n, join(at, "every"), "every must be at least 1s, not "+quoteShort(n.text), "")
	}
	return d
}

func (r *triggerReader) noTemplate(v *node, at, name string) {
	if n := v.get(name); n != nil && hasTemplate(n.text) {
		r.failNode(n, join(at, name), name+" cannot hold ${{ }}: a source has no run yet", "write the value itself")
	}
}

func (r *triggerReader) poll(v *node, at string) *Poll {
	p := &Poll{Connection: v.get("connection").str(), URL: v.get("url").str(), Every: r.everyOf(v, at, PollEveryDefault)}
	r.noTemplate(v, at, "url")
	if err := (&HTTP{Connection: p.Connection}).checkURL(p.URL); err != nil && !hasTemplate(p.URL) {
		hint := "write an address such as https://shop.example.com/orders"
		if p.Connection != "" {
			hint = "the connection has the address of the server: write a path such as /orders"
		}
		r.failNode(v.get("url"), join(at, "url"), err.Error(), hint)
	}
	for _, x := range []struct {
		name string
		in   scope
		to   *string
	}{{"items", inAnswer, &p.Items}, {"id", inItem, &p.ID}, {"newer", inItem, &p.Newer}} {
		*x.to = r.sourceExpression(v.get(x.name), join(at, x.name), x.in)
	}
	return p
}

// sourceExpression checks an expression of a source, and returns its text without ${{ }}.
func (r *triggerReader) sourceExpression(n *node, at string, in scope) string {
	if n == nil {
		return ""
	}
	text := conditionText(n.text)
	_, faults := r.declared.compile(text, in)
	r.complain(n, at, len([]rune(n.text[:max(strings.Index(n.text, text), 0)])), faults)
	return text
}

// cursorWord matches :cursor, but not a cast such as ::cursor.
var cursorWord = regexp.MustCompile(`(^|[^:A-Za-z0-9_]):cursor\b`)

func (r *triggerReader) query(v *node, at string) *Query {
	q := &Query{Connection: v.get("connection").str(), Query: strings.TrimSpace(v.get("query").str()), Cursor: v.get("cursor").str(),
		Every: r.everyOf(v, at, QueryEveryDefault), Listen: v.get("listen").str(), Settle: QuerySettleDefault}
	if n := v.get("settle"); n != nil {
		q.Settle = durationOf(n)
	}
	r.noTemplate(v, at, "query")
	if n := v.get("query"); n != nil && !cursorWord.MatchString(n.text) {
		r.failNode(n, join(at, "query"), "the query has no :cursor, so it would read the same rows again and again", "write WHERE id > :cursor ORDER BY id LIMIT 500")
	}
	return q
}

// Places returns how often the query has :cursor.
func (q *Query) Places() int { return len(cursorWord.FindAllStringIndex(q.Query, -1)) }

// Statement returns the query with a placeholder in place of each :cursor.
func (q *Query) Statement(placeholder string) string {
	return cursorWord.ReplaceAllString(q.Query, "${1}"+strings.ReplaceAll(placeholder, "$", "$$"))
}

func (r *triggerReader) objects(v *node, at string) *Objects {
	o := &Objects{URL: v.get("url").str(), Secret: v.get("secret").str(), Prefix: v.get("prefix").str(), Pattern: v.get("pattern").str(),
		Every: r.everyOf(v, at, ObjectEveryDefault)}
	o.Ordered, _ = boolOf(v.get("ordered"))
	if err := o.checkURL(); err != nil {
		r.failNode(v.get("url"), join(at, "url"), err.Error(), "write s3://BUCKET/PREFIX?endpoint=https://HOST, or file:///FOLDER")
	} else if bucket := strings.HasPrefix(o.URL, "s3:"); bucket != (o.Secret != "") {
		message, hint := "a folder needs no secret", "remove secret"
		if bucket {
			message, hint = "a bucket needs credentials of its own: a trigger never uses those of the node", "add secret: NAME; its value is ACCESS_KEY_ID:SECRET_ACCESS_KEY"
		}
		r.failNode(v.get("url"), join(at, "secret"), message, hint)
	}
	if n := v.get("pattern"); n != nil {
		if _, err := path.Match(n.text, ""); err != nil {
			r.failNode(n, join(at, "pattern"), quoteShort(n.text)+" is not a pattern: "+err.Error(), `write names such as *.csv; for a literal [ write \[`)
		}
	}
	return o
}

func (o *Objects) checkURL() error {
	u, err := url.Parse(o.URL)
	switch {
	case err != nil || u.Scheme != "s3" && u.Scheme != "file":
		return fmt.Errorf("%s is neither a bucket nor a folder", quoteShort(o.URL))
	case u.Scheme == "file" && (u.Host != "" || !path.IsAbs(u.Path) || u.RawQuery != ""):
		return fmt.Errorf("%s is not a folder of this machine", quoteShort(o.URL))
	case u.Scheme == "s3" && u.Host == "":
		return fmt.Errorf("%s names no bucket", quoteShort(o.URL))
	case u.Query().Has("secret"):
		return errors.New("the secret is a key of its own, not a part of url")
	}
	return nil
}

// describeSource describes the events of a source in words.
func (t *Trigger) describeSource() string {
	switch {
	case t.Poll != nil && t.Poll.Connection != "":
		return "a new item of " + t.Poll.URL + " over the connection " + t.Poll.Connection + ", read every " + t.Poll.Every.String() + ","
	case t.Poll != nil:
		return "a new item of " + t.Poll.URL + ", read every " + t.Poll.Every.String() + ","
	case t.Query != nil:
		return "a new row of a query over the connection " + t.Query.Connection + ", asked every " + t.Query.Every.String() + ","
	case t.Object != nil:
		return "a new object in " + t.Object.Place() + ", listed every " + t.Object.Every.String() + ","
	case t.Outside != nil:
		return t.Outside.describe()
	}
	return ""
}

// Place names for people where the objects are.
func (o *Objects) Place() string {
	place, _, _ := strings.Cut(o.URL, "?")
	if o.Prefix+o.Pattern == "" {
		return place
	}
	return strings.TrimRight(place, "/") + "/" + o.Prefix + o.Pattern
}

// sourceWords adds the words of the default name of a source.
func (t *Trigger) sourceWords(add func(string)) {
	switch {
	case t.Poll != nil:
		place := t.Poll.URL
		if u, err := url.Parse(place); err == nil {
			place = t.Poll.Connection + u.Host + u.Path
		}
		add(fileSigns.Replace(strings.Trim(place, "/")))
	case t.Query != nil:
		add(t.Query.Connection)
	case t.Object != nil:
		_, place, _ := strings.Cut(t.Object.Place(), "://")
		add(fileSigns.Replace(strings.Trim(place, "/")))
	case t.Outside != nil:
		t.Outside.nameWords(add)
	}
}

// PollReader evaluates the expressions of a Poll. It may be used by one goroutine at a time.
type PollReader struct {
	items, id, newer *expression // nil if there is none
	path             []string    // the path of items, if the expression is only a path; nil if it is not
}

// Reader compiles the expressions.
func (p *Poll) Reader() (*PollReader, error) {
	r := &PollReader{}
	for _, x := range []struct {
		text string
		in   scope
		to   **expression
	}{{p.Items, inAnswer, &r.items}, {p.ID, inItem, &r.id}, {p.Newer, inItem, &r.newer}} {
		if x.text == "" {
			continue
		}
		compiled, faults := (*declarations)(nil).compile(x.text, x.in)
		if len(faults) > 0 {
			return nil, fmt.Errorf("expression %s: %w", quoteShort(x.text), faults[0])
		}
		*x.to = compiled
	}
	switch text := strings.TrimSpace(p.Items); {
	case text == "" || text == "answer":
		r.path = []string{}
	case plainPath.MatchString(text):
		r.path = splitPath(text)[1:]
	}
	return r, nil
}

// ErrItems says that an answer has no list where its items should be.
var ErrItems = errors.New("items does not give a list")

// Items returns the items of an answer. If there is no expression and the answer is not a list, the answer is
// the only item.
func (r *PollReader) Items(answer json.RawMessage) ([]json.RawMessage, error) {
	if r.path == nil {
		return r.computedItems(answer)
	}
	is := answer
	for _, name := range r.path {
		var m map[string]json.RawMessage
		if err := json.Unmarshal(is, &m); err != nil || m == nil {
			return nil, fmt.Errorf("%w: the answer has no %s, because the value that should contain it is not an object", ErrItems, quoteShort(name))
		}
		next, ok := m[name]
		if !ok {
			return nil, fmt.Errorf("%w: the answer has no %s", ErrItems, quoteShort(name))
		}
		is = next
	}
	var list []json.RawMessage
	if err := json.Unmarshal(is, &list); err != nil {
		if r.items == nil {
			return []json.RawMessage{is}, nil
		}
		return nil, fmt.Errorf("%w, but %s", ErrItems, quoteShort(string(is)))
	}
	return list, nil
}

func (r *PollReader) computedItems(answer json.RawMessage) ([]json.RawMessage, error) {
	got, err := r.items.run((&values{answer: answer}).lookup)
	if err != nil {
		return nil, fmt.Errorf("items: %w", err)
	}
	list, ok := got.(traits.Lister)
	if !ok {
		return nil, fmt.Errorf("%w, but a %s", ErrItems, typeWord(got.Type().TypeName()))
	}
	var all []json.RawMessage
	for it := list.Iterator(); it.HasNext() == types.True; {
		v, err := native(it.Next(), 0)
		if err != nil {
			return nil, fmt.Errorf("items: %w", err)
		}
		raw, err := marshal(v)
		if err != nil {
			return nil, fmt.Errorf("items: %w", err)
		}
		all = append(all, raw)
	}
	return all, nil
}

// ID returns the identity of an item. ok is false if there is no expression for it.
func (r *PollReader) ID(item json.RawMessage) (id string, ok bool, err error) {
	if r.id == nil {
		return "", false, nil
	}
	got, err := r.id.run((&values{item: item}).lookup)
	if err == nil {
		id, err = render(got)
	}
	if err == nil && id == "" {
		err = errors.New("it is empty")
	}
	if err != nil {
		return "", false, fmt.Errorf("id: %w", err)
	}
	return id, true, nil
}

// Position is the place of an item in the order of newer: a number or a text.
type Position struct {
	Number float64 `json:"n,omitempty"`
	Int    int64   `json:"i,omitempty"` // the exact number, if it is a whole number
	Text   string  `json:"t,omitempty"`
	IsText bool    `json:"s,omitempty"`
}

// Compare orders positions. Texts come after numbers.
func (p Position) Compare(q Position) int {
	switch {
	case p.IsText != q.IsText:
		return map[bool]int{true: 1, false: -1}[p.IsText]
	case p.IsText:
		return strings.Compare(p.Text, q.Text)
	case p.Number != q.Number:
		return cmp.Compare(p.Number, q.Number)
	}
	return cmp.Compare(p.Int, q.Int)
}

// String returns the position for people.
func (p Position) String() string {
	switch {
	case p.IsText:
		return p.Text
	case p.Int != 0:
		return strconv.FormatInt(p.Int, 10)
	}
	return strconv.FormatFloat(p.Number, 'g', -1, 64)
}

// positionTextMax bounds a position that is a text, in bytes.
const positionTextMax = 200

// Newer returns the position of an item. ok is false if there is no expression for it.
func (r *PollReader) Newer(item json.RawMessage) (p Position, ok bool, err error) {
	if r.newer == nil {
		return p, false, nil
	}
	got, err := r.newer.run((&values{item: item}).lookup)
	if err != nil {
		return p, false, fmt.Errorf("newer: %w", err)
	}
	p, err = positionOf(got)
	if err != nil {
		return p, false, fmt.Errorf("newer: %w", err)
	}
	return p, true, nil
}

func positionOf(v celref.Val) (Position, error) {
	switch v := v.(type) {
	case types.Int:
		return Position{Number: float64(v), Int: int64(v)}, nil
	case types.Double:
		return Position{Number: float64(v)}, nil
	case types.Timestamp:
		return Position{Number: float64(v.UnixNano()), Int: v.UnixNano()}, nil
	case types.String:
		if len(v) > positionTextMax {
			return Position{}, fmt.Errorf("the text has %d bytes, the limit is %d", len(v), positionTextMax)
		}
		return Position{Text: string(v), IsText: true}, nil
	}
	return Position{}, fmt.Errorf("it is a %s, not a number, a text or an instant", typeWord(v.Type().TypeName()))
}

// resolveSource finds answer and item in the expressions of a source.
func resolveSource(path []string, in scope) (ref, *cel.Type, *complaint) {
	switch {
	case path[0] == "answer" && in == inAnswer:
		return ref{kind: answerRef}, cel.DynType, nil
	case path[0] == "item" && in == inItem:
		return ref{kind: itemRef}, cel.DynType, nil
	case in == inAnswer:
		return ref{}, nil, &complaint{message: "items cannot see " + path[0] + ": it sees the answer only", hint: "write answer.orders, for example"}
	}
	return ref{}, nil, &complaint{message: "the id and the position of an item cannot see " + path[0] + ": they see the item only", hint: "write item.id, for example"}
}

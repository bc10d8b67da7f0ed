package postgres

import (
	"fmt"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"

	"skein.dev/skein/internal/store"
)

// A transaction of a few rows is sent as one statement, which contains the one-row forms of all its
// statements. The reason is that the fixed cost of each statement is most of the database's work for a small
// transaction. The fence comes first, and the other parts are joined with the shards whose fence has matched.
// If the fence misses, they write nothing. If it matches, no other session has written for the shard since
// its owner did. So one snapshot for all parts is as good as one for each part.

// foldable lists the statements that can be parts of a folded statement. None of them reads rows that another
// one writes.
var foldable = []string{"fence", "insertRun", "updateRun", "enlist", "strike", "await", "met", "insertEvent", "insertAttempt", "firstAttempt", "updateAttempt"}

// small reports whether a transaction can be folded: each of its statements has one row and is sent once, and
// no statement changes a row that another one inserts.
func small(b *store.Batch) bool {
	if len(b.AttemptInserts) == 1 && len(b.AttemptUpdates) == 1 {
		a, u := &b.AttemptInserts[0], &b.AttemptUpdates[0]
		if a.Run == u.Run && a.Task == u.Task && a.Token == u.Token {
			return false
		}
	}
	return len(b.Fences) > 0 && b.Rows() == b.Changes.Rows() && len(b.Kept) == 0 && len(b.RunInserts)+len(b.RunUpdates) <= 1 &&
		len(b.AttemptInserts) <= 1 && len(b.AttemptUpdates) <= 1 && len(b.Events) <= 1
}

// held is a statement of a small transaction.
type held struct {
	name   string // the name of the statement, without the suffix of its form
	sent   string // the name with this suffix
	params [][]byte
	more   [][]byte
}

// fold makes one statement of the held statements, if possible, and prepares it. The parameters of its parts
// follow one another.
func (x *tx) fold() error {
	bits := 0
	for i := range x.held {
		at := slices.Index(foldable, x.held[i].name)
		if at < 0 {
			return nil
		}
		bits |= 1 << at
	}
	if both := 1<<slices.Index(foldable, "insertAttempt") | 1<<slices.Index(foldable, "firstAttempt"); bits&both == both {
		return nil // these two statements treat an existing row in different ways, so they cannot be folded together
	}
	sort.Slice(x.held, func(i, j int) bool {
		return slices.Index(foldable, x.held[i].name) < slices.Index(foldable, x.held[j].name)
	})
	fence := &x.held[0]
	params := append(fence.params, fence.more...)
	for i := 1; i < len(x.held); i++ {
		params = append(params, x.held[i].params...)
	}
	x.folded = foldOne + strconv.Itoa(bits)
	if len(x.batch.Fences) > 1 {
		x.folded = foldMany + strconv.Itoa(bits)
	}
	x.held = append(x.held[:0], held{sent: x.folded, params: params})
	return x.conn.prepare(x.ctx, x.folded)
}

// sendHeld sends the held statements, and reads the clock.
func (x *tx) sendHeld() {
	for i := range x.held {
		h := &x.held[i]
		x.send(h.sent, append(h.params, h.more...))
	}
	if x.folded == "" {
		x.send("clock", nil)
	}
}

// The prefixes of the names of folded statements, for one shard and for several. The names of statements must
// be short. So a prefix is followed by a number with one bit for each part.
const (
	foldOne  = "fold "
	foldMany = "fold, shards, "
)

// text returns the text of the statement with a name.
func (c *conn) text(name string) string {
	if parts, is := strings.CutPrefix(name, foldOne); is {
		bits, _ := strconv.Atoi(parts) // the name comes from fold, so it is a number
		return folded(c.sql, bits, oneFence)
	}
	if parts, is := strings.CutPrefix(name, foldMany); is {
		bits, _ := strconv.Atoi(parts)
		return folded(c.sql, bits, manyFences(c.sql))
	}
	return c.sql[name]
}

// fenceForm is the fence as the first part of a folded statement.
type fenceForm struct {
	with   string // the part WITH: its query moved returns the shards whose fences match
	params int
	guard  string
	gate   string // a statement that returns one row if the fence matches
}

// guard is a column that raises an error if its condition holds. Columns are evaluated in their order.
const guard = "CASE WHEN %s THEN must(false, %s) END, "

// oneFence is the fence for one shard. With one shard, the order of locks does not matter.
var oneFence = fenceForm{`WITH moved AS (
  UPDATE shard SET seq = seq + 1, watermark = greatest(watermark, $4::bigint)
  WHERE id = $1::int AND epoch = $2::bigint AND seq = $3::bigint RETURNING id, seq
)`, 4, fmt.Sprintf(guard, "NOT EXISTS (SELECT FROM moved)", fenceSays), "moved"}

const fenceSays = "'a shard is not as its owner believes'"

func manyFences(sql map[string]string) fenceForm {
	with, _, _ := strings.Cut(sql["fence"], "\nSELECT must")
	return fenceForm{strings.Replace(with, "RETURNING 1", "RETURNING s.id, s.seq", 1), 6,
		fmt.Sprintf(guard, "(SELECT count(*) FROM moved) <> cardinality($1)", fenceSays), "(SELECT FROM moved LIMIT 1) fence"}
}

var (
	guarded   = regexp.MustCompile(`(?s)^(?:--[^\n]*\n)*WITH \w+ AS \((.*)\)\s*SELECT must\(count\(\*\) = 1, ('.*')\) FROM \w+;$`)
	valued    = regexp.MustCompile(`\b(FROM|USING) \(VALUES`)
	ownShards = regexp.MustCompile(`JOIN shard s ON s\.id = r\.shard AND s\.id = ANY \(\$\d+::int\[\]\)`)
)

// folded returns the text of a folded statement. Its last column is the clock of the database.
func folded(sql map[string]string, bits int, fence fenceForm) string {
	with, guards, first := fence.with, fence.guard, fence.params
	for i, name := range foldable[1:] {
		if bits&(2<<i) == 0 {
			continue
		}
		text := ownShards.ReplaceAllString(sql[single(name)], "JOIN moved s ON s.id = r.shard")
		if is := guarded.FindStringSubmatch(text); is != nil {
			text = is[1]
			guards += fmt.Sprintf(guard, "NOT EXISTS (SELECT FROM "+name+")", is[2])
		}
		if !strings.Contains(text, "JOIN moved") {
			text = valued.ReplaceAllString(text, "$1 "+fence.gate+", (VALUES")
		}
		most := first
		text = parameter.ReplaceAllStringFunc(text, func(p string) string {
			n, _ := strconv.Atoi(p[1:]) // p[1:] consists of digits
			most = max(most, first+n)
			return "$" + strconv.Itoa(first+n)
		})
		first = most
		with += ", " + name + " AS (" + strings.TrimSuffix(text, ";") + ")"
	}
	return with + "\nSELECT " + guards + "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint;"
}

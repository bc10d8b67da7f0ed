package sql

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"skein.dev/skein/internal/connection"
	"skein.dev/skein/internal/egress"
	"skein.dev/skein/internal/sqltext"
)

// lineMax bounds the bytes of a row.
const lineMax = 8 << 20

// clickhouse sends statements to ClickHouse over HTTP. There are no transactions: each statement takes effect
// by itself.
type clickhouse struct {
	t      *task
	client *http.Client
	prefix string // prefix of the ids of this attempt's statements
	n      int    // number of the current statement
	major  int    // major version of the server
}

func (t *task) openClickHouse(ctx context.Context) (database, error) {
	w := &t.with
	switch {
	case w.Once:
		return nil, never("ClickHouse has no transactions, so once cannot hold: make the statement repeatable, for example with insert_deduplication_token")
	case w.Isolation != "":
		return nil, never("ClickHouse has no transactions: remove isolation")
	case t.whole() && len(t.all) > 1:
		return nil, never("ClickHouse has no transactions, and the task has %d statements: write transaction: false, so that each counts by itself", len(t.all))
	}
	transport, err := egress.Transport(t.egress)
	if err != nil {
		return nil, never("%w", err)
	}
	c := &clickhouse{t: t}
	if c.client, err = t.to.ClickHouse.Client(transport); err != nil {
		return nil, never("%w", err)
	}
	key := t.env.Input.Key
	if key == "" {
		key = t.env.Input.Run + "/" + t.env.Input.Task
	}
	c.prefix = fmt.Sprintf("skein-%s-%d-%d", key, t.env.Input.Token, time.Now().UnixMicro())
	open, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	version, err := c.ask(open, "SELECT version()")
	if err != nil {
		return nil, unreachable(err, c.judge(err))
	}
	major, _, _ := strings.Cut(version, ".")
	if c.major, err = strconv.Atoi(major); err != nil {
		return nil, never("the answer is not that of ClickHouse: is the port that of its HTTP interface?")
	}
	return c, nil
}

func (c *clickhouse) about() string { return "ClickHouse at " + c.t.to.ClickHouse.URL }

// quoted returns a text as a literal of ClickHouse. Use it only for names that Skein has made.
func quoted(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
}

// ask executes a statement of Skein itself and returns its short answer.
func (c *clickhouse) ask(ctx context.Context, statement string) (string, error) {
	resp, err := c.t.to.ClickHouse.Do(ctx, c.client, c.t.password, statement, url.Values{"default_format": {"TabSeparated"}})
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	return strings.TrimSpace(string(raw)), err
}

func (*clickhouse) begin(context.Context) error { return nil }

func (*clickhouse) claim(context.Context, string) (*kept, error) {
	return nil, errors.New("there are no transactions")
}

func (*clickhouse) keep(context.Context, string, *kept) error { return nil }

func (*clickhouse) commit(context.Context) error { return nil }

func (*clickhouse) rollback() {}

func (c *clickhouse) close() { c.client.CloseIdleConnections() }

// typeOf returns the type that the server needs to read a parameter, and the value in text form.
func typeOf(v param) (name, value string) {
	switch v := v.(type) {
	case bool:
		return "UInt8", map[bool]string{true: "1", false: "0"}[v]
	case int64:
		return "Int64", strconv.FormatInt(v, 10)
	case decimal:
		return "Float64", string(v)
	case string:
		// The server expects the escapes of the format TabSeparated.
		return "String", strings.NewReplacer("\\", "\\\\", "\t", "\\t", "\n", "\\n").Replace(v)
	}
	return "Nullable(String)", `\N`
}

func (c *clickhouse) run(ctx context.Context, s *sqltext.Statement, to *sink) (int64, error) {
	c.n++
	id := fmt.Sprintf("%s-%d", c.prefix, c.n)
	settings := url.Values{"query_id": {id}}
	statement := s.Render(func(name string) string {
		kind, value := typeOf(c.t.params[name])
		settings.Set("param_"+name, value)
		return "{" + name + ":" + kind + "}"
	})
	if len(s.Params()) > 0 && c.major < 20 {
		return 0, never("the server is ClickHouse %d, and parameters need 20 or later", c.major)
	}
	returns := slices.Contains([]string{"SELECT", "WITH", "SHOW", "DESCRIBE", "DESC", "EXISTS", "EXPLAIN"}, s.Word(0))
	if !returns {
		// With this setting, errors arrive with a status, and the number of rows is known.
		settings.Set("wait_end_of_query", "1")
	}
	stop := context.AfterFunc(ctx, func() { c.kill(id) })
	defer stop()
	inner, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	defer context.AfterFunc(ctx, func() {
		select {
		case <-time.After(stopMax):
		case <-inner.Done():
		}
		cut()
	})()
	resp, err := c.t.to.ClickHouse.Do(inner, c.client, c.t.password, statement, settings)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	n, err := c.rows(resp.Body, to)
	if err != nil {
		return 0, err
	}
	if !returns {
		var summary struct {
			Rows int64 `json:"written_rows,string"`
		}
		if json.Unmarshal([]byte(resp.Header.Get("X-ClickHouse-Summary")), &summary) == nil {
			n = summary.Rows
		}
	}
	return n, nil
}

// kill ends a statement on the server.
func (c *clickhouse) kill(id string) {
	ctx, cancel := context.WithTimeout(context.Background(), stopMax)
	defer cancel()
	if _, err := c.ask(ctx, "KILL QUERY WHERE query_id = "+quoted(id)+" ASYNC"); err != nil {
		c.t.say("the statement cannot be ended in the server, so the request is cut: %v", err)
	}
}

// rows reads an answer in the format TabSeparatedWithNamesAndTypes.
func (c *clickhouse) rows(body io.Reader, to *sink) (n int64, err error) {
	r := bufio.NewScanner(body)
	r.Buffer(make([]byte, 64<<10), lineMax)
	var names []string
	var kinds []cellKind
	var cells []cell
	for at := 0; r.Scan(); at++ {
		line := r.Bytes()
		if bytes.HasPrefix(line, []byte("Code: ")) && bytes.Contains(line, []byte("Exception")) {
			return 0, &connection.ClickHouseError{Code: connection.ClickHouseCode(string(line)), Text: string(line)}
		}
		fields := bytes.Split(line, []byte{'\t'})
		switch {
		case at == 0:
			for _, f := range fields {
				names = append(names, string(unescaped(f)))
			}
			if err := to.columns(names); err != nil {
				return 0, err
			}
			continue
		case len(fields) != len(names):
			return 0, never("the answer is not the expected one: if the statement has FORMAT, remove it")
		case at == 1:
			for _, f := range fields {
				kinds = append(kinds, clickhouseKind(string(unescaped(f))))
			}
			cells = make([]cell, len(kinds))
			continue
		}
		for i, f := range fields {
			if cells[i] = (cell{kinds[i], unescaped(f)}); string(f) == `\N` {
				cells[i] = cell{}
			}
		}
		n++
		if err := to.row(cells); err != nil {
			return 0, err
		}
	}
	if errors.Is(r.Err(), bufio.ErrTooLong) {
		return 0, never("the server sent a row of more than %d bytes: select less", lineMax)
	}
	return n, r.Err()
}

// unescaped removes the escapes of TabSeparated from a value.
func unescaped(f []byte) []byte {
	if bytes.IndexByte(f, '\\') < 0 {
		return f
	}
	out := make([]byte, 0, len(f))
	for i := 0; i < len(f); i++ {
		if f[i] != '\\' || i+1 == len(f) {
			out = append(out, f[i])
			continue
		}
		i++
		switch f[i] {
		case 'n':
			out = append(out, '\n')
		case 't':
			out = append(out, '\t')
		case 'r':
			out = append(out, '\r')
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case '0':
			out = append(out, 0)
		default:
			out = append(out, f[i])
		}
	}
	return out
}

func clickhouseKind(name string) cellKind {
	for _, wrap := range []string{"LowCardinality(", "Nullable("} {
		name = strings.TrimPrefix(name, wrap)
	}
	switch {
	case strings.HasPrefix(name, "Bool"):
		return boolean
	case strings.HasPrefix(name, "UInt"), strings.HasPrefix(name, "Int"), strings.HasPrefix(name, "Float"), strings.HasPrefix(name, "Decimal"):
		if !strings.HasPrefix(name, "Interval") {
			return number
		}
	}
	return text
}

func (c *clickhouse) judge(err error) verdict {
	var of *connection.ClickHouseError
	if !errors.As(err, &of) {
		return tlsVerdict(err)
	}
	switch of.Code {
	case 62: // a syntax error
		return permanent
	case 81, 192, 193, 194, 516: // wrong database, user or password
		return permanent
	case 202: // too many statements at the same time
		return away
	}
	switch of.HTTP {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout, http.StatusTooManyRequests:
		return away
	}
	return failed
}

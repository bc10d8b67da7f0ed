package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"skein.dev/skein/internal/logindex"
	"skein.dev/skein/internal/logscan"
	api "skein.dev/skein/sdk/api/v1"
)

const (
	// searchesMax bounds the concurrent searches that read logs, because each uses one core.
	searchesMax = 2
	// searchBytes and searchTime bound the part of a log that one search reads. The next search continues
	// after it.
	searchBytes = 2 << 30
	searchTime  = 10 * time.Second
)

// errEnough ends a search that has found the requested number of lines.
var errEnough = errors.New("enough")

const searchType = "application/x-ndjson"

const searchDoc = "A JSON object a line: {hit: {line, offset, text, at, length}} for each line that fits, {progress: {bytes, of, hits}} now and then, and {end: {bytes, hits, more, lines, next}}. Without an end the search was cut off. A search reads for at most 10 s, and up to the present end of the log: with a next, continue with after."

// LineQuery describes the lines that a search must find.
type LineQuery struct {
	Text  string `query:"q" maxLength:"256" doc:"A text that the line contains. Optional if level is set."`
	Re    bool   `query:"re" doc:"q is a regular expression, in Go's syntax. It is compared with the first 64 KiB of a line."`
	Case  bool   `query:"case" doc:"Distinguish the case of the letters A to Z."`
	Level string `query:"level" enum:"error,warning" doc:"Only lines that read like an error, or like an error or a warning."`
	Limit int64  `query:"limit" minimum:"1" maximum:"1000" default:"200" doc:"Hits at most."`
}

// query checks the input.
func (in *LineQuery) query() (q logscan.Query, err error) {
	switch {
	case in.Text == "" && in.Level == "":
		return q, invalid("q and level are missing: give a text, a level, or both")
	case in.Text == "" && in.Re:
		return q, invalid("re is set without q: give the expression in q")
	case strings.ContainsAny(in.Text, "\r\n") || !utf8.ValidString(in.Text):
		return q, invalid("q contains a line break, but a text is searched within single lines: remove it")
	}
	q = logscan.Query{Text: []byte(in.Text), Case: in.Case, Level: map[string]logindex.Level{"error": logindex.Error, "warning": logindex.Warning}[in.Level]}
	if in.Re {
		q.Text = nil
		if q.Pattern, err = logscan.NewPattern(in.Text, in.Case); err != nil {
			return q, invalid("q is not a regular expression: %s; correct it, or leave out re", err)
		}
	}
	return q, nil
}

type searchIn struct {
	TaskPath
	LineQuery
	Attempt int64 `query:"attempt" minimum:"1" doc:"Its token or its number. Absent: the newest."`
	After   int64 `query:"after" minimum:"0" doc:"Where to begin: the value of next in the previous answer."`
	// Here is set by package peer if no other node can answer.
	Here bool `header:"X-Skein-Here" hidden:"true"`
}

// logSearch searches whole logs.
type logSearch struct{ s *Server }

// find sends each line that matches as soon as it is found.
func (f logSearch) find(ctx context.Context, in *searchIn) (*streamOut, error) {
	q, err := in.query()
	if err != nil {
		return nil, err
	}
	s := f.s
	l, err := s.findLog(ctx, &logIn{TaskPath: in.TaskPath, Attempt: in.Attempt, Here: in.Here})
	if err != nil {
		return nil, err
	}
	if err := s.searches.enter("searches through logs are under way"); err != nil {
		l.close()
		return nil, err
	}
	return &streamOut{Body: func(hc huma.Context) {
		defer s.searches.leave()
		defer l.close()
		r, w := humago.Unwrap(hc)
		if err := l.search(r.Context(), newStreamWriter(w), in, q); err != nil {
			s.log.Debug("log search", "run", in.ID, "task", in.Task, "err", err)
			panic(http.ErrAbortHandler) // closing the connection shows the client that the stream is incomplete
		}
	}}, nil
}

// writeLine sends an object as a line of JSON.
func (w *streamWriter) writeLine(of any) error {
	text, err := json.Marshal(of)
	if err != nil {
		return err
	}
	return w.write(append(text, '\n'))
}

func (l *logOf) search(ctx context.Context, out *streamWriter, in *searchIn, q logscan.Query) error {
	l.arrive(ctx)
	size, err := l.size()
	if err != nil {
		return err
	}
	out.header(searchType)
	hits := int64(0)
	p := partSearch{query: q, from: in.After, size: size, limit: in.Limit, until: time.Now().Add(searchTime), bytes: searchBytes,
		hit: func(h *logscan.Hit) error {
			hits++
			return out.writeLine(api.LogSearch{Hit: hitOf(h)})
		},
		progress: func(at int64) error {
			return out.writeLine(api.LogSearch{Progress: &api.LogProgress{Bytes: at, Of: size, Hits: hits}})
		}}
	if err := l.part(ctx, &p); err != nil {
		return err
	}
	more := p.next < size
	return out.writeLine(api.LogSearch{End: &api.LogSearchEnd{Bytes: size, Hits: hits, More: more,
		Lines: someOrNull(p.lines, p.lines > 0 && !more), Next: someOrNull(p.next, more)}})
}

// partSearch is a search in a part of a log.
type partSearch struct {
	query    logscan.Query
	from     int64
	size     int64
	limit    int64 // largest number of hits
	until    time.Time
	bytes    int64 // largest number of bytes to read
	hit      func(*logscan.Hit) error
	progress func(at int64) error

	next  int64 // the offset at which to continue; equal to size at the end of the log
	lines int64 // the number of lines of the log; 0 if unknown
	read  int64
}

// part searches a part of a log. It begins at p.from, and ends at the bounds of p.
func (l *logOf) part(ctx context.Context, p *partSearch) error {
	p.next = p.size
	if l.reader == nil || p.from >= p.size {
		return nil
	}
	s := logscan.Searching{Query: p.query, From: p.from, Progress: p.progress,
		Enough: func(read int64) bool {
			p.read = read
			return read >= p.bytes || time.Now().After(p.until)
		}}
	if p.query.Level != logindex.Plain && p.size >= logindex.From {
		_, _ = l.withIndex(ctx, indexAll, func(x indexed) error { // without an index, the whole part is read
			s.Blocks = x.Blocks()
			if x.whole {
				p.lines = x.Totals().Lines
			}
			return nil
		})
	}
	s.Line = l.lineOf(ctx, p.from, indexAll)
	n := int64(0)
	s.Hit = func(h *logscan.Hit) error {
		if n == p.limit {
			p.next = h.Offset
			return errEnough
		}
		n++
		return p.hit(h)
	}
	done, err := s.Search(ctx, l.reader, p.size)
	switch {
	case errors.Is(err, errEnough):
		return nil
	case err != nil:
		return err
	}
	p.next = done.Next
	if p.lines == 0 {
		p.lines = done.Lines
	}
	return nil
}

func hitOf(h *logscan.Hit) *api.LogHit {
	valid := func(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }
	before, match := valid(h.Text[:h.At]), valid(h.Text[h.At:h.At+h.Length])
	return &api.LogHit{Line: someOrNull(h.Line, h.Line > 0), Offset: h.Offset,
		Text: before + match + valid(h.Text[h.At+h.Length:]), At: int64(utf8.RuneCountInString(before)), Length: int64(utf8.RuneCountInString(match))}
}

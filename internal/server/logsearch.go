package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"skein.dev/skein/internal/logscan"
	api "skein.dev/skein/sdk/api/v1"
)

// searchesMax bounds the searches that read logs at a time, because each takes a core.
const searchesMax = 2

// errEnough ends a search that has found the requested number of lines.
var errEnough = errors.New("enough")

const searchType = "application/x-ndjson"

const searchDoc = "A JSON object a line: {hit: {line, offset, text, at}} for each line with the text, {progress: {bytes, of, hits}} now and then, and {end: {bytes, hits, more, lines}}. Without an end the search was cut off. A log that grows is searched up to its present end."

type searchIn struct {
	TaskPath
	Attempt int64  `query:"attempt" minimum:"1" doc:"Its token or its number. Absent: the newest."`
	Text    string `query:"q" required:"true" minLength:"1" maxLength:"256" doc:"What to look for within a line."`
	Case    bool   `query:"case" doc:"The case of the letters A to Z matters."`
	Limit   int64  `query:"limit" minimum:"1" maximum:"1000" default:"200" doc:"Hits at most."`
	// Here is set by package peer if no other node can answer.
	Here bool `header:"X-Skein-Here" hidden:"true"`
}

// logSearch looks through whole logs.
type logSearch struct{ s *Server }

// find reports each line with a text when it finds it.
func (f logSearch) find(ctx context.Context, in *searchIn) (*streamOut, error) {
	if strings.ContainsAny(in.Text, "\r\n") || !utf8.ValidString(in.Text) {
		return nil, fail(http.StatusUnprocessableEntity, api.ProblemInvalid, "q contains a line break, but a text is searched within single lines: remove it")
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
		if err := l.search(r.Context(), newStreamWriter(w), in); err != nil {
			s.log.Debug("log search", "run", in.ID, "task", in.Task, "err", err)
			panic(http.ErrAbortHandler) // so that the client sees that the stream is incomplete
		}
	}}, nil
}

func (l *logOf) search(ctx context.Context, out *streamWriter, in *searchIn) error {
	l.arrive(ctx)
	size, err := l.size()
	if err != nil {
		return err
	}
	out.header(searchType)
	line := func(is api.LogSearch) error {
		text, err := json.Marshal(is)
		if err != nil {
			return err
		}
		return out.write(append(text, '\n'))
	}
	hits, more := int64(0), false
	q := logscan.Searching{Query: logscan.Query{Text: []byte(in.Text), Case: in.Case},
		Hit: func(h *logscan.Hit) error {
			if hits == in.Limit {
				more = true
				return errEnough
			}
			hits++
			return line(api.LogSearch{Hit: hitOf(h)})
		},
		Progress: func(at int64) error {
			return line(api.LogSearch{Progress: &api.LogProgress{Bytes: at, Of: size, Hits: hits}})
		}}
	lines := int64(0)
	if l.reader != nil {
		if lines, err = q.Search(ctx, l.reader, size); err != nil && !more {
			return err
		}
	}
	return line(api.LogSearch{End: &api.LogSearchEnd{Bytes: size, Hits: hits, More: more, Lines: someOrNull(lines, lines > 0 && !more)}})
}

func hitOf(h *logscan.Hit) *api.LogHit {
	before := strings.ToValidUTF8(string(h.Text[:h.At]), "\uFFFD")
	return &api.LogHit{Line: someOrNull(h.Line, h.Line > 0), Offset: h.Offset,
		Text: before + strings.ToValidUTF8(string(h.Text[h.At:]), "\uFFFD"), At: int64(utf8.RuneCountInString(before))}
}

// lineAt returns the offset of a line of the log.
func (l *logOf) lineAt(ctx context.Context, line int64) (int64, error) {
	if err := l.s.searches.enter("searches through logs are under way"); err != nil {
		return 0, err
	}
	defer l.s.searches.leave()
	size, err := l.size()
	if err != nil {
		return 0, err
	}
	if l.reader != nil {
		at, ok, err := logscan.LineAt(ctx, l.reader, size, line)
		if err != nil || ok {
			return at, err
		}
	}
	return 0, notFound("the log has no line %d, or its first part is not kept", line)
}

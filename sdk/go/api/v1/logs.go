package api

// LogSearch is one line of the answer to a search in a log. Exactly one of its fields is set.
type LogSearch struct {
	Hit      *LogHit       `json:"hit,omitempty"`
	Progress *LogProgress  `json:"progress,omitempty"`
	End      *LogSearchEnd `json:"end,omitempty"`
}

// LogHit is a line that contains the searched text.
type LogHit struct {
	Line   *int64 `json:"line" doc:"From 1; null: the first part of the log is not kept."`
	Offset int64  `json:"offset" doc:"Of the first byte of the line."`
	Text   string `json:"text" doc:"The line, or the part of a long one around the text."`
	At     int64  `json:"at" doc:"Where the match begins in it, in characters."`
	Length int64  `json:"length" doc:"Of the match, in characters; 0: the whole line fits."`
	// Task and Attempt are set in a search through the logs of a run.
	Task    *string `json:"task,omitempty" doc:"In a search through a run: the task."`
	Attempt *int64  `json:"attempt,omitempty" doc:"In a search through a run: the attempt's token."`
}

// LogProgress is the progress of a search.
type LogProgress struct {
	Bytes int64 `json:"bytes"`
	Of    int64 `json:"of"`
	Hits  int64 `json:"hits"`
}

// LogSearchEnd ends a complete answer of a search.
type LogSearchEnd struct {
	Bytes int64  `json:"bytes" doc:"Where the log ended."`
	Hits  int64  `json:"hits"`
	More  bool   `json:"more" doc:"The rest was not read, because of the limit, or because it took too long: continue at next."`
	Lines *int64 `json:"lines" doc:"Of the log; null: unknown."`
	Next  *int64 `json:"next" doc:"Where to continue: the after of the next request; null: all was searched."`
}

// RunLogSearch is one line of the answer to a search in the logs of a run. Exactly one of its fields is set.
type RunLogSearch struct {
	Hit      *LogHit          `json:"hit,omitempty"`
	Progress *RunLogProgress  `json:"progress,omitempty"`
	End      *RunLogSearchEnd `json:"end,omitempty"`
}

// RunLogProgress is the progress of a search in the logs of a run.
type RunLogProgress struct {
	Logs  int64 `json:"logs" doc:"Logs that were searched."`
	Bytes int64 `json:"bytes"`
	Hits  int64 `json:"hits"`
}

// RunLogSearchEnd ends the answer of a search in the logs of a run.
type RunLogSearchEnd struct {
	RunLogProgress
	Next *string `json:"next" doc:"Where to continue: the after of the next request; null: all was searched."`
}

// LogIndex describes the log of an attempt.
type LogIndex struct {
	Attempt  int64     `json:"attempt" doc:"Its token."`
	Bytes    int64     `json:"bytes"`
	KeptFrom int64     `json:"kept_from" doc:"The offset of the first byte that is kept."`
	Lines    *int64    `json:"lines" doc:"null: the log cannot be counted, because its first part is not kept. The same applies to the other counts."`
	Errors   *int64    `json:"errors" doc:"Lines that read like an error."`
	Warnings *int64    `json:"warnings" doc:"Lines that read like a warning."`
	Marks    []LogMark `json:"marks" doc:"Parts of the log, at most 512, in order. They have the same size; only the last one may be shorter."`
	First    []LogHit  `json:"first" doc:"The first errors, at most 50."`
}

// LogMark describes a part of a log.
type LogMark struct {
	Offset   int64 `json:"offset"`
	Line     int64 `json:"line" doc:"The number of the line that has the first byte."`
	At       *Time `json:"at" doc:"When the first byte was written; null: unknown."`
	Errors   int64 `json:"errors" doc:"Errors that begin in the part."`
	Warnings int64 `json:"warnings" doc:"Warnings that begin in the part."`
}

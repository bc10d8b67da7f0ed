package api

// LogSearch is a line of the answer to a search through a log. It has one of its fields.
type LogSearch struct {
	Hit      *LogHit       `json:"hit,omitempty"`
	Progress *LogProgress  `json:"progress,omitempty"`
	End      *LogSearchEnd `json:"end,omitempty"`
}

// LogHit is a line with the text that was looked for.
type LogHit struct {
	Line   *int64 `json:"line" doc:"From 1; null: the first part of the log is not kept."`
	Offset int64  `json:"offset" doc:"Of the first byte of the line."`
	Text   string `json:"text" doc:"The line, or the part of a long one around the text."`
	At     int64  `json:"at" doc:"Where the text begins in it, in characters."`
}

// LogProgress tells how far a search is.
type LogProgress struct {
	Bytes int64 `json:"bytes"`
	Of    int64 `json:"of"`
	Hits  int64 `json:"hits"`
}

// LogSearchEnd ends the answer of a search that was not cut off.
type LogSearchEnd struct {
	Bytes int64  `json:"bytes" doc:"Where the log ended."`
	Hits  int64  `json:"hits"`
	More  bool   `json:"more" doc:"There may be more hits than were asked for: the rest was not read."`
	Lines *int64 `json:"lines" doc:"Of the log; null: unknown."`
}

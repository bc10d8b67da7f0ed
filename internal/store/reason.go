package store

import (
	"strconv"
	"strings"
)

// Reason says why a line of the ledger has its outcome. It is a sentence in English, and behind it the codes
// of the parts of this sentence with their arguments, for programs and for pages in other languages. A reason
// that another program gave, and one of an earlier version, have no codes.
type Reason string

// A Reason is TEXT, then for each part partMark CODE, and for each argument of the part argMark NAME=VALUE.
const (
	partMark = "\x1e"
	argMark  = "\x1f"
)

// unmarked removes the marks from texts of other programs and of persons.
var unmarked = strings.NewReplacer(partMark, " ", argMark, " ")

// Said returns the reason with the given text and without a code.
func Said(text string) Reason { return Reason(unmarked.Replace(text)) }

// coded returns the reason with a text, a code, and the names and values of arguments. Arguments without a
// value are left out.
func coded(text, code string, args ...string) Reason {
	out := unmarked.Replace(text) + partMark + code
	for i := 0; i+1 < len(args); i += 2 {
		if args[i+1] != "" {
			out += argMark + args[i] + "=" + unmarked.Replace(args[i+1])
		}
	}
	return Reason(out)
}

// Because returns the reason with a code of reasonTexts. The values are for the places of its text, in their
// order.
func Because(code string, values ...string) Reason {
	var text string
	var args []string
	for i, piece := range strings.Split(reasonTexts[code], "[") {
		option, rest, _ := strings.Cut(piece, "]")
		if i == 0 {
			option, rest = "", piece
		}
		for j, part := range []string{option, rest} {
			said, whole := "", true
			for part != "" {
				before, after, _ := strings.Cut(part, "{")
				name, next, is := strings.Cut(after, "}")
				said, part = said+before, next
				if is && len(values) > 0 {
					said, whole = said+values[0], whole && values[0] != ""
					args, values = append(args, name, values[0]), values[1:]
				}
			}
			if whole || j == 1 {
				text += said
			}
		}
	}
	return coded(text, code, args...)
}

// Number returns a value for Because.
func Number(n int64) string { return strconv.FormatInt(n, 10) }

// String returns the sentence.
func (r Reason) String() string {
	text, _, _ := strings.Cut(string(r), partMark)
	return text
}

// And returns the reason with another one behind it, and with sep between their texts.
func (r Reason) And(sep string, by Reason) Reason {
	text, rest := r.String(), by.String()
	return Reason(text + sep + rest + string(r[len(text):]) + string(by[len(rest):]))
}

// ReasonPart is a part of a Reason.
type ReasonPart struct {
	Code string
	Args map[string]string
}

// Parts returns the codes of a reason, in their order.
func (r Reason) Parts() []ReasonPart {
	parts := strings.Split(string(r), partMark)[1:]
	out := make([]ReasonPart, len(parts))
	for i, c := range parts {
		fields := strings.Split(c, argMark)
		out[i] = ReasonPart{Code: fields[0], Args: map[string]string{}}
		for _, f := range fields[1:] {
			name, value, _ := strings.Cut(f, "=")
			out[i].Args[name] = value
		}
	}
	return out
}

// expected is what a trigger of the kind absent expects.
const expected = "[a file {pattern}][ in {path}][a run of {workflows}]"

// reasonTexts holds the text of each code with places for values. A part in brackets is left out if its value
// is empty. Clients know the codes and the names of the places: both stay when a text changes.
var reasonTexts = map[string]string{
	"late":              "started {late} late: nothing ran to start it",
	"delay_tolerance":   "nothing started it within its delay tolerance of {tolerance}",
	"not_begun":         "did not begin by {until}",
	"catchup_none":      "nothing ran to start it; catchup is none",
	"catchup_latest":    "nothing ran to start it; the run for {instant} stands for it",
	"catchup_limit":     "nothing ran to start it; catchup_limit is {limit}",
	"changed_unstarted": "no server ran to start it, and then the trigger was changed",
	"changed_due":       "the trigger was changed when more was due than is started at once",
	"paused":            "paused by {actor}[: {reason}]",
	"paused_planned":    "paused from {from} until {until}[ by {actor}][: {reason}]",
	"paused_declared":   "the trigger is declared paused",
	"paused_itself":     "{reason}",
	"paused_events":     "events of that time start nothing",
	"workflow_state":    "the workflow is {state}",
	"overlap_waits":     "overlap: run {run} waits, and does what this one would do",
	"overlap_skip":      "overlap: run {run} is active, and at most {limit} may be",
	"overlap_queue":     "overlap: {n} runs wait already",
	"quota":             "quota {quota} of namespace {namespace} is used up: {used} of {limit}",
	"parameters":        "its parameters: {detail}",
	"declaration":       "its declaration cannot be read: {detail}",
	"offers":            "{detail}",
	"by_hand":           "by hand, {actor}[: {reason}]",
	"asked":             ", when {actor} asked for it",
	"webhook":           "a signed call",
	"file":              "file {file} arrived",
	"start":             "the scheduler started",
	"run_of":            "{workflow} {state}",
	"again":             "run {run} {state}",
	"again_waited":      "run {run} ended; max_per_hour: {limit}",
	"again_waiting":     "another start is waiting for max_per_hour, until {until}",
	"again_stopped":     "run {run} was stopped, so the trigger starts no other run",
	"absent_by":         expected + " did not come by {until}",
	"absent_for":        expected + " did not come for {span}",
	"absent_came":       expected + " came",
	"absent_unchecked":  "nothing ran to look for " + expected,
	"events":            "{n} events",
	"event_unread":      "the event cannot be read: {detail}",
	"event_failed":      "the event cannot be evaluated: {detail}",
	"events_lost":       "events were lost before they could be read[: {detail}]",
}

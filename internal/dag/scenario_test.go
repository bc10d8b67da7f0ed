package dag

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestScenarios plays the transcripts in testdata. A transcript has blocks of commands, each followed by a
// line of dashes, the results of the commands, and an empty line. Each block is one transaction. After it, a
// load of the rows must equal memory. `go test ./internal/dag -run Scenarios -rewrite` writes the answers
// again.
//
//	graph [end] [timeout=D] [own]     then one indented line per task:
//	  NAME [<- NEED...] [if=COND] [retry=N] [delay=D] [backoff=F] [max_delay=D] [jitter=F]
//	       [exit=N,N] [timeout=D] [grace=D] [warn] [priority=P] [on_lost=P] [start=D] [logic=LOGIC]
//	fire [by=D] [fail_lost] [from=TASK]           before submit: a trigger starts it, to begin within D
//	submit [split] [wait=WHY]         split: Leader work makes the graph; wait: a limit holds it back
//	admit [split]                     what it waited for is there
//	split [MESSAGE]                   the Leader's answer; with a message, it failed
//	auto                              from here on, ready tasks are assigned at once
//	assign start succeed fail stopped lose TASK [handler=N] [token=N] [out=JSON] [exit=N] [cause=C] [over] [message…]
//	advance D                         lets time pass and fires the timers that become due
//	arm settle TASK …                 what the owner of a run says of a logical task: see scenario_logic_test.go
//	task-stop retry skip TASK         an operator decides about a task
//	mark succeeded|failed TASK [out=JSON]
//	timer KIND TASK [token=N]         a timer without a request
//	pause resume stop kill [by=USER] [reason…]
//	recover [from=TASK [only] [up] [down]] [by=USER] [reason…]
//	check                             the recovery sweep looks at the run
//	crash                             memory, timers and cancels are lost; rows are loaded
//	show · history · rows             the tasks, the events so far, the last transaction
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d transcripts: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := playTranscript(string(text))
			switch {
			case got == string(text):
			case *rewrite:
				must(os.WriteFile(file, []byte(got), 0o644))
			default:
				t.Error(firstDifference(string(text), got))
			}
		})
	}
}

func firstDifference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range b {
		if i >= len(a) || a[i] != b[i] {
			return fmt.Sprintf("line %d is\n\t%s\nnow\n\t%s", i+1, strings.Join(a[min(i, len(a)):min(i+1, len(a))], ""), b[i])
		}
	}
	return "the transcript is longer than what happens"
}

// playTranscript returns the text with the present answers.
func playTranscript(text string) string {
	p := &player{}
	var out strings.Builder
	for _, block := range strings.Split(strings.Trim(text, "\n"), "\n\n") {
		commands, _, asked := strings.Cut(block, "----")
		commands = strings.TrimSuffix(commands, "\n")
		out.WriteString(commands + "\n")
		answer := p.block(commands)
		if asked || answer != "" {
			out.WriteString("----\n" + answer)
		}
		out.WriteString("\n")
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// player runs the commands of one transcript.
type player struct {
	w    *world
	spec GraphSpec
	auto bool
	out  strings.Builder
	run  string // the run as last printed
	seen []task // the tasks as last printed
	told int    // the number of printed cancels
}

func (p *player) say(format string, args ...any) { fmt.Fprintf(&p.out, format+"\n", args...) }

func (p *player) block(text string) string {
	p.out.Reset()
	acted := false
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		if strings.HasPrefix(line, "#") || strings.TrimSpace(line) == "" {
			continue
		}
		if strings.HasPrefix(line, "graph") {
			from := i + 1
			for i+1 < len(lines) && strings.HasPrefix(lines[i+1], " ") {
				i++
			}
			p.graph(strings.Fields(line)[1:], lines[from:i+1])
			continue
		}
		acted = true
		p.command(strings.Fields(line))
	}
	if acted && p.w != nil && (p.w.run.Pending() > 0) {
		if err := p.w.flush(); err != nil {
			p.say("BROKEN: %v", err)
		}
	}
	return p.out.String()
}

func (p *player) graph(args, lines []string) {
	p.spec = GraphSpec{}
	own := false
	for _, a := range args {
		name, value, _ := strings.Cut(a, "=")
		switch name {
		case "end":
			p.spec.EndOnFailure = true
		case "timeout":
			p.spec.Timeout = duration(value)
		case "own":
			own = true
		}
	}
	for _, line := range lines {
		p.spec.Tasks = append(p.spec.Tasks, parseTask(strings.Fields(line)))
	}
	g, err := NewGraph(p.spec)
	if err != nil {
		p.say("%v", err)
		return
	}
	p.w = newWorld(g)
	p.w.own = own
	p.auto, p.run, p.seen, p.told = false, "", nil, 0
}

func parseTask(words []string) TaskSpec {
	t := TaskSpec{Name: words[0], Policy: Policy{Priority: Medium}}
	for _, word := range words[1:] {
		name, value, option := strings.Cut(word, "=")
		switch {
		case word == "<-":
		case name == "if":
			t.If = cond(value)
		case word == "warn":
			t.Policy.WarnOnTimeout = true
		case name == "logic":
			t.Logic = parseLogic(value)
		case option:
			policyOption(&t.Policy, name, value)
		default:
			t.Needs = append(t.Needs, word)
		}
	}
	return t
}

func policyOption(p *Policy, name, value string) {
	switch name {
	case "retry":
		p.Retry.Max = int32(number(value))
	case "delay":
		p.Retry.Delay = duration(value)
	case "backoff":
		p.Retry.Backoff = fraction(value)
	case "max_delay":
		p.Retry.MaxDelay = duration(value)
	case "jitter":
		p.Retry.Jitter = fraction(value)
	case "exit":
		for _, code := range strings.Split(value, ",") {
			p.Retry.OnExit = append(p.Retry.OnExit, int32(number(code)))
		}
	case "timeout":
		p.Timeout = duration(value)
	case "grace":
		p.KillGrace = duration(value)
	case "on_lost":
		p.OnLost = map[string]OnLost{"fail": LostFail, "ask": LostAsk}[value]
	case "start":
		p.StartDeadline = duration(value)
	case "priority":
		p.Priority, _ = ParsePriority(value)
	default:
		panic("no such task option: " + name)
	}
}

func duration(s string) time.Duration {
	d, err := time.ParseDuration(s)
	must(err)
	return d
}

func number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	must(err)
	return n
}

func fraction(s string) float64 {
	f, err := strconv.ParseFloat(s, 64)
	must(err)
	return f
}

func (p *player) command(words []string) {
	switch words[0] {
	case "auto":
		p.auto = true
	case "advance":
		p.advance(duration(words[1]))
	case "crash":
		p.crash()
	case "show":
		p.show()
	case "history":
		p.history()
	case "rows":
		if p.w.run.Pending() > 0 {
			must(p.w.flush())
		}
		c := &p.w.changes
		p.say("%d run inserts, %d run updates, %d attempt inserts, %d attempt updates, %d events",
			len(c.RunInserts), len(c.RunUpdates), len(c.AttemptInserts), len(c.AttemptUpdates), len(c.Events))
	default:
		p.event(words)
	}
}

// event parses a command for one event, applies the event and returns its effects as text.
func (p *player) event(words []string) {
	ev := Event{Handler: 1, Task: LeaderTask}
	args := words[1:]
	switch kind := words[0]; kind {
	case "fire":
		p.fire(args)
		return
	case "submit", "admit":
		ev.Kind, ev.Graph, ev.Own = map[string]EventKind{"submit": EvSubmit, "admit": EvAdmit}[kind], p.w.g, p.w.own
		for _, a := range args {
			if why, waits := strings.CutPrefix(a, "wait="); waits {
				ev.Wait = why
			} else {
				ev.Graph = nil
			}
		}
	case "split":
		ev.Kind, ev.Token = EvSplit, p.w.run.leader.token
		if args = options(&ev, args); len(args) > 0 {
			ev.Err = strings.Join(args, " ")
		} else {
			ev.Graph, ev.Own = p.w.g, p.w.own
		}
	case "assign", "start", "succeed", "fail", "stopped", "lose":
		p.taskEvent(&ev, kind, args)
	case "arm", "settle":
		p.logicEvent(&ev, kind, args)
	case "timer":
		kinds := map[string]TimerKind{"retry": TimerRetry, "timeout": TimerTimeout, "overdue": TimerOverdue, "run": TimerRunTimeout,
			"start_by": TimerStartBy, "start": TimerStart, "deferred": TimerDeferred}
		ev.Kind, ev.Timer, ev.Task = EvTimer, kinds[args[0]], p.task(args[1])
		if p.w.run.has(ev.Task) {
			ev.Token = p.w.run.at(ev.Task).token
		}
		options(&ev, args[2:])
	case "recover":
		ev.Kind = EvRecover
		ev.Reason = strings.Join(options(&ev, p.scope(&ev, args)), " ")
	case "task-stop", "retry", "skip", "mark":
		args = p.markEvent(&ev, kind, args)
		ev.Reason = strings.Join(options(&ev, args), " ")
		ev.Outputs, ev.Result.Outputs = ev.Result.Outputs, nil
	case "check":
		ev.Kind = EvCheck
	default:
		intent, ok := ParseIntent(map[string]string{"resume": "run"}[kind])
		if !ok {
			if intent, ok = ParseIntent(kind); !ok {
				panic("no such command: " + kind)
			}
		}
		ev.Kind, ev.Intent = EvIntent, intent
		ev.Reason = strings.Join(options(&ev, args), " ")
	}
	p.apply(ev, strings.Join(words, " "))
}

// scope parses the tasks that a recover must run again.
func (p *player) scope(ev *Event, args []string) (rest []string) {
	for _, a := range args {
		name, value, _ := strings.Cut(a, "=")
		switch name {
		case "from":
			ev.Task, ev.Scope = p.task(value), ev.Scope|ScopeFrom
		case "only":
			ev.Scope = ScopeOnly
		case "up":
			ev.Scope |= ScopeUpstream
		case "down":
			ev.Scope |= ScopeDependents
		default:
			rest = append(rest, a)
		}
	}
	return rest
}

func (p *player) markEvent(ev *Event, kind string, args []string) (rest []string) {
	ev.Kind, ev.Handler = EvMark, 0
	ev.Mark = map[string]Mark{"task-stop": MarkStop, "retry": MarkRetry, "skip": MarkSkip}[kind]
	if kind == "mark" {
		ev.Mark = map[string]Mark{"succeeded": MarkSucceeded, "failed": MarkFailed}[args[0]]
		args = args[1:]
	}
	ev.Task = p.task(args[0])
	return args[1:]
}

// fire makes a trigger the origin of the run.
func (p *player) fire(args []string) {
	f := &Fire{Trigger: "nightly", Instant: p.w.now.Wall}
	for _, a := range args {
		name, value, _ := strings.Cut(a, "=")
		switch name {
		case "by":
			f.StartBy = p.w.now.Wall + Micros(duration(value).Microseconds())
		case "from":
			f = &Fire{Instant: p.w.now.Wall, From: value}
		case "fail_lost":
			f.FailLost = true
		default:
			panic("no such option: " + a)
		}
	}
	p.w.run.Fire = f
}

func (p *player) task(name string) TaskID {
	if name == "leader" {
		return LeaderTask
	}
	if t, ok := p.graphNow().Find(name); ok {
		return t
	}
	return TaskID(number(name))
}

func (p *player) taskEvent(ev *Event, kind string, args []string) {
	ev.Task = p.task(args[0])
	if p.w.run.has(ev.Task) {
		if h, _, held := p.w.run.Holder(ev.Task); held {
			ev.Handler = h
		}
		ev.Token = p.w.run.at(ev.Task).token
	}
	ev.At = p.w.now.Wall
	text := strings.Join(options(ev, args[1:]), " ")
	ev.Result.Message = text
	switch kind {
	case "assign":
		ev.Kind = EvAssign
	case "start":
		ev.Kind = EvStarted
	case "lose":
		ev.Kind, ev.Reason = EvLost, text
	case "succeed":
		ev.Kind, ev.Result.State = EvReport, AttemptSucceeded
	case "fail":
		ev.Kind, ev.Result.State = EvReport, AttemptFailed
	case "stopped":
		ev.Kind, ev.Result.State = EvReport, AttemptStopped
	}
}

// options processes the words of the form name=value, and returns the other words.
func options(ev *Event, words []string) []string {
	var rest []string
	for _, word := range words {
		name, value, set := strings.Cut(word, "=")
		if !set && word != "over" {
			name = ""
		}
		switch name {
		case "handler":
			ev.Handler = HandlerID(number(value))
		case "token":
			ev.Token = Token(number(value))
		case "out":
			if !json.Valid([]byte(value)) {
				panic("no JSON: " + value)
			}
			ev.Result.Outputs = []byte(value)
		case "exit":
			ev.Result.Exited, ev.Result.ExitCode, ev.Result.Cause = true, int32(number(value)), CauseExit
		case "cause":
			ev.Result.Cause = Cause(value)
		case "over":
			ev.Result.TimedOut = true
		case "by":
			ev.Actor = value
		default:
			rest = append(rest, word)
		}
	}
	return rest
}

func (p *player) apply(ev Event, as string) {
	timers := len(p.w.timers)
	v, err := p.w.step(ev)
	if err != nil {
		p.say("BROKEN: %v", err)
	}
	switch why := p.w.run.Refusal(&ev); {
	case v == WrongState && why != "":
		p.say("%s: %s", as, why)
	case v != Accepted:
		p.say("%s: %s", as, v)
	}
	if p.auto {
		p.assignAll()
	}
	p.tell()
	for _, tm := range p.w.timers[timers:] {
		p.say("timer: %s", p.timer(tm))
	}
	p.tellCancels()
	p.tellOwner()
}

// assignAll assigns every ready task in the best order.
func (p *player) assignAll() {
	for p.w.run.Ready() > 0 {
		if _, err := p.w.step(Event{Kind: EvAssign, Task: p.w.run.NextReady(), Handler: 1}); err != nil {
			p.say("BROKEN: %v", err)
		}
	}
}

func (p *player) timer(tm Timer) string {
	names := [...]string{"", "retry", "timeout", "overdue", "run timeout", "start by", "start", "deferred"}
	text := fmt.Sprintf("%s in %s", names[tm.Kind], tm.Due-p.w.now.Mono)
	if tm.Kind != TimerRunTimeout && tm.Kind != TimerStartBy {
		text = p.graphNow().Name(tm.Task) + " " + text
	}
	return text
}

func (p *player) tellCancels() {
	for _, c := range p.w.cancels[p.told:] {
		how := "TERM"
		if c.Kill {
			how = "KILL"
		}
		p.say("%s %s, token %d", how, p.graphNow().Name(c.Task), c.Token)
	}
	p.told = len(p.w.cancels)
}

// toldOrder is the order in which changes are printed: ended tasks first, then the others.
var toldOrder = [taskStates]TaskState{Succeeded, Failed, UpstreamFailed, Stopped, Skipped, RetryWait, Pending, Ready, Assigned, Running, Deferred}

// tell prints the changed tasks, grouped by their present states.
func (p *player) tell() {
	r := p.w.run
	p.seen = append(p.seen, make([]task, max(0, len(r.tasks)-len(p.seen)))...)
	for _, s := range toldOrder {
		var names []string
		for t := range r.tasks {
			now, seen := &r.tasks[t], &p.seen[t]
			if now.state == s && (seen.state != s || seen.token != now.token) {
				name := r.Graph.Name(TaskID(t))
				if s.Held() && now.token > 1 {
					name += fmt.Sprintf("#%d", now.token)
				}
				names = append(names, name)
			}
		}
		switch {
		case len(names) > 20:
			p.say("%d tasks %s", len(names), s)
		case len(names) > 0:
			p.say("%s %s", strings.Join(names, " "), s)
		}
	}
	for t := range r.tasks {
		p.seen[t] = r.tasks[t]
	}
	if now := p.runLine(); now != p.run {
		p.run = now
		p.say("run %s", now)
	}
}

func (p *player) runLine() string {
	r := p.w.run
	text := r.State.String()
	if !r.State.Terminal() && r.Intent != IntentRun {
		text += ", intent " + r.Intent.String()
	}
	if r.Generation > 1 {
		text += fmt.Sprintf(", generation %d", r.Generation)
	}
	if r.State.Terminal() && r.Cause != "" {
		text += ", cause " + string(r.Cause)
	}
	if r.State.Terminal() && r.Message != "" {
		text += ": " + r.Message
	}
	return text
}

// advance fires the due timers, the earliest first, each at its time.
func (p *player) advance(d time.Duration) {
	end := p.w.now.Mono + d
	for {
		next := -1
		for i, tm := range p.w.timers {
			if tm.Due <= end && (next < 0 || tm.Due < p.w.timers[next].Due) {
				next = i
			}
		}
		if next < 0 {
			break
		}
		tm := p.w.timers[next]
		p.w.timers = append(p.w.timers[:next], p.w.timers[next+1:]...)
		p.to(max(tm.Due, p.w.now.Mono))
		name := p.timer(tm)
		p.apply(Event{Kind: EvTimer, Timer: tm.Kind, Task: tm.Task, Token: tm.Token}, strings.TrimSuffix(name, " in 0s"))
	}
	p.to(end)
}

func (p *player) to(mono time.Duration) {
	p.w.now.Wall += Micros((mono - p.w.now.Mono).Microseconds())
	p.w.now.Mono = mono
}

func (p *player) crash() {
	if err := p.w.crash(); err != nil {
		p.say("BROKEN: %v", err)
		return
	}
	p.tell()
	for _, tm := range p.w.timers {
		p.say("timer: %s", p.timer(tm))
	}
	p.tellCancels()
	p.tellOwner()
}

func (p *player) show() {
	r := p.w.run
	p.say("%s", p.runLine())
	for t := range r.tasks {
		line := r.Graph.Name(TaskID(t)) + " " + r.tasks[t].state.String()
		if h, token, held := r.Holder(TaskID(t)); held {
			line += fmt.Sprintf(" by %d, token %d", h, token)
		} else if token := r.tasks[t].token; token > 0 {
			line += fmt.Sprintf(", tokens so far %d", token)
		}
		p.say("%s", line)
	}
}

func (p *player) history() {
	for _, e := range p.w.rows.events {
		recs, err := UnpackRecords(e.Records)
		must(err)
		for _, rec := range recs {
			p.say("%s", p.record(&rec))
		}
	}
}

func (p *player) record(rec *Record) string {
	words := []string{rec.Kind.String()}
	if rec.Task != LeaderTask || rec.Token != 0 {
		words = append(words, p.graphNow().Name(rec.Task))
	}
	if rec.Token != 0 {
		words = append(words, fmt.Sprintf("token %d", rec.Token))
	}
	if rec.State != 0 {
		words = append(words, rec.State.String())
	}
	if rec.Exited {
		words = append(words, fmt.Sprintf("exit %d", rec.ExitCode))
	}
	if rec.Count != 0 {
		words = append(words, fmt.Sprintf("%d tasks", rec.Count))
	}
	for _, text := range []string{rec.Text, rec.Reason} {
		if text != "" {
			words = append(words, "("+text+")")
		}
	}
	if rec.Actor != "" {
		words = append(words, "by "+rec.Actor)
	}
	return strings.Join(words, " ")
}

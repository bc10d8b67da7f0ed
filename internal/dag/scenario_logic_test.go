package dag

import (
	"slices"
	"strings"
)

// This file has the commands of transcripts about logical tasks. LOGIC of a task is one of
//
//	wait:D   wait   approval   call   dependent   foreach[:PARALLEL][:collect][:calls]
//	switch:COND>TASK|COND>TASK|>TASK             the last one is else
//
// and these commands are the answers of the run's owner about such a task:
//
//	arm TASK [due=D] [child=N] [items=JSON,JSON] [names=A,B]     what it waits for; due is from now
//	settle TASK succeeded|failed|stopped [child=N] [read=GENERATION] [out=JSON] [cause=C] [by=USER] [message…]
//
// The output shows the requests to the owner ("asked: …"), and its messages to child runs.

var kindOf = map[string]Kind{"wait": Wait, "approval": Approval, "switch": Switch, "call": Call, "dependent": Dependent, "foreach": Foreach}

func parseLogic(text string) *Logic {
	kind, rest, _ := strings.Cut(text, ":")
	l := &Logic{Kind: kindOf[kind]}
	switch {
	case l.Kind == Work:
		panic("no such logic: " + text)
	case l.Kind == Switch:
		for _, b := range strings.Split(rest, "|") {
			when, then, _ := strings.Cut(b, ">")
			branch := Branch{Then: then}
			if when != "" {
				branch.If = cond(when)
			}
			l.Branches = append(l.Branches, branch)
		}
	case l.Kind == Wait && rest != "":
		l.For = duration(rest)
	case l.Kind == Foreach && rest != "":
		for _, word := range strings.Split(rest, ":") {
			switch word {
			case "collect":
				l.Collect = true
			case "calls":
				l.Each = &Logic{Kind: Call}
			default:
				l.Parallel = int32(number(word))
			}
		}
	}
	return l
}

// graphNow returns the run's graph with its present instances; before the split, the graph of the version.
func (p *player) graphNow() *Graph {
	if g := p.w.run.Graph; g != nil {
		return g
	}
	return p.w.g
}

// childRun returns the id of the nth child of a transcript.
func childRun(n int64) RunID { return RunID{0: 0xc, 15: byte(n)} }

func (p *player) logicEvent(ev *Event, kind string, args []string) {
	ev.Task, ev.Handler = p.task(args[0]), 0
	ev.Of, ev.Token = p.graphNow().Kind(ev.Task), p.w.run.at(ev.Task).token
	var rest []string
	for _, word := range args[1:] {
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "due":
			ev.Due = p.w.now.Wall + Micros(duration(value).Microseconds())
		case "child":
			ev.Child = Child{Run: childRun(number(value)), Generation: 1, Workflow: 2}
		case "read":
			ev.Child.Generation = int32(number(value))
		case "items", "names":
			if ev.Items == nil {
				ev.Items = &Items{}
			}
			for _, item := range strings.FieldsFunc(value, func(r rune) bool { return r == ',' }) {
				if name == "names" {
					ev.Items.Names = append(ev.Items.Names, item)
				} else {
					ev.Items.Values = append(ev.Items.Values, []byte(item))
				}
			}
		default:
			rest = append(rest, word)
		}
	}
	if rest = options(ev, rest); kind == "arm" {
		ev.Kind, ev.Reason = EvArm, strings.Join(rest, " ")
		return
	}
	ev.Kind = EvSettle
	ev.Result.State = map[string]AttemptState{"succeeded": AttemptSucceeded, "failed": AttemptFailed, "stopped": AttemptStopped}[rest[0]]
	ev.Result.Message = strings.Join(rest[1:], " ")
}

// tellOwner prints the requests to the owner, and its messages to child runs.
func (p *player) tellOwner() {
	slices.SortFunc(p.w.prepares, func(a, b Prepare) int { return int(a.Task - b.Task) })
	for _, q := range p.w.prepares {
		p.say("asked: %s %s, token %d", q.Kind, p.graphNow().Name(q.Task), q.Token)
	}
	for _, o := range p.w.orders {
		p.say("child %d is told to %s: %s", o.Child.Run[15], o.Intent, strings.ReplaceAll(o.Reason, testRun.String(), "…"))
	}
	p.w.prepares, p.w.orders = nil, nil
}

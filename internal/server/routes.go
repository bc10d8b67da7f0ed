package server

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	api "skein.dev/skein/api/v1"
)

// Every route under /api/v1, in the order of the document. Verbs are POST …:verb.
func (s *Server) routes() {
	runs, workflows, nodes := tag("runs"), tag("workflows"), tag("nodes")

	route(s, workflows.get("/workflows", "list-workflows", "List workflows by name"), s.listWorkflows)
	route(s, workflows.get("/workflows/{ns}/{name}", "get-workflow", "Read a workflow with the source of its current version"), s.getWorkflow)
	put := workflows.put("/workflows/{ns}/{name}", "apply-workflow", "Make a version of a definition, unless the newest is the same")
	route(s, applying(answers(put, map[int]string{http.StatusOK: "There was one.", http.StatusCreated: "It is the first."})), s.applyWorkflow)
	route(s, workflows.delete("/workflows/{ns}/{name}", "delete-workflow", "Hide a workflow; its name is free again, its runs stay"), s.deleteWorkflow)
	route(s, workflows.get("/workflows/{ns}/{name}/versions", "list-versions", "List versions, newest first"), s.listVersions)
	route(s, workflows.get("/workflows/{ns}/{name}/versions/{version}", "get-version", "Read a version with its source"), s.getVersion)
	route(s, workflows.get("/workflows/{ns}/{name}/graph", "get-workflow-graph", "Read the graph of a version"), s.workflowGraph)
	route(s, workflows.verb("/workflows/{ns}/{name}:pause", "pause-workflow", "Start nothing of it until it is resumed"), s.pauseWorkflow)
	route(s, workflows.verb("/workflows/{ns}/{name}:resume", "resume-workflow", "End a pause"), s.resumeWorkflow)
	route(s, workflows.verb("/workflows/{ns}/{name}:rollback", "rollback-workflow", "Make an earlier version the one that new runs get"), s.rollbackWorkflow)
	route(s, applying(workflows.verb("/validate", "validate", "Find every fault of a workflow file; nothing is kept")), s.validate)

	route(s, starting(runs.verb("/runs", "start-run", "Start a run; when it answers, the run is durable")), s.startRun)
	route(s, runs.get("/runs", "list-runs", "List runs, newest first"), s.listRuns)
	route(s, runs.get("/runs/{id}", "get-run", "Read a run"), s.getRun)
	for _, v := range runVerbs {
		route(s, commanding(runs.verb("/runs/{id}:"+v.name, v.name+"-run", v.summary)), s.runVerb(v))
	}
	route(s, runs.get("/runs/{id}/tasks", "list-tasks", "List a run's tasks in the order of its graph"), s.listTasks)
	route(s, runs.get("/runs/{id}/tasks/{task}", "get-task", "Read a task of a run"), s.getTask)
	route(s, runs.get("/runs/{id}/graph", "get-run-graph", "Read a run's graph with the state of each task"), s.runGraph)
	route(s, runs.get("/runs/{id}/events", "list-events", "Read a run's history, oldest first"), s.listEvents)
	route(s, runs.get("/runs/{id}/explain", "explain-run", "Say why a run stands where it stands"), s.explainRun)
	route(s, runs.get("/runs/{id}/tasks/{task}/explain", "explain-task", "Say why a task stands where it stands"), s.explainTask)
	logs := streaming(runs.get("/runs/{id}/tasks/{task}/logs", "get-log", "Read what an attempt wrote, byte by byte"), "text/plain", "Raw bytes.")
	logs.Responses["206"] = &huma.Response{Description: "The range that was asked for, of an attempt that has ended."}
	route(s, logs, s.getLog)
	route(s, runs.get("/users/{id}/runs", "list-user-runs", "List a user's runs, newest first"), s.listUserRuns)
	route(s, streaming(runs.get("/events", "watch-events", "Watch what is committed, as it is committed"), "text/event-stream", eventsDoc), s.watchEvents)

	route(s, nodes.get("/nodes", "list-nodes", "List the nodes"), s.listNodes)
	route(s, nodes.get("/status", "get-status", "Read the state of the node that answers"), s.getStatus)
}

const eventsDoc = "Events named change, whose data is a Change, and reset: some changes may be missing, read again what you watch. " +
	"The subscription stands once the answer's header has arrived. A comment comes every 15 s."

type tag string

func (t tag) op(method, path, id, summary string) huma.Operation {
	return huma.Operation{Method: method, Path: api.Prefix + path, OperationID: id, Summary: summary, Tags: []string{string(t)}}
}

func (t tag) get(path, id, summary string) huma.Operation {
	return t.op(http.MethodGet, path, id, summary)
}
func (t tag) put(path, id, summary string) huma.Operation {
	return t.op(http.MethodPut, path, id, summary)
}
func (t tag) verb(path, id, summary string) huma.Operation {
	return t.op(http.MethodPost, path, id, summary)
}
func (t tag) delete(path, id, summary string) huma.Operation {
	return t.op(http.MethodDelete, path, id, summary)
}

// route registers an operation; whatever error its handler returns becomes a problem.
func route[I, O any](s *Server, op huma.Operation, h func(context.Context, *I) (*O, error)) {
	if op.MaxBodyBytes == 0 {
		op.MaxBodyBytes = jsonBytesMax + 1 // huma refuses what fills it
	}
	op.BodyReadTimeout = bodyTimeout
	op.RejectUnknownQueryParameters = true
	huma.Register(s.api, op, func(ctx context.Context, in *I) (*O, error) {
		// The body has been read; its deadline would end a request that waits for a run.
		if rc, ok := ctx.Value(controllerKey{}).(*http.ResponseController); ok {
			_ = rc.SetReadDeadline(time.Time{}) // there is no connection in process
		}
		out, err := h(ctx, in)
		if err != nil {
			return nil, failed(err)
		}
		return out, nil
	})
}

type controllerKey struct{}

// applying is an operation whose body is a workflow file, as it is or with what belongs
// to it.
func applying(op huma.Operation) huma.Operation {
	op.MaxBodyBytes = applyBytesMax + 1
	return op
}

// answers documents what else than its default an operation answers with the same body.
func answers(op huma.Operation, meaning map[int]string) huma.Operation {
	op.Responses = map[string]*huma.Response{}
	for status, text := range meaning {
		op.Responses[strconv.Itoa(status)] = &huma.Response{Description: text}
	}
	return op
}

func starting(op huma.Operation) huma.Operation {
	op.DefaultStatus = http.StatusAccepted
	return answers(op, map[int]string{
		http.StatusOK:       "An earlier start with this key made it.",
		http.StatusCreated:  "It was started and, waited for, has ended.",
		http.StatusAccepted: "It was started.",
	})
}

func commanding(op huma.Operation) huma.Operation {
	op.DefaultStatus = http.StatusAccepted
	return answers(op, map[int]string{
		http.StatusOK:       "It was done before, under this key.",
		http.StatusAccepted: "It is durable and on its way.",
	})
}

func streaming(op huma.Operation, contentType, doc string) huma.Operation {
	op.Responses = map[string]*huma.Response{"200": {
		Description: doc,
		Content:     map[string]*huma.MediaType{contentType: {Schema: &huma.Schema{Type: huma.TypeString}}},
	}}
	return op
}

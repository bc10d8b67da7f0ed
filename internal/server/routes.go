package server

import (
	"context"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/trigger"
	api "skein.dev/skein/sdk/api/v1"
)

// routes registers every route under /api/v1, in the order of the document. Verbs are POST …:verb.
func (s *Server) routes() {
	s.runRoutes(tag("runs"))
	s.workflowRoutes(tag("workflows"))
	s.drawingRoutes(tag("workflows"), tag("runs"))
	s.scheduleRoutes(tag("schedules"))
	s.backfillRoutes(tag("backfills"))
	s.queueRoutes(tag("queues"))
	s.nodeRoutes(tag("nodes"))
	s.tokenRoutes(tag("tokens"))
	sessionRoutes(s, tag("sessions"))
	providerRoutes(s, tag("sessions"))
	peopleRoutes(s, tag("users"), tag("roles"))
	auditRoutes(s, tag("audit"))
	s.classRoutes(tag("classes"))
	secretRoutes(s, tag("secrets"))
	authorityRoutes(s, tag("tokens"))
	connectionRoutes(s, tag("connections"))
	gitRoutes(s, tag("git sources"))
	eventRoutes(s, tag("schedules"))
	alertRoutes(s, tag("alerts"))
	namespaceRoutes(s, tag("namespaces"))
}

func (s *Server) nodeRoutes(nodes tag) {
	route(s, nodes.get("/refused-extensions", "list-refused-extensions", "List the folders of extensions that nodes and workers do not use, and why"), func(ctx context.Context, _ *struct{}) (*jsonOut[api.List[api.RefusedExtension]], error) {
		return listRefused(ctx, s)
	})
	accepted := func(op huma.Operation) huma.Operation {
		op.DefaultStatus = http.StatusAccepted
		return op
	}
	route(s, nodes.get("/nodes", "list-nodes", "List the nodes"), s.listNodes)
	route(s, nodes.get("/nodes/{name}", "get-node", "Read a node"), s.getNode)
	route(s, nodes.get("/worker-groups", "list-worker-groups", "List the groups of workers"), s.listWorkerGroups)
	route(s, nodes.get("/kinds", "list-kinds", "List the kinds of tasks that nodes and workers can run"), func(ctx context.Context, _ *struct{}) (*jsonOut[api.List[api.Kind]], error) { return listKinds(ctx, s) })
	cordon := s.ordersNode(store.OrderCordon, true)
	route(s, accepted(nodes.verb("/nodes/{name}:cordon", "cordon-node", "Cordon a node: it gives up its shards and gets no others; its running attempts finish")), cordon)
	route(s, accepted(nodes.verb("/nodes/{name}:drain", "drain-node", "Cordon a node, and wait until it has no attempts: its state is then drained")), cordon)
	route(s, accepted(nodes.verb("/nodes/{name}:uncordon", "uncordon-node", "Uncordon a node, so that it gets shards again")), s.ordersNode(store.OrderCordon, false))
	route(s, nodes.get("/nodes/{name}/metrics", "get-node-metrics", "Read the load of a node in the last hour"), nodeLoads{s}.get)
	route(s, nodes.get("/nodes/{name}/log-level", "get-log-level", "Read the level of a node's log"), logLevels{s}.get)
	route(s, nodes.verb("/nodes/{name}:log-level", "set-log-level", "Change the level of a node's log until it ends or reads its settings again"), logLevels{s}.set)
	route(s, accepted(nodes.verb("/shards/{id}:move", "move-shard", "Move a shard to a node")), s.moveShard)
	route(s, accepted(nodes.verb("/workflows/{ns}/{name}:move", "move-workflow", "Move the shard of a workflow to a node")), s.moveWorkflow)
	route(s, nodes.get("/admin/scheduler", "get-scheduler", "List the nodes on which the scheduler is stopped"), s.getScheduler)
	route(s, accepted(nodes.verb("/admin/scheduler:stop", "stop-scheduler", "Stop the scheduler, in the whole cluster or on one node; starts are still accepted")), s.stopScheduler)
	route(s, accepted(nodes.verb("/admin/scheduler:start", "start-scheduler", "Start the scheduler again, in the whole cluster or on one node")), s.startScheduler)
	route(s, nodes.get("/status", "get-status", "Read the state of the node that answers"), s.getStatus)
	route(s, nodes.get("/verify", "verify", "Check every invariant of the stored rows"), s.verify)
}

func (s *Server) workflowRoutes(workflows tag) {
	route(s, workflows.get("/workflows", "list-workflows", "List workflows by name"), s.listWorkflows)
	route(s, workflows.get("/workflows/{ns}/{name}", "get-workflow", "Read a workflow with the source of its current version"), s.getWorkflow)
	put := workflows.put("/workflows/{ns}/{name}", "apply-workflow", "Apply a workflow: make a version, unless the newest one is the same")
	route(s, applying(answers(put, map[int]string{http.StatusOK: "There was one.", http.StatusCreated: "It is the first."})), s.applyWorkflow)
	route(s, workflows.delete("/workflows/{ns}/{name}", "delete-workflow", "Delete a workflow; its name is free again, and its runs stay"), s.deleteWorkflow)
	route(s, workflows.get("/workflows/{ns}/{name}/versions", "list-versions", "List versions, newest first"), s.listVersions)
	route(s, workflows.get("/workflows/{ns}/{name}/versions/{version}", "get-version", "Read a version with its source"), s.getVersion)
	route(s, workflows.get("/workflows/{ns}/{name}/graph", "get-workflow-graph", "Read the graph of a version"), s.workflowGraph)
	route(s, workflows.verb("/workflows/{ns}/{name}:pause", "pause-workflow", "Pause a workflow: no new run starts until it is resumed"), s.pauseWorkflow)
	route(s, workflows.verb("/workflows/{ns}/{name}:resume", "resume-workflow", "Resume a paused workflow"), s.resumeWorkflow)
	route(s, workflows.verb("/workflows/{ns}/{name}:rollback", "rollback-workflow", "Roll a workflow back: new runs get an earlier version"), s.rollbackWorkflow)
	route(s, applying(workflows.verb("/validate", "validate", "Check a workflow file, and list every fault; nothing is stored")), s.validate)
	schema := streaming(workflows.get("/schema/workflow.json", "get-workflow-schema", "Read the schema of a workflow file"), "application/schema+json", schemaDoc)
	schema.Responses["200"].Content["application/schema+json"].Schema = &huma.Schema{Type: huma.TypeObject}
	schema.Responses["304"] = &huma.Response{Description: "It is what the ETag of If-None-Match names."}
	route(s, schema, s.workflowSchema)
}

func (s *Server) runRoutes(runs tag) {
	start := starting(runs.verb("/runs", "start-run", "Start a run; when the answer comes, the run is durable"))
	s.adapter.before[start.OperationID] = starts{s}.before
	route(s, start, starts{s}.full)
	batch := runs.verb("/runs:batch", "start-runs", "Start up to 10,000 runs; each start has its own verdict")
	batch.Description, batch.MaxBodyBytes = batchDoc, batchBytesMax+1
	route(s, batch, func(ctx context.Context, in *startBatchIn) (*jsonOut[api.BatchResult], error) {
		return startBatch(ctx, s, in)
	})
	route(s, runs.get("/runs", "list-runs", "List runs, newest first"), s.listRuns)
	route(s, runs.get("/runs/counts", "count-runs", "Count ended runs by day, hour, workflow or state"), statistics{s, statsRows}.runs)
	route(s, runs.get("/runs/{id}", "get-run", "Read a run"), s.getRun)
	for _, v := range runVerbs {
		route(s, commanding(runs.verb("/runs/{id}:"+v.name, v.name+"-run", v.summary)), s.runVerb(v))
	}
	route(s, commanding(runs.verb("/runs/{id}:recover", "recover-run", "Recover a run that has ended: failed tasks run again, and results are kept")), s.recoverRun)
	route(s, runs.get("/runs/{id}/recovery", "plan-recovery", "List the tasks that a recover would run again; nothing is changed"), planned(s))
	route(s, runs.get("/runs/{id}/deadlines", "list-deadlines", "List the deadlines of a run, by the alert rules of its workflow"), deadlinesOf(s))
	again := starting(runs.verb("/runs/{id}:rerun", "rerun-run", "Rerun a run: start a new run of the same version with the same parameters, unless the body says otherwise"))
	route(s, again, s.rerunRun)
	s.bulkRoutes(runs)
	for _, v := range taskVerbs {
		route(s, commanding(runs.verb("/runs/{id}/tasks/{task}:"+v.name, v.name+"-task", v.summary)), s.taskVerb(v))
	}
	orphanRoutes(s, runs)
	route(s, commanding(runs.verb("/runs/{id}/tasks/{task}:mark", "mark-task", "Mark a task as succeeded or failed")), s.markTask)
	route(s, runs.get("/runs/{id}/tasks", "list-tasks", "List a run's tasks in the order of its graph"), s.listTasks)
	route(s, runs.get("/runs/{id}/tasks/{task}", "get-task", "Read a task of a run"), s.getTask)
	route(s, runs.get("/runs/{id}/tasks/{task}/definition", "get-task-definition", "Read the input of an attempt: its command, environment and limits"), taskInputs{s}.get)
	route(s, runs.get("/runs/{id}/graph", "get-run-graph", "Read a run's graph with the state of each task"), s.runGraph)
	route(s, runs.get("/runs/{id}/events", "list-events", "Read a run's history, oldest first"), s.listEvents)
	route(s, runs.get("/runs/{id}/explain", "explain-run", "Explain why a run waits, or how it ended"), s.explainRun)
	route(s, runs.get("/runs/{id}/tasks/{task}/explain", "explain-task", "Explain why a task waits, or how it ended"), s.explainTask)
	route(s, runs.verb("/runs/{id}/tasks/{task}:approve", "approve-task", "Approve or reject a task that waits for an approval"), s.approve)
	logs := streaming(runs.get("/runs/{id}/tasks/{task}/logs", "get-log", "Read the log of an attempt"), "text/plain", "Raw bytes.")
	logs.Responses["206"] = &huma.Response{Description: "The range that was asked for, of an attempt that has ended."}
	route(s, logs, s.getLog)
	find := runs.get("/runs/{id}/tasks/{task}/logs/search", "search-log", "Search the log of an attempt for a text, a regular expression or errors")
	route(s, streaming(find, searchType, searchDoc), logSearch{s}.find)
	route(s, runs.get("/runs/{id}/tasks/{task}/logs/index", "get-log-index", "Read the index of an attempt's log: the numbers of lines and errors, and where they are"), logSearch{s}.index)
	all := runs.get("/runs/{id}/logs/search", "search-run-logs", "Search the logs of all attempts of a run for a text, a regular expression or errors")
	route(s, streaming(all, searchType, runSearchDoc), logSearch{s}.all)
	s.artifactRoutes(runs)
	route(s, runs.get("/users/{id}/runs", "list-user-runs", "List a user's runs, newest first"), s.listUserRuns)
	route(s, streaming(runs.get("/events", "watch-events", "Stream the events of runs as they are committed"), "text/event-stream", eventsDoc), s.watchEvents)
}

const batchDoc = "Each start is decided separately, as POST /runs decides it. A refused start holds up no other start. When the answer comes, every accepted run is on disk. " +
	"If there is no answer, send the same batch again: a start whose key has made a run comes back as existing. A body that is not well-formed is refused as a whole."

func (s *Server) scheduleRoutes(schedules tag) {
	const one = "/schedules/{ns}/{workflow}/{trigger}"
	route(s, schedules.get("/schedules", "list-schedules", "List triggers, schedules and sensors, by workflow and name"), s.listSchedules)
	route(s, schedules.get("/schedules/next", "list-next-fires", "List the next fires of all active schedules"), s.nextOfAll)
	route(s, applying(schedules.verb("/schedules:simulate", "simulate-schedules", "Simulate the fires of a span of time, and the effect of an edit")), s.simulate)
	route(s, schedules.get(one, "get-schedule", "Read a trigger"), s.getSchedule)
	route(s, schedules.get(one+"/next", "list-schedule-next", "List the next instants of a schedule, also of a paused one"), s.nextOfSchedule)
	route(s, schedules.get(one+"/fires", "list-schedule-fires", "Read the ledger of a trigger, newest first"), s.listTriggerFires)
	route(s, schedules.get(one+"/days", "list-schedule-days", "Count the fires of a trigger by day, from ledger lines that were deleted"), s.listTriggerDays)
	route(s, schedules.verb(one+":pause", "pause-schedule", "Pause a trigger; the instants of the pause are recorded as skipped"), s.pauseSchedule)
	route(s, schedules.verb(one+":resume", "resume-schedule", "Resume a trigger; it fires the instants that come after this call"), s.resumeSchedule)
	route(s, occurring(schedules.verb(one+":trigger", "fire-schedule", "Fire a trigger now by hand, even if it is paused")), s.fireSchedule)
	route(s, schedules.verb(one+":secret", "rotate-hook-secret", "Make the secret of a webhook, or replace it; only this answer contains it, and the earlier secret stays valid for a while"), func(ctx context.Context, in *hookSecretIn) (*jsonOut[api.HookSecret], error) {
		return rotateHookSecret(ctx, s, in)
	})
	route(s, schedules.get("/fires", "list-fires", "Read the ledger of all triggers, newest first"), s.listFires)
	hook := occurring(schedules.verb("/hooks/{ns}/{workflow}/{trigger}", "call-hook", "Call a webhook; the call must be signed with the secret of the webhook"))
	hook.Description = hookDoc
	hook.MaxBodyBytes = trigger.HookBytesMax + 1
	hook.RejectUnknownQueryParameters = false
	hook.RequestBody = &huma.RequestBody{}
	route(s, hook, s.callHook)
	hook.RequestBody.Required = false // huma makes every raw body required
}

const hookDoc = "A call is signed by X-Skein-Signature (t=UNIX,id=ID,v3=HEX: HMAC-SHA256 over v3:UNIX:ID:NAMESPACE/WORKFLOW/TRIGGER?QUERY, a line feed and the body), " +
	"by the headers of Standard Webhooks (Webhook-Id, Webhook-Timestamp, Webhook-Signature), or in an older form: X-Skein-Signature with t=UNIX,v1=HEX (over UNIX, a dot and the body) " +
	"or t=UNIX,id=ID,v2=HEX (over v2:UNIX:ID:BODY), X-Hub-Signature-256 (sha256=HEX: over the body). A call that came before is not a second one, and fires no other trigger. " +
	"Any query and any media type is taken. The Host of the call may be any; a call from a page of another site is refused."

func (s *Server) backfillRoutes(backfills tag) {
	start := backfills.verb("/backfills", "start-backfill", "Start runs for instants of the past")
	start.DefaultStatus = http.StatusAccepted
	start.MaxBodyBytes = backfillBytesMax + 1
	route(s, answers(start, map[int]string{
		http.StatusOK:       "A dry run, or an earlier start with this key made it.",
		http.StatusAccepted: "It is durable and on its way.",
	}), s.startBackfill)
	route(s, backfills.get("/backfills", "list-backfills", "List backfills, newest first"), s.listBackfills)
	route(s, backfills.get("/backfills/{id}", "get-backfill", "Read a backfill"), s.getBackfill)
	route(s, backfills.get("/backfills/{id}/runs", "list-backfill-runs", "List the runs of a backfill by their instants"), s.listBackfillRuns)
	route(s, backfills.verb("/backfills/{id}:pause", "pause-backfill", "Pause a backfill: it starts no further run until it is resumed"), s.backfillVerb("pause", store.BackfillPaused))
	route(s, backfills.verb("/backfills/{id}:resume", "resume-backfill", "Resume a paused backfill"), s.backfillVerb("resume", store.BackfillRunning))
	route(s, backfills.verb("/backfills/{id}:cancel", "cancel-backfill", "Cancel a backfill: waiting runs are stopped, active runs continue"), s.backfillVerb("cancel", store.BackfillCancelled))
}

const eventsDoc = "Events named change, whose data is a Change, and reset: some changes may be missing, read again what you watch. " +
	"The subscription stands once the answer's header has arrived. A comment comes every 15 s."

type tag string

func (t tag) op(method, path, id, summary string) huma.Operation {
	return huma.Operation{Method: method, Path: api.Prefix + path, OperationID: id, Summary: summary, Tags: []string{string(t)}, RejectUnknownQueryParameters: true}
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

type recorderKey struct{}

// applying returns an operation whose body is a workflow file, alone or as JSON with its files.
func applying(op huma.Operation) huma.Operation {
	op.MaxBodyBytes = applyBytesMax + 1
	return op
}

// answers documents the further statuses with which an operation returns the same body.
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

func occurring(op huma.Operation) huma.Operation {
	op.DefaultStatus = http.StatusAccepted
	return answers(op, map[int]string{
		http.StatusOK:       "No run was started now: outcome and reason say why.",
		http.StatusAccepted: "A run was started; it is durable.",
	})
}

func streaming(op huma.Operation, contentType, doc string) huma.Operation {
	op.Responses = map[string]*huma.Response{"200": {
		Description: doc,
		Content:     map[string]*huma.MediaType{contentType: {Schema: &huma.Schema{Type: huma.TypeString}}},
	}}
	return op
}

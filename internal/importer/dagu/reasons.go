package dagu

import "skein.dev/skein/internal/importer"

// reasons returns why known keys are dropped. The keys are folded.
func reasons() map[string]string {
	const (
		mail      = "alerts send mail here; create a channel of kind email, and write alerts: [{on: [failed], to: CHANNEL}]"
		container = "the importer does not convert containers; write container: in the task, or call docker in the script"
		logs      = "Skein keeps the output of tasks: skein logs RUN/TASK"
	)
	return map[string]string{
		"dotenv": "the importer does not read files of variables; write the variables under env, with secrets as ${{ secrets.NAME }}",
		"tags":   "the importer does not convert tags; write tags: {KEY: VALUE} in the workflow", "labels": "the importer does not convert labels; write tags: {KEY: VALUE} in the workflow", "group": "workflows have no groups; use namespaces",
		"mailon": mail, "mailonerror": mail, "smtp": mail, "errormail": mail, "infomail": mail, "waitmail": mail,
		"maxactivesteps":   "the number of concurrent tasks of one run has no limit here; the slots of the nodes limit all tasks",
		"repeatpolicy":     "a task runs once; loop in the script, or give the workflow a schedule",
		"skipifsuccessful": "a run starts whether or not another one has succeeded", "restartwaitsec": "Skein does not restart runs",
		"retrypolicy":    "Skein does not retry whole runs; write retry in the tasks, or use skein run recover",
		"maxcleanuptime": "write kill_grace in the tasks",
		"maxoutputsize":  "the outputs of a task have at most 64 KiB",
		"logdir":         logs, "logoutput": logs, "stdout": "the output is not written to a file; redirect it in the script. " + logs, "stderr": "the output is not written to a file; redirect it in the script. " + logs,
		"container": container, "registryauths": container, "kubernetes": container,
		"resources": "these resources are for the whole run; write them in each task: resources: {cpu: 1, memory: 1Gi}",
		"secrets":   "the importer does not read secrets from elsewhere; store them with skein secret set, and write ${{ secrets.NAME }} under env",
		"ssh":       "the importer does not convert ssh; write ssh: in the task, or call ssh in the script", "s3": "Skein has no tasks for S3; call aws or rclone in the script",
		"redis": "Skein has no tasks for Redis; call redis-cli in the script", "tools": "Skein installs no tools; install them on the nodes",
		"artifacts": "the folder of a run is not kept; name the files under artifacts of the task", "otel": "a setting of the node exports traces", "runconfig": "Skein does not limit what a person may change at a start",
		"webhook": "a webhook is a trigger here; write triggers: [{webhook: {secret: NAME}}]", "overlappolicy": "without a catch-up window, missed fires are not made up",
		"actions": "the importer does not convert actions; write their commands in the task", "steptypes": "the importer does not convert step types; write their commands in the task",
		"llm": "Skein has no tasks for language models", "harness": "Skein has no tasks for coding agents", "harnesses": "Skein has no tasks for coding agents", "messages": "Skein has no tasks for language models",
		"tasks": "the importer does not convert goals of agents", "outputschema": "Skein does not check the output of a step; check it in the script",
		"dependencies": "Skein does not copy files for a step; name them under files", "inputs": "Skein does not check files of builds", "routes": "the importer does not convert routes; write if", "value": "the importer does not convert routes; write if",
		"shellpackages": "Skein installs no packages; install them on the nodes", "maxcleanuptimesec": "write kill_grace in the tasks",
	}
}

// executorReason returns why a kind of step is not imported.
func executorReason(kind string) string {
	known := map[string]string{
		"docker": "the importer does not convert containers; write container: in the task, or call docker run … in its script",
		"ssh":    "the importer does not convert ssh; write ssh: in the task, or call ssh HOST COMMAND in its script", "ssh.run": "the importer does not convert ssh; write ssh: in the task, or call ssh HOST COMMAND in its script",
		"mail": "the importer does not convert mail; write notify: in the task, or call mail or sendmail in its script", "mail.send": "the importer does not convert mail; write notify: in the task, or call mail or sendmail in its script",
		"jq": "Skein has no tasks for jq; call jq in the script", "jq.filter": "Skein has no tasks for jq; call jq in the script",
	}
	if why, ok := known[kind]; ok {
		return "executor " + kind + ": " + why
	}
	return "executor " + importer.Clip(kind, 40) + ": Skein has no such kind of task; call a program that does the same in the script"
}

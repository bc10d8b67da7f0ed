package dagu

import "skein.dev/skein/internal/importer"

// reasons returns why known keys are dropped. The keys are folded.
func reasons() map[string]string {
	const (
		mail      = "mails are alerts here: make a channel of mail, and write alerts: [{on: [failed], to: CHANNEL}]"
		container = "the importer does not convert containers; write container: in the task, or have the script call docker"
		logs      = "what tasks print is kept: skein logs RUN/TASK"
	)
	return map[string]string{
		"dotenv": "files of variables are not read; write the variables under env, and secrets as ${{ secrets.NAME }} there",
		"tags":   "the importer does not convert tags; write tags: {KEY: VALUE} in the workflow", "labels": "the importer does not convert labels; write tags: {KEY: VALUE} in the workflow", "group": "workflows have no groups; use namespaces",
		"mailon": mail, "mailonerror": mail, "smtp": mail, "errormail": mail, "infomail": mail, "waitmail": mail,
		"maxactivesteps":   "how many tasks of one run go at a time is not limited; the slots of the nodes limit all",
		"repeatpolicy":     "a task ends when it has ended; loop in the script, or give the workflow the trigger again",
		"skipifsuccessful": "a run starts whether or not another one succeeded", "restartwaitsec": "nothing restarts runs",
		"retrypolicy":    "a run is not retried by itself; give the tasks retry, or use skein run recover",
		"maxcleanuptime": "tasks have kill_grace for that",
		"maxoutputsize":  "outputs have a bound of 64 KiB for a task",
		"logdir":         logs, "logoutput": logs, "stdout": "it is not written to a file; redirect it in the script. " + logs, "stderr": "it is not written to a file; redirect it in the script. " + logs,
		"container": container, "registryauths": container, "kubernetes": container,
		"resources": "they are of a whole run; here each task has its own: resources: {cpu: 1, memory: 1Gi}",
		"secrets":   "secrets are not read from there; store them with skein secret set, and write ${{ secrets.NAME }} under env",
		"ssh":       "the importer does not convert ssh; write ssh: in the task, or have the script call ssh", "s3": "Skein has no tasks for S3; have the script call aws or rclone",
		"redis": "Skein has no tasks for Redis; have the script call redis-cli", "tools": "tools are not installed; install them on the nodes",
		"artifacts": "the folder of a run is not kept; name the files under the task's artifacts", "otel": "traces are a matter of the node", "runconfig": "what a person may change at a start is not limited",
		"webhook": "webhooks are triggers here: triggers: [{webhook: {secret: NAME}}]", "overlappolicy": "without a catch-up window nothing is made up for",
		"actions": "actions are not imported; write out what they run", "steptypes": "step types are not imported; write out what they run",
		"llm": "Skein has no tasks for language models", "harness": "Skein has no tasks for coding agents", "harnesses": "Skein has no tasks for coding agents", "messages": "Skein has no tasks for language models",
		"tasks": "goals of agents are not imported", "outputschema": "what a step prints is not checked; check it in the script",
		"dependencies": "files are not copied by step; name them under files", "inputs": "files of builds are not checked", "routes": "routes are not imported; write if", "value": "routes are not imported; write if",
		"shellpackages": "packages are not installed; install them on the nodes", "maxcleanuptimesec": "tasks have kill_grace for that",
	}
}

// executorReason returns why a kind of step is not imported.
func executorReason(kind string) string {
	known := map[string]string{
		"docker": "the importer does not convert containers; write container: in the task, or have it run docker run …",
		"ssh":    "the importer does not convert ssh; write ssh: in the task, or have it run ssh HOST COMMAND", "ssh.run": "the importer does not convert ssh; write ssh: in the task, or have it run ssh HOST COMMAND",
		"mail": "the importer does not convert mail; write notify: in the task, or have it run mail or sendmail", "mail.send": "the importer does not convert mail; write notify: in the task, or have it run mail or sendmail",
		"jq": "there is no such kind of task; have it run jq", "jq.filter": "there is no such kind of task; have it run jq",
	}
	if why, ok := known[kind]; ok {
		return "executor " + kind + ": " + why
	}
	return "executor " + importer.Clip(kind, 40) + ": there is no such kind of task; have it run a program that does the same"
}

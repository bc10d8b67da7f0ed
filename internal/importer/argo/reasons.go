package argo

// reasons returns why known keys are dropped. The keys are folded.
func reasons() map[string]string {
	const (
		pods      = "Skein has no pods; tasks run as processes of a node"
		volumes   = "Skein has no volumes; keep files in a folder that all nodes share"
		artifacts = "artifacts are stored where the setting artifacts says, and are deleted with their run"
		place     = "the importer does not convert placement; write group: NAME or labels: {…}, and start workers with them"
		sync      = "locks and queues belong to runs here; make this template a workflow of its own with locks: [NAME] or queue: NAME, and call it with workflow: NAME"
	)
	out := map[string]string{
		"hooks": "the importer does not convert hooks; add a task with an if about the state of this one", "onexit": "the importer does not convert the exit handler of a task; add a task with if: always()",
		"metrics": "Skein has no metrics that a workflow defines; the server has metrics of its own", "memoize": "results are not reused between runs",
		"ttlstrategy": "retention deletes finished runs; write retention: {age: 90d, runs: 1000}", "synchronization": sync,
		"priority": "a priority is a word here; write for example priority: high",
		"daemon":   "a task ends before the tasks that need it begin; run services outside of the workflow", "sidecars": pods, "initcontainers": pods,
		"retrystrategy": "only containers and scripts are retried; write retry in their tasks", "activedeadlineseconds": "only a task and the whole run have a timeout; write timeout there",
		"timeout": "only a task and the whole run have a timeout; write timeout there", "templatedefaults": "the importer does not convert defaults of templates; write defaults: {retry: …, timeout: …}",
		"target": "a run has all tasks; to begin at one, start it with skein run NAME --from TASK", "failfast": "the importer does not convert this key here", "artifacts": artifacts, "artifactgc": artifacts,
		"artifactrepositoryref": artifacts, "archivelogs": "Skein always keeps logs", "archivelocation": artifacts, "labels": "the importer does not convert labels; write tags: {KEY: VALUE} in the workflow",
		"annotations": "workflows have no annotations", "namespace": "the option --namespace sets the namespace", "when": "the importer does not convert a condition of a schedule; pause the trigger, or decide in the first task",
		"stopstrategy": "a schedule stops at its end only; write end in the trigger", "workflowmetadata": "the importer does not convert labels; write tags: {KEY: VALUE} in the workflow",
		"envfrom": "the importer does not read variables from elsewhere; store them with skein secret set, and write ${{ secrets.NAME }} under env", "ports": pods, "readinessprobe": pods, "livenessprobe": pods,
		"securitycontext": pods, "imagepullpolicy": pods, "lifecycle": pods, "mirrorvolumemounts": volumes,
		"tty": "tasks have no terminal", "stdin": "the standard input of a task is empty", "terminationgraceperiodseconds": "the importer does not convert this time; write kill_grace: 30s", "shutdown": "a run is stopped with skein run stop",
	}
	for _, key := range []string{"volumes", "volumemounts", "volumeclaimtemplates", "volumeclaimgc", "volumedevices"} {
		out[key] = volumes
	}
	for _, key := range []string{"nodeselector", "affinity", "tolerations", "schedulername", "hostnetwork"} {
		out[key] = place
	}
	for _, key := range []string{"podgc", "podspecpatch", "podmetadata", "podpriorityclassname", "poddisruptionbudget", "serviceaccountname", "automountserviceaccounttoken",
		"imagepullsecrets", "dnsconfig", "dnspolicy", "hostaliases", "executor", "executorplugins", "metadata", "resourceclaims"} {
		out[key] = pods
	}
	return out
}

// kindReasons returns why kinds of templates are dropped.
func kindReasons() map[string]string {
	return map[string]string{
		"data":         "the importer does not convert data templates; list the files in a script",
		"plugin":       "Skein does not run plug-ins of Argo; write a script that does the same",
		"containerSet": "Skein has no pods; tasks run as processes of a node; write a task for each container",
	}
}

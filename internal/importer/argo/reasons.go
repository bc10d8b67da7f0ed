package argo

// reasons returns why known keys are dropped. The keys are folded.
func reasons() map[string]string {
	const (
		pods      = "there are no pods: tasks run as processes of a node"
		volumes   = "there are no volumes; leave files in a folder that all nodes see"
		artifacts = "artifacts are kept in a folder of the node, or in one that all nodes share (--artifacts), and are deleted with their run"
		place     = "where a task runs is not imported; write group: NAME or labels: {…}, and start workers with them"
		sync      = "a lock or a queue is passed by whole runs; make this template a workflow of its own with locks: [NAME] or queue: NAME, and call it with workflow: NAME"
	)
	out := map[string]string{
		"hooks": "hooks are not imported; add a task with if over the state of this one", "onexit": "a handler of one task is not imported; add a task with if: always()",
		"metrics": "metrics of a workflow's own are not kept; the server has its own", "memoize": "results are not remembered between runs",
		"ttlstrategy": "finished runs go by retention: {age: 90d, runs: 1000}", "synchronization": sync,
		"priority": "priorities are words here: priority: high",
		"daemon":   "a task ends before what needs it begins; run services outside of the workflow", "sidecars": pods, "initcontainers": pods,
		"retrystrategy": "only containers and scripts are retried; put the retry on their templates", "activedeadlineseconds": "only one task and the whole run have a timeout here",
		"timeout": "only one task and the whole run have a timeout here", "templatedefaults": "defaults of templates are not imported; write defaults: {retry: …, timeout: …}",
		"target": "a run begins with all tasks; skein run NAME --from TASK begins at one", "failfast": "it is not imported here", "artifacts": artifacts, "artifactgc": artifacts,
		"artifactrepositoryref": artifacts, "archivelogs": "logs are kept in any case", "archivelocation": artifacts, "labels": "the importer does not convert labels; write tags: {KEY: VALUE} in the workflow",
		"annotations": "workflows have no annotations", "namespace": "the namespace is that of --namespace", "when": "a condition of a schedule is not imported; pause the trigger, or decide in the first task",
		"stopstrategy": "a schedule does not stop by itself; write end in the trigger", "workflowmetadata": "the importer does not convert labels; write tags: {KEY: VALUE} in the workflow",
		"envfrom": "variables are not read from there; store them with skein secret set, and write ${{ secrets.NAME }} under env", "ports": pods, "readinessprobe": pods, "livenessprobe": pods,
		"securitycontext": pods, "imagepullpolicy": pods, "lifecycle": pods, "mirrorvolumemounts": volumes,
		"tty": "there is no terminal", "stdin": "the input is empty", "terminationgraceperiodseconds": "write kill_grace: 30s", "shutdown": "runs are stopped with skein run stop",
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
		"data":         "data templates are not imported; have a script list the files",
		"plugin":       "plug-ins of Argo do not run here; write a script that does the same",
		"containerSet": "there are no pods: tasks run as processes of a node; write a task for each container",
	}
}

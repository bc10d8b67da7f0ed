package api

// Queue is a named queue of the cluster. It limits the runs and tasks that name the queue.
type Queue struct {
	Name      string  `json:"name" doc:"NAMESPACE/NAME for the queue of a namespace."`
	Namespace *string `json:"namespace,omitempty" doc:"The namespace whose workflows alone can name the queue. It is missing for a queue that all namespaces share."`

	Limit    *int32  `json:"limit" doc:"Most runs that have a place at a time, for each key; null: any number."`
	PerKey   *string `json:"per_key" doc:"CEL over params and trigger.time: each value has places of its own; null: there is one line."`
	Order    string  `json:"order" doc:"fifo or priority."`
	Overflow string  `json:"overflow" doc:"What becomes of a run for which there is no place now: wait, skip or fail."`
	Rate     *string `json:"rate" doc:"Most runs that get a place: N/s, N/m or N/h, of all keys together, spread evenly; null: any number."`
	State    string  `json:"state" doc:"active, paused (no run gets a queue slot, new runs wait) or draining (queued runs are admitted, new ones rejected)."`
	User     *string `json:"user" doc:"The user who paused or drains it."`
	Reason   *string `json:"reason"`
	Until    *Time   `json:"until" format:"date-time" doc:"Then it is active again by itself; null: when somebody resumes it."`
	Held     int64   `json:"held" doc:"Places taken."`
	Waiting  int64   `json:"waiting" doc:"Runs in line."`
	Keys     int64   `json:"keys" doc:"Keys with a run or a task that waits or has a place."`

	Tasks QueueTasks `json:"tasks" doc:"Places for tasks that name the queue: up to the limit, too, and counted apart from those for runs."`

	Revision   int64 `json:"revision"`
	CreatedAt  Time  `json:"created_at" format:"date-time"`
	ModifiedAt Time  `json:"modified_at" format:"date-time"`
}

// QueueTasks counts the tasks that hold or wait for slots of a queue.
type QueueTasks struct {
	Held    int64          `json:"held" doc:"Places taken."`
	Waiting int64          `json:"waiting" doc:"Tasks that wait for a place."`
	Runs    []QueueTasksOf `json:"runs" doc:"By run, the first 100, those with the most places first; empty in a list of queues."`
}

// QueueTasksOf counts the tasks of one run.
type QueueTasksOf struct {
	Run     string   `json:"run"`
	Key     *string  `json:"key" doc:"Of the queue's per_key."`
	Held    int64    `json:"held"`
	Waiting int64    `json:"waiting"`
	Since   *Time    `json:"since" format:"date-time" doc:"Since when it waits for the next place."`
	Running []string `json:"running" doc:"Tasks that run: the first 10, of the first 20 runs."`
	Ready   []string `json:"ready" doc:"Tasks that wait for a place or a slot, likewise."`
}

// QueueRequest is the definition of a queue. A missing field gets its default.
type QueueRequest struct {
	Limit    int32  `json:"limit,omitempty" minimum:"0" maximum:"1000000" doc:"0: any number."`
	PerKey   string `json:"per_key,omitempty" maxLength:"4096"`
	Order    string `json:"order,omitempty" enum:"fifo,priority" doc:"Default: fifo."`
	Overflow string `json:"overflow,omitempty" enum:"wait,skip,fail" doc:"Default: wait."`
	Rate     string `json:"rate,omitempty" maxLength:"20" doc:"N/s, N/m or N/h."`
}

// QueueStateRequest pauses or drains a queue, with the reason and the end.
type QueueStateRequest struct {
	Reason string `json:"reason,omitempty" maxLength:"1000"`
	Until  *Time  `json:"until,omitempty" format:"date-time"`
}

// Lock is a named lock that a run holds.
type Lock struct {
	Name      string  `json:"name"`
	Namespace *string `json:"namespace,omitempty" doc:"The namespace of the lock. It is missing for a lock that several namespaces share."`

	Run   string `json:"run"`
	Token int64  `json:"token" doc:"The value of SKEIN_LOCK_TOKEN for the tasks of the run. Each grant has a greater one."`
	Since Time   `json:"since" format:"date-time"`
}

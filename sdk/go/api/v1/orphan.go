package api

// Orphan is work outside of a process that no run waits for any more.
type Orphan struct {
	Run         string `json:"run" format:"uuid"`
	Workflow    string `json:"workflow" doc:"NAMESPACE/NAME; NAME alone in the namespace default."`
	RunState    string `json:"run_state"`
	Task        string `json:"task"`
	Attempt     int32  `json:"attempt" doc:"The number of the attempt that has named the work."`
	Handle      string `json:"handle" doc:"How the attempt has named the work."`
	Since       Time   `json:"since" format:"date-time" doc:"When its run stopped waiting for the release."`
	Why         string `json:"why" doc:"Why it was not released."`
	Errand      string `json:"errand" format:"uuid" doc:"The run of system/release that tries to end it."`
	ErrandState string `json:"errand_state" doc:"If it is an end, the release is not tried again by itself."`
}

// OrphanRequest is the body of release and dismiss of a task; it may be left out.
type OrphanRequest struct {
	Attempt int32  `json:"attempt,omitempty" minimum:"0" doc:"The number of the attempt; 0 or absent: each attempt of the task that has an orphan."`
	Reason  string `json:"reason,omitempty" maxLength:"1000"`
}

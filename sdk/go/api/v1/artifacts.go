package api

// Artifact is a file that an attempt of a task produced.
type Artifact struct {
	Name    string `json:"name" doc:"Its name in the task's working directory, with slashes."`
	Size    int64  `json:"size" doc:"Bytes."`
	SHA256  string `json:"sha256" doc:"Of its content, in hexadecimal."`
	Attempt int64  `json:"attempt" doc:"The token of the attempt that left it."`
}

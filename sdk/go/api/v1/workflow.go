package api

// Workflow is a named definition.
type Workflow struct {
	Workflow    string  `json:"workflow" doc:"NAME, or NAMESPACE/NAME outside the namespace default."`
	Namespace   string  `json:"namespace"`
	Name        string  `json:"name"`
	State       string  `json:"state" enum:"active,paused,deleted"`
	Version     int32   `json:"version" doc:"The version that new runs get."`
	Latest      int32   `json:"latest" doc:"The newest version. After a rollback, version is an earlier one."`
	Revision    int64   `json:"revision" doc:"+1 at every change; the ETag begins with it, and If-Match takes it."`
	CreatedAt   Time    `json:"created_at" format:"date-time"`
	ModifiedAt  Time    `json:"modified_at" format:"date-time"`
	MaxRuns     *int32  `json:"max_concurrent_runs" doc:"Most of its runs that are active at one time, more wait; null: any number."`
	Tags        Tags    `json:"tags,omitempty" doc:"The tags of its current version, which its new runs get; absent: none."`
	Description *string `json:"description" doc:"null in lists."`
	Tasks       *int    `json:"tasks" doc:"The number of tasks of its current version; null in lists."`
	Params      []Param `json:"params" nullable:"true" doc:"null in lists."`
	Source      *string `json:"source" doc:"The file of the current version; null in lists."`

	Alerts    []AlertRule `json:"alerts" nullable:"true" doc:"The alert rules of its current version; null in lists."`
	Retention *Retention  `json:"retention,omitempty" doc:"Which of its finished runs are kept; absent in lists."`
	Git       *GitOrigin  `json:"git,omitempty" doc:"The git source that its current version comes from; absent in lists, and if it comes from none."`
}

// Retention selects the finished runs that are kept: the newest ones among those that ended within the age.
type Retention struct {
	Age     string `json:"age" doc:"A duration such as 90d; 0s: of any age."`
	Runs    int64  `json:"runs"`
	Default bool   `json:"default" doc:"The workflow has no such key: the value is the setting of the node, or its default."`
}

// Param is a declared parameter.
type Param struct {
	Name        string  `json:"name"`
	Type        string  `json:"type" enum:"string,int,float,bool,json,secret"`
	Format      *string `json:"format"`
	Description *string `json:"description"`
	Required    bool    `json:"required"`
	Default     any     `json:"default"`
	Enum        []any   `json:"enum" nullable:"true"`
}

// Applied is a workflow after PUT. Changed reports whether PUT made a version. It is false if the newest
// version is equal to the request.
type Applied struct {
	Workflow
	Changed bool `json:"changed"`
	// Warnings are reasons why a run of the workflow could not continue at present.
	Warnings []string `json:"warnings" nullable:"false" doc:"For example tasks that fit no worker that is connected now."`
}

// ApplyRequest is a workflow definition with its files. A body of type application/yaml is read as a request
// with only Source.
type ApplyRequest struct {
	Source string `json:"source" doc:"The workflow file, YAML."`
	// File is the name that error texts show.
	File  string `json:"file,omitempty"`
	Files []File `json:"files,omitempty" doc:"The files of the version."`
	// Dir is the absolute path of the file's folder on the machine that applies the file. Tasks run in this
	// folder if their worker can reach it.
	Dir string `json:"dir,omitempty"`
}

// File travels with a version.
type File struct {
	Name string `json:"name" doc:"Slash-separated, relative to the workflow file."`
	Mode uint32 `json:"mode" doc:"Permission bits."`
	Data []byte `json:"data" nullable:"true" doc:"Base64; null in answers of the server, unless the request asks for it."`
	Size int    `json:"size,omitempty"`
}

// Version is one immutable version of a workflow.
type Version struct {
	Workflow  string  `json:"workflow"`
	Namespace string  `json:"namespace"`
	Version   int32   `json:"version"`
	Current   bool    `json:"current" doc:"New runs get it."`
	Digest    string  `json:"digest" doc:"Hex SHA-256 of source, files and folder."`
	User      string  `json:"user"`
	CreatedAt Time    `json:"created_at" format:"date-time"`
	Source    *string `json:"source" doc:"null in lists."`
	Files     []File  `json:"files" nullable:"true" doc:"null in lists."`
	Dir       *string `json:"dir,omitempty" doc:"If include=files asks for it: the folder that the version was applied from, empty over the API."`
}

// RollbackRequest names the version that new runs get.
type RollbackRequest struct {
	Version int32 `json:"version" minimum:"1"`
}

// Validation lists all faults of a file. The list is empty if the file is valid.
type Validation struct {
	Errors []FileError `json:"errors" nullable:"false"`
	Layout *Layout     `json:"layout,omitempty" doc:"If include=layout asks for it: where the tasks of the file are drawn."`
}

package api

// GitSource is a folder of a git repository from which a namespace gets workflows.
type GitSource struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	GitSourceRequest
	Version    int64    `json:"version" doc:"How often it was set, from 1."`
	User       string   `json:"user" doc:"The user who set it last."`
	CreatedAt  Time     `json:"created_at" format:"date-time"`
	ModifiedAt Time     `json:"modified_at" format:"date-time"`
	State      GitState `json:"state"`
}

// GitSourceRequest sets a git source.
type GitSourceRequest struct {
	URL        string `json:"url" doc:"https, http, ssh or file (a folder of the node, only for callers who may write in every namespace); or USER@HOST:PATH."`
	Branch     string `json:"branch,omitempty" doc:"Default: main."`
	Tag        string `json:"tag,omitempty" doc:"In place of a branch."`
	Folder     string `json:"folder,omitempty" doc:"Absent: the whole repository."`
	Every      string `json:"every,omitempty" doc:"Time between two looks, such as 5m; default: 1m."`
	Login      string `json:"login,omitempty" doc:"Of https and http: the name of the user at the server."`
	Password   string `json:"password_secret,omitempty" doc:"Of https and http: the secret with the password or token."`
	Key        string `json:"key_secret,omitempty" doc:"Of ssh: the secret with the private key."`
	KnownHosts string `json:"known_hosts,omitempty" doc:"Of ssh: the keys of the server, as ssh-keyscan prints them."`
	Hook       string `json:"hook_secret,omitempty" doc:"The secret with which the server of the repository signs its webhooks; absent: calls of webhooks are refused."`
	Removed    string `json:"removed,omitempty" enum:"keep,pause,delete" doc:"What happens to workflows whose files were removed; default: pause."`
	Adopt      bool   `json:"adopt,omitempty" doc:"Adopt existing workflows of the same names that come from elsewhere."`
}

// GitState is the result of the last read of a repository.
type GitState struct {
	Seen      *string       `json:"seen" doc:"The commit of the branch at the last look."`
	Applied   *string       `json:"applied" doc:"The commit whose workflows are in force."`
	AppliedAt *Time         `json:"applied_at" format:"date-time"`
	Author    *string       `json:"author" doc:"Of the applied commit."`
	Subject   *string       `json:"subject" doc:"The first line of its message."`
	LookedAt  *Time         `json:"looked_at" format:"date-time"`
	Failing   *GitFailing   `json:"failing,omitempty" doc:"Why the newest commit is not in force; absent: all is well."`
	Workflows []GitWorkflow `json:"workflows" nullable:"false" doc:"The workflows that came from the source."`
}

// GitFailing is the reason why the newest commit of a git source was not applied.
type GitFailing struct {
	Since  Time        `json:"since" format:"date-time"`
	Commit *string     `json:"commit" doc:"The refused commit; null: the repository could not be read."`
	Why    string      `json:"why"`
	Errors []FileError `json:"errors" nullable:"false" doc:"The first faults of the commit, by file and line."`
	More   int         `json:"more" doc:"How many faults are left out."`
}

// GitWorkflow is a workflow that came from a git source.
type GitWorkflow struct {
	Workflow string `json:"workflow"`
	File     string `json:"file" doc:"Its path in the folder of the source."`
	Gone     bool   `json:"gone" doc:"The file was removed."`
}

// GitChange is the change of a workflow by a commit.
type GitChange struct {
	Workflow string  `json:"workflow"`
	File     *string `json:"file" doc:"null: it was removed."`
	Change   string  `json:"change" enum:"created,changed,unchanged,resumed,paused,deleted,kept"`
}

// GitSync is the result of a sync, or of a plan. If the state is failing, nothing was changed.
type GitSync struct {
	Source  GitSource   `json:"source"`
	Changes []GitChange `json:"changes" nullable:"false"`
}

// GitHook is the answer to a webhook of the server of a repository.
type GitHook struct {
	Looks bool `json:"looks" doc:"A node looks at the repository soon; false: the call is about another branch or tag."`
}

// GitOrigin is the place of a workflow in a git repository.
type GitOrigin struct {
	Source string `json:"source" doc:"The name of the git source, in the namespace of the workflow."`
	Commit string `json:"commit" doc:"The commit with which the version came."`
	File   string `json:"file" doc:"The path of the file in the folder of the source."`
}

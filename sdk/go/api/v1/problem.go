package api

import "strings"

// Problem is an error in the form of RFC 9457. Code and Type are stable: programs compare one of them. Detail
// is for people.
type Problem struct {
	Type     string `json:"type" format:"uri-reference" doc:"Stable: /problems/KIND, the code with hyphens."`
	Code     string `json:"code" doc:"Stable: what programs compare. The page errors.md of the documentation lists all codes."`
	Title    string `json:"title"`
	Status   int    `json:"status"`
	Detail   string `json:"detail"`
	Instance string `json:"instance,omitempty" doc:"The path that was asked."`
	// About and Args are Detail for clients in other languages.
	About  string            `json:"about,omitempty" doc:"Stable: which sentence detail is. Absent: one without a code. The page errors.md of the documentation lists all."`
	Args   map[string]string `json:"args,omitempty" doc:"The values in this sentence."`
	Errors []FileError       `json:"errors,omitempty" doc:"Every fault of a file, or of the request's fields."`
}

// Error makes a problem an error.
func (p *Problem) Error() string {
	if p.Detail != "" {
		return p.Detail
	}
	return p.Title
}

// FileError is one fault, of a file or of a field of the request. For a file it has the place, counted from
// 1. For a field, line and column are 1, and Key is the path of the field.
type FileError struct {
	File    string `json:"file"`
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Key     string `json:"key"`
	Message string `json:"message"`
	Hint    string `json:"hint"`
	Snippet string `json:"snippet,omitempty" doc:"The line at fault with a caret below."`
}

// NewProblem returns a problem of one of the types below, with the code and the title of the type.
func NewProblem(kind string, status int, detail string) Problem {
	return Problem{Type: kind, Code: CodeOf(kind), Title: titleOf(kind), Status: status, Detail: detail}
}

const problemPath = "/problems/"

// CodeOf returns the code of a problem's type. It returns "" for a type that this API does not have.
func CodeOf(kind string) string {
	name, ours := strings.CutPrefix(kind, problemPath)
	if !ours {
		return ""
	}
	return strings.ReplaceAll(name, "-", "_")
}

func titleOf(kind string) string {
	for i := range problemKinds {
		if problemKinds[i].Type == kind {
			return problemKinds[i].Title
		}
	}
	return ""
}

// Problem types, to be compared with Problem.Type.
const (
	ProblemNotFound        = "/problems/not-found"
	ProblemInvalid         = "/problems/invalid"
	ProblemNothing         = "/problems/nothing-to-do"
	ProblemInvalidWorkflow = "/problems/invalid-workflow"
	ProblemInvalidParams   = "/problems/invalid-params"
	ProblemConflict        = "/problems/conflict"
	ProblemIdempotency     = "/problems/idempotency-conflict"
	ProblemPrecondition    = "/problems/precondition-failed"
	ProblemBusy            = "/problems/busy"
	ProblemQuota           = "/problems/quota-exceeded"
	ProblemUnavailable     = "/problems/unavailable"
	ProblemSecretKey       = "/problems/secret-key"
	ProblemFull            = "/problems/storage-full"
	ProblemTooLarge        = "/problems/too-large"
	ProblemMediaType       = "/problems/unsupported-media-type"
	ProblemMethod          = "/problems/method-not-allowed"
	ProblemRange           = "/problems/range-not-satisfiable"
	ProblemForeignHost     = "/problems/foreign-host"
	ProblemForeignOrigin   = "/problems/foreign-origin"
	ProblemNotAllowed      = "/problems/not-allowed"
	ProblemFourEyes        = "/problems/four-eyes"
	ProblemSignature       = "/problems/bad-signature"
	ProblemUnauthenticated = "/problems/unauthenticated"
	ProblemForbidden       = "/problems/forbidden"
	ProblemSignInAway      = "/problems/sign-in-provider-away"
	ProblemSignInStale     = "/problems/sign-in-stale"
	ProblemSignInDenied    = "/problems/sign-in-denied"
	ProblemSignInIssuer    = "/problems/sign-in-other-issuer"
	ProblemSignInToken     = "/problems/sign-in-bad-token"
	ProblemSignInGroup     = "/problems/sign-in-outside-group"
	ProblemSignInWeak      = "/problems/sign-in-too-weak"
	ProblemSignInName      = "/problems/sign-in-no-name"
	ProblemSignInDisabled  = "/problems/sign-in-disabled"
	ProblemDamaged         = "/problems/damaged"
	ProblemInternal        = "/problems/internal"
)

// ProblemKind is the documentation of one type of problem.
type ProblemKind struct {
	Type    string // one of the constants
	Status  []int  // HTTP statuses with which the type occurs
	Title   string // the title of every problem of this type
	Meaning string
	Remedy  string
}

// ProblemKinds returns all types of problems, in the order of the documentation.
func ProblemKinds() []ProblemKind { return append([]ProblemKind(nil), problemKinds...) }

var problemKinds = []ProblemKind{
	{ProblemInvalid, []int{400, 408, 422}, "The request is not valid",
		"A parameter, a header or a field of the body is wrong, or the body did not arrive as its header says.",
		"Correct what `detail` and `errors` name, and send the request again."},
	{ProblemInvalidWorkflow, []int{422}, "The workflow file is not valid",
		"The workflow file has faults. `errors` lists all of them with line, column and hint.",
		"Correct the file. `skein validate FILE` shows the same faults without a server."},
	{ProblemInvalidParams, []int{422}, "The parameters are not valid",
		"The parameters of a run do not match those that the workflow declares.",
		"Send the parameters that `skein workflow get NAME` shows."},
	{ProblemNothing, []int{422}, "There is nothing to do",
		"The request is right, but it selects nothing, such as a backfill whose interval holds no instant.",
		"Choose another interval or filter. A script may treat this as success."},
	{ProblemNotFound, []int{404}, "Not found",
		"The server has no object of this name or id, or the caller may not see it.",
		"Check the name and the namespace. Retention may have deleted an old run."},
	{ProblemConflict, []int{409}, "The current state does not allow this",
		"The object exists, but its state does not allow the request, such as stopping a run that has ended.",
		"Read the object again, and decide by its state."},
	{ProblemIdempotency, []int{409}, "The idempotency key belongs to another request",
		"A different request used the same idempotency key before.",
		"Use a new key for a new request, and repeat a request without changes."},
	{ProblemPrecondition, []int{412}, "The object has changed",
		"The object is not in the revision that `If-Match` or `If-None-Match` names.",
		"Read the object again, make your change to what you read, and send its new `ETag`."},
	{ProblemBusy, []int{429}, "Too many requests",
		"The server, or the caller's share of it, has reached a limit of requests that run at once.",
		"Wait for the seconds of `Retry-After`, and send the request again."},
	{ProblemQuota, []int{422, 429}, "A quota of the namespace is used up",
		"The namespace uses all that a quota allows. `detail` names the quota, its number and the namespace.",
		"Wait until runs have ended, or for the seconds of `Retry-After`. `skein namespace list` shows the quotas; `skein namespace set` changes them."},
	{ProblemUnavailable, []int{503}, "The server cannot do this now",
		"The node is stopping, the database does not answer, or the shard of the run has no owner now.",
		"Send the request again after `Retry-After`; a POST with the same idempotency key. `skein doctor` finds a lasting cause."},
	{ProblemSecretKey, []int{503}, "The node lacks the key of the secrets",
		"Secrets are sealed with a key that this node does not have: the file is missing, or holds another key.",
		"Give the node the key file that `detail` names: `--secret-key-file FILE`. `skein doctor` tells which key it lacks."},
	{ProblemFull, []int{507}, "The disk is full",
		"The disk of the database or of the data folder has no room, so the server writes nothing new.",
		"Free space on the disk, or shorten the retention. The server continues by itself."},
	{ProblemTooLarge, []int{413}, "The request is too large",
		"The body, or what the request asks for, is above its limit.",
		"Send less at once. `detail` names the limit."},
	{ProblemMediaType, []int{415}, "The media type is not supported",
		"The `Content-Type` of the body is missing, or the route does not take it.",
		"Send the `Content-Type` that `detail` names."},
	{ProblemMethod, []int{405}, "The method is not allowed",
		"The route does not have this method.",
		"Use a method of the header `Allow`."},
	{ProblemRange, []int{416}, "The range is outside of the content",
		"The bytes that `Range` asks for do not exist.",
		"Ask for a range within the size that `Content-Range` names."},
	{ProblemUnauthenticated, []int{401}, "Not signed in",
		"The call shows no valid credential: the token is missing, unknown, expired or revoked.",
		"Show a valid token: `--token-file FILE`. `skein token list` shows which tokens exist."},
	{ProblemForbidden, []int{403}, "Permission denied",
		"The caller is known, but has no permission for this call.",
		"Ask an administrator for the verb that `detail` names."},
	{ProblemSignInAway, []int{503}, "The identity provider does not answer",
		"The server cannot reach the identity provider, cannot use its answers, or lacks a setting for it.",
		"Try again, or sign in with a local account. `skein doctor` checks each provider."},
	{ProblemSignInStale, []int{400}, "The sign-in is not one of this browser",
		"The answer of the identity provider belongs to no sign-in that this browser has begun, or came too late.",
		"Sign in again, at the address of `public_url`, and allow cookies."},
	{ProblemSignInDenied, []int{401}, "The identity provider refuses the sign-in",
		"The person cancelled, the provider does not know the person, or the code of the answer was used before.",
		"Sign in again. `detail` has the code of the provider."},
	{ProblemSignInIssuer, []int{401}, "Another identity provider has answered",
		"The answer names another issuer than the provider at which the sign-in began.",
		"Sign in again. If it happens again, check `issuer` in the setting `auth`."},
	{ProblemSignInToken, []int{401}, "The ID token is not valid",
		"The signature, the issuer, the audience, the time, the nonce or a claim of the ID token is wrong.",
		"The log line `sign_in_refused` has the reason. Check the clocks, `client_id` and `groups_claim`."},
	{ProblemSignInGroup, []int{403}, "The account is not in the required group",
		"The identity provider does not list the person in the group of `require_group`.",
		"Ask the administrators of the identity provider."},
	{ProblemSignInWeak, []int{403}, "The sign-in at the identity provider is too weak or too old",
		"The ID token lacks a level, a method or a time that `require_acr`, `require_amr` or `max_age` requires.",
		"Sign in at the provider again, with a second factor. `detail` says what is missing."},
	{ProblemSignInName, []int{409}, "The account has no free name",
		"The names that the identity provider gives are taken by other users, or cannot be names.",
		"Delete the user that has the name, or correct the name at the provider."},
	{ProblemSignInDisabled, []int{403}, "The user is disabled",
		"An administrator has disabled the user of this account.",
		"Ask an administrator: `skein user enable NAME`."},
	{ProblemNotAllowed, []int{403}, "Not an approver of this task",
		"The task is approved by other people or groups.",
		"Ask one of the approvers that `detail` names."},
	{ProblemFourEyes, []int{403}, "The starter of the run may not decide",
		"The approval has `four_eyes`, and the caller started the run, or cannot be told apart from the person who did.",
		"Ask another approver: a person who neither started the run nor has made a token for it."},
	{ProblemSignature, []int{401}, "The signature is not valid",
		"The call of a webhook is not signed with its secret, is too old, or came to another trigger before.",
		"Check the secret and the clock of the caller, and give each webhook a secret of its own."},
	{ProblemForeignHost, []int{421}, "The host is not of this server",
		"The header `Host` has a name that the server does not answer for. This protects browsers from DNS rebinding.",
		"Call the server by its address, or set `advertise` to the name."},
	{ProblemForeignOrigin, []int{403}, "The origin is not of this server",
		"A page of another site sent the request from a browser.",
		"Call the API from the server's own page, or from a program."},
	{ProblemDamaged, []int{500}, "Stored data are damaged",
		"The server cannot read a row or a file that it stored.",
		"Run `skein verify`, and restore a backup if it finds damage."},
	{ProblemInternal, []int{500}, "Internal error",
		"The server has met a bug.",
		"Report it with the line of the server's log."},
}

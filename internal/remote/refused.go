package remote

import (
	"crypto/x509"
	"errors"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"

	"skein.dev/skein/sdk/shared/session"
)

// refusedTell is the least time between two log lines about the same refusal.
const refusedTell = time.Minute

// refusal limits the log lines about failed attachments. Only one goroutine uses it.
type refusal struct {
	told time.Time
	said string // the remedy in the last line
}

// refused logs that no node accepts this worker. If a person can do something, it logs at once, and otherwise
// after a while (lasting). Then it logs at most once in refusedTell. If the token was refused, it reads the
// token again, because the file may have a newer token.
func (r *Worker) refused(f *refusal, err error, lasting bool) {
	remedy := r.remedy(err)
	switch {
	case remedy == "" && !lasting:
	case remedy == f.said && time.Since(f.told) < refusedTell:
	case remedy == "":
		r.log.Warn("no node accepts this worker yet; the worker tries again", "code", "worker_not_attached", "err", err)
		f.said, f.told = remedy, time.Now()
	default:
		r.log.Warn("no node accepts this worker; the worker tries again", "code", "worker_refused", "err", err, "remedy", remedy)
		f.said, f.told = remedy, time.Now()
	}
	if r.cfg.Renewed != nil && isRefused(err) {
		if token, err := r.cfg.Renewed(); err == nil && token != "" {
			r.token.Store(&token)
		}
	}
}

func isRefused(err error) bool {
	return hasCode(err, connect.CodeUnauthenticated) || hasCode(err, connect.CodePermissionDenied)
}

// hasCode reports whether one of the nodes answered with a code.
func hasCode(err error, code connect.Code) bool {
	if joined, several := err.(interface{ Unwrap() []error }); several {
		for _, e := range joined.Unwrap() {
			if hasCode(e, code) {
				return true
			}
		}
		return false
	}
	return connect.CodeOf(err) == code
}

// remedy returns the remedy for an error of attaching. It returns "" if a person can only wait.
func (r *Worker) remedy(err error) string {
	how := "make one where the cluster runs: skein token create --kind worker --name " + r.cfg.Name + " --out FILE; then start this worker with --token-file FILE, or with the token in SKEIN_API_TOKEN"
	if r.cfg.Renewed != nil {
		how = "make one where the cluster runs, skein token create --kind worker --name " + r.cfg.Name + " --out FILE, and put it in place of the token file, which is read again at every try"
	}
	switch session.Reason(err) {
	case session.NameHeld:
		return "nothing, if this worker was started again: the name is its own when the one before counts as gone; else give one of the two another name with --name"
	case session.TooMany:
		return "raise the limit that the error names where the nodes are started, or start fewer workers or slots"
	}
	var unknown x509.UnknownAuthorityError
	switch {
	case r.cfg.Certified && hasCode(err, connect.CodeUnauthenticated):
		return "the nodes refuse the certificate of this worker: make an invitation where the cluster runs, skein worker invite " + r.cfg.Name + ", and run the command that it prints here"
	case r.cfg.Certified && hasCode(err, connect.CodePermissionDenied):
		return "start the worker as it was invited, or invite it again: skein worker invite " + r.cfg.Name
	case hasCode(err, connect.CodeUnauthenticated) && *r.token.Load() == "":
		return "the nodes ask for a token of the kind worker: " + how
	case hasCode(err, connect.CodeUnauthenticated):
		return "the token is unknown to the nodes, revoked or expired: " + how
	case hasCode(err, connect.CodePermissionDenied):
		return "the token is not of the kind worker: " + how
	case errors.As(err, &unknown):
		return "the authority that signed the node's certificate is not known here: name it with --ca-cert FILE"
	case errors.Is(err, http.ErrSchemeMismatch) || strings.Contains(err.Error(), http.ErrSchemeMismatch.Error()):
		return "the node speaks no TLS: its address begins with http://"
	case strings.Contains(err.Error(), "http://") && strings.Contains(err.Error(), "400 Bad Request"):
		return "if the node speaks TLS its address begins with https://"
	}
	return ""
}

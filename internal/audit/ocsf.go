package audit

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"

	"skein.dev/skein/internal/store"
)

// ocsfVersion is the version of the Open Cybersecurity Schema Framework whose names WriteOCSF uses:
// https://schema.ocsf.io/1.1.0.
const ocsfVersion = "1.1.0"

// ocsfKind is the class of an event, and its activity within the class.
type ocsfKind struct {
	class    int
	name     string
	activity int
	does     string
}

// ocsfActions are the kinds of actions that are not calls of the class API Activity.
var ocsfActions = map[string]ocsfKind{
	"sign-in-by-provider":                {3002, "Authentication", 1, "Logon"},
	"sign-out-by-provider":               {3002, "Authentication", 2, "Logoff"},
	"sign-in":                            {3002, "Authentication", 1, "Logon"},
	"POST /api/v1/session":               {3002, "Authentication", 1, "Logon"},
	"GET /auth/{name}/callback":          {3002, "Authentication", 1, "Logon"},
	"sign-out":                           {3002, "Authentication", 2, "Logoff"},
	"end-session":                        {3002, "Authentication", 2, "Logoff"},
	"create-user":                        {3001, "Account Change", 1, "Create"},
	"enable-user":                        {3001, "Account Change", 2, "Enable"},
	"change-password":                    {3001, "Account Change", 3, "Password Change"},
	"disable-user":                       {3001, "Account Change", 5, "Disable"},
	"delete-user":                        {3001, "Account Change", 6, "Delete"},
	"POST /api/v1/users":                 {3001, "Account Change", 1, "Create"},
	"POST /api/v1/users/{name}:enable":   {3001, "Account Change", 2, "Enable"},
	"POST /api/v1/users/{name}:password": {3001, "Account Change", 3, "Password Change"},
	"POST /api/v1/users/{name}:disable":  {3001, "Account Change", 5, "Disable"},
	"DELETE /api/v1/users/{name}":        {3001, "Account Change", 6, "Delete"},
}

// ocsfCalls are the activities of API Activity by the first word of an action: the method of a counted call,
// or the verb of an operation. All others are updates.
var ocsfCalls = map[string]ocsfKind{
	"GET": {activity: 2, does: "Read"}, "HEAD": {activity: 2, does: "Read"}, "DELETE": {activity: 4, does: "Delete"},
	"create": {activity: 1, does: "Create"}, "start": {activity: 1, does: "Create"}, "add": {activity: 1, does: "Create"}, "make": {activity: 1, does: "Create"},
	"delete": {activity: 4, does: "Delete"}, "revoke": {activity: 4, does: "Delete"},
	"POST": {activity: 99, does: "Other"}, "other": {activity: 99, does: "Other"},
}

func ocsfKindOf(r *store.Audit) ocsfKind {
	if is, ok := ocsfActions[r.Action]; ok {
		return is
	}
	word := r.Action
	if i := strings.IndexAny(word, " -"); i > 0 {
		word = word[:i]
	}
	is, ok := ocsfCalls[word]
	if !ok {
		is = ocsfKind{activity: 3, does: "Update"}
	}
	is.class, is.name = 6003, "API Activity"
	return is
}

// ocsfUser is the object user of OCSF.
type ocsfUser struct {
	Name   string `json:"name"`
	TypeID int    `json:"type_id"`
	Type   string `json:"type"`
}

func ocsfUserOf(name, kind string) ocsfUser {
	switch {
	case name == "":
		return ocsfUser{"unknown", 0, "Unknown"}
	case kind == store.PrincipalUser:
		return ocsfUser{name, 1, "User"}
	}
	return ocsfUser{name, 3, "System"}
}

// object is an object of JSON.
type object = map[string]any

// ocsf returns the event of a row.
func ocsf(r *store.Audit) object {
	is, ms := ocsfKindOf(r), func(at int64) int64 { return at / 1000 }
	category, categoryName := is.class/1000, "Application Activity"
	if category == 3 {
		categoryName = "Identity & Access Management"
	}
	actor := object{"user": ocsfUserOf(r.Principal, r.Kind)}
	if r.Session != 0 {
		actor["session"] = object{"uid": fmt.Sprint(r.Session)}
	}
	source := object{"name": r.Address}
	if _, err := netip.ParseAddr(r.Address); err == nil {
		source = object{"ip": r.Address}
	}
	e := object{
		"class_uid": is.class, "class_name": is.name, "category_uid": category, "category_name": categoryName,
		"activity_id": is.activity, "activity_name": is.does, "type_uid": is.class*100 + is.activity,
		"time": ms(int64(r.At)), "start_time": ms(int64(r.At)), "end_time": ms(int64(r.Last)), "count": r.Count,
		"severity_id": 1, "severity": "Informational", "status_id": 1, "status": "Success",
		"metadata": object{"version": ocsfVersion, "product": object{"name": "Skein", "vendor_name": "Skein"}, "log_name": "audit",
			"uid": r.Key.String(), "sequence": r.Index},
		"actor": actor, "src_endpoint": source,
		"unmapped": object{"verb": r.Verb, "namespace": r.Namespace, "token": r.Token, "outcome": r.Outcome, "kind": r.Kind},
	}
	if r.Outcome == store.AuditRefused {
		e["severity_id"], e["severity"], e["status_id"], e["status"] = 2, "Low", 2, "Failure"
	}
	if r.Detail != "" {
		e["message"] = r.Detail
	}
	switch is.class {
	case 3002:
		e["user"], e["service"] = ocsfUserOf(r.Principal, r.Kind), object{"name": "skein"}
	case 3001:
		name, _, _ := strings.Cut(strings.TrimPrefix(r.Object, "/users/"), ":")
		if name == r.Object { // the object is the list, and the name is in the detail: user NAME
			name, _, _ = strings.Cut(strings.TrimPrefix(r.Detail, "user "), ",")
		}
		e["user"] = ocsfUserOf(name, store.PrincipalUser)
	default:
		e["api"] = object{"operation": r.Action, "request": object{"uid": r.Request}, "service": object{"name": "skein"}}
		if r.Object != "" {
			e["resources"] = []object{{"name": r.Object, "namespace": r.Namespace}}
		}
	}
	return e
}

// WriteOCSF reads an export and writes each of its rows as one line of JSON, an event of OCSF. The first line
// of the export, the state of the tree, is no event.
func WriteOCSF(from io.Reader, to io.Writer) error {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, lineBytesMax)
	var h Head
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &h) != nil || h.Format != leafFormat {
		return errors.Join(fmt.Errorf("%w: the first line is not the state of a tree", ErrExport), lines.Err())
	}
	w := bufio.NewWriter(to)
	out := json.NewEncoder(w)
	for n := 2; lines.Scan(); n++ {
		var r store.Audit
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return fmt.Errorf("%w: line %d: %w", ErrExport, n, err)
		}
		if err := out.Encode(ocsf(&r)); err != nil {
			return err
		}
	}
	return errors.Join(lines.Err(), w.Flush())
}

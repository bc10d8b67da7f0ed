package trigger

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/workflow"
)

// Bounds of a call to a webhook.
const (
	HookBytesMax       = 1 << 20
	hookAge            = 5 * time.Minute // bound of the age of a signature, in both directions
	hookHeaderBytesMax = 16 << 10        // bounds the headers in the event of a filter and in trigger.event
	// HookKeysMax bounds the secrets that are valid for one webhook at a time.
	HookKeysMax       = 3
	hookSignaturesMax = 8 // bounds the signatures in one header, which has several while a secret is being replaced
)

// The reasons for which a call is refused.
var (
	// ErrSignature means that the call has no signature, or that none of the webhook's secrets made it.
	ErrSignature = errors.New("the signature is not valid")
	// ErrStale means that the call was signed too long ago, or in the future.
	ErrStale = errors.New("the call is too old")
	// ErrTooLarge means that the body is larger than HookBytesMax.
	ErrTooLarge = fmt.Errorf("the body is larger than %d bytes", HookBytesMax)
	// ErrFiltered means that the signature is valid, but the filter, the start or the end of the trigger
	// refuses the call. Such a call is no fire and has no line in the ledger, because otherwise a holder of
	// the secret could fill the ledger. Verified.Seen identifies the call.
	ErrFiltered = errors.New("the trigger refuses this call")
	// ErrFilter means that the signature is valid, but the filter cannot be evaluated for the call.
	ErrFilter = errors.New("the filter cannot be evaluated")
)

// Call is a call to a webhook. The names in Header are canonical, as in net/http.
type Call struct {
	Header map[string][]string
	Query  map[string][]string
	Body   []byte
	Target string // NAMESPACE/WORKFLOW/TRIGGER and, if the call has a query, a question mark and the unchanged query
}

// Verified is the event of a call with a valid signature.
type Verified struct {
	engine.Occurrence
	Form string // the form of the signature
}

// VerifyHook checks that a call is genuine, recent and not refused by the trigger, and makes an event of it.
// It accepts these signatures:
//
//	X-Skein-Signature: t=UNIX,id=ID,v3=HEX      HMAC-SHA256 over "v3:" UNIX ":" ID ":" TARGET "\n" BODY
//	Webhook-Id, -Timestamp, -Signature          Standard Webhooks: HMAC-SHA256 over ID "." UNIX "." BODY
//	X-Skein-Signature: t=UNIX,v1=HEX            HMAC-SHA256 over UNIX "." BODY
//	X-Skein-Signature: t=UNIX,id=ID,v2=HEX      HMAC-SHA256 over "v2:" UNIX ":" ID ":" BODY
//	X-Hub-Signature-256: sha256=HEX             HMAC-SHA256 over BODY, which is JSON or a form
//
// The event has the signed parts: the body, and with v3 also the query. Of the unsigned values it has only
// those that the trigger names as unsigned.
//
// The event's key is a hash of the signed bytes. Headers such as X-GitHub-Delivery are not signed. If such a
// header were the key, a recorded call that is sent again with another header would fire twice. So in
// GitHub's form, two calls with the same body are one event, and in the form v1, two calls with the same body
// and second. In the other forms, the sender gives the event an ID, and sends a call that was not answered
// again with the same ID.
//
// Only v3 signs which trigger is meant, and the filter may look at unsigned values. So each call that fires
// or is filtered is remembered under its secret (Occurrence.Seen), and fires nothing else.
//
// A call may be signed with any of the first HookKeysMax keys: while a sender changes to a new secret,
// several keys are valid.
func VerifyHook(t *workflow.Trigger, keys [][]byte, call Call, now dag.Micros) (Verified, error) {
	none := Verified{}
	switch {
	case t.Webhook == nil:
		return none, fmt.Errorf("trigger %s is not a webhook", t.Name)
	case len(call.Body) > HookBytesMax:
		return none, ErrTooLarge
	}
	p, secret, err := proveAny(keys, &call, now)
	if err != nil {
		return none, err
	}
	none.Form = p.form
	none.Seen.Scope, none.Seen.Key = p.seen(secret)
	d := declared{Trigger: t}
	if out, _, err := d.outside(now); err != nil {
		return none, err
	} else if out {
		return none, fmt.Errorf("%w: the call is before the trigger's start or after its end", ErrFiltered)
	}
	event := call.event(p.form == FormV3, t.Webhook.Unsigned)
	passes, err := t.Webhook.Passes(event)
	switch {
	case err != nil:
		return none, fmt.Errorf("%w: %w; it sees only signed parts (the query, with v3), and the headers and parameters that the trigger lists in unsigned", ErrFilter, err)
	case !passes:
		return none, fmt.Errorf("%w: the filter of the trigger is false for this call", ErrFiltered)
	}
	none.Key, none.Event, none.Reason = p.key, event, store.Because("webhook")
	return none, nil
}

func first(m map[string][]string, name string) string {
	if v := m[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// event returns the value that the filter knows as event, and params as trigger.event. body is the value of a
// JSON body, or the text of any other body. headers and query have the first value of each name. Names of
// headers are in lower case. The event has only signed data, and the data that the trigger lists in unsigned.
// Credentials are removed, because they would become part of the parameters of runs.
func (c *Call) event(query bool, unsigned []string) json.RawMessage {
	e := struct {
		Body    any               `json:"body"`
		Headers map[string]string `json:"headers"`
		Query   map[string]string `json:"query"`
	}{Headers: map[string]string{}, Query: map[string]string{}}
	switch {
	case json.Valid(c.Body) && utf8.Valid(c.Body):
		e.Body = json.RawMessage(c.Body)
	default:
		e.Body = strings.ToValidUTF8(string(c.Body), "\uFFFD")
	}
	size := 0
	for name, values := range c.Header {
		lower := strings.ToLower(name)
		if slices.Contains(proofs, lower) || !slices.Contains(unsigned, "headers."+lower) {
			continue
		}
		if len(values) > 0 {
			size += len(name) + len(values[0])
			e.Headers[lower] = strings.ToValidUTF8(values[0], "\uFFFD")
		}
	}
	if size > hookHeaderBytesMax {
		e.Headers = map[string]string{}
	}
	for name, values := range c.Query {
		if len(values) > 0 && (query || slices.Contains(unsigned, "query."+name)) {
			e.Query[strings.ToValidUTF8(name, "\uFFFD")] = strings.ToValidUTF8(values[0], "\uFFFD")
		}
	}
	return encode(e)
}

// proofs are the headers that contain credentials or signatures of the caller.
var proofs = []string{"authorization", "cookie", "proxy-authorization", "x-skein-signature", "x-hub-signature-256", "x-hub-signature", "webhook-signature"}

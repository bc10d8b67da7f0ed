package trigger

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/workflow"
)

// Bounds of a call to a webhook.
const (
	HookBytesMax       = 1 << 20
	hookAge            = 5 * time.Minute // of the time in a signature, in both directions
	hookHeaderBytesMax = 16 << 10        // of the headers that a filter and trigger.event see
	hookSignaturesMax  = 8               // in one header, while a secret is exchanged
)

// The kinds of refusal of a call.
var (
	// ErrSignature: it is not signed, or not with this secret.
	ErrSignature = errors.New("the signature does not hold")
	// ErrStale: it was signed too long ago, or in the future.
	ErrStale = errors.New("the call is too old")
	// ErrTooLarge: the body is larger than HookBytesMax.
	ErrTooLarge = fmt.Errorf("the body is larger than %d bytes", HookBytesMax)
	// ErrFiltered: it is genuine, but the trigger's filter, start or end says no. It is no
	// fire and is not recorded: whoever holds the secret could otherwise fill the ledger.
	ErrFiltered = errors.New("the trigger does not take this call")
	// ErrFilter: it is genuine, but the filter cannot be evaluated over it.
	ErrFilter = errors.New("the filter cannot be evaluated")
)

// Call is a call to a webhook. Names in Header are canonical, as net/http has them.
type Call struct {
	Header map[string][]string
	Query  map[string][]string
	Body   []byte
}

// VerifyHook checks that a call is genuine and meant, and makes an event of it. It takes
//
//	X-Skein-Signature: t=UNIX,v1=HEX            HMAC-SHA256 over UNIX "." BODY
//	X-Skein-Signature: t=UNIX,id=ID,v2=HEX      HMAC-SHA256 over "v2:" UNIX ":" ID ":" BODY
//	X-Hub-Signature-256: sha256=HEX             HMAC-SHA256 over BODY, which is JSON or a form
//
// The event's key is made of signed bytes only. Headers such as X-GitHub-Delivery are not
// signed, so a recorded call sent again under a fresh one would fire twice if it named the
// event; the key is a hash of what was signed instead. That makes two calls of GitHub's
// form with the same body one event, and of v1 two with the same body and second. A sender
// that repeats what was not answered names the event itself with v2.
func VerifyHook(t *workflow.Trigger, secret []byte, call Call, now dag.Micros) (engine.Occurrence, error) {
	none := engine.Occurrence{}
	switch {
	case t.Webhook == nil:
		return none, fmt.Errorf("trigger %s is not a webhook", t.Name)
	case len(call.Body) > HookBytesMax:
		return none, ErrTooLarge
	case len(secret) == 0:
		return none, fmt.Errorf("%w: the secret %s is empty", ErrSignature, t.Webhook.Secret)
	}
	key, err := signedKey(secret, &call, now)
	if err != nil {
		return none, err
	}
	d := declared{Trigger: t}
	if out, _, err := d.outside(now); err != nil {
		return none, err
	} else if out {
		return none, fmt.Errorf("%w: it lies outside of start and end", ErrFiltered)
	}
	event := call.event()
	passes, err := t.Webhook.Passes(event)
	switch {
	case err != nil:
		return none, fmt.Errorf("%w: %w", ErrFilter, err)
	case !passes:
		return none, fmt.Errorf("%w: its filter does not hold", ErrFiltered)
	}
	return engine.Occurrence{Key: key, Event: event, Reason: "a signed call"}, nil
}

// signedKey checks the signature and gives the key of what it signs.
func signedKey(secret []byte, call *Call, now dag.Micros) (string, error) {
	if text := first(call.Header, "X-Skein-Signature"); text != "" {
		return skeinKey(secret, text, call.Body, now)
	}
	text, ok := strings.CutPrefix(first(call.Header, "X-Hub-Signature-256"), "sha256=")
	if !ok {
		return "", fmt.Errorf("%w: the call has no X-Skein-Signature and no X-Hub-Signature-256", ErrSignature)
	}
	// Without this, what was signed in the other form, its time included, would pass here as
	// a body at any later time.
	if !json.Valid(call.Body) && !strings.HasPrefix(string(call.Body), "payload=") {
		return "", fmt.Errorf("%w: a body under X-Hub-Signature-256 is JSON, or a form with payload", ErrSignature)
	}
	if !signs(secret, call.Body, text) {
		return "", fmt.Errorf("%w: X-Hub-Signature-256", ErrSignature)
	}
	return hookKey(call.Body), nil
}

var eventID = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,100}$`)

func skeinKey(secret []byte, text string, body []byte, now dag.Micros) (string, error) {
	var stamp, id string
	var v1, v2 []string
	for _, part := range strings.Split(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch name {
		case "t":
			stamp = value
		case "id":
			id = value
		case "v1":
			v1 = append(v1, value)
		case "v2":
			v2 = append(v2, value)
		}
	}
	at, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || strconv.FormatInt(at, 10) != stamp || at < 0 || len(v1)+len(v2) > hookSignaturesMax {
		return "", fmt.Errorf("%w: X-Skein-Signature reads t=UNIX,v1=HEX", ErrSignature)
	}
	key, given := "", v1
	signed := append([]byte(stamp+"."), body...)
	if id != "" || len(v2) > 0 {
		if !eventID.MatchString(id) {
			return "", fmt.Errorf("%w: X-Skein-Signature with v2 reads t=UNIX,id=ID,v2=HEX; an id has up to 100 letters, digits, _ . -", ErrSignature)
		}
		key, given = "id/"+id, v2
		signed = append([]byte("v2:"+stamp+":"+id+":"), body...)
	}
	good := false
	for _, hex := range given {
		good = signs(secret, signed, hex) || good
	}
	if !good {
		return "", fmt.Errorf("%w: X-Skein-Signature", ErrSignature)
	}
	if age := now/second - dag.Micros(at); age > dag.Micros(hookAge/time.Second) || -age > dag.Micros(hookAge/time.Second) {
		return "", fmt.Errorf("%w: it was signed at %s, and it is %s", ErrStale, time.Unix(at, 0).UTC().Format(time.RFC3339), clock(now))
	}
	if key == "" {
		key = hookKey(signed)
	}
	return key, nil
}

// signs compares in constant time.
func signs(secret, signed []byte, given string) bool {
	is, err := hex.DecodeString(given)
	mac := hmac.New(sha256.New, secret)
	mac.Write(signed)
	return err == nil && hmac.Equal(mac.Sum(nil), is)
}

func hookKey(signed []byte) string {
	sum := sha256.Sum256(signed)
	return "hook/" + hex.EncodeToString(sum[:16])
}

func first(m map[string][]string, name string) string {
	if v := m[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// event is what filter sees as event and params as trigger.event: body, the value of a JSON
// body or else its text; headers and query, the first value of each name, headers in lower
// case. What proves who calls is left out: it would end up in the parameters of runs.
func (c *Call) event() json.RawMessage {
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
		switch lower {
		case "authorization", "cookie", "proxy-authorization", "x-skein-signature", "x-hub-signature-256", "x-hub-signature":
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
		if len(values) > 0 {
			e.Query[strings.ToValidUTF8(name, "\uFFFD")] = strings.ToValidUTF8(values[0], "\uFFFD")
		}
	}
	return encode(e)
}

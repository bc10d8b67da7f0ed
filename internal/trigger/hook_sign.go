package trigger

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// Forms of a signature.
const (
	FormV1       = "v1"       // X-Skein-Signature: t=UNIX,v1=HEX
	FormV2       = "v2"       // X-Skein-Signature: t=UNIX,id=ID,v2=HEX
	FormV3       = "v3"       // X-Skein-Signature: t=UNIX,id=ID,v3=HEX
	FormStandard = "standard" // Webhook-Signature, of Standard Webhooks
	FormHub      = "hub"      // X-Hub-Signature-256
)

// proof describes a valid signature.
type proof struct {
	form   string
	key    string // the key of the event
	signed []byte // the bytes that the signature covers
}

// prove checks the signature of a call.
func prove(secret []byte, call *Call, now dag.Micros) (proof, error) {
	if text := first(call.Header, "X-Skein-Signature"); text != "" {
		return proveSkein(secret, text, call, now)
	}
	if text := first(call.Header, "Webhook-Signature"); text != "" {
		return proveStandard(secret, text, call, now)
	}
	text, ok := strings.CutPrefix(first(call.Header, "X-Hub-Signature-256"), "sha256=")
	if !ok {
		return proof{}, fmt.Errorf("%w: the call has none of X-Skein-Signature, Webhook-Signature and X-Hub-Signature-256", ErrSignature)
	}
	// This form signs no time. Without this check, a body could be a text that was signed in another form
	// together with its time, and it would be valid at any later time.
	if !json.Valid(call.Body) && !strings.HasPrefix(string(call.Body), "payload=") {
		return proof{}, fmt.Errorf("%w: a body under X-Hub-Signature-256 is JSON, or a form with payload", ErrSignature)
	}
	given, err := hex.DecodeString(text)
	if err != nil || !signs(secret, call.Body, given) {
		return proof{}, fmt.Errorf("%w: X-Hub-Signature-256", ErrSignature)
	}
	return proof{FormHub, hookKey(call.Body), call.Body}, nil
}

var eventID = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,100}$`)

// skeinSignature is a parsed X-Skein-Signature.
type skeinSignature struct {
	stamp, id string
	at        int64
	given     map[string][]string // values of each form
}

func readSkein(text string) (s skeinSignature, ok bool) {
	s.given = map[string][]string{}
	n := 0
	for _, part := range strings.Split(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch name {
		case "t":
			s.stamp = value
		case "id":
			s.id = value
		case FormV1, FormV2, FormV3:
			s.given[name] = append(s.given[name], value)
			n++
		}
	}
	at, err := strconv.ParseInt(s.stamp, 10, 64)
	s.at = at
	return s, err == nil && strconv.FormatInt(at, 10) == s.stamp && at >= 0 && n <= hookSignaturesMax
}

func proveSkein(secret []byte, text string, call *Call, now dag.Micros) (proof, error) {
	s, ok := readSkein(text)
	if !ok {
		return proof{}, fmt.Errorf("%w: X-Skein-Signature must have the form t=UNIX,id=ID,v3=HEX", ErrSignature)
	}
	p := proof{form: FormV1, signed: append([]byte(s.stamp+"."), call.Body...)}
	if s.id != "" || len(s.given[FormV2])+len(s.given[FormV3]) > 0 {
		if !eventID.MatchString(s.id) {
			return proof{}, fmt.Errorf("%w: the id in X-Skein-Signature has 1 to 100 letters, digits, _ . -", ErrSignature)
		}
		p = proof{FormV2, "id/" + s.id, append([]byte("v2:"+s.stamp+":"+s.id+":"), call.Body...)}
	}
	if len(s.given[FormV3]) > 0 { // a call with v3 is never checked as a weaker form
		p.form, p.signed = FormV3, append([]byte("v3:"+s.stamp+":"+s.id+":"+call.Target+"\n"), call.Body...)
	}
	good := false
	for _, text := range s.given[p.form] {
		given, err := hex.DecodeString(text)
		good = err == nil && signs(secret, p.signed, given) || good
	}
	if !good {
		return proof{}, fmt.Errorf("%w: X-Skein-Signature", ErrSignature)
	}
	if p.key == "" {
		p.key = hookKey(p.signed)
	}
	return p, fresh(s.at, now)
}

// standardID allows no dot, because dots separate the signed parts. It requires a character that is no digit,
// because a number alone could be mistaken for the time of form v1.
var standardID = regexp.MustCompile(`^[A-Za-z0-9_-]{0,99}[A-Za-z_-][A-Za-z0-9_-]{0,99}$`)

const (
	standardIDMax    = 100
	standardVersion  = "v1,"
	standardKey      = "whsec_"
	standardKeyBytes = 16 // least length of a secret in the form of Standard Webhooks
)

// proveStandard checks a call by Standard Webhooks 1.0: HMAC-SHA256 in base64 over ID "." UNIX "." BODY.
func proveStandard(secret []byte, text string, call *Call, now dag.Micros) (proof, error) {
	id, stamp := first(call.Header, "Webhook-Id"), first(call.Header, "Webhook-Timestamp")
	at, err := strconv.ParseInt(stamp, 10, 64)
	given := strings.Fields(text)
	if err != nil || strconv.FormatInt(at, 10) != stamp || at < 0 || len(id) > standardIDMax || !standardID.MatchString(id) || len(given) > hookSignaturesMax {
		return proof{}, fmt.Errorf("%w: Standard Webhooks sends Webhook-Id (without a dot), Webhook-Timestamp (UNIX) and Webhook-Signature (v1,BASE64)", ErrSignature)
	}
	if coded, ok := strings.CutPrefix(string(secret), standardKey); ok {
		if secret, err = base64.StdEncoding.DecodeString(coded); err != nil || len(secret) < standardKeyBytes {
			return proof{}, fmt.Errorf("%w: the secret begins with %s, and the rest is not base64 of at least %d bytes", ErrSignature, standardKey, standardKeyBytes)
		}
	}
	signed := append([]byte(id+"."+stamp+"."), call.Body...)
	good := false
	for _, one := range given {
		coded, ok := strings.CutPrefix(one, standardVersion)
		is, err := base64.StdEncoding.DecodeString(coded)
		good = ok && err == nil && signs(secret, signed, is) || good
	}
	if !good {
		return proof{}, fmt.Errorf("%w: Webhook-Signature", ErrSignature)
	}
	return proof{FormStandard, "id/" + id, signed}, fresh(at, now)
}

// fresh returns an error if a signature was made too long ago, or in the future.
func fresh(at int64, now dag.Micros) error {
	if age := now/second - dag.Micros(at); age > dag.Micros(hookAge/time.Second) || -age > dag.Micros(hookAge/time.Second) {
		return fmt.Errorf("%w: the call was signed at %s, and now it is %s", ErrStale, time.Unix(at, 0).UTC().Format(time.RFC3339), clock(now))
	}
	return nil
}

// signs compares signatures in constant time.
func signs(secret, signed, given []byte) bool {
	return hmac.Equal(sum(secret, signed), given)
}

func sum(secret, text []byte) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write(text)
	return mac.Sum(nil)
}

func hookKey(signed []byte) string {
	sum := sha256.Sum256(signed)
	return hookKeyPrefix + hex.EncodeToString(sum[:16])
}

// hookKeyPrefix is the prefix of an event's key if the call has no event ID.
const hookKeyPrefix = "hook/"

// OldSignature reports whether the key of an event belongs to a call that was signed in an old form without
// an event id: v1 or X-Hub-Signature-256.
func OldSignature(key string) bool { return strings.HasPrefix(key, hookKeyPrefix) }

// digestBytes is the number of bytes of a digest that are stored.
const digestBytes = 16

// seen identifies a call among all calls that were signed with the same secret, for any trigger.
func (p *proof) seen(secret []byte) (scope, key string) {
	digest := sha256.Sum256(p.signed)
	return store.CallScope + hex.EncodeToString(sum(secret, []byte("skein: calls seen"))[:digestBytes]), hex.EncodeToString(digest[:digestBytes])
}

// proveAny checks the signature of a call with each key, and returns the key that made the signature. It
// always does the work of HookKeysMax keys, so the time of the answer reveals neither whether the webhook
// exists nor how many secrets it has.
func proveAny(keys [][]byte, call *Call, now dag.Micros) (p proof, key []byte, err error) {
	err = fmt.Errorf("%w: the webhook has no secret", ErrSignature)
	for i := range HookKeysMax {
		real := i < len(keys) && len(keys[i]) > 0
		with := sum(nil, []byte(call.Target))
		if real {
			with = keys[i]
		}
		is, failed := prove(with, call, now)
		switch {
		case !real || key != nil:
		case failed == nil:
			p, key, err = is, with, nil
		case i == 0 || errors.Is(failed, ErrStale): // the signature of a late call is valid
			err = failed
		}
	}
	return p, key, err
}

// Refuse takes the same time as a check, for a webhook that does not exist. So the time of the answer reveals
// nothing.
func Refuse(call Call, now dag.Micros) error {
	_, _, err := proveAny(nil, &call, now)
	return err
}

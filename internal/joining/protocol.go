package joining

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"skein.dev/skein/internal/home"
	api "skein.dev/skein/sdk/api/v1"
)

// Paths of the calls for certificates. They are next to those of the worker protocol.
const (
	JoinPath  = home.Prefix + "Join"
	RenewPath = home.Prefix + "Renew"
	// bytesMax bounds a request or an answer of these calls.
	bytesMax = 64 << 10
)

// request is a request for a certificate.
type request struct {
	Name    string `json:"name"`
	Request []byte `json:"request"` // PKCS 10, DER
}

// Grant is a certificate together with the bounds of its worker.
type Grant struct {
	Name       string    `json:"name"`
	Groups     []string  `json:"groups,omitempty"`
	Namespaces []string  `json:"namespaces,omitempty"`
	Slots      int32     `json:"slots,omitempty"`
	Chain      [][]byte  `json:"chain"` // DER; the worker's own certificate comes first
	Roots      [][]byte  `json:"roots"` // DER; root certificates with which the worker verifies nodes
	Expires    time.Time `json:"expires"`
}

// refusal is a node's refusal to issue a certificate.
type refusal struct {
	status int
	text   string
}

func (r *refusal) Error() string { return r.text }

func refuse(status int, format string, args ...any) error {
	return &refusal{status, fmt.Sprintf(format, args...)}
}

// problemOf extracts the reason from a node's answer.
func problemOf(status int, body []byte) string {
	var p api.Problem
	if json.Unmarshal(body, &p) == nil && p.Detail != "" {
		return p.Detail
	}
	return fmt.Sprintf("%s: %.200s", http.StatusText(status), body)
}

package broker

import (
	"errors"
	"fmt"

	"skein.dev/skein/internal/secret"
)

// NATS is a server or a cluster of NATS with JetStream.
type NATS struct {
	// Servers are addresses as HOST:PORT. One that answers is enough.
	Servers []string `json:"servers"`
	Security
	SignIn
	// Token and Credentials are other ways to sign in. Credentials is the content of a file that nsc has written.
	Token       *secret.Text `json:"token,omitempty"`
	Credentials *secret.Text `json:"credentials,omitempty"`
	// Domain is the domain of JetStream. "" means that of the servers.
	Domain string `json:"domain,omitempty"`
}

// Check returns an error that names a fault of the connection, and the remedy.
func (n *NATS) Check() error {
	ways := 0
	for _, given := range []bool{n.User != "" || n.Password != nil, n.Token != nil, n.Credentials != nil} {
		if given {
			ways++
		}
	}
	switch {
	case len(n.Servers) == 0:
		return errors.New("servers is missing: write a list such as [nats-1:4222]")
	case len(n.Servers) > brokersMax:
		return fmt.Errorf("it has %d servers; it takes up to %d", len(n.Servers), brokersMax)
	case n.User == "" && n.Password != nil:
		return errors.New("user and password belong together")
	case ways > 1:
		return errors.New("it has more than one of user, token and credentials: choose one")
	case n.Domain != "" && !isSubject(n.Domain):
		return fmt.Errorf("domain: %.40q is not a name", n.Domain)
	}
	for _, s := range n.Servers {
		if !isAddress(s) {
			return fmt.Errorf("servers: %.100q is not an address such as nats-1:4222", s)
		}
	}
	return errors.Join(n.Security.check(), n.SignIn.check(), isSecret("token", n.Token), isSecret("credentials", n.Credentials))
}

// isSubject reports whether a text can be a part of a subject of NATS.
func isSubject(text string) bool {
	for _, r := range text {
		if r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') {
			return false
		}
	}
	return text != "" && len(text) <= 100
}

// Secrets returns the plain texts of a connection that may be secrets.
func (n *NATS) Secrets() []*secret.Text {
	return []*secret.Text{n.Key, n.Password, n.Token, n.Credentials}
}

// NATSInput is the input of the source nats.
type NATSInput struct {
	Stream  string `json:"stream"`
	Subject string `json:"subject,omitempty"` // selects messages of the stream; "" selects all
	Value   string `json:"value"`             // json | text | base64: what event.value is
}

// Place returns the word for a stream or a subject, and the name of the one that is read.
func (n *NATSInput) Place() (word, name string) {
	if n.Subject != "" {
		return "subject", n.Subject
	}
	return "stream", n.Stream
}

// Read returns the part that determines what the source reads.
func (n *NATSInput) Read() any { return NATSInput{Stream: n.Stream, Subject: n.Subject} }

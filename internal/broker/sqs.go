package broker

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"skein.dev/skein/internal/secret"
)

// SQS is the service of queues of AWS in a region, or a service with the same interface.
type SQS struct {
	Region string `json:"region"`
	URL    string `json:"url,omitempty"` // URL of the service; "" stands for AWS in the region
	// CA holds the certificates of authorities in PEM. "" stands for the authorities of the system.
	CA string `json:"ca,omitempty"`
	// The user is the ID of an access key, and the password its secret access key.
	SignIn
	// SessionToken belongs to an access key of temporary credentials. nil: the access key is a lasting one.
	SessionToken *secret.Text `json:"session_token,omitempty"`
	// Credentials hold an access key and perhaps its session token as JSON, as programs of AWS print them. It
	// takes the place of User, Password and SessionToken.
	Credentials *secret.Text `json:"credentials,omitempty"`
}

var regionOK = regexp.MustCompile(`^[a-z0-9-]{1,50}$`)

// Check returns an error that names a fault of the connection, and the remedy.
func (s *SQS) Check() error {
	u, err := url.Parse(s.URL)
	switch {
	case !regionOK.MatchString(s.Region):
		return fmt.Errorf("region: %.60q is not the name of a region such as eu-central-1", s.Region)
	case s.Credentials != nil && (s.User != "" || s.Password != nil || s.SessionToken != nil):
		return errors.New("credentials take the place of user, password and session_token: remove these, or credentials")
	case s.Credentials == nil && (s.User == "" || s.Password == nil):
		return errors.New("sqs needs user, the ID of an access key, and password, the secret access key, as {secret: NAME}; or credentials")
	case s.URL == "":
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return fmt.Errorf("url: %.200q is not an http or https address", s.URL)
	case u.User != nil || strings.ContainsAny(s.URL, "?#"):
		return errors.New("url has a user, a query or a fragment: remove them")
	}
	security := s.Security()
	return errors.Join(security.check(), s.SignIn.check(), isSecret("session_token", s.SessionToken), isSecret("credentials", s.Credentials))
}

// Security says how sessions with the service use TLS.
func (s *SQS) Security() Security {
	if strings.HasPrefix(s.URL, "http://") {
		return Security{TLS: tlsDisable, CA: s.CA}
	}
	return Security{CA: s.CA}
}

// SQSInput is the input of the source sqs.
type SQSInput struct {
	Queue   string `json:"queue"`
	Account string `json:"account,omitempty"` // the account that owns the queue; "" stands for the account of the access key
	Value   string `json:"value"`             // json | text | base64: what event.value is
	ID      string `json:"id,omitempty"`
}

// Place returns the word for a queue, and the name of the queue that is read.
func (s *SQSInput) Place() (word, name string) { return "queue", s.Queue }

// Read returns the part that determines what the source reads.
func (s *SQSInput) Read() any { return SQSInput{Queue: s.Queue, Account: s.Account} }

// Secrets are the plain texts of a connection that may be secrets.
func (s *SQS) Secrets() []*secret.Text {
	return []*secret.Text{s.Password, s.SessionToken, s.Credentials}
}

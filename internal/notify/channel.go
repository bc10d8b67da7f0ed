package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/mail"
	"net/url"
	"strings"
	"time"

	"skein.dev/skein/internal/secret"
)

// Config is the configuration of a channel. Exactly one of its kinds is set.
type Config struct {
	Webhook *Webhook `json:"webhook,omitempty"`
	Slack   *Slack   `json:"slack,omitempty"`
	Email   *Email   `json:"email,omitempty"`
	Command *Command `json:"command,omitempty"`
	Log     *Log     `json:"log,omitempty"`

	Teams        *Teams        `json:"teams,omitempty"`
	PagerDuty    *PagerDuty    `json:"pagerduty,omitempty"`
	Alertmanager *Alertmanager `json:"alertmanager,omitempty"`
	Discord      *Discord      `json:"discord,omitempty"`
	Telegram     *Telegram     `json:"telegram,omitempty"`
	GoogleChat   *GoogleChat   `json:"googlechat,omitempty"`
	DingTalk     *DingTalk     `json:"dingtalk,omitempty"`
	Feishu       *Feishu       `json:"feishu,omitempty"`
	WeCom        *WeCom        `json:"wecom,omitempty"`
	Ntfy         *Ntfy         `json:"ntfy,omitempty"`
}

// kinds lists the kinds of channels for error texts.
const kinds = "webhook, slack, email, teams, pagerduty, alertmanager, discord, telegram, googlechat, dingtalk, feishu, wecom, ntfy, command and log"

// services returns the set kind among those that post to the server of a vendor, and the number of such kinds
// that are set.
func (c *Config) services() (name string, is service, n int) {
	for _, k := range []struct {
		name string
		is   service
		set  bool
	}{
		{"teams", c.Teams, c.Teams != nil}, {"pagerduty", c.PagerDuty, c.PagerDuty != nil}, {"alertmanager", c.Alertmanager, c.Alertmanager != nil},
		{"discord", c.Discord, c.Discord != nil}, {"telegram", c.Telegram, c.Telegram != nil}, {"googlechat", c.GoogleChat, c.GoogleChat != nil},
		{"dingtalk", c.DingTalk, c.DingTalk != nil}, {"feishu", c.Feishu, c.Feishu != nil}, {"wecom", c.WeCom, c.WeCom != nil}, {"ntfy", c.Ntfy, c.Ntfy != nil},
	} {
		if k.set {
			name, is = k.name, k.is
			n++
		}
	}
	return name, is, n
}

// Text is a text, or the name of the secret with the text.
type Text = secret.Text

// ConfigMax bounds the bytes of a channel's configuration, because a sender reads all channels at each look.
const ConfigMax = 8 << 10

// Parse reads and checks the configuration of a channel. Its errors name the mistake and the remedy.
func Parse(data []byte) (Config, error) {
	var c Config
	if len(data) > ConfigMax {
		return c, fmt.Errorf("the configuration of a channel has %d bytes, the limit is %d; shorten it", len(data), ConfigMax)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return c, fmt.Errorf("the configuration of a channel cannot be read: %s; the kinds are %s", strings.TrimPrefix(err.Error(), "json: "), kinds)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return c, errors.New("there is text after the end of the channel's configuration")
	}
	return c, c.check()
}

// Kind returns the name of the kind that is set.
func (c *Config) Kind() string {
	switch {
	case c.Webhook != nil:
		return "webhook"
	case c.Slack != nil:
		return "slack"
	case c.Email != nil:
		return "email"
	case c.Command != nil:
		return "command"
	case c.Log != nil:
		return "log"
	}
	name, _, _ := c.services()
	return name
}

func (c *Config) check() error {
	_, vendor, n := c.services()
	for _, is := range []bool{c.Webhook != nil, c.Slack != nil, c.Email != nil, c.Command != nil, c.Log != nil} {
		if is {
			n++
		}
	}
	switch {
	case n == 0:
		return fmt.Errorf("a channel has a kind, such as {log: {}}; the kinds are %s", kinds)
	case n > 1:
		return errors.New("a channel has one kind: make a channel for each, and name both in the alert")
	case vendor != nil:
		return vendor.check()
	case c.Webhook != nil:
		return c.Webhook.check()
	case c.Slack != nil && c.Slack.URL.Secret == "":
		return errors.New("slack.url must be {secret: NAME}, because the address of a Slack webhook is enough to post there")
	case c.Email != nil:
		return c.Email.check()
	case c.Command != nil && (len(c.Command.Run) == 0 || c.Command.Run[0] == ""):
		return errors.New("command.run must be a program with its arguments, such as [/usr/local/bin/page, ops]")
	}
	return nil
}

func checkURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return fmt.Errorf("%.100q is not an http or https address", text)
	}
	return nil
}

func checkAddress(text string) error {
	if _, err := mail.ParseAddress(text); err != nil || strings.ContainsAny(text, "\r\n") {
		return fmt.Errorf("%.100q is not a mail address", text)
	}
	return nil
}

// means are the parts of the node that a channel uses.
type means struct {
	secret    func(ctx context.Context, name string) (string, error)
	transport func() (http.RoundTripper, error)
	commands  bool // the channel may run a program
	mail      Mail
	taken     *taken
	refused   func(why string) // called if the server refused some recipients and the other recipients have the mail
	log       func(Message)
	now       func() time.Time
}

// resolved returns a text, or the value of its secret.
func (m *means) resolved(ctx context.Context, t Text) (string, error) {
	if t.Secret == "" {
		return t.Plain, nil
	}
	value, err := m.secret(ctx, t.Secret)
	return strings.TrimSpace(value), err
}

// send sends a message. Its errors contain no secret.
func (c *Config) send(ctx context.Context, m *means, msg *Message) error {
	switch {
	case c.Webhook != nil:
		return c.Webhook.send(ctx, m, msg)
	case c.Slack != nil:
		return c.Slack.send(ctx, m, msg)
	case c.Email != nil:
		return c.Email.send(ctx, m, msg)
	case c.Command != nil:
		return c.Command.send(ctx, m, msg)
	case c.Log != nil:
		m.log(*msg)
		return nil
	}
	if _, vendor, n := c.services(); n > 0 {
		return sendService(ctx, m, vendor, msg)
	}
	return permanent("the channel has no kind that this node knows")
}

// Log is a channel that writes to the log of the sending node.
type Log struct{}

// PermanentError is an error that a further call cannot remove.
type PermanentError struct{ Why string }

func (e *PermanentError) Error() string { return e.Why }

func permanent(format string, args ...any) error {
	return &PermanentError{fmt.Sprintf(format, args...)}
}

// AgainError is an error with the time after which the receiver accepts another call.
type AgainError struct {
	Why   string
	After time.Duration
}

func (e *AgainError) Error() string { return e.Why }

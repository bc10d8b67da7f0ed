package notify

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"skein.dev/skein/internal/alert"
)

// service is a channel that posts one JSON body to the server of a vendor.
type service interface {
	check() error
	// request returns the call for a message. resolved returns the value of a secret.
	request(msg *Message, resolved func(Text) (string, error)) (request, error)
}

// request is a call of a service.
type request struct {
	to     Text   // the address, or the part of it that is configured
	append string // the text after the configured part
	hide   []string
	header http.Header // nil if the call needs no further headers
	body   any
	busy   []int // if not empty, the answer has a code in its body, and these codes permit a further attempt
}

// sendService posts a message to a service.
func sendService(ctx context.Context, m *means, s service, msg *Message) error {
	r, err := s.request(msg, func(t Text) (string, error) { return m.resolved(ctx, t) })
	if err != nil {
		return err
	}
	body, err := json.Marshal(r.body)
	if err != nil {
		return err
	}
	address, err := m.resolved(ctx, r.to)
	if err != nil {
		return err
	}
	if r.header == nil {
		r.header = http.Header{}
	}
	return deliver(ctx, m, &delivery{address: strings.TrimSuffix(address, "/") + r.append, secret: r.to.Secret, hide: r.hide, header: r.header, body: body, busy: r.busy})
}

// mustBeSecret returns an error if an address or a key is written directly into the configuration.
func mustBeSecret(t Text, key, why string) error {
	if t.Secret == "" {
		return fmt.Errorf("%s must be {secret: NAME}: %s", key, why)
	}
	return nil
}

// checkOptional checks an address that replaces the vendor's address.
func checkOptional(t *Text, key string) error {
	if t == nil || t.Secret != "" {
		return nil
	}
	if err := checkURL(t.Plain); err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}

// orDefault returns a configured address, or the vendor's address.
func orDefault(t *Text, vendor string) Text {
	if t == nil {
		return Text{Plain: vendor}
	}
	return *t
}

// shorten shortens a text to a number of runes.
func shorten(text string, most int) string {
	if r := []rune(text); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return text
}

// Teams posts an Adaptive Card to a webhook of a workflow of Microsoft Teams.
type Teams struct {
	URL Text `json:"url"`
}

func (t *Teams) check() error {
	return mustBeSecret(t.URL, "teams.url", "who knows the address of a webhook can post there")
}

// cardMarks escapes the Markdown that a card would interpret.
var cardMarks = strings.NewReplacer(`\`, `\\`, "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "`", "\\`")

const (
	cardTextMax  = 2000 // runes
	cardLinesMax = 20
)

func (t *Teams) request(msg *Message, _ func(Text) (string, error)) (request, error) {
	type block map[string]any
	color := map[string]string{"critical": "Attention", "error": "Attention", "warning": "Warning"}[msg.Data.Severity]
	if msg.resolved() {
		color = "Good"
	}
	body := []block{{"type": "TextBlock", "text": cardMarks.Replace(shorten(msg.subject(), cardTextMax)), "weight": "Bolder", "wrap": true, "color": cmp.Or(color, "Default")}}
	lines := msg.lines()
	for _, line := range lines[:min(len(lines), cardLinesMax)] {
		body = append(body, block{"type": "TextBlock", "text": cardMarks.Replace(shorten(line, cardTextMax)), "wrap": true, "spacing": "None"})
	}
	card := block{"$schema": "http://adaptivecards.io/schemas/adaptive-card.json", "type": "AdaptiveCard", "version": "1.4", "body": body}
	return request{to: t.URL, body: block{"type": "message",
		"attachments": []block{{"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": nil, "content": card}}}}, nil
}

// PagerDuty sends events to the Events API v2. An incident of Skein becomes an incident of PagerDuty.
type PagerDuty struct {
	Key Text  `json:"key"`           // the integration key of a service
	URL *Text `json:"url,omitempty"` // default: the address for the United States
}

// pagerDutyURL is the address of the API.
const pagerDutyURL = "https://events.pagerduty.com/v2/enqueue"

func (p *PagerDuty) check() error {
	return errors.Join(mustBeSecret(p.Key, "pagerduty.key", "who knows an integration key can open incidents"), checkOptional(p.URL, "pagerduty.url"))
}

func (p *PagerDuty) request(msg *Message, resolved func(Text) (string, error)) (request, error) {
	key, err := resolved(p.Key)
	if err != nil {
		return request{}, err
	}
	d := &msg.Data
	event := map[string]any{"routing_key": key, "dedup_key": d.Incident, "event_action": "trigger", "client": "Skein"}
	if msg.resolved() {
		event["event_action"] = "resolve"
	}
	severity := d.Severity
	if severity != "critical" && severity != "error" && severity != "warning" {
		severity = "info"
	}
	details := map[string]any{"incident": d.Incident, "rule": d.Rule, "count": d.Count}
	for name, value := range map[string]string{"run": d.Run, "trigger": d.Trigger, "cause": d.Cause, "reason": d.Reason, "message": d.Message} {
		if value != "" {
			details[name] = value
		}
	}
	event["payload"] = map[string]any{"summary": shorten(oneLine(d.Text), 1024), "source": cmp.Or(d.source(), "skein"), "severity": severity,
		"timestamp": msg.Timestamp.Format(time.RFC3339), "component": d.Workflow, "group": d.Namespace, "class": d.Event, "custom_details": details}
	return request{to: orDefault(p.URL, pagerDutyURL), hide: []string{key}, body: event}, nil
}

// Alertmanager posts to the API v2 of an Alertmanager.
type Alertmanager struct {
	URL Text `json:"url"` // root URL of the Alertmanager
}

func (a *Alertmanager) check() error { return checkOptional(&a.URL, "alertmanager.url") }

const (
	// alertOpen is the time after which an Alertmanager considers an alert resolved if it gets no message about
	// the end.
	alertOpen = 30 * 24 * time.Hour
	// alertEvent is the same time for an event, which has no end.
	alertEvent = 5 * time.Minute
)

func (a *Alertmanager) request(msg *Message, _ func(Text) (string, error)) (request, error) {
	d := &msg.Data
	labels := map[string]string{"alertname": "Skein" + strings.ToUpper(d.Event[:min(1, len(d.Event))]) + d.Event[min(1, len(d.Event)):], "namespace": d.Namespace,
		"workflow": d.Workflow, "rule": d.Rule, "severity": d.Severity, "incident": d.Incident}
	if msg.Type != alert.KindTest { // Alertmanager resolves an alert by its labels, so they must not depend on the last event
		labels["alertname"] = "SkeinAlert"
	}
	starts, ends := msg.Timestamp, msg.Timestamp.Add(alertOpen)
	if d.OpenedAt != nil {
		starts = *d.OpenedAt
	}
	switch {
	case msg.resolved():
		ends = msg.Timestamp
	case msg.Type == "incident."+alert.KindEvent || msg.Type == "incident."+alert.KindMessage || msg.Type == alert.KindTest:
		ends = msg.Timestamp.Add(alertEvent)
	}
	return request{to: a.URL, append: "/api/v2/alerts", body: []map[string]any{{"labels": labels,
		"annotations": map[string]string{"summary": d.Text, "description": strings.Join(msg.lines(), "\n")},
		"startsAt":    starts.Format(time.RFC3339Nano), "endsAt": ends.Format(time.RFC3339Nano)}}}, nil
}

// Discord posts to a webhook of Discord.
type Discord struct {
	URL Text `json:"url"`
}

func (d *Discord) check() error {
	return mustBeSecret(d.URL, "discord.url", "who knows the address of a webhook can post there")
}

// discordMarks escapes the Markdown of Discord.
var discordMarks = strings.NewReplacer(`\`, `\\`, "*", `\*`, "_", `\_`, "~", `\~`, "`", "\\`", "|", `\|`, ">", `\>`)

func (d *Discord) request(msg *Message, _ func(Text) (string, error)) (request, error) {
	text := "**" + discordMarks.Replace(msg.subject()) + "**\n" + discordMarks.Replace(strings.Join(msg.lines(), "\n"))
	return request{to: d.URL, body: map[string]any{"content": shorten(text, 2000), "allowed_mentions": map[string]any{"parse": []string{}}}}, nil
}

// Telegram sends a message as a bot.
type Telegram struct {
	Token Text   `json:"token"`
	Chat  string `json:"chat"`
	URL   *Text  `json:"url,omitempty"` // the address of a self-hosted server
}

var telegramChat = regexp.MustCompile(`^(-?[0-9]{1,20}|@[A-Za-z0-9_]{1,64})$`)

func (t *Telegram) check() error {
	if !telegramChat.MatchString(t.Chat) {
		return errors.New(`telegram.chat must be the id of a chat such as "-1001234567890", or "@name" of a channel`)
	}
	return errors.Join(mustBeSecret(t.Token, "telegram.token", "who knows the token of a bot can act as the bot"), checkOptional(t.URL, "telegram.url"))
}

func (t *Telegram) request(msg *Message, resolved func(Text) (string, error)) (request, error) {
	token, err := resolved(t.Token)
	if err != nil {
		return request{}, err
	}
	if strings.ContainsAny(token, "/?#% ") {
		return request{}, permanent("the secret %s is no token of a bot", t.Token.Secret)
	}
	return request{to: orDefault(t.URL, "https://api.telegram.org"), append: "/bot" + token + "/sendMessage", hide: []string{token},
		body: map[string]any{"chat_id": t.Chat, "text": shorten(msg.plain(), 4096), "link_preview_options": map[string]any{"is_disabled": true}}}, nil
}

// GoogleChat posts to a webhook of a space of Google Chat.
type GoogleChat struct {
	URL Text `json:"url"`
}

func (g *GoogleChat) check() error {
	return mustBeSecret(g.URL, "googlechat.url", "who knows the address of a webhook can post there")
}

func (g *GoogleChat) request(msg *Message, _ func(Text) (string, error)) (request, error) {
	text := "*" + slackMarks.Replace(msg.subject()) + "*\n" + slackMarks.Replace(strings.Join(msg.lines(), "\n"))
	return request{to: g.URL, body: map[string]any{"text": shorten(text, 4000)}}, nil
}

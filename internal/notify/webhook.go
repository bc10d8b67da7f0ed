package notify

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"skein.dev/skein/sdk/shared/mask"
)

// Webhook posts messages in the form of Standard Webhooks (standardwebhooks.com).
type Webhook struct {
	URL Text `json:"url"`
	// Secret signs the messages. It is a secret of the form whsec_BASE64, or any other text. Keys is a list
	// of such secrets, which is used while one secret replaces another.
	Secret *Text  `json:"secret,omitempty"`
	Keys   []Text `json:"keys,omitempty"`
}

// keysMax bounds Webhook.Keys.
const keysMax = 10

func (w *Webhook) check() error {
	if len(w.Keys) > keysMax {
		return fmt.Errorf("webhook.keys has %d keys; it takes up to %d", len(w.Keys), keysMax)
	}
	if w.URL.Secret == "" {
		if err := checkURL(w.URL.Plain); err != nil {
			return fmt.Errorf("webhook.url: %w", err)
		}
		if u, err := url.Parse(w.URL.Plain); err != nil || u.User != nil {
			return errors.New("webhook.url has a user or a password, and channels are shown: keep the address in a secret, and write {secret: NAME}")
		}
	}
	for _, k := range w.keys() {
		if k.Secret == "" {
			return errors.New("webhook.secret must be {secret: NAME}: a key is not kept in a configuration")
		}
	}
	return nil
}

func (w *Webhook) keys() []Text {
	if w.Secret != nil {
		return append([]Text{*w.Secret}, w.Keys...)
	}
	return w.Keys
}

func (w *Webhook) send(ctx context.Context, m *means, msg *Message) error {
	body, err := json.Marshal(msg)
	if err != nil {
		return err
	}
	header := http.Header{"Webhook-Id": {msg.Data.ID}}
	at := strconv.FormatInt(m.now().Unix(), 10)
	header.Set("Webhook-Timestamp", at)
	var signed []string
	for _, k := range w.keys() {
		key, err := m.resolved(ctx, k)
		if err != nil {
			return err
		}
		signed = append(signed, signature(key, msg.Data.ID, at, body))
	}
	if len(signed) > 0 {
		header.Set("Webhook-Signature", strings.Join(signed, " "))
	}
	return post(ctx, m, w.URL, header, body)
}

// signature signs a message.
func signature(key, id, at string, body []byte) string {
	raw := []byte(key)
	if coded, is := strings.CutPrefix(key, "whsec_"); is {
		if decoded, err := base64.StdEncoding.DecodeString(coded); err == nil {
			raw = decoded
		}
	}
	h := hmac.New(sha256.New, raw)
	h.Write([]byte(id + "." + at + "."))
	h.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(h.Sum(nil))
}

// Slack posts to an incoming webhook of Slack, Mattermost or Rocket.Chat.
type Slack struct {
	URL Text `json:"url"`
}

// slackMarks escapes the marks of Slack. A zero-width space keeps Mattermost and Rocket.Chat from
// interpreting @all.
var slackMarks = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "@", "@\u200b")

func (s *Slack) send(ctx context.Context, m *means, msg *Message) error {
	text := "*" + slackMarks.Replace(msg.subject()) + "*"
	for _, line := range msg.lines() {
		text += "\n" + slackMarks.Replace(line)
	}
	body, err := json.Marshal(map[string]string{"text": text})
	if err != nil {
		return err
	}
	return post(ctx, m, s.URL, http.Header{}, body)
}

const (
	answerMax     = 64 << 10 // bytes of an answer that are read
	answerShown   = 200      // bytes of an answer that an error contains
	retryAfterMax = time.Hour
)

// post posts a body. It returns an error for every answer except 2xx. Its errors do not contain the address,
// which may be secret, even if the receiver repeats the address.
func post(ctx context.Context, m *means, to Text, header http.Header, body []byte) error {
	address, err := m.resolved(ctx, to)
	if err != nil {
		return err
	}
	return deliver(ctx, m, &delivery{address: address, secret: to.Secret, header: header, body: body})
}

// delivery is a call over HTTP.
type delivery struct {
	address string
	secret  string   // the secret with the address or a part of it; "" if the address may be shown
	hide    []string // further texts that must not be shown
	header  http.Header
	body    []byte
	busy    []int // see request
}

// deliver makes a call.
func deliver(ctx context.Context, m *means, d *delivery) error {
	if checkURL(d.address) != nil {
		return permanent("the address in the secret %s is not an http or https address", d.secret)
	}
	transport, err := m.transport()
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.address, bytes.NewReader(d.body))
	if err != nil {
		return permanent("the address of the channel cannot be used")
	}
	req.Header = d.header
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "Skein")
	var masks *mask.Set
	hide := d.hide
	if d.secret != "" {
		hide = append(partsOf(d.address, req.URL), hide...)
	}
	if len(hide) > 0 {
		masks = mask.NewSet(hide)
	}
	client := http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		var named *url.Error
		if errors.As(err, &named) {
			err = named.Err
		}
		if masks != nil {
			err = errors.New(masks.String(err.Error()))
		}
		return err
	}
	defer resp.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(resp.Body, answerMax))
	if len(d.busy) > 0 {
		return coded(resp, said, masks.String(string(said)), d.busy)
	}
	return answered(resp, masks.String(string(said)))
}

// partMin is the least length, in bytes, of a part of a secret address that is masked separately.
const partMin = 8

// partsOf lists the texts of a secret address that must not be shown: the whole address, and the parts that
// could be keys.
func partsOf(address string, u *url.URL) []string {
	all := []string{address, u.String(), u.Host, u.Hostname(), u.RequestURI(), u.Path, u.EscapedPath(), u.RawQuery}
	parts := append(strings.Split(u.Path, "/"), strings.Split(u.EscapedPath(), "/")...)
	parts = append(parts, strings.Split(u.RawQuery, "&")...)
	for name, values := range u.Query() {
		parts = append(append(parts, name), values...)
	}
	if password, is := u.User.Password(); is {
		parts = append(parts, u.User.Username(), password)
	}
	for _, part := range parts {
		if len(part) >= partMin {
			all = append(all, part)
		}
	}
	return slices.DeleteFunc(all, func(text string) bool { return len(text) < mask.FormMin })
}

// answered converts an answer to an error. A 4xx answer is final, except for the codes that permit a further
// attempt.
func answered(resp *http.Response, said string) error {
	code := resp.StatusCode
	why := fmt.Sprintf("the receiver answered %d %s", code, http.StatusText(code))
	if text := excerpt(said); text != "" && code >= 400 {
		why += ": " + text
	}
	switch {
	case code >= 200 && code < 300:
		return nil
	case code >= 300 && code < 400:
		return permanent("%s; redirects are not followed: give the final address", why)
	case code >= 400 && code < 500 && code != http.StatusRequestTimeout && code != http.StatusTooEarly && code != http.StatusTooManyRequests:
		return permanent("%s", why)
	}
	return &AgainError{Why: why, After: retryAfter(resp.Header.Get("Retry-After"), time.Now())}
}

// excerpt returns the part of an answer that an error contains.
func excerpt(said string) string {
	return strings.TrimSpace(strings.ToValidUTF8(said[:min(len(said), answerShown)], ""))
}

// retryAfter parses a number of seconds, or an instant.
func retryAfter(text string, now time.Time) time.Duration {
	if n, err := strconv.ParseInt(text, 10, 32); err == nil && n > 0 {
		return min(time.Duration(n)*time.Second, retryAfterMax)
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(at.Sub(now), 0), retryAfterMax)
	}
	return 0
}

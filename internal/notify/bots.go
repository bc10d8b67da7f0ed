package notify

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// DingTalk, Feishu and WeCom answer 200 to a message that they refuse. The body contains the reason.

const (
	// botTextMax and botTitleMax bound the bytes of a text. DingTalk and Feishu take bodies of up to 20,000
	// bytes, and JSON needs up to 6 bytes for each byte.
	botTextMax, botTitleMax = 2900, 300
	weComTextMax            = 2048 // bytes of the text, which WeCom counts without the escapes of JSON
	ntfyTextMax             = 4096 // bytes; ntfy converts a longer message to a file
)

// codeBusy is the answer of DingTalk and WeCom while they are overloaded.
const codeBusy = -1

// shortenBytes shortens a text to a number of bytes, at the end of a rune.
func shortenBytes(text string, most int) string {
	if len(text) <= most {
		return text
	}
	end := most - len("…")
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

// plain returns a message without marks.
func (m *Message) plain() string {
	return strings.TrimSuffix(m.subject()+"\n"+strings.Join(m.lines(), "\n"), "\n")
}

// titled returns a title, and a text that contains the whole title only if the title is too long or is all.
func (m *Message) titled() (title, text string) {
	title, text = m.subject(), strings.Join(m.lines(), "\n")
	if text == "" || len(title) > botTitleMax {
		text = m.plain()
	}
	return shortenBytes(title, botTitleMax), text
}

// checkBot checks the address of a bot, and the key that signs its messages.
func checkBot(kind string, address Text, key *Text) error {
	if key != nil && key.Secret == "" {
		return mustBeSecret(*key, kind+".secret", "a key is not kept in a configuration")
	}
	return mustBeSecret(address, kind+".url", "who knows the address of a bot can post there")
}

// botText returns the call that posts a text. DingTalk and WeCom have the same form.
func botText(to Text, text string, most int, busy []int) request {
	return request{to: to, busy: busy, body: map[string]any{"msgtype": "text", "text": map[string]string{"content": shortenBytes(text, most)}}}
}

// digest returns the HMAC-SHA256 of a text in base64.
func digest(key, text string) string {
	h := hmac.New(sha256.New, []byte(key))
	h.Write([]byte(text))
	return base64.StdEncoding.EncodeToString(h.Sum(nil))
}

// DingTalk posts to a custom robot of a group of DingTalk.
type DingTalk struct {
	URL    Text  `json:"url"`
	Secret *Text `json:"secret,omitempty"` // signs the messages
}

func (d *DingTalk) check() error { return checkBot("dingtalk", d.URL, d.Secret) }

func (d *DingTalk) request(msg *Message, resolved func(Text) (string, error)) (request, error) {
	r := botText(d.URL, msg.plain(), botTextMax, []int{codeBusy, 130101, 410100})
	if d.Secret != nil {
		key, err := resolved(*d.Secret)
		if err != nil {
			return request{}, err
		}
		at := strconv.FormatInt(time.Now().UnixMilli(), 10)
		// The address of a robot has the parameter access_token.
		r.append = "&timestamp=" + at + "&sign=" + url.QueryEscape(digest(key, at+"\n"+key))
	}
	return r, nil
}

// Feishu posts a card to a custom bot of a group of Feishu or Lark.
type Feishu struct {
	URL    Text  `json:"url"`
	Secret *Text `json:"secret,omitempty"` // signs the messages
}

func (f *Feishu) check() error { return checkBot("feishu", f.URL, f.Secret) }

// feishuCard is a card with a color, a title and a text. Feishu shows plain_text without interpreting it.
const feishuCard = `{"header":{"template":%q,"title":{"tag":"plain_text","content":%s}},"elements":[{"tag":"div","text":{"tag":"plain_text","content":%s}}]}`

// quoted returns a text as JSON.
func quoted(text string) []byte {
	data, _ := json.Marshal(text) // a text has no error
	return data
}

func (f *Feishu) request(msg *Message, resolved func(Text) (string, error)) (request, error) {
	title, text := msg.titled()
	color := [...]string{"blue", "blue", "orange", "red", "red"}[severities[msg.Data.Severity]]
	if msg.resolved() {
		color = "green"
	}
	card := fmt.Sprintf(feishuCard, color, quoted(title), quoted(shortenBytes(text, botTextMax)))
	body := map[string]any{"msg_type": "interactive", "card": json.RawMessage(card)}
	r := request{to: f.URL, busy: []int{11232}, body: body}
	if f.Secret != nil {
		key, err := resolved(*f.Secret)
		if err != nil {
			return request{}, err
		}
		at := strconv.FormatInt(time.Now().Unix(), 10)
		sign := digest(at+"\n"+key, "")
		body["timestamp"], body["sign"] = at, sign
		r.hide = []string{sign}
	}
	return r, nil
}

// WeCom posts to a robot of a group of WeCom.
type WeCom struct {
	URL Text `json:"url"`
}

func (w *WeCom) check() error { return checkBot("wecom", w.URL, nil) }

func (w *WeCom) request(msg *Message, _ func(Text) (string, error)) (request, error) {
	// A zero-width space keeps WeCom from mentioning a member by <@id>.
	text := strings.ReplaceAll(msg.plain(), "<@", "<\u200b@")
	return botText(w.URL, text, weComTextMax, []int{codeBusy, 45009, 45033}), nil
}

// Ntfy publishes to a topic of an ntfy server.
type Ntfy struct {
	Topic Text  `json:"topic"`
	Token *Text `json:"token,omitempty"`
	URL   *Text `json:"url,omitempty"` // root URL of the server; default: ntfy.sh
}

var ntfyTopic = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func (n *Ntfy) check() error {
	switch {
	case n.Topic.Secret == "" && !ntfyTopic.MatchString(n.Topic.Plain):
		return errors.New("ntfy.topic must be 1 to 64 letters, digits, - and _, or {secret: NAME}")
	case n.Token != nil && n.Token.Secret == "":
		return mustBeSecret(*n.Token, "ntfy.token", "who knows the token can act as its user")
	case n.Token == nil:
		if err := mustBeSecret(n.Topic, "ntfy.topic", "without ntfy.token, who knows the topic can read it and post there"); err != nil {
			return err
		}
	}
	return checkOptional(n.URL, "ntfy.url")
}

func (n *Ntfy) request(msg *Message, resolved func(Text) (string, error)) (request, error) {
	topic, err := resolved(n.Topic)
	if err != nil {
		return request{}, err
	}
	if !ntfyTopic.MatchString(topic) {
		return request{}, permanent("the secret %s is no topic of ntfy: 1 to 64 letters, digits, - and _", n.Topic.Secret)
	}
	r := request{to: orDefault(n.URL, "https://ntfy.sh"), header: http.Header{}}
	if n.Topic.Secret != "" {
		r.hide = append(r.hide, topic)
	}
	if n.Token != nil {
		token, err := resolved(*n.Token)
		if err != nil {
			return request{}, err
		}
		r.hide = append(r.hide, token)
		r.header.Set("Authorization", "Bearer "+token)
	}
	priority := 3
	if !msg.resolved() {
		priority = max(priority, severities[msg.Data.Severity]+1)
	}
	title, text := msg.titled()
	r.body = map[string]any{"topic": topic, "title": title, "message": shortenBytes(text, ntfyTextMax), "priority": priority}
	return r, nil
}

// coded converts an answer with a code in its body to an error. The answers with a code of busy permit a
// further attempt. shown is the part of the body that an error may contain.
func coded(resp *http.Response, body []byte, shown string, busy []int) error {
	var a struct {
		ErrCode *int `json:"errcode"` // DingTalk, WeCom
		Code    *int `json:"code"`    // Feishu
	}
	err := json.Unmarshal(body, &a)
	code := a.ErrCode
	if code == nil {
		code = a.Code
	}
	if err != nil {
		code = nil // a value of another type leaves a 0
	}
	why := fmt.Sprintf("the receiver answered %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	if code != nil && slices.Contains(busy, *code) {
		return &AgainError{Why: why + ": " + excerpt(shown), After: retryAfter(resp.Header.Get("Retry-After"), time.Now())}
	}
	if err := answered(resp, shown); err != nil {
		return err
	}
	switch {
	case code == nil:
		return &AgainError{Why: why + " without a code: check the address of the bot"}
	case *code != 0:
		return permanent("%s: %s", why, excerpt(shown))
	}
	return nil
}

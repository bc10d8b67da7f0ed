package notify

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"skein.dev/skein/internal/alert"
	"skein.dev/skein/internal/store"
)

const (
	// bundleMin is the least number of due notices that a channel for people gets as one message.
	bundleMin = 6
	// bundlePause is the pause of a channel after a bundle, so that the next bundle is larger.
	bundlePause = 10 * time.Second
	// bundleShown bounds the number of notices that a bundle lists.
	bundleShown = 20
	// typeBundle is the type of a bundle.
	typeBundle = "bundle"
)

// forPeople reports whether people read the messages of a channel. Programs get each message separately,
// because they compare ids.
func (c *Config) forPeople() bool {
	return c.Slack != nil || c.Email != nil || c.Teams != nil || c.Discord != nil || c.Telegram != nil || c.GoogleChat != nil ||
		c.DingTalk != nil || c.Feishu != nil || c.WeCom != nil || c.Ntfy != nil
}

// bundles groups due notices into calls, in their order: one call for each notice, or one for all notices of
// a channel.
func bundles(channels []store.AlertChannel, due []store.Notice) (calls [][]store.Notice) {
	count, at := map[store.ChannelKey]int{}, map[store.ChannelKey]int{}
	for i := range due {
		count[channelOf(&due[i])]++
	}
	for i := range due {
		k := channelOf(&due[i])
		if count[k] < bundleMin {
			calls = append(calls, due[i:i+1])
			continue
		}
		to, known := at[k]
		if !known {
			if to = -1; bundled(channels, k) {
				to = len(calls)
			}
			at[k] = to
			if to >= 0 {
				calls = append(calls, nil)
			}
		}
		if to < 0 {
			calls = append(calls, due[i:i+1])
		} else {
			calls[to] = append(calls[to], due[i])
		}
	}
	return calls
}

func bundled(channels []store.AlertChannel, k store.ChannelKey) bool {
	row, there := store.FindAlertChannel(channels, k.Namespace, k.Name)
	if !there {
		return false
	}
	c, err := Parse(row.Data)
	return err == nil && c.forPeople()
}

// severities maps the names of severities to their weights.
var severities = map[string]int{"info": 1, "warning": 2, "error": 3, "critical": 4}

// bundleOf makes one message of several notices of a channel.
func bundleOf(all []store.Notice) (*Message, error) {
	m := &Message{Type: typeBundle, Data: MessageData{Namespace: all[0].Namespace, Count: int64(len(all)), Severity: "info"}}
	flows, ended := map[string]bool{}, 0
	for i := range all {
		var body alert.Notice
		if err := json.Unmarshal(all[i].Data, &body); err != nil {
			return nil, permanent("the notice cannot be read: %v", err)
		}
		if i == 0 {
			m.Timestamp, m.Data.Incident = body.At.Time().UTC(), body.Incident
			m.Data.ID = fmt.Sprintf("%s_%d", noticeID(body.Incident, body.Seq), len(all))
		}
		flows[body.Namespace+"/"+body.Workflow] = true
		mark := "[" + body.Severity + "] "
		if body.Kind == alert.KindResolved {
			ended++
			mark = "[resolved] "
		} else if severities[body.Severity] > severities[m.Data.Severity] {
			m.Data.Severity = body.Severity
		}
		if i < bundleShown {
			m.bundle = append(m.bundle, mark+body.Text)
		}
	}
	var what []string
	if n := len(all) - ended; n > 0 {
		what = append(what, fmt.Sprintf("%d alerts", n))
	}
	if ended > 0 {
		what = append(what, fmt.Sprintf("%d alerts that are resolved", ended))
	}
	m.Data.Text = fmt.Sprintf("%s of %d workflows", strings.Join(what, ", "), len(flows))
	if len(all) > bundleShown {
		m.bundle = append(m.bundle, fmt.Sprintf("and %d more: skein alert list --all", len(all)-bundleShown))
	}
	return m, nil
}

package notify

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/textproto"
	"slices"
	"strings"
	"sync"

	"github.com/wneessen/go-mail"
	"github.com/wneessen/go-mail/smtp"
)

// connect connects to the server and signs in. When ctx ends, the connection is always closed. The caller
// must call end.
func (s *server) connect(ctx context.Context, config *tls.Config, options []mail.Option) (c *smtp.Client, end func(), err error) {
	end = func() {}
	dial := func(dialing context.Context, network, address string) (conn net.Conn, err error) {
		if s.implicit {
			if config == nil {
				config = &tls.Config{ServerName: s.host, MinVersion: tls.VersionTLS12}
			}
			conn, err = (&tls.Dialer{Config: config}).DialContext(dialing, network, address)
		} else {
			conn, err = (&net.Dialer{}).DialContext(dialing, network, address)
		}
		if err != nil {
			return nil, err
		}
		stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
		end = func() {
			stop()
			_ = conn.Close()
		}
		return conn, nil
	}
	client, err := mail.NewClient(s.host, append(options, mail.WithDialContextFunc(dial))...)
	if err != nil {
		return nil, end, fmt.Errorf("setting smtp_url: %w", err)
	}
	c, err = client.DialToSMTPClientWithContext(ctx)
	return c, end, err
}

// hand sends a mail. The server may refuse some recipients. If some of the refusals are temporary, the other
// recipients get the mail at once, and a later call sends it to the refused ones.
func hand(c *smtp.Client, letter *mail.Msg, m *means) error {
	from, err := letter.GetSender(false)
	if err != nil {
		return permanent("the mail cannot be written: %v", err)
	}
	all, err := letter.GetRecipients()
	if err != nil {
		return permanent("the mail cannot be written: %v", err)
	}
	if err := c.Mail(from); err != nil {
		return refusal(err)
	}
	had := m.taken.of(letter.GetMessageID())
	var took, never, later []string
	for _, to := range all {
		if slices.Contains(had, to) {
			continue
		}
		switch err := c.Rcpt(to); code(err) {
		case 0:
			took = append(took, to)
		case notSMTP:
			return err
		default:
			if why := fmt.Sprintf("%s (%v)", to, err); isFinal(err) {
				never = append(never, why)
			} else {
				later = append(later, why)
			}
		}
	}
	if len(took) > 0 {
		if err := data(c, letter); err != nil {
			return refusal(err)
		}
	}
	_ = c.Quit()
	had = append(had, took...)
	if len(later) > 0 {
		m.taken.put(letter.GetMessageID(), had)
		return fmt.Errorf("the SMTP server took the mail for %d of %d recipients; the others follow: %s", len(had), len(all), strings.Join(later, ", "))
	}
	m.taken.put(letter.GetMessageID(), nil)
	switch {
	case len(had) == 0:
		return permanent("the SMTP server refused the mail: %s", strings.Join(never, ", "))
	case len(never) > 0:
		m.refused(shortened(strings.Join(never, ", ")))
	}
	return nil
}

func data(c *smtp.Client, letter *mail.Msg) error {
	w, err := c.Data()
	if err != nil {
		return err
	}
	if _, err := letter.WriteTo(w); err != nil {
		return err // the server accepts a mail only after its end
	}
	return w.Close()
}

// notSMTP is the code of an error that is not an answer of the server.
const notSMTP = -1

// code returns the code of the server's answer. It returns 0 if the server accepted the command.
func code(err error) int {
	var answer *textproto.Error
	switch {
	case err == nil:
		return 0
	case errors.As(err, &answer):
		return answer.Code
	}
	return notSMTP
}

func isFinal(err error) bool { return code(err) >= 500 }

// refusal marks err as permanent if the refusal of the SMTP server is final.
func refusal(err error) error {
	if isFinal(err) {
		return permanent("the SMTP server refused the mail: %v", err)
	}
	return err
}

// takenMax bounds the number of mails whose recipients taken contains.
const takenMax = 1000

// taken contains the recipients that have a mail that other recipients still wait for. If it is lost, they
// get the mail again, with the same Message-ID. The zero value is empty.
type taken struct {
	mu   sync.Mutex // protects following fields
	have map[string][]string
}

func (t *taken) of(id string) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.have[id])
}

func (t *taken) put(id string, who []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if delete(t.have, id); len(who) == 0 {
		return
	}
	if t.have == nil || len(t.have) >= takenMax {
		t.have = map[string][]string{}
	}
	t.have[id] = who
}

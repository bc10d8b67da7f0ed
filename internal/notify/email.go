package notify

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/wneessen/go-mail"

	"skein.dev/skein/internal/alert"
)

// Email sends mail by the SMTP server of the settings.
type Email struct {
	To []string `json:"to"`
	// Password is the secret of the namespace with the password of the server's user. The default is the
	// secret smtp.
	Password *Text `json:"password,omitempty"`
}

const emailToMax = 50

func (e *Email) check() error {
	if len(e.To) == 0 || len(e.To) > emailToMax {
		return fmt.Errorf("email.to must be a list of 1 to %d addresses", emailToMax)
	}
	for _, to := range e.To {
		if err := checkAddress(to); err != nil {
			return fmt.Errorf("email.to: %w", err)
		}
	}
	if e.Password != nil && e.Password.Secret == "" {
		return errors.New("email.password must be {secret: NAME}")
	}
	return nil
}

// Mail is the SMTP server of the settings.
type Mail struct {
	URL  string // smtp+starttls://user@host:587, smtps://…, or smtp://… without encryption; "" if there is none
	From string
	TLS  *tls.Config // nil means the settings of the machine
}

// passwordSecret is the default name of the secret with the server's password.
const passwordSecret = "smtp"

// CheckSMTP checks the address of an SMTP server.
func CheckSMTP(text string) error {
	_, err := parseSMTP(text)
	return err
}

// CheckFrom checks the sender of mails.
func CheckFrom(text string) error { return checkAddress(text) }

// server is a parsed address of an SMTP server.
type server struct {
	host, user string
	port       int
	options    []mail.Option
	encrypted  bool
	implicit   bool // TLS from the first byte
}

func parseSMTP(text string) (s server, err error) {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.Path != "" && u.Path != "/" || u.RawQuery != "" {
		return s, errors.New("it is not an address such as smtp+starttls://user@mail.example.org:587")
	}
	if _, has := u.User.Password(); has {
		return s, errors.New("it has a password: set a secret instead (skein secret set NAMESPACE/smtp), and leave the password out")
	}
	s.host, s.user = u.Hostname(), u.User.Username()
	switch u.Scheme {
	case "smtp+starttls":
		s.port, s.encrypted, s.options = 587, true, []mail.Option{mail.WithTLSPolicy(mail.TLSMandatory)}
	case "smtps":
		s.port, s.encrypted, s.implicit = 465, true, true
		s.options = []mail.Option{mail.WithTLSPolicy(mail.TLSOpportunistic)} // connect encrypts the connection, so the server offers no STARTTLS
	case "smtp":
		s.port, s.options = 25, []mail.Option{mail.WithTLSPolicy(mail.NoTLS)}
	default:
		return s, fmt.Errorf("its scheme is %.20q; it must be smtp+starttls, smtps or smtp", u.Scheme)
	}
	if s.user != "" && !s.encrypted {
		return s, errors.New("smtp:// sends a password unencrypted: use smtp+starttls:// or smtps://, or leave the user out")
	}
	if p := u.Port(); p != "" {
		if s.port, err = strconv.Atoi(p); err != nil || s.port < 1 || s.port > 65535 {
			return s, fmt.Errorf("%.10q is not a port", p)
		}
	}
	return s, nil
}

func (e *Email) send(ctx context.Context, m *means, msg *Message) error {
	if m.mail.URL == "" || m.mail.From == "" {
		return errors.New("the node has no SMTP server: set smtp_url and smtp_from on every node")
	}
	s, err := parseSMTP(m.mail.URL)
	if err != nil {
		return fmt.Errorf("setting smtp_url: %w", err)
	}
	options := append(s.options, mail.WithPort(s.port), mail.WithTimeout(callMax))
	if m.mail.TLS != nil {
		options = append(options, mail.WithTLSConfig(m.mail.TLS))
	}
	if s.user != "" {
		secret := Text{Secret: passwordSecret}
		if e.Password != nil {
			secret = *e.Password
		}
		password, err := m.resolved(ctx, secret)
		if err != nil {
			return err
		}
		options = append(options, mail.WithSMTPAuth(mail.SMTPAuthAutoDiscover), mail.WithUsername(s.user), mail.WithPassword(password))
	}
	letter, err := e.letter(m.mail.From, msg)
	if err != nil {
		return permanent("the mail cannot be written: %v", err)
	}
	c, end, err := s.connect(ctx, m.mail.TLS, options)
	defer end()
	if err != nil {
		return err
	}
	return hand(c, letter, m)
}

// letter makes the mail. All mails of an incident form one thread.
func (e *Email) letter(from string, msg *Message) (*mail.Msg, error) {
	letter := mail.NewMsg()
	if err := errors.Join(letter.From(from), letter.To(e.To...)); err != nil {
		return nil, err
	}
	domain := from[strings.LastIndexByte(from, '@')+1:]
	domain = strings.TrimSuffix(domain, ">")
	letter.SetMessageIDWithValue(msg.Data.ID + "@" + domain)
	if msg.Data.Seq > 1 {
		first := "<" + noticeID(msg.Data.Incident, 1) + "@" + domain + ">"
		letter.SetGenHeader(mail.HeaderInReplyTo, first)
		letter.SetGenHeader(mail.HeaderReferences, first)
	}
	letter.SetGenHeader("Auto-Submitted", "auto-generated")
	letter.SetDateWithValue(msg.Timestamp)
	letter.Subject(oneLine(msg.subject()))
	letter.SetBodyString(mail.TypeTextPlain, msg.subject()+"\n\n"+strings.Join(msg.lines(), "\n")+"\n")
	if msg.Type == "incident."+alert.KindOpened && msg.Data.Severity == "critical" {
		letter.SetImportance(mail.ImportanceHigh)
	}
	return letter, nil
}

// subjectMax bounds the subject of a mail, in bytes.
const subjectMax = 200

func oneLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > subjectMax {
		text = strings.ToValidUTF8(text[:subjectMax], "") + "…"
	}
	return text
}

package config

import "skein.dev/skein/internal/notify"

// mailSettings are the settings of the server that sends mail.
func mailSettings() []setting {
	return []setting{
		{name: "smtp_url", def: text(""), set: setSMTP},
		{name: "smtp_from", def: text(""), set: setSMTPFrom},
	}
}

func setSMTP(c *Config, v string) error {
	if c.SMTP = v; v == "" {
		return nil
	}
	return notify.CheckSMTP(v)
}

func setSMTPFrom(c *Config, v string) error {
	if c.SMTPFrom = v; v == "" {
		return nil
	}
	return notify.CheckFrom(v)
}

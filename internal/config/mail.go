package config

import "skein.dev/skein/internal/notify"

// alertSettings returns the settings of the channels of alerts.
func alertSettings() []setting {
	return []setting{
		{name: "alert_commands", def: text("false"), set: func(c *Config, v string) error {
			c.AlertCommands = v == "true"
			return oneOf(v, "true", "false")
		}},
		{name: "watchdog_file", def: text(""), set: func(c *Config, v string) error { return setPath(&c.Watchdog, v) }},
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

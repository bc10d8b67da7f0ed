package config

import (
	"errors"
	"os"
)

// configText reads the config file. It implements koanf.Provider. It keeps the text of a file that is not
// regular, because the second read of a pipe is empty, and a reload would reset all settings to their
// defaults.
type configText struct {
	path string
	kept []byte
	read bool // kept has the content of the file
}

func (c *configText) at(path string) *configText {
	c.path = path
	return c
}

// ReadBytes implements koanf.Provider.
func (c *configText) ReadBytes() ([]byte, error) {
	if c.read {
		return c.kept, nil
	}
	f, err := os.Stat(c.path)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(c.path)
	if err == nil && !f.Mode().IsRegular() {
		c.kept, c.read = text, true
	}
	return text, err
}

// Read implements koanf.Provider.
func (*configText) Read() (map[string]any, error) {
	return nil, errors.ErrUnsupported
}

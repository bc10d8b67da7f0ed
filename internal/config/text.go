package config

import "os"

// configText reads the config file. It keeps the text of a file that is not regular, because the second read
// of a pipe is empty, and a reload would reset all settings to their defaults.
type configText struct {
	kept []byte
	read bool // kept has the content of the file
}

// of returns the text of the file.
func (c *configText) of(path string) ([]byte, error) {
	if c.read {
		return c.kept, nil
	}
	f, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(path)
	if err == nil && !f.Mode().IsRegular() {
		c.kept, c.read = text, true
	}
	return text, err
}

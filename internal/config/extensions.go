package config

import (
	"fmt"
	"path/filepath"
)

// extensionsShared is where the extensions of a machine are for all its nodes.
const extensionsShared = "/etc/skein/extensions"

func setExtensions(c *Config, v string) error {
	c.Extensions = nil
	if v == "none" {
		c.Extensions = []string{}
		return nil
	}
	for _, folder := range filepath.SplitList(v) {
		if !filepath.IsAbs(folder) {
			return fmt.Errorf("%q is not the absolute path of a folder: write several as /A:/B, or none", folder)
		}
		c.Extensions = append(c.Extensions, filepath.Clean(folder))
	}
	return nil
}

// ExtensionFolders returns the folders of extensions, of which the first wins.
func (c *Config) ExtensionFolders() []string {
	if c.Extensions != nil {
		return c.Extensions
	}
	return []string{filepath.Join(c.Data, "extensions"), extensionsShared}
}

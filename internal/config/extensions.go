package config

import (
	"fmt"
	"path/filepath"
)

// extensionsShared is the folder of the extensions for all nodes of a machine.
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

// ExtensionFolders returns the folders of extensions. If two folders have the same extension, that of the
// first folder is used.
func (c *Config) ExtensionFolders() []string {
	if c.Extensions != nil {
		return c.Extensions
	}
	return []string{filepath.Join(c.Data, "extensions"), extensionsShared}
}

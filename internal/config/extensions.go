package config

import (
	"fmt"
	"path/filepath"

	"skein.dev/skein/internal/workflow"
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

// sourceMemoryMin is the least memory with which the clients of brokers work.
const sourceMemoryMin = 64 << 20

func setSourceMemory(c *Config, v string) (err error) {
	if c.SourceMemory, err = workflow.ParseSize(v); err == nil && c.SourceMemory < sourceMemoryMin {
		return fmt.Errorf("%s is less than 64Mi, the least with which the clients of brokers work", v)
	}
	return err
}

// ExtensionFolders returns the folders of extensions. If two folders have the same extension, that of the
// first folder is used.
func (c *Config) ExtensionFolders() []string {
	if c.Extensions != nil {
		return c.Extensions
	}
	return []string{filepath.Join(c.Data, "extensions"), extensionsShared}
}

package house

import (
	"encoding/json"
	"log/slog"

	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/extension"
	"skein.dev/skein/internal/kind/container"
	"skein.dev/skein/internal/kind/python"
	"skein.dev/skein/internal/kind/sql"
)

// Book reads the kinds that this machine runs as processes. missing says why it cannot run some of Skein's
// own kinds. version is the version of this program.
func Book(cfg *config.Config, version string) (b *extension.Book, missing map[string]error) {
	containers, _ := json.Marshal(cfg.Containers) // encoding texts cannot fail
	databases, _ := json.Marshal(sql.Settings{Protected: cfg.Unwatched()})
	environments, _ := json.Marshal(python.Settings{Most: cfg.Environments})
	own, missing := Extensions(map[string]json.RawMessage{container.Name: containers, python.Name: environments, sql.Name: databases})
	return extension.Open(cfg.ExtensionFolders(), version, own), missing
}

// Open does the same as Book, and logs what it found.
func Open(cfg *config.Config, version string, log *slog.Logger) *extension.Book {
	b, missing := Book(cfg, version)
	for name, err := range missing {
		log.Info("this machine gets no tasks of a kind", "code", "kind_missing", "kind", name, "why", err)
	}
	Report(b.Found(), log)
	return b
}

// Report logs which extensions are used and which are refused.
func Report(found []extension.Found, log *slog.Logger) {
	for _, f := range found {
		if f.Err != nil {
			log.Warn("an extension was refused; repair it, then run skein extension reload", "code", "extension_refused", "folder", f.Folder, "err", f.Err)
			continue
		}
		log.Info("an extension is in use", "code", "extension_used", "extension", f.Name, "version", f.Version, "folder", f.Folder, "kinds", len(f.Kinds))
	}
}

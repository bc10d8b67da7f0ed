package app

import (
	"encoding/json"
	"log/slog"

	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/extension"
	"skein.dev/skein/internal/kind/container"
	"skein.dev/skein/internal/kind/house"
	"skein.dev/skein/internal/remote"
)

// Extensions reads the kinds that this machine runs as processes, and why it cannot run some of Skein's own.
func Extensions(cfg *config.Config) (b *extension.Book, missing map[string]error) {
	containers, _ := json.Marshal(cfg.Containers) // texts cannot fail
	own, missing := house.Extensions(map[string]json.RawMessage{container.Name: containers})
	return extension.Open(cfg.ExtensionFolders(), Version(), own), missing
}

// openExtensions reads the kinds of this machine, and logs what it found.
func openExtensions(cfg *config.Config, log *slog.Logger) *extension.Book {
	b, missing := Extensions(cfg)
	for name, err := range missing {
		log.Info("this machine gets no tasks of a kind", "code", "kind_missing", "kind", name, "why", err)
	}
	sayExtensions(b.Found(), log)
	return b
}

// sayExtensions logs which extensions are used and which are refused.
func sayExtensions(found []extension.Found, log *slog.Logger) {
	for _, f := range found {
		if f.Err != nil {
			log.Warn("an extension is refused", "code", "extension_refused", "folder", f.Folder, "err", f.Err)
			continue
		}
		log.Info("an extension is used", "code", "extension_used", "extension", f.Name, "version", f.Version, "folder", f.Folder, "kinds", len(f.Kinds))
	}
}

// rereadOf returns a function that reads the extensions of a worker again, and registers with them.
func rereadOf(b *extension.Book, w *remote.Worker, log *slog.Logger) func(*config.Config) error {
	return func(*config.Config) error {
		sayExtensions(b.Reload(), log)
		w.Reoffer()
		return nil
	}
}

// rereads returns a function that reads the extensions again, and then calls files, which may be nil.
func (n *Node) rereads(files func(*config.Config) error) func(*config.Config) error {
	return func(to *config.Config) error {
		sayExtensions(n.extensions.Reload(), n.log)
		all := n.extensions.Extensions()
		n.members.extend(all)
		engine.Extend(n.engine.Engine, all)
		if files == nil {
			return nil
		}
		return files(to)
	}
}

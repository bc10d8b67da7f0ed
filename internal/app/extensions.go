package app

import (
	"log/slog"

	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/extension"
	"skein.dev/skein/internal/kind/house"
	"skein.dev/skein/internal/remote"
)

// rereadOf returns a function that reads the extensions of a worker again, and registers the worker with
// them.
func rereadOf(b *extension.Book, w *remote.Worker, log *slog.Logger) func(*config.Config) error {
	return func(*config.Config) error {
		house.Report(b.Reload(), log)
		w.Reoffer()
		return nil
	}
}

// rereads returns a function that reads the extensions again, and then calls files, which may be nil.
func (n *Node) rereads(files func(*config.Config) error) func(*config.Config) error {
	return func(to *config.Config) error {
		house.Report(n.extensions.Reload(), n.log)
		all, refused := n.extensions.Extensions(), n.extensions.Refused()
		n.members.extend(all, refused)
		engine.Extend(n.engine.Engine, all, refused)
		if files == nil {
			return nil
		}
		return files(to)
	}
}

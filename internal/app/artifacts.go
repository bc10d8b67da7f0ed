package app

import (
	"context"
	"fmt"
	"os"

	"skein.dev/skein/internal/artifact"
	"skein.dev/skein/internal/artifact/nodes"
	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/server"
)

// checkArtifacts checks that the folder for the artifacts of all nodes exists, if the settings name one.
func checkArtifacts(cfg *config.Config) error {
	if cfg.Artifacts == "" {
		return nil
	}
	if info, err := os.Stat(cfg.Artifacts); err != nil || !info.IsDir() {
		return cfg.Wrong("artifacts", fmt.Errorf("%s is not a folder: make it, or mount it, on every node", cfg.Artifacts))
	}
	return nil
}

// artifactSource shows the artifacts of this machine to the server.
type artifactSource struct{ nodes.Source }

var _ server.ArtifactSource = artifactSource{}

func artifactsHere(cfg *config.Config) nodes.Source { return nodes.NewSource(cfg.Data, cfg.Artifacts) }

func artifactRef(ref *server.LogRef) artifact.Ref {
	return artifact.Ref{Run: artifact.Run{Namespace: ref.Namespace, Workflow: ref.Workflow, ID: ref.Run.String()},
		Task: ref.Task, Attempt: int(ref.Attempt)}
}

// List implements server.ArtifactSource.
func (s artifactSource) List(ctx context.Context, ref server.LogRef) ([]server.Artifact, error) {
	list, err := s.Source.List(ctx, artifactRef(&ref))
	if err != nil {
		return nil, err
	}
	out := make([]server.Artifact, len(list))
	for i, in := range list {
		out[i] = server.Artifact(in)
	}
	return out, nil
}

// Open implements server.ArtifactSource.
func (s artifactSource) Open(ctx context.Context, ref server.LogRef, name string) (server.ArtifactReader, server.Artifact, error) {
	r, info, err := s.Source.Open(ctx, artifactRef(&ref), name)
	if err != nil {
		return nil, server.Artifact{}, err
	}
	return r, server.Artifact(info), nil
}

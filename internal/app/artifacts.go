package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"skein.dev/skein/internal/artifact"
	"skein.dev/skein/internal/artifact/nodes"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/server"
)

// artifactSource gives the server the artifacts that this node can read.
type artifactSource struct{ nodes.Source }

var _ server.ArtifactSource = artifactSource{}

func artifactRef(ref *server.LogRef) artifact.Ref {
	return artifact.Ref{Run: artifact.Run{Namespace: ref.Namespace, Workflow: ref.Workflow, ID: ref.Run.String()},
		Task: ref.Task, Attempt: int(ref.Attempt)}
}

// List implements server.ArtifactSource.
func (s artifactSource) List(ctx context.Context, ref server.LogRef) ([]server.Artifact, error) {
	list, err := s.Source.List(ctx, artifactRef(&ref))
	if err != nil {
		return nil, readLater(err)
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
		return nil, server.Artifact{}, readLater(err)
	}
	return r, server.Artifact(info), nil
}

// readLater marks an error other than fs.ErrNotExist as one of a store that may answer later.
func readLater(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fmt.Errorf("%w: the store of artifacts cannot be read: %w", errkind.ErrUnavailable, err)
}

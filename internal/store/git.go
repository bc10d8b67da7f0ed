package store

import (
	"context"

	"skein.dev/skein/internal/dag"
)

// GitSource is a folder of a git repository from which a namespace gets workflows.
type GitSource struct {
	Namespace, Name string
	Version         int64       // version of Spec, from 1
	Shard           dag.ShardID // every workflow of the source is in this shard, so that one transaction can change all of them
	Spec            []byte      // in the format of package gitsync
	// State is the result of the last look at the repository, in the form that package gitsync writes. It is
	// nil if there is none yet.
	State    []byte
	Seq      int64  // +1 at every change of State
	By       string // the user who set Spec last
	Created  dag.Micros
	Modified dag.Micros // time of the last change of Spec
}

// Outside is the part of a store that keeps data about other systems.
type Outside interface {
	Connections
	GitSources
}

// GitSourcesMax bounds the git sources of a database.
const GitSourcesMax = 1000

// GitSources is the part of a store that keeps git sources. They are independent of the writers of shards.
type GitSources interface {
	// PutGitSource adds a source, or replaces Spec and By of an existing one. The store sets the times. For
	// an existing source it keeps shard and state. It returns ErrFenced unless the version follows the
	// present one, and ErrRefused if there are GitSourcesMax sources.
	PutGitSource(ctx context.Context, g GitSource) (GitSource, error)
	// SetGitState replaces State, and raises Seq by 1. It returns ErrFenced unless the version and Seq are the
	// present ones.
	SetGitState(ctx context.Context, g GitSource) error
	// DropGitSource removes a source. It returns ErrNotFound if there is none.
	DropGitSource(ctx context.Context, namespace, name string) error
	// GitSourceOf returns a source, or ErrNotFound.
	GitSourceOf(ctx context.Context, namespace, name string) (GitSource, error)
	// GitSourceList lists at most limit sources after the given name, ordered by namespace and name.
	GitSourceList(ctx context.Context, namespace, name string, limit int) ([]GitSource, error)
}

package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"time"

	"skein.dev/skein/internal/artifact"
	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/peer"
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

// artifactSource finds artifacts in the folder where this node keeps them, and in its data folder, where it
// kept them before it had a shared folder.
type artifactSource struct{ stores []artifact.Folder }

var _ server.ArtifactSource = artifactSource{}

func newArtifactSource(cfg *config.Config) artifactSource {
	s := artifactSource{stores: []artifact.Folder{{Path: cfg.Data}}}
	if cfg.Artifacts != "" {
		s.stores = append([]artifact.Folder{{Path: cfg.Artifacts}}, s.stores...)
	}
	return s
}

func artifactRef(ref *server.LogRef) artifact.Ref {
	return artifact.Ref{Run: artifact.Run{Namespace: ref.Namespace, Workflow: ref.Workflow, ID: ref.Run.String()},
		Task: ref.Task, Attempt: int(ref.Attempt)}
}

// List implements server.ArtifactSource.
func (s artifactSource) List(ctx context.Context, ref server.LogRef) ([]server.Artifact, error) {
	for _, st := range s.stores {
		list, err := st.List(ctx, artifactRef(&ref))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		out := make([]server.Artifact, len(list))
		for i, in := range list {
			out[i] = server.Artifact(in)
		}
		return out, err
	}
	return nil, fs.ErrNotExist
}

// Open implements server.ArtifactSource.
func (s artifactSource) Open(ctx context.Context, ref server.LogRef, name string) (server.ArtifactReader, server.Artifact, error) {
	for _, st := range s.stores {
		r, info, err := st.Open(ctx, artifactRef(&ref), name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, server.Artifact{}, err
		}
		return r, server.Artifact(info), nil
	}
	return nil, server.Artifact{}, fs.ErrNotExist
}

// holdingPath is the path at which a node is asked whether it has the artifacts of an attempt.
const holdingPath = peer.Prefix + "artifacts"

// holderMax bounds the question to the other nodes.
const holderMax = 5 * time.Second

// holder asks the other nodes which of them has the artifacts of an attempt.
func (m *membership) holder(ctx context.Context, ref server.LogRef) (dag.HandlerID, bool) {
	if m.node == nil {
		return 0, false
	}
	ctx, cancel := context.WithTimeout(ctx, holderMax)
	defer cancel()
	members, _ := m.node.View()
	self := m.node.Self().Handler
	found, asked := make(chan dag.HandlerID, len(members)), 0
	for i := range members {
		to := members[i]
		if to.Worker || to.Handler == self {
			continue
		}
		asked++
		go func() {
			has := false
			if err := m.peers.Call(ctx, to, holdingPath, artifactRef(&ref), &has); err != nil || !has {
				to.Handler = 0
			}
			found <- to.Handler
		}()
	}
	for range asked {
		if h := <-found; h != 0 {
			return h, true
		}
	}
	return 0, false
}

// holding answers the holder of another node.
func holding(s artifactSource) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var ref artifact.Ref
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, holdingBytesMax)).Decode(&ref); err != nil {
			http.Error(w, "body: "+err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(s.has(r.Context(), ref)) // the caller has gone
	}
}

// holdingBytesMax bounds that question.
const holdingBytesMax = 64 << 10

func (s artifactSource) has(ctx context.Context, ref artifact.Ref) bool {
	return slices.ContainsFunc(s.stores, func(st artifact.Folder) bool { _, err := st.List(ctx, ref); return err == nil })
}

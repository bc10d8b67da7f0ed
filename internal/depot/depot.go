// Package depot has the stores of artifacts and logs that the settings of a node name, and the ways that
// artifacts take to them: a folder of the node, a folder that the nodes share, or objects.
//
// Objects are written by nodes only, so neither keepers nor workers have their credentials. The keeper of
// a node leaves artifacts in the folder outgoing of the data folder, and the node delivers them before it
// reports the success of their attempt. Workers bring theirs to their home node.
package depot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"skein.dev/skein/internal/artifact"
	"skein.dev/skein/internal/artifact/nodes"
	"skein.dev/skein/internal/artifact/objects"
	"skein.dev/skein/internal/blob"
	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/dbadmin"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/logs"
	"skein.dev/skein/internal/logs/segments"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/worker"
)

// outgoingName is the folder in the data folder in which artifacts wait for their delivery.
const outgoingName = "outgoing"

// probeMax bounds the probe of a store at the start.
const probeMax = 15 * time.Second

// Secret returns the value of a secret of a namespace.
type Secret func(ctx context.Context, namespace, name string) ([]byte, error)

// Depot is the stores of a node.
type Depot struct {
	cfg      *config.Config
	objects  *objects.Store    // nil: artifacts are files
	delivery *objects.Delivery // nil: likewise
	log      *slog.Logger

	logObjects blob.Store        // nil: no log is an object
	segments   *segments.Store   // nil: there is no such source, or Logs was not called
	sweeper    *segments.Sweeper // of segments
}

// Open opens the stores of the settings. It refuses a folder that is missing, and objects that refuse this
// node. Objects that do not answer are logged: artifacts wait for them.
func Open(ctx context.Context, cfg *config.Config, secret Secret, log *slog.Logger) (*Depot, error) {
	if cfg.Artifacts != "" {
		if info, err := os.Stat(cfg.Artifacts); err != nil || !info.IsDir() {
			return nil, cfg.Wrong("artifacts", fmt.Errorf("%s is not a folder: make it, or mount it, on every node", cfg.Artifacts))
		}
	}
	d := &Depot{cfg: cfg, log: log}
	err := d.open(secret, func(blobs blob.Store) error { return probe(ctx, blobs, log) })
	if d.objects != nil {
		d.delivery = objects.NewDelivery(d.objects, d.outgoing(), log)
	}
	return d, err
}

// open opens the objects of the settings, and tries each store.
func (d *Depot) open(secret Secret, try func(blob.Store) error) error {
	for _, of := range []struct {
		setting string
		at      *blob.Location
		take    func(blob.Store)
	}{
		{"artifacts", d.cfg.ArtifactObjects, func(b blob.Store) { d.objects = objects.New(b) }},
		{"logs", d.cfg.LogObjects, func(b blob.Store) { d.logObjects = b }},
	} {
		if of.at == nil {
			continue
		}
		blobs, err := Objects(d.cfg, of.at, secret)
		if err == nil {
			err = try(blobs)
		}
		if err != nil {
			return d.cfg.Wrong(of.setting, err)
		}
		of.take(blobs)
	}
	return nil
}

// Look opens the stores for a process that only reads, with the secrets of a database. It makes no request.
func Look(cfg *config.Config, st store.Secrets) (*Depot, error) {
	d := &Depot{cfg: cfg, log: slog.New(slog.DiscardHandler)}
	chain, err := dbadmin.Providers(cfg, st, d.log)
	if err != nil {
		return nil, err
	}
	return d, d.open(func(ctx context.Context, namespace, name string) ([]byte, error) {
		return chain.Value(ctx, namespace, name, false)
	}, func(blob.Store) error { return nil })
}

// Objects opens the store at a location of the settings.
func Objects(cfg *config.Config, at *blob.Location, secret Secret) (blob.Store, error) {
	roots, err := cfg.Roots()
	if err != nil {
		return nil, err
	}
	return blob.Open(at, blob.Options{Roots: roots, Proxy: cfg.EgressProxy, Secret: secret})
}

func probe(ctx context.Context, blobs blob.Store, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, probeMax)
	defer cancel()
	err := blob.Probe(ctx, blobs)
	if err == nil || errors.Is(err, blob.ErrRefused) {
		return err
	}
	log.Warn("the object store does not answer; artifacts and logs wait for it", "code", "objects_away", "store", blobs.Name(), "err", err)
	return nil
}

func (d *Depot) outgoing() artifact.Folder {
	return artifact.Folder{Path: filepath.Join(d.cfg.Data, outgoingName)}
}

// shared returns the store of artifacts that all nodes use; nil: there is none.
func (d *Depot) shared() nodes.Store {
	switch {
	case d.objects != nil:
		return d.objects
	case d.cfg.Artifacts != "":
		return artifact.Folder{Path: d.cfg.Artifacts}
	}
	return nil
}

// Source returns the artifacts that this node can read without another one.
func (d *Depot) Source() nodes.Source { return nodes.NewSource(d.cfg.Data, d.shared()) }

// Folder returns the folder in which the keeper of this node stores artifacts; "": the data folder.
func (d *Depot) Folder() string {
	if d.objects != nil {
		return d.outgoing().Path
	}
	return d.cfg.Artifacts
}

// Home returns the keeper of the artifacts that workers bring to this node.
func (d *Depot) Home() *artifact.Keeper {
	k := &artifact.Keeper{Store: artifact.Folder{Path: d.cfg.Data}, Limits: artifact.LimitsDefault}
	switch {
	case d.objects != nil:
		k.Store = objects.Spool{Store: d.objects, Folder: d.outgoing()}
	case d.cfg.Artifacts != "":
		k.Store = artifact.Folder{Path: d.cfg.Artifacts}
	}
	return k
}

// Waiting reports whether artifacts of an attempt of this node have to be delivered.
func (d *Depot) Waiting(k *worker.Key) bool {
	return d.delivery != nil && d.delivery.Waiting(refOf(k))
}

// Deliver brings the artifacts of an attempt of this node to the objects.
func (d *Depot) Deliver(ctx context.Context, k *worker.Key) error {
	return d.delivery.Deliver(ctx, refOf(k))
}

func refOf(k *worker.Key) artifact.Ref {
	return artifact.Ref{Run: artifact.Run{Namespace: k.Namespace, Workflow: k.Workflow, ID: k.RunID}, Task: k.Task, Attempt: k.Attempt}
}

// Clean removes artifacts that an earlier process has left for attempts that this one does not continue. It
// is called before attempts begin.
func (d *Depot) Clean(a *worker.Adopted) {
	if d.delivery == nil {
		return
	}
	here := map[string]bool{}
	for i := range a.Running {
		here[a.Running[i].Key.RunID] = true
	}
	for i := range a.Ended {
		here[a.Ended[i].Key.RunID] = true
	}
	d.delivery.Clean(here)
}

// Roots returns the folders that have a folder of each namespace.
func (d *Depot) Roots() (all []string) {
	for _, root := range []string{d.cfg.Data, d.cfg.Logs, d.cfg.Artifacts} {
		if root != "" {
			all = append(all, filepath.Join(root, "logs"), filepath.Join(root, "artifacts"))
		}
	}
	return all
}

// Logs returns where the logs of all nodes are: in live and, if the settings say so, whole in objects. live
// may be nil for a node that is alone: then the files of this node are the live ends.
func (d *Depot) Logs(live logs.Store) logs.Store {
	if d.logObjects == nil {
		return live
	}
	if live == nil {
		live = logs.Folder{Path: d.cfg.Data}
	}
	d.segments = segments.New(d.logObjects, live, d.cfg.Data, d.log)
	d.sweeper = segments.NewSweeper(d.segments)
	return d.segments
}

// Run writes logs to objects until ctx ends.
func (d *Depot) Run(ctx context.Context) {
	if d.segments != nil {
		d.segments.Run(ctx)
	}
}

// Flush writes the rest of the logs to objects.
func (d *Depot) Flush(ctx context.Context) error {
	if d.segments == nil {
		return nil
	}
	return d.segments.Flush(ctx)
}

// Delete deletes the log files and artifacts of deleted runs on this node and in the shared stores.
func (d *Depot) Delete(ctx context.Context, gone []logs.Run) error {
	err := logs.Folder{Path: d.cfg.Data}.Delete(ctx, gone)
	if d.cfg.Logs != "" {
		err = errors.Join(err, logs.Folder{Path: d.cfg.Logs}.Delete(ctx, gone))
	}
	if d.segments != nil {
		err = errors.Join(err, d.segments.Delete(ctx, gone))
	}
	runs := make([]artifact.Run, len(gone))
	for i, r := range gone {
		runs[i] = artifact.Run{Namespace: r.Namespace, Workflow: r.Workflow, ID: r.ID.String()}
	}
	return errors.Join(err, d.Source().Delete(ctx, runs))
}

// Sweeper returns a function that deletes objects that no reader sees; nil: there are no objects. exists
// returns an error of the kind errkind.ErrNotFound for a run that is gone. owns reports whether this node
// owns a shard: the owner of the first sweeps.
func (d *Depot) Sweeper(owns func(dag.ShardID) bool, exists func(context.Context, dag.RunID) error) func(context.Context) error {
	if d.objects == nil && d.sweeper == nil {
		return nil
	}
	gone := func(ctx context.Context, run string) (bool, error) {
		id, err := dag.ParseRunID(run)
		if err != nil {
			return false, nil // the folder belongs to another program
		}
		if err = exists(ctx, id); errors.Is(err, errkind.ErrNotFound) {
			return true, nil
		}
		return false, err
	}
	return func(ctx context.Context) (err error) {
		if !owns(0) {
			return nil
		}
		if d.objects != nil {
			err = d.objects.Sweep(ctx, gone)
		}
		if d.sweeper != nil {
			err = errors.Join(err, d.sweeper.Sweep(ctx, gone))
		}
		return err
	}
}

// Package depot opens the stores of artifacts and logs that the settings of a node name: a folder of the
// node, a folder that all nodes share, or an object store. It also brings artifacts into them.
//
// Only nodes write objects, so neither keepers nor workers have the credentials. The keeper of a node leaves
// artifacts in the folder outgoing of the data folder. The node delivers them before it reports that their
// attempt has succeeded. Workers send their artifacts to their home node.
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
	"skein.dev/skein/internal/metric"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/worker"
)

// outgoingName names the folder in the data folder that holds the artifacts to deliver.
const outgoingName = "outgoing"

// probeMax bounds the probe of a store when the node starts.
const probeMax = 15 * time.Second

// Secret returns the value of a secret in a namespace.
type Secret func(ctx context.Context, namespace, name string) ([]byte, error)

// Depot holds the stores of a node.
type Depot struct {
	cfg      *config.Config
	objects  *objects.Store    // nil if artifacts are files
	delivery *objects.Delivery // nil if artifacts are files
	log      *slog.Logger

	logObjects blob.Store        // nil if logs are not written to objects
	segments   *segments.Store   // nil if logs are not written to objects, or Logs was not called yet
	sweeper    *segments.Sweeper // deletes old segments
}

// Open opens the stores that the settings name. It returns an error if a folder is missing, or if an object
// store refuses this node. If an object store does not answer, Open logs this, and artifacts wait for the
// store.
func Open(ctx context.Context, cfg *config.Config, secret Secret, log *slog.Logger) (*Depot, error) {
	if cfg.Artifacts != "" {
		if info, err := os.Stat(cfg.Artifacts); err != nil || !info.IsDir() {
			return nil, cfg.Wrong("artifacts", fmt.Errorf("%s is not a folder: create it, or mount it, on every node", cfg.Artifacts))
		}
	}
	d := &Depot{cfg: cfg, log: log}
	err := d.open(secret, func(blobs blob.Store) error { return probe(ctx, blobs, log) })
	if d.objects != nil {
		d.delivery = objects.NewDelivery(d.objects, d.outgoing(), log)
	}
	return d, err
}

// open opens the object stores that the settings name, and calls try with each.
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

// Look opens the stores for a process that only reads. It takes secrets from the given database, and makes no
// request.
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

// Objects opens the object store at a location that the settings name.
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

// shared returns the artifact store that all nodes use, or nil if there is none.
func (d *Depot) shared() nodes.Store {
	switch {
	case d.objects != nil:
		return d.objects
	case d.cfg.Artifacts != "":
		return artifact.Folder{Path: d.cfg.Artifacts}
	}
	return nil
}

// Source returns the artifacts that this node can read without the help of another node.
func (d *Depot) Source() nodes.Source { return nodes.NewSource(d.cfg.Data, d.shared()) }

// Folder returns the folder in which the keeper of this node stores artifacts. "" stands for the data folder.
func (d *Depot) Folder() string {
	if d.objects != nil {
		return d.outgoing().Path
	}
	return d.cfg.Artifacts
}

// Home returns the store for artifacts that workers send to this node.
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

// Waiting reports whether artifacts of an attempt of this node are still to be delivered.
func (d *Depot) Waiting(k *worker.Key) bool {
	return d.delivery != nil && d.delivery.Waiting(refOf(k))
}

// Deliver brings the artifacts of an attempt of this node into the object store.
func (d *Depot) Deliver(ctx context.Context, k *worker.Key) error {
	return d.delivery.Deliver(ctx, refOf(k))
}

func refOf(k *worker.Key) artifact.Ref {
	return artifact.Ref{Run: artifact.Run{Namespace: k.Namespace, Workflow: k.Workflow, ID: k.RunID}, Task: k.Task, Attempt: k.Attempt}
}

// Clean removes artifacts of an earlier process, except those of attempts that this process has adopted. Call
// it before attempts begin.
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

// Roots returns the folders that hold one folder for each namespace.
func (d *Depot) Roots() (all []string) {
	for _, root := range []string{d.cfg.Data, d.cfg.Logs, d.cfg.Artifacts} {
		if root != "" {
			all = append(all, filepath.Join(root, "logs"), filepath.Join(root, "artifacts"))
		}
	}
	return all
}

// Logs returns the store of the logs of all nodes. It is live, unless the settings write logs to objects.
// Then it reads whole logs from the objects, and the ends that are still being written from live. live may be
// nil on a single node, whose own files are the live ends.
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

// Show shows how many logs wait for the store of objects.
func (d *Depot) Show(p *metric.Page) {
	if d.segments != nil {
		p.Set("log_segments_waiting", float64(d.segments.Waiting()))
	}
}

// Run copies logs to objects until ctx ends.
func (d *Depot) Run(ctx context.Context) {
	if d.segments != nil {
		d.segments.Run(ctx)
	}
}

// Flush copies the rest of the logs to objects.
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

// Sweeper returns a function that deletes objects that no reader can reach. It returns nil if there are no
// objects. exists must return an error of the kind errkind.ErrNotFound for a deleted run. owns reports
// whether this node owns a shard. Only the owner of the first shard sweeps.
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

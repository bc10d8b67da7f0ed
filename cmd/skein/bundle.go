package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"skein.dev/skein/internal/atomicfile"
	"skein.dev/skein/internal/workflow"
	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

func bundleCmd(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "bundle", Short: "Move workflows and what they use to another cluster, as one file",
		Long: `A bundle is one file with workflows and their files, connections, channels, queues and resource classes. It has no secrets,
only their names. Equal definitions make the same bytes, so a bundle can be compared and signed.`,
		Example: "  skein bundle export --namespace shop shop.bundle\n  skein bundle diff shop.bundle --server https://prod.example.com\n  skein bundle apply shop.bundle --server https://prod.example.com",
	}
	needsVerb(cmd)
	cmd.AddCommand(bundleExportCmd(c), bundleDiffCmd(c), bundleApplyCmd(c))
	return cmd
}

func bundleExportCmd(c *cli) *cobra.Command {
	var namespace string
	cmd := &cobra.Command{
		Use: "export FILE", Short: "Write the definitions of a cluster to a file",
		Long: `Writes the current version of each workflow with its files, connections, channels, queues and resource classes to a file. With
--namespace, only those of one namespace, and the shared queues and classes whose names its workflows contain. Paused workflows
count; that they are paused is not kept.`,
		Example: "  skein bundle export all.bundle\n  skein bundle export --namespace shop shop.bundle",
		Args:    cobra.ExactArgs(1),
		RunE: c.do(c.reading(func(ctx context.Context, s *session, args []string) error {
			b, err := exported(ctx, c, s, namespace)
			if err != nil {
				return err
			}
			data, err := b.bytes()
			if err != nil {
				return err
			}
			if err := atomicfile.Write(args[0], data, 0o644); err != nil {
				return unreadable(args[0], err)
			}
			c.say("%s: %d definitions, %d bytes, SHA-256 %x", args[0], len(b.items), len(data), sha256.Sum256(data))
			return nil
		})),
	}
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "only what belongs to this namespace")
	notSettings(cmd.Flags(), "namespace")
	return cmd
}

// exported reads the definitions of a server.
func exported(ctx context.Context, c *cli, s *session, namespace string) (*bundle, error) {
	b := newBundle()
	for w, err := range s.EachWorkflow(ctx, namespace) {
		if err != nil {
			return nil, err
		}
		v, err := s.Version(ctx, w.Workflow, w.Version, skein.WithFiles())
		if err != nil {
			return nil, err
		}
		if dir := text(v.Dir); dir != "" {
			c.say("%s was applied from the folder %s: files that it does not name under files are not in the bundle", w.Workflow, dir)
		}
		b.workflow(w.Namespace+"/"+w.Name, &v)
	}
	if err := errors.Join(addConnections(ctx, s, b, namespace), addChannels(ctx, s, b, namespace)); err != nil {
		return nil, err
	}
	return b, sharedDefinitions(ctx, s, b, namespace)
}

// addConnections adds the connections of a namespace, or of all namespaces if it is "".
func addConnections(ctx context.Context, s *session, b *bundle, namespace string) error {
	all, err := everyPage(func(cursor string) (api.List[api.Connection], error) {
		return skein.NewConnections(s.Client).List(ctx, namespace, cursor, 1000)
	})
	for i := range all {
		err = errors.Join(err, b.config(bundleConnection, all[i].Namespace+"/"+all[i].Name, all[i].Config))
	}
	return err
}

// addChannels adds the channels of a namespace, or of all namespaces if it is "".
func addChannels(ctx context.Context, s *session, b *bundle, namespace string) error {
	all, err := everyPage(func(cursor string) (api.List[api.Channel], error) {
		return skein.NewAlerts(s.Client).Channels(ctx, namespace, cursor, 1000)
	})
	for i := range all {
		err = errors.Join(err, b.config(bundleChannel, all[i].Namespace+"/"+all[i].Name, all[i].Config))
	}
	return err
}

// sharedDefinitions adds the queues and classes. With a namespace, these are its own ones, and the shared ones
// that its workflows name.
func sharedDefinitions(ctx context.Context, s *session, b *bundle, namespace string) error {
	named := func(name string) bool {
		of, _, own := strings.Cut(name, "/")
		if namespace == "" || own {
			return namespace == "" || of == namespace
		}
		for i := range b.items {
			if item := &b.items[i]; item.Kind == bundleWorkflow && bytes.Contains(b.blobs[item.Source], []byte(name)) {
				return true
			}
		}
		return false
	}
	queues, err := everyPage(func(cursor string) (api.List[api.Queue], error) { return s.Queues(ctx, cursor, 1000) })
	if err != nil {
		return err
	}
	for i := range queues {
		if q := &queues[i]; named(q.Name) && !strings.HasPrefix(q.Name, "system.") {
			err = errors.Join(err, b.config(bundleQueue, q.Name, queueRequest(q)))
		}
	}
	classes, failed := s.Classes(ctx)
	for i := range classes.Items {
		if is := &classes.Items[i]; !is.Builtin && named(is.Name) {
			err = errors.Join(err, b.config(bundleClass, is.Name, api.ClassRequest{CPU: is.CPU, Memory: is.Memory}))
		}
	}
	return errors.Join(err, failed)
}

func queueRequest(q *api.Queue) api.QueueRequest {
	out := api.QueueRequest{PerKey: text(q.PerKey), Order: q.Order, Overflow: q.Overflow, Rate: text(q.Rate)}
	if q.Limit != nil {
		out.Limit = *q.Limit
	}
	return out
}

// bundleChange is what an apply of a bundle does to a definition.
type bundleChange struct {
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	Change string `json:"change"` // created, changed, same or kept
	item   *bundleItem
}

// The changes of an apply.
const (
	bundleCreated = "created"
	bundleChanged = "changed"
	bundleSame    = "same"
	bundleKept    = "kept" // the definition differs, and an apply does not change it
)

// compared compares a bundle with a server. With replace, an apply changes definitions that exist.
func compared(ctx context.Context, s *session, b *bundle, replace bool) ([]bundleChange, error) {
	there, err := exportedFor(ctx, s, b)
	if err != nil {
		return nil, err
	}
	type key struct{ kind, name string }
	known := make(map[key]*bundleItem, len(there.items))
	for i := range there.items {
		known[key{there.items[i].Kind, there.items[i].Name}] = &there.items[i]
	}
	all := make([]bundleChange, len(b.items))
	for i := range b.items {
		item := &b.items[i]
		change := bundleKept
		switch is := known[key{item.Kind, item.Name}]; {
		case is == nil:
			change = bundleCreated
		case sameItem(is, item):
			change = bundleSame
		case item.Kind == bundleWorkflow || replace:
			change = bundleChanged
		}
		all[i] = bundleChange{item.Kind, item.Name, change, item}
	}
	return all, nil
}

// sameItem compares the contents of two items, by the hashes of texts and files.
func sameItem(x, y *bundleItem) bool {
	a, err := json.Marshal(x)
	b, err2 := json.Marshal(y)
	return err == nil && err2 == nil && bytes.Equal(a, b)
}

// exportedFor reads from a server the definitions that a bundle also has.
func exportedFor(ctx context.Context, s *session, b *bundle) (*bundle, error) {
	there, kinds := newBundle(), map[string]bool{}
	for i := range b.items {
		item := &b.items[i]
		if item.Kind != bundleWorkflow {
			kinds[item.Kind] = true
			continue
		}
		w, err := s.Workflow(ctx, item.Name)
		if errors.Is(err, skein.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		v, err := s.Version(ctx, item.Name, w.Latest, skein.WithFiles())
		if err != nil {
			return nil, err
		}
		there.workflow(item.Name, &v)
	}
	if len(kinds) == 0 {
		return there, nil
	}
	err := configsFor(ctx, s, there, b)
	return there, err
}

// configsFor reads from a server the connections, channels, queues and classes of the namespaces of a bundle.
func configsFor(ctx context.Context, s *session, there, b *bundle) error {
	of := func(kind string) (spaces []string) {
		seen := map[string]bool{}
		for i := range b.items {
			if ns, _, _ := strings.Cut(b.items[i].Name, "/"); b.items[i].Kind == kind && !seen[ns] {
				seen[ns] = true
				spaces = append(spaces, ns)
			}
		}
		return spaces
	}
	var err error
	for _, ns := range of(bundleConnection) {
		err = errors.Join(err, addConnections(ctx, s, there, ns))
	}
	for _, ns := range of(bundleChannel) {
		err = errors.Join(err, addChannels(ctx, s, there, ns))
	}
	if err != nil {
		return err
	}
	if len(of(bundleQueue))+len(of(bundleClass)) == 0 {
		return nil
	}
	return sharedDefinitions(ctx, s, there, "")
}

func bundleTable(c *cli, all []bundleChange) error {
	return show(c, all, func(x bundleChange) string { return x.Name }, []column[bundleChange]{
		{head: "KIND", get: func(x bundleChange) string { return x.Kind }},
		{head: "NAME", get: func(x bundleChange) string { return x.Name }},
		{head: "CHANGE", get: func(x bundleChange) string { return x.Change }},
	})
}

func bundleDiffCmd(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "diff FILE", Short: "Show what an apply of a bundle would change, and change nothing",
		Long: "Compares a bundle with the definitions of a server: created, changed, same, or kept (it differs, and apply keeps what is there).\n" +
			"Definitions that only the server has are not shown.",
		Example: "  skein bundle diff shop.bundle",
		Args:    cobra.ExactArgs(1),
		RunE: c.do(c.reading(func(ctx context.Context, s *session, args []string) error {
			b, err := readBundle(args[0])
			if err != nil {
				return err
			}
			all, err := compared(ctx, s, b, false)
			if err != nil {
				return err
			}
			return bundleTable(c, all)
		})),
	}
}

func bundleApplyCmd(c *cli) *cobra.Command {
	var replace bool
	cmd := &cobra.Command{
		Use: "apply FILE", Short: "Apply the definitions of a bundle",
		Long: `Applies the definitions of a bundle that this server does not have, and a new version of each workflow that differs. Connections,
channels, queues and classes that exist are kept as they are, because they often differ between clusters; --replace
changes them, too. The workflows come last. All of them are checked before the first: if one has a fault, none is applied.
Secrets are not in a bundle: set those that connections and channels name. Nothing is deleted.

Each definition is applied as a whole, and is reported when it is. If an apply breaks off, apply the bundle again: it
changes only what is left.`,
		Example: "  skein bundle apply shop.bundle\n  skein bundle apply shop.bundle --replace",
		Args:    cobra.ExactArgs(1),
		RunE: c.do(c.writing(func(ctx context.Context, s *session, args []string) error {
			b, err := readBundle(args[0])
			if err != nil {
				return err
			}
			all, err := compared(ctx, s, b, replace)
			if err != nil {
				return err
			}
			if err := applyBundle(ctx, c, s, b, all); err != nil {
				return err
			}
			return bundleTable(c, all)
		})),
	}
	cmd.Flags().BoolVar(&replace, "replace", false, "also change connections, channels, queues and classes that exist")
	notSettings(cmd.Flags(), "replace")
	return cmd
}

// applyBundle applies the changes in order, and reports each on stderr. The workflows come last, because they
// may need the other definitions. The server checks all of them before it applies the first one.
func applyBundle(ctx context.Context, c *cli, s *session, b *bundle, all []bundleChange) error {
	checked, done, changes := false, 0, 0
	for i := range all {
		if all[i].applies() {
			changes++
		}
	}
	for i := range all {
		x := &all[i]
		if !x.applies() {
			continue
		}
		var err error
		if x.Kind == bundleWorkflow && !checked {
			checked, err = true, checkBundle(ctx, s, b, all)
		}
		if err == nil {
			if err = applyItem(ctx, s, b, x.item); err != nil {
				err = fmt.Errorf("%s %s: %w", x.Kind, x.Name, err)
			}
		}
		if err != nil {
			if done > 0 {
				c.say("%d of %d changes are applied; when the cause is removed, apply the bundle again: it changes only what is left", done, changes)
			}
			return err
		}
		done++
		c.say("%d/%d %s %s: %s", done, changes, x.Kind, x.Name, x.Change)
	}
	return nil
}

// applies reports whether an apply changes the definition.
func (x *bundleChange) applies() bool { return x.Change == bundleCreated || x.Change == bundleChanged }

// checkBundle asks the server to check the workflows that an apply changes.
func checkBundle(ctx context.Context, s *session, b *bundle, all []bundleChange) error {
	var faults workflow.Errors
	for i := range all {
		if x := &all[i]; x.Kind == bundleWorkflow && x.applies() {
			v, err := s.Validate(ctx, b.request(x.item))
			if err != nil {
				return err
			}
			for _, e := range v.Errors {
				faults = append(faults, workflow.Error{File: e.File, Line: e.Line, Column: e.Column, Key: e.Key, Message: e.Message, Hint: e.Hint, Snippet: e.Snippet})
			}
		}
	}
	return faults.Err()
}

func applyItem(ctx context.Context, s *session, b *bundle, item *bundleItem) error {
	ns, name, _ := strings.Cut(item.Name, "/")
	var err error
	config := map[string]any{}
	switch item.Kind {
	case bundleWorkflow:
		_, err = s.Apply(ctx, item.Name, b.request(item))
	case bundleConnection, bundleChannel:
		if err = json.Unmarshal(item.Config, &config); err != nil {
			break
		}
		if item.Kind == bundleConnection {
			_, err = skein.NewConnections(s.Client).Set(ctx, ns, name, config)
		} else {
			_, err = skein.NewAlerts(s.Client).SetChannel(ctx, ns, name, config)
		}
	case bundleQueue:
		var def api.QueueRequest
		if err = json.Unmarshal(item.Config, &def); err == nil {
			_, err = s.SetQueue(ctx, item.Name, def)
		}
	case bundleClass:
		var def api.ClassRequest
		if err = json.Unmarshal(item.Config, &def); err == nil {
			_, err = s.SetClass(ctx, item.Name, def)
		}
	}
	return err
}

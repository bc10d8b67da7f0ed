package main

import (
	"archive/zip"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"

	api "skein.dev/skein/sdk/api/v1"
)

// A bundle is a zip archive with definitions for another cluster. The entry bundle.json lists them, and the
// entries blobs/SHA256 are the texts and files of the workflows, each one once. Equal definitions make equal
// bytes: the entries are sorted, stored without compression, and have no times.

// The kinds of definitions in a bundle, in the order in which they are applied.
const (
	bundleClass      = "class"
	bundleQueue      = "queue"
	bundleConnection = "connection"
	bundleChannel    = "channel"
	bundleWorkflow   = "workflow"
)

var bundleKinds = []string{bundleClass, bundleQueue, bundleConnection, bundleChannel, bundleWorkflow}

// Bounds of a bundle that is read.
const (
	bundleEntriesMax = 100_000
	bundleBytesMax   = 512 << 20
	bundleListMax    = 64 << 20 // bytes of bundle.json
)

// bundleItem is a definition in a bundle.
type bundleItem struct {
	Kind   string          `json:"kind"`
	Name   string          `json:"name"`             // NAMESPACE/NAME; only NAME for a shared queue or class
	Config json.RawMessage `json:"config,omitempty"` // set for all kinds except workflows
	Source string          `json:"source,omitempty"` // the SHA-256 of the text of a workflow
	Files  []bundleFile    `json:"files,omitempty"`
}

type bundleFile struct {
	Name   string `json:"name"`
	Mode   uint32 `json:"mode"`
	SHA256 string `json:"sha256"`
}

// bundleList is the content of bundle.json.
type bundleList struct {
	Bundle int          `json:"bundle"` // the version of the format: 1
	Items  []bundleItem `json:"items"`
}

// bundle is a bundle in memory.
type bundle struct {
	items []bundleItem
	blobs map[string][]byte
}

func newBundle() *bundle { return &bundle{blobs: map[string][]byte{}} }

// blob adds a content, and returns its name.
func (b *bundle) blob(data []byte) string {
	sum := sha256.Sum256(data)
	name := hex.EncodeToString(sum[:])
	b.blobs[name] = data
	return name
}

// config adds a definition that is not a workflow.
func (b *bundle) config(kind, name string, config any) error {
	raw, err := json.Marshal(config)
	if err != nil {
		return err
	}
	var value any // mappings of a server are sorted by Marshal
	if err := json.Unmarshal(raw, &value); err != nil {
		return err
	}
	if raw, err = json.Marshal(value); err == nil {
		b.items = append(b.items, bundleItem{Kind: kind, Name: name, Config: raw})
	}
	return err
}

// workflow adds a version of a workflow.
func (b *bundle) workflow(name string, v *api.Version) {
	item := bundleItem{Kind: bundleWorkflow, Name: name, Source: b.blob([]byte(text(v.Source)))}
	for _, f := range v.Files {
		item.Files = append(item.Files, bundleFile{f.Name, f.Mode, b.blob(f.Data)})
	}
	sort.Slice(item.Files, func(i, j int) bool { return item.Files[i].Name < item.Files[j].Name })
	b.items = append(b.items, item)
}

// request returns the request that applies a workflow of the bundle.
func (b *bundle) request(item *bundleItem) api.ApplyRequest {
	req := api.ApplyRequest{Source: string(b.blobs[item.Source]), File: item.Name + ".yaml"}
	for _, f := range item.Files {
		req.Files = append(req.Files, api.File{Name: f.Name, Mode: f.Mode, Data: b.blobs[f.SHA256]})
	}
	return req
}

// sort puts the items into the order in which they are applied.
func (b *bundle) sort() {
	sort.Slice(b.items, func(i, j int) bool {
		x, y := &b.items[i], &b.items[j]
		return cmp.Or(slices.Index(bundleKinds, x.Kind)-slices.Index(bundleKinds, y.Kind), cmp.Compare(x.Name, y.Name)) < 0
	})
}

// bytes returns the archive.
func (b *bundle) bytes() ([]byte, error) {
	b.sort()
	list, err := json.MarshalIndent(bundleList{1, b.items}, "", " ")
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	add := func(name string, data []byte) {
		w, failed := z.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store})
		if failed == nil {
			_, failed = w.Write(data)
		}
		err = errors.Join(err, failed)
	}
	add("bundle.json", append(list, '\n'))
	names := make([]string, 0, len(b.blobs))
	for name := range b.blobs {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		add("blobs/"+name, b.blobs[name])
	}
	err = errors.Join(err, z.Close()) // Close writes the end of the archive
	return out.Bytes(), err
}

// readBundle reads and checks a bundle.
func readBundle(path string) (*bundle, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, unreadable(path, err)
	}
	b, err := parseBundle(data)
	if err != nil {
		return nil, &said{errInvalid, fmt.Sprintf("%s is not a bundle: %v; make one with: skein bundle export", path, err)}
	}
	return b, nil
}

func parseBundle(data []byte) (*bundle, error) {
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	switch {
	case err != nil:
		return nil, err
	case len(z.File) > bundleEntriesMax:
		return nil, fmt.Errorf("it has more than %d entries", bundleEntriesMax)
	}
	b, left := newBundle(), int64(bundleBytesMax)
	var list []byte
	for _, f := range z.File {
		most := left
		if f.Name == "bundle.json" {
			most = bundleListMax
		}
		content, err := readEntry(f, most)
		if err != nil {
			return nil, fmt.Errorf("%.200q: %w", f.Name, err)
		}
		left -= int64(len(content))
		switch name, isBlob := strings.CutPrefix(f.Name, "blobs/"); {
		case f.Name == "bundle.json" && list == nil:
			list = content
		case !isBlob || b.blob(content) != name:
			return nil, fmt.Errorf("the entry %.200q is unknown, duplicate or damaged", f.Name)
		}
	}
	d := json.NewDecoder(bytes.NewReader(list))
	d.DisallowUnknownFields()
	var is bundleList
	if err := d.Decode(&is); err != nil {
		return nil, fmt.Errorf("bundle.json: %w", err)
	}
	if is.Bundle != 1 {
		return nil, fmt.Errorf("its format is %d, and this program reads format 1", is.Bundle)
	}
	b.items = is.Items
	b.sort()
	return b, b.check()
}

// readEntry reads an entry, which may have at most most bytes.
func readEntry(f *zip.File, most int64) ([]byte, error) {
	r, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && int64(len(data)) > most {
		err = errors.New("it is too large")
	}
	return data, err
}

// bundleName matches the parts of names. The server has a narrower rule for each kind. This pattern ensures
// that a name cannot change the path of a call, and cannot control the terminal.
var bundleName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)

// check checks the items of the bundle after it was read.
func (b *bundle) check() error {
	seen := map[[2]string]bool{}
	for i := range b.items {
		item := &b.items[i]
		ns, name, named := strings.Cut(item.Name, "/")
		// Such a definition may be shared by all namespaces.
		shared := item.Kind == bundleQueue || item.Kind == bundleClass
		key := [2]string{item.Kind, item.Name}
		switch {
		case !slices.Contains(bundleKinds, item.Kind):
			return fmt.Errorf("item %d has the unknown kind %.40q", i, item.Kind)
		case !named && !shared || !bundleName.MatchString(ns) || named && !bundleName.MatchString(name):
			return fmt.Errorf("item %d has the invalid name %.200q", i, item.Name)
		case seen[key]:
			return fmt.Errorf("the %s %s is listed twice", item.Kind, item.Name)
		case (item.Kind == bundleWorkflow) != (item.Source != ""):
			return fmt.Errorf("the %s %s has no definition", item.Kind, item.Name)
		}
		seen[key] = true
		want := []string{item.Source}
		for _, f := range item.Files {
			if !filepath.IsLocal(f.Name) {
				return fmt.Errorf("the workflow %s has the invalid file %.200q", item.Name, f.Name)
			}
			want = append(want, f.SHA256)
		}
		for _, sum := range want {
			if _, ok := b.blobs[sum]; sum != "" && !ok {
				return fmt.Errorf("the content %.64s of %s is missing", sum, item.Name)
			}
		}
	}
	return nil
}

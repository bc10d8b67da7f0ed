package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
)

// chartFolder has the Helm chart.
const chartFolder = "deploy/helm/skein"

// lintValues has the minimal settings of an install. The chart cannot be rendered without them.
var lintValues = map[string]any{
	"database": map[string]any{"existingSecret": "db"},
	"tokens":   map[string]any{"existingSecret": "tokens"},
	"tls":      map[string]any{"existingSecret": "tls"},
}

// chart checks the Helm chart, renders it once, and packages it under the version of the release.
func (r *release) chart() error {
	folder := filepath.Join(r.root, chartFolder)
	if err := lintChart(folder); err != nil {
		return err
	}
	c, err := loader.Load(folder)
	if err != nil {
		return err
	}
	c.Metadata.Version, c.Metadata.AppVersion = r.version, r.version
	if _, err := render(c, lintValues); err != nil {
		return err
	}
	made, err := chartutil.Save(c, filepath.Join(r.out, "build"))
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := r.atTime(&b, made); err != nil {
		return fmt.Errorf("%s: %w", made, err)
	}
	return os.WriteFile(r.name("%s", filepath.Base(made)), b.Bytes(), 0o644)
}

// lintChart returns what helm lint finds, warnings included.
func lintChart(folder string) error {
	var all []error
	for _, m := range lint.All(folder, lintValues, "default", true).Messages {
		if m.Severity >= support.WarningSev {
			all = append(all, m)
		}
	}
	return errors.Join(all...)
}

// render returns the text of each template, as helm template does.
func render(c *chart.Chart, values map[string]any) (map[string]string, error) {
	options := chartutil.ReleaseOptions{Name: "skein", Namespace: "default", Revision: 1, IsInstall: true}
	all, err := chartutil.ToRenderValues(c, values, options, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	return engine.Render(c, all)
}

// atTime writes an archive again with the time of the release for its files, because Helm uses the present
// time.
func (r *release) atTime(to io.Writer, archive string) error {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // the file is only read
	z, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	var entries []entry
	for t := tar.NewReader(z); ; {
		h, err := t.Next()
		if err == io.EOF {
			return r.tarGz(to, entries)
		}
		if err != nil {
			return err
		}
		data, err := io.ReadAll(t)
		if err != nil {
			return err
		}
		entries = append(entries, entry{h.Name, 0o644, data})
	}
}

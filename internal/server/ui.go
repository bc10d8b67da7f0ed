package server

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"

	"skein.dev/skein/internal/access"
)

// UI is the web page of a server. Its zero value serves none.
type UI struct {
	// Files is the built page: index.html and its assets, each compressed as NAME.gz. If Files is nil, every
	// address shows Placeholder.
	Files       fs.FS
	Placeholder []byte
	// BasePath is the path under which a browser reaches the server, such as /skein; "" is the root.
	BasePath string
}

// assetsPath is the path of the page's own files. Their names change with their content.
const assetsPath = "/-/"

// pagePolicy is the content security policy of every page: no inline code, and no content of other sites.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; " +
	"worker-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types skein"

// siteTag is the part of index.html into which the value of the header Sec-Fetch-Site is written. If another
// site has opened the page, the page asks the person before it uses a sign-in code.
const siteTag = `name="skein-site" content="`

// page serves the web page; nil serves nothing.
type page struct {
	files fs.FS
	// index is index.html up to the value of siteTag, and rest is the remainder. Without the tag, rest is empty.
	index, rest []byte
}

// newPage prepares index.html once: it adds the base path to the addresses in it.
func newPage(c *UI) (*page, error) {
	if c == nil {
		return nil, nil
	}
	p := &page{files: c.Files, index: c.Placeholder}
	if c.Files != nil {
		index, err := fs.ReadFile(c.Files, "index.html")
		if err != nil {
			return nil, fmt.Errorf("web page: %w", err)
		}
		p.index = index
	}
	base := []byte(c.BasePath)
	p.index = bytes.ReplaceAll(p.index, []byte(`="./-/`), []byte(`="`+c.BasePath+assetsPath))
	p.index = bytes.ReplaceAll(p.index, []byte(`href="/`), append([]byte(`href="`), append(base, '/')...))
	p.index = bytes.ReplaceAll(p.index, []byte(`name="skein-base" content=""`), []byte(`name="skein-base" content="`+c.BasePath+`"`))
	if at := bytes.Index(p.index, []byte(siteTag)); at >= 0 {
		at += len(siteTag)
		p.index, p.rest = p.index[:at], p.index[at:]
	}
	return p, nil
}

// takes reports whether a request is for the page, because a browser requests a document or one of the page's
// files.
func (p *page) takes(r *http.Request) bool {
	if p == nil || r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	if strings.HasPrefix(r.URL.Path, assetsPath) {
		return true
	}
	return !access.Reserved(r.URL.Path) && strings.Contains(r.Header.Get("Accept"), "text/html")
}

// navigates reports whether a person follows a link to a page. Links from other sites are allowed, because a
// page contains no data and its address changes nothing. The routes of identity providers decide for
// themselves.
func navigates(r *http.Request) bool {
	if r.Method != http.MethodGet || r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document" {
		return false
	}
	row, _ := access.Match(r)
	return row.Path == loginPath || row.Path == callbackPath || !access.Reserved(r.URL.Path)
}

func (p *page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", pagePolicy)
	if strings.HasPrefix(r.URL.Path, assetsPath) {
		p.asset(w, r)
		return
	}
	index := p.index
	if len(p.rest) > 0 {
		index = slices.Concat(p.index, []byte(siteOf(r)), p.rest)
	}
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(index)))
	h.Set("Cache-Control", "no-store") // a cached page would contain the site of an earlier request
	_, _ = w.Write(index)              // the client is gone
}

// siteOf returns the value of Sec-Fetch-Site, or "" if the browser sent none. An unknown value counts as
// another site.
func siteOf(r *http.Request) string {
	switch site := r.Header.Get("Sec-Fetch-Site"); site {
	case "", "none", "same-origin", "same-site":
		return site
	default:
		return "cross-site"
	}
}

// asset serves one of the page's files. The files are stored compressed, because few clients need them
// uncompressed.
func (p *page) asset(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(path.Clean(r.URL.Path), "/")
	f, err := p.open(name + ".gz")
	if err != nil {
		missing := notFound("the page has no file %s; the program may have been replaced: load the page again", r.URL.Path)
		if !errors.Is(err, fs.ErrNotExist) {
			missing = internal()
		}
		missing.write(w, r)
		return
	}
	defer f.Close()
	h := w.Header()
	h.Set("Content-Type", contentType(name))
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("Vary", "Accept-Encoding")
	var from io.Reader = f
	if acceptsGzip(r.Header.Get("Accept-Encoding")) {
		h.Set("Content-Encoding", "gzip")
	} else if from, err = gzip.NewReader(f); err != nil {
		internal().write(w, r)
		return
	}
	if r.Method == http.MethodGet {
		_, _ = io.Copy(w, from) // an error means that the client is gone
	}
}

func (p *page) open(name string) (fs.File, error) {
	if p.files == nil {
		return nil, fs.ErrNotExist
	}
	return p.files.Open(name)
}

func contentType(name string) string {
	if t := mime.TypeByExtension(path.Ext(name)); t != "" {
		return t
	}
	return "application/octet-stream"
}

// acceptsGzip reads a header such as "br, gzip;q=0.8".
func acceptsGzip(header string) bool {
	for part := range strings.SplitSeq(header, ",") {
		name, params, _ := strings.Cut(part, ";")
		if name = strings.TrimSpace(name); name != "gzip" && name != "*" {
			continue
		}
		q, given := strings.CutPrefix(strings.ReplaceAll(params, " ", ""), "q=")
		weight, err := strconv.ParseFloat(q, 64)
		return !given || err == nil && weight > 0
	}
	return false
}

// UnderBase makes next answer under a base path and at the root, because some proxies strip the path and
// others do not.
func UnderBase(base string, next http.Handler) http.Handler {
	if base == "" {
		return next
	}
	strip := http.StripPrefix(base, next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == base && r.ContentLength == 0:
			http.Redirect(w, r, base+"/", http.StatusFound)
		case strings.HasPrefix(r.URL.Path, base+"/"):
			strip.ServeHTTP(w, r)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// Command cross checks the types of the program, of its tests and of what it imports for another system, from
// the sources. A compiler would take ten times as long to find the same mistakes, because it would also
// generate code for some 450 packages, such as SQLite in Go.
//
// Usage: cross GOOS/GOARCH PACKAGES...
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	if len(os.Args) < 3 || !strings.Contains(os.Args[1], "/") {
		fmt.Fprintln(os.Stderr, "usage: cross GOOS/GOARCH PACKAGES...")
		os.Exit(2)
	}
	system, arch, _ := strings.Cut(os.Args[1], "/")
	if err := check(system, arch, os.Args[2:]); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %s\n", os.Args[1], err)
		os.Exit(1)
	}
}

// listed is a package as `go list` describes it. A package with its tests is a separate package, whose name
// has the test in brackets. Its ImportMap names the imports that mean such packages.
type listed struct {
	ImportPath, Dir string
	GoFiles         []string
	ImportMap       map[string]string
	Standard        bool
	Module          *struct{ GoVersion string }
}

// check reads the packages in the order of their imports, and prints each mistake.
func check(system, arch string, packages []string) error {
	list := exec.Command("go", append([]string{"list", "-deps", "-test",
		"-json=ImportPath,Dir,GoFiles,ImportMap,Standard,Module"}, packages...)...)
	list.Env = append(os.Environ(), "GOOS="+system, "GOARCH="+arch, "CGO_ENABLED=0")
	list.Stderr = os.Stderr
	out, err := list.StdoutPipe()
	if err != nil {
		return err
	}
	if err := list.Start(); err != nil {
		return err
	}
	c := checker{files: token.NewFileSet(), sizes: types.SizesFor("gc", arch), known: map[string]*types.Package{}}
	for d := json.NewDecoder(out); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return errors.Join(err, list.Wait())
		}
		c.check(&p)
	}
	switch err := list.Wait(); {
	case err != nil:
		return err
	case c.mistakes > 0:
		return fmt.Errorf("%d mistakes", c.mistakes)
	case len(c.known) == 0:
		return errors.New("there are no packages")
	}
	return nil
}

type checker struct {
	files    *token.FileSet
	sizes    types.Sizes
	known    map[string]*types.Package // package by its ImportPath in `go list`
	mistakes int
}

func (c *checker) wrong(err error) {
	c.mistakes++
	fmt.Fprintln(os.Stderr, err)
}

func (c *checker) check(p *listed) {
	if p.ImportPath == "unsafe" || strings.HasSuffix(p.ImportPath, ".test") { // the package has no file, or only a generated one
		return
	}
	var files []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(c.files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			c.wrong(err)
			continue
		}
		files = append(files, f)
	}
	conf := types.Config{Sizes: c.sizes, Error: c.wrong, IgnoreFuncBodies: p.Standard,
		Importer: importer(func(path string) (*types.Package, error) {
			if path == "unsafe" {
				return types.Unsafe, nil
			}
			if mapped, ok := p.ImportMap[path]; ok {
				path = mapped
			}
			if known := c.known[path]; known != nil {
				return known, nil
			}
			return nil, fmt.Errorf("%s is not among the listed packages", path)
		})}
	if p.Module != nil && p.Module.GoVersion != "" {
		conf.GoVersion = "go" + p.Module.GoVersion
	}
	path, _, _ := strings.Cut(p.ImportPath, " [")
	c.known[p.ImportPath], _ = conf.Check(path, c.files, files, nil) // conf.Error has the mistakes
}

type importer func(path string) (*types.Package, error)

func (i importer) Import(path string) (*types.Package, error) { return i(path) }

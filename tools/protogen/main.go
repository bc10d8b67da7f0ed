// Command protogen generates the Go code of the .proto files below a folder. `make generate` runs it. It is a
// separate module, so that its dependencies are not dependencies of Skein.
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/pluginpb"
)

// plugins run in the folder of this module, whose go.mod gives their versions.
var plugins = [][2]string{
	{"google.golang.org/protobuf/cmd/protoc-gen-go", "paths=source_relative"},
	{"connectrpc.com/connect/cmd/protoc-gen-connect-go", "paths=source_relative,simple"},
}

func main() {
	if err := generate(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "protogen:", err)
		os.Exit(1)
	}
}

// generate makes the code of files, which are relative to root.
func generate(root string, files []string) error {
	compiler := protocompile.Compiler{Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{root}}),
		SourceInfoMode: protocompile.SourceInfoStandard}
	compiled, err := compiler.Compile(context.Background(), files...)
	if err != nil {
		return err
	}
	for _, plugin := range plugins {
		req := &pluginpb.CodeGeneratorRequest{FileToGenerate: files, Parameter: &plugin[1]}
		for _, f := range compiled {
			req.ProtoFile = append(req.ProtoFile, protoutil.ProtoFromFileDescriptor(f))
		}
		in, err := proto.Marshal(req)
		if err != nil {
			return err
		}
		run := exec.Command("go", "run", plugin[0])
		run.Stdin, run.Stderr = bytes.NewReader(in), os.Stderr
		out, err := run.Output()
		if err != nil {
			return fmt.Errorf("%s: %w", plugin[0], err)
		}
		var resp pluginpb.CodeGeneratorResponse
		if err := proto.Unmarshal(out, &resp); err != nil {
			return err
		}
		if resp.Error != nil {
			return fmt.Errorf("%s: %s", plugin[0], *resp.Error)
		}
		for _, f := range resp.File {
			path := filepath.Join(root, f.GetName())
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				return err
			}
			if err := os.WriteFile(path, []byte(f.GetContent()), 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

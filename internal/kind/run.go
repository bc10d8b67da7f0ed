package kind

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// Names of the variables of an attempt.
const (
	InputVar  = "SKEIN_INPUT"
	OutputVar = "SKEIN_OUTPUT"
	keptVar   = "SKEIN_KIND_FOLDER"

	handleVar  = "SKEIN_HANDLE"
	earlierVar = "SKEIN_EARLIER"
)

const (
	inputMax  = 4 << 20 // bytes of an input file
	outputMax = 1 << 20 // bytes of all output lines; the worker keeps fewer
)

// Run executes an attempt of a kind in this process, and returns the exit code.
func Run(ctx context.Context, k Kind) int {
	env, err := open(os.Getenv)
	if err != nil {
		fmt.Fprintf(os.Stderr, "skein kind %s: %v\n", k.Name(), err)
		return Permanent
	}
	var given outputs
	env.Output = &given
	code := k.Main(ctx, env)
	if code != Done && code != Kept {
		return code
	}
	if err := given.store(os.Getenv(OutputVar)); err != nil {
		fmt.Fprintf(os.Stderr, "skein kind %s: %v\n", k.Name(), err)
		return Failed
	}
	return code
}

// RunPrepare executes the first process of an attempt of a Preparer, and returns the exit code.
func RunPrepare(ctx context.Context, k Preparer) int {
	env, err := open(os.Getenv)
	if err != nil {
		fmt.Fprintf(os.Stderr, "skein kind %s: %v\n", k.Name(), err)
		return Permanent
	}
	return k.Prepare(ctx, env)
}

// RunRelease executes the process that releases a handle, and returns the exit code.
func RunRelease(ctx context.Context, k Releaser) int {
	env, err := open(os.Getenv)
	if err == nil && env.Input.Handle == "" {
		err = errors.New("the input names no handle")
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "skein kind %s: %v\n", k.Name(), err)
		return Permanent
	}
	return k.Release(ctx, env)
}

// open reads the files of the attempt.
func open(get func(string) string) (*Env, error) {
	env := &Env{Stdout: os.Stdout, Stderr: os.Stderr}
	path := get(InputVar)
	if path == "" {
		return nil, errors.New(InputVar + " is not set: only the attempt of a task starts this command")
	}
	if err := readJSON(path, &env.Input); err != nil {
		return nil, fmt.Errorf("read the input: %w", err)
	}
	closeInput(path)
	if path := get(earlierVar); path != "" {
		if err := readJSON(path, &env.Earlier); err != nil {
			return nil, fmt.Errorf("read the earlier attempts: %w", err)
		}
	}
	env.Kept, env.Files = get(keptVar), get(OutputVar)
	var err error
	env.Dir, err = os.Getwd()
	return env, err
}

// closeInput closes the file of the input if this process has inherited it, so that the programs that the
// kind starts do not.
func closeInput(path string) {
	if text, ok := strings.CutPrefix(path, "/proc/self/fd/"); ok {
		if fd, err := strconv.Atoi(text); err == nil && fd > 2 {
			_ = os.NewFile(uintptr(fd), path).Close()
		}
	}
}

// readJSON decodes a file. Its errors contain no part of the content, which may be secret.
func readJSON(path string, into any) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, inputMax+1))
	switch {
	case err != nil:
		return err
	case len(data) > inputMax:
		return fmt.Errorf("%s is larger than %d bytes", path, inputMax)
	case json.Unmarshal(data, into) != nil:
		return fmt.Errorf("%s is not the JSON that was expected", path)
	}
	return nil
}

// outputs collects the lines that a kind writes.
type outputs struct{ text bytes.Buffer }

func (o *outputs) Write(p []byte) (int, error) {
	if o.text.Len()+len(p) > outputMax {
		return 0, fmt.Errorf("the outputs are larger than %d bytes", outputMax)
	}
	return o.text.Write(p)
}

// store writes all outputs as one JSON object, as the worker expects.
func (o *outputs) store(path string) error {
	all := map[string]json.RawMessage{}
	d := json.NewDecoder(&o.text)
	for {
		err := d.Decode(&all) // Decode keeps the entries that the map already has
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return errors.New("the kind wrote outputs that are not JSON objects")
		}
	}
	if len(all) == 0 || path == "" {
		return nil
	}
	data, err := json.Marshal(all)
	if err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil {
		return fmt.Errorf("write the outputs: %w", err)
	}
	return nil
}

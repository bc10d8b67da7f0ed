package hadoop

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"skein.dev/skein/internal/kind"
	"skein.dev/skein/internal/kind/yarn"
)

// program returns the path of the program hadoop.
func program() (string, error) {
	if home := os.Getenv("HADOOP_HOME"); home != "" {
		return exec.LookPath(filepath.Join(home, "bin", "hadoop"))
	}
	path, err := exec.LookPath("hadoop")
	if err != nil {
		return "", errors.New("there is no program hadoop in PATH, and HADOOP_HOME is not set: install Apache Hadoop")
	}
	return path, nil
}

// Missing implements kind.Needy.
func (Kind) Missing(json.RawMessage) error {
	_, err := program()
	return err
}

// fail writes an error to the log and returns the exit code.
func fail(env *kind.Env, code int, err error) int {
	fmt.Fprintf(env.Stderr, "skein: hadoop: %v\n", err)
	return code
}

// Release implements kind.Releaser.
func (Kind) Release(ctx context.Context, env *kind.Env) int {
	w, err := read(&env.Input)
	if err != nil {
		return fail(env, kind.Permanent, err)
	}
	return yarn.Release(ctx, env, w.ResourceManager)
}

// Main implements kind.Kind.
func (Kind) Main(ctx context.Context, env *kind.Env) int {
	w, err := read(&env.Input)
	if err != nil {
		return fail(env, kind.Permanent, err)
	}
	a, err := yarn.Begin(env, w.ResourceManager)
	if err != nil {
		return fail(env, kind.Permanent, err)
	}
	var app *yarn.App
	if w.Several {
		err = a.EndEarlier(ctx)
	} else {
		app, err = a.Find(ctx)
	}
	switch {
	case ctx.Err() != nil:
		return a.Stop()
	case err != nil:
		return fail(env, yarn.CodeOf(err), err)
	case app != nil:
		return a.Finish(ctx, app.ID)
	}
	code := submit(env, &w, a.Tag())
	if ctx.Err() != nil {
		return a.Stop()
	}
	if code != kind.Done {
		return code
	}
	app, err = a.Submitted(ctx, false)
	if err == nil && app != nil { // nil if the program found nothing to do and submitted no job
		err = a.Outputs(app)
	}
	if err != nil {
		fmt.Fprintf(env.Stderr, "skein: the job of the program is not known: %v\n", err)
	}
	return code
}

// submit runs the program until it ends, and returns the exit code of the attempt.
func submit(env *kind.Env, w *With, tag string) int {
	path, err := program()
	if err != nil {
		return fail(env, kind.Permanent, err)
	}
	conf, err := yarn.Overlay(env.Files+".conf", confOf(path), "mapred-site.xml", func(old string) string { return site(old, w.Conf, tag) })
	if err != nil {
		return fail(env, kind.Failed, fmt.Errorf("write the settings: %w", err))
	}
	args := []string{"jar", w.Jar}
	if w.Class != "" {
		args = append(args, w.Class)
	}
	cmd := exec.Command(path, append(args, w.Args...)...) // a TERM for the attempt also reaches this process
	cmd.Env = append(os.Environ(), "HADOOP_CONF_DIR="+conf)
	cmd.Stdout, cmd.Stderr = env.Stdout, env.Stderr
	err = cmd.Run()
	switch {
	case err == nil:
		return kind.Done
	case cmd.ProcessState == nil: // the program was not started
		return fail(env, kind.Permanent, err)
	}
	return kind.Failed // the program has printed the reason
}

// confOf returns the folder with the settings of the machine, given the path of the program hadoop.
func confOf(path string) string {
	if dir := os.Getenv("HADOOP_CONF_DIR"); dir != "" {
		return dir
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	return filepath.Join(cmp.Or(os.Getenv("HADOOP_HOME"), filepath.Dir(filepath.Dir(path))), "etc", "hadoop")
}

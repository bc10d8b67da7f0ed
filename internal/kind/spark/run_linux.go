package spark

import (
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

// program returns the path of spark-submit.
func program() (string, error) {
	if home := os.Getenv("SPARK_HOME"); home != "" {
		return exec.LookPath(filepath.Join(home, "bin", "spark-submit"))
	}
	path, err := exec.LookPath("spark-submit")
	if err != nil {
		return "", errors.New("there is no program spark-submit in PATH, and SPARK_HOME is not set: install Apache Spark")
	}
	return path, nil
}

// Missing implements kind.Needy.
func (Kind) Missing(json.RawMessage) error {
	_, err := program()
	return err
}

// Main implements kind.Kind.
func (Kind) Main(ctx context.Context, env *kind.Env) int {
	w, at, err := read(&env.Input)
	if err != nil {
		return fail(env, kind.Permanent, err)
	}
	switch at {
	case onYARN:
		return runOnYARN(ctx, env, &w)
	case onSparkREST:
		return runOnMaster(ctx, env, &w)
	}
	return submit(env, &w, at, nil)
}

// fail writes an error to the log and returns the exit code.
func fail(env *kind.Env, code int, err error) int {
	fmt.Fprintf(env.Stderr, "skein: spark: %v\n", err)
	return code
}

// Release implements kind.Releaser.
func (Kind) Release(ctx context.Context, env *kind.Env) int {
	w, _, err := read(&env.Input)
	if err != nil {
		return fail(env, kind.Permanent, err)
	}
	if yarn.IsTag(env.Input.Handle) {
		return yarn.Release(ctx, env, w.ResourceManager)
	}
	ctx, stop := context.WithTimeout(ctx, yarn.ReleaseMax)
	defer stop()
	m, err := newMaster(env.Input.Egress, w.REST)
	if err == nil {
		err = m.end(ctx, env.Input.Handle)
	}
	if err != nil {
		return fail(env, kind.Failed, err)
	}
	return kind.Done
}

// nameOf returns the name for an application.
func nameOf(in *kind.Input) string { return in.Namespace + "/" + in.Workflow + "/" + in.Task }

// runOnYARN runs an application in a YARN cluster. spark-submit ends once YARN has accepted the application.
func runOnYARN(ctx context.Context, env *kind.Env, w *With) int {
	a, err := yarn.Begin(env, w.ResourceManager)
	if err != nil {
		return fail(env, kind.Permanent, err)
	}
	app, err := a.Find(ctx)
	if err == nil && app == nil {
		code := submit(env, w, onYARN, map[string]string{"spark.yarn.tags": a.Tag(), "spark.yarn.submit.waitAppCompletion": "false"})
		if ctx.Err() != nil {
			return a.Stop()
		}
		if app, err = a.Submitted(ctx, code == kind.Done); err == nil && app == nil {
			return code
		}
	}
	switch {
	case ctx.Err() != nil:
		return a.Stop()
	case err != nil:
		return fail(env, yarn.CodeOf(err), err)
	}
	return a.Finish(ctx, app.ID)
}

// runOnMaster runs an application in a cluster of Spark itself. It does not use spark-submit.
func runOnMaster(ctx context.Context, env *kind.Env, w *With) int {
	m, err := newMaster(env.Input.Egress, w.REST)
	if err != nil {
		return fail(env, kind.Permanent, err)
	}
	id, err := m.find(ctx, env)
	if err == nil && id == "" {
		// Do not cancel a submission half-way, because it would leave an application without a handle.
		if id, err = m.submit(context.WithoutCancel(ctx), w, nameOf(&env.Input)); err == nil {
			fmt.Fprintf(env.Stdout, "skein: the master has begun %s\n", id)
		}
	}
	if err == nil {
		err = env.SetHandle(id)
	}
	if err != nil {
		return fail(env, codeOf(err), err)
	}
	d, err := m.watch(ctx, id, env.Stdout)
	switch {
	case ctx.Err() != nil:
		return m.stop(env, id)
	case err == nil:
		err = errors.Join(env.Set("application_id", id), env.Set("tracking_url", ""), env.Set("final_status", d.State))
	}
	switch {
	case err != nil:
		return fail(env, codeOf(err), err)
	case d.State != "FINISHED":
		return fail(env, kind.Failed, fmt.Errorf("%s ended with the state %s: %.1000s", id, d.State, oneLine(d.Message)))
	}
	return kind.Done
}

// find returns the application of a lost attempt that has a result or will have one, or "" if there is none.
func (m *master) find(ctx context.Context, env *kind.Env) (string, error) {
	for _, e := range env.Lost() {
		if e.Handle == nil {
			continue
		}
		d, err := m.state(ctx, *e.Handle)
		if err != nil {
			return "", err
		}
		if !d.gone() && d.State != "KILLED" {
			fmt.Fprintf(env.Stdout, "skein: going on with %s of an earlier process\n", *e.Handle)
			return *e.Handle, nil
		}
	}
	return "", nil
}

// stop ends the application of an attempt that got TERM, and returns the exit code.
func (m *master) stop(env *kind.Env, id string) int {
	ctx, cancel := context.WithTimeout(context.Background(), yarn.StopMax)
	defer cancel()
	if err := m.end(ctx, id); err != nil {
		fmt.Fprintf(env.Stderr, "skein: %s is not ended yet: %v\n", id, err)
	}
	return kind.Failed
}

// submit runs spark-submit until it ends, and returns the exit code.
func submit(env *kind.Env, w *With, at place, more map[string]string) int {
	path, err := program()
	if err != nil {
		return fail(env, kind.Permanent, err)
	}
	conf, err := settings(env, path, w, more)
	if err != nil {
		return fail(env, kind.Failed, fmt.Errorf("write the settings: %w", err))
	}
	// A TERM for the attempt also reaches this process.
	cmd := exec.Command(path, w.arguments(at, nameOf(&env.Input))...)
	cmd.Env = append(os.Environ(), "SPARK_CONF_DIR="+conf)
	cmd.Stdout, cmd.Stderr = env.Stdout, env.Stderr
	err = cmd.Run()
	switch {
	case err == nil:
		return kind.Done
	case cmd.ProcessState == nil: // spark-submit was not started
		return fail(env, kind.Permanent, err)
	}
	return kind.Failed // spark-submit has printed the reason
}

// defaultsName is the file that holds the settings of applications.
const defaultsName = "spark-defaults.conf"

// settings makes a folder with the settings of the machine and of the task, and returns its path. So the
// arguments, which other users of the machine can see, contain no settings of the task.
func settings(env *kind.Env, path string, w *With, more map[string]string) (string, error) {
	// The last value of a name wins.
	return yarn.Overlay(env.Files+".conf", confOf(path), defaultsName, func(old string) string {
		return old + "\n" + properties(w.Conf) + properties(more)
	})
}

// confOf returns the folder with the settings of the machine, given the path of spark-submit.
func confOf(path string) string {
	if dir := os.Getenv("SPARK_CONF_DIR"); dir != "" {
		return dir
	}
	if home := os.Getenv("SPARK_HOME"); home != "" {
		return filepath.Join(home, "conf")
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	return filepath.Join(filepath.Dir(filepath.Dir(path)), "conf")
}

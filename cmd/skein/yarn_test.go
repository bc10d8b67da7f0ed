//go:build linux

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// cached returns the folder with the libraries that `make NAME` puts into the cache.
func cached(t *testing.T, name string) string {
	t.Helper()
	pom, err := os.ReadFile("../../tools/" + name + "/pom.xml")
	if err != nil {
		t.Fatal(err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(pom)
	dir := filepath.Join(cache, "skein", name+"-"+hex.EncodeToString(sum[:])[:12])
	if _, err = exec.LookPath("java"); err == nil {
		_, err = os.Stat(dir)
	}
	if err != nil {
		if why := "run make " + name + " (it needs Maven and java): " + err.Error(); os.Getenv("CI") == "true" {
			t.Fatal(why)
		} else {
			t.Skip(why)
		}
	}
	return dir
}

// java starts a program of Java in a folder. The program ends with the test, and writes its log into the file
// log of the folder.
func (w *world) java(dir string, args ...string) {
	w.t.Helper()
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		w.t.Fatal(err)
	}
	cmd := exec.Command("java", args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	cmd.Env = append(os.Environ(), "SPARK_NO_DAEMONIZE=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) // so that it ends its own processes
		_ = cmd.Wait()                                      // the signal ended it
		_ = log.Close()
		if text, err := os.ReadFile(log.Name()); w.t.Failed() && err == nil {
			w.t.Logf("%.3000s", text[max(0, len(text)-3000):])
		}
	})
}

// folder makes a folder in the world.
func (w *world) folder(name string) string {
	w.t.Helper()
	dir := filepath.Join(w.dir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		w.t.Fatal(err)
	}
	return dir
}

// yarnApp is an application of YARN, as its ResourceManager shows it.
type yarnApp struct{ ID, State, ApplicationTags string }

// apps asks a ResourceManager for its applications.
func (w *world) apps(url string) []yarnApp {
	w.t.Helper()
	resp, err := http.Get(url + "/ws/v1/cluster/apps")
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	var all struct{ Apps struct{ App []yarnApp } }
	if err != nil || json.Unmarshal(text, &all) != nil {
		return nil
	}
	return all.Apps.App
}

// miniYARN starts a real ResourceManager with one NodeManager in one process, and returns its URL and a
// folder with the settings for its clients.
func (w *world) miniYARN(t *testing.T, libraries string) (url, conf string) {
	t.Helper()
	dir, conf := w.folder("yarn"), w.folder("conf")
	page, rm := "127.0.0.1:"+freePort(t), freePort(t)
	args := []string{"-Xmx512m", "-cp", libraries + "/*", "org.apache.hadoop.mapreduce.MiniHadoopClusterManager", "-nodfs", "-rmport", rm, "-jhsport", freePort(t)}
	site := "<configuration>\n"
	set := func(name, value string) {
		args = append(args, "-D", name+"="+value)
		site += "<property><name>" + name + "</name><value>" + value + "</value></property>\n"
	}
	set("yarn.resourcemanager.webapp.address", page)
	for _, name := range []string{"yarn.resourcemanager.scheduler.address", "yarn.resourcemanager.resource-tracker.address", "yarn.resourcemanager.admin.address",
		"mapreduce.jobhistory.admin.address", "mapreduce.jobhistory.webapp.address"} {
		set(name, "127.0.0.1:"+freePort(t))
	}
	set("yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage", "99")
	set("yarn.is.minicluster", "true") // the processes of a job get the libraries of their client
	set("yarn.app.mapreduce.am.staging-dir", dir+"/staging")
	w.java(dir, args...)
	site += "<property><name>yarn.resourcemanager.address</name><value>localhost:" + rm + "</value></property>\n</configuration>\n"
	w.write("conf/yarn-site.xml", site)
	url = "http://" + page
	w.eventually("YARN answers", func() bool {
		resp, err := http.Get(url + "/ws/v1/cluster/info")
		if err == nil {
			_ = resp.Body.Close()
		}
		return err == nil
	})
	return url, conf
}

// TestYARN: a real job of MapReduce continues when node and keeper die. The next attempt waits for it, so
// YARN sees one application. A stop kills the application of the next run.
func TestYARN(t *testing.T) {
	libraries := cached(t, "hadoop")
	w := newWorld(t)
	url, conf := w.miniYARN(t, libraries)
	w.folder("bin")
	program := w.write("bin/hadoop", "#!/bin/sh\nshift\nexec java -Xmx256m -cp \"$HADOOP_CONF_DIR:"+libraries+"/*\" org.apache.hadoop.util.RunJar \"$@\"\n")
	// The class is in the libraries, but the command requires a jar.
	jar, err := filepath.Glob(libraries + "/jsr305-*.jar")
	if err == nil {
		err = os.Chmod(program, 0o755)
	}
	if err != nil || len(jar) != 1 {
		t.Fatal(jar, err)
	}
	w.env = append(w.env, "PATH="+filepath.Dir(program)+":"+os.Getenv("PATH"), "HADOOP_CONF_DIR="+conf, "SKEIN_PASS_ENV=HADOOP_CONF_DIR")
	p := w.server("--lease", "3s", "--isolation", "none")
	p.apply("count", "\n  mr: {hadoop: {jar: "+jar[0]+", class: org.apache.hadoop.mapreduce.SleepJob, args: [-m, 1, -r, 0, -mt, 30000], conf: {mapreduce.framework.name: yarn}, resource_manager: \""+url+"\"}}\n")
	runs := func(n int) func() bool {
		return func() bool {
			all := w.apps(url)
			return len(all) == n && all[0].State == "RUNNING" || n == 2 && len(all) == 2 && (all[0].State == "RUNNING" || all[1].State == "RUNNING")
		}
	}
	run := p.begin("count", nil)
	w.eventually("the job runs", runs(1))
	w.eventually("the attempt has a handle", func() bool { return hasHandle(t, p.Client, run, 1) })
	p.crash()
	p = w.server("--lease", "3s", "--isolation", "none")
	w.eventually("the next attempt goes on with it", func() bool { return hasHandle(t, p.Client, run, 2) })
	p.wantState(run, "succeeded")
	if all := w.apps(url); len(all) != 1 || all[0].State != "FINISHED" || !strings.HasPrefix(all[0].ApplicationTags, "skein-") {
		t.Errorf("%+v", all)
	}
	run = p.begin("count", nil)
	w.eventually("the next job runs", runs(2))
	if o := w.skein("run", "stop", run); o.code != exitOK {
		t.Error(o)
	}
	p.wantState(run, "stopped")
	killed := 0
	for _, a := range w.apps(url) {
		if a.State == "KILLED" {
			killed++
		}
	}
	if killed != 1 {
		t.Errorf("%+v", w.apps(url))
	}
}

// TestSparkOnYARN: a real application of Spark in a real cluster of YARN continues when node and keeper die.
// There is one application, which began once.
func TestSparkOnYARN(t *testing.T) {
	libraries := cached(t, "spark")
	w := newWorld(t)
	url, conf := w.miniYARN(t, cached(t, "hadoop"))
	path, jar := w.sparkSubmit(t, libraries)
	source, dir := w.write("Job.java", sparkJob), w.folder("one")
	w.env = append(w.env, path, "HADOOP_CONF_DIR="+conf, "SKEIN_PASS_ENV=HADOOP_CONF_DIR")
	p := w.server("--lease", "3s", "--isolation", "none")
	p.apply("agg", "\n  a:\n    spark: {master: yarn, main: \""+jar+"\", class: org.codehaus.janino.SimpleCompiler, args: ["+source+", Job, "+dir+"], resource_manager: \""+url+"\", "+
		"conf: {spark.driver.memory: 512m, spark.executor.memory: 512m, spark.executor.instances: 1, spark.ui.enabled: false, "+
		"spark.yarn.jars: \"local:"+libraries+"/*\", spark.yarn.stagingDir: \"file://"+w.folder("staging")+"\"}}\n")
	begun := func() int {
		text, _ := os.ReadFile(filepath.Join(dir, "begun"))
		return strings.Count(string(text), "x\n")
	}
	run := p.begin("agg", nil)
	w.eventually("the application runs", func() bool { return begun() == 1 && hasHandle(t, p.Client, run, 1) })
	p.crash()
	p = w.server("--lease", "3s", "--isolation", "none")
	w.eventually("the next attempt goes on with it", func() bool { return hasHandle(t, p.Client, run, 2) })
	w.gate("one/gate")
	p.wantState(run, "succeeded")
	if text, err := os.ReadFile(dir + "/ended"); err != nil || string(text) != "3\n" || begun() != 1 {
		t.Errorf("%q, %v, %d were begun", text, err, begun())
	}
	if all := w.apps(url); len(all) != 1 || all[0].State != "FINISHED" || !strings.Contains(all[0].ApplicationTags, "skein-") {
		t.Errorf("%+v", all)
	}
}

//go:build linux

package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"skein.dev/skein/internal/cluster/nettest"
)

// freePort returns a free port of loopback.
func freePort(t *testing.T) string {
	t.Helper()
	port, err := nettest.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return strconv.Itoa(port)
}

// sparkJob is an application of Spark that notes its begin, counts, and ends once the file gate is there. A
// compiler among the libraries of Spark executes its text.
const sparkJob = `
import org.apache.spark.SparkConf;
import org.apache.spark.api.java.JavaSparkContext;
import java.io.*;
import java.util.*;

public class Job {
    static void note(String path, String text) throws Exception {
        FileWriter w = new FileWriter(path, true);
        w.write(text + "\n");
        w.close();
    }
    public static void main(String[] args) throws Exception {
        note(args[0] + "/begun", "x");
        JavaSparkContext sc = new JavaSparkContext(new SparkConf());
        long n = sc.parallelize(Arrays.asList(new Integer[] { 1, 2, 3 }), 1).count();
        File gate = new File(args[0] + "/gate");
        while (!gate.exists()) {
            Thread.sleep(100L);
        }
        note(args[0] + "/ended", "" + n);
        sc.stop();
    }
}
`

// sparkMaster starts a real master of Spark with one worker. It returns the master and its REST interface.
func (w *world) sparkMaster(t *testing.T, libraries string) (master, rest string) {
	t.Helper()
	home := w.folder("spark")
	if err := os.Symlink(libraries, filepath.Join(home, "jars")); err != nil { // SPARK_HOME of the worker
		t.Fatal(err)
	}
	port, restPort, page := freePort(t), freePort(t), freePort(t)
	t.Setenv("SPARK_HOME", home)
	t.Setenv("SPARK_LOCAL_IP", "127.0.0.1")
	t.Setenv("SPARK_SCALA_VERSION", "2.13") // the version is not found without the folders of a release
	master, rest = "spark://127.0.0.1:"+port, "http://127.0.0.1:"+restPort
	path := libraries + "/*"
	w.java(w.folder("spark/master"), "-Xmx256m", "-cp", path, "-Dspark.master.rest.enabled=true", "-Dspark.master.rest.host=127.0.0.1", "-Dspark.master.rest.port="+restPort,
		"org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", port, "--webui-port", page)
	w.java(w.folder("spark/worker"), "-Xmx256m", "-cp", path, "org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--cores", "2", "--memory", "2g",
		"--work-dir", home+"/work", "--webui-port", freePort(t), master)
	w.eventually("the worker is registered", func() bool {
		resp, err := http.Get("http://127.0.0.1:" + page + "/json/")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		var is struct{ AliveWorkers int }
		return json.NewDecoder(resp.Body).Decode(&is) == nil && is.AliveWorkers == 1
	})
	return master, rest
}

// sparkSubmit makes a program spark-submit. It returns a PATH with it, and a jar with a compiler, whose main
// method executes a class of a file.
func (w *world) sparkSubmit(t *testing.T, libraries string) (path, jar string) {
	t.Helper()
	w.folder("bin")
	opens := ""
	for _, name := range []string{"java.lang", "java.lang.invoke", "java.nio", "java.util", "sun.nio.ch"} {
		opens += " --add-opens=java.base/" + name + "=ALL-UNNAMED"
	}
	program := w.write("bin/spark-submit", "#!/bin/sh\nexec java -Xmx512m"+opens+" -cp \"$SPARK_CONF_DIR:$HADOOP_CONF_DIR:"+libraries+"/*\" org.apache.spark.deploy.SparkSubmit \"$@\"\n")
	jars, err := filepath.Glob(libraries + "/janino-*.jar")
	if err == nil {
		err = os.Chmod(program, 0o755)
	}
	if err != nil || len(jars) != 1 {
		t.Fatal(jars, err)
	}
	return "PATH=" + filepath.Dir(program) + ":" + os.Getenv("PATH"), jars[0]
}

// TestSparkMaster: a real application of Spark continues when node and keeper die, and the next attempt waits
// for it. A stop ends the application of the next run. With a local master, the application is a process of
// the attempt.
func TestSparkMaster(t *testing.T) {
	libraries := cached(t, "spark")
	w := newWorld(t)
	master, rest := w.sparkMaster(t, libraries)
	path, jar := w.sparkSubmit(t, libraries)
	source := w.write("Job.java", sparkJob)
	w.env = append(w.env, path, "SPARK_LOCAL_IP=127.0.0.1", "SKEIN_PASS_ENV=SPARK_LOCAL_IP")
	p := w.server("--lease", "3s", "--isolation", "none")
	conf := "conf: {spark.driver.memory: 512m, spark.executor.memory: 512m, spark.cores.max: 1, spark.driver.host: 127.0.0.1, spark.ui.enabled: false}"
	task := func(master, jar, at string) string {
		return `{spark: {master: "` + master + `", ` + at + `main: "` + jar + `", class: org.codehaus.janino.SimpleCompiler, args: [` + source + `, Job, "${{ params.dir }}"], ` + conf + `}}`
	}
	p.apply("spark", "\n  far: "+task(master, "file:"+jar, `rest: "`+rest+`", `)+"\n  near: "+task("local[1]", jar, "")+"\nparams: {dir: string}\n")
	begun := func(run string) int {
		text, _ := os.ReadFile(filepath.Join(w.dir, run, "begun"))
		return strings.Count(string(text), "x\n")
	}
	dir := w.folder("one")
	run := p.begin("spark", map[string]any{"dir": dir})
	w.eventually("both applications run", func() bool { return begun("one") == 2 && hasHandle(t, p.Client, run, 1) })
	p.crash()
	p = w.server("--lease", "3s", "--isolation", "none")
	w.eventually("the next attempt goes on with the one in the cluster", func() bool { return hasHandle(t, p.Client, run, 2) && begun("one") == 3 })
	w.gate("one/gate")
	p.wantState(run, "succeeded")
	if text, err := os.ReadFile(dir + "/ended"); err != nil || string(text) != "3\n3\n" || begun("one") != 3 {
		t.Errorf("%q, %v, %d were begun", text, err, begun("one"))
	}
	dir = w.folder("two")
	run = p.begin("spark", map[string]any{"dir": dir})
	w.eventually("both applications of the next run run", func() bool { return begun("two") == 2 && hasHandle(t, p.Client, run, 1) })
	if o := w.skein("run", "stop", run); o.code != exitOK {
		t.Error(o)
	}
	p.wantState(run, "stopped")
	w.gate("two/gate")
	w.eventually("no driver runs", func() bool { return len(processesWith(dir)) == 0 })
	if _, err := os.Stat(dir + "/ended"); err == nil {
		t.Error("an application that was stopped has ended by itself")
	}
}

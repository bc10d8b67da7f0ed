package dolphin

import (
	"slices"
	"strings"

	"skein.dev/skein/internal/importer"
	"skein.dev/skein/internal/workflow"
)

// resourceManager is the address that a person replaces: an export does not have it.
const resourceManager = "http://resourcemanager:8088"

// sparkFields are the fields with settings of Spark. Each has the name of its setting, and the option of
// spark-submit.
var sparkFields = [...]struct{ field, setting, option string }{
	{"driverCores", "spark.driver.cores", "--driver-cores"}, {"driverMemory", "spark.driver.memory", "--driver-memory"},
	{"numExecutors", "spark.executor.instances", "--num-executors"}, {"executorMemory", "spark.executor.memory", "--executor-memory"},
	{"executorCores", "spark.executor.cores", "--executor-cores"}, {"appName", "spark.app.name", "--name"}, {"yarnQueue", "spark.yarn.queue", "--queue"},
}

// sparkJob is a task of the type SPARK.
type sparkJob struct {
	master, mode, class, main, args, others string
	settings                                []string // parallel to sparkFields
}

// spark converts an application to the key spark. If it has options that the key does not have, the task
// runs spark-submit.
func (n *node) spark() {
	in := n.own
	if script := in.Take("rawScript").Str(); script != "" {
		n.task.Drop("the task runs statements of Spark SQL", "call spark-sql in a task with run")
		return
	}
	mode := strings.ToLower(in.Take("deployMode").Str())
	is := sparkJob{mode: mode, class: in.Take("mainClass").Str(), main: resource(in.Take("mainJar", "main_package")), args: in.Take("mainArgs").Str(), others: in.Take("others").Str(),
		master: firstText(in.Take("master").Str(), map[string]string{"local": "local[*]", "cluster": "yarn", "client": "yarn"}[mode])}
	if mode == "local" {
		is.mode = ""
	}
	for _, f := range sparkFields {
		is.settings = append(is.settings, in.Take(f.field).Str())
	}
	in.Take("programType", "sparkVersion", "namespace")
	if m, ok := is.key(n); ok {
		n.task.Other = &importer.Other{Key: "spark", Value: m, Same: func(is *workflow.Task) bool { return strings.HasSuffix(is.Kind, "spark") }}
		said := "the task needs a node or worker with Spark"
		if is.managed() {
			said += "; write the URL of your ResourceManager into resource_manager"
		}
		n.task.Approximate(said)
		return
	}
	args := []string{"--master", quoted(is.master), "--deploy-mode", is.mode, "--class", quoted(is.class)}
	for i, f := range sparkFields {
		args = append(args, f.option, quoted(is.settings[i]))
	}
	n.command("spark-submit", append(args, "", is.others, "", quoted(is.main), "", is.args)...)
}

// managed reports whether the application runs in a cluster of YARN, where the attempt asks the
// ResourceManager about it.
func (s *sparkJob) managed() bool { return s.master == "yarn" && s.mode == "cluster" }

// key returns the value of the key spark. It returns false if a part has no place there, or no value.
func (s *sparkJob) key(n *node) (m importer.Map, ok bool) {
	if s.main == "" || s.master != "yarn" && !strings.HasPrefix(s.master, "local") || strings.ContainsAny(s.args+s.others, "'\"\\`") {
		return nil, false
	}
	missed := false
	text := func(t string) string {
		out, missing := n.f.text(n, t)
		missed = missed || missing != ""
		return out.Template()
	}
	m.Add("master", s.master)
	if s.mode == "client" {
		m.Add("deploy_mode", s.mode)
	}
	m.Add("main", text(s.main))
	if s.class != "" {
		m.Add("class", text(s.class))
	}
	if words := strings.Fields(s.args); len(words) > 0 {
		args := make([]string, len(words))
		for i, w := range words {
			args[i] = text(w)
		}
		m.Add("args", args)
	}
	conf, lists := importer.Map{}, importer.Map{}
	for i, f := range sparkFields {
		if s.settings[i] != "" {
			conf.Add(f.setting, text(s.settings[i]))
		}
	}
	words := strings.Fields(s.others)
	for ; len(words) >= 2; words = words[2:] {
		name, value, pair := strings.Cut(words[1], "=")
		switch key := map[string]string{"--jars": "jars", "--files": "files", "--py-files": "py_files"}[words[0]]; {
		case words[0] == "--conf" && pair && !slices.ContainsFunc(conf, func(p importer.Pair) bool { return p.Key == name }):
			conf.Add(name, text(value))
		case key != "":
			var all []string
			for _, file := range strings.Split(words[1], ",") {
				all = append(all, text(file))
			}
			lists.Add(key, all)
		default:
			return nil, false
		}
	}
	if len(conf) > 0 {
		m.Add("conf", conf)
	}
	m = append(m, lists...)
	if s.managed() {
		m.Add("resource_manager", resourceManager)
	}
	return m, len(words) == 0 && !missed
}

package workflow

import (
	"encoding/json"
	"strings"

	"skein.dev/skein/internal/kind/hadoop"
	"skein.dev/skein/internal/kind/spark"
)

// jobKeys are the keys of notOfKinds that tasks with spark and hadoop may have.
var jobKeys = []string{"env", "dir", "inputs", "access"}

// managers returns the URLs of ResourceManagers of YARN.
func managers() *shape {
	one := text("a URL such as http://rm:8088")
	return forms("a URL such as http://rm:8088, or a list of them", one, list("a list of URLs", one))
}

// settings returns the settings of a cluster job.
func settings(is string) *shape {
	return table(is, pattern("the name of a setting", `^[A-Za-z0-9_.-]{1,200}$`), textOrNothing("a text"))
}

// sparkHouse returns the kind of tasks that run an application of Spark.
func sparkHouse() house {
	return house{name: spark.Name, doc: "Runs an application of Apache Spark. In the mode cluster it goes on when its worker dies, and the next attempt waits for it.", shape: sparkShape,
		keys: jobKeys, plain: []string{"deploy_mode"}, outputs: sparkOutputs, check: checkSpark, given: jobGiven}
}

func sparkShape() *shape {
	paths := func(is string) *shape { return list(is, text("a path or a URL")) }
	return object("a mapping such as {master: yarn, main: agg.jar, class: x.Agg, resource_manager: \"http://rm:8088\"}",
		key{name: "master", must: true, doc: "yarn, spark://HOST:PORT, or local[N] for a process of the attempt.", shape: text("a master such as yarn")},
		key{name: "deploy_mode", doc: "cluster: the driver runs in the cluster. client: it is a process of the attempt. Default: client for a local master, else cluster.",
			shape: oneOf(spark.ModeCluster, spark.ModeClient)},
		key{name: "main", must: true, doc: "The jar or the program of Python: a path of the working folder, or a URL that the cluster reads.", shape: text("a path or a URL")},
		key{name: "class", doc: "The class of the jar with the method main.", shape: text("the name of a class")},
		key{name: "args", doc: "Arguments of the application.", shape: list("a list of arguments", textOrNothing("a text"))},
		key{name: "conf", doc: "Settings of Spark by name.", shape: settings("a mapping such as {spark.executor.memory: 4g}")},
		key{name: "jars", doc: "Further jars.", shape: paths("a list of jars")},
		key{name: "py_files", doc: "Further files of Python.", shape: paths("a list of files")},
		key{name: "files", doc: "Files that each executor gets.", shape: paths("a list of files")},
		key{name: "resource_manager", doc: "URL of the web interface of YARN's ResourceManager, or of several; for master yarn in the mode cluster.", shape: managers()},
		key{name: "rest", doc: "URL of the REST interface of a master of Spark, such as http://master:6066; for such a master in the mode cluster.", shape: text("a URL such as http://master:6066")})
}

// hadoopHouse returns the kind of tasks that run a program of MapReduce.
func hadoopHouse() house {
	return house{name: hadoop.Name, doc: "Runs a program of MapReduce on YARN. Its job goes on when its worker dies, and the next attempt waits for it.", shape: hadoopShape,
		keys: jobKeys, plain: []string{"several"}, outputs: func(*node) []Output { return jobOutputs() }, given: jobGiven}
}

func hadoopShape() *shape {
	return object("a mapping such as {jar: wordcount.jar, class: WordCount, args: [in, out], resource_manager: \"http://rm:8088\"}",
		key{name: "jar", must: true, doc: "The jar: a path of the working folder or of the machine.", shape: text("a path")},
		key{name: "class", doc: "The class with the method main; default: that of the jar.", shape: text("the name of a class")},
		key{name: "args", doc: "Arguments of the program.", shape: list("a list of arguments", textOrNothing("a text"))},
		key{name: "conf", doc: "Settings of Hadoop by name.", shape: settings("a mapping such as {mapreduce.job.queuename: etl}")},
		key{name: "several", doc: "true: the program submits more than one job. Then the attempt after a lost one ends them and begins again.", shape: boolean()},
		key{name: "resource_manager", must: true, doc: "URL of the web interface of YARN's ResourceManager, or of several of which one is active.", shape: managers()})
}

func jobOutputs() []Output {
	return []Output{{Name: "application_id", Type: String}, {Name: "final_status", Type: String}, {Name: "tracking_url", Type: String}}
}

// sparkOutputs returns the outputs of an application in a cluster. A process of the attempt has none.
func sparkOutputs(n *node) []Output {
	if n.get("deploy_mode").str() == spark.ModeClient || strings.HasPrefix(n.get("master").str(), "local") {
		return nil
	}
	return jobOutputs()
}

// jobGiven returns the input of a kind: texts, lists of texts, mappings of texts, and several as a boolean.
func jobGiven(_ *reader, n *node, _ string) (all []Given) {
	for i, k := range n.keys {
		var v any
		switch is := n.vals[i]; {
		case k.text == "several":
			v, _ = is.bool()
		case is.kind == mapNode:
			table := make(map[string]string, len(is.keys))
			for j, name := range is.keys {
				table[name.text] = is.vals[j].str()
			}
			v = table
		case is.kind == listNode || k.text == "resource_manager":
			v = texts(is)
		default:
			v = is.str()
		}
		if raw, err := marshal(v); err == nil {
			all = append(all, Given{Name: k.text, Value: json.RawMessage(raw)})
		}
	}
	return all
}

// checkSpark finds the faults of a task with spark whose values are known.
func checkSpark(r *reader, n *node, at string) {
	w := spark.With{Master: n.get("master").str(), Main: n.get("main").str(), DeployMode: n.get("deploy_mode").str(), Class: n.get("class").str(),
		REST: n.get("rest").str(), ResourceManager: texts(n.get("resource_manager"))}
	if w.Master == "" || w.Main == "" || hasTemplate(w.Master) {
		return
	}
	if err := w.Check(); err != nil {
		r.failNode(n.get("master"), join(at, "master"), err.Error(), "")
	}
}

package workflow

import (
	"encoding/json"
	"testing"

	"skein.dev/skein/internal/dag"
)

// TestClusterJobs: tasks with spark and hadoop get lists, mappings and texts as their kinds read them, and
// have outputs that the file does not declare.
func TestClusterJobs(t *testing.T) {
	w := must(t, `
name: j
params: {day: {type: string, default: "3"}}
tasks:
  agg:
    spark: {master: yarn, main: agg.jar, class: x.Agg, args: ["${{ params.day }}", 5], conf: {spark.executor.cores: 4}, resource_manager: "http://rm:8088"}
  mr:
    needs: agg
    hadoop: {jar: wordcount.jar, args: ["${{ tasks.agg.outputs.application_id }}"], several: true, resource_manager: ["http://a:8088", "http://b:8088"]}
  here: {spark: {master: "local[2]", main: a.py}}
`)
	for i, want := range []string{
		`{"args":["3","5"],"class":"x.Agg","conf":{"spark.executor.cores":"4"},"main":"agg.jar","master":"yarn","resource_manager":["http://rm:8088"]}`,
		`{"args":["application_1"],"jar":"wordcount.jar","resource_manager":["http://a:8088","http://b:8088"],"several":true}`,
		`{"main":"a.py","master":"local[2]"}`,
	} {
		is, err := w.Resolve(i, Inputs{Params: []byte(`{"day":"3"}`), Outputs: func(string) (json.RawMessage, dag.TaskState) {
			return []byte(`{"application_id":"application_1"}`), dag.Succeeded
		}})
		if err != nil || string(is.Input) != want {
			t.Errorf("%s, %v, want %s", is.Input, err, want)
		}
	}
	if len(w.Tasks[0].Outputs) != 3 || len(w.Tasks[2].Outputs) != 0 {
		t.Errorf("%v, %v", w.Tasks[0].Outputs, w.Tasks[2].Outputs)
	}
	for source, key := range map[string]string{
		`{spark: {master: yarn, main: a.jar}}`:                                                 "spark.master",
		`{spark: {master: "spark://a:7077", main: a.py, rest: "http://a:6066"}}`:               "spark.master",
		`{spark: {master: local, main: a.jar, deploy_mode: cluster}}`:                          "spark.master",
		`{spark: {master: "k8s://a", main: a.jar}}`:                                            "spark.master",
		`{spark: {master: local, main: a.jar, conf: {"a b": c}}}`:                              "spark.conf.a b",
		`{hadoop: {jar: a.jar}}`:                                                               "hadoop.resource_manager",
		`{hadoop: {jar: a.jar, resource_manager: "http://a"}, outputs: {application_id: int}}`: "outputs",
	} {
		_, errs := Parse([]byte("name: s\ntasks: {a: "+source+"}\n"), Options{})
		if len(errs) == 0 || errs[0].Key != "tasks.a."+key {
			t.Errorf("%s: %v", source, errs)
		}
	}
}

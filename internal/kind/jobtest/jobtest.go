// Package jobtest provides test doubles of a YARN ResourceManager and of a Spark master. Their answers have
// the documented form. Doubles of the programs spark-submit and hadoop submit applications to them.
package jobtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Server is both doubles at one URL.
type Server struct {
	URL string

	mu   sync.Mutex // protects following fields
	jobs []*Job
	away bool
}

// Job is an application.
type Job struct {
	ID, Tag, State, Final string
	Name                  string // only for applications of Spark
	Kills                 int
}

// New starts the servers. They end with the test.
func New(t testing.TB) *Server {
	s := &Server{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ws/v1/cluster/apps", s.tagged)
	mux.HandleFunc("GET /ws/v1/cluster/apps/{id}", s.app)
	mux.HandleFunc("PUT /ws/v1/cluster/apps/{id}/state", s.end)
	mux.HandleFunc("POST /v1/submissions/create", s.create)
	mux.HandleFunc("GET /v1/submissions/status/{id}", s.status)
	mux.HandleFunc("POST /v1/submissions/kill/{id}", s.kill)
	mux.HandleFunc("POST /double/submit", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, s.Submit(r.URL.Query().Get("tag")))
	})
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		away := s.away
		s.mu.Unlock()
		if away {
			http.Error(w, "away", http.StatusServiceUnavailable)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(h.Close)
	s.URL = h.URL
	return s
}

// Submit begins an application with a tag, as spark-submit and hadoop do, and returns its id.
func (s *Server) Submit(tag string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := fmt.Sprintf("application_1700000000000_%04d", len(s.jobs)+1)
	s.jobs = append(s.jobs, &Job{ID: id, Tag: tag, State: "RUNNING", Final: "UNDEFINED"})
	return id
}

// Finish ends all running applications with a status, SUCCEEDED or FAILED.
func (s *Server) Finish(status string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.jobs {
		switch {
		case j.State != "RUNNING":
		case strings.HasPrefix(j.ID, "driver") && status == "FAILED":
			j.State = "FAILED"
		default:
			j.State, j.Final = "FINISHED", status
		}
	}
}

// Jobs returns all applications, oldest first.
func (s *Server) Jobs() (all []Job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.jobs {
		all = append(all, *j)
	}
	return all
}

// Away(true) makes the servers answer no request. Away(false) ends that.
func (s *Server) Away(is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = is
}

// with calls the function do with the application that a request names. It returns false if there is none.
func (s *Server) with(r *http.Request, do func(j *Job)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.jobs {
		if j.ID == r.PathValue("id") {
			do(j)
			return true
		}
	}
	return false
}

func answer(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value) // if it fails, the caller gets a bad answer
}

func (j *Job) form() map[string]any {
	return map[string]any{"id": j.ID, "state": j.State, "finalStatus": j.Final, "applicationTags": j.Tag, "trackingUrl": "http://rm/proxy/" + j.ID, "diagnostics": "why\nit ended"}
}

func (s *Server) tagged(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var apps []any
	for _, j := range s.jobs {
		if j.Tag != "" && j.Tag == r.URL.Query().Get("applicationTags") {
			apps = append(apps, j.form())
		}
	}
	if apps == nil {
		answer(w, http.StatusOK, map[string]any{"apps": nil})
		return
	}
	answer(w, http.StatusOK, map[string]any{"apps": map[string]any{"app": apps}})
}

func (s *Server) unknown(w http.ResponseWriter, r *http.Request) {
	answer(w, http.StatusNotFound, map[string]any{"RemoteException": map[string]any{"exception": "NotFoundException", "message": "app with id: " + r.PathValue("id") + " not found"}})
}

func (s *Server) app(w http.ResponseWriter, r *http.Request) {
	if !s.with(r, func(j *Job) { answer(w, http.StatusOK, map[string]any{"app": j.form()}) }) {
		s.unknown(w, r)
	}
}

// end handles the call that changes the state of an application. Like YARN, it requires a user.
func (s *Server) end(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("user.name") == "" {
		answer(w, http.StatusForbidden, map[string]any{"RemoteException": map[string]any{"message": "Unable to obtain user name, user not authenticated"}})
		return
	}
	if !s.with(r, func(j *Job) {
		j.State, j.Final = "KILLED", "KILLED"
		j.Kills++
		answer(w, http.StatusAccepted, map[string]any{"state": "RUNNING"})
	}) {
		s.unknown(w, r)
	}
}

func (s *Server) create(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Action, AppResource, MainClass string
		SparkProperties                map[string]string
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.Action != "CreateSubmissionRequest" || in.AppResource == "" || in.MainClass == "" {
		answer(w, http.StatusBadRequest, map[string]any{"action": "ErrorResponse", "message": "Malformed request", "success": false})
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	id := fmt.Sprintf("driver-20261127000000-%04d", len(s.jobs)+1)
	s.jobs = append(s.jobs, &Job{ID: id, State: "RUNNING", Name: in.SparkProperties["spark.app.name"]})
	answer(w, http.StatusOK, map[string]any{"action": "CreateSubmissionResponse", "message": "Driver successfully submitted as " + id, "serverSparkVersion": "4.0.0", "submissionId": id, "success": true})
}

func (s *Server) status(w http.ResponseWriter, r *http.Request) {
	if !s.with(r, func(j *Job) {
		answer(w, http.StatusOK, map[string]any{"action": "SubmissionStatusResponse", "driverState": j.State, "submissionId": j.ID, "success": true, "workerHostPort": "127.0.0.1:7079"})
	}) {
		answer(w, http.StatusOK, map[string]any{"action": "SubmissionStatusResponse", "submissionId": r.PathValue("id"), "success": false})
	}
}

func (s *Server) kill(w http.ResponseWriter, r *http.Request) {
	found := s.with(r, func(j *Job) { j.State, j.Kills = "KILLED", j.Kills+1 })
	answer(w, http.StatusOK, map[string]any{"action": "KillSubmissionResponse", "submissionId": r.PathValue("id"), "success": found})
}

// sparkSubmit is a program that submits an application to the YARN double, as spark-submit does with
// waitAppCompletion=false.
const sparkSubmit = `#!/usr/bin/python3
import os, sys, urllib.request
lines = [l.strip().split("=", 1) for l in open(os.environ["SPARK_CONF_DIR"] + "/spark-defaults.conf") if "=" in l]
conf = dict(lines)
print("spark-submit", " ".join(sys.argv[1:]), flush=True)
if "--deploy-mode client" in " ".join(sys.argv):
    sys.exit(int(conf.get("exit", "0")))
print(urllib.request.urlopen(urllib.request.Request(os.environ["DOUBLE"] + "/double/submit?tag=" + conf["spark.yarn.tags"], data=b"")).read().decode(), flush=True)
sys.exit(int(conf.get("exit", "0")))
`

// hadoop is a program that submits a job to the YARN double and waits for its end.
const hadoop = `#!/usr/bin/python3
import os, sys, time, json, urllib.request, xml.etree.ElementTree as x
site = x.parse(os.environ["HADOOP_CONF_DIR"] + "/mapred-site.xml").getroot()
conf = {p.find("name").text: p.find("value").text for p in site.iter("property")}
tag = conf["mapreduce.job.tags"]
print("hadoop", " ".join(sys.argv[1:]), flush=True)
at = os.environ["DOUBLE"]
print(urllib.request.urlopen(urllib.request.Request(at + "/double/submit?tag=" + tag, data=b"")).read().decode(), flush=True)
while True:
    a = json.load(urllib.request.urlopen(at + "/ws/v1/cluster/apps?applicationTags=" + tag))["apps"]["app"][-1]
    if a["state"] != "RUNNING":
        sys.exit(0 if a["finalStatus"] == "SUCCEEDED" else 1)
    time.sleep(0.1)
`

// Programs writes doubles of spark-submit and hadoop into a folder, and returns the folder. The variable
// DOUBLE tells them the URL of the servers.
func Programs(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "bin")
	err := os.Mkdir(dir, 0o755)
	for name, text := range map[string]string{"spark-submit": sparkSubmit, "hadoop": hadoop} {
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

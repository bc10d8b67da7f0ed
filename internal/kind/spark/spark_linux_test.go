package spark

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"skein.dev/skein/internal/kind"
	"skein.dev/skein/internal/kind/jobtest"
	"skein.dev/skein/internal/kind/yarn"
)

// world starts the doubles and returns the input of a task on YARN.
func world(t *testing.T) (*jobtest.Server, With) {
	s := jobtest.New(t)
	t.Setenv("DOUBLE", s.URL)
	t.Setenv("PATH", jobtest.Programs(t)+":"+os.Getenv("PATH"))
	conf := t.TempDir()
	if err := os.WriteFile(filepath.Join(conf, "spark-defaults.conf"), []byte("spark.old 1"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SPARK_CONF_DIR", conf)
	t.Setenv("SPARK_HOME", "")
	return s, With{Master: "yarn", Main: "agg.jar", Class: "x.Agg", Args: []string{"a"}, Conf: map[string]string{"spark.executor.memory": "4g"}, ResourceManager: []string{"http://127.0.0.1:1", s.URL}}
}

// onMaster returns the input of a task on a Spark master.
func onMaster(s *jobtest.Server) With {
	return With{Master: "spark://127.0.0.1:7077", REST: s.URL, Main: "/srv/agg.jar", Class: "x.Agg"}
}

// TestSpark checks that an application has a handle before it can run, and that the attempt waits for its
// end. If the application fails, or a person kills it, the attempt fails.
func TestSpark(t *testing.T) {
	s, w := world(t)
	token := int64(0)
	for _, w := range []With{w, onMaster(s)} {
		for _, status := range []string{"SUCCEEDED", "FAILED"} {
			token++
			a := jobtest.NewAttempt(t, token, w)
			code := a.Begin(t, t.Context(), Kind{})
			jobtest.Until(t, func() bool { return len(s.Jobs()) == int(token) })
			job := s.Jobs()[token-1]
			s.Away(true)
			s.Away(false)
			s.Finish(status)
			if got := <-code; (got == kind.Done) != (status == "SUCCEEDED") || got == kind.Away {
				t.Errorf("%s: %d: %s", status, got, a.Log.String())
			}
			if want := "{\"application_id\":\"" + job.ID + "\"}\n"; !strings.HasPrefix(a.Output.String(), want) {
				t.Errorf("%s", a.Output.String())
			}
			if handle := a.Handle(); handle != job.ID && handle != yarn.Tag("r/t", token) {
				t.Errorf("%q", handle)
			}
			if strings.Contains(a.Log.String(), "4g") {
				t.Errorf("a setting is an argument: %s", a.Log.String())
			}
		}
	}
}

// TestSparkAdopts checks that the attempt after a lost one waits for its application and submits none. If the
// master no longer knows the application, the attempt submits another one. A stop ends the application.
func TestSparkAdopts(t *testing.T) {
	s, w := world(t)
	tag := yarn.Tag("r/t", 1)
	s.Submit(tag)
	a := jobtest.NewAttempt(t, 2, w)
	code := a.Begin(t, t.Context(), Kind{}, jobtest.Lost(1, ""))
	jobtest.Until(t, func() bool { return a.Handle() == tag })
	s.Finish("SUCCEEDED")
	if got := <-code; got != kind.Done || len(s.Jobs()) != 1 {
		t.Errorf("%d, %+v: %s", got, s.Jobs(), a.Log.String())
	}
	m := onMaster(s)
	first := jobtest.NewAttempt(t, 3, m)
	dead, die := context.WithCancel(t.Context())
	code = first.Begin(t, dead, Kind{}, jobtest.Lost(2, "driver-unknown"))
	jobtest.Until(t, func() bool { return first.Handle() != "" })
	second := jobtest.NewAttempt(t, 4, m)
	ctx, stop := context.WithCancel(t.Context())
	again := second.Begin(t, ctx, Kind{}, jobtest.Lost(3, first.Handle()))
	jobtest.Until(t, func() bool { return second.Handle() == first.Handle() })
	stop()
	if got, jobs := <-again, s.Jobs(); got != kind.Failed || len(jobs) != 2 || jobs[1].State != "KILLED" {
		t.Errorf("%d, %+v", got, jobs)
	}
	die()
	<-code
	for _, c := range []struct {
		w      With
		handle string
	}{{w, tag}, {m, first.Handle()}, {m, "driver-unknown"}} {
		a := jobtest.NewAttempt(t, 5, c.w)
		a.Env.Input.Handle = c.handle
		s.Away(true)
		if code := (Kind{}).Release(t.Context(), &a.Env); code == kind.Done {
			t.Errorf("%s: released while the server is away", c.handle)
		}
		s.Away(false)
		if code := (Kind{}).Release(t.Context(), &a.Env); code != kind.Done {
			t.Errorf("%s: %d: %s", c.handle, code, a.Log.String())
		}
	}
}

// TestSparkClient checks that with a local master, spark-submit itself runs the application.
func TestSparkClient(t *testing.T) {
	s, _ := world(t)
	for exit, want := range map[string]int{"0": kind.Done, "75": kind.Failed} {
		a := jobtest.NewAttempt(t, 1, With{Master: "local[2]", Main: "a.py", Conf: map[string]string{"exit": exit}})
		if got := a.Main(t, t.Context(), Kind{}); got != want || a.Handle() != "" || len(s.Jobs()) > 0 {
			t.Errorf("%d, %q", got, a.Handle())
		}
	}
}

// TestSparkFaults checks that faults are found before an application begins, and that none begins while the
// server is away.
func TestSparkFaults(t *testing.T) {
	s, w := world(t)
	for _, change := range []func(w *With){
		func(w *With) { w.Main = "" },
		func(w *With) { w.Main = "--properties-file=/tmp/evil" },
		func(w *With) { w.ResourceManager = nil },
		func(w *With) { w.ResourceManager = []string{"rm:8088"} },
		func(w *With) { w.Master = "mesos://a" },
		func(w *With) { w.Master, w.DeployMode = "local", ModeCluster },
		func(w *With) { *w = onMaster(s); w.REST = "" },
		func(w *With) { *w = onMaster(s); w.Class = "" },
	} {
		c := w
		change(&c)
		a := jobtest.NewAttempt(t, 1, c)
		if code := a.Main(t, t.Context(), Kind{}); code != kind.Permanent {
			t.Errorf("%+v: %d: %s", c, code, a.Log.String())
		}
	}
	s.Away(true)
	for _, c := range []With{w, onMaster(s)} {
		a := jobtest.NewAttempt(t, 1, c)
		if code := a.Main(t, t.Context(), Kind{}); code != kind.Away || len(s.Jobs()) > 0 {
			t.Errorf("%d: %s", code, a.Log.String())
		}
	}
}

// TestGateway checks that an error of a gateway in front of the master does not mean that the application is
// gone.
func TestGateway(t *testing.T) {
	for status, want := range map[int]int{http.StatusBadGateway: kind.Away, http.StatusForbidden: kind.Failed} {
		gate := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet {
				t.Errorf("the call %s %s", r.Method, r.URL)
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, `{"message":"not now"}`)
		}))
		w := With{Master: "spark://127.0.0.1:7077", REST: gate.URL, Main: "/srv/agg.jar", Class: "x.Agg"}
		a := jobtest.NewAttempt(t, 2, w)
		if code := a.Main(t, t.Context(), Kind{}, jobtest.Lost(1, "driver-1")); code != want {
			t.Errorf("status %d: an attempt: %d: %s", status, code, a.Log.String())
		}
		a.Env.Input.Handle = "driver-1"
		if code := (Kind{}).Release(t.Context(), &a.Env); code == kind.Done {
			t.Errorf("status %d: released", status)
		}
		gate.Close()
	}
}

func TestProperties(t *testing.T) {
	if got := properties(map[string]string{"b": "1=2 ", "a": "é\\\n"}); got != "a=\\u00e9\\\\\\u000a\nb=1\\=2\\u0020\n" {
		t.Errorf("%q", got)
	}
}

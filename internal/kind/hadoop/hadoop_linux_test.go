package hadoop

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"skein.dev/skein/internal/kind"
	"skein.dev/skein/internal/kind/jobtest"
	"skein.dev/skein/internal/kind/yarn"
)

// world starts the double of YARN and returns the input of a task.
func world(t *testing.T) (*jobtest.Server, With) {
	s := jobtest.New(t)
	t.Setenv("DOUBLE", s.URL)
	t.Setenv("PATH", jobtest.Programs(t)+":"+os.Getenv("PATH"))
	conf := t.TempDir()
	if err := os.WriteFile(filepath.Join(conf, "mapred-site.xml"), []byte("<?xml version=\"1.0\"?>\n<configuration>\n<property><name>old</name><value>1</value></property>\n</configuration>\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(conf, "core-site.xml"), []byte("<configuration/>"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HADOOP_CONF_DIR", conf)
	return s, With{Jar: "wordcount.jar", Class: "WordCount", Args: []string{"in", "out"}, Conf: map[string]string{"mapreduce.job.queuename": "a<b"}, ResourceManager: []string{s.URL}}
}

// TestHadoop checks that the program gets the settings of machine and task, and that the outputs come from
// its job. If the job fails, the attempt fails, and its handle names the job.
func TestHadoop(t *testing.T) {
	s, w := world(t)
	a := jobtest.NewAttempt(t, 1, w)
	code := a.Begin(t, t.Context(), Kind{})
	jobtest.Until(t, func() bool { return len(s.Jobs()) == 1 })
	s.Finish("SUCCEEDED")
	if got := <-code; got != kind.Done {
		t.Fatalf("%d: %s", got, a.Log.String())
	}
	job := s.Jobs()[0]
	if job.Tag != yarn.Tag("r/t", 1) || a.Handle() != job.Tag {
		t.Errorf("%+v, %q", job, a.Handle())
	}
	if want := `{"application_id":"` + job.ID + "\"}\n{\"tracking_url\":\"http://rm/proxy/" + job.ID + "\"}\n{\"final_status\":\"SUCCEEDED\"}\n"; a.Output.String() != want {
		t.Errorf("%s", a.Output.String())
	}
	if _, err := os.ReadFile(a.Env.Files + ".conf/core-site.xml"); err != nil {
		t.Error(err)
	}
	a = jobtest.NewAttempt(t, 2, w)
	code = a.Begin(t, t.Context(), Kind{})
	jobtest.Until(t, func() bool { return len(s.Jobs()) == 2 })
	s.Finish("FAILED")
	if got := <-code; got != kind.Failed {
		t.Errorf("%d: %s", got, a.Log.String())
	}
}

// TestHadoopAdopts checks that the attempt after a lost one waits for its job, even if the attempt died
// before its handle was stored. A job that was killed has no result. A program with several jobs begins
// again.
func TestHadoopAdopts(t *testing.T) {
	s, w := world(t)
	first := yarn.Tag("r/t", 1)
	id := s.Submit(first)
	for _, e := range []kind.Earlier{jobtest.Lost(1, first), jobtest.Lost(1, "")} {
		a := jobtest.NewAttempt(t, 2, w)
		code := a.Begin(t, t.Context(), Kind{}, e)
		jobtest.Until(t, func() bool { return a.Handle() == first })
		s.Finish("SUCCEEDED") // the second attempt finds the job ended
		if got := <-code; got != kind.Done || len(s.Jobs()) != 1 {
			t.Fatalf("%d, %+v: %s", got, s.Jobs(), a.Log.String())
		}
	}
	again := jobtest.NewAttempt(t, 3, w)
	code := again.Begin(t, t.Context(), Kind{}, jobtest.Lost(1, first), kind.Earlier{Token: 2, End: "failed"})
	jobtest.Until(t, func() bool { return len(s.Jobs()) == 2 })
	s.Finish("SUCCEEDED")
	if got := <-code; got != kind.Done || again.Handle() != yarn.Tag("r/t", 3) {
		t.Errorf("%d, %q: the result of a job counts a second time", got, again.Handle())
	}
	w.Several = true
	s.Submit(first)
	a := jobtest.NewAttempt(t, 4, w)
	code = a.Begin(t, t.Context(), Kind{}, jobtest.Lost(1, first))
	jobtest.Until(t, func() bool { return len(s.Jobs()) == 4 })
	s.Finish("SUCCEEDED")
	if got, jobs := <-code, s.Jobs(); got != kind.Done || jobs[0].ID != id || jobs[2].State != "KILLED" || jobs[3].Tag != yarn.Tag("r/t", 4) {
		t.Errorf("%d, %+v", got, jobs)
	}
	w.Several = false
	a = jobtest.NewAttempt(t, 6, w)
	other := yarn.Tag("r/t", 9)
	s.Submit(other)
	ctx, stop := context.WithCancel(t.Context())
	code = a.Begin(t, ctx, Kind{}, jobtest.Lost(9, other))
	jobtest.Until(t, func() bool { return a.Handle() == other })
	stop() // the attempt gets TERM
	if got, jobs := <-code, s.Jobs(); got != kind.Failed || jobs[4].State != "KILLED" {
		t.Errorf("%d, %+v", got, jobs)
	}
	a = jobtest.NewAttempt(t, 7, w)
	code = a.Begin(t, t.Context(), Kind{}, jobtest.Lost(9, other))
	jobtest.Until(t, func() bool { return len(s.Jobs()) == 6 })
	s.Finish("SUCCEEDED")
	if got := <-code; got != kind.Done || a.Handle() != yarn.Tag("r/t", 7) {
		t.Errorf("%d, %q: a killed job counts", got, a.Handle())
	}
}

// TestHadoopReleases checks that an errand ends the jobs of a handle, and succeeds if there are none. While
// YARN is away, the errand is repeated. An attempt is repeated, too. In that case it has submitted nothing.
func TestHadoopReleases(t *testing.T) {
	s, w := world(t)
	tag := yarn.Tag("r/t", 1)
	s.Submit(tag)
	s.Submit("other")
	a := jobtest.NewAttempt(t, 1, w)
	a.Env.Input.Handle = tag
	s.Away(true)
	if code := (Kind{}).Release(t.Context(), &a.Env); code == kind.Done {
		t.Error(code)
	}
	b := jobtest.NewAttempt(t, 2, w)
	if code := b.Main(t, t.Context(), Kind{}); code != kind.Away || len(s.Jobs()) != 2 {
		t.Errorf("%d: %s", code, b.Log.String())
	}
	s.Away(false)
	for range 2 {
		if code := (Kind{}).Release(t.Context(), &a.Env); code != kind.Done {
			t.Errorf("%d: %s", code, a.Log.String())
		}
	}
	if jobs := s.Jobs(); jobs[0].Kills != 1 || jobs[1].Kills != 0 {
		t.Errorf("%+v", jobs)
	}
}

func TestSite(t *testing.T) {
	want := "<configuration>\n<property><name>a</name><value>1&lt;2</value></property>\n<property><name>mapreduce.job.tags</name><value>t</value></property>\n</configuration>\n"
	if got := site("", map[string]string{"a": "1<2", "mapreduce.job.tags": "mine"}, "t"); got != want {
		t.Errorf("%s", got)
	}
	if got := site("<configuration>\n<x/></configuration>", nil, "t"); got != "<configuration>\n<x/><property><name>mapreduce.job.tags</name><value>t</value></property>\n</configuration>" {
		t.Errorf("%s", got)
	}
}

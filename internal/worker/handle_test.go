//go:build linux

package worker

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestHandles checks that the handle of an attempt is reported while it runs and in its result, whatever its
// end is. Invalid lines are no handles. An attempt that may have no handle gets no file for one.
func TestHandles(t *testing.T) {
	told := make(chan string, 10)
	r := newRig(t, func(c *Config) {
		c.Started = func(_ Key, _ time.Time, handle string, adopts bool) {
			if handle != "" {
				told <- fmt.Sprint(handle, " ", adopts)
			}
		}
	})
	b := newBell(t)
	job := r.sh("printf job- > $SKEIN_HANDLE; echo 'é 1' >> $SKEIN_HANDLE; echo later >> $SKEIN_HANDLE; read x < " + b.path)
	job.Handle, job.Adopts = true, true
	r.Start(job)
	if h := <-told; h != "job-é 1 true" {
		t.Errorf("told %q", h)
	}
	fmt.Fprintln(b.file, "go on")
	if res := r.wait(); res.Handle != "job-é 1" || !res.Adopts || res.State != Succeeded {
		t.Errorf("the result is %+v", res)
	}
	for script, handle := range map[string]string{
		"printf at-the-end > $SKEIN_HANDLE; exit 3": "at-the-end",
		"true":                            "",
		"echo > $SKEIN_HANDLE":            "",
		`printf 'a\tb' > $SKEIN_HANDLE`:   "",
		`printf '\377' > $SKEIN_HANDLE`:   "",
		"ln -s /etc/passwd $SKEIN_HANDLE": "",
		"head -c 5000 /dev/zero | tr '\\0' x > $SKEIN_HANDLE":             "",
		"echo the-secret > $SKEIN_HANDLE":                                 "",
		"head -c 4096 /dev/zero | tr '\\0' x > $SKEIN_HANDLE":             strings.Repeat("x", 4096),
		"cat $SKEIN_EARLIER $SKEIN_INPUT | tr -d '\\n' > $SKEIN_HANDLE":   "[1]{2}",
		"[ $(stat -c %a $SKEIN_INPUT) = 600 ] && echo ok > $SKEIN_HANDLE": "ok",
	} {
		job := r.sh(script)
		job.Handle, job.Earlier, job.Input, job.Secrets = true, []byte("[1]"), []byte("{2}"), []string{"the-secret"}
		if res := r.run(job); res.Handle != handle {
			t.Errorf("%s: the handle is %.80q, want %.80q", script, res.Handle, handle)
		}
	}
	if res := r.run(r.sh(`[ -z "$SKEIN_HANDLE$SKEIN_EARLIER$SKEIN_INPUT" ]`)); res.State != Succeeded {
		t.Errorf("an attempt without handles got their variables: %+v", res)
	}
}

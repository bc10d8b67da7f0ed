package workflow

import "testing"

// TestSSH: the values of the environment may hold expressions, the command may not.
func TestSSH(t *testing.T) {
	w := must(t, `
name: s
params: {version: {type: string, default: "3"}}
tasks:
  deploy:
    ssh: {connection: web1, run: './deploy.sh "$VERSION"', dir: /srv, env: {VERSION: "${{ params.version }}"}}
    retry: {max: 2, on_exit: [7]}
`)
	if task := &w.Tasks[0]; task.Kind != "ssh" || !task.House || len(task.With) != 4 {
		t.Errorf("%+v", task)
	}
	for _, source := range []string{
		`{connection: web1, run: "echo ${{ params.version }}"}`,
		`{run: "true"}`,
		`{connection: web1, run: "true", env: {"A-B": x}}`,
	} {
		if _, err := Parse([]byte("name: s\nparams: {version: {type: string, default: x}}\ntasks:\n  a: {ssh: "+source+"}\n"), Options{}); err == nil {
			t.Errorf("%s passes", source)
		}
	}
}

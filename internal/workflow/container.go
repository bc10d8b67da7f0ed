package workflow

import (
	"encoding/json"

	"skein.dev/skein/internal/kind/container"
)

// containerHouse returns the kind of tasks that run a command in a container.
func containerHouse() house {
	return house{name: container.Name, doc: "Runs a command in a container of podman; the working folder is /work.", shape: containerShape,
		keys: []string{"env", "artifacts", "inputs"}, exits: true, boxed: true, plain: []string{"run"}, given: containerGiven, check: checkContainer}
}

func containerShape() *shape {
	return object(`a mapping such as {image: "python:3.12", run: python3 job.py}`,
		key{name: "image", must: true, doc: "The image, such as python:3.12 or registry.example/team/tool@sha256:…. May hold ${{ }}.", shape: text("the name of an image")},
		key{name: "run", doc: "What is executed in the container, in the forms of the key run of a task; default: the command of the image.", shape: run()},
		key{name: "pull", doc: "When the image is pulled: missing (default: if the machine does not have it), always or never.",
			shape: oneOf(container.PullMissing, container.PullAlways, container.PullNever)},
		key{name: "network", doc: "own (default): a network of its own that reaches other machines, but not the loopback of this one. none: no network.",
			shape: oneOf(container.NetworkOwn, container.NetworkNone)},
		key{name: "user", doc: "User in the container, as USER or USER:GROUP, by number or name; default: that of the image.", shape: text("a user such as 1000 or app:app")},
		key{name: "mounts", doc: "Folders of the machine by the names that its setting container_mounts gives them, and their paths in the container; :rw after a path to write there.",
			shape: table("a mapping such as {data: /data}", pattern("the name of a mount", `^[A-Za-z0-9_][A-Za-z0-9_-]{0,63}$`), text("a path in the container, such as /data or /data:rw"))})
}

// containerGiven returns the input of the kind. The value of run is read as for other tasks, and the other
// values are texts.
func containerGiven(r *reader, n *node, at string) (all []Given) {
	add := func(name string, v any) {
		if raw, err := marshal(v); err == nil {
			all = append(all, Given{Name: name, Value: json.RawMessage(raw)})
		}
	}
	for i, k := range n.keys {
		switch v := n.vals[i]; {
		case k.text == "run":
			add(k.text, r.run(v, join(at, "run")))
		case k.text == "mounts" && v.kind == mapNode:
			mounts := make(map[string]string, len(v.keys))
			for j, name := range v.keys {
				mounts[name.text] = v.vals[j].str()
			}
			add(k.text, mounts)
		default:
			add(k.text, v.str())
		}
	}
	return all
}

// checkContainer checks the values that are known before the task runs.
func checkContainer(r *reader, n *node, at string) {
	check := func(v *node, at string, err error) {
		if v != nil && v.isText() && !hasTemplate(v.text) && err != nil {
			r.failNode(v, at, err.Error(), "")
		}
	}
	image, user := n.get("image"), n.get("user")
	check(image, join(at, "image"), container.CheckImage(image.str()))
	check(user, join(at, "user"), container.CheckUser(user.str()))
	mounts := n.get("mounts")
	if mounts == nil || mounts.kind != mapNode {
		return
	}
	for i, k := range mounts.keys {
		_, _, err := container.ParseTarget(mounts.vals[i].str())
		check(mounts.vals[i], join(join(at, "mounts"), k.text), err)
	}
}

// withEnv adds the environment of the task to the input of a kind that isolates the command of the task
// itself. The process of the kind does not get that environment.
func withEnv(input json.RawMessage, env []KV) (json.RawMessage, error) {
	if len(env) == 0 {
		return input, nil
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(input, &all); err != nil {
		return nil, err
	}
	values := make(map[string]string, len(env))
	for _, kv := range env {
		values[kv.Name] = kv.Value
	}
	raw, err := marshal(values)
	if err != nil {
		return nil, err
	}
	all["env"] = raw
	return marshal(all)
}

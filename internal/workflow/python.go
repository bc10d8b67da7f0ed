package workflow

import (
	"encoding/json"
	"slices"
	"strings"

	"skein.dev/skein/internal/kind/python"
)

// pythonHouse returns the kind of tasks that run a program of Python with the packages that it needs.
func pythonHouse() house {
	return house{name: python.Name, doc: "Runs a program of Python with the packages of requirements, which are installed once on each machine.", shape: pythonShape,
		keys: notOfKinds, exits: true, plain: []string{"file", "module", "code", "requirements", "interpreter", "wheels"}, given: pythonGiven, check: checkPython}
}

func pythonShape() *shape {
	sh := object("a mapping such as {file: report.py, requirements: requirements.txt}",
		key{name: "file", doc: "The program: a file of the working folder.", shape: insidePath("a file such as report.py")},
		key{name: "module", doc: "The program: a module, as for python -m.", shape: pattern("the name of a module", `^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$`)},
		key{name: "code", doc: "The program itself. It may not hold ${{ }}: give values in args or env.", shape: text("lines of Python")},
		key{name: "args", doc: "Arguments of the program. May hold ${{ }}.", shape: list("a list of arguments", textOrNothing("a text"))},
		key{name: "requirements", doc: "The packages, each with its hashes: a list of lines of requirements.txt, or the name of such a file in the working folder.",
			shape: forms("a file such as requirements.txt, or a list of requirements", insidePath("a file such as requirements.txt"), list("a list of requirements", text("a requirement")))},
		key{name: "unlocked", doc: "true: requirements need no hashes. Then two machines may install different files.", shape: boolean()},
		key{name: "interpreter", doc: "The interpreter: a program in PATH or its path; default: python3.", shape: pattern("a program such as python3.12", `^[A-Za-z0-9_./+-]{1,200}$`)},
		key{name: "index", doc: "URL of the index of packages; default: that of pip on the machine. May hold ${{ }}.", shape: text("a URL")},
		key{name: "wheels", doc: "A folder with the packages, which are then installed without an index: in the working folder, or an absolute path that access lets the task read.",
			shape: text("a folder such as wheels")})
	sh.choose = []string{"file", "module", "code"}
	return sh
}

// pythonGiven returns the input of the kind: requirements in one form, and the other values as texts.
func pythonGiven(_ *reader, n *node, _ string) (all []Given) {
	add := func(name string, v any) {
		if raw, err := marshal(v); err == nil {
			all = append(all, Given{Name: name, Value: json.RawMessage(raw)})
		}
	}
	for i, k := range n.keys {
		switch v := n.vals[i]; {
		case k.text == "requirements" && v.kind != listNode:
			add("requirements_file", v.str())
		case k.text == "requirements" || k.text == "args":
			add(k.text, texts(v))
		case k.text == "unlocked":
			is, _ := v.bool()
			add(k.text, is)
		default:
			add(k.text, v.str())
		}
	}
	return all
}

// checkPython finds the faults of a task with python that do not depend on its machine.
func checkPython(r *reader, n *node, at string) {
	for _, name := range []string{"file", "module", "code", "requirements", "interpreter", "wheels"} {
		if v := n.get(name); slices.ContainsFunc(texts(v), hasTemplate) {
			r.failNode(v, join(at, name), "${{ }} is not allowed in "+name, "write the value itself, or give it in args or env")
		}
	}
	list, index, wheels, unlocked := n.get("requirements"), n.get("index"), n.get("wheels"), false
	if v := n.get("unlocked"); v != nil {
		unlocked, _ = v.bool()
	}
	switch {
	case list == nil:
		for _, name := range []string{"index", "wheels", "unlocked"} {
			if v := n.get(name); v != nil {
				r.failNode(v, join(at, name), name+" needs requirements", "remove it, or add requirements")
			}
		}
	case index != nil && wheels != nil:
		r.failNode(wheels, join(at, "wheels"), "packages of wheels are installed without an index", "remove index or wheels")
	case list.kind == listNode:
		if _, err := python.CheckRequirements(strings.Join(texts(list), "\n"), unlocked); err != nil {
			r.failNode(list, join(at, "requirements"), err.Error(), "")
		}
	}
}

package workflow

// sshHouse returns the kind of tasks that run a command on another machine, over a connection of the
// namespace.
func sshHouse() house {
	return house{name: "ssh", doc: "Runs a command on another machine, over a connection of the type ssh.", shape: sshShape, exits: true, plain: []string{"run"}}
}

func sshShape() *shape {
	return object("a mapping such as {connection: web1, run: ./deploy.sh}",
		key{name: "connection", must: true, doc: "Name of a connection of the namespace, of the type ssh.",
			shape: connectionName()},
		key{name: "run", must: true, doc: "Text that sh of the other machine executes. It may not hold ${{ }}: give values in env.", shape: text("a command of a shell")},
		key{name: "dir", doc: "Folder on the other machine; default: the home folder of the user. May hold ${{ }}.", shape: text("a folder")},
		key{name: "env", doc: "Environment variables of the command. Values may hold ${{ }}.",
			shape: table("a mapping of variables", pattern("the name of a variable", `^[A-Za-z_][A-Za-z0-9_]*$`), text("a text"))})
}

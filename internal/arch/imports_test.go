package arch

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const module = "skein.dev/skein"

// allowed says which of our own packages each package may import, in files that are not
// tests. A package that is not listed does not pass. Imports point down only.
var allowed = map[string][]string{
	"internal/lru":                   {},
	"internal/zipped":                {},
	"internal/zipped/zippedtest":     {"internal/zipped"},
	"internal/atomicfile":            {},
	"internal/metric":                {},
	"internal/metric/metrictest":     {"internal/metric"},
	"internal/suggest":               {},
	"internal/dag":                   {"internal/suggest"},
	"internal/cron":                  {"internal/suggest", "internal/zipped"},
	"internal/workflow":              {"internal/broker", "internal/kind/container", "internal/kind/hadoop", "internal/kind/python", "internal/kind/spark", "internal/dag", "internal/cron", "internal/glob", "internal/sqltext", "internal/suggest"},
	"internal/host":                  {},
	"internal/layout":                {},
	"internal/logindex":              {},
	"internal/logscan":               {"internal/logindex"},
	"internal/threads":               {},
	"internal/fence":                 {},
	"internal/box":                   {"internal/fence"},
	"internal/store":                 {"internal/dag"},
	"internal/store/packed":          {"internal/dag", "internal/store"},
	"internal/store/memory":          {"internal/dag", "internal/store"},
	"internal/store/sqlite":          {"internal/dag", "internal/store", "internal/store/packed", "internal/zipped"},
	"internal/store/storetest":       {"internal/dag", "internal/store"},
	"internal/store/postgres":        {"internal/dag", "internal/store", "internal/store/packed", "internal/zipped"},
	"internal/store/postgres/pgtest": {"internal/cluster/nettest"},
	"internal/errkind":               {"internal/dag", "internal/store"},
	"internal/admission":             {"internal/dag", "internal/store"},
	"internal/alert":                 {"internal/dag", "internal/store"},
	"internal/notify":                {"internal/alert", "internal/dag", "internal/metric", "internal/program", "internal/secret", "internal/store", "sdk/go/shared/mask"},
	"internal/inspect":               {"internal/alert", "internal/tally", "internal/dag", "internal/store", "internal/store/packed", "internal/errkind", "internal/admission"},
	"internal/engine":                {"internal/alert", "internal/dag", "internal/store", "internal/host", "internal/metric", "internal/errkind", "internal/admission", "internal/inspect"},
	"internal/certificate":           {},
	"internal/certificate/certtest":  {},
	"internal/balance":               {"internal/dag", "internal/store"},
	"internal/cluster":               {"internal/balance", "internal/dag", "internal/store", "internal/host", "internal/metric"},
	"internal/registry":              {"internal/host", "internal/metric", "sdk/go/shared/secretfile"},
	"internal/registry/registrytest": {"internal/cluster/nettest"},
	"internal/cluster/nettest":       {},
	"internal/transfer":              {"internal/dag", "internal/store"},
	"internal/past":                  {"internal/dag", "internal/store", "internal/atomicfile"},
	"internal/peer":                  {"internal/dag", "internal/store", "internal/engine", "internal/errkind", "internal/inspect", "sdk/go/api/v1"},
	"internal/secret":                {"sdk/go/shared/secretfile"},
	"internal/datadir":               {"internal/secret", "internal/worker"},
	"internal/sealed":                {"internal/atomicfile", "internal/secret", "internal/store"},
	"internal/authority":             {"internal/dag", "internal/sealed", "internal/store"},
	"internal/localtoken":            {"internal/auth", "internal/datadir", "internal/secret", "sdk/go/shared/local"},
	"internal/recovery":              {"internal/dag", "internal/engine", "internal/errkind", "internal/store", "internal/workflow"},
	"internal/joining":               {"internal/atomicfile", "internal/auth", "internal/authority", "internal/dag", "internal/home", "internal/secret", "internal/store", "sdk/go/api/v1"},
	"internal/shutdown":              {},
	"internal/program":               {},
	"internal/protect":               {},
	"internal/kind":                  {},
	"internal/stamp":                 {},
	"internal/feed":                  {},
	"internal/broker":                {"internal/secret"},
	"plus":                           {},
	"plus/stream":                    {"internal/broker", "internal/egress", "internal/feed", "internal/secret"}, // plus is a module of its own
	"plus/kafka":                     {"internal/broker", "internal/feed", "plus/stream"},
	"plus/redis":                     {"internal/broker", "internal/feed", "plus/stream"},
	"plus/mqtt":                      {"internal/broker", "internal/feed", "plus/stream"},
	"plus/amqp":                      {"internal/broker", "internal/feed", "plus/stream"},
	"plus/sqs":                       {"internal/broker", "internal/feed", "plus/stream"},
	"plus/nats":                      {"internal/broker", "internal/feed", "plus/stream"},
	"plus/cmd/skein-plus":            {"plus/clients"},
	"plus/clients":                   {"internal/feed", "internal/stamp", "plus/amqp", "plus/kafka", "plus/mqtt", "plus/nats", "plus/redis", "plus/sqs"},
	"internal/kind/boxtest":          {},
	"internal/kind/container":        {"internal/access", "internal/egress", "internal/kind", "internal/mounts"},
	"internal/kind/house":            {"internal/config", "internal/kind", "internal/kind/container", "internal/kind/hadoop", "internal/kind/python", "internal/kind/spark", "internal/kind/sql", "internal/kind/ssh", "internal/dag", "internal/extension"},
	"internal/kind/yarn":             {"internal/egress", "internal/kind"},
	"internal/kind/spark":            {"internal/egress", "internal/kind", "internal/kind/yarn"},
	"internal/kind/hadoop":           {"internal/kind", "internal/kind/yarn"},
	"internal/kind/jobtest":          {"internal/egress", "internal/kind"},
	"internal/kind/python":           {"internal/egress", "internal/kind"},
	"internal/kind/sql":              {"internal/connection", "internal/dag", "internal/egress", "internal/kind", "internal/sqltext", "internal/workflow", "sdk/go/shared/mask", "sdk/go/shared/output"},
	"internal/kind/ssh":              {"internal/egress", "internal/kind"},
	"internal/kind/sql/sqltest":      {"internal/cluster/nettest"},
	"internal/sqltext":               {},
	"internal/extension":             {"internal/dag", "internal/workflow"},
	"internal/connection":            {"internal/broker", "internal/protect", "internal/secret", "sdk/go/shared/mask"},
	"internal/provider":              {"internal/program", "internal/sealed", "internal/secret"},
	"internal/access":                {"internal/dag", "internal/suggest"},
	"internal/audit":                 {"internal/atomicfile", "internal/dag", "internal/store"},
	"internal/people":                {"internal/access", "internal/dag", "internal/store", "internal/suggest"},
	"internal/identity":              {},
	"internal/identity/ldaptest":     {"internal/cluster/nettest"},
	"internal/glob":                  {},
	"internal/mounts":                {},
	"internal/artifact":              {"internal/glob"},
	"internal/auth":                  {"internal/access", "internal/dag", "sdk/go/shared/local", "internal/store", "sdk/go/shared/line", "sdk/go/api/v1"},
	"internal/blob":                  {"internal/egress"},
	"internal/blob/blobtest":         {"internal/blob", "internal/cluster/nettest"},
	"internal/logs/segments":         {"internal/blob", "internal/dag", "internal/logindex", "internal/logs", "internal/store"},
	"internal/artifact/objects":      {"internal/artifact", "internal/blob", "internal/lru"},
	"internal/depot":                 {"internal/artifact", "internal/artifact/nodes", "internal/artifact/objects", "internal/blob", "internal/config", "internal/dag", "internal/dbadmin", "internal/errkind", "internal/logs", "internal/logs/segments", "internal/metric", "internal/store", "internal/worker"},
	"internal/artifact/nodes":        {"internal/artifact", "internal/dag", "internal/peer", "internal/store"},
	"internal/trigger":               {"internal/protect", "internal/lru", "internal/dag", "internal/cron", "internal/store", "internal/engine", "internal/errkind", "internal/inspect", "internal/workflow"},
	"internal/cloudevent":            {},
	"internal/gitsync":               {"internal/dag", "internal/egress", "internal/errkind", "internal/extension", "internal/metric", "internal/program", "internal/store", "internal/workflow", "sdk/go/api/v1", "sdk/go/shared/mask"},
	"internal/source":                {"internal/dag", "internal/engine", "internal/blob", "internal/connection", "internal/egress", "internal/errkind", "internal/host", "internal/metric", "internal/store", "internal/trigger", "internal/workflow", "internal/extension", "internal/feed", "internal/program", "internal/stamp", "sdk/go/shared/mask"},
	"internal/egress":                {},
	"internal/worker":                {"internal/connection", "sdk/go/shared/mask", "internal/dag", "internal/artifact", "sdk/go/shared/output", "internal/threads", "internal/egress", "internal/fence", "internal/logindex", "internal/box", "internal/mounts"},
	"internal/logs":                  {"internal/atomicfile", "internal/dag", "internal/logindex", "internal/store", "internal/worker"},
	"internal/home":                  {"sdk/go/shared/line", "internal/dag", "internal/artifact", "internal/logs", "internal/store", "internal/engine", "internal/errkind", "internal/inspect", "sdk/go/api/worker/v1", "sdk/go/api/worker/v1/workerv1connect"},
	"internal/remote":                {"internal/extension", "internal/kind", "internal/dag", "internal/egress", "sdk/go/shared/local", "internal/artifact", "internal/logs", "internal/worker", "sdk/go/api/worker/v1", "sdk/go/shared/session"},
	"internal/remote/health":         {"internal/auth", "internal/metric", "internal/remote"},
	"tools/collector":                {}, // a program of its own: the collector of the tests
	"tools/protogen":                 {}, // a module of its own
	"tools/release":                  {}, // a program of its own: it packs the results of make release
	"tools/cross":                    {},
	"internal/server":                {"internal/egress", "internal/gitsync", "internal/cloudevent", "internal/balance", "internal/monitor", "internal/home", "internal/authority", "internal/tally", "internal/alert", "internal/notify", "internal/connection", "internal/audit", "internal/sealed", "internal/access", "internal/people", "internal/dag", "internal/store", "internal/engine", "internal/errkind", "internal/inspect", "internal/workflow", "internal/trigger", "internal/cron", "internal/auth", "internal/cluster", "sdk/go/shared/output", "internal/layout", "internal/logindex", "internal/logscan", "internal/lru", "internal/metric", "internal/identity", "sdk/go/api/v1"},
	"internal/bench":                 {"internal/alert", "internal/dag", "internal/notify", "internal/store", "internal/store/sqlite", "internal/store/postgres", "internal/engine", "internal/errkind", "internal/inspect", "internal/worker", "internal/trigger", "internal/workflow"},
	"internal/oversee":               {"internal/alert", "internal/dag", "internal/gitsync", "internal/monitor", "internal/store"},
	"internal/monitor":               {"internal/dag", "internal/metric", "internal/store"},
	"internal/dispatch":              {"internal/alert", "internal/artifact", "internal/connection", "internal/dag", "internal/egress", "internal/engine", "internal/errkind", "internal/home", "internal/host", "internal/inspect", "internal/logs", "internal/lru", "sdk/go/shared/mask", "sdk/go/shared/output", "internal/provider", "internal/remote", "internal/store", "internal/worker", "internal/workflow", "sdk/go/api/worker/v1", "internal/extension", "internal/kind"},
	"internal/trace":                 {"internal/dag", "internal/host", "internal/lru", "internal/metric", "internal/store", "internal/tally", "sdk/go/shared/secretfile"},
	"internal/tally":                 {"internal/dag", "internal/errkind", "internal/store"},
	"internal/retention":             {"internal/dag", "internal/errkind", "internal/logs", "internal/store", "internal/workflow"},
	"internal/config":                {"internal/protect", "internal/kind/container", "internal/trace", "internal/access", "internal/auth", "internal/blob", "internal/dag", "internal/egress", "internal/home", "internal/identity", "sdk/go/shared/local", "internal/notify", "internal/provider", "internal/registry", "internal/retention", "internal/secret", "internal/suggest", "internal/worker", "internal/workflow"},
	"internal/dbadmin":               {"internal/config", "internal/dag", "internal/datadir", "internal/engine", "internal/inspect", "internal/past", "internal/provider", "internal/sealed", "internal/store", "internal/store/postgres", "internal/store/sqlite", "internal/transfer", "internal/trigger", "internal/workflow"},
	"internal/doctor":                {"internal/gitsync", "internal/kind", "internal/kind/container", "internal/kind/hadoop", "internal/kind/python", "internal/kind/spark", "internal/monitor", "internal/audit", "internal/auth", "internal/blob", "internal/depot", "internal/config", "internal/dag", "internal/datadir", "internal/dbadmin", "internal/identity", "internal/past", "internal/sealed", "internal/secret", "internal/store", "internal/store/postgres", "internal/threads", "internal/trigger", "internal/worker", "internal/workflow", "internal/stamp"},
	"internal/app": {"internal/stamp", "internal/gitsync", "internal/protect", "internal/shutdown", "internal/source", "internal/kind/container", "internal/trace", "internal/extension", "internal/kind/house", "internal/oversee", "internal/depot", "internal/localtoken", "internal/recovery", "internal/registry", "internal/monitor", "internal/authority", "internal/joining", "internal/tally", "internal/alert", "internal/notify", "internal/connection", "internal/provider", "internal/host", "internal/config", "internal/audit", "internal/datadir", "internal/dbadmin", "internal/dispatch", "internal/retention", "internal/sealed", "internal/access", "internal/people", "internal/metric", "internal/egress", "internal/home", "internal/remote", "sdk/go/api/worker/v1", "internal/dag", "internal/store", "internal/store/postgres", "internal/past", "internal/cluster", "internal/peer", "internal/engine", "internal/errkind", "internal/inspect", "internal/worker", "internal/logs", "internal/artifact", "internal/artifact/nodes", "internal/certificate", "internal/remote/health",
		"internal/workflow", "internal/trigger", "internal/secret", "internal/auth", "internal/server", "sdk/go/shared/local", "sdk/go/api/v1", "web/ui"},
	"internal/nodebench":        {"internal/app", "internal/bench", "internal/config", "sdk/go/api/v1", "sdk/go"},
	"web/ui":                    {},
	"internal/importer":         {"internal/cron", "internal/workflow"},
	"internal/importer/dolphin": {"internal/cron", "internal/workflow", "internal/importer"},
	"internal/importer/dagu":    {"internal/cron", "internal/workflow", "internal/importer"},
	"internal/importer/argo":    {"internal/cron", "internal/workflow", "internal/importer"},
	"internal/importer/crontab": {"internal/cron", "internal/workflow", "internal/importer"},
	"examples":                  {},
	"examples/sdk":              {"sdk/go", "sdk/go/skeintest"},
	"cmd/skein":                 {"internal/stamp", "internal/worker", "internal/box", "internal/extension", "internal/kind", "sdk/go/shared/output", "internal/kind/house", "internal/atomicfile", "internal/joining", "internal/localtoken", "internal/audit", "internal/app", "internal/config", "internal/datadir", "internal/dbadmin", "internal/doctor", "internal/nodebench", "sdk/go/shared/local", "internal/access", "internal/threads", "internal/bench", "internal/workflow", "internal/cron", "internal/importer", "internal/importer/dagu", "internal/importer/dolphin", "internal/importer/argo", "internal/importer/crontab", "internal/engine", "internal/errkind", "internal/inspect", "internal/dag", "sdk/go/api/v1", "sdk/go", "examples", "plus/clients"}, // plus/clients with the build tag plus
	"internal/arch":             {"sdk/go/api/v1"},

	// The SDK is a module of its own. It shares wire types and a few basic packages with the server, but no
	// package of the domain.
	"sdk/go":                               {"sdk/go/api/v1", "sdk/go/api/worker/v1", "sdk/go/shared/local", "sdk/go/shared/mask", "sdk/go/shared/output", "sdk/go/shared/session"},
	"sdk/go/api/v1":                        {},
	"sdk/go/api/worker/v1":                 {},
	"sdk/go/api/worker/v1/workerv1connect": {"sdk/go/api/worker/v1"},
	"sdk/go/skeintest":                     {"sdk/go", "sdk/go/api/worker/v1", "sdk/go/api/worker/v1/workerv1connect"},
	"sdk/go/shared/line":                   {},
	"sdk/go/shared/local":                  {"sdk/go/shared/secretfile"},
	"sdk/go/shared/mask":                   {},
	"sdk/go/shared/output":                 {},
	"sdk/go/shared/secretfile":             {},
	"sdk/go/shared/session":                {"sdk/go/api/worker/v1", "sdk/go/api/worker/v1/workerv1connect", "sdk/go/shared/line", "sdk/go/shared/local"},

	// The former import paths of the SDK: aliases only.
	".":         {"sdk/go", "sdk/go/api/v1"},
	"api/v1":    {"sdk/go/api/v1"},
	"skeintest": {"sdk/go", "sdk/go/skeintest"},

	// Tests only: nothing imports it.
	"internal/sim": {"internal/balance", "internal/alert", "internal/registry", "internal/audit", "internal/dag", "internal/past", "internal/store", "internal/store/memory", "internal/host", "internal/engine", "internal/errkind", "internal/inspect", "internal/cluster", "internal/trigger", "internal/workflow", "internal/dispatch", "internal/source"},
}

// pure packages only compute. They read no state from outside and do not wait. Package time is allowed for
// durations, but none of its functions that read a clock (see TestPure).
var pure = map[string]bool{
	"internal/admission":        true,
	"internal/cron":             true,
	"internal/dag":              true,
	"internal/glob":             true,
	"internal/importer":         true,
	"internal/importer/argo":    true,
	"internal/importer/crontab": true,
	"internal/importer/dagu":    true,
	"internal/importer/dolphin": true,
	"internal/layout":           true,
	"internal/suggest":          true,
}

var impure = []string{"os", "net", "log", "database", "sync", "context", "io/ioutil", "math/rand", "runtime", "unsafe"}

// goFiles calls see for every Go file of the tree, by its folder relative to the root.
func goFiles(t *testing.T, see func(dir, file string)) {
	t.Helper()
	root := repoRoot(t)
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && p != root || d.Name() == "testdata" || d.Name() == "bin" || d.Name() == "node_modules") {
			return filepath.SkipDir
		}
		if strings.HasSuffix(p, ".go") {
			dir, err := filepath.Rel(root, filepath.Dir(p))
			if err != nil {
				return err
			}
			see(filepath.ToSlash(dir), p)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func repoRoot(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "..", "..")
}

func TestImportsPointDown(t *testing.T) {
	goFiles(t, func(dir, file string) {
		rule, listed := allowed[dir]
		if !listed {
			t.Errorf("%s: package is not in the import policy; add it with a decision record", dir)
			return
		}
		if strings.HasSuffix(file, "_test.go") {
			return
		}
		for _, imp := range imports(t, file) {
			if own, ok := strings.CutPrefix(imp, module); ok {
				own = strings.TrimPrefix(own, "/")
				if own == "sdk" || strings.HasPrefix(own, "sdk/") { // the module is in the folder of its language
					own = "sdk/go" + own[len("sdk"):]
				}
				if own == "" {
					own = "."
				}
				if !contains(rule, own) {
					t.Errorf("%s imports %s, which the policy does not allow", file, own)
				}
			}
			if imp == "text/template" || imp == "html/template" {
				t.Errorf("%s imports %s, which calls methods by their names: the linker would keep every exported method", file, imp)
			}
			if pure[dir] {
				for _, bad := range impure {
					if file := filepath.ToSlash(file); imp == "sync" && strings.HasSuffix(file, "internal/cron/zonedata.go") {
						continue // the zone data are unpacked once
					}
					if imp == bad || strings.HasPrefix(imp, bad+"/") {
						t.Errorf("%s imports %s: package %s is pure", file, imp, dir)
					}
				}
			}
		}
	})
}

func TestNamesOfPackages(t *testing.T) {
	banned := []string{"pkg", "common", "util", "utils", "types", "models", "interfaces", "mocks", "helpers", "misc"}
	goFiles(t, func(dir, _ string) {
		if contains(banned, path.Base(dir)) {
			t.Errorf("%s: a package is named for what it gives", dir)
		}
	})
}

// hosted packages take the clock, goroutines, waits and randomness from package host, so that the simulator
// can replace these. Code that only shows states to people is not simulated.
var hosted = map[string]bool{"internal/engine": true, "internal/cluster": true}

var watchers = []string{"internal/engine/remote.go"}

var ofTheMachine = regexp.MustCompile(`\btime\.(Now|Since|Until|After|AfterFunc|Sleep|NewTimer|NewTicker|Tick)\(|^\s*go |\.Go\(func|\brand\.|uuid\.New`)

func TestHosted(t *testing.T) {
	root := repoRoot(t)
	goFiles(t, func(dir, file string) {
		rel, err := filepath.Rel(root, file)
		if err != nil {
			t.Fatal(err)
		}
		if !hosted[dir] || strings.HasSuffix(file, "_test.go") || contains(watchers, filepath.ToSlash(rel)) {
			return
		}
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(src), "\n") {
			if ofTheMachine.MatchString(line) && !strings.HasPrefix(line, "func NewRunID()") {
				t.Errorf("%s:%d: %s: use the engine's host, or the simulator cannot play it", rel, i+1, strings.TrimSpace(line))
			}
		}
	})
}

func TestPolicyHasNoDeadEntries(t *testing.T) {
	seen := map[string]bool{}
	goFiles(t, func(dir, _ string) { seen[dir] = true })
	for dir := range allowed {
		if !seen[dir] {
			t.Errorf("the import policy lists %s, which does not exist", dir)
		}
	}
}

func imports(t *testing.T, file string) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, spec := range f.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

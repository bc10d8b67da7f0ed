package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/chart/loader"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

type values = map[string]any

// merged adds values to the minimal values of an install.
func merged(more values) values {
	all := maps.Clone(lintValues)
	maps.Copy(all, more)
	return all
}

// manifests holds the rendered objects, decoded with the strict checks of the API server.
type manifests struct {
	sets     map[string]*appsv1.StatefulSet
	services map[string]*corev1.Service
	policies map[string]*networkingv1.NetworkPolicy
	budgets  map[string]*policyv1.PodDisruptionBudget
	accounts map[string]*corev1.ServiceAccount
}

func rendered(t *testing.T, v values) manifests {
	t.Helper()
	c, err := loader.Load(filepath.Join("../..", chartFolder))
	if err != nil {
		t.Fatal(err)
	}
	texts, err := render(c, v)
	if err != nil {
		t.Fatal(err)
	}
	m := manifests{map[string]*appsv1.StatefulSet{}, map[string]*corev1.Service{}, map[string]*networkingv1.NetworkPolicy{},
		map[string]*policyv1.PodDisruptionBudget{}, map[string]*corev1.ServiceAccount{}}
	for file, text := range texts {
		if !strings.HasSuffix(file, ".yaml") {
			continue
		}
		for _, part := range strings.Split("\n"+text, "\n---") {
			var head struct{ Kind string }
			if err := yaml.Unmarshal([]byte(part), &head); err != nil {
				t.Fatalf("%s: %v\n%s", file, err, part)
			}
			var err error
			switch head.Kind {
			case "":
				continue
			case "StatefulSet":
				err = decode(part, m.sets, func(o *appsv1.StatefulSet) string { return o.Name })
			case "Service":
				err = decode(part, m.services, func(o *corev1.Service) string { return o.Name })
			case "NetworkPolicy":
				err = decode(part, m.policies, func(o *networkingv1.NetworkPolicy) string { return o.Name })
			case "PodDisruptionBudget":
				err = decode(part, m.budgets, func(o *policyv1.PodDisruptionBudget) string { return o.Name })
			case "ServiceAccount":
				err = decode(part, m.accounts, func(o *corev1.ServiceAccount) string { return o.Name })
			default:
				err = fmt.Errorf("a test does not know the kind %s", head.Kind)
			}
			if err != nil {
				t.Fatalf("%s: %v\n%s", file, err, part)
			}
		}
	}
	return m
}

func decode[T any](text string, into map[string]*T, name func(*T) string) error {
	o := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), o); err != nil {
		return err
	}
	if into[name(o)] != nil {
		return fmt.Errorf("there are two objects of the name %q", name(o))
	}
	into[name(o)] = o
	return nil
}

// TestChart renders the chart with several values and compares the pods with the program and its image.
func TestChart(t *testing.T) {
	plain := values{"tls": values{"insecurePlaintext": true}}
	for name, v := range map[string]values{
		"cluster": merged(nil),
		"plain":   merged(plain),
		"all": merged(values{
			"tls": values{"existingSecret": "tls", "ca": true}, "secretKey": values{"existingSecret": "key"},
			"settings": values{"log_level": "debug", "retention_runs": 500, "no_ui": true}, "drainSeconds": 300,
			"nodes":   values{"replicas": 5, "podAnnotations": values{"a": "b"}, "nodeSelector": values{"c": "d"}, "affinity": values{"nodeAffinity": values{}}},
			"workers": values{"replicas": 1, "group": "etl", "label": "disk=ssd", "tolerations": []any{values{"key": "k", "operator": "Exists"}}},
			"networkPolicy": values{"clients": []any{values{"namespaceSelector": values{}}}, "metrics": []any{values{"podSelector": values{}}},
				"nodeEgress": []any{values{"ports": []any{values{"port": 6432}}}}, "workerEgress": []any{values{"to": []any{values{"ipBlock": values{"cidr": "10.0.0.0/8"}}}}}},
			"image":          values{"repository": "r/skein", "digest": "sha256:" + strings.Repeat("0", 64), "pullSecrets": []any{values{"name": "p"}}},
			"serviceAccount": values{"create": false, "name": "mine"}, "service": values{"type": "LoadBalancer", "annotations": values{"e": "f"}},
		}),
		"no workers":   merged(values{"workers": values{"replicas": 0}}),
		"single":       {"mode": "single", "tls": values{"existingSecret": "tls"}},
		"single plain": {"mode": "single", "tls": values{"insecurePlaintext": true}, "networkPolicy": values{"enabled": false}},
	} {
		t.Run(name, func(t *testing.T) {
			m := rendered(t, v)
			want := 2
			if name == "no workers" || strings.HasPrefix(name, "single") {
				want = 1
			}
			if len(m.sets) != want {
				t.Errorf("it has the sets %v, want %d", slices.Collect(maps.Keys(m.sets)), want)
			}
			for name, set := range m.sets {
				checkSet(t, name, set, m)
			}
			for name, s := range m.services {
				checkSelector(t, m, "service "+name, s.Spec.Selector, s.Spec.Ports[0].TargetPort)
			}
			for name, p := range m.policies {
				if strings.HasSuffix(name, "-worker") && want == 1 {
					continue
				}
				port := intstr.FromString("")
				if len(p.Spec.Ingress) > 0 {
					port = *p.Spec.Ingress[0].Ports[0].Port
				}
				checkSelector(t, m, "policy "+name, p.Spec.PodSelector.MatchLabels, port)
			}
		})
	}
}

// checkSelector checks that a selector finds pods, which have the named port.
func checkSelector(t *testing.T, m manifests, of string, selector map[string]string, port intstr.IntOrString) {
	t.Helper()
	for _, set := range m.sets {
		pod := set.Spec.Template
		found := true
		for k, v := range selector {
			found = found && pod.Labels[k] == v
		}
		if found && (port.StrVal == "" || slices.ContainsFunc(pod.Spec.Containers[0].Ports, func(p corev1.ContainerPort) bool { return p.Name == port.StrVal })) {
			return
		}
	}
	t.Errorf("%s: no pod has the labels %v and the port %q", of, selector, port.StrVal)
}

var (
	settingPattern = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| `--[a-z-]+` \\| `(SKEIN_[A-Z_]+)` \\|")
	pathPattern    = regexp.MustCompile(`"GET", "(/[a-z]+)", Public`)
)

// known returns the matches of a pattern in a file of the repository.
func known(t *testing.T, file string, pattern *regexp.Regexp, group int) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../..", file))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for _, m := range pattern.FindAllStringSubmatch(string(text), -1) {
		all[m[group]] = true
	}
	if len(all) == 0 {
		t.Fatalf("%s has nothing like %s", file, pattern)
	}
	return all
}

// checkSet checks the rights and volumes of the pods of a set, and that the program has the settings that
// they use.
func checkSet(t *testing.T, name string, set *appsv1.StatefulSet, m manifests) {
	t.Helper()
	pod, image := set.Spec.Template.Spec, imageConfig()
	if m.services[set.Spec.ServiceName] == nil {
		t.Errorf("%s: there is no service %s", name, set.Spec.ServiceName)
	}
	if c := pod.SecurityContext; !*c.RunAsNonRoot || fmt.Sprintf("%d:%d", *c.RunAsUser, *c.RunAsGroup) != image.User || c.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("%s: its user is %d:%d, the image's is %s; or it has no seccomp profile", name, *c.RunAsUser, *c.RunAsGroup, image.User)
	}
	if *pod.AutomountServiceAccountToken || *pod.EnableServiceLinks {
		t.Errorf("%s: it has a token of Kubernetes, or variables of services that look like settings", name)
	}
	volumes := map[string]bool{}
	for _, v := range pod.Volumes {
		volumes[v.Name] = true
		if v.Secret != nil && *v.Secret.DefaultMode&0o007 != 0 && v.Name != "ca" {
			t.Errorf("%s: others can read the secret %s", name, v.Name)
		}
		if worker := strings.HasSuffix(name, "-worker"); worker && (v.Name == "db" || v.Name == "tls" || v.Name == "key") {
			t.Errorf("%s: tasks can read %s", name, v.Name)
		}
	}
	for _, c := range set.Spec.VolumeClaimTemplates {
		volumes[c.Name] = true
	}
	variables := known(t, "docs/config.md", settingPattern, 2)
	for _, c := range append(slices.Clone(pod.InitContainers), pod.Containers...) {
		if s := c.SecurityContext; *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) {
			t.Errorf("%s: %s may more than it needs", name, c.Name)
		}
		mounts := []string{}
		for _, v := range c.VolumeMounts {
			if mounts = append(mounts, v.MountPath); !volumes[v.Name] {
				t.Errorf("%s: %s mounts the unknown volume %s", name, c.Name, v.Name)
			}
		}
		for volume := range image.Volumes {
			if !slices.Contains(mounts, volume) {
				t.Errorf("%s: %s mounts nothing at %s, the volume of the image", name, c.Name, volume)
			}
		}
		env := map[string]string{}
		for _, e := range c.Env {
			if _, twice := env[e.Name]; twice || !variables[e.Name] {
				t.Errorf("%s: %s sets %s, which is no setting or is set twice", name, c.Name, e.Name)
			}
			env[e.Name] = e.Value
			if under := func(dir string) bool { return strings.HasPrefix(e.Value, dir+"/") }; strings.HasPrefix(e.Value, "/") && !slices.ContainsFunc(mounts, under) {
				t.Errorf("%s: %s: no volume has %s=%s", name, c.Name, e.Name, e.Value)
			}
		}
		if c.LivenessProbe != nil {
			checkProbes(t, name, &c, env)
		}
	}
	if c := pod.Containers[0]; c.LivenessProbe == nil || c.ReadinessProbe == nil || c.StartupProbe == nil {
		t.Errorf("%s: it lacks a probe", name)
	}
	drain, err := time.ParseDuration(envOf(&pod.Containers[0], "SKEIN_DRAIN"))
	if grace := time.Duration(*pod.TerminationGracePeriodSeconds) * time.Second; err != nil || grace < drain+10*time.Second {
		t.Errorf("%s: it is killed after %v, and its drain of %v (%v) may take 10 s more", name, grace, drain, err)
	}
}

func envOf(c *corev1.Container, name string) string {
	i := slices.IndexFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == name })
	if i < 0 {
		return ""
	}
	return c.Env[i].Value
}

// checkProbes checks that each probe calls a path that needs no token, with the port and the scheme of the
// process.
func checkProbes(t *testing.T, name string, c *corev1.Container, env map[string]string) {
	t.Helper()
	listen, scheme := env["SKEIN_LISTEN"], corev1.URISchemeHTTP
	if env["SKEIN_HEALTH_LISTEN"] != "" {
		listen = env["SKEIN_HEALTH_LISTEN"]
	} else if env["SKEIN_TLS_CERT"] != "" {
		scheme = corev1.URISchemeHTTPS
	}
	public := known(t, "internal/access/rows.go", pathPattern, 1)
	for _, p := range []*corev1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
		get := p.HTTPGet
		if !public[get.Path] || get.Scheme != scheme || get.Port.StrVal != c.Ports[0].Name {
			t.Errorf("%s: the probe %v: want a public path of %v, %s, the port %s", name, get, public, scheme, c.Ports[0].Name)
		}
	}
	if want := fmt.Sprintf("0.0.0.0:%d", c.Ports[0].ContainerPort); listen != want {
		t.Errorf("%s: it listens on %s, its port is %s", name, listen, want)
	}
	if port := fmt.Sprintf("%d/tcp", c.Ports[0].ContainerPort); c.Ports[0].Name == "api" && !hasKey(imageConfig().ExposedPorts, port) {
		t.Errorf("%s: the image has no port %s", name, port)
	}
}

// TestChartOfACluster: nodes and workers know the address of each node, and the network rules let a worker
// reach only the nodes and the other services that it needs.
func TestChartOfACluster(t *testing.T) {
	m := rendered(t, merged(values{"nodes": values{"replicas": 2}}))
	node, worker := m.sets["skein-node"], m.sets["skein-worker"]
	want := "https://skein-node-0.skein-nodes.default.svc:8080,https://skein-node-1.skein-nodes.default.svc:8080"
	if is := envOf(&worker.Spec.Template.Spec.Containers[0], "SKEIN_SERVER"); is != want {
		t.Errorf("workers call %s, want %s", is, want)
	}
	if is := envOf(&node.Spec.Template.Spec.Containers[0], "SKEIN_ADVERTISE"); is != "https://$(SKEIN_NAME)."+node.Spec.ServiceName+".default.svc:8080" {
		t.Errorf("a node says that it is at %s", is)
	}
	if s := m.services[node.Spec.ServiceName].Spec; s.ClusterIP != "None" || !s.PublishNotReadyAddresses {
		t.Errorf("nodes that are not ready have no names: %+v", s)
	}
	for _, name := range []string{"skein-node", "skein-worker"} {
		if b := m.budgets[name]; b == nil || b.Spec.MaxUnavailable.IntValue() != 1 {
			t.Errorf("an eviction may take more than one of %s at once", name)
		}
	}
	if p := m.policies["skein-worker"]; p == nil || len(p.Spec.Ingress) != 0 || !slices.Contains(p.Spec.PolicyTypes, networkingv1.PolicyTypeIngress) {
		t.Errorf("pods may call workers: %+v", p)
	}
	if p := m.policies["skein-node"]; p == nil || len(p.Spec.Ingress) != 1 || len(p.Spec.Ingress[0].From) != 1 || len(p.Spec.Egress) != 3 {
		t.Errorf("other pods may call nodes, or nodes reach more than names, nodes and the database: %+v", p)
	}
}

// TestChartRefuses: values that would otherwise fail only in the pods are errors of the chart, which name a
// remedy.
func TestChartRefuses(t *testing.T) {
	c, err := loader.Load(filepath.Join("../..", chartFolder))
	if err != nil {
		t.Fatal(err)
	}
	for want, v := range map[string]values{
		"database.existingSecret is empty":  merged(values{"database": values{"existingSecret": ""}}),
		"tokens.existingSecret is empty":    merged(values{"tokens": values{"existingSecret": ""}}),
		"tls.existingSecret is empty":       {"mode": "single"},
		"settings.db: the chart sets it":    merged(values{"settings": values{"db": "x"}}),
		"mode":                              merged(values{"mode": "many"}),
		"drainSeconds":                      merged(values{"drainSeconds": "1m"}),
		"replicas":                          merged(values{"nodes": values{"replicas": 0}}),
		"additional properties 'node' not":  merged(values{"node": values{}}),
		"additional properties 'slot' not":  merged(values{"workers": values{"slot": 1}}),
		"'sha256:1' does not match pattern": merged(values{"image": values{"digest": "sha256:1"}}),
	} {
		if _, err := render(c, v); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q in it", err, want)
		}
	}
}

// TestChartPage: the page of the chart names each value, and no other one.
func TestChartPage(t *testing.T) {
	c, err := loader.Load(filepath.Join("../..", chartFolder))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join("../..", chartFolder, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| (`.*?) \\|").FindAllStringSubmatch(string(text), -1) {
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			named[name[1]] = true
		}
	}
	var walk func(at string, v values)
	walk = func(at string, v values) {
		for name, value := range v {
			under, ok := value.(values)
			if ok && len(under) > 0 && name != "resources" && name != "settings" {
				walk(at+name+".", under)
				continue
			}
			if !named[at+name] {
				t.Errorf("the page does not name %s", at+name)
			}
			delete(named, at+name)
		}
	}
	walk("", c.Values)
	for name := range named {
		t.Errorf("the page names %s, which is no value", name)
	}
}

// TestChartIsPackaged: the package has the version of the release, passes the lint, and is the same after
// each build.
func TestChartIsPackaged(t *testing.T) {
	var before []byte
	for range 2 {
		r := &release{version: "1.2.3", at: time.Unix(1764000000, 0).UTC(), root: "../..", out: t.TempDir()}
		if err := os.MkdirAll(filepath.Join(r.out, "build"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := r.chart(); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(filepath.Join(r.out, "skein-1.2.3.tgz"))
		if err != nil {
			t.Fatal(err)
		}
		if before != nil && !bytes.Equal(before, data) {
			t.Error("two packages of the same input differ")
		}
		before = data
	}
	c, err := loader.LoadArchive(bytes.NewReader(before))
	if err != nil {
		t.Fatal(err)
	}
	if c.Metadata.Version != "1.2.3" || c.Metadata.AppVersion != "1.2.3" || len(c.Schema) == 0 || len(c.Templates) < 7 {
		t.Errorf("the package is %+v with %d templates", c.Metadata, len(c.Templates))
	}
	z, err := gzip.NewReader(bytes.NewReader(before))
	if err != nil {
		t.Fatal(err)
	}
	h, err := tar.NewReader(z).Next()
	if err != nil || h.ModTime.Unix() != 1764000000 {
		t.Errorf("its first file is of %v (%v), want the time of the release", h.ModTime, err)
	}
}

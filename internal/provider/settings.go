package provider

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Settings is the value of the setting secret_providers: the providers in the order in which they are called.
type Settings []Source

// Source is one provider. Exactly one of its kinds is set.
type Source struct {
	Name string `json:"name"` // "" means the name of its kind
	// Namespaces lists the namespaces that may use the provider; "*" stands for all.
	Namespaces []string `json:"namespaces"`
	// Cache is the time for which a value is kept in memory, in Go's notation of durations. "" means the
	// default of the kind.
	Cache string `json:"cache"`

	// File is the path of a file, with {name} and {namespace}.
	File string `json:"file"`
	// Env is the prefix of the names of environment variables, after VariablePrefix. It may be empty.
	Env *string `json:"env"`
	// Command is a program with its arguments. It gets the namespace and the name of the secret as two
	// further arguments.
	Command []string `json:"command"`
	Vault   *Vault   `json:"vault"`

	age time.Duration
}

// Vault is a server of Vault or OpenBao with a KV secrets engine of version 2.
type Vault struct {
	Address string `json:"address"`
	Mount   string `json:"mount"` // the mount of the secrets engine; "" means secret
	Path    string `json:"path"`  // the path, with {name} and {namespace}; "" means skein/{namespace}/{name}
	Field   string `json:"field"` // the field, with {name} and {namespace}; "" means value
	// Namespace is the namespace of Vault, or "" if there is none.
	Namespace string `json:"vault_namespace"`
	CAFile    string `json:"ca_file"`

	// Exactly one of the following fields is set. It determines the method by which a node signs in.
	TokenFile  string   `json:"token_file"`
	AppRole    *AppRole `json:"approle"`
	Kubernetes *JWT     `json:"kubernetes"`
	JWT        *JWT     `json:"jwt"`
}

// AppRole signs in by the method approle.
type AppRole struct {
	Mount        string `json:"mount"` // "" means approle
	RoleID       string `json:"role_id"`
	SecretIDFile string `json:"secret_id_file"`
}

// JWT signs in by the methods kubernetes and jwt.
type JWT struct {
	Mount   string `json:"mount"` // "" means the default of the method
	Role    string `json:"role"`
	JWTFile string `json:"jwt_file"` // "" with kubernetes means the token of the pod
}

const (
	// VariablePrefix is the prefix of the variables of kind env.
	VariablePrefix = "SKEIN_VALUE_"
	// sourcesMax bounds the providers of a node.
	sourcesMax = 20
	// ageDefault is the time for which values of programs and of Vault are kept by default. ageMax is the
	// longest time.
	ageDefault, ageMax = 5 * time.Minute, 24 * time.Hour
	// podToken is the file with the token of a pod.
	podToken = "/var/run/secrets/kubernetes.io/serviceaccount/token"
	everyone = "*"
)

// These parts of a pattern are replaced by the namespace and the name of the secret.
const (
	nameMark      = "{name}"
	namespaceMark = "{namespace}"
)

var sourceName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$`)

// Parse reads the setting secret_providers as JSON. checkNamespace refuses a text that names no namespace.
func Parse(text string, checkNamespace func(string) error) (s Settings, err error) {
	if text == "" {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return nil, fmt.Errorf("write a list of providers as in docs/secrets.md: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is text after the value")
	}
	if len(s) > sourcesMax {
		return nil, fmt.Errorf("it lists %d providers; at most %d are allowed", len(s), sourcesMax)
	}
	names := map[string]bool{}
	for i := range s {
		p := &s[i]
		if err := p.check(checkNamespace); err != nil {
			return nil, fmt.Errorf("provider %d (%.40s): %w", i+1, p.Name, err)
		}
		if names[p.Name] {
			return nil, fmt.Errorf("provider %d: another provider has the name %s: give this one a name of its own", i+1, p.Name)
		}
		names[p.Name] = true
	}
	return s, nil
}

// Kind returns the name of the kind that is set.
func (p *Source) Kind() string {
	switch {
	case p.File != "":
		return "file"
	case p.Env != nil:
		return "env"
	case len(p.Command) > 0:
		return "command"
	case p.Vault != nil:
		return "vault"
	}
	return ""
}

func (p *Source) check(checkNamespace func(string) error) (err error) {
	kinds := 0
	for _, is := range []bool{p.File != "", p.Env != nil, len(p.Command) > 0, p.Vault != nil} {
		if is {
			kinds++
		}
	}
	if kinds != 1 {
		return fmt.Errorf("it has %d of the keys file, env, command and vault: a provider has exactly one", kinds)
	}
	if p.Name == "" {
		p.Name = p.Kind()
	}
	if !sourceName.MatchString(p.Name) {
		return fmt.Errorf("name: %.40q is not a provider name: use up to 32 of a-z, 0-9 and -", p.Name)
	}
	if len(p.Namespaces) == 0 {
		return errors.New(`namespaces is missing: list the namespaces whose tasks may use the provider; ["*"] is all of them`)
	}
	for _, ns := range p.Namespaces {
		if err := checkNamespace(ns); err != nil {
			return fmt.Errorf("namespaces: %w", err)
		}
	}
	if p.age, err = p.cached(); err != nil {
		return fmt.Errorf("cache: %w", err)
	}
	switch p.Kind() {
	case "file":
		return p.checkFile()
	case "env":
		if !regexp.MustCompile(`^[A-Za-z0-9_]{0,100}$`).MatchString(*p.Env) {
			return fmt.Errorf("env: %.40q is not a prefix of variable names: use letters, digits and _", *p.Env)
		}
		return nil
	case "command":
		if !filepath.IsAbs(p.Command[0]) {
			return fmt.Errorf("command: %.100q is not the absolute path of a program", p.Command[0])
		}
		return nil
	}
	if err := p.Vault.check(); err != nil {
		return fmt.Errorf("vault: %w", err)
	}
	return nil
}

// cached returns the time for which values are kept. Files and variables are read at each use.
func (p *Source) cached() (time.Duration, error) {
	outside := p.Kind() == "command" || p.Kind() == "vault"
	switch {
	case p.Cache == "" && outside:
		return ageDefault, nil
	case p.Cache == "":
		return 0, nil
	case !outside:
		return 0, fmt.Errorf("a provider of kind %s is read at each use: remove the key cache", p.Kind())
	}
	d, err := time.ParseDuration(p.Cache)
	if err != nil || d < 0 || d > ageMax {
		return 0, fmt.Errorf("%.40q is not a duration from 0s to %s, such as 5m", p.Cache, ageMax)
	}
	return d, nil
}

func (p *Source) checkFile() error {
	if !filepath.IsAbs(p.File) {
		return fmt.Errorf("file: %.200q is not an absolute path", p.File)
	}
	if err := checkPattern("file", p.File, p.File); err != nil {
		return err
	}
	if dir := fixed(p.File); strings.Count(dir, "/") < 2 || filepath.Clean(p.File) != p.File {
		return fmt.Errorf("file: %.200q is not in a separate folder, which can be protected from tasks: use a folder such as /etc/skein/secrets/{namespace}/{name}", p.File)
	}
	return nil
}

// checkPattern refuses unknown marks in braces, and patterns without the name of the secret.
func checkPattern(key, text, all string) error {
	plain := strings.NewReplacer(nameMark, "", namespaceMark, "").Replace(text)
	switch {
	case strings.ContainsAny(plain, "{}"):
		return fmt.Errorf("%s: %.200q has braces that are neither %s nor %s", key, text, nameMark, namespaceMark)
	case !strings.Contains(all, nameMark):
		return fmt.Errorf("%s: %.200q does not say where the name of the secret goes: write %s into it", key, text, nameMark)
	case strings.Contains(text, namespaceMark+nameMark), strings.Contains(text, nameMark+namespaceMark):
		return fmt.Errorf("%s: %.200q can give two namespaces the same secret: write a / between %s and %s", key, text, namespaceMark, nameMark)
	}
	return nil
}

// fill replaces the marks of a pattern.
func fill(pattern, namespace, name string) string {
	return strings.NewReplacer(nameMark, name, namespaceMark, namespace).Replace(pattern)
}

func (v *Vault) check() (err error) {
	u, err := url.Parse(v.Address)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") != "":
		return fmt.Errorf("address: %.200q is not an address such as https://vault.example.com:8200", v.Address)
	case u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())):
		return fmt.Errorf("address: %.200q is not an https:// address, so others on the way could read the secrets", v.Address)
	}
	v.Address = u.Scheme + "://" + u.Host
	for _, d := range []struct {
		to  *string
		def string
	}{{&v.Mount, "secret"}, {&v.Path, "skein/{namespace}/{name}"}, {&v.Field, "value"}} {
		if *d.to == "" {
			*d.to = d.def
		}
		*d.to = strings.Trim(*d.to, "/")
	}
	if err := checkPattern("path", v.Path, v.Path+v.Field); err != nil {
		return err
	}
	if err := checkPattern("field", v.Field, v.Path+v.Field); err != nil {
		return err
	}
	for _, path := range []string{v.Mount, v.Path} {
		if slices.ContainsFunc(strings.Split(path, "/"), func(part string) bool { return part == "" || part == "." || part == ".." }) {
			return fmt.Errorf("%.200q is not a path: it has an empty part, . or ..", path)
		}
	}
	return v.checkSignIn()
}

func (v *Vault) checkSignIn() error {
	ways := 0
	for _, is := range []bool{v.TokenFile != "", v.AppRole != nil, v.Kubernetes != nil, v.JWT != nil} {
		if is {
			ways++
		}
	}
	switch a := v.AppRole; {
	case ways != 1:
		return fmt.Errorf("it has %d of the keys token_file, approle, kubernetes and jwt: a node signs in by exactly one of them", ways)
	case a != nil && (a.RoleID == "" || a.SecretIDFile == ""):
		return errors.New("approle: role_id or secret_id_file is missing")
	case v.Kubernetes != nil && v.Kubernetes.Role == "":
		return errors.New("kubernetes: role is missing")
	case v.JWT != nil && (v.JWT.Role == "" || v.JWT.JWTFile == ""):
		return errors.New("jwt: role or jwt_file is missing")
	}
	if k := v.Kubernetes; k != nil && k.JWTFile == "" {
		k.JWTFile = podToken
	}
	return nil
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// Files returns the paths of the files and folders that no task may read.
func (s Settings) Files() (paths []string) {
	for i := range s {
		p := &s[i]
		if p.File != "" {
			paths = append(paths, fixed(p.File))
		}
		if v := p.Vault; v != nil {
			paths = append(paths, v.TokenFile)
			if v.AppRole != nil {
				paths = append(paths, v.AppRole.SecretIDFile)
			}
			for _, j := range []*JWT{v.Kubernetes, v.JWT} {
				if j != nil {
					paths = append(paths, j.JWTFile)
				}
			}
		}
	}
	return slices.DeleteFunc(paths, func(path string) bool { return path == "" })
}

// fixed returns the folder that precedes the first mark of a pattern.
func fixed(pattern string) string {
	before, _, _ := strings.Cut(pattern, "{")
	return filepath.Dir(before + "x")
}

// serves reports whether tasks of a namespace may use the provider.
func (p *Source) serves(namespace string) bool {
	return slices.Contains(p.Namespaces, everyone) || slices.Contains(p.Namespaces, namespace)
}

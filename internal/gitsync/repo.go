package gitsync

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"skein.dev/skein/internal/egress"
	"skein.dev/skein/internal/program"
	"skein.dev/skein/sdk/shared/mask"
)

// Bounds of one look at a repository.
const (
	askMax     = time.Minute
	fetchMax   = 5 * time.Minute
	packMax    = 256 << 20 // bytes of one file that git writes
	memoryMax  = 2 << 30   // bytes of the address space of each process of git
	entriesMax = 50_000    // files of the folder
	pathMax    = 1000      // bytes of a path in the folder
	levelsMax  = 32        // folders of a path: the index of the archive has a row for each folder
	toldMax    = 600       // bytes of the output of git in an error
)

// Needs contains the parts of the node that a look uses.
type Needs struct {
	// Secret returns the value of a secret of the source's namespace.
	Secret func(ctx context.Context, namespace, name string) (string, error)
	Rules  egress.RulesFor
	Dir    string // the folder of this node in which each look makes its own folder
	// Protected returns an error for a folder of the node in which no repository may be.
	Protected func(path string) error
}

// archiveMax bounds the bytes of the folder and of all files that its workflows name. A test lowers it.
var archiveMax = 64 << 20

// repo is a repository in a fresh folder.
type repo struct {
	spec  *Spec
	at    place
	dir   string // removed by close
	env   []string
	relay *relay // nil means a folder of this node
	mask  *mask.Set
}

// openRepo prepares the calls of git. The caller closes it.
func openRepo(ctx context.Context, n *Needs, namespace string, spec *Spec) (r *repo, err error) {
	if _, err := exec.LookPath("git"); err != nil {
		return nil, errors.New("there is no program git on this node: install the package git")
	}
	r = &repo{spec: spec, mask: mask.NewSet(nil)}
	if r.at, err = spec.place(); err != nil {
		return nil, err
	}
	if spec.Local() && n.Protected != nil {
		if err := n.Protected(r.at.path); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(n.Dir, 0o700); err != nil {
		return nil, err
	}
	if r.dir, err = os.MkdirTemp(n.Dir, "look-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	if !spec.Local() {
		rules, err := n.Rules(ctx, namespace)
		if err != nil {
			return r, err
		}
		if r.relay, err = openRelay(ctx, rules, r.at.host, r.at.scheme != "ssh"); err != nil {
			return r, err
		}
	}
	return r, r.environment(ctx, n, namespace)
}

func (r *repo) close() {
	if r.relay != nil {
		r.relay.close()
	}
	_ = os.RemoveAll(r.dir) // the next start of the node removes what remains
}

// environment returns the variables for git. With them, git reads no settings of the machine or the user,
// asks no questions, runs no hook and no credential helper, and uses only one protocol.
func (r *repo) environment(ctx context.Context, n *Needs, namespace string) error {
	set := [][2]string{{"core.hooksPath", "/dev/null"}, {"core.fsmonitor", "false"}, {"credential.helper", ""}, {"protocol.version", "2"}, {"fetch.unpackLimit", "1"},
		{"submodule.recurse", "false"}, {"pack.threads", "1"}, {"core.bigFileThreshold", "16m"}, {"core.packedGitWindowSize", "32m"}, {"core.packedGitLimit", "256m"}, {"http.followRedirects", "false"}, {"http.lowSpeedLimit", "1000"}, {"http.lowSpeedTime", "30"}, {"gc.auto", "0"}, {"maintenance.auto", "false"}}
	r.env = []string{"HOME=" + r.dir, "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_ATTR_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=true",
		"SSH_ASKPASS=true", "GIT_ALLOW_PROTOCOL=" + r.at.scheme, "GIT_SSH_VARIANT=ssh"}
	secret := func(name string) (string, error) {
		value, err := n.Secret(ctx, namespace, name)
		if err == nil {
			r.mask = mask.NewSet([]string{value, strings.TrimSpace(value)})
		}
		return value, err
	}
	switch r.at.scheme {
	case "https", "http":
		set = append(set, [2]string{"http.proxy", fmt.Sprintf("http://git:%s@%s", r.relay.token, r.relay.address())}, [2]string{"http.proxyAuthMethod", "basic"})
		if r.spec.Password != "" {
			value, err := secret(r.spec.Password)
			if err != nil {
				return err
			}
			basic := base64.StdEncoding.EncodeToString([]byte(r.spec.User + ":" + strings.TrimRight(value, "\r\n")))
			set = append(set, [2]string{"http.extraHeader", "Authorization: Basic " + basic})
		}
	case "ssh":
		if err := r.shell(secret); err != nil {
			return err
		}
	}
	r.env = append(r.env, "GIT_CONFIG_COUNT="+strconv.Itoa(len(set)))
	for i, kv := range set {
		r.env = append(r.env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, kv[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, kv[1]))
	}
	return nil
}

// shell returns the ssh command. It uses one key, trusts only known machines, and connects over the relay.
func (r *repo) shell(secret func(string) (string, error)) error {
	key, err := secret(r.spec.Key)
	if err != nil {
		return err
	}
	keyFile, hostsFile := filepath.Join(r.dir, "key"), filepath.Join(r.dir, "known_hosts")
	host := r.at.host[:strings.LastIndexByte(r.at.host, ':')]
	if err := errors.Join(os.WriteFile(keyFile, []byte(strings.TrimRight(key, "\r\n")+"\n"), 0o600), os.WriteFile(hostsFile, []byte(r.spec.KnownHosts+"\n"), 0o600)); err != nil {
		return err
	}
	if port := r.at.host[len(host)+1:]; port != "22" {
		host = "[" + host + "]:" + port
	}
	words := []string{"ssh", "-F", "none", "-T"}
	for _, option := range []string{"HostName=127.0.0.1", "Port=" + strconv.Itoa(r.relay.address().Port), "HostKeyAlias=" + host, "BatchMode=yes", "StrictHostKeyChecking=yes",
		"UserKnownHostsFile=" + hostsFile, "GlobalKnownHostsFile=/dev/null", "UpdateHostKeys=no", "CheckHostIP=no", "IdentityFile=" + keyFile, "IdentitiesOnly=yes",
		"IdentityAgent=none", "PreferredAuthentications=publickey", "ClearAllForwardings=yes", "ForwardAgent=no", "PermitLocalCommand=no", "ControlMaster=no", "ControlPath=none",
		"ProxyCommand=none", "ConnectTimeout=30", "ServerAliveInterval=5", "ServerAliveCountMax=3", "LogLevel=ERROR"} {
		words = append(words, "-o", option)
	}
	for i := range words {
		words[i] = "'" + strings.ReplaceAll(words[i], "'", `'\''`) + "'"
	}
	r.env = append(r.env, "GIT_SSH_COMMAND="+strings.Join(words, " "))
	return nil
}

// bounded is a writer that accepts a limited number of bytes. It must not be an io.ReaderFrom.
type bounded struct {
	buf  bytes.Buffer
	left int
}

var errTooLarge = errors.New("too large")

// errMuch means that a git command wrote more than its caller allows.
var errMuch = errors.New("wrote too much")

func (b *bounded) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, errTooLarge
	}
	return b.buf.Write(p)
}

// git runs git, and returns a limited number of bytes of its output. Git can write no file larger than
// packMax. None of its processes can have more memory than memoryMax.
func (r *repo) git(ctx context.Context, most time.Duration, bytesMax int, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	said, out := &program.Tail{Max: 4 * toldMax}, &bounded{left: bytesMax}
	argv := append([]string{"sh", "-c", fmt.Sprintf(`ulimit -f %d && ulimit -v %d && exec "$@"`, packMax/512, memoryMax>>10), "sh", "git", "--git-dir", filepath.Join(r.dir, "repo.git")}, args...)
	err := program.Run(ctx, &program.Call{Argv: argv, Env: r.env, Stdout: out, Stderr: said})
	var exit *exec.ExitError
	switch {
	case out.left < 0:
		return nil, fmt.Errorf("git %s %w: more than %d MiB", args[0], errMuch, bytesMax>>20)
	case err == nil:
		return out.buf.Bytes(), nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, fmt.Errorf("git %s has not ended within %s", args[0], most)
	case r.relay != nil && r.relay.failure() != nil:
		return nil, fmt.Errorf("the repository cannot be reached: %w", r.relay.failure())
	case !errors.As(err, &exit):
		return nil, err
	}
	text := r.mask.String(said.Shown())
	if strings.Contains(text, "emory") { // "Out of memory, malloc failed", "Cannot allocate memory"
		text = fmt.Sprintf("does the repository need more than %d GiB of memory? %s", memoryMax>>30, text)
	}
	if strings.Contains(text, "File size limit") || exit.ExitCode() == -1 || exit.ExitCode() == 128+25 {
		text = fmt.Sprintf("it was killed: does the repository need more than %d MiB? %s", packMax>>20, text)
	}
	return nil, fmt.Errorf("git %s: %s", args[0], oneLine(text, toldMax))
}

// tip returns the commit of the branch or tag.
func (r *repo) tip(ctx context.Context) (string, error) {
	ref := r.spec.ref()
	out, err := r.git(ctx, askMax, 1<<20, "ls-remote", "--quiet", r.spec.URL, ref, ref+"^{}")
	if err != nil {
		return "", err
	}
	commit := ""
	for line := range strings.Lines(string(out)) {
		hash, name, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if name == ref && commit == "" || name == ref+"^{}" {
			commit = hash
		}
	}
	if commit == "" {
		return "", fmt.Errorf("the repository has no %s %s", map[bool]string{true: "tag", false: "branch"}[r.spec.Tag != ""], r.spec.refName())
	}
	return commit, nil
}

// commit is a commit with the files of its folder.
type commit struct {
	hash, author, subject string
	files                 fs.FS
}

// fetch fetches the newest commit, without its history.
func (r *repo) fetch(ctx context.Context) (*commit, error) {
	if _, err := r.git(ctx, askMax, 1<<10, "init", "--quiet", "--bare", "--template=", filepath.Join(r.dir, "repo.git")); err != nil {
		return nil, err
	}
	if _, err := r.git(ctx, fetchMax, 1<<20, "fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--no-auto-maintenance", r.spec.URL, "+"+r.spec.ref()+":refs/skein"); err != nil {
		return nil, err
	}
	out, err := r.git(ctx, askMax, 1<<20, "log", "-1", "--no-show-signature", "--format=%H%x00%an <%ae>%x00%s", "refs/skein^{commit}")
	if err != nil {
		return nil, err
	}
	parts := strings.SplitN(strings.TrimSuffix(string(out), "\n"), "\x00", 3)
	if len(parts) != 3 {
		return nil, errors.New("git log shows no commit")
	}
	c := &commit{hash: parts[0], author: oneLine(parts[1], shownMax), subject: oneLine(parts[2], shownMax)}
	tree := c.hash
	if r.spec.Folder != "" {
		tree += ":" + r.spec.Folder
		if kind, err := r.git(ctx, askMax, 1<<10, "cat-file", "-t", tree); err != nil || strings.TrimSpace(string(kind)) != "tree" {
			return c, fmt.Errorf("commit %.12s has no folder %s", c.hash, r.spec.Folder)
		}
	}
	pack, err := r.git(ctx, askMax, archiveMax, "archive", "--format=zip", "-0", tree)
	if errors.Is(err, errMuch) {
		return c, fmt.Errorf("the folder has more than %d MiB of files: set folder to a smaller one, or move large files out of it", archiveMax>>20)
	}
	if err != nil {
		return c, err
	}
	z, err := zip.NewReader(bytes.NewReader(pack), int64(len(pack)))
	if err != nil && len(pack) > 0 {
		return c, fmt.Errorf("the archive of the folder: %w", err)
	}
	if z == nil {
		z = &zip.Reader{}
	}
	if len(z.File) > entriesMax {
		return c, fmt.Errorf("the folder has more than %d files", entriesMax)
	}
	for _, f := range z.File {
		if len(f.Name) > pathMax || strings.Count(f.Name, "/") > levelsMax {
			return c, fmt.Errorf("the folder has a path with more than %d bytes or %d folders: %.100q", pathMax, levelsMax, f.Name)
		}
	}
	c.files = z
	return c, nil
}

// shownMax bounds a text of a commit for people, in bytes.
const shownMax = 200

// oneLine returns a text without line ends and control characters, for people.
func oneLine(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// Clean removes the folders that looks of earlier processes have left.
func Clean(dir string) error {
	all, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range all {
		if strings.HasPrefix(e.Name(), "look-") {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	return err
}

package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"skein.dev/skein/internal/provider"
	"skein.dev/skein/internal/secret"
)

// readCredential reads a file with a secret. Its error names the command that makes such a file.
func readCredential(file, made string) (string, error) {
	data, err := secret.File(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("%w; %s", err, made)
	case err != nil:
		return "", fmt.Errorf("the file %s: %w", file, err)
	}
	return strings.TrimSpace(string(data)), nil
}

// setTokenFile reads the token from a file. The file takes precedence over api_token.
func setTokenFile(c *Config, v string) error {
	if v == "" {
		return nil
	}
	c.TokenFile = v
	var err error
	c.APIToken, err = c.ReadToken()
	return err
}

// ReadToken reads the token from TokenFile, whose content may be newer than at the start.
func (c *Config) ReadToken() (string, error) {
	return readCredential(c.TokenFile, "make a token with: skein token create --kind api|worker|node --out FILE")
}

// setDBFile reads the value of the setting db from a file, once at the start.
func setDBFile(c *Config, v string) error {
	if v == "" {
		return nil
	}
	db, err := readCredential(v, "write the URL of the database into it, readable by this user only")
	if err == nil {
		err = setDB(c, db)
	}
	return err
}

// credential returns the path of a credential that the service manager gives this process (systemd's
// LoadCredential). It returns "" if there is none with that name.
func credential(name string) string {
	dir := os.Getenv("CREDENTIALS_DIRECTORY")
	if name == "" || !filepath.IsAbs(dir) {
		return ""
	}
	file := filepath.Join(dir, name)
	if _, err := os.Stat(file); err != nil {
		return ""
	}
	return file
}

// nearness ranks the origin of a setting: a higher rank has precedence.
func nearness(origin string) int {
	for i, begin := range []string{originCredential, "file ", "environment ", originFlag} {
		if strings.HasPrefix(origin, begin) {
			return i + 1
		}
	}
	return 0
}

// outranked reports whether the setting that a file would replace was set in a place of higher precedence
// than the file. A token file is never outranked, unless it is only a credential of the service.
func (s *setting) outranked(c *Config, origin string) bool {
	if s.replaces == "" {
		return false
	}
	if s.name == "token_file" && nearness(origin) > nearness(originCredential) {
		return false
	}
	return nearness(c.origin(s.replaces)) > nearness(origin)
}

// HideSecrets overwrites secrets in the data that the kernel shows of this process to others: values of
// variables in /proc/PID/environ, which every process of the same user can read, tasks too, and passwords of
// addresses in /proc/PID/cmdline, which every user can read. It returns copies of args. The variables
// themselves stay set for this process, which reads its settings from them. No task inherits them. It returns
// an error if a secret stays visible.
func HideSecrets(args []string) ([]string, error) {
	copies := make([]string, len(args))
	for i, arg := range args { // the strings of the runtime share the memory that is overwritten, so they are copied
		copies[i] = strings.Clone(arg)
	}
	shown, err := os.ReadFile("/proc/self/environ")
	if errors.Is(err, fs.ErrNotExist) { // this system has no /proc, or hides it
		return copies, nil
	}
	line, lineErr := os.ReadFile("/proc/self/cmdline")
	spans, lineSpans := secretsIn(shown), passwordsIn(line)
	if len(spans)+len(lineSpans) == 0 {
		return copies, nil
	}
	if err == nil {
		err = lineErr
	}
	if err == nil {
		err = overwrite(spans, lineSpans)
	}
	if err != nil {
		return copies, fmt.Errorf("secrets in the environment or the arguments of this process stay visible to others (%w); give them in files: --db-file, --token-file", err)
	}
	return copies, nil
}

// span is a range of memory addresses.
type span struct{ from, to int }

// secretVars are further environment variables whose values are hidden. Libraries read them. The address of a
// proxy can contain a password.
var secretVars = []string{"PGPASSWORD", "PGSSLPASSWORD", "HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"}

// secretsIn finds the values of environment variables with secrets.
func secretsIn(environ []byte) (spans []span) {
	names := secretVars
	for _, s := range settings() {
		if s.shown != nil {
			names = append(names[:len(names):len(names)], s.env())
		}
	}
	at := 0
	for kv := range bytes.SplitSeq(environ, []byte{0}) {
		if name, _, ok := bytes.Cut(kv, []byte("=")); ok && bytes.HasPrefix(name, []byte(provider.VariablePrefix)) {
			spans = append(spans, span{at + len(name) + 1, at + len(kv)})
		}
		for _, name := range names {
			if value, ok := bytes.CutPrefix(kv, []byte(name+"=")); ok && len(bytes.Trim(value, "\x00")) > 0 {
				spans = append(spans, span{at + len(kv) - len(value), at + len(kv)})
			}
		}
		at += len(kv) + 1
	}
	return spans
}

// passwordIn finds passwords in addresses of databases and proxies.
var passwordIn = regexp.MustCompile(`(?:(?:postgres(?:ql)?|https?)://[^/@:?#\s\x00]*:([^/?#\s\x00]+)@|[?&](?:ssl)?password=([^&#\s\x00]+))`)

func passwordsIn(line []byte) (spans []span) {
	for _, m := range passwordIn.FindAllSubmatchIndex(line, -1) {
		for g := 2; g < len(m); g += 2 {
			if m[g] >= 0 {
				spans = append(spans, span{m[g], m[g+1]})
			}
		}
	}
	return spans
}

// Indexes of fields in /proc/PID/stat, counted from the field after the name of the program, which is the
// third field.
const (
	statArgs    = 48 - 3
	statEnviron = 50 - 3
)

// overwrite overwrites parts of this process's environment and arguments.
func overwrite(environ, args []span) error {
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return err
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) <= statEnviron {
		return errors.New("/proc/self/stat has too few fields")
	}
	mem, err := os.OpenFile("/proc/self/mem", os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer mem.Close()
	for _, region := range []struct {
		field int
		with  byte
		spans []span
	}{{statEnviron, 0, environ}, {statArgs, 'x', args}} {
		begin, err := strconv.ParseInt(fields[region.field], 10, 64)
		if err != nil || begin <= 0 && len(region.spans) > 0 {
			return errors.New("/proc/self/stat does not contain their addresses")
		}
		for _, s := range region.spans {
			if _, err := mem.WriteAt(bytes.Repeat([]byte{region.with}, s.to-s.from), begin+int64(s.from)); err != nil {
				return err
			}
		}
	}
	return nil
}

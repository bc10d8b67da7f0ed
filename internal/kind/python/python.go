// Package python is the kind of tasks that run a Python program together with the packages that it needs.
//
// # Environments
//
// The packages are in a virtual environment. An environment belongs to a namespace. The name of its folder is
// a digest of the packages and of the interpreter. So each machine builds an environment once, when the first
// attempt needs it. See [store].
//
// # Rights
//
// The build may run code of packages, so it runs in a process of its own. This process may write the
// environments of the namespace but no file of the task, and gets no variable of the task. pip reaches its
// index through the egress rules, which do not bind the code of packages. The program of the task may read
// its environment but cannot change it.
package python

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"skein.dev/skein/internal/kind"
)

// Name is the name of the kind.
const Name = "python"

// Kind runs Python programs.
type Kind struct{}

var (
	_ kind.Needy    = Kind{}
	_ kind.Preparer = Kind{}
)

// Name implements kind.Kind.
func (Kind) Name() string { return Name }

// InterpreterDefault is used if the task names no interpreter.
const InterpreterDefault = "python3"

// With is the input of the kind.
type With struct {
	File   string   `json:"file,omitempty"` // exactly one of File, Module and Code is set
	Module string   `json:"module,omitempty"`
	Code   string   `json:"code,omitempty"`
	Args   []string `json:"args,omitempty"`
	// Interpreter is a name in PATH, or a path; "" means InterpreterDefault.
	Interpreter string `json:"interpreter,omitempty"`
	// Requirements holds lines of a file requirements.txt. RequirementsFile names such a file in the working
	// folder.
	Requirements     []string `json:"requirements,omitempty"`
	RequirementsFile string   `json:"requirements_file,omitempty"`
	Unlocked         bool     `json:"unlocked,omitempty"` // no hashes are required
	Index            string   `json:"index,omitempty"`    // URL of the package index; "" means the machine's
	Wheels           string   `json:"wheels,omitempty"`   // folder with the packages, used instead of an index
}

// Settings are the settings of a machine for the kind.
type Settings struct {
	// Most bounds the bytes of a namespace's environments. 0 means MostDefault. An environment in use is kept
	// even if it is larger.
	Most int64 `json:"most,omitempty"`
}

// MostDefault is the default of Settings.Most.
const MostDefault = 4 << 30

// requirementsMax bounds the bytes of the requirements.
const requirementsMax = 1 << 20

// read returns the input of an attempt. Its errors contain no value of a secret.
func read(in *kind.Input) (w With, of Settings, err error) {
	if json.Unmarshal(in.With, &w) != nil {
		return w, of, errors.New("the input of the kind cannot be read")
	}
	if len(in.Settings) > 0 && json.Unmarshal(in.Settings, &of) != nil {
		return w, of, errors.New("the settings of the machine for the kind cannot be read")
	}
	if of.Most <= 0 {
		of.Most = MostDefault
	}
	if w.Interpreter == "" {
		w.Interpreter = InterpreterDefault
	}
	if count(w.File, w.Module, w.Code) != 1 {
		return w, of, errors.New("the input needs one of file, module and code")
	}
	return w, of, nil
}

func count(texts ...string) (n int) {
	for _, t := range texts {
		if t != "" {
			n++
		}
	}
	return n
}

// requirement matches the beginning of a line with a requirement: the name of a package.
var requirement = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*`)

// local matches a line that names a folder or file of the machine.
var local = regexp.MustCompile(`(?i)(^|@ ?)([a-z]+\+)?file:|^[^@:; ]*(/|\.(whl|zip|tgz|tar\.[a-z0-9]+)($|[\[; ]))`)

// hash matches the hash of a package file.
var hash = regexp.MustCompile(`--hash=sha(256|384|512):[0-9a-f]{64,128}\b`)

// CheckRequirements returns the requirements in a text, without comments. It refuses options, because the
// digest of the environment would not cover their files and addresses. Unless unlocked is set, it also
// refuses requirements without hashes of their files. The error names the first fault.
func CheckRequirements(text string, unlocked bool) (all []string, err error) {
	if len(text) > requirementsMax {
		return nil, fmt.Errorf("the requirements have %d bytes, the limit is %d", len(text), requirementsMax)
	}
	// The empty line ends a last line that ends with a backslash.
	lines := bufio.NewScanner(strings.NewReader(text + "\n\n"))
	lines.Buffer(nil, requirementsMax+1)
	for at, open := 1, ""; lines.Scan(); at++ {
		line, _, _ := strings.Cut(" "+lines.Text(), " #") // a comment begins after a blank
		line = strings.TrimSpace(line)
		if more, goesOn := strings.CutSuffix(line, `\`); goesOn {
			open += more + " "
			continue
		}
		line, open = strings.Join(strings.Fields(open+line), " "), ""
		switch {
		case line == "":
			continue
		case strings.HasPrefix(line, "-"):
			return nil, fmt.Errorf("requirements, line %d: options such as %.40q are not allowed: write the packages themselves, and use the keys index or wheels", at, line)
		case !requirement.MatchString(line):
			return nil, fmt.Errorf("requirements, line %d: %.60q does not begin with the name of a package", at, line)
		case strings.Contains(hash.ReplaceAllString(line, ""), "--"):
			return nil, fmt.Errorf("requirements, line %d: of the options of a requirement only --hash=sha256:… is allowed", at)
		case local.MatchString(line):
			return nil, fmt.Errorf("requirements, line %d: a folder or file of the machine is not a package: use the key wheels", at)
		case !unlocked && !hash.MatchString(line):
			return nil, fmt.Errorf("requirements, line %d: %.60q has no hash: lock the requirements, such as by pip-compile --generate-hashes or uv pip compile --generate-hashes, or write unlocked: true", at, line)
		}
		all = append(all, line)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("requirements: %w", err)
	}
	return all, nil
}

// digest returns the name of an environment. about is the interpreter's description of itself.
func (w *With) digest(all []string, about string) string {
	h := sha256.New()
	e := json.NewEncoder(h)
	parts := []any{"skein python 1", about, all, w.Unlocked}
	if w.Unlocked { // otherwise the hashes identify the files, wherever they come from
		parts = append(parts, w.Index, w.Wheels)
	}
	for _, part := range parts {
		_ = e.Encode(part) // encoding texts cannot fail
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Messages in which pip says why it failed.
var (
	awayTexts = []string{"NewConnectionError", "ConnectTimeoutError", "ReadTimeoutError", "ProxyError", "RemoteDisconnected", "Temporary failure in name resolution",
		"Network is unreachable", "Connection refused", "Connection reset", "IncompleteRead", "503 Server Error", "502 Server Error", "504 Server Error", "429 "}
	permanentTexts = []string{"DO NOT MATCH THE HASHES", "Hashes are required", "must have their versions pinned", "No matching distribution found", "ResolutionImpossible",
		"Could not find a version", "Invalid requirement", "401 Client Error", "403 Client Error", "is not a supported wheel on this platform", "Requires-Python"}
)

// codeOf derives the exit code of a build from the output of pip. refused says that the egress rules refused
// an address.
func codeOf(said string, refused bool) int {
	has := func(texts []string) bool {
		for _, text := range texts {
			if strings.Contains(said, text) {
				return true
			}
		}
		return false
	}
	switch {
	case refused:
		return kind.Permanent
	case has(permanentTexts[:3]): // checked before pip's messages about single addresses
		return kind.Permanent
	case has(awayTexts):
		return kind.Away
	case has(permanentTexts):
		return kind.Permanent
	}
	return kind.Failed
}

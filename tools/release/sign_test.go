package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// newKey makes a key without a passphrase, and a file that accepts it for releases.
func newKey(t *testing.T) (key, signers string) {
	t.Helper()
	folder := t.TempDir()
	key, signers = filepath.Join(folder, "key"), filepath.Join(folder, "allowed_signers")
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", key).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	public, err := os.ReadFile(key + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(signers, []byte(signer+` namespaces="`+purpose+`" `+string(public)), 0o644); err != nil {
		t.Fatal(err)
	}
	return key, signers
}

// verifyCommand returns the command by which deploy/README.md tells people to verify a release.
func verifyCommand(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../deploy/README.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^ssh-keygen -Y verify .*SHA256SUMS$`).FindString(string(text))
	if found == "" {
		t.Fatal("deploy/README.md has no command that verifies SHA256SUMS")
	}
	return found
}

// TestSignature signs the checksums with a key of a file and with a key of a variable. The command of the
// document accepts them, and refuses changed checksums, another file's signature and another key.
func TestSignature(t *testing.T) {
	key, signers := newKey(t)
	text, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	command := verifyCommand(t)
	for name, r := range map[string]*release{"file": {key: key, signers: signers}, "variable": {signers: signers}} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			if t.Setenv(keyVariable, ""); r.key == "" {
				t.Setenv(keyVariable, string(text))
			}
			sign, end, err := r.signing()
			if err != nil {
				t.Fatal(err)
			}
			dist := t.TempDir()
			sums := filepath.Join(dist, "SHA256SUMS")
			accepted := func() bool {
				cmd := exec.Command("sh", "-c", strings.ReplaceAll(command, "allowed_signers", signers))
				cmd.Dir = dist
				return cmd.Run() == nil
			}
			if err := errors.Join(os.WriteFile(sums, []byte("00  skein\n"), 0o644), sign(sums)); err != nil {
				t.Fatal(err)
			}
			if !accepted() {
				t.Errorf("it is refused: %s", command)
			}
			if err := os.WriteFile(sums, []byte("01  skein\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			if accepted() {
				t.Error("changed checksums are accepted")
			}
			end()
			if left, _ := filepath.Glob(filepath.Join(os.Getenv("TMPDIR"), "*")); len(left) > 0 {
				t.Errorf("the key's folder is left: %v", left)
			}
		})
	}

	other, _ := newKey(t)
	_, end, err := (&release{key: other, signers: signers}).signing()
	defer end()
	if !errors.Is(err, errStranger) {
		t.Errorf("a key that is not in the list gives %v, want %v", err, errStranger)
	}
}

// TestWithoutKey: a release without a key is not signed, which is an error in CI. The repository's own list of
// keys is read when no other is named.
func TestWithoutKey(t *testing.T) {
	t.Setenv(keyVariable, "")
	t.Setenv("CI", "")
	r := &release{root: "../.."}
	if sign, _, err := r.signing(); sign != nil || err != nil {
		t.Errorf("it signs: %t, error %v, want neither", sign != nil, err)
	}
	t.Setenv("CI", "true")
	if _, _, err := r.signing(); !errors.Is(err, errUnsigned) {
		t.Errorf("in a CI the error is %v, want %v", err, errUnsigned)
	}
	r.key, _ = newKey(t)
	_, end, err := r.signing()
	defer end()
	if !errors.Is(err, errStranger) {
		t.Errorf("a key that is not in the repository's list gives %v, want %v", err, errStranger)
	}
}

// TestBill: two bills of one program are equal, although the tool that wrote them was built in two ways at two
// times.
func TestBill(t *testing.T) {
	of := func(at, hash string) string {
		return `{
  "metadata": {
    "timestamp": "` + at + `",
    "tools": [
      {
        "name": "cyclonedx-gomod",
        "version": "v1.10.0",
        "hashes": [
          {
            "alg": "MD5",
            "content": "` + hash + `"
          }
        ],
        "externalReferences": []
      }
    ],
    "component": {
      "hashes": [
        {
          "content": "of the program"
        }
      ]
    }
  }
}`
	}
	r := &release{at: time.Unix(1764000000, 0).UTC()}
	one, two := r.settled([]byte(of("2026-11-28T12:20:34Z", "1"))), r.settled([]byte(of("2026-11-28T13:20:34Z", "2")))
	if string(one) != string(two) {
		t.Errorf("they differ:\n%s\n%s", one, two)
	}
	var bill struct {
		Metadata struct {
			Tools     []map[string]any
			Component map[string]any
		}
	}
	if err := json.Unmarshal(one, &bill); err != nil || bill.Metadata.Component["hashes"] == nil || bill.Metadata.Tools[0]["externalReferences"] == nil {
		t.Errorf("%v: %+v", err, bill)
	}
}

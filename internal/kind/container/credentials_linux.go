package container

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// credentials returns the value of the header with the credentials for a registry, as `docker login` has
// stored them for the user of this process. It returns "" if there are none.
func credentials(ctx context.Context, registry string) (string, error) {
	folder := os.Getenv("DOCKER_CONFIG")
	if folder == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", nil //nolint:nilerr // a user without a home has stored nothing
		}
		folder = filepath.Join(home, ".docker")
	}
	path := filepath.Join(folder, "config.json")
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	var config struct {
		Auths       map[string]struct{ Auth string }
		CredsStore  string
		CredHelpers map[string]string
	}
	if err == nil {
		err = json.Unmarshal(text, &config)
	}
	if err != nil {
		return "", fmt.Errorf("%s cannot be read: %w", path, err)
	}
	key := registry
	if registry == dockerHub {
		key = "https://index.docker.io/v1/" // the name that Docker gives this registry there
	}
	helper := config.CredsStore
	if own, ok := config.CredHelpers[key]; ok {
		helper = own
	}
	if helper != "" {
		return askHelper(ctx, helper, key)
	}
	pair, err := base64.StdEncoding.DecodeString(config.Auths[key].Auth)
	user, password, ok := strings.Cut(strings.TrimRight(string(pair), "\x00"), ":")
	if err != nil || !ok {
		return "", nil //nolint:nilerr // there is no entry, or one without credentials
	}
	return authHeader(user, password, key)
}

// askHelper asks a program for the credentials.
func askHelper(ctx context.Context, helper, key string) (string, error) {
	if helper != filepath.Base(helper) {
		return "", fmt.Errorf("%.100q is not the name of a helper for credentials", helper)
	}
	ctx, cancel := context.WithTimeout(ctx, askMax)
	defer cancel()
	cmd := child(ctx, "docker-credential-"+helper, "get")
	cmd.Stdin = strings.NewReader(key)
	text, err := cmd.Output()
	if err != nil {
		if strings.Contains(string(text), "credentials not found") {
			return "", nil
		}
		return "", fmt.Errorf("docker-credential-%s gives no credentials for %s: %w", helper, key, err)
	}
	var said struct{ Username, Secret string }
	if json.Unmarshal(text, &said) != nil {
		return "", fmt.Errorf("docker-credential-%s answers with something else than credentials", helper)
	}
	return authHeader(said.Username, said.Secret, key)
}

func authHeader(user, password, server string) (string, error) {
	of := map[string]string{"username": user, "password": password, "serveraddress": server}
	if user == "<token>" { // helpers write this name for an identity token
		of = map[string]string{"identitytoken": password, "serveraddress": server}
	}
	raw, err := json.Marshal(of)
	return base64.URLEncoding.EncodeToString(raw), err
}

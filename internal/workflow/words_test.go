package workflow

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestChineseKeys holds the Chinese descriptions of the page's editor to the grammar: each key of a file has one, each is
// that of a key, and keys that share one have the same description in English.
func TestChineseKeys(t *testing.T) {
	t.Parallel()
	var schema map[string]any
	if err := json.Unmarshal(Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	english := map[string]string{} // path → description
	var walk func(at any, path string)
	walk = func(at any, path string) {
		s, ok := at.(map[string]any)
		if !ok {
			return
		}
		if forms, ok := s["anyOf"].([]any); ok {
			for _, form := range forms {
				walk(form, path)
			}
		}
		keys, _ := s["properties"].(map[string]any)
		for name, key := range keys {
			is, _ := key.(map[string]any)["description"].(string)
			if was := english[path+name]; was != "" && was != is {
				t.Errorf("the key %s%s has two descriptions", path, name)
			}
			english[path+name] = is
			walk(key, path+name+".")
		}
		for _, below := range []string{"items", "additionalProperties"} {
			walk(s[below], path+"*.")
		}
	}
	walk(schema, "")
	chinese := map[string]string{} // end of a path → the English description of the keys that have it
	for _, name := range []string{"filekeys.ts", "triggerkeys.ts"} {
		source, err := os.ReadFile(filepath.Join("..", "..", "web", "src", "text", "zh", name))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^  '?([\w.*]+)'?:`).FindAllStringSubmatch(string(source), -1) {
			chinese[m[1]] = ""
		}
	}
	if len(english) < 400 || len(chinese) < 200 {
		t.Fatalf("%d keys, %d of them described in Chinese", len(english), len(chinese))
	}
	for path, is := range english {
		end := path
		for {
			if _, found := chinese[end]; found || end == "" {
				break
			}
			_, end, _ = strings.Cut(end, ".")
		}
		was, found := chinese[end]
		switch {
		case !found:
			t.Errorf("the key %s has no description in web/src/text/zh", path)
		case was != "" && was != is:
			t.Errorf("the description %q in web/src/text/zh is of keys with different meanings, such as %s", end, path)
		}
		chinese[end] = is
	}
	for end, is := range chinese {
		if is == "" {
			t.Errorf("web/src/text/zh describes %s, which is no key of a file", end)
		}
	}
}

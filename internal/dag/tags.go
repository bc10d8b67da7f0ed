package dag

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of tags. A tag, KEY=VALUE, has at most 127 bytes, so its length is one byte in the stored form.
const (
	TagPartMax   = 63 // bytes of a key, and of a value
	TagsGivenMax = 8  // tags of a workflow, and tags that a start gives
	TagsMax      = 16 // tags of a run
)

// Tags are the tags of a workflow or of a run, as lines of the form KEY=VALUE. The lines are sorted by key,
// and each key occurs once. The text is empty if there are no tags.
type Tags string

// CheckTag returns nil if a tag is valid, and otherwise an error with the reason.
func CheckTag(key, value string) error {
	switch {
	case !tagKey(key):
		return fmt.Errorf("the tag key %q is invalid: write 1 to %d letters, digits, '.', '_', '-' and '/', and begin with a letter or digit", key, TagPartMax)
	case value == "" || len(value) > TagPartMax || !utf8.ValidString(value) || strings.ContainsFunc(value, func(c rune) bool { return !unicode.IsPrint(c) }):
		return fmt.Errorf("the value %q of the tag %s is invalid: write 1 to %d bytes of printable text", value, key, TagPartMax)
	}
	return nil
}

func tagKey(s string) bool {
	for i := range len(s) {
		c := s[i]
		if letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'; !letter && (i == 0 || !strings.ContainsRune("._-/", rune(c))) {
			return false
		}
	}
	return s != "" && len(s) <= TagPartMax
}

// TagsOf returns the tags of a map. It returns an error if a tag is invalid, or if there are more tags than
// the parameter most allows.
func TagsOf(m map[string]string, most int) (Tags, error) {
	if len(m) > most {
		return "", fmt.Errorf("%d tags are too many: at most %d", len(m), most)
	}
	lines := make([]string, 0, len(m))
	for k, v := range m {
		if err := CheckTag(k, v); err != nil {
			return "", err
		}
		lines = append(lines, k+"="+v)
	}
	return joinTags(lines), nil
}

func joinTags(lines []string) Tags {
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(keyOfTag(a), keyOfTag(b)) })
	return Tags(strings.Join(lines, "\n"))
}

func keyOfTag(line string) string {
	key, _, _ := strings.Cut(line, "=")
	return key
}

// Lines yields each tag in the form KEY=VALUE.
func (t Tags) Lines() iter.Seq[string] {
	if t == "" {
		return func(func(string) bool) {}
	}
	return strings.SplitSeq(string(t), "\n")
}

// Map returns the tags as a map.
func (t Tags) Map() map[string]string {
	m := map[string]string{}
	for line := range t.Lines() {
		k, v, _ := strings.Cut(line, "=")
		m[k] = v
	}
	return m
}

// Has reports whether a tag of the form KEY=VALUE is one of the tags.
func (t Tags) Has(line string) bool {
	for l := range t.Lines() {
		if l == line {
			return true
		}
	}
	return false
}

// Value returns the value of a key, or "".
func (t Tags) Value(key string) string {
	for l := range t.Lines() {
		if k, v, _ := strings.Cut(l, "="); k == key {
			return v
		}
	}
	return ""
}

// With returns the tags together with the tags of others, except those whose keys the receiver already has.
// The result has at most TagsMax tags: the last tags of others, by key, are left out.
func (t Tags) With(others Tags) Tags {
	switch {
	case t == "" || t == others: // both values are stored values, so they have at most TagsMax tags
		return others
	case others == "":
		return t
	}
	lines := slices.Collect(t.Lines())
	for line := range others.Lines() {
		if len(lines) < TagsMax && t.Value(keyOfTag(line)) == "" {
			lines = append(lines, line)
		}
	}
	return joinTags(lines)
}

// Tags returns the tags of the run.
func (h *Header) Tags() Tags {
	if h.Fire == nil {
		return ""
	}
	return h.Fire.Tags
}

// Tag adds the tags of the run's workflow, except those whose keys the run already has.
func (h *Header) Tag(of Tags) {
	if of == "" {
		return
	}
	if h.Fire == nil {
		h.Fire = &Fire{}
	}
	h.Fire.Tags = h.Fire.Tags.With(of)
}

// tags writes the number of tags, then the length and the text of each. The SQL of the PostgreSQL engine
// reads this form, too.
func (w *packer) tags(t Tags) {
	lines := slices.Collect(t.Lines())
	w.byte(byte(len(lines)))
	for _, line := range lines {
		w.text(line)
	}
}

func (u *unpacker) tags() Tags {
	n := int(u.byte())
	lines := make([]string, 0, min(n, TagsMax))
	for range n {
		line := u.text()
		k, v, _ := strings.Cut(line, "=")
		if u.bad = u.bad || CheckTag(k, v) != nil || len(lines) > 0 && k <= keyOfTag(lines[len(lines)-1]); u.bad {
			return ""
		}
		lines = append(lines, line)
	}
	if n == 0 || n > TagsMax {
		u.bad = true
	}
	return joinTags(lines)
}

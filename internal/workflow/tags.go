package workflow

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"skein.dev/skein/internal/dag"
)

// tagsShape returns the shape of a mapping of tags.
func tagsShape() *shape {
	key := pattern("a key of letters, digits, '.', '_', '-' and '/' that begins with a letter or digit, at most 63 characters", `^[A-Za-z0-9][A-Za-z0-9._/-]{0,62}$`)
	value := pattern("a text of 1 to 63 bytes", `^[^\x00-\x1f\x7f]{1,63}$`)
	return table("a mapping of tags, such as {team: data}", key, value)
}

// tags reads the tags of the workflow or of an alert, sorted by key.
func (r *reader) tags(n *node, at string) []KV {
	all := pairs(n)
	if len(all) > dag.TagsGivenMax {
		r.failNode(n, at, fmt.Sprintf("%d tags are more than the limit of %d", len(all), dag.TagsGivenMax), "keep those by which people search")
	}
	for _, kv := range all {
		key := join(at, kv.Name)
		if slices.ContainsFunc(r.errs, func(e Error) bool { return e.Key == key }) {
			continue // the shape has already refused it
		}
		if strings.Contains(kv.Value, "${{") {
			r.failNode(n.get(kv.Name), key, "${{ }} in a tag is not supported", "give a run tags of its own when you start it: skein run NAME --tag KEY=VALUE")
		} else if err := dag.CheckTag(kv.Name, kv.Value); err != nil {
			r.failNode(n.get(kv.Name), key, err.Error(), "shorten it")
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Name < all[j].Name })
	return all
}

// TagLines returns the tags of the workflow in the form of the tags of runs.
func (w *Workflow) TagLines() dag.Tags {
	m := make(map[string]string, len(w.Tags))
	for _, kv := range w.Tags {
		m[kv.Name] = kv.Value
	}
	tags, _ := dag.TagsOf(m, dag.TagsGivenMax) // the reader has already checked the tags
	return tags
}

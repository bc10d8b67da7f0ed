package doctor

import (
	"fmt"
	"strings"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// checkWholeTokens names tokens that can do everything and never expire. Earlier versions made only such
// tokens, and they still work. They belong to the first service, which has the role cluster.
func checkWholeTokens(all []store.Token, now time.Time) []Check {
	var whole []string
	for i := range all {
		t := &all[i]
		if t.Kind == "api" && t.Principal == store.FirstService && t.Verbs == store.All && t.Namespaces == store.All &&
			t.Expires == 0 && t.Valid(dag.Micros(now.UnixMicro())) {
			whole = append(whole, t.Name)
		}
	}
	if len(whole) == 0 {
		return nil
	}
	found := "these tokens can do everything, and never end: " + strings.Join(whole[:min(len(whole), tokensTold)], ", ")
	if more := len(whole) - tokensTold; more > 0 {
		found += fmt.Sprintf(" and %d more", more)
	}
	return []Check{{Name: "rights", State: Warning, Found: found,
		Remedy: "give each holder a user or service and a token of its own: skein user create NAME --no-password --role ROLE, " +
			"skein token create --for NAME --expires 90d; then skein token revoke the old one"}}
}

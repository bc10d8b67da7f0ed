package server_test

import (
	"fmt"
	"strings"
	"testing"

	"skein.dev/skein/internal/store"
)

// TestChannelsOfANamespace: one namespace cannot use up the room of the others with many or large channels.
func TestChannelsOfANamespace(t *testing.T) {
	b := newRightsBed(t)
	b.token(store.Token{Name: "cluster", Principal: store.FirstService, Verbs: "*", Namespaces: "*"})
	set := func(path, body string) (int, string) {
		return b.call("cluster", "PUT", "/channels/"+path, body, "Content-Type", "application/json")
	}
	const log = `{"config":{"log":{}}}`
	for i := range 100 {
		if status, body := set(fmt.Sprintf("web/c%d", i), log); status != 200 {
			t.Fatal(i, status, body)
		}
	}
	if status, body := set("web/more", log); status != 409 || !strings.Contains(body, `"code":"conflict"`) {
		t.Errorf("channel 101: %d %s", status, body)
	}
	if status, body := set("web/c7", log); status != 200 {
		t.Errorf("a change of one of 100: %d %s", status, body)
	}
	if status, body := set("shop/c1", log); status != 200 {
		t.Errorf("another namespace: %d %s", status, body)
	}
	// Each < is six bytes in the stored form.
	url := "https://x.example/" + strings.Repeat("<", 2000)
	if status, body := set("shop/large", `{"config":{"webhook":{"url":"`+url+`"}}}`); status != 422 || !strings.Contains(body, `"code":"invalid"`) {
		t.Errorf("a large one: %d %s", status, body)
	}
}

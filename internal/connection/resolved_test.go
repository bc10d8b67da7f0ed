package connection

import "testing"

func TestResolved(t *testing.T) {
	known := values{"P": "canary", "K": "key"}
	for text, want := range map[string]string{
		`{"postgres":{"host":"db","user":"etl","password":{"secret":"P"},"port":5433}}`:                            `{"host":"db","password":"canary","port":5433,"type":"postgres","user":"etl"}`,
		`{"http":{"url":"https://x/api/","token":{"secret":"P"},"headers":{"X-Key":{"secret":"K"},"X-Team":"a"}}}`: `{"headers":{"X-Key":"key","X-Team":"a"},"token":"canary","type":"http","url":"https://x/api"}`,
	} {
		got, err := parsed(t, text).Resolved(known.of)
		if err != nil || string(got) != want {
			t.Errorf("%s, %v; want %s", got, err, want)
		}
	}
	if _, err := parsed(t, `{"postgres":{"host":"db","user":"etl","password":{"secret":"NONE"}}}`).Resolved(known.of); err == nil {
		t.Error("a secret that does not exist has a value")
	}
}

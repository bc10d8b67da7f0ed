package dag

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

func TestTags(t *testing.T) {
	own, err := TagsOf(map[string]string{"team": "data", "a.b/c": "x=y z", "order": "17"}, TagsGivenMax)
	if err != nil || own != "a.b/c=x=y z\norder=17\nteam=data" {
		t.Fatalf("%q, %v", own, err)
	}
	if !own.Has("a.b/c=x=y z") || own.Has("order=1") || own.Has("") || own.Value("team") != "data" || own.Value("tea") != "" || Tags("").Has("") {
		t.Error("the tags are not found by what they are")
	}
	if got := own.With("team=ops\nzone=eu"); got != own+"\nzone=eu" {
		t.Errorf("joined: %q", got)
	}
	if own.With("") != own || Tags("").With(own) != own || own.With(own) != own {
		t.Error("nothing to join changes the tags")
	}
	many := map[string]string{}
	for i := range TagsMax {
		many[fmt.Sprintf("k%02d", i)] = "v"
	}
	full, err := TagsOf(many, TagsMax)
	if got := own.With(full); err != nil || len(got.Map()) != TagsMax || !got.Has("team=data") || got.Has("k15=v") {
		t.Errorf("joined with too many: %q, %v", got, err)
	}
	if _, err := TagsOf(many, TagsGivenMax); err == nil {
		t.Error("16 tags are taken where 8 may be given")
	}
}

func TestTagsRefused(t *testing.T) {
	long := strings.Repeat("x", TagPartMax+1)
	for key, value := range map[string]string{"": "v", "k": "", "-k": "v", "a b": "v", "a=b": "v", "k1": "a\nb", "k2": "\x7f", "k3": "\xff", long: "v", "k4": long, "é": "v"} {
		if CheckTag(key, value) == nil {
			t.Errorf("%q=%q is taken", key, value)
		}
	}
	for key, value := range map[string]string{"k": "Zürich", "0": "=", long[1:]: long[1:]} {
		if err := CheckTag(key, value); err != nil {
			t.Error(err)
		}
	}
}

// TestTagsOfAStart: a start without tags has the bytes that it had before there were tags, and damaged tags
// are noticed.
func TestTagsOfAStart(t *testing.T) {
	if got := (&Fire{Trigger: "t", Key: "k"}).Pack(); !bytes.Equal(got, []byte{1, 0, 1, 't', 1, 'k', 0, 0, 0}) {
		t.Errorf("without tags: %x", got)
	}
	packed := (&Fire{Tags: "a=b\nc=d", Trigger: "t"}).Pack()
	if !bytes.HasPrefix(packed, []byte("\x01\x10\x02\x03a=b\x03c=d")) {
		t.Errorf("with tags: %x", packed)
	}
	for i, b := range [][]byte{{1, 16, 0, 0, 0, 0, 0, 0}, {1, 16, 1, 0, 0, 0, 0, 0, 0}, []byte("\x01\x10\x02\x03c=d\x03a=b\x00\x00\x00\x00\x00"), packed[:6]} {
		if _, err := UnpackFire(b); err == nil {
			t.Errorf("%d: %x is taken", i, b)
		}
	}
}

package kafka

import (
	"reflect"
	"strings"
	"testing"

	"skein.dev/skein/internal/broker"
)

// TestSpans: each new offset is in one range, and no event has more offsets than its bound.
func TestSpans(t *testing.T) {
	next := [][2]int64{{5, -1}, {7, 2}, {0, -1}, {3, -1}}
	for _, c := range []struct {
		ends []int64
		most int64
		want []span
		rest bool
	}{
		{[]int64{5, 7, 0, 3}, 10, nil, false},
		{[]int64{9, 7, 2, 3}, 10, []span{{0, 5, 9}, {2, 0, 2}}, false},
		{[]int64{100, 8, 100, 4}, 10, []span{{0, 5, 7}, {1, 7, 8}, {2, 0, 3}, {3, 3, 4}}, true},
		{[]int64{100, 100, 100, 100}, 2, []span{{0, 5, 6}, {1, 7, 8}}, true},
		{[]int64{2, 9, 0, 3}, 10, []span{{1, 7, 9}}, false}, // the broker has lost records, which the next look finds
	} {
		if got, rest := spansOf(next, c.ends, c.most); !reflect.DeepEqual(got, c.want) || rest != c.rest {
			t.Errorf("up to %d of %v: %v, %t", c.most, c.ends, got, rest)
		}
	}
}

// TestRangesEvent: the event names the ranges, and the positions of all partitions.
func TestRangesEvent(t *testing.T) {
	r := ranges{source: &source{with: &broker.KafkaInput{Topic: "orders"}, at: cursorAt("AAAABBBBCCCC", []int64{5, 0})}}
	e := r.event([]span{{0, 5, 9}})
	const want = `{"topic":"orders","offsets":4,"ranges":[{"partition":0,"from":5,"to":9}],"starting":{"orders":{"0":5,"1":0}},"ending":{"orders":{"0":9,"1":0}}}`
	if string(e.Value) != want || !strings.HasPrefix(e.Key, "orders AAAABBBB offsets ") || e.Reason != "4 offsets of orders" {
		t.Errorf("%+v\n%s", e, e.Value)
	}
	if other := r.event([]span{{0, 5, 8}}); other.Key == e.Key {
		t.Error("two ranges have one key")
	}
}

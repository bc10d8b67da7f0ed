package workflow

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// TestFourEyesStored: a node of an earlier version, which reads only By, finds a name there that nobody has.
func TestFourEyesStored(t *testing.T) {
	w := must(t, "name: w\ntasks:\n  a: {approval: {four_eyes: true, by: [ann], message: Pay?}}\n  b: {approval: {four_eyes: true}}\n  c: {approval: {four_eyes: false, by: [ann]}}\n")
	def, err := json.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Decode(def)
	if err != nil {
		t.Fatal(err)
	}
	var earlier struct {
		Tasks []struct{ Approval struct{ By []string } }
	}
	if err := json.Unmarshal(def, &earlier); err != nil {
		t.Fatal(err)
	}
	for i, want := range []Approval{{By: []string{"ann"}, Message: "Pay?", FourEyes: true}, {FourEyes: true}, {By: []string{"ann"}}} {
		if got := *again.Tasks[i].Approval; !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, want %+v", got, want)
		}
		by := earlier.Tasks[i].Approval.By
		if want.FourEyes != (len(by) == 1 && strings.Contains(by[0], " ")) {
			t.Errorf("an earlier version lets %v decide", by)
		}
	}
}

package dag

import (
	"reflect"
	"testing"
)

// TestSamePolicy: two policies that differ in one field are different, whatever the field. A field that
// samePolicy forgets would give a task the policy of another one.
func TestSamePolicy(t *testing.T) {
	var each func(at []int, typ reflect.Type, name string)
	each = func(at []int, typ reflect.Type, name string) {
		if typ.Kind() == reflect.Struct {
			for i := range typ.NumField() {
				each(append(at[:len(at):len(at)], i), typ.Field(i).Type, name+"."+typ.Field(i).Name)
			}
			return
		}
		var a, b Policy
		other(t, reflect.ValueOf(&b).Elem().FieldByIndex(at), name)
		if samePolicy(&a, &b) || samePolicy(&b, &a) {
			t.Errorf("policies that differ in %s are taken for the same", name)
		}
		if !samePolicy(&b, &b) {
			t.Errorf("a policy with %s is not the same as itself", name)
		}
	}
	each(nil, reflect.TypeFor[Policy](), "Policy")
}

// other gives a field a value that is not its zero value.
func other(t *testing.T, f reflect.Value, name string) {
	t.Helper()
	switch f.Kind() {
	case reflect.Bool:
		f.SetBool(true)
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Int:
		f.SetInt(1)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		f.SetUint(1)
	case reflect.Float64:
		f.SetFloat(1)
	case reflect.String:
		f.SetString("x")
	case reflect.Slice:
		f.Set(reflect.MakeSlice(f.Type(), 1, 1))
	default:
		t.Fatalf("%s has a kind that this test cannot fill: %s", name, f.Kind())
	}
}

package identity

import (
	"encoding/json"
	"testing"
	"time"
)

// TestStrength checks which ID tokens are strong enough.
func TestStrength(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	none, all := Strength{}, Strength{RequireACR: []string{"high"}, RequireAMR: []string{"mfa"}, MaxAge: "1h"}
	for _, s := range []*Strength{&none, &all} {
		if err := s.check(); err != nil {
			t.Fatal(err)
		}
	}
	recent := Strength{maxAge: time.Hour}
	for _, c := range []struct {
		of     *Strength
		claims string
		strong bool
	}{
		{&none, `{}`, true},
		{&none, `{"acr":1,"amr":"pwd","auth_time":"1799999999"}`, true}, // some providers send claims of these types
		{&recent, `{"amr":"pwd","auth_time":1799999999}`, true},
		{&recent, `{"auth_time":"1799999999"}`, false},
		{&recent, `{"auth_time":null}`, false},
		{&recent, `{"auth_time":1e300}`, false},
		{&recent, `{"auth_time":-1e300}`, false},
		{&recent, `{"auth_time":1800000100}`, false},
		{&all, `{"acr":"high","amr":["pwd","mfa"],"auth_time":1799999999.5}`, true},
		{&all, `{"acr":"high","amr":"mfa","auth_time":1799999999}`, false},
		{&all, `{"acr":["high"],"amr":["mfa"],"auth_time":1799999999}`, false},
		{&all, `{"acr":null,"amr":["mfa"],"auth_time":1799999999}`, false},
		{&all, `{"acr":"HIGH","amr":["mfa"],"auth_time":1799999999}`, false},
		{&all, `{"acr":"high","amr":[["mfa"]],"auth_time":1799999999}`, false},
		{&all, `{"acr":"high","amr":["mfa"],"auth_time":1799990000}`, false},
	} {
		err := c.of.verify(func(into any) error { return json.Unmarshal([]byte(c.claims), into) }, now)
		if (err == nil) != c.strong {
			t.Errorf("%s: %v", c.claims, err)
		}
	}
}

package identity

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/oauth2"
)

// Strength says how reliably a provider must have authenticated a person. The zero value demands nothing.
type Strength struct {
	// RequireACR lists levels of the provider, the preferred one first. The server asks for them, and the ID
	// token must name one of them as acr.
	RequireACR []string `json:"require_acr"`
	// RequireAMR lists methods such as mfa or hwk (RFC 8176). The ID token must name at least one of them in amr.
	RequireAMR []string `json:"require_amr"`
	// MaxAge bounds the time since the person last signed in at the provider, as in 8h. If it is "", any time is
	// accepted.
	MaxAge string `json:"max_age"`

	maxAge time.Duration
}

const (
	// strengthsMax bounds the entries of a list, and strengthMax the bytes of an entry.
	strengthsMax = 20
	strengthMax  = 200
	// clockSkew is the permitted difference between the clocks of the provider and of this server.
	clockSkew = time.Minute
)

func (s *Strength) check() error {
	for name, list := range map[string][]string{"require_acr": s.RequireACR, "require_amr": s.RequireAMR} {
		if len(list) > strengthsMax {
			return fmt.Errorf("%s lists %d values; at most %d are allowed", name, len(list), strengthsMax)
		}
		for _, one := range list {
			if one == "" || len(one) > strengthMax || strings.ContainsAny(one, " \t\r\n") {
				return fmt.Errorf("%s: %.40q is not a value: want 1 to %d bytes without spaces", name, one, strengthMax)
			}
		}
	}
	if s.MaxAge == "" {
		return nil
	}
	age, err := time.ParseDuration(s.MaxAge)
	if err != nil || age < time.Minute || age%time.Second != 0 {
		return fmt.Errorf("max_age: %.40q is not a duration of at least one minute, such as 8h", s.MaxAge)
	}
	s.maxAge = age
	return nil
}

// ask returns the parameters by which the server demands the strength from the provider.
func (s *Strength) ask() (all []oauth2.AuthCodeOption) {
	if len(s.RequireACR) > 0 {
		all = append(all, oauth2.SetAuthURLParam("acr_values", strings.Join(s.RequireACR, " ")))
	}
	if s.maxAge > 0 {
		all = append(all, oauth2.SetAuthURLParam("max_age", strconv.FormatInt(int64(s.maxAge/time.Second), 10)))
	}
	return all
}

// verify returns an error that says what a signed ID token lacks. The parameters of ask are only a request,
// because the browser could have changed them on the way. claims decodes the claims of the token. A claim
// that the settings do not demand may have any type: some providers send amr as one text.
func (s *Strength) verify(claims func(any) error, now time.Time) error {
	var said struct {
		ACR  string   `json:"acr"`
		AMR  []string `json:"amr"`
		Time *float64 `json:"auth_time"` // Unix seconds
	}
	var raw struct {
		ACR  json.RawMessage `json:"acr"`
		AMR  json.RawMessage `json:"amr"`
		Time json.RawMessage `json:"auth_time"`
	}
	if err := claims(&raw); err != nil {
		return err
	}
	for _, one := range []struct {
		demanded bool
		name     string
		text     json.RawMessage
		into     any
	}{{len(s.RequireACR) > 0, "acr", raw.ACR, &said.ACR}, {len(s.RequireAMR) > 0, "amr", raw.AMR, &said.AMR}, {s.maxAge > 0, "auth_time", raw.Time, &said.Time}} {
		if !one.demanded || len(one.text) == 0 {
			continue
		}
		if err := json.Unmarshal(one.text, one.into); err != nil {
			return fmt.Errorf("%s has another type than the standard says: %w", one.name, err)
		}
	}
	if len(s.RequireACR) > 0 && !slices.Contains(s.RequireACR, said.ACR) {
		return fmt.Errorf("the level (acr) is %.40q; this server requires %s", said.ACR, strings.Join(s.RequireACR, " or "))
	}
	if len(s.RequireAMR) > 0 && !slices.ContainsFunc(s.RequireAMR, func(one string) bool { return slices.Contains(said.AMR, one) }) {
		return fmt.Errorf("the methods (amr) are %.100q; this server requires %s", said.AMR, strings.Join(s.RequireAMR, " or "))
	}
	if s.maxAge == 0 {
		return nil
	}
	if said.Time == nil {
		return errors.New("the time of the sign-in (auth_time) is missing, which this server requires")
	}
	switch age := now.Sub(time.Unix(int64(*said.Time), 0)); {
	case age > s.maxAge+clockSkew:
		return fmt.Errorf("the sign-in at the provider is %s old; this server accepts at most %s", age.Round(time.Second), s.maxAge)
	case age < -clockSkew:
		return fmt.Errorf("the sign-in at the provider is %s in the future; compare the clocks", (-age).Round(time.Second))
	}
	return nil
}

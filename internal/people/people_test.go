package people

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/memory"
)

const good = "correct horse battery staple"

var here, there = netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")

// bench is a store with the user ann.
type bench struct {
	*testing.T
	s   *memory.Store
	p   *Passwords
	ann int64
}

func newBench(t *testing.T) *bench {
	s := memory.New(memory.Options{})
	b := &bench{T: t, s: s, p: New(s)}
	kept, err := b.p.Hash(t.Context(), "ann", good)
	if err != nil {
		t.Fatal(err)
	}
	b.ann = b.change(store.RightsChange{Add: &store.Principal{Kind: store.PrincipalUser, Name: "ann", State: store.PrincipalActive},
		Password: &store.Password{Hash: kept}})
	return b
}

func (b *bench) change(c store.RightsChange) int64 {
	b.Helper()
	was, err := b.s.RightsRevision(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	is, err := b.s.ChangeRights(b.Context(), was, c)
	if err != nil {
		b.Fatal(err)
	}
	return is
}

// try signs in, and returns the outcome in a short form.
func (b *bench) try(name, password string, from netip.Addr) string {
	b.Helper()
	who, err := b.p.Verify(b.Context(), name, password, from)
	var often *Often
	switch {
	case err == nil:
		return who.Name
	case who != (store.Principal{}):
		b.Errorf("an error comes with the principal %+v", who)
	case strings.Contains(err.Error(), password):
		b.Errorf("the error has the password: %s", err)
	}
	switch {
	case errors.Is(err, ErrWrong):
		return "wrong"
	case errors.As(err, &often):
		return "often"
	}
	return err.Error()
}

func (b *bench) want(what, is, want string) {
	b.Helper()
	if is != want {
		b.Errorf("%s: %s, want %s", what, is, want)
	}
}

func TestVerify(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.want("the password", b.try("ANN", good, here), "ann")
		b.want("another password", b.try("ann", good+".", here), "wrong")
		b.want("an unknown name", b.try("bob", good, here), "wrong")
		b.want("no name", b.try("", good, here), "wrong")
		b.want("the service", b.try(store.FirstServiceName, good, here), "wrong")
		b.want("an endless password", b.try("ann", strings.Repeat("x", 1<<20), here), "wrong")
		b.want("a password in another normal form", b.try("ann", "cafe\u0301", there), "wrong")

		ann := store.Principal{ID: b.ann, Name: "ann", State: store.PrincipalDisabled}
		b.change(store.RightsChange{Set: &ann})
		b.want("a disabled user", b.try("ann", good, here), "wrong")
		ann.State = store.PrincipalActive
		b.change(store.RightsChange{Set: &ann, Password: &store.Password{Principal: b.ann}})
		b.want("a user without a password", b.try("ann", good, here), "wrong")
		kept := hash("caf\u00e9 au lait, s'il vous plait", present)
		b.change(store.RightsChange{Password: &store.Password{Principal: b.ann, Hash: kept}})
		b.want("the other normal form", b.try("ann", "cafe\u0301 au lait, s'il vous plait", here), "ann")
		b.change(store.RightsChange{Password: &store.Password{Principal: b.ann, Hash: "$argon2id$v=19$m=99999999,t=2,p=1$c2FsdHNhbHQ$" + strings.Repeat("A", 43)}})
		if is := b.try("ann", good, here); !strings.Contains(is, errHash.Error()) {
			t.Errorf("a hash that would take the node's memory: %s", is)
		}
	})
}

// counted is a store that counts the reads of passwords.
type counted struct {
	*memory.Store
	passwords int
}

func (c *counted) PasswordOf(ctx context.Context, id int64) (store.Password, error) {
	c.passwords++
	return c.Store.PasswordOf(ctx, id)
}

// TestUnknownName: the store is asked as often about an unknown name as about a known one.
func TestUnknownName(t *testing.T) {
	b := newBench(t)
	c := &counted{Store: b.s}
	b.p = New(c)
	for _, name := range []string{"ann", "bob", store.FirstServiceName, ""} {
		c.passwords = 0
		b.want(name, b.try(name, "incorrect", here), "wrong")
		if c.passwords != 1 {
			t.Errorf("%q: the store was asked %d times", name, c.passwords)
		}
	}
}

// TestRightsOfChanger: a change needs the present rights of the caller's principal and maker, not only those
// that its node knew a moment ago.
func TestRightsOfChanger(t *testing.T) {
	b := newBench(t)
	r := NewRegistry(b.s, b.p)
	role, _ := access.BuiltinRole("cluster")
	old, err := access.NewPrincipal(access.User, "", []access.Binding{{Role: role, Namespace: access.Everywhere}}, access.Whole())
	if err != nil {
		t.Fatal(err)
	}
	add := func(name, state string, bind ...store.Binding) int64 {
		return b.change(store.RightsChange{Add: &store.Principal{Kind: store.PrincipalUser, Name: name, State: state}, Bind: bind})
	}
	in := func(role, ns string) store.Binding { return store.Binding{Role: role, Namespace: ns} }
	root := add("root", store.PrincipalActive, in("cluster", "*"))
	off := add("off", store.PrincipalDisabled, in("cluster", "*"))
	ended := add("ended", store.PrincipalActive, store.Binding{Role: "cluster", Namespace: "*", Expires: 1})
	web := add("web", store.PrincipalActive, in("admin", "web"))
	for _, c := range []struct {
		what             string
		principal, maker int64
		all, web         bool // may change everything, may change members of web
	}{
		{"a program on the machine", 0, 0, true, true},
		{"root", root, 0, true, true},
		{"a token that root made for itself", root, root, true, true},
		{"whose role was taken", b.ann, 0, false, false},
		{"whose role ended", ended, 0, false, false},
		{"who was disabled", off, 0, false, false},
		{"who was deleted", 999, 0, false, false},
		{"whose role is now in web", web, 0, false, true},
		{"whose maker's role was taken", root, b.ann, false, false},
		{"whose maker was disabled", root, off, false, false},
		{"whose maker's role is now in web", root, web, false, true},
	} {
		by := Caller{Name: c.what, Rights: old, Now: 2, Principal: c.principal, Maker: c.maker}
		for does, change := range map[string]func() error{
			"user":    func() error { return r.Create(t.Context(), by, NewUser{Name: "new"}) },
			"state":   func() error { return r.SetState(t.Context(), by, "ann", store.PrincipalActive) },
			"delete":  func() error { return r.Delete(t.Context(), by, "nobody") },
			"role":    func() error { return r.CreateRole(t.Context(), by, "starter", []string{"run.start"}) },
			"no role": func() error { return r.DeleteRole(t.Context(), by, "nothing") },
			"all":     func() error { return r.Grant(t.Context(), by, "ann", Grant{Role: "viewer"}) },
			"none":    func() error { return r.Revoke(t.Context(), by, "ann", Grant{Role: "operator"}) },
			"web":     func() error { return r.Grant(t.Context(), by, "ann", Grant{Role: "viewer", Namespace: "web"}) },
			"not web": func() error { return r.Revoke(t.Context(), by, "ann", Grant{Role: "operator", Namespace: "web"}) },
			"more":    func() error { return r.Grant(t.Context(), by, "ann", Grant{Role: "cluster", Namespace: "web"}) },
		} {
			may := c.all || c.web && strings.HasSuffix(does, "web")
			if err := change(); errors.Is(err, ErrForbidden) == may {
				t.Errorf("%s, %s: %v", c.what, does, err)
			}
		}
		all, err := b.s.Rights(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		given := slices.DeleteFunc(all.Bindings, func(o store.Binding) bool { return o.Subject != b.ann })
		b.change(store.RightsChange{Unbind: given})
	}
}

// TestRehash: a hash of another cost is replaced at the sign-in, and not before.
func TestRehash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		cheap := hash(good, cost{memoryKiB: 64, rounds: 1, lanes: 1})
		b.change(store.RightsChange{Password: &store.Password{Principal: b.ann, Hash: cheap}})
		is := func() string {
			p, err := b.s.PasswordOf(t.Context(), b.ann)
			if err != nil {
				t.Fatal(err)
			}
			return p.Hash
		}
		b.want("another password", b.try("ann", "incorrect", here), "wrong")
		b.want("the hash after a wrong one", is(), cheap)
		b.want("the password", b.try("ann", good, here), "ann")
		if !strings.HasPrefix(is(), "$argon2id$v=19$m=19456,t=2,p=1$") {
			t.Errorf("the hash after the sign-in is %s", is())
		}
		b.want("the password again", b.try("ann", good, here), "ann")
	})
}

// TestTries: guesses are bounded by name and by address, and a person with the password can always sign in.
func TestTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := newTries()
		fail := func(name, from string) bool {
			_, err := tries.take(name, netip.MustParseAddr(from), time.Now())
			return err == nil
		}
		win := func(name, from string) {
			a, err := tries.take(name, netip.MustParseAddr(from), time.Now())
			if err != nil {
				t.Fatalf("%s from %s: %s", name, from, err)
			}
			a.undo(true)
		}
		count := func(name, from string) (n int) {
			for range 100 {
				if fail(name, from) {
					n++
				}
			}
			return n
		}
		win("ann", "10.0.0.1")
		for _, c := range []struct {
			name, from string
			want       int
		}{
			{"ann", "10.0.0.2", 5},        // a stranger
			{"ann", "10.0.0.3", 1},        // the name has no more tries, but each address has one
			{"ann", "2001:db8::1", 1},     // so has a network of IPv6
			{"ann", "2001:db8::2", 0},     // but not each of its addresses
			{"bob", "10.0.0.2", 5},        // another name
			{"ann", "10.0.0.1", 5},        // where ann has signed in, the name has its own tries
			{"nobody", "10.0.0.4", 5},     // an unknown name is like a known one
			{"ann", "::ffff:10.0.0.3", 0}, // the same address
		} {
			if n := count(c.name, c.from); n != c.want {
				t.Errorf("%s from %s had %d tries, want %d", c.name, c.from, n, c.want)
			}
		}
		time.Sleep(windowMin)
		if n := count("ann", "10.0.0.2"); n != 5 {
			t.Errorf("after a minute there are %d tries", n)
		}
		time.Sleep(windowMin)
		if n := count("ann", "10.0.0.2"); n != 0 {
			t.Errorf("the second wait is no longer than the first one: %d tries", n)
		}
		time.Sleep(windowMin)
		if n := count("ann", "10.0.0.2"); n != 5 {
			t.Errorf("after two minutes there are %d tries", n)
		}
		time.Sleep(time.Hour)
		n := 0
		for i := range 100 {
			if fail(fmt.Sprint("user", i), "10.0.0.9") {
				n++
			}
		}
		if n != triesOfAddress {
			t.Errorf("one address had %d tries of different names, want %d", n, triesOfAddress)
		}
		for i := range pairsMax + 10 {
			fail("ann", netip.AddrFrom4([4]byte{11, byte(i >> 16), byte(i >> 8), byte(i)}).String())
		}
		if len(tries.pairs.at) > pairsMax || len(tries.addresses.at) > addressesMax || tries.pairs.order.Len() > pairsMax {
			t.Errorf("%d pairs and %d addresses are remembered", len(tries.pairs.at), len(tries.addresses.at))
		}
	})
}

// TestUncounted: an attempt that ended before the password was checked does not count as failed.
func TestUncounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.p.strangers.slots <- struct{}{}
		var wg sync.WaitGroup
		for range queueMax {
			wg.Go(func() { b.p.Verify(t.Context(), "ann", "incorrect", here) }) //nolint:errcheck // each waits for the slot in vain
		}
		synctest.Wait()
		wg.Wait()
		<-b.p.strangers.slots
		for range triesOfName - 1 {
			b.want("an attempt after those that were busy", b.try("ann", "incorrect", here), "wrong")
		}
		b.want("the last one", b.try("ann", good, here), "ann")
	})
}

// TestBusy: the number of callers that wait for a slot is bounded, and so is the time of their wait.
func TestBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLane()
		leave, err := l.enter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		results := make(chan error, queueMax)
		for range queueMax {
			go func() {
				_, err := l.enter(t.Context())
				results <- err
			}()
		}
		synctest.Wait()
		if _, err := l.enter(t.Context()); !errors.Is(err, ErrBusy) {
			t.Errorf("one more waits: %v", err)
		}
		for range queueMax {
			if err := <-results; !errors.Is(err, ErrBusy) {
				t.Errorf("the wait has no end: %v", err)
			}
		}
		leave()
		if _, err := l.enter(t.Context()); err != nil {
			t.Errorf("a free slot is refused: %v", err)
		}
	})
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		password, why string
	}{
		{good, ""},
		{"mb7-Vq2rT_xx", ""},
		{"dragon monkey hat", ""},
		{"übergrößenträger", ""},
		{"short", "fewer than 12"},
		{"äöüäöüäöüäö", "fewer than 12"},
		{strings.Repeat("long ", 300), "longer than"},
		{"abc\xff456789012345", "not UTF-8"},
		{"1qaz2wsx3edc", "most frequent"},
		{"Sunshine2024!", "most frequent"},
		{"P@ssw0rd12345", "most frequent"},
		{"!!!!!!letmein", "most frequent"},
		{"annika.lind1", "the name"},
		{"skeinskein01", "the name"},
		{"abcabcabcabc", "repeats"},
		{"xxxxxxxxxxxxz", "repeats"},
		{"qwertyuiop12", "most frequent"},
		{"abcdefgh1234", "sequence"},
		{"lkjhgfdsa098", "sequence"},
	} {
		err := Check("Annika.Lind", c.password)
		switch {
		case c.why == "" && err != nil:
			t.Errorf("%q: %s", c.password, err)
		case c.why != "" && (err == nil || !errors.Is(err, ErrWeak) || !strings.Contains(err.Error(), c.why)):
			t.Errorf("%q: %v, want %s", c.password, err, c.why)
		case err != nil && strings.Contains(err.Error(), c.password):
			t.Errorf("the error has the password: %s", err)
		}
	}
}

func TestWorstIsSorted(t *testing.T) {
	all := worst()
	for i := range all[1:] {
		if all[i] >= all[i+1] {
			t.Fatalf("%q is before %q", all[i], all[i+1])
		}
	}
	if len(all) < 10_000 {
		t.Errorf("there are %d", len(all))
	}
}

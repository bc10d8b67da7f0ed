// Package ldaptest starts a real directory, slapd, for tests.
package ldaptest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-ldap/ldap/v3"

	"skein.dev/skein/internal/cluster/nettest"
)

const (
	slapdPath = "/usr/sbin/slapd"
	// Suffix is the entry above all others.
	Suffix = "dc=example,dc=com"
)

// Slapd is a directory that a test has started. It has the people ann, bob and nopass; ann is in the group
// ops.
type Slapd struct {
	Dir         string // holds ca.pem, other-ca.pem and bind, the password of BindDN
	LDAP, LDAPS string // the addresses
	Stop        func()
}

// Certificates makes an authority, and a certificate of it for localhost.
func Certificates(t testing.TB, dir, prefix string) {
	t.Helper()
	newKey := func() *ecdsa.PrivateKey {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	write := func(name, kind string, der []byte) {
		if err := os.WriteFile(filepath.Join(dir, prefix+name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	caKey, key := newKey(), newKey()
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "CA"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: ca.NotBefore, NotAfter: ca.NotAfter, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	if err != nil {
		t.Fatal(err)
	}
	write("ca.pem", "CERTIFICATE", der)
	if der, err = x509.CreateCertificate(rand.Reader, leaf, ca, &key.PublicKey, caKey); err != nil {
		t.Fatal(err)
	}
	write("cert.pem", "CERTIFICATE", der)
	if der, err = x509.MarshalPKCS8PrivateKey(key); err != nil {
		t.Fatal(err)
	}
	write("key.pem", "PRIVATE KEY", der)
}

const entries = `dn: dc=example,dc=com
objectClass: dcObject
objectClass: organization
o: Example
dc: example

dn: ou=people,dc=example,dc=com
objectClass: organizationalUnit
ou: people

dn: ou=groups,dc=example,dc=com
objectClass: organizationalUnit
ou: groups

dn: cn=skein,dc=example,dc=com
objectClass: organizationalRole
objectClass: simpleSecurityObject
cn: skein
userPassword: Own-Secret-7

dn: uid=ann,ou=people,dc=example,dc=com
objectClass: inetOrgPerson
uid: ann
cn: Ann
sn: A
mail: same@example.com
userPassword: Ann-Secret-1

dn: uid=bob,ou=people,dc=example,dc=com
objectClass: inetOrgPerson
uid: bob
cn: Bob
sn: B
mail: same@example.com
userPassword: Bob-Secret-1

dn: uid=nopass,ou=people,dc=example,dc=com
objectClass: inetOrgPerson
uid: nopass
cn: Nopass
sn: N

dn: ou=away,dc=example,dc=com
objectClass: referral
objectClass: extensibleObject
ou: away
ref: ldap://127.0.0.1:1/ou=away,dc=example,dc=com

dn: cn=ops,ou=groups,dc=example,dc=com
objectClass: groupOfNames
cn: ops
member: uid=ann,ou=people,dc=example,dc=com

`

// Start starts a directory on loopback, in a folder of its own.
func Start(t testing.TB) *Slapd {
	t.Helper()
	if _, err := os.Stat(slapdPath); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip("the tests of directories need slapd: make tools installs it")
	}
	s := &Slapd{Dir: t.TempDir()}
	Certificates(t, s.Dir, "")
	Certificates(t, s.Dir, "other-")
	data := filepath.Join(s.Dir, "data")
	config := fmt.Sprintf(`include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
pidfile %[1]s/pid
TLSCACertificateFile %[1]s/ca.pem
TLSCertificateFile %[1]s/cert.pem
TLSCertificateKeyFile %[1]s/key.pem
allow bind_anon_cred
database mdb
suffix "dc=example,dc=com"
rootdn "cn=root,dc=example,dc=com"
rootpw Root-Secret-1
directory %[2]s
maxsize 16777216
access to attrs=userPassword by anonymous auth by * none
access to * by users read by * none
`, s.Dir, data)
	write := func(name, text string) string {
		path := filepath.Join(s.Dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	conf := write("slapd.conf", config)
	write("bind", "Own-Secret-7\n")
	if out, err := exec.Command(slapdPath, "-Ta", "-f", conf, "-l", write("entries.ldif", entries)).CombinedOutput(); err != nil {
		t.Fatalf("slapadd: %v: %s", err, out)
	}
	s.LDAP, s.LDAPS = "ldap://"+freeAddress(t), "ldaps://"+freeAddress(t)
	cmd := exec.Command(slapdPath, "-f", conf, "-h", s.LDAP+" "+s.LDAPS, "-d", "0")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.Stop = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	t.Cleanup(s.Stop)
	for _, url := range []string{s.LDAP, s.LDAPS} {
		for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			c, err := net.Dial("tcp", url[strings.Index(url, "//")+2:])
			if err == nil {
				_ = c.Close()
				break
			}
			if time.Now().After(deadline) {
				t.Fatal(err)
			}
		}
	}
	return s
}

// Change replaces the members of a group. uids are the uid attributes of the new members.
func (s *Slapd) Change(t testing.TB, group string, uids ...string) {
	t.Helper()
	c, err := ldap.DialURL(s.LDAP)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Bind("cn=root,"+Suffix, "Root-Secret-1"); err != nil {
		t.Fatal(err)
	}
	members := []string{""} // a group needs at least one member
	for _, uid := range uids {
		members = append(members, "uid="+uid+",ou=people,"+Suffix)
	}
	r := ldap.NewModifyRequest("cn="+group+",ou=groups,"+Suffix, nil)
	r.Replace("member", members)
	if err := c.Modify(r); err != nil {
		t.Fatal(err)
	}
}

// freeAddress returns an address on loopback that is free.
func freeAddress(t testing.TB) string {
	t.Helper()
	port, err := nettest.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", port)
}

package authority

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"time"
)

// RenewPauseMax bounds the pause after a renewal that failed.
const RenewPauseMax = time.Minute

// Due returns the time until the next renewal of a certificate. The first renewal is due at two thirds of the
// lifetime. If it is overdue, the next attempt follows after a twentieth of the remaining lifetime, but at
// least 1 s. After the end of the certificate, Due returns RenewPauseMax.
func Due(from, until, now time.Time) time.Duration {
	life := until.Sub(from.Add(Skew))
	left := until.Sub(now)
	if early := left - life/3; early > 0 {
		return early
	}
	if left <= 0 {
		return RenewPauseMax
	}
	return min(max(left/20, time.Second), RenewPauseMax)
}

// Pinned accepts the nodes of the authority whose root has a fingerprint.
func Pinned(fingerprint string) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, ServerName: ServerName,
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection verifies the chain by the fingerprint
		VerifyConnection: func(is tls.ConnectionState) error {
			roots, between := x509.NewCertPool(), x509.NewCertPool()
			found := false
			for _, c := range is.PeerCertificates[1:] {
				if Fingerprint(c.Raw) == fingerprint {
					roots.AddCert(c)
					found = true
				}
				between.AddCert(c)
			}
			if !found {
				return fmt.Errorf("the node does not show a certificate of the authority %s; if a proxy is in front of it, join with --ca-cert FILE and without --authority, or use a token", fingerprint)
			}
			_, err := is.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, DNSName: ServerName})
			return err
		}}
}

// HasRoot reports whether one of the roots has a fingerprint.
func HasRoot(roots [][]byte, fingerprint string) bool {
	for _, r := range roots {
		if Fingerprint(r) == fingerprint {
			return true
		}
	}
	return false
}

// Asks reports whether a server accepts certificates of the authority that issued own.
func Asks(asked *tls.CertificateRequestInfo, own *tls.Certificate) bool {
	for _, der := range own.Certificate[1:] {
		root, err := x509.ParseCertificate(der)
		if err != nil {
			continue
		}
		for _, name := range asked.AcceptableCAs {
			if string(name) == string(root.RawSubject) || string(name) == string(root.RawIssuer) {
				return true
			}
		}
	}
	return false
}

// ParseAll reads certificates.
func ParseAll(all [][]byte) (certs []*x509.Certificate, err error) {
	for _, der := range all {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, fmt.Errorf("read a certificate: %w", err)
		}
		certs = append(certs, c)
	}
	return certs, nil
}

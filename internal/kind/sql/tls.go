package sql

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strings"
)

// tlsVerdict classifies errors of TLS. A retry cannot repair them.
func tlsVerdict(err error) verdict {
	var (
		verify  *tls.CertificateVerificationError
		record  tls.RecordHeaderError
		unknown x509.UnknownAuthorityError
		host    x509.HostnameError
	)
	switch {
	case errors.As(err, &verify), errors.As(err, &record), errors.As(err, &unknown), errors.As(err, &host):
		return permanent
	case strings.Contains(err.Error(), "server refused TLS connection"), strings.Contains(err.Error(), "TLS requested but server does not support TLS"):
		return permanent
	}
	return failed
}

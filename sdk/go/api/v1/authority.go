package api

// Authority is the internal certificate authority. Its certificates prove the identity of workers and nodes.
type Authority struct {
	Roots []Root `json:"roots" doc:"The oldest first. There is none until the first worker is invited."`
}

// Root is a root certificate of the internal authority.
type Root struct {
	Fingerprint  string `json:"fingerprint" doc:"sha256: and the SHA-256 of the certificate, by which a worker that joins knows it."`
	State        string `json:"state" enum:"issues,trusted,old" doc:"issues: new certificates are of this root. trusted: it was replaced, and its certificates count until they end. old: its certificates count no more."`
	MadeAt       Time   `json:"made_at" format:"date-time"`
	ExpiresAt    Time   `json:"expires_at" format:"date-time"`
	TrustedUntil *Time  `json:"trusted_until" format:"date-time" doc:"The end of the change that replaced it."`
}

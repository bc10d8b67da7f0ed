package sqs

import (
	"testing"

	"skein.dev/skein/internal/broker"
	"skein.dev/skein/internal/secret"
)

// TestKey: the credentials of a connection are what programs of AWS print.
func TestKey(t *testing.T) {
	for text, want := range map[string][3]string{
		`{"Version":1,"AccessKeyId":"A","SecretAccessKey":"S","SessionToken":"T","Expiration":"2027-01-01T00:00:00Z"}`: {"A", "S", "T"},
		`{"Credentials":{"AccessKeyId":"A","SecretAccessKey":"S","SessionToken":"T"},"AssumedRoleUser":{"Arn":"x"}}`:   {"A", "S", "T"},
		`{"AccessKeyId":"A","SecretAccessKey":"S"}`: {"A", "S", ""},
		`{"AccessKeyId":"A"}`:                       {},
		`null`:                                      {},
		`A:S`:                                       {},
	} {
		key, err := keyOf(&broker.SQS{Credentials: &secret.Text{Plain: text}})
		if got := [3]string{key.AccessKeyID, key.SecretAccessKey, key.SessionToken}; got != want || (err == nil) != (want[0] != "") {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}

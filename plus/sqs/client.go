// Package sqs takes messages from a queue of Amazon SQS, or of a service with its interface. A message is
// deleted when the node has stored it. Until then, the source keeps it hidden from other readers.
package sqs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	client "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go"

	"skein.dev/skein/internal/broker"
	"skein.dev/skein/internal/feed"
	"skein.dev/skein/plus/stream"
)

const (
	// callMax bounds a request to the service.
	callMax = 10 * time.Second
	// answerMax bounds an answer in bytes. Ten messages of 1 MiB fit.
	answerMax = 32 << 20
)

// connect makes a client. It uses no settings of the environment.
func connect(start *feed.Start) (*client.Client, error) {
	var c broker.SQS
	if err := stream.Read(start, &c, nil); err != nil {
		return nil, err
	}
	security := c.Security()
	transport, err := stream.Transport(start, &security)
	if err != nil {
		return nil, err
	}
	key, err := keyOf(&c)
	if err != nil {
		return nil, err
	}
	transport.MaxIdleConnsPerHost = parallel
	// No redirection is followed.
	http := &http.Client{Transport: bounded{transport}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	opts := client.Options{Region: c.Region, HTTPClient: http, RetryMaxAttempts: 2,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return key, nil })}
	if c.URL != "" {
		opts.BaseEndpoint = &c.URL
	}
	return client.New(opts), nil
}

// keyOf returns the access key of a connection. Its credentials are JSON as the commands "aws configure
// export-credentials" and "aws sts assume-role" print it.
func keyOf(c *broker.SQS) (aws.Credentials, error) {
	if c.Credentials == nil {
		return aws.Credentials{AccessKeyID: c.User, SecretAccessKey: stream.Plain(c.Password), SessionToken: stream.Plain(c.SessionToken)}, nil
	}
	type key struct{ AccessKeyID, SecretAccessKey, SessionToken string }
	var is struct {
		key
		Credentials *key
	}
	err := json.Unmarshal([]byte(c.Credentials.Plain), &is)
	if is.Credentials != nil {
		is.key = *is.Credentials
	}
	if err != nil || is.AccessKeyID == "" || is.SecretAccessKey == "" { // err could show a part of the secret
		return aws.Credentials{}, stream.Permanent("the secret of credentials is not a JSON object with AccessKeyId and SecretAccessKey; aws configure export-credentials prints one")
	}
	return aws.Credentials{AccessKeyID: is.AccessKeyID, SecretAccessKey: is.SecretAccessKey, SessionToken: is.SessionToken}, nil
}

// bounded bounds the answers of another transport.
type bounded struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		answer.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(answer.Body, answerMax), answer.Body}
	}
	return answer, err
}

// codeOf returns the code of an error of the service, or "" for any other error.
func codeOf(err error) string {
	if is := smithy.APIError(nil); errors.As(err, &is) {
		return is.ErrorCode()
	}
	return ""
}

// said returns an error in the words of the service. The error of the library repeats the name of the
// operation and has the ID of the request.
func said(err error) error {
	if is := smithy.APIError(nil); errors.As(err, &is) {
		return fmt.Errorf("the service says: %s (%s)", stream.Name(is.ErrorMessage()), stream.Name(is.ErrorCode()))
	}
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return fmt.Errorf("the request to the service failed: %w", err)
		}
		err = inner
	}
}

// denied is the code of an error about a right that the user of the access key does not have.
const denied = "AccessDenied"

// isDenied reports whether the service knows the access key, and its user has no right for a request.
func isDenied(err error) bool {
	code := codeOf(err)
	return code == denied || code == denied+"Exception"
}

// Test asks for the name of one queue, so the service checks the access key.
func Test(ctx context.Context, start *feed.Start) (found string, err error) {
	api, err := connect(start)
	if err != nil {
		return "", err
	}
	switch _, err = api.ListQueues(ctx, &client.ListQueuesInput{MaxResults: aws.Int32(1)}); {
	case err == nil:
		return "a service of SQS", nil
	case isDenied(err):
		return "a service of SQS; the access key may not list its queues, which a source does not need", nil
	}
	return "", said(err)
}

package blob

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Scheme is the prefix of the text of a Location.
const Scheme = "s3://"

// Location is the place of a store of objects. ParseLocation makes it.
type Location struct {
	Bucket string
	Prefix string // the prefix of all keys, which is "" or ends in a slash
	// Endpoint is HOST or HOST:PORT of the server. "" means Amazon S3. Plain means that calls do not use TLS.
	Endpoint string
	Plain    bool
	Region   string // the region; "" means AWS_REGION, else the region that the server reports
	// PathStyle is "true" if the bucket is a part of the path, and "false" if it is a part of the host name.
	// If it is "", the endpoint decides, because both are usual.
	PathStyle string
	// Secret is NAMESPACE/NAME of the secret with the credentials. If it is "", the credentials come from the
	// environment of the process.
	Secret string
	// Encryption is the way in which the server encrypts objects: "", AES256, or kms:KEY.
	Encryption string
}

var bucketForm = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)

// locationKeys are the parameters of a Location.
var locationKeys = []string{"encryption", "endpoint", "path_style", "region", "secret"}

// ParseLocation reads a text such as
// s3://bucket/prefix?endpoint=https://host:9000&region=eu-1&path_style=true.
func ParseLocation(text string) (l Location, err error) {
	u, err := url.Parse(text)
	if err != nil {
		return l, errors.New("the value is not a URL such as s3://BUCKET/PREFIX")
	}
	switch {
	case u.Scheme != "s3" || u.Host == "":
		return l, errors.New("the value is not a URL such as s3://BUCKET/PREFIX")
	case u.User != nil:
		return l, errors.New("credentials cannot be a part of the URL: give them in the environment, a profile, or a secret (?secret=NAMESPACE/NAME)")
	case u.Port() != "" || u.Fragment != "":
		return l, errors.New("after s3:// comes the name of a bucket; the address of the server is ?endpoint=https://HOST:PORT")
	}
	l.Bucket = u.Host
	if !bucketForm.MatchString(l.Bucket) {
		return l, fmt.Errorf("%q is not the name of a bucket: use 3 to 63 lower-case letters, digits, dots and hyphens", l.Bucket)
	}
	if p := strings.Trim(u.Path, "/"); p != "" {
		l.Prefix = p + "/"
	}
	if slices.Contains(strings.Split(l.Prefix, "/"), "..") || strings.Contains(l.Prefix, "//") {
		return l, fmt.Errorf("the prefix %q has an empty part, or the part ..", l.Prefix)
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return l, fmt.Errorf("its parameters cannot be read: %w", err)
	}
	for key, values := range query {
		if !slices.Contains(locationKeys, key) || len(values) != 1 {
			return l, fmt.Errorf("parameter %q is unknown or given twice; the parameters are %s", key, strings.Join(locationKeys, ", "))
		}
	}
	l.Region, l.PathStyle, l.Secret, l.Encryption = query.Get("region"), query.Get("path_style"), query.Get("secret"), query.Get("encryption")
	if err := l.setEndpoint(query.Get("endpoint")); err != nil {
		return l, err
	}
	return l, l.check()
}

func (l *Location) setEndpoint(text string) error {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	if err == nil && u.User != nil {
		return errors.New("credentials cannot be a part of the endpoint: give them in the environment, a profile, or a secret (?secret=NAMESPACE/NAME)")
	}
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return fmt.Errorf("the endpoint %q is not a URL such as https://HOST:PORT", text)
	}
	l.Endpoint, l.Plain = u.Host, u.Scheme == "http"
	return nil
}

func (l *Location) check() error {
	if l.PathStyle != "" && l.PathStyle != "true" && l.PathStyle != "false" {
		return fmt.Errorf("path_style %q is neither true nor false", l.PathStyle)
	}
	if namespace, name, ok := strings.Cut(l.Secret, "/"); l.Secret != "" && (!ok || namespace == "" || name == "") {
		return fmt.Errorf("the secret %q is not NAMESPACE/NAME", l.Secret)
	}
	if key, kms := strings.CutPrefix(l.Encryption, "kms:"); l.Encryption != "" && l.Encryption != "AES256" && (!kms || key == "") {
		return fmt.Errorf("encryption %q is neither AES256 nor kms:KEY", l.Encryption)
	}
	return nil
}

// String returns the text of the location that ParseLocation reads.
func (l *Location) String() string {
	s := Scheme + l.Bucket + "/" + l.Prefix
	if l.Endpoint != "" {
		s += " at " + l.Endpoint
	}
	return strings.TrimSuffix(s, "/")
}

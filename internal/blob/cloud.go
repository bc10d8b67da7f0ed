package blob

import (
	"cmp"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"
)

// cloud gets credentials from the services that a cloud has for its machines, containers and service
// accounts.
type cloud struct {
	http   *http.Client
	region string
}

const (
	// dialMax bounds the time for a connection to such a service. On other machines, nothing answers at its
	// address.
	dialMax = time.Second
	// cloudMax bounds the bytes of an answer of a service.
	cloudMax = 64 << 10
	// tokenMax bounds the bytes of a file with a token.
	tokenMax = 64 << 10
)

// newCloud returns the services. Package egress refuses their addresses, because tasks must not reach them.
// So the services have their own client, which follows no redirect.
func newCloud(region string) *cloud {
	return &cloud{region: cmp.Or(region, os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"), regionDefault), http: &http.Client{
		Timeout:       sourceMax,
		Transport:     &http.Transport{DialContext: (&net.Dialer{Timeout: dialMax}).DialContext, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// get makes a request with a text as answer.
func (c *cloud) get(ctx context.Context, method, address string, header map[string]string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, address, nil)
	if err != nil {
		return nil, err
	}
	for name, value := range header {
		r.Header.Set(name, value)
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, cloudMax))
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answered %s", r.URL.Host, answer.Status)
	}
	return text, err
}

// given reads credentials in the form in which containers and machines get them.
func given(text []byte) (keys, error) {
	var a struct {
		AccessKeyID     string `json:"AccessKeyId"`
		SecretAccessKey string
		Token           string
		Expiration      time.Time
	}
	if err := json.Unmarshal(text, &a); err != nil {
		return keys{}, fmt.Errorf("read the credentials: %w", err)
	}
	k := keys{a.AccessKeyID, a.SecretAccessKey, a.Token, a.Expiration}
	if !k.complete() {
		return k, errors.New("the answer has no credentials")
	}
	return k, nil
}

// readToken reads a file with a token.
func readToken(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, tokenMax))
	return strings.TrimSpace(string(text)), err
}

// ofIdentity exchanges the token of a service account for the credentials of a role.
func (c *cloud) ofIdentity(ctx context.Context) (k keys, err error) {
	file, role := os.Getenv("AWS_WEB_IDENTITY_TOKEN_FILE"), os.Getenv("AWS_ROLE_ARN")
	if file == "" || role == "" {
		return k, errNone
	}
	token, err := readToken(file)
	if err != nil {
		return k, err
	}
	at := os.Getenv("AWS_ENDPOINT_URL_STS")
	if at == "" {
		at = "https://sts." + c.region + ".amazonaws.com"
		if strings.HasPrefix(c.region, "cn-") {
			at += ".cn"
		}
	}
	form := url.Values{"Action": {"AssumeRoleWithWebIdentity"}, "Version": {"2011-06-15"}, "RoleArn": {role},
		"RoleSessionName": {cmp.Or(os.Getenv("AWS_ROLE_SESSION_NAME"), "skein")}, "WebIdentityToken": {token}}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, at+"/", strings.NewReader(form.Encode()))
	if err != nil {
		return k, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := c.http.Do(r)
	if err != nil {
		return k, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, cloudMax))
	if err != nil {
		return k, err
	}
	var a struct {
		ID      string    `xml:"AssumeRoleWithWebIdentityResult>Credentials>AccessKeyId"`
		Secret  string    `xml:"AssumeRoleWithWebIdentityResult>Credentials>SecretAccessKey"`
		Session string    `xml:"AssumeRoleWithWebIdentityResult>Credentials>SessionToken"`
		Ends    time.Time `xml:"AssumeRoleWithWebIdentityResult>Credentials>Expiration"`
		Message string    `xml:"Error>Message"`
	}
	err = xml.Unmarshal(text, &a)
	if k = (keys{a.ID, a.Secret, a.Session, a.Ends}); answer.StatusCode != http.StatusOK || err != nil || !k.complete() {
		return keys{}, fmt.Errorf("%s answered %s: %s", r.URL.Host, answer.Status, strings.ToValidUTF8(a.Message[:min(len(a.Message), errorMax)], ""))
	}
	return k, nil
}

// containers are the addresses, other than loopback, at which containers get credentials without TLS.
var containers = []string{"169.254.170.2", "169.254.170.23", "fd00:ec2::23"}

// ofContainer gets credentials from the service of the container.
func (c *cloud) ofContainer(ctx context.Context) (k keys, err error) {
	at := os.Getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI")
	if path := os.Getenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"); path != "" {
		at = "http://169.254.170.2" + path
	}
	if at == "" {
		return k, errNone
	}
	u, err := url.Parse(at)
	if err != nil {
		return k, errors.New("the address is not a URL")
	}
	ip, _ := netip.ParseAddr(u.Hostname())
	known := ip.IsLoopback() || u.Hostname() == "localhost"
	for _, host := range containers {
		known = known || u.Hostname() == host
	}
	if u.Scheme != "https" && !known {
		return k, fmt.Errorf("the address %s is neither on this machine nor an https:// address", u.Host)
	}
	token := os.Getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN")
	if file := os.Getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"); file != "" {
		if token, err = readToken(file); err != nil {
			return k, err
		}
	}
	header := map[string]string{}
	if token != "" {
		header["Authorization"] = token
	}
	text, err := c.get(ctx, http.MethodGet, at, header)
	if err != nil {
		return k, err
	}
	return given(text)
}

// ofMachine gets credentials from the metadata service of the machine, version 2.
func (c *cloud) ofMachine(ctx context.Context) (k keys, err error) {
	if os.Getenv("AWS_EC2_METADATA_DISABLED") == "true" {
		return k, errNone
	}
	at := strings.TrimSuffix(cmp.Or(os.Getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT"), "http://169.254.169.254"), "/") + "/latest/"
	token, err := c.get(ctx, http.MethodPut, at+"api/token", map[string]string{"X-Aws-Ec2-Metadata-Token-Ttl-Seconds": "300"})
	if err != nil {
		return k, err
	}
	header := map[string]string{"X-Aws-Ec2-Metadata-Token": string(token)}
	roles, err := c.get(ctx, http.MethodGet, at+"meta-data/iam/security-credentials/", header)
	if err != nil {
		return k, err
	}
	role, _, _ := strings.Cut(strings.TrimSpace(string(roles)), "\n")
	text, err := c.get(ctx, http.MethodGet, at+"meta-data/iam/security-credentials/"+url.PathEscape(strings.TrimSpace(role)), header)
	if err != nil {
		return k, err
	}
	return given(text)
}

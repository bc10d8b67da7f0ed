package blob

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Parts of a signature of the protocol, version 4.
const (
	algorithm  = "AWS4-HMAC-SHA256"
	dateForm   = "20060102T150405Z"
	dayLength  = len("20060102")
	headerSum  = "X-Amz-Content-Sha256"
	headerDate = "X-Amz-Date"
)

// sign signs a request. The path and the query of the request must be encoded by escape, and its header
// headerSum must be the digest of its body.
func sign(r *http.Request, k *keys, region string, now time.Time) {
	date := now.UTC().Format(dateForm)
	r.Header.Set(headerDate, date)
	if k.session != "" {
		r.Header.Set("X-Amz-Security-Token", k.session)
	}
	values := map[string]string{"host": r.URL.Host}
	names := []string{"host"}
	for name, v := range r.Header {
		if name = strings.ToLower(name); strings.HasPrefix(name, "x-amz-") || name == "content-md5" {
			names, values[name] = append(names, name), strings.TrimSpace(strings.Join(v, ","))
		}
	}
	slices.Sort(names)
	var headers strings.Builder
	for _, name := range names {
		headers.WriteString(name + ":" + values[name] + "\n")
	}
	signed := strings.Join(names, ";")
	request := strings.Join([]string{r.Method, r.URL.EscapedPath(), r.URL.RawQuery, headers.String(), signed, r.Header.Get(headerSum)}, "\n")
	sum := sha256.Sum256([]byte(request))
	scope := date[:dayLength] + "/" + region + "/s3/aws4_request"
	key := []byte("AWS4" + k.secret)
	for part := range strings.SplitSeq(scope, "/") {
		key = mac(key, part)
	}
	signature := mac(key, algorithm+"\n"+date+"\n"+scope+"\n"+hex.EncodeToString(sum[:]))
	r.Header.Set("Authorization", algorithm+" Credential="+k.id+"/"+scope+",SignedHeaders="+signed+",Signature="+hex.EncodeToString(signature))
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// escape encodes a text in the form that signatures require: it encodes all bytes except letters, digits, -
// . _ ~ and the bytes in keep.
func escape(text, keep string) string {
	const hexDigits = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(text) {
		c := text[i]
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~"+keep, c) >= 0 {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('%')
		b.WriteByte(hexDigits[c>>4])
		b.WriteByte(hexDigits[c&15])
	}
	return b.String()
}

// query encodes parameters, sorted by their names.
func query(parameters map[string]string) string {
	parts := make([]string, 0, len(parameters))
	for name, value := range parameters {
		parts = append(parts, escape(name, "")+"="+escape(value, ""))
	}
	slices.Sort(parts)
	return strings.Join(parts, "&")
}

package skein

import "net/http"

// TransportOf answers calls by a handler in this process.
func TransportOf(h http.Handler) http.RoundTripper { return handlerTransport{h} }

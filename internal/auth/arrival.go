package auth

import (
	"net/http"
	"time"
)

// arrivalLife is how long a browser keeps the cookie of a sign-in by an identity provider.
const arrivalLife = 10 * time.Minute

// ArrivalCookie returns the header that stores the cookie of a sign-in by an identity provider. With the
// value "", the header deletes the cookie.
func ArrivalCookie(value string, secure bool) string {
	c := http.Cookie{Name: cookieName(secure) + "-arrival", Value: value, Path: "/", HttpOnly: true, Secure: secure, SameSite: http.SameSiteLaxMode,
		MaxAge: int(arrivalLife / time.Second)}
	if value == "" {
		c.MaxAge = -1
	}
	return c.String()
}

// ArrivalOf returns the value of the cookie that ArrivalCookie stores. It returns "" if the request has none,
// or several.
func ArrivalOf(r *http.Request, secure bool) string {
	all := r.CookiesNamed(cookieName(secure) + "-arrival")
	if len(all) != 1 {
		return ""
	}
	return all[0].Value
}

package api

// SignIn is the credential of a sign-in: a token, a one-time code, or a name with its password.
type SignIn struct {
	Token    string `json:"token,omitempty" maxLength:"200" doc:"Of the kind api."`
	Code     string `json:"code,omitempty" maxLength:"200" doc:"A code that skein open, or the start of a node, has printed. It is valid once."`
	User     string `json:"user,omitempty" maxLength:"200"`
	Password string `json:"password,omitempty" maxLength:"1024"`
}

// Session is a sign-in of a person, in a browser or a terminal.
type Session struct {
	ID        string `json:"id"`
	User      string `json:"user" doc:"The user of its calls."`
	CreatedAt Time   `json:"created_at" format:"date-time"`
	UsedAt    Time   `json:"used_at" format:"date-time" doc:"The last use, to some minutes."`
	ExpiresAt Time   `json:"expires_at" format:"date-time" doc:"When it ends if it is not used before."`
	EndsAt    Time   `json:"ends_at" format:"date-time" doc:"When it ends in any case."`
	Address   string `json:"address" doc:"The address from which the person signed in."`
	Agent     string `json:"agent" doc:"The name that the program that signed in gave (User-Agent)."`
	Current   bool   `json:"current" doc:"true: this call is made by it."`
}

// SignInCode opens one session.
type SignInCode struct {
	Code      string `json:"code" doc:"The code. It is valid once, at POST /session. As the fragment #code=CODE of the address of the page, it signs a browser in."`
	ExpiresAt Time   `json:"expires_at" format:"date-time"`
}

// IdentityProvider is a service with which people can sign in.
type IdentityProvider struct {
	Name  string `json:"name"`
	Login string `json:"login" doc:"The path to which a browser goes to sign in. The parameter return is the path of the page that follows."`
}

package api

// Token is a right to call. What its holder shows is never told again.
type Token struct {
	ID        int64  `json:"id"`
	Name      string `json:"name" doc:"On whose behalf calls with it are made."`
	Kind      string `json:"kind" enum:"api,worker,node" doc:"What it may call: api what people and programs call, worker what workers call, node what nodes of a cluster say to each other."`
	State     string `json:"state" enum:"valid,expired,revoked"`
	CreatedAt Time   `json:"created_at" format:"date-time"`
	CreatedBy string `json:"created_by"`
	ExpiresAt *Time  `json:"expires_at" format:"date-time"`
	RevokedAt *Time  `json:"revoked_at" format:"date-time"`
	// Verbs and Namespaces are those to which a token of the kind api was narrowed.
	Verbs      []string `json:"verbs,omitempty" doc:"Absent: all of its kind."`
	Namespaces []string `json:"namespaces,omitempty" doc:"Absent: all, and the cluster."`
}

// NewToken is a token with what its holder shows.
type NewToken struct {
	Token
	Secret string `json:"secret" doc:"To be sent as Authorization: Bearer SECRET. It is told here and never again."`
}

// TokenRequest asks for a token.
type TokenRequest struct {
	Kind    string `json:"kind" enum:"api,worker,node"`
	Name    string `json:"name" minLength:"1" maxLength:"100" doc:"Unique among the tokens that are not revoked."`
	Expires *Time  `json:"expires_at,omitempty" format:"date-time" doc:"Absent: it does not expire."`
	// Verbs and Namespaces narrow a token of the kind api.
	Verbs      []string `json:"verbs,omitempty" maxItems:"64" doc:"Only for the kind api: the verbs that the token has, of yours. Absent: all."`
	Namespaces []string `json:"namespaces,omitempty" maxItems:"100" doc:"Only for the kind api: the namespaces in which the token has them. Absent: all, and the cluster."`
}

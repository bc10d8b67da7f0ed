package api

// Token is a credential for calls. The secret of a token is shown only once, when the token is made.
type Token struct {
	ID        int64   `json:"id"`
	Name      string  `json:"name"`
	Kind      string  `json:"kind" enum:"api,worker,node,invite,certificate" doc:"What it may call: api what people and programs call, worker what workers call, node what nodes of a cluster say to each other. invite is an invitation of a worker, certificate the certificate of one that has joined, or of a node."`
	State     string  `json:"state" enum:"valid,expired,revoked,ended" doc:"ended: its user is disabled or gone, its maker has lost the rights that it needs, or a token above it has ended."`
	CreatedAt Time    `json:"created_at" format:"date-time"`
	CreatedBy string  `json:"created_by"`
	ExpiresAt *Time   `json:"expires_at" format:"date-time" doc:"Its own end, or that of a token above it if that is earlier."`
	RevokedAt *Time   `json:"revoked_at" format:"date-time"`
	User      *string `json:"user" doc:"The user or service of a token of the kind api, which has its rights."`
	Parent    *int64  `json:"parent" doc:"The token that made it: it has no right that its parent does not have, and ends with it."`
	// Replaces and ReplacedBy are IDs of tokens.
	Replaces   *int64 `json:"replaces" doc:"The token of which it is the successor."`
	ReplacedBy *int64 `json:"replaced_by" doc:"Its successor. The replaced token is still valid until expires_at."`
	// Verbs and Namespaces restrict a token of the kind api.
	Verbs      []string `json:"verbs,omitempty" doc:"Absent: all of its kind."`
	Namespaces []string `json:"namespaces,omitempty" doc:"Absent: all, and the cluster."`
	Node       string   `json:"node,omitempty" doc:"Of the certificate of a node: the name of the node."`
	// Worker, Groups, Slots, Uses and Used are set for an invitation or a certificate.
	Worker string   `json:"worker,omitempty" doc:"Of an invitation or a certificate: the name of the worker. In an invitation, * at the end stands for any text."`
	Groups []string `json:"groups,omitempty" doc:"Of an invitation or a certificate: the groups that the worker may belong to."`
	Slots  int32    `json:"slots,omitempty" doc:"Of an invitation or a certificate: the most slots of the worker. Absent: no bound."`
	Uses   int32    `json:"uses,omitempty" doc:"Of an invitation: the most workers that may join by it."`
	Used   int32    `json:"used,omitempty" doc:"Of an invitation: the workers that have joined by it."`
}

// NewToken is a token with its secret.
type NewToken struct {
	Token
	Secret string `json:"secret" doc:"The secret, to be sent as Authorization: Bearer SECRET. Only this answer has it."`
	// Authority is the fingerprint by which a joining worker recognizes the nodes.
	Authority string `json:"authority,omitempty" doc:"Of an invitation: the fingerprint of the root by which the worker knows the nodes."`
}

// RotateRequest requests the successor of a token.
type RotateRequest struct {
	Grace string `json:"grace,omitempty" maxLength:"20" doc:"The time for which the old token stays valid, such as 1h; at most 7d, 0s: it ends at once. Absent: 24h. It never ends later than before."`
}

// RotatedToken is the successor of a token with its secret, and the old token.
type RotatedToken struct {
	NewToken
	Old Token `json:"old"`
}

// TokenRequest requests a token.
type TokenRequest struct {
	Kind         string `json:"kind" enum:"api,worker,node,invite"`
	Name         string `json:"name" minLength:"1" maxLength:"100" doc:"Unique among the tokens that are not revoked. Of an invitation: the name of the worker; * at its end stands for any text."`
	Expires      *Time  `json:"expires_at,omitempty" format:"date-time" doc:"Absent: a token of the kind api expires in 90 days, an invitation in an hour, a token of another kind does not expire."`
	NeverExpires bool   `json:"never_expires,omitempty" doc:"The token is valid until it is revoked, or until the token that makes it ends."`
	For          string `json:"for,omitempty" maxLength:"100" doc:"Only for the kind api: the user or service that the token is for. Absent: you, or the service api if you are no user. A token for another user needs the verb user.impersonate."`
	// Verbs and Namespaces restrict a token of the kind api.
	Verbs      []string `json:"verbs,omitempty" maxItems:"64" doc:"Only for the kind api: the verbs that the token has, of yours. Absent: all."`
	Namespaces []string `json:"namespaces,omitempty" maxItems:"100" doc:"Only for the kinds api and invite: the namespaces in which the token has them, or whose tasks the worker runs. Absent: all, and the cluster."`
	// Groups, Slots and Uses limit the worker of an invitation.
	Groups []string `json:"groups,omitempty" maxItems:"100" doc:"Only for the kind invite: the groups that the worker may belong to. Absent: none."`
	Slots  int32    `json:"slots,omitempty" minimum:"0" doc:"Only for the kind invite: the most slots of the worker. Absent: no bound."`
	Uses   int32    `json:"uses,omitempty" minimum:"0" doc:"Only for the kind invite: the most workers that may join by it. Absent: 1."`
}

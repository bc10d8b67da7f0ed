package skein

import (
	"context"
	"net/http"
	"net/url"

	api "skein.dev/skein/sdk/api/v1"
)

// Alerts makes the calls about alerts and channels.
type Alerts struct{ c *Client }

// NewAlerts returns the Alerts of a client's server.
func NewAlerts(c *Client) Alerts { return Alerts{c} }

// AlertFilter selects alerts.
type AlertFilter struct {
	Namespace string // "" selects all namespaces
	Workflow  string // NAME or NAMESPACE/NAME; "" selects all workflows
	State     string // open, acknowledged or resolved; if "", All decides
	All       bool   // include resolved alerts
}

// List lists a page of alerts, newest first.
func (a Alerts) List(ctx context.Context, f AlertFilter, cursor string, limit int) (page api.List[api.Alert], err error) {
	k := newCall(http.MethodGet, nil, "alerts")
	if k.query = pageQuery(cursor, limit); k.query == nil {
		k.query = url.Values{}
	}
	for name, value := range map[string]string{"namespace": f.Namespace, "workflow": f.Workflow, "state": f.State} {
		if value != "" {
			k.query.Set(name, value)
		}
	}
	if f.All {
		k.query.Set("all", "true")
	}
	_, err = a.c.do(ctx, k, &page)
	return page, err
}

// Get reads an alert and its messages.
func (a Alerts) Get(ctx context.Context, id string) (is api.AlertDetail, err error) {
	_, err = a.c.do(ctx, newCall(http.MethodGet, nil, "alerts", id), &is)
	return is, err
}

// Acknowledge records that the caller takes care of an alert.
func (a Alerts) Acknowledge(ctx context.Context, id, reason string) (api.AlertDetail, error) {
	return a.change(ctx, id, "ack", reason)
}

// Resolve ends an alert. Its channels are notified.
func (a Alerts) Resolve(ctx context.Context, id, reason string) (api.AlertDetail, error) {
	return a.change(ctx, id, "resolve", reason)
}

func (a Alerts) change(ctx context.Context, id, verb, reason string) (is api.AlertDetail, err error) {
	k := newCall(http.MethodPost, nil, "alerts", id)
	k.verb = verb
	k.body = api.AlertRequest{Reason: reason}
	_, err = a.c.do(ctx, k, &is)
	return is, err
}

// Cluster reads the alert rules about the cluster.
func (a Alerts) Cluster(ctx context.Context) (is api.ClusterAlerts, err error) {
	_, err = a.c.do(ctx, newCall(http.MethodGet, nil, "cluster-alerts"), &is)
	return is, err
}

// SetCluster replaces the alert rules about the cluster.
func (a Alerts) SetCluster(ctx context.Context, r api.ClusterAlertsRequest) (is api.ClusterAlerts, err error) {
	k := newCall(http.MethodPut, nil, "cluster-alerts")
	k.body = r
	_, err = a.c.do(ctx, k, &is)
	return is, err
}

// Channels lists a page of channels, by namespace and name.
func (a Alerts) Channels(ctx context.Context, namespace, cursor string, limit int) (page api.List[api.Channel], err error) {
	k := newCall(http.MethodGet, nil, "channels")
	if k.query = pageQuery(cursor, limit); k.query == nil {
		k.query = url.Values{}
	}
	if namespace != "" {
		k.query.Set("namespace", namespace)
	}
	_, err = a.c.do(ctx, k, &page)
	return page, err
}

// SetChannel creates or changes a channel.
func (a Alerts) SetChannel(ctx context.Context, namespace, name string, config map[string]any) (is api.Channel, err error) {
	k := newCall(http.MethodPut, nil, "channels", namespace, name)
	k.body = api.ChannelRequest{Config: config}
	_, err = a.c.do(ctx, k, &is)
	return is, err
}

// DeleteChannel removes a channel.
func (a Alerts) DeleteChannel(ctx context.Context, namespace, name string) error {
	_, err := a.c.do(ctx, newCall(http.MethodDelete, nil, "channels", namespace, name), nil)
	return err
}

// TestChannel sends a test message through a channel, once.
func (a Alerts) TestChannel(ctx context.Context, namespace, name string) (is api.ChannelTest, err error) {
	k := newCall(http.MethodPost, nil, "channels", namespace, name)
	k.verb = "test"
	_, err = a.c.do(ctx, k, &is)
	return is, err
}

// Silences lists a page of silences, newest first. With all, it also lists silences that have ended.
func (a Alerts) Silences(ctx context.Context, namespace string, all bool, cursor string, limit int) (page api.List[api.Silence], err error) {
	k := newCall(http.MethodGet, nil, "silences")
	if k.query = pageQuery(cursor, limit); k.query == nil {
		k.query = url.Values{}
	}
	if namespace != "" {
		k.query.Set("namespace", namespace)
	}
	if all {
		k.query.Set("all", "true")
	}
	_, err = a.c.do(ctx, k, &page)
	return page, err
}

// Silence suppresses the messages about new alerts of a namespace for a time. The namespace * means all
// namespaces.
func (a Alerts) Silence(ctx context.Context, namespace string, r api.SilenceRequest) (is api.Silence, err error) {
	k := newCall(http.MethodPost, nil, "silences", namespace)
	k.body = r
	_, err = a.c.do(ctx, k, &is)
	return is, err
}

// EndSilence ends a silence early.
func (a Alerts) EndSilence(ctx context.Context, namespace, id string) (is api.Silence, err error) {
	k := newCall(http.MethodPost, nil, "silences", namespace, id)
	k.verb = "end"
	_, err = a.c.do(ctx, k, &is)
	return is, err
}

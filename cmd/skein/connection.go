package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

func connectionCmd(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "connection", Short: "Manage connections, with which tasks of a namespace reach other systems",
		Long: `Manages connections. A connection has the address of a system and the names of the secrets for it. Tasks use a
connection by its name. So a workflow file contains no address and no secret, and the same file uses another
system in another namespace.`,
		Example: "  skein connection set shop/crm http --url https://crm.example.com --token-secret CRM_TOKEN\n  skein connection test shop/crm",
	}
	needsVerb(cmd)
	cmd.AddCommand(connectionSetCmd(c), connectionListCmd(c), connectionTestCmd(c), connectionDeleteCmd(c))
	return cmd
}

func connectionFullName(n api.Connection) string { return n.Namespace + "/" + n.Name }

// connectionFlags are the values of a connection on the command line.
type connectionFlags struct {
	url, user, password, token, test string
	headers, headerSecrets           []string
	host, database, tls, caFile      string
	path                             string
	key, knownHosts                  string
	brokers                          []string
	sasl, certificateFile            string
	servers                          []string
	credentials, domain, vhost       string
	region, session                  string
	create                           bool
	port                             int
}

func (f *connectionFlags) add(set *pflag.FlagSet) {
	set.StringVar(&f.url, "url", "", "http: beginning of the URL of every request; clickhouse: URL of its HTTP interface; sqs: URL of the service (default: that of AWS in the region)")
	set.StringVar(&f.token, "token-secret", "", "http: secret with the token of the header Authorization: Bearer; nats: secret with the token")
	set.StringArrayVar(&f.headers, "header", nil, "http: header of every request, as NAME=VALUE")
	set.StringArrayVar(&f.headerSecrets, "header-secret", nil, "http: header whose value is a secret, as NAME=SECRET")
	set.StringVar(&f.test, "test-path", "", "http: path that skein connection test reads (default /)")
	set.StringVar(&f.host, "host", "", "postgres, mysql, ssh, redis, mqtt, amqp: host name or IP address")
	set.IntVar(&f.port, "port", 0, "postgres, mysql, ssh, redis, mqtt, amqp: the port (default 5432, 3306, 22, 6379, 8883, 5671; without TLS 1883 and 5672)")
	set.StringVar(&f.database, "database", "", "postgres, mysql, clickhouse: name of the database (default of postgres: the user's name); redis: its number")
	set.StringVar(&f.tls, "tls", "", "postgres, mysql, kafka, nats, redis, mqtt, amqp: verify | encrypt (accept any certificate) | disable (default verify)")
	set.StringVar(&f.caFile, "ca-file", "", "postgres, mysql, clickhouse, kafka, nats, redis, mqtt, amqp, sqs: PEM file of the authority that signs the server's certificate")
	set.StringVar(&f.path, "path", "", "sqlite: absolute path of the file on the machine that runs the task")
	set.BoolVar(&f.create, "create", false, "sqlite: create the file if it does not exist")
	set.StringVar(&f.key, "key-secret", "", "ssh and brokers: secret with the private key, without a passphrase")
	set.StringVar(&f.knownHosts, "known-hosts-file", "", "ssh: file with the keys of the machine, as ssh-keyscan prints them")
	set.StringVar(&f.user, "user", "", "name of the user at the system; sqs: ID of the access key")
	set.StringVar(&f.password, "password-secret", "", "secret with the user's password; sqs: secret with the secret access key")
	set.StringSliceVar(&f.brokers, "broker", nil, "kafka: HOST:PORT of a broker; one that answers is enough")
	set.StringVar(&f.sasl, "sasl", "", "kafka: mechanism with which the user signs in: plain | scram-sha-256 | scram-sha-512")
	set.StringVar(&f.certificateFile, "certificate-file", "", "kafka, nats, redis, mqtt, amqp: PEM file of the certificate that the server asks for; its key is a secret")
	set.StringSliceVar(&f.servers, "server", nil, "nats: HOST:PORT of a server; one that answers is enough")
	set.StringVar(&f.credentials, "credentials-secret", "", "nats: secret with the content of a file of credentials, instead of a user or a token; sqs: secret with an access key as JSON")
	set.StringVar(&f.domain, "domain", "", "nats: domain of JetStream (default: that of the servers)")
	set.StringVar(&f.vhost, "vhost", "", "amqp: virtual host (default /)")
	set.StringVar(&f.region, "region", "", "sqs: region, for example eu-central-1")
	set.StringVar(&f.session, "session-token-secret", "", "sqs: secret with the session token, if the access key belongs to temporary credentials")
	notSettings(set, "session-token-secret", "region", "vhost", "server", "credentials-secret", "domain", "broker", "sasl", "certificate-file", "url", "token-secret", "header", "header-secret", "test-path", "host", "port", "database", "tls", "ca-file", "path", "create", "user", "password-secret", "key-secret", "known-hosts-file")
}

func secretRef(name string) map[string]any { return map[string]any{"secret": name} }

// pairsOf reads texts of the form NAME=VALUE, and calls see for each.
func pairsOf(flag string, all []string, see func(name, value string)) error {
	for _, text := range all {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" || value == "" {
			return usage("--%s %q: use NAME=VALUE", flag, text)
		}
		see(name, value)
	}
	return nil
}

// config makes a connection of a type with the given values. The server checks which values belong together.
func (f *connectionFlags) config(kind string) (map[string]any, error) {
	is := map[string]any{}
	set := func(key, value string) {
		if value != "" {
			is[key] = value
		}
	}
	set("url", f.url)
	set("user", f.user)
	set("test", f.test)
	set("host", f.host)
	set("database", f.database)
	set("tls", f.tls)
	set("path", f.path)
	if f.create {
		is["create"] = true
	}
	if f.port != 0 {
		is["port"] = f.port
	}
	if f.password != "" {
		is["password"] = secretRef(f.password)
	}
	if f.session != "" {
		is["session_token"] = secretRef(f.session)
	}
	if f.token != "" {
		is["token"] = secretRef(f.token)
	}
	if f.key != "" {
		is["key"] = secretRef(f.key)
	}
	if f.credentials != "" {
		is["credentials"] = secretRef(f.credentials)
	}
	set("domain", f.domain)
	set("vhost", f.vhost)
	set("region", f.region)
	if len(f.brokers) > 0 {
		is["brokers"] = f.brokers
	}
	if len(f.servers) > 0 {
		is["servers"] = f.servers
	}
	if f.sasl != "" {
		is["sasl"] = map[string]any{"mechanism": f.sasl, "user": f.user, "password": is["password"]}
		delete(is, "user")
		delete(is, "password")
	}
	for key, path := range map[string]string{"ca": f.caFile, "known_hosts": f.knownHosts, "certificate": f.certificateFile} {
		if path == "" {
			continue
		}
		text, err := startOf(path)
		if err != nil {
			return nil, err
		}
		is[key] = text
	}
	headers := map[string]any{}
	err := pairsOf("header", f.headers, func(name, value string) { headers[name] = value })
	if err == nil {
		err = pairsOf("header-secret", f.headerSecrets, func(name, value string) { headers[name] = secretRef(value) })
	}
	if len(headers) > 0 {
		is["headers"] = headers
	}
	return map[string]any{kind: is}, err
}

// caBytesMax bounds the file with the certificate of an authority, and the file with the keys of a machine.
const caBytesMax = 64 << 10

// startOf reads a file, at most caBytesMax bytes of it.
func startOf(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, caBytesMax))
	return string(text), err
}

func connectionSetCmd(c *cli) *cobra.Command {
	var f connectionFlags
	cmd := &cobra.Command{
		Use: "set NS/NAME TYPE", Short: "Create or replace a connection",
		Long: `Creates a connection, or replaces all of its values. TYPE is http, postgres, mysql (also for MariaDB), sqlite,
clickhouse, ssh, kafka, nats, redis, mqtt, amqp or sqs. Passwords and tokens are secrets of the namespace (skein secret set), and the connection contains their
names. Attempts that start afterwards use the new values.`,
		Example: `  skein connection set shop/crm http --url https://crm.example.com/api --token-secret CRM_TOKEN
  skein connection set warehouse postgres --host db.example.com --user etl --password-secret WAREHOUSE --database dw
  skein connection set shop/orders mysql --host db.example.com --user etl --password-secret ORDERS --database shop
  skein connection set shop/k1 kafka --broker kafka-1.example.com:9093 --sasl scram-sha-512 --user skein --password-secret KAFKA`,
		Args: cobra.ExactArgs(2), ValidArgsFunction: argument,
		RunE: c.do(c.writing(func(ctx context.Context, s *session, args []string) error {
			namespace, name, err := nameAt("connection", args[0])
			if err != nil {
				return err
			}
			config, err := f.config(args[1])
			if err != nil {
				return err
			}
			is, err := skein.NewConnections(s.Client).Set(ctx, namespace, name, config)
			if err != nil {
				return err
			}
			c.say("connection %s (%s) is set, its version is %d", connectionFullName(is), is.Type, is.Version)
			return nil
		})),
	}
	f.add(cmd.Flags())
	return cmd
}

func connectionListCmd(c *cli) *cobra.Command {
	var namespace string
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the connections", Args: cobra.NoArgs,
		Example: "  skein connection list\n  skein connection list --namespace shop -o yaml",
		RunE: c.do(c.reading(func(ctx context.Context, s *session, _ []string) error {
			all, err := everyPage(func(cursor string) (api.List[api.Connection], error) {
				return skein.NewConnections(s.Client).List(ctx, namespace, cursor, 1000)
			})
			if err != nil {
				return err
			}
			return show(c, all, connectionFullName, []column[api.Connection]{
				{head: "CONNECTION", get: connectionFullName},
				{head: "TYPE", get: func(n api.Connection) string { return n.Type }},
				{head: "VERSION", get: func(n api.Connection) string { return strconv.FormatInt(n.Version, 10) }},
				{head: "CHANGED", get: func(n api.Connection) string { return c.when(&n.ModifiedAt) }},
				{head: "BY", get: func(n api.Connection) string { return orDash(n.User) }},
			})
		})),
	}
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "only connections of this namespace")
	notSettings(cmd.Flags(), "namespace")
	return cmd
}

func connectionTestCmd(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "test NS/NAME", Short: "Test a connection, from the node that answers",
		Long: `Tests a connection once, from the node that answers the command: with a GET request, or with a database session.
The test changes nothing. Workers on other machines may reach other addresses.`,
		Example: "  skein connection test shop/crm",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: argument,
		RunE: c.do(c.writing(byName("connection", func(ctx context.Context, s *session, namespace, name string) error {
			is, err := skein.NewConnections(s.Client).Test(ctx, namespace, name)
			if err != nil {
				return err
			}
			if !is.OK {
				return fmt.Errorf("connection %s/%s cannot be used: %s", namespace, name, text(is.Error))
			}
			c.say("connection %s/%s works: %s", namespace, name, text(is.Found))
			return nil
		}))),
	}
}

func connectionDeleteCmd(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "delete NS/NAME", Short: "Remove a connection; tasks that use it fail to start",
		Example: "  skein connection delete shop/crm",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: argument,
		RunE: c.do(c.writing(byName("connection", func(ctx context.Context, s *session, namespace, name string) error {
			if err := skein.NewConnections(s.Client).Delete(ctx, namespace, name); err != nil {
				return err
			}
			c.say("connection %s/%s is removed", namespace, name)
			return nil
		}))),
	}
}

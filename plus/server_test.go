//go:build linux

package plus_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"skein.dev/skein/internal/cluster/nettest"
)

// libraries returns the folder with the libraries of a server in Java that "make NAME" puts into the cache.
func libraries(t *testing.T, name string) string {
	t.Helper()
	pom, err := os.ReadFile(filepath.Join("../tools", name, "pom.xml"))
	if err != nil {
		t.Fatal(err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(pom)
	dir := filepath.Join(cache, "skein", name+"-"+hex.EncodeToString(sum[:])[:12])
	_, missing := os.Stat(dir)
	if _, err := exec.LookPath("java"); err == nil && missing == nil {
		return dir
	}
	why := "there is no java, or its libraries are not in the cache: run make " + name
	if os.Getenv("CI") == "true" {
		t.Fatal(why)
	}
	t.Skip(why)
	return ""
}

// broker is a real Kafka broker with two listeners: one without TLS, and one with TLS and SASL.
type broker struct {
	t              *testing.T
	dir, libraries string
	plain, secured string // addresses
	certificate    string // PEM
	cmd            *exec.Cmd
	client         *kgo.Client
	admin          *kadm.Client
}

// port returns a free port.
func port(t *testing.T) int {
	t.Helper()
	is, err := nettest.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return is
}

// pair makes a certificate for 127.0.0.1 and its key in PKCS8. It is an authority by itself.
func pair(t *testing.T) (certificate, key string) {
	t.Helper()
	_, certificate, key = signed(t, nil)
	return certificate, key
}

// signer is an authority.
type signer struct {
	is  *x509.Certificate
	key *ecdsa.PrivateKey
}

// signed makes a certificate for 127.0.0.1 and its key in PKCS8. If by is nil, it is an authority. Otherwise
// by signs it, and it is also one for the user skein.
func signed(t *testing.T, by *signer) (own *signer, certificate, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	is := x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kafka"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(24 * time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	own = &signer{&is, k}
	if by == nil {
		by = own
	} else {
		is.SerialNumber, is.Subject.CommonName, is.IsCA, is.KeyUsage = big.NewInt(2), "skein", false, x509.KeyUsageDigitalSignature
	}
	der, err := x509.CreateCertificate(rand.Reader, &is, by.is, &k.PublicKey, by.key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	text := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return own, text("CERTIFICATE", der), text("PRIVATE KEY", raw)
}

// startBroker starts a broker in KRaft mode. The broker ends with the test.
func startBroker(t *testing.T) *broker {
	t.Helper()
	b := &broker{t: t, dir: t.TempDir(), libraries: libraries(t, "kafka")}
	b.plain, b.secured = fmt.Sprintf("127.0.0.1:%d", port(t)), fmt.Sprintf("127.0.0.1:%d", port(t))
	controller := fmt.Sprintf("127.0.0.1:%d", port(t))
	var key string
	b.certificate, key = pair(t)
	inLine := func(text string) string { return strings.ReplaceAll(strings.TrimSpace(text), "\n", "\\n") }
	b.write("server.properties", `process.roles=broker,controller
node.id=1
controller.quorum.voters=1@`+controller+`
listeners=PLAINTEXT://`+b.plain+`,SECURED://`+b.secured+`,CONTROLLER://`+controller+`
advertised.listeners=PLAINTEXT://`+b.plain+`,SECURED://`+b.secured+`
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURED:SASL_SSL
listener.name.secured.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
listener.name.secured.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.secured.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.secured.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_skein="canary-8842";
listener.name.secured.ssl.keystore.type=PEM
listener.name.secured.ssl.keystore.certificate.chain=`+inLine(b.certificate)+`
listener.name.secured.ssl.keystore.key=`+inLine(key)+`
log.dirs=`+b.dir+`/data
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
auto.create.topics.enable=false
`)
	b.write("log4j2.properties", `rootLogger.level=error
rootLogger.appenderRef.stdout.ref=STDOUT
appender.stdout.type=Console
appender.stdout.name=STDOUT
appender.stdout.layout.type=PatternLayout
appender.stdout.layout.pattern=%d %p %m%n
`)
	if out, err := b.java("kafka.tools.StorageTool", "format", "-t", "5L6g3nShT-eMCtK--X86sw", "-c", filepath.Join(b.dir, "server.properties"),
		"--add-scram", "SCRAM-SHA-256=[name=skein,password=canary-8842]", "--add-scram", "SCRAM-SHA-512=[name=skein,password=canary-8842]").CombinedOutput(); err != nil {
		t.Fatalf("format the folder of the broker: %v\n%s", err, out)
	}
	b.start()
	t.Cleanup(b.kill)
	var err error
	if b.client, err = kgo.NewClient(kgo.SeedBrokers(b.plain), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MetadataMinAge(50*time.Millisecond), kgo.MetadataMaxAge(time.Second)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.client.Close)
	b.admin = kadm.NewClient(b.client)
	return b
}

func (b *broker) write(name, text string) {
	b.t.Helper()
	if err := os.WriteFile(filepath.Join(b.dir, name), []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

func (b *broker) java(main string, args ...string) *exec.Cmd {
	cmd := exec.Command("java", append([]string{"-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dlog4j2.configurationFile=" + filepath.Join(b.dir, "log4j2.properties"),
		"-cp", filepath.Join(b.libraries, "*"), main}, args...)...)
	cmd.Dir = b.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// start starts the broker, and waits until it accepts connections.
func (b *broker) start() {
	b.t.Helper()
	log, err := os.OpenFile(filepath.Join(b.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		b.t.Fatal(err)
	}
	defer log.Close()
	b.cmd = b.java("kafka.Kafka", filepath.Join(b.dir, "server.properties"))
	b.cmd.Stdout, b.cmd.Stderr = log, log
	if err := b.cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	until(b.t, "the broker accepts connections", func() bool {
		conn, err := net.Dial("tcp", b.plain)
		if err != nil {
			return false
		}
		return conn.Close() == nil
	})
}

func (b *broker) kill() {
	_ = b.cmd.Process.Kill()
	_ = b.cmd.Wait()
}

// topic creates a topic.
func (b *broker) topic(name string, partitions int32) {
	b.t.Helper()
	until(b.t, "topic "+name+" is made", func() bool {
		ctx, cancel := context.WithTimeout(b.t.Context(), 20*time.Second)
		defer cancel()
		all, err := b.admin.CreateTopics(ctx, partitions, 1, nil, name)
		return err == nil && (all.Error() == nil || errors.Is(all.Error(), kerr.TopicAlreadyExists))
	})
}

// send sends records to the partitions of a topic in turn, without duplicates.
func (b *broker) send(topic string, partitions int, values ...string) {
	b.t.Helper()
	var all []*kgo.Record
	for i, v := range values {
		all = append(all, &kgo.Record{Topic: topic, Partition: int32(i % partitions), Value: []byte(v)})
	}
	if err := b.client.ProduceSync(b.t.Context(), all...).FirstErr(); err != nil {
		b.t.Fatal(err)
	}
}

// untilMax bounds a wait, so that a failing test ends.
const untilMax = 3 * time.Minute

func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for began := time.Now(); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > untilMax {
			t.Fatalf("still not: %s", what)
		}
	}
}

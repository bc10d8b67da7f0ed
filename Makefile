# Skein. `make` alone says what there is.

GO      ?= go
BIN     := bin/skein
# The packages of all modules: the Go SDK in sdk/go and skein-plus in plus are modules of their own, and go.work joins them.
ALL     := ./... ./sdk/go/... ./plus/...
# Concurrent packages are tested with the race detector; the others are pure or covered by these.
# In store/postgres the database is what is concurrent, so its suite runs without; the engine's is with.
# The longest come first, so that they do not run alone at the end.
RACED   := ./internal/app/... ./internal/cluster/... ./internal/engine/... ./internal/worker/... ./internal/server/... ./internal/store ./internal/store/memory \
           ./internal/registry/... ./internal/peer/... ./internal/dispatch ./internal/config ./internal/trigger/... ./internal/auth ./internal/inspect ./sdk/go/...
# SQLite is C translated to Go, and its memory is outside of Go's, where the race detector sees nothing: it only makes
# it thirty times as slow. So it is compiled without; the code around it is watched.
RACE    := -race -gcflags='modernc.org/...=-race=false'
# Of the store on SQLite the concurrent tests run with the detector.
SQLITE  := TestConformance(Ahead)?$$/(concurrent|life|unknown)|TestReadOnlyBesideTheWriter|TestLogStartsOver|RefusedAhead|IsAhead|WaitsForTheDisk|DisksThatFail|IsStaged
# These tests of raced packages are about amounts, and the detector makes them ten times as slow.
HEAVY   := ^(TestYear|TestManyViewers|TestAnswersAreBounded|TestHistoryInPages|TestFiresInLargePages)$$
# This one runs with the detector at a tenth of its size, and without it at its whole size.
LARGE   := ^TestLargeRun$$
# Tests that take long, with clusters that mostly wait or with a server that takes minutes to build: etcd, ZooKeeper,
# Patroni, machines, moves by load, the OpenTelemetry Collector, Kafka through kills, RabbitMQ, SQS, Redis Cluster, skein with the tag plus, YARN, Spark, Docker. make clusters and make nightly run them.
CLUSTERS := ^(TestRegistries|TestAddedMachines|TestPatroni|TestLoadBecomesEven|TestCollector|TestKafka|TestKafkaThroughKills|TestYARN|TestSparkOnYARN|TestSparkMaster|TestAMQP|TestAMQP10|TestRedisCluster|TestDocker|TestDockerEnds|TestPodmanService|TestSQS|TestSQSHeld|TestKafkaOffsets|TestKafkaRates|TestOneProgram|TestNarrowedRulesInCluster)$$
PLAIN   := $$($(GO) list $(ALL) | grep -v -x -F "$$($(GO) list $(RACED))")
TIMEOUT ?= 18m
# What the tests call, as command:package of Debian.
NEEDED  := sh:dash python3:python3 gcc:gcc node:nodejs npm:npm chromium:chromium promtool:prometheus patroni:patroni etcd:etcd-server java:default-jre-headless podman:podman crun:crun slirp4netns:slirp4netns catatonit:catatonit busybox:busybox-static ssh:openssh-client
# Where PostgreSQL's own programs lie: initdb and postgres are not in the PATH.
PGBIN   := /usr/lib/postgresql/*/bin/postgres
# ZooKeeper's library, of which the tests start the server.
ZOOKEEPER := /usr/share/java/zookeeper.jar

.DEFAULT_GOAL := help

.PHONY: help
help: ## say what there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

.PHONY: run
run: build ## build, start a node on 127.0.0.1:8080 (the next free port if taken), load the examples, say what to try
	@exec $(BIN) dev

.PHONY: build
build: page ## build bin/skein, and bin/skein-plus with the sources of brokers
	@$(GO) build $(STAMPED) -o $(BIN) ./cmd/skein
	@$(GO) build -o $(BIN)-plus ./plus/cmd/skein-plus

.PHONY: test
test: tools vet webtest ## install what the tests need and run them all (≤ 30 minutes on 2 cores)
	$(TEST) $(RACE) -skip '$(HEAVY)|$(CLUSTERS)' $(RACED)
	$(TEST) $(RACE) -run '$(SQLITE)' ./internal/store/sqlite
	$(TEST) -skip '$(CLUSTERS)' $(PLAIN)
	$(TEST) -run '$(HEAVY)|$(LARGE)' ./internal/app ./internal/engine ./internal/server

# vet has looked at everything before. More packages and tests run at a time than there are cores, because many of them
# wait for leases, shutdowns and the disk.
TEST    := $(GO) test -vet=off -timeout $(TIMEOUT) -p 4 -parallel 4

# What `make check` compares your tree with.
SINCE   ?= HEAD
.PHONY: check
check: ## look for mistakes in a minute or two: vet, style, and the short tests of what has changed since SINCE (default HEAD)
	$(GO) vet $(ALL)
	$(GO) test -short ./internal/arch $$({ git diff --name-only $(SINCE) -- '*.go'; git ls-files -o --exclude-standard -- '*.go'; } \
		| xargs -rn1 dirname | sort -u | while read -r d; do ls $$d/*.go >/dev/null 2>&1 && echo ./$$d; done)
	@if $(NODE) && [ -n "$$(git diff --name-only $(SINCE) -- web; git ls-files -o --exclude-standard -- web)" ]; then \
		$(MAKE) -s web && cd web && npm run -s types && npm run -s lint && npm run -s unit; fi

# Whether Node is there, and new enough for the page.
NODE    := node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 20 || a === 20 && b >= 19 ? 0 : 1)' 2>/dev/null

# Tells the program from which sources its page should have been built, so that skein version can name a stale one.
STAMPED = -ldflags "-X skein.dev/skein/web/ui.sources=$$(node web/tools/stamp.mjs 2>/dev/null)"

.PHONY: page
page:
	@if ! $(NODE); then echo "the web page is not built: it needs Node 20.19 or newer; the rest works" >&2; \
	elif ! $(MAKE) -s web; then echo "the web page is not built, for the reason above; the rest works" >&2; fi

.PHONY: web
web: ## build the web page into the program, if its sources have changed (needs Node 20.19 or newer)
	@$(NODE) || { echo "make web needs Node 20.19 or newer" >&2; exit 1; }
	@cd web && is=$$(node tools/stamp.mjs) && if ! grep -qs "$$is" ui/static/app/build.json; then \
		cmp -s package-lock.json node_modules/.lock || { npm ci --no-progress >/dev/null && cp package-lock.json node_modules/.lock || exit 1; }; \
		npm run -s build; fi

.PHONY: webtest
webtest: web ## check the web page: types, lint, unit tests, flows in Chromium on the real program
	@$(GO) build $(STAMPED) -o $(BIN) ./cmd/skein
	@cd web && npm run -s types && npm run -s lint && npm run -s unit && npm run -s e2e

.PHONY: screenshots
screenshots: build ## take the pictures of docs/ui on the real program (SHOTS narrows them by name)
	@cd web && npm run -s shots

.PHONY: bench-ui
bench-ui: build ## measure the page against its budgets and write docs/performance-page.md (SHORT=1: small data; ONLY=runs|tasks|logs|editor|viewers|hours prints only)
	@cd web && SKEIN_PERF_SHORT=$(SHORT) SKEIN_PERF_ONLY=$(ONLY) npm run -s perf

.PHONY: vet
vet: cross ## look for mistakes without running anything
	$(GO) vet $(ALL)
	@# Each module is complete without the other's go.mod, as for a program that imports the SDK.
	@GOWORK=off $(GO) list -deps -test ./... >/dev/null && for m in sdk/go plus; do ( cd $$m && GOWORK=off $(GO) list -deps -test ./... >/dev/null ) || exit 1; done

# Where the command line and the Go SDK work as a client; servers and workers need Linux.
CLIENTS := darwin/amd64 windows/amd64

.PHONY: cross
cross: ## check the types for other systems: the command line, the SDK and their tests as a client, all of it for linux/arm64
	@$(GO) build -o bin/cross ./tools/cross
	@for t in $(CLIENTS); do bin/cross $$t . ./api/... ./skeintest ./sdk/go/... ./cmd/skein & all="$$all $$!"; done; \
		bin/cross linux/arm64 $(ALL) || exit 1; for p in $$all; do wait $$p || exit 1; done

.PHONY: tools
tools: ## install what the tests need: Go modules, sh, python3, a C compiler for the race detector, PostgreSQL 14 or newer, pgbouncer, slapd, MariaDB, ClickHouse, NATS, Redis, Mosquitto, promtool, etcd, ZooKeeper, Patroni, podman, iproute2
	@$(GO) mod download
	@missing=; for t in $(NEEDED); do \
		command -v $${t%%:*} >/dev/null || missing="$$missing $${t##*:}"; done; \
	case "$$missing" in *gcc*) missing="$$missing libc6-dev";; esac; \
	case "$$missing" in *chromium*) missing="$$missing fonts-dejavu-core fonts-noto-core";; esac; \
	ls $(PGBIN) >/dev/null 2>&1 && command -v psql >/dev/null || missing="$$missing postgresql"; \
	PATH="$$PATH:/usr/sbin" command -v pgbouncer >/dev/null || missing="$$missing pgbouncer"; \
	python3 -c 'import venv, ensurepip' 2>/dev/null || missing="$$missing python3-venv"; \
	for t in nats-server redis-server mosquitto; do \
		PATH="$$PATH:/usr/sbin" command -v $$t >/dev/null || missing="$$missing $$t"; done; \
	[ -x /usr/sbin/sshd ] || missing="$$missing openssh-server"; \
	PATH="$$PATH:/usr/sbin" command -v slapd >/dev/null || missing="$$missing slapd"; \
	PATH="$$PATH:/usr/sbin" command -v mariadbd >/dev/null || missing="$$missing mariadb-server-core"; \
	PATH="$$PATH:/usr/sbin" command -v clickhouse-server >/dev/null || missing="$$missing clickhouse-server"; \
	[ -e $(ZOOKEEPER) ] || missing="$$missing libzookeeper-java"; \
	/usr/bin/python3 -c 'import etcd' 2>/dev/null || missing="$$missing python3-etcd"; \
	PATH="$$PATH:/usr/sbin:/sbin" command -v ip >/dev/null || missing="$$missing iproute2"; \
	if [ -z "$$missing" ]; then $(MAKE) -s provider s3server; exit 0; fi; \
	give_up() { echo "make tools: the tests need$$missing, and $$1." >&2; \
		echo "Install them by hand (PostgreSQL 14 or newer, its programs in $(PGBIN)); a server need not run." >&2; exit 1; }; \
	command -v apt-get >/dev/null || give_up "there is no apt-get here"; \
	sudo=; [ "$$(id -u)" = 0 ] || { command -v sudo >/dev/null || give_up "this is neither root nor has it sudo"; sudo=sudo; }; \
	echo "installing$$missing" >&2; \
	$$sudo apt-get update -q && $$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends $$missing \
		|| give_up "apt-get could not install them"
	@$(MAKE) -s provider s3server

# The OpenID provider that the tests of sign-in start, in the cache. The name of its folder is that of the lock file's content.
PROVIDER := internal/app/testdata/provider
PROVIDED  = $${XDG_CACHE_HOME:-$$HOME/.cache}/skein/oidc-provider-$$(sha256sum $(PROVIDER)/package-lock.json | cut -c1-12)

.PHONY: provider
provider:
	@to=$(PROVIDED); [ -e "$$to/node_modules/.complete" ] && exit 0; \
	mkdir -p "$$to" && cp $(PROVIDER)/package.json $(PROVIDER)/package-lock.json "$$to" && \
	npm ci --ignore-scripts --no-audit --no-fund --no-progress --prefix "$$to" >/dev/null && touch "$$to/node_modules/.complete" || \
	echo "make tools: npm could not install the OpenID provider of the tests; they are skipped, or fail with CI=true" >&2

# The S3 server of the tests, in the cache. The name of its file is that of the content of its module's go.sum.
S3SERVER := tools/s3server

.PHONY: s3server
s3server:
	@to=$${XDG_CACHE_HOME:-$$HOME/.cache}/skein/s3server-$$(sha256sum $(S3SERVER)/go.sum | cut -c1-12); [ -e "$$to" ] && exit 0; \
	mkdir -p "$$(dirname "$$to")" && echo "building the S3 server of the tests, once: some minutes" >&2 && \
	( cd $(S3SERVER) && GOWORK=off $(GO) build -trimpath -ldflags '-s -w' -o "$$to.new" github.com/versity/versitygw/cmd/versitygw ) && mv "$$to.new" "$$to" || \
	echo "make tools: the S3 server of the tests could not be built; they are skipped, or fail with CI=true" >&2

# The servers in Java of the tests in make clusters, in the cache: the libraries of Apache Kafka, Hadoop (YARN and MapReduce), Spark and ElasticMQ. They need Maven.
# The name of the folder is that of the content of the pom.xml.
LIBRARIES := kafka hadoop spark elasticmq

.PHONY: $(LIBRARIES)
$(LIBRARIES):
	@to=$${XDG_CACHE_HOME:-$$HOME/.cache}/skein/$@-$$(sha256sum tools/$@/pom.xml | cut -c1-12); [ -e "$$to" ] && exit 0; \
	mkdir -p "$$(dirname "$$to")" && rm -rf "$$to.new" && mvn -q -B -f tools/$@/pom.xml dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$$to.new" && mv "$$to.new" "$$to" || \
	echo "make $@: Maven could not get the libraries; their tests are skipped, or fail with CI=true" >&2

# The broker of TestAMQP, from Debian.
.PHONY: rabbitmq
rabbitmq:
	@[ -e /usr/lib/rabbitmq/bin/rabbitmq-server ] && exit 0; \
	sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; \
	$$sudo apt-get update -q && $$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends rabbitmq-server || \
	echo "make rabbitmq: apt-get could not install RabbitMQ; its test is skipped, or fails with CI=true" >&2

# Docker's engine of TestDocker, from Debian.
.PHONY: docker
docker:
	@[ -e /usr/sbin/dockerd ] && exit 0; \
	sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; \
	$$sudo apt-get update -q && $$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends docker.io || \
	echo "make docker: apt-get could not install Docker; its tests are skipped, or fail with CI=true" >&2

# The OpenTelemetry Collector of TestCollector, in the cache, likewise.
COLLECTOR := tools/collector

.PHONY: collector
collector:
	@to=$${XDG_CACHE_HOME:-$$HOME/.cache}/skein/collector-$$(sha256sum $(COLLECTOR)/go.sum | cut -c1-12); [ -e "$$to" ] && exit 0; \
	mkdir -p "$$(dirname "$$to")" && echo "building the OpenTelemetry Collector of the tests, once: some minutes" >&2 && \
	( cd $(COLLECTOR) && GOWORK=off $(GO) build -trimpath -ldflags '-s -w' -o "$$to.new" . ) && mv "$$to.new" "$$to" || \
	echo "make tools: the OpenTelemetry Collector of the tests could not be built; they are skipped, or fail with CI=true" >&2

SEEDS ?= 1000000
.PHONY: soak
soak: ## simulate SEEDS histories full of faults (default 1,000,000: about half an hour per core), print what is violated
	$(GO) test ./internal/sim -run 'TestSoak$$' -seeds $(SEEDS) -timeout 0 -v -count 1

FUZZTIME ?= 30s
.PHONY: fuzz
fuzz: ## fuzz each reader of foreign input for FUZZTIME (default 30s)
	@grep -r --include='*_test.go' '^func Fuzz' . | sed 's|^\(.*\)/[^/]*:func \(Fuzz[A-Za-z]*\)(.*|\1 \2|' | sort | while read -r dir name; do \
		echo "$$dir $$name"; \
		$(GO) test "$$dir" -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 20x </dev/null || exit 1; \
	done # by default each input that reaches something new is made smaller for a minute, and the rate shown is 0

SPAN ?= 10m
SEED ?=
REGISTRY ?=
.PHONY: chaos
chaos: tools ## have real nodes and PostgreSQL killed, frozen, cut off for SPAN (default 10m; SEED repeats the order; REGISTRY=etcd|zookeeper adds a registry and its faults), check and print a table
	SKEIN_CHAOS=$(SPAN) SKEIN_CHAOS_SEED=$(SEED) SKEIN_CHAOS_REGISTRY=$(REGISTRY) $(GO) test ./cmd/skein -run 'TestChaos$$' -timeout 0 -v -count 1

.PHONY: clusters
clusters: tools collector $(LIBRARIES) rabbitmq docker ## run the short tests of clusters with etcd, ZooKeeper and Patroni, of added machines, of shards that move by load, of traces, of Kafka through kills and its rates, of RabbitMQ, SQS and Redis Cluster, of jobs of YARN and Spark, and of containers of Docker
	$(GO) test ./internal/app ./internal/kind/container ./cmd/skein ./plus -run '$(CLUSTERS)' -timeout 20m -v -count 1

.PHONY: networks
networks: tools ## have nodes, workers and PostgreSQL on machines of their own cut off, delayed, lossy for SPAN (default 10m), check and print a table
	SKEIN_NETWORKS=$(SPAN) $(GO) test ./cmd/skein -run 'TestNetworksThatFail$$' -timeout 0 -v -count 1

ROUNDS ?= 5
.PHONY: patroni
patroni: tools ## kill the primary of a PostgreSQL cluster under Patroni ROUNDS times (default 5) synchronously and asynchronously, with Patroni's default TTL
	SKEIN_PATRONI=$(ROUNDS) $(GO) test ./cmd/skein -run 'TestPatroni$$' -timeout 0 -v -count 1

KILLS ?= 1000
.PHONY: kills
kills: tools ## kill attempts, servers, workers and keepers KILLS times (default 1000: some ten minutes), count what is left
	SKEIN_KILLS=$(KILLS) $(GO) test ./cmd/skein -run 'TestNoOrphans$$' -timeout 0 -v -count 1
	SKEIN_EVENTS=10000 $(GO) test ./cmd/skein -run 'TestEventsThroughKills$$' -timeout 0 -v -count 1

YEAR ?= 1000x365
.PHONY: year
year: tools ## play a year of 1,000 hourly workflows on both databases, print rows and sizes (YEAR=WORKFLOWSxDAYS)
	SKEIN_YEAR=$(YEAR) $(GO) test ./internal/app -run 'TestYearAtScale$$' -timeout 0 -v -count 1

# The version of a release, as 1.2.3.
VERSION ?= 0.0.0
# The folder for base roots of the image. Without it, each release makes its own from today's packages of Debian.
ROOTS   ?=
# The file of the key that signs the checksums. Without it, the key is in the variable SKEIN_RELEASE_KEY. SIGNERS replaces deploy/allowed_signers.
SIGN    ?=
SIGNERS ?=

.PHONY: release
release: web ## make what people install in dist/: archives, packages, a container image, a Helm chart, bill of materials, signed checksums (VERSION=1.2.3; SIGN=KEY; ONLY=linux/amd64: for one system; ROOTS=FOLDER keeps the base of the image)
	@cd tools/release && GOWORK=off $(GO) run . -version $(VERSION) -only "$(ONLY)" -epoch $$(git log -1 --format=%ct 2>/dev/null || echo 0) \
		-revision "$$(git rev-parse HEAD 2>/dev/null)" -base "$(abspath $(ROOTS))" -key "$(abspath $(SIGN))" -signers "$(abspath $(SIGNERS))" \
		-stamp "$$(node ../../web/tools/stamp.mjs)" -root ../.. -out ../../dist

STEPS   ?=
.PHONY: nightly
nightly: ## make a release, install and try each part of it, run the long tests, print a table (STEPS='deb image'; SEEDS, KILLS, SPAN, ROUNDS and YEAR as above)
	@VERSION=$(VERSION) ROOTS="$(ROOTS)" SEEDS=$(SEEDS) KILLS=$(KILLS) SPAN=$(SPAN) ROUNDS=$(ROUNDS) YEAR=$(YEAR) GO="$(GO)" tools/nightly/run.sh $(STEPS)

.PHONY: generate
generate: ## make the code of sdk/go/api/worker/v1 from its .proto again (fetches its tools as Go modules)
	@cd tools/protogen && GOWORK=off $(GO) run . ../../sdk/go/api worker/v1/worker.proto

.PHONY: docs
docs: ## make the reference pages of docs/ again
	$(GO) test ./internal/metric -run 'TestDocument$$' -count 1 -update
	$(GO) test ./internal/arch -run 'TestErrorsPage$$' -count 1 -update
	$(GO) test ./internal/config -run 'TestConfigPage$$' -count 1 -update
	$(GO) test ./cmd/skein -run 'TestCommandPage$$' -count 1 -update-docs

.PHONY: bench
bench: build ## measure this machine: every shape, beside the raw limit of its disk
	@$(BIN) bench --shape all

.PHONY: clean
clean: ## remove what was built
	rm -rf bin dist

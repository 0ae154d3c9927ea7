"""What is in the left column of the site.

GitHub would show Sphinx's directive for it as a block of code, so it stands in no document: it is put at the end of
those that have others below them when they are read.
"""

from collections.abc import Iterator

from sphinx.application import Sphinx
from sphinx.util.matching import patfilter

#: The documents below one, by heading. `*` stands for those that are named nowhere here; Sphinx warns of a document
#: that is below none. What is before a `|` is said in the column in place of the document's title.
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
    "ARCHITECTURE": {"": ["docs/architecture/*", "core/*/README"]},
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

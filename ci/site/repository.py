"""Makes Sphinx treat the repository's Markdown as GitHub does."""

import shutil
from pathlib import Path
from urllib.parse import urldefrag

from docutils import nodes  # type: ignore[import-untyped]
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

GITHUB = "https://github.com/steadlock/steadlock"
BLOB = f"{GITHUB}/blob/main/"
#: The folder of the repository in which `site-api` collects the references that other tools write. On the site: `api/`.
REFERENCES = "target/api"


def setup(app: Sphinx) -> dict[str, bool]:
    for transform in (LinksFromPackages, LinksToFiles, LinksToReferences, PicturesOfOthers, LanguagesOfFences):
        app.add_transform(transform)
    app.connect("build-finished", finish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


class LinksFromPackages(SphinxTransform):
    """Turns links to our documents on GitHub into links to pages. A package's README has such links, as it is published
    without the other documents."""

    default_priority = 4

    def apply(self, **_: object) -> None:
        for link in list(self.document.findall(nodes.reference)):
            address, anchor = urldefrag(link.get("refuri", ""))
            if address.startswith(BLOB) and address.endswith(".md"):
                page = addnodes.pending_xref(
                    "",
                    nodes.inline("", "", *link.children),
                    refdomain="doc",
                    refdoc=self.env.docname,
                    refexplicit=True,
                    reftarget=address.removeprefix(BLOB).removesuffix(".md"),
                    reftargetid=anchor or None,
                    reftype="myst",
                )
                page.source, page.line = link.source, link.line
                link.replace_self(page)


class LinksToFiles(SphinxTransform):
    """Links files and folders that are not pages to GitHub. MyST warns of those that do not exist."""

    default_priority = 5

    def apply(self, **_: object) -> None:
        for link in [
            *self.document.findall(addnodes.download_reference),
            *self.document.findall(addnodes.pending_xref),
        ]:
            file = self.file(link) if link.get("reftype") == "myst" else None
            if file and file.is_relative_to(self.env.srcdir) and file.exists():
                shown = "tree" if file.is_dir() else "blob"
                where = file.relative_to(self.env.srcdir).as_posix()
                link.replace_self(nodes.reference("", "", *link.children, refuri=f"{GITHUB}/{shown}/main/{where}"))

    def file(self, link: nodes.Element) -> Path | None:
        """Returns the file that a link names, or `None` if it is a page or an anchor of the same page."""
        if link["refdomain"] == "doc":
            name = link["reftarget"]
            return None if name in self.env.found_docs else Path(self.env.doc2path(name))
        path = urldefrag(link["reftarget"]).url
        return Path(self.env.relfn2path(path, self.env.docname)[1]) if path else None


class LinksToReferences(SphinxTransform):
    """Links the pages of other tools that docs/references.md names, if they were written."""

    default_priority = 5

    def apply(self, **_: object) -> None:
        if self.env.docname != "docs/references":
            return
        for name in list(self.document.findall(nodes.literal)):
            page = name.astext().removeprefix("api/")
            if (self.env.srcdir / REFERENCES / page).is_file():
                name.replace_self(nodes.reference("", "", name.deepcopy(), refuri=f"../api/{page}"))


class PicturesOfOthers(SphinxTransform):
    """Replaces pictures on other servers, such as badges, by their text: a page must load nothing from elsewhere."""

    default_priority = 5

    def apply(self, **_: object) -> None:
        for picture in list(self.document.findall(nodes.image)):
            if "://" in picture["uri"]:
                picture.replace_self(nodes.Text(picture.get("alt", "")))


class LanguagesOfFences(SphinxTransform):
    """Shortens the languages of code blocks: `rust,no_run` becomes `rust`."""

    default_priority = 5

    def apply(self, **_: object) -> None:
        for block in self.document.findall(nodes.literal_block):
            if "language" in block:
                block["language"] = block["language"].partition(",")[0]


def finish(app: Sphinx, failure: Exception | None) -> None:
    """Copies the references into the site, and the first page to index.html."""
    if failure is not None:
        return
    if (app.srcdir / REFERENCES).exists():
        shutil.copytree(app.srcdir / REFERENCES, app.outdir / "api", dirs_exist_ok=True)
    shutil.copyfile(app.outdir / f"{app.config.root_doc}.html", app.outdir / "index.html")

"""Makes local Maven repositories."""

from pathlib import Path


def without_ours(folder: Path) -> Path:
    """Makes a folder a local repository with links to all third-party artifacts of this machine, and none of ours."""
    usual = Path.home() / ".m2" / "repository"
    usual.mkdir(parents=True, exist_ok=True)
    parents = (usual, usual / "io", usual / "io" / "github")
    (folder / parents[-1].relative_to(usual)).mkdir(parents=True)
    for entry in (entry for parent in parents for entry in parent.glob("*")):
        if entry.is_dir() and entry not in (*parents, usual / "io" / "github" / "steadlock"):
            (folder / entry.relative_to(usual)).symlink_to(entry)
    return folder

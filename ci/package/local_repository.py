"""Local repositories of Maven."""

from pathlib import Path


def without_ours(folder: Path) -> Path:
    """Makes the folder one with everything that this machine has of others, and nothing of ours."""
    usual = Path.home() / ".m2" / "repository"
    usual.mkdir(parents=True, exist_ok=True)
    parents = (usual, usual / "io", usual / "io" / "github")
    (folder / parents[-1].relative_to(usual)).mkdir(parents=True)
    for entry in (entry for parent in parents for entry in parent.glob("*")):
        if entry.is_dir() and entry not in (*parents, usual / "io" / "github" / "steadlock"):
            (folder / entry.relative_to(usual)).symlink_to(entry)
    return folder
